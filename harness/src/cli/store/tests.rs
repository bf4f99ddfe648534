use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("state/sessions"));
    (folder, store)
}

fn record(name: &str) -> Record {
    let mut record = Record::new(name.to_owned(), "https://r lab".to_owned(), vec!["make".to_owned()]);
    record.keep(Secret::new("very-secret"), Duration::from_secs(60));
    record
}

fn names(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.name.as_str()).collect()
}

#[test]
fn a_session_is_remembered_until_it_is_forgotten() {
    let (_folder, store) = store();
    assert!(store.all().unwrap().is_empty() && store.get("b").unwrap().is_none());
    store.add(&record("b")).unwrap();
    store.add(&record("a.1")).unwrap();
    let taken = store.add(&record("b")).unwrap_err();
    assert!(taken.to_string().contains("harness kill b"), "{taken}");
    assert_eq!(names(&store.all().unwrap()), ["a.1", "b"]);
    let found = store.get("b").unwrap().unwrap();
    assert_eq!(found.session.unwrap().expose(), "very-secret");
    assert_eq!((found.retention, found.command), (60, vec!["make".to_owned()]));
    store
        .update(&Record {
            address: "else".to_owned(),
            ..record("b")
        })
        .unwrap();
    assert_eq!(store.get("b").unwrap().unwrap().address, "else");
    store.remove("b");
    store.remove("b");
    assert_eq!(names(&store.all().unwrap()), ["a.1"]);
}

#[test]
fn files_are_their_owners_alone_and_nothing_else_counts() {
    let (_folder, store) = store();
    store.add(&record("a")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let path = store.folder.join("a.json");
    assert_eq!((mode(&store.folder), mode(&path)), (0o700, 0o600));
    store.touch(&record("a"));
    assert_eq!(mode(&path), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(format!("{:#}", store.get("a").unwrap_err()).contains("chmod 600"));
    assert!(store.all().unwrap().is_empty());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&path, store.folder.join("b.json")).unwrap();
    store.get("b").unwrap_err();
    std::fs::write(store.folder.join("b.json"), "x".repeat(70_000)).unwrap();
    store.get("b").unwrap_err();
    assert!(store.all().unwrap().is_empty());
}

#[test]
fn what_is_long_over_is_forgotten() {
    let (_folder, store) = store();
    let ended = |ago: u64| Record {
        used_at: now() - ago - 60,
        ..record(&format!("ended-{ago}"))
    };
    store.add(&ended(6 * 86_400)).unwrap();
    store.add(&ended(8 * 86_400)).unwrap();
    assert_eq!(names(&store.all().unwrap()), ["ended-518400"]);
    assert!(store.get("ended-691200").unwrap().is_none());
}

#[test]
fn names_are_names_of_files() {
    for bad in ["", ".", "..", "-x", ".x", "a/b", "a b", "ä", &"x".repeat(65)] {
        check_name(bad).unwrap_err();
    }
    for (command, begin) in [
        ("/usr/bin/make", "make-"),
        ("g++", "g-"),
        ("--", "session-"),
        ("", "session-"),
        ("../x/..", "session-"),
    ] {
        let name = name_for(&[command.to_owned()]);
        check_name(&name).unwrap();
        assert!(name.starts_with(begin) && name.len() == begin.len() + 4, "{name}");
    }
}
