//! Which shell the user of this machine has.

use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

/// A shell that can be told `-lc COMMAND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shell {
    /// `bash`, `zsh` or `sh`.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
}

/// The shell that the user database names, else the one that `SHELL` names, else what this machine has of bash and sh.
/// Shells with another language, such as fish, are passed over.
pub fn detect() -> Shell {
    let entry = User::from_uid(Uid::effective()).ok().flatten().map(|user| user.shell);
    let variable = std::env::var_os("SHELL").map(PathBuf::from);
    choose([entry, variable].into_iter().flatten(), Path::is_file)
}

fn choose(wanted: impl Iterator<Item = PathBuf>, exists: impl Fn(&Path) -> bool) -> Shell {
    wanted
        .chain(["/bin/bash", "/usr/bin/bash", "/bin/sh"].map(PathBuf::from))
        .filter(|path| exists(path))
        .find_map(|path| {
            Some(Shell {
                name: known(&path)?,
                path,
            })
        })
        .unwrap_or_else(|| Shell {
            name: "sh",
            path: "/bin/sh".into(),
        })
}

fn known(path: &Path) -> Option<&'static str> {
    match path.file_name()?.to_str()? {
        "bash" => Some("bash"),
        "zsh" => Some("zsh"),
        "sh" | "dash" | "ash" => Some("sh"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_first_shell_that_exists_and_is_known() {
        for (wanted, present, expected) in [
            (
                vec!["/bin/zsh", "/bin/bash"],
                vec!["/bin/zsh", "/bin/bash"],
                ("zsh", "/bin/zsh"),
            ),
            (vec!["/bin/zsh", "/opt/bash"], vec!["/opt/bash"], ("bash", "/opt/bash")),
            (
                vec!["/usr/bin/fish"],
                vec!["/usr/bin/fish", "/bin/bash"],
                ("bash", "/bin/bash"),
            ),
            (vec!["/bin/dash"], vec!["/bin/dash"], ("sh", "/bin/dash")),
            (vec![], vec![], ("sh", "/bin/sh")),
        ] {
            let shell = choose(wanted.iter().map(PathBuf::from), |path| {
                present.iter().any(|p| path == Path::new(p))
            });
            assert_eq!((shell.name, shell.path.to_str().expect("text")), expected, "{wanted:?}");
        }
    }

    #[test]
    fn finds_one_on_this_machine() {
        assert!(detect().path.exists());
    }
}
