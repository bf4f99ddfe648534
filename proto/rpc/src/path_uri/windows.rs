//! Windows paths: a drive or a share, then names.

use super::encoding::{decode, encode_segment};
use super::{PathUri, PathUriError, drive};

impl PathUri {
    /// The native Windows path: `C:\a` or `\\server\share\a`.
    ///
    /// # Errors
    ///
    /// When this is a POSIX path, or a name is no UTF-8 or has a character that Windows takes for a separator.
    pub fn to_windows(&self) -> Result<String, PathUriError> {
        let foreign = || PathUriError::Foreign {
            uri: self.as_str().to_owned(),
            os: "windows",
        };
        let rest = match (self.authority(), drive(self.path())) {
            ("", None) => return Err(foreign()),
            ("", Some(_)) => &self.path()[1..],
            _ => self.path(),
        };
        let mut native = if self.authority().is_empty() {
            String::new()
        } else {
            format!(r"\\{}", self.authority())
        };
        for (index, segment) in rest.split('/').enumerate() {
            let name = String::from_utf8(decode(segment)).map_err(|_| foreign())?;
            if name.contains(['/', '\\']) {
                return Err(foreign());
            }
            if index > 0 {
                native.push('\\');
            }
            native.push_str(&name);
        }
        if native.ends_with(':') {
            native.push('\\');
        }
        Ok(native)
    }

    /// The URI of a native Windows path with a drive and a root, or of a share.
    ///
    /// # Errors
    ///
    /// When the path has neither, or has a NUL in it.
    pub fn from_windows(path: &str) -> Result<Self, PathUriError> {
        if path.contains('\0') {
            return Err(PathUriError::Relative);
        }
        let slashed = path.replace('\\', "/");
        if let Some(share) = slashed.strip_prefix("//") {
            let (server, rest) = share.split_once('/').ok_or(PathUriError::Relative)?;
            let uri = Self::parse(&build(server, rest))?;
            return if uri.authority().is_empty() {
                Err(PathUriError::Relative)
            } else {
                Ok(uri)
            };
        }
        let rooted = format!("/{slashed}");
        if drive(&rooted).is_none() || rooted.len() < "/C:/".len() {
            return Err(PathUriError::Relative);
        }
        Self::parse(&build("", &slashed))
    }
}

/// Joins a relative Windows path to one.
pub(super) fn join(base: &PathUri, relative: &str) -> Result<PathUri, PathUriError> {
    let relative = relative.replace('\\', "/");
    let broken = || PathUriError::Join(relative.clone());
    if relative.starts_with("//") {
        return PathUri::from_windows(&relative);
    }
    let is_drive = matches!(relative.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if is_drive {
        return PathUri::from_windows(&relative).map_err(|_| broken());
    }
    let native = base.path()[1..].split('/').filter(|segment| !segment.is_empty());
    let mut names: Vec<String> = native
        .map(|segment| String::from_utf8_lossy(&decode(segment)).into_owned())
        .collect();
    if relative.starts_with('/') {
        names.truncate(1);
    }
    for name in relative.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                if names.len() > 1 {
                    names.pop();
                }
            }
            name => names.push(name.to_owned()),
        }
    }
    let mut path = names.join("/");
    if names.len() == 1 && base.authority().is_empty() {
        path.push('/');
    }
    PathUri::parse(&build(base.authority(), &path))
}

fn build(authority: &str, path: &str) -> String {
    let mut uri = format!("file://{authority}");
    for segment in path.split('/') {
        uri.push('/');
        encode_segment(segment.as_bytes(), &mut uri);
    }
    uri
}
