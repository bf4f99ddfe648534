//! Tokens from files.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rendezvous_wire::secret::Secret;

/// Longest token.
const MAX_TOKEN: u64 = 16 * 1024;

/// Reads a token that only its owner can read.
pub(super) fn read(path: &Path) -> anyhow::Result<Secret> {
    let shown = path.display();
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let mode = file.metadata().with_context(|| format!("cannot read {shown}"))?.mode();
    if mode & 0o077 != 0 {
        bail!("{shown} is readable by others; run: chmod 600 {shown}");
    }
    let mut text = String::new();
    let read = file.take(MAX_TOKEN + 1).read_to_string(&mut text);
    if read.with_context(|| format!("cannot read {shown}"))? as u64 > MAX_TOKEN {
        bail!("{shown} is too long for a token");
    }
    let token = Secret::new(text.trim());
    if token.is_blank() {
        bail!("{shown} is empty");
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        assert_eq!(write(" abc\n", 0o600).unwrap().expose(), "abc");
        for mode in [0o640, 0o604, 0o620] {
            assert!(write("abc", mode).is_err(), "{mode:o}");
        }
        assert!(write("\n", 0o600).is_err());
        assert!(write(&"x".repeat(20_000), 0o600).is_err());
        assert!(read(&folder.path().join("none")).is_err());
    }
}
