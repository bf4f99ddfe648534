use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::*;

const REGISTRY: &str = "https://registry.example";

fn key(byte: u8) -> PublicKey {
    PublicKey {
        x25519: [byte; X25519_LEN],
        mlkem768: Box::new([byte; MLKEM768_LEN]),
    }
}

fn id(text: &str) -> EnvironmentId {
    EnvironmentId::new(text).unwrap()
}

fn pin(registry: &str, environment: &str, byte: u8) -> Pin {
    Pin {
        registry: registry.to_owned(),
        environment: id(environment),
        key: key(byte),
        since: "2026-11-30T09:41:00Z".to_owned(),
    }
}

#[test]
fn a_key_is_known_for_its_registry_and_environment() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownExecutors::new(folder.path().join("state/known_executors"));
    assert_eq!(known.find(REGISTRY, &id("lab")).unwrap(), None);
    let pins = [
        pin(REGISTRY, "lab", 1),
        pin(REGISTRY, "other", 2),
        pin("http://127.0.0.1:1", "lab", 3),
    ];
    for pin in &pins {
        known.note(pin, None).unwrap();
    }
    assert_eq!(known.list().unwrap(), pins);
    assert_eq!(known.find(REGISTRY, &id("lab")).unwrap().as_ref(), Some(&pins[0]));
    assert_eq!(known.find("https://registry.example/x", &id("lab")).unwrap(), None);
    assert_eq!(known.path().metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(known.remove(Some(REGISTRY), &id("lab")).unwrap(), pins[..1]);
    assert_eq!(known.list().unwrap(), pins[1..]);
    assert_eq!(known.remove(None, &id("lab")).unwrap(), pins[2..]);
    assert_eq!(known.remove(None, &id("lab")).unwrap(), []);
}

#[test]
fn a_key_is_replaced_only_by_whoever_knew_it() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownExecutors::new(folder.path().join("known"));
    let (one, two, three) = (
        pin(REGISTRY, "lab", 1),
        pin(REGISTRY, "lab", 2),
        pin(REGISTRY, "lab", 3),
    );
    assert!(matches!(known.note(&two, Some(&one.key)), Err(KnownError::Changed(_))));
    known.note(&one, None).unwrap();
    assert!(matches!(known.note(&two, None), Err(KnownError::Changed(_))));
    assert!(matches!(
        known.note(&three, Some(&two.key)),
        Err(KnownError::Changed(_))
    ));
    known.note(&two, Some(&one.key)).unwrap();
    assert_eq!(known.list().unwrap(), std::slice::from_ref(&two));
    // Whoever comes to the same conclusion later has nothing to do.
    known.note(&two, Some(&one.key)).unwrap();
    known.note(&two, None).unwrap();
    assert_eq!(known.list().unwrap(), [two]);
}

#[test]
fn many_that_note_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownExecutors::new(folder.path().join("known"));
    std::thread::scope(|scope| {
        for byte in 0..8 {
            let known = &known;
            scope.spawn(move || known.note(&pin(REGISTRY, &format!("e{byte}"), byte), None).unwrap());
        }
    });
    assert_eq!(known.list().unwrap().len(), 8);
}

#[test]
fn nobody_else_can_hold_the_lock_or_say_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let known = KnownExecutors::new(folder.path().join("known"));
    known.note(&pin(REGISTRY, "lab", 1), None).unwrap();
    let lock = folder.path().join("known.lock");
    assert_eq!(lock.metadata().unwrap().mode() & 0o777, 0o600);
    fs::remove_file(&lock).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
    let error = known.note(&pin(REGISTRY, "lab", 2), Some(&key(1))).unwrap_err();
    assert!(matches!(error, KnownError::File(FileError::Write { .. })), "{error}");
    assert!(!elsewhere.exists());
}

#[test]
fn the_file_does_not_grow_beyond_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("known");
    let known = KnownExecutors::new(&path);
    let full = format!("#{}\n", " ".repeat(MAX_FILE - 2));
    fs::write(&path, &full).unwrap();
    assert_eq!(known.list().unwrap(), []);
    let error = known.note(&pin(REGISTRY, "lab", 1), None).unwrap_err();
    assert!(matches!(error, KnownError::File(FileError::TooLong { .. })), "{error}");
    assert!(fs::read_to_string(&path).unwrap() == full, "left as it is");
}

#[test]
fn a_device_is_not_replaced() {
    let known = KnownExecutors::new("/dev/null");
    let error = known.find(REGISTRY, &id("lab")).unwrap_err();
    assert!(matches!(error, KnownError::File(FileError::NotRegular(_))), "{error}");
}

#[test]
fn comments_stay_and_broken_lines_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("known");
    let known = KnownExecutors::new(&path);
    let line = pin(REGISTRY, "lab", 1).line();
    fs::write(&path, format!("# mine\n\n{line}\n")).unwrap();
    known.note(&pin(REGISTRY, "other", 2), None).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&format!("# mine\n\n{line}\n")), "{text}");
    let words: Vec<&str> = line.split(' ').collect();
    let with = |index: usize, word: &str| {
        let mut words = words.clone();
        words[index] = word;
        words.join(" ")
    };
    for bad in [
        "lab".to_owned(),
        format!("{line} more"),
        with(1, "a/b"),
        with(2, "abc"),
        with(2, &key(2).fingerprint().to_string()),
        with(4, "AAAA"),
        with(5, "!"),
    ] {
        fs::write(&path, format!("# mine\n{bad}\n")).unwrap();
        let error = known.find(REGISTRY, &id("lab")).unwrap_err();
        assert!(matches!(error, KnownError::Line { line: 2, .. }), "{bad}: {error}");
        assert!(known.note(&pin(REGISTRY, "new", 3), None).is_err());
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("# mine\n{bad}\n"),
            "left as it is"
        );
    }
}
