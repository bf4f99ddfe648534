//! Paths as absolute `file:` URIs.
//!
//! A URI says by its shape which system it belongs to: with an authority or a drive letter it is a Windows path, else a
//! POSIX one. A path of the other kind is kept and compared, and never turned into a native one. Bytes that are no
//! UTF-8 are percent-encoded. A native path that no such URI can say travels whole, as base64 behind [`OPAQUE_PREFIX`].

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

mod encoding;
mod windows;

use encoding::{decode, encode_segment, has_encoded_nul};

/// What the path of a URI begins with when the rest is a native path in base64 (URL alphabet, no padding).
pub const OPAQUE_PREFIX: &str = "/%00/bad/path/";

/// This system, as stock executors name it.
const OS: &str = if cfg!(target_os = "linux") {
    "linux"
} else if cfg!(target_os = "macos") {
    "macos"
} else if cfg!(windows) {
    "windows"
} else {
    "unix"
};

/// How a path is written natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// `/`-separated bytes.
    Posix,
    /// A drive or a share, and `\`.
    Windows,
}

/// A normalised absolute path of some system.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathUri {
    text: Box<str>,
    /// Where the URI's path begins in `text`.
    path_at: usize,
}

/// Why a text or a path is no path URI, or names no path here; whoever made it is at fault.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathUriError {
    /// No URI at all, or a relative one.
    #[error("invalid URI: {0}")]
    Syntax(#[from] url::ParseError),
    /// Another scheme than `file`.
    #[error("unsupported path URI scheme `{0}`")]
    Scheme(String),
    /// A query.
    #[error("query parameters are not allowed in path URIs")]
    Query,
    /// A fragment.
    #[error("fragments are not allowed in path URIs")]
    Fragment,
    /// A path of the other convention, or one that no system has.
    #[error("'{uri}' is invalid on '{os}'")]
    Foreign {
        /// The URI.
        uri: String,
        /// The system that was asked for.
        os: &'static str,
    },
    /// A native path that is not absolute.
    #[error("path is not absolute")]
    Relative,
    /// Something that cannot be joined to a path.
    #[error("cannot join {0:?} to a path")]
    Join(String),
}

impl PathUri {
    /// Reads and normalises a URI.
    ///
    /// # Errors
    ///
    /// When it is no absolute `file:` URI without query and fragment, or names a path that no system has.
    pub fn parse(text: &str) -> Result<Self, PathUriError> {
        let url = Url::parse(text)?;
        if url.scheme() != "file" {
            return Err(PathUriError::Scheme(url.scheme().to_owned()));
        }
        if url.query().is_some() {
            return Err(PathUriError::Query);
        }
        if url.fragment().is_some() {
            return Err(PathUriError::Fragment);
        }
        // What the parser gives is not always what it gives for that again: it drops a host before a drive letter only where
        // no empty segment stands between, and misses `..` behind a line break. Parsed again, the text means the same to
        // whoever reads it next.
        let url = Url::parse(url.as_str())?;
        let mut text = String::from(url);
        let path_at = "file://".len() + text["file://".len()..].find('/').unwrap_or(0);
        if let Some(letter) = drive(&text[path_at..]) {
            let upper = letter.to_ascii_uppercase().to_string();
            text.replace_range(path_at + 1..path_at + 2, &upper);
        }
        let uri = Self {
            text: text.into(),
            path_at,
        };
        if !uri.is_opaque() && has_encoded_nul(uri.path()) {
            return Err(uri.foreign());
        }
        Ok(uri)
    }

    /// The URI of a native POSIX path; `.`, `..` and doubled slashes are resolved without looking at links.
    ///
    /// # Errors
    ///
    /// When the path is not absolute or has a NUL in it.
    pub fn from_posix(path: &[u8]) -> Result<Self, PathUriError> {
        if path.first() != Some(&b'/') || path.contains(&0) {
            return Err(PathUriError::Relative);
        }
        let mut segments: Vec<&[u8]> = Vec::new();
        for segment in path.split(|byte| *byte == b'/') {
            match segment {
                b"" | b"." => {}
                b".." => {
                    segments.pop();
                }
                name => segments.push(name),
            }
        }
        let mut uri = String::with_capacity(path.len() + 16);
        uri.push_str("file://");
        for segment in &segments {
            uri.push('/');
            encode_segment(segment, &mut uri);
        }
        if segments.is_empty() {
            uri.push('/');
        }
        let plain = Self::parse(&uri)?;
        if plain.convention() == Convention::Posix {
            return Ok(plain);
        }
        let mut native = Vec::with_capacity(path.len());
        for segment in segments {
            native.push(b'/');
            native.extend_from_slice(segment);
        }
        Ok(Self::opaque(&native))
    }

    /// The URI of this system's path.
    ///
    /// # Errors
    ///
    /// When the path is not absolute or has a NUL in it.
    #[cfg(unix)]
    pub fn from_path(path: &std::path::Path) -> Result<Self, PathUriError> {
        use std::os::unix::ffi::OsStrExt as _;
        Self::from_posix(path.as_os_str().as_bytes())
    }

    /// The native POSIX path.
    ///
    /// # Errors
    ///
    /// When this is a Windows path, or base64 that is none or was not needed.
    pub fn to_posix(&self) -> Result<Vec<u8>, PathUriError> {
        if let Some(encoded) = self.path().strip_prefix(OPAQUE_PREFIX) {
            let native = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| self.foreign())?;
            return match Self::from_posix(&native) {
                Ok(again) if again == *self => Ok(native),
                _ => Err(self.foreign()),
            };
        }
        match self.convention() {
            Convention::Posix => {
                // As with stock peers, `file:///a/` is the path `/a`, also where that is no directory.
                let path = self.path().trim_end_matches('/');
                Ok(decode(if path.is_empty() { "/" } else { path }))
            }
            Convention::Windows => Err(self.foreign()),
        }
    }

    /// This system's path.
    ///
    /// # Errors
    ///
    /// As [`PathUri::to_posix`].
    #[cfg(unix)]
    pub fn to_path(&self) -> Result<std::path::PathBuf, PathUriError> {
        use std::os::unix::ffi::OsStringExt as _;
        Ok(std::ffi::OsString::from_vec(self.to_posix()?).into())
    }

    /// Which system's path this is. An opaque one counts as POSIX: only its own system can tell.
    pub fn convention(&self) -> Convention {
        if self.authority().is_empty() && drive(self.path()).is_none() {
            Convention::Posix
        } else {
            Convention::Windows
        }
    }

    /// Whether the path travels whole in base64, so that nobody may take it apart.
    pub fn is_opaque(&self) -> bool {
        self.authority().is_empty() && self.path().starts_with(OPAQUE_PREFIX)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The last name as UTF-8, what is not replaced; none for a root or an opaque path.
    pub fn file_name(&self) -> Option<String> {
        let (_, name) = self.split()?;
        Some(String::from_utf8_lossy(&decode(name)).into_owned())
    }

    /// The directory above; none for a root or an opaque path.
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.split()?;
        Self::parse(&self.text[..self.path_at + parent]).ok()
    }

    /// The path that `relative`, in this path's own convention, names when one stands here.
    ///
    /// An absolute one replaces this path (on Windows the drive or share stays). `..` goes no higher than the root.
    ///
    /// # Errors
    ///
    /// When this path is opaque, or `relative` has a NUL or a drive without a root.
    pub fn join(&self, relative: &[u8]) -> Result<Self, PathUriError> {
        let broken = || PathUriError::Join(String::from_utf8_lossy(relative).into_owned());
        if self.is_opaque() || relative.contains(&0) {
            return Err(broken());
        }
        if self.convention() == Convention::Windows {
            let text = std::str::from_utf8(relative).map_err(|_| broken())?;
            return windows::join(self, text);
        }
        if relative.first() == Some(&b'/') {
            return Self::from_posix(relative);
        }
        let mut native = decode(self.path());
        native.push(b'/');
        native.extend_from_slice(relative);
        Self::from_posix(&native)
    }

    fn authority(&self) -> &str {
        &self.text["file://".len()..self.path_at]
    }

    fn path(&self) -> &str {
        &self.text[self.path_at..]
    }

    /// Length of the parent's path (with its slash where it is a root), and the last segment.
    fn split(&self) -> Option<(usize, &str)> {
        if self.is_opaque() {
            return None;
        }
        let path = self.path().trim_end_matches('/');
        let at = path.rfind('/')?;
        let root = if drive(self.path()).is_some() {
            "/C:/".len()
        } else if self.authority().is_empty() {
            1
        } else {
            path[1..].find('/').map_or(path.len(), |share| share + 1)
        };
        if path.len() < root || (path.len() == root && root > 1) {
            return None;
        }
        Some((at.max(root), &path[at + 1..]))
    }

    fn opaque(native: &[u8]) -> Self {
        let text = format!("file://{OPAQUE_PREFIX}{}", URL_SAFE_NO_PAD.encode(native));
        Self {
            text: text.into(),
            path_at: "file://".len(),
        }
    }

    fn foreign(&self) -> PathUriError {
        PathUriError::Foreign {
            uri: self.text.as_ref().to_owned(),
            os: OS,
        }
    }
}

/// The drive letter that a URI's path begins with.
fn drive(path: &str) -> Option<char> {
    match path.as_bytes() {
        [b'/', letter, b':'] | [b'/', letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => {
            Some(char::from(*letter))
        }
        _ => None,
    }
}

impl fmt::Display for PathUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PathUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathUri({})", self.text)
    }
}

impl std::str::FromStr for PathUri {
    type Err = PathUriError;
    fn from_str(text: &str) -> Result<Self, PathUriError> {
        Self::parse(text)
    }
}

impl Serialize for PathUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for PathUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
