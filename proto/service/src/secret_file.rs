//! Secrets from files, stdin and the environment; never from the command line.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rendezvous_wire::secret::Secret;
use zeroize::Zeroizing;

/// Longest secret that is read.
pub const MAX_SECRET: usize = 16 * 1024;

/// Why there is no usable secret. `origin` says where it was looked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It could not be read.
    #[error("cannot read the secret from {origin}")]
    Read {
        /// File name, `stdin` or variable.
        origin: String,
        /// Why.
        source: io::Error,
    },
    /// Others may read the file.
    #[error("{origin} holds a secret, but its mode {mode:03o} lets group or others read it; use chmod 600")]
    Exposed {
        /// File name.
        origin: String,
        /// Permission bits.
        mode: u32,
    },
    /// More than [`MAX_SECRET`] bytes.
    #[error("the secret in {origin} is longer than {MAX_SECRET} bytes")]
    TooLong {
        /// File name, `stdin` or variable.
        origin: String,
    },
    /// Nothing but white space.
    #[error("{origin} holds no secret")]
    Empty {
        /// File name, `stdin` or variable.
        origin: String,
    },
    /// Not printable ASCII text on one line.
    #[error("the secret in {origin} must be one line of printable ASCII text")]
    Text {
        /// File name, `stdin` or variable.
        origin: String,
    },
}

/// Reads a secret from a file, or from stdin when the path is `-`.
///
/// A regular file that group or others may read is refused. White space at both ends is dropped.
///
/// # Errors
///
/// See [`SecretError`].
pub fn read(path: &Path) -> Result<Secret, SecretError> {
    if path == Path::new("-") {
        return from_reader(io::stdin().lock(), "stdin");
    }
    let origin = path.display().to_string();
    let unreadable = |source| SecretError::Read {
        origin: path.display().to_string(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    // The open file is asked, not the path: the path may name another file by now.
    let mode = exposed_mode(&file.metadata().map_err(unreadable)?);
    match mode {
        Some(mode) => Err(SecretError::Exposed { origin, mode }),
        None => from_reader(file, &origin),
    }
}

/// The permission bits of a regular file, if they let group or others read it.
fn exposed_mode(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.mode() & 0o777;
    (metadata.is_file() && mode & 0o044 != 0).then_some(mode)
}

/// Reads a secret up to the end of `reader`; `origin` names it in errors.
///
/// # Errors
///
/// See [`SecretError`].
pub fn from_reader(reader: impl Read, origin: &str) -> Result<Secret, SecretError> {
    let limit = MAX_SECRET + 1;
    // One allocation of the full size, so that no copy is left behind by growth.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
    reader
        .take(limit as u64)
        .read_to_end(&mut bytes)
        .map_err(|source| SecretError::Read {
            origin: origin.to_owned(),
            source,
        })?;
    if bytes.len() == limit {
        return Err(SecretError::TooLong {
            origin: origin.to_owned(),
        });
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretError::Text {
        origin: origin.to_owned(),
    })?;
    parse(text, origin)
}

/// Takes a secret from an environment variable; `None` when it is unset or blank.
///
/// The variable stays in the environment: a program that starts others must remove it itself.
///
/// # Errors
///
/// See [`SecretError`].
pub fn from_env(variable: &str) -> Result<Option<Secret>, SecretError> {
    let Some(value) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let value = value.into_string().map(Zeroizing::new).map_err(|_| SecretError::Text {
        origin: variable.to_owned(),
    })?;
    if value.trim().is_empty() {
        return Ok(None);
    }
    parse(&value, variable).map(Some)
}

fn parse(text: &str, origin: &str) -> Result<Secret, SecretError> {
    let origin = || origin.to_owned();
    let text = text.trim();
    if text.is_empty() {
        return Err(SecretError::Empty { origin: origin() });
    }
    if text.len() > MAX_SECRET {
        return Err(SecretError::TooLong { origin: origin() });
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(SecretError::Text { origin: origin() });
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn trims_and_bounds() {
        let secret = from_reader(&b" token\r\n"[..], "stdin").expect("secret");
        assert_eq!(secret.expose(), "token");
        let longest = vec![b'x'; MAX_SECRET];
        from_reader(longest.as_slice(), "stdin").expect("longest");
        let error = from_reader(vec![b'x'; MAX_SECRET + 1].as_slice(), "stdin").expect_err("too long");
        assert!(matches!(error, SecretError::TooLong { .. }));
        for blank in ["", " \n"] {
            let error = from_reader(blank.as_bytes(), "stdin").expect_err("blank");
            assert!(matches!(error, SecretError::Empty { .. }));
        }
        for text in [&b"a\nb"[..], b"a b", b"a\x00b", b"\xff", "ä".as_bytes()] {
            let error = from_reader(text, "stdin").expect_err("text");
            assert!(matches!(error, SecretError::Text { .. }), "{text:?}");
        }
    }

    #[test]
    fn refuses_a_file_that_others_can_read() {
        let file = tempfile::NamedTempFile::new().expect("file");
        fs::write(file.path(), "token\n").expect("write");
        for (mode, exposed) in [
            (0o600, false),
            (0o400, false),
            (0o640, true),
            (0o604, true),
            (0o644, true),
        ] {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).expect("chmod");
            let secret = read(file.path());
            if exposed {
                let error = secret.expect_err("exposed");
                assert!(matches!(error, SecretError::Exposed { mode: m, .. } if m == mode));
                assert!(!error.to_string().contains("token"));
            } else {
                assert_eq!(secret.expect("private").expose(), "token");
            }
        }
        let missing = read(Path::new("/nonexistent/token")).expect_err("missing");
        assert!(matches!(missing, SecretError::Read { .. }));
    }
}
