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

fn all(store: &Store) -> Vec<String> {
    let remembered = store.all().unwrap();
    assert!(!remembered.is_cut);
    remembered.records.into_iter().map(|record| record.name).collect()
}

#[test]
fn a_session_is_remembered_until_it_is_forgotten() {
    let (_folder, store) = store();
    assert!(all(&store).is_empty() && store.get("b").unwrap().is_none());
    assert!(store.add(&record("b")).unwrap() && store.add(&record("a.1")).unwrap());
    assert_eq!(all(&store), ["a.1", "b"]);
    let found = store.get("b").unwrap().unwrap();
    assert_eq!(found.session.unwrap().expose(), "very-secret");
    assert_eq!((found.retention, found.command), (60, vec!["make".to_owned()]));
    store.forget(&record("b"));
    store.forget(&record("b"));
    assert_eq!(all(&store), ["a.1"]);
}

#[test]
fn a_name_has_one_session_and_only_that_is_touched() {
    let (_folder, store) = store();
    store.add(&record("a")).unwrap();
    let other = Record {
        session: Some(Secret::new("another")),
        used_at: 1,
        ..record("a")
    };
    assert!(!store.add(&other).unwrap());
    store.update(&other, &other).unwrap_err();
    store.forget(&other);
    store.touch("a", &Secret::new("another"));
    let left = |store: &Store| store.get("a").unwrap().unwrap().session.unwrap().expose().to_owned();
    assert_eq!(left(&store), "very-secret");
    // What is being made becomes a session, and one that was forgotten is not remembered again.
    let made = Record::new("new".to_owned(), "https://r lab".to_owned(), Vec::new());
    store.add(&made).unwrap();
    store.update(&made, &record("new")).unwrap();
    store.forget(&made);
    assert_eq!(all(&store), ["a", "new"]);
    store.forget(&record("new"));
    store.touch("new", &Secret::new("very-secret"));
    store.update(&record("new"), &record("new")).unwrap_err();
    assert_eq!(all(&store), ["a"]);
    // Nothing else lies about.
    assert_eq!(std::fs::read_dir(&store.folder).unwrap().count(), 1);
}

#[test]
fn many_are_cut_and_that_is_told() {
    let (_folder, store) = store();
    for number in 0..MAX_RECORDS {
        store.add(&record(&format!("s{number}"))).unwrap();
        std::fs::write(store.folder.join(format!("note-{number}")), "").unwrap();
    }
    let found = store.all().unwrap();
    assert!(found.records.len() == MAX_RECORDS && !found.is_cut);
    store.add(&record("one-more")).unwrap();
    let found = store.all().unwrap();
    assert!(found.records.len() == MAX_RECORDS && found.is_cut);
}

#[test]
fn files_are_their_owners_alone_and_nothing_else_counts() {
    let (_folder, store) = store();
    store.add(&record("a")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let path = store.folder.join("a.json");
    assert_eq!((mode(&store.folder), mode(&path)), (0o700, 0o600));
    store.touch("a", &Secret::new("very-secret"));
    assert_eq!(mode(&path), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(format!("{:#}", store.get("a").unwrap_err()).contains("chmod 600"));
    assert!(all(&store).is_empty());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&path, store.folder.join("b.json")).unwrap();
    store.get("b").unwrap_err();
    std::fs::write(store.folder.join("b.json"), "x".repeat(70_000)).unwrap();
    store.get("b").unwrap_err();
    assert!(all(&store).is_empty());
}

#[test]
fn what_is_long_over_may_be_forgotten() {
    let ended = |ago: u64| Record {
        used_at: now() - ago - 60,
        ..record("ended")
    };
    assert!(!ended(6 * 86_400).is_long_over() && ended(8 * 86_400).is_long_over());
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
