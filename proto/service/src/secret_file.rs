//! Secrets from files, stdin and the environment; never from the command line.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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

/// The folder of the secrets that systemd hands to a service (`LoadCredential=` and the like).
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Reads a secret from a file, or from stdin when the path is `-`.
///
/// A regular file that group or others may read is refused, except in the folder that `CREDENTIALS_DIRECTORY` names, if
/// that folder keeps others out: the group bits of systemd's files stand for the service's own entry in an access control
/// list. White space at both ends is dropped.
///
/// # Errors
///
/// See [`SecretError`].
pub fn read(path: &Path) -> Result<Secret, SecretError> {
    let credentials = std::env::var_os(CREDENTIALS_DIRECTORY).map(PathBuf::from);
    read_beside(path, credentials.as_deref())
}

fn read_beside(path: &Path, credentials: Option<&Path>) -> Result<Secret, SecretError> {
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
    let metadata = file.metadata().map_err(unreadable)?;
    match exposed_mode(&metadata) {
        Some(mode) if !credentials.is_some_and(|folder| is_credential(path, &metadata, folder)) => {
            Err(SecretError::Exposed { origin, mode })
        }
        _ => from_reader(file, &origin),
    }
}

/// The permission bits of a regular file, if they let group or others read it.
fn exposed_mode(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.mode() & 0o777;
    (metadata.is_file() && mode & 0o044 != 0).then_some(mode)
}

/// Whether the open file is a secret in systemd's folder, which nobody but root and we can enter.
fn is_credential(path: &Path, opened: &Metadata, folder: &Path) -> bool {
    let found = || {
        let folder = folder.canonicalize().ok()?;
        let path = path.canonicalize().ok()?;
        let entry = path.symlink_metadata().ok()?;
        // Nobody but root and we can put another file there.
        let is_it = (entry.dev(), entry.ino()) == (opened.dev(), opened.ino());
        Some(is_it && path.parent() == Some(&folder) && keeps_others_out(&folder.metadata().ok()?))
    };
    is_ours(opened) && opened.mode() & 0o022 == 0 && found() == Some(true)
}

/// Group bits count for nothing where the group is root's: they are the mask of an access control list.
fn keeps_others_out(folder: &Metadata) -> bool {
    let for_us = folder.mode() & 0o077 == 0;
    let for_our_list = folder.mode() & 0o027 == 0 && (folder.uid(), folder.gid()) == (0, 0);
    is_ours(folder) && (for_us || for_our_list)
}

/// Owned by root or by the user that we are.
fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw()
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
    fn takes_what_systemd_hands_over() {
        let around = tempfile::tempdir().expect("folder");
        let folder = around.path().join("credentials");
        fs::create_dir(&folder).expect("folder");
        let chmod = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
        let (inside, outside) = (folder.join("token"), around.path().join("token"));
        for path in [&inside, &outside] {
            fs::write(path, "token\n").expect("write");
            chmod(path, 0o440);
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink(&outside, &link).expect("link");
        let taken = |path: &Path, credentials| match read_beside(path, credentials) {
            Ok(secret) => secret.expose() == "token",
            Err(SecretError::Exposed { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        let known = Some(&*folder);
        // Files of systemd have these modes.
        for (folder_mode, mode, expected) in [
            (0o500, 0o440, true),
            (0o700, 0o440, true),
            (0o500, 0o444, true),
            (0o500, 0o460, false),
            (0o500, 0o442, false),
            (0o501, 0o440, false),
            (0o755, 0o440, false),
            (0o720, 0o440, false),
            // An access control list on a folder of root's; a real group otherwise.
            (0o550, 0o440, is_ours_and_roots(&folder)),
        ] {
            chmod(&inside, mode);
            chmod(&folder, folder_mode);
            assert_eq!(taken(&inside, known), expected, "{folder_mode:o} {mode:o}");
            chmod(&folder, 0o700);
        }
        chmod(&inside, 0o440);
        chmod(&folder, 0o500);
        assert!(taken(&inside, known));
        for (path, credentials) in [
            (&inside, None),
            (&inside, Some(around.path())),
            (&inside, Some(Path::new(""))),
            (&inside, Some(Path::new("/nonexistent"))),
            (&outside, known),
            (&link, known),
        ] {
            assert!(!taken(path, credentials), "{path:?} {credentials:?}");
        }
        chmod(&folder, 0o700);
    }

    fn is_ours_and_roots(path: &Path) -> bool {
        let metadata = fs::metadata(path).expect("metadata");
        (metadata.uid(), metadata.gid()) == (0, 0)
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
