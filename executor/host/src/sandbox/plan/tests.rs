use std::fs;
use std::os::unix::fs::symlink;

use super::super::profile::{Entry, FileAccess, Intent, Place, Profile};
use super::*;

use Access::{Deny, Read, Write};

/// A folder with `w/a/b/c`, `w/file` and `r/d`.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(tempfile::tempdir_in("/var/tmp").expect("a folder"));
        for folder in ["w/a/b/c", "r/d"] {
            fs::create_dir_all(ground.at(folder)).expect("made");
        }
        for name in super::super::PROTECTED {
            fs::create_dir_all(ground.at("w").join(name).join("full")).expect("made");
        }
        fs::write(ground.at("w/file"), "").expect("written");
        ground
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().expect("real").join(path)
    }

    fn plan(&self, entries: &[(Option<&str>, Access)]) -> Result<Plan, SandboxError> {
        let entries = entries.iter().map(|(path, access)| Entry {
            place: path.map_or(Place::Root, |path| Place::Path(self.at(path))),
            access: *access,
            skip_missing: false,
        });
        let intent = Intent {
            profile: Profile::Managed {
                files: FileAccess::Restricted {
                    entries: entries.collect(),
                    glob_depth: None,
                },
                network: Network::Restricted,
            },
            cwd: None,
            roots: Vec::new(),
            temporary: Vec::new(),
        };
        Plan::new(&Policy::resolve(&intent)?)
    }

    /// The mounts, in short: `r`ead, `w`rite, `h`idden folder, searchable `s`, hidden `f`ile, `l`ink.
    fn mounts(&self, entries: &[(Option<&str>, Access)]) -> Vec<String> {
        let plan = self.plan(entries).expect("a plan");
        let base = self.at("");
        let short =
            |letter: &str, path: &Path| format!("{letter} {}", path.strip_prefix(&base).expect("below").display());
        let mounts = plan.mounts.iter().map(|mount| match mount {
            Mount::Own { path, writable: false } => short("r", path),
            Mount::Own { path, writable: true } => short("w", path),
            Mount::HiddenFolder {
                path,
                searchable: false,
            } => short("h", path),
            Mount::HiddenFolder { path, searchable: true } => short("s", path),
            Mount::HiddenFile { path } => short("f", path),
            Mount::Link(link) => short("l", &link.at),
        });
        // Those on protected names stand in every writable folder.
        let is_protected = |mount: &String| super::super::PROTECTED.iter().any(|name| mount.ends_with(name));
        mounts.filter(|mount| !is_protected(mount)).collect()
    }
}

#[test]
fn what_is_in_force_anyway_needs_no_mount() {
    let ground = Ground::new();
    let root = (None, Read);
    assert_eq!(ground.mounts(&[root, (Some("r"), Read), (Some("r/d"), Read)]), [""; 0]);
    assert_eq!(ground.mounts(&[root, (Some("w"), Write)]), ["w w"]);
    assert_eq!(ground.mounts(&[(Some("r"), Read)]), ["r r"]);
    assert_eq!(ground.mounts(&[(Some("r"), Deny)]), [""; 0], "nothing is shown anyway");
    assert_eq!(ground.mounts(&[root, (Some("r"), Deny), (Some("r/d"), Deny)]), ["h r"]);
}

#[test]
fn folders_above_a_protected_path_cannot_be_renamed() {
    let ground = Ground::new();
    let mounts = ground.mounts(&[(None, Read), (Some("w"), Write), (Some("w/a/b/c"), Read)]);
    assert_eq!(mounts, ["w w", "w w/a", "w w/a/b", "r w/a/b/c"]);
    let nested = ground.mounts(&[
        (None, Read),
        (Some(""), Write),
        (Some("w"), Write),
        (Some("w/file"), Read),
    ]);
    assert!(
        nested.contains(&"w w".to_owned()) && nested.ends_with(&["r w/file".to_owned()]),
        "{nested:?}"
    );
}

#[test]
fn denied_paths_are_hidden_and_exceptions_shown() {
    let ground = Ground::new();
    let root = (None, Read);
    assert_eq!(
        ground.mounts(&[
            root,
            (Some("w/a"), Deny),
            (Some("w/a/b"), Read),
            (Some("w/a/b/c"), Write),
            (Some("w/file"), Deny)
        ]),
        ["s w/a", "r w/a/b", "w w/a/b/c", "f w/file"].map(String::from).to_vec(),
    );
}

#[test]
fn the_base_is_what_the_root_allows() {
    let ground = Ground::new();
    for (entries, base) in [
        (&[][..], Base::Empty),
        (&[(None, Deny)], Base::Empty),
        (&[(None, Read)], Base::ReadOnly),
        (&[(None, Write), (Some("r"), Read)], Base::Writable),
    ] {
        assert_eq!(ground.plan(entries).expect("a plan").base, base);
    }
}

#[test]
fn missing_paths_are_kept_from_being_made_below_writable_ones() {
    let ground = Ground::new();
    let entries = [
        (None, Read),
        (Some("w"), Write),
        (Some("w/new/x"), Read),
        (Some("w/gone"), Deny),
        (Some("w/none"), Write),
        (Some("r/new"), Deny),
        (Some("w/file/x"), Read),
    ];
    let plan = ground.plan(&entries).expect("a plan");
    assert_eq!(plan.placeholders, [ground.at("w/gone"), ground.at("w/new")]);
    assert_eq!(ground.mounts(&entries), ["w w", "r w/file", "h w/gone", "r w/new"]);
}

#[test]
fn links_that_can_be_replaced_decide_nothing() {
    let ground = Ground::new();
    symlink("a", ground.at("w/link")).expect("linked");
    symlink(ground.at("r"), ground.at("w/out")).expect("linked");
    symlink(ground.at("w"), ground.at("alias")).expect("linked");
    let with = |path, access| ground.plan(&[(None, Read), (Some("w"), Write), (Some(path), access)]);
    for (path, access) in [
        ("w/link", Read),
        ("w/link/b", Deny),
        ("w/link", Write),
        ("w/out", Write),
        ("w/out/d", Read),
    ] {
        assert!(matches!(with(path, access), Err(SandboxError::Prepare(_))), "{path}");
    }
    for (path, access) in [("alias/a", Read), ("alias", Write)] {
        assert!(with(path, access).is_ok(), "{path}");
    }
}

#[test]
fn links_are_shown_where_nothing_else_is() {
    let ground = Ground::new();
    symlink(ground.at("r"), ground.at("alias")).expect("linked");
    assert_eq!(ground.mounts(&[(Some("alias"), Read)]), ["r r", "l alias"]);
    assert_eq!(ground.mounts(&[(None, Read), (Some("alias"), Write)])[0], "w r");
}

#[test]
fn proc_is_the_sandbox_s_own() {
    let ground = Ground::new();
    for access in [Read, Write] {
        let refused = ground.plan(&[(Some("/proc/self"), access)]);
        assert!(matches!(refused, Err(SandboxError::Invalid(_))), "{refused:?}");
    }
}
