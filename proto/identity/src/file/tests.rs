use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::keyring::Keyring;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const NOW: u64 = 1_796_031_660;

fn passphrase(text: &str) -> Option<Passphrase> {
    Some(Passphrase::new(text, "test").unwrap())
}

/// The fingerprints of all keys that are answered to, the newest first.
fn fingerprints(keyring: &Keyring) -> Vec<Fingerprint> {
    let all = std::iter::once(keyring.current()).chain(keyring.previous());
    all.map(|key| key.public().fingerprint()).collect()
}

#[test]
fn a_key_is_the_same_when_it_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/identity");
    let file = IdentityFile::new(&path, None);
    assert!(matches!(file.open(), Err(IdentityError::File(FileError::Missing(_)))));
    let made = file.open_or_create(NOW).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    let read = file.open_or_create(NOW + 1).unwrap();
    assert_eq!(
        read.keyring(NOW).current().public(),
        made.keyring(NOW).current().public()
    );
    assert_eq!(read.current().created(), NOW);
    assert!(read.keyring(NOW).is_persistent());
    assert!(matches!(file.create(NOW), Err(IdentityError::Exists(_))));
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(&format!("\"fingerprint\": \"{}\"", read.current().fingerprint())),
        "{text}"
    );
}

#[test]
fn many_that_come_first_get_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let made: Vec<Fingerprint> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| IdentityFile::new(&path, None).open_or_create(NOW).unwrap()))
            .collect();
        runs.into_iter()
            .map(|run| run.join().unwrap().current().fingerprint())
            .collect()
    });
    assert!(made.iter().all(|key| *key == made[0]), "{made:?}");
}

#[test]
fn a_rotated_key_is_answered_to_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let file = IdentityFile::new(folder.path().join("identity"), None);
    let first = file.create(NOW).unwrap().current().fingerprint();
    let second = file.rotate(NOW + 10, DAY).unwrap();
    assert_ne!(second.current().fingerprint(), first);
    let second = second.current().fingerprint();
    let read = file.open().unwrap();
    let retired = Some(Retired {
        at: NOW + 10,
        until: NOW + 10 + DAY.as_secs(),
    });
    assert_eq!(read.earlier()[0].retired(), retired);
    assert_eq!(fingerprints(&read.keyring(NOW + 10)), [second, first]);
    let last_moment = NOW + 9 + DAY.as_secs();
    assert_eq!(fingerprints(&read.keyring(last_moment)), [second, first]);
    assert_eq!(fingerprints(&read.keyring(last_moment + 1)), [second]);
    // What is over is removed by the next rotation.
    let third = file.rotate(last_moment + 1, DAY).unwrap();
    assert_eq!(third.earlier().len(), 1);
    let claim = third.keyring(last_moment + 1).claim();
    assert!(claim.persistent);
    assert_eq!(claim.previous[0].fingerprint(), second);
}

#[test]
fn the_oldest_goes_when_there_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let file = IdentityFile::new(folder.path().join("identity"), None);
    let first = file.create(NOW).unwrap().current().fingerprint();
    for round in 1..=MAX_PREVIOUS_KEYS as u64 {
        file.rotate(NOW + round, DAY).unwrap();
    }
    assert_eq!(
        fingerprints(&file.open().unwrap().keyring(NOW + 9)).last(),
        Some(&first)
    );
    file.rotate(NOW + 9, DAY).unwrap();
    let keyring = file.open().unwrap().keyring(NOW + 9);
    assert_eq!(keyring.previous().len(), MAX_PREVIOUS_KEYS);
    assert!(!fingerprints(&keyring).contains(&first));
}

#[test]
fn no_rotation_is_lost_among_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = IdentityFile::new(folder.path().join("identity"), None);
    file.create(NOW).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..MAX_PREVIOUS_KEYS {
            scope.spawn(|| file.rotate(NOW, DAY).unwrap());
        }
    });
    assert_eq!(file.open().unwrap().earlier().len(), MAX_PREVIOUS_KEYS);
}

#[test]
fn nothing_is_made_where_nothing_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = IdentityFile::new(folder.path().join("state/identity"), None);
    for result in [
        file.rotate(NOW, DAY),
        file.forget(None),
        file.encrypt(passphrase("new")),
    ] {
        assert!(matches!(
            result.unwrap_err(),
            IdentityError::File(FileError::Missing(_))
        ));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn earlier_keys_can_be_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let file = IdentityFile::new(folder.path().join("identity"), None);
    let first = file.create(NOW).unwrap().current().fingerprint();
    let second = file.rotate(NOW, DAY).unwrap().current().fingerprint();
    let third = file.rotate(NOW, DAY).unwrap().current().fingerprint();
    assert!(matches!(file.forget(Some(third)), Err(IdentityError::NoSuchKey(key)) if key == third));
    assert_eq!(
        fingerprints(&file.forget(Some(second)).unwrap().keyring(NOW)),
        [third, first]
    );
    assert_eq!(fingerprints(&file.forget(None).unwrap().keyring(NOW)), [third]);
    assert_eq!(file.open().unwrap().earlier().len(), 0);
    // A key that is not kept at all is gone at once.
    assert_eq!(file.rotate(NOW, Duration::ZERO).unwrap().earlier().len(), 0);
}

#[test]
fn a_passphrase_opens_what_it_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let open = |passphrase| IdentityFile::new(&path, passphrase);
    let first = open(passphrase("right")).open_or_create(NOW).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("argon2id") && !text.contains("\"seed\""), "{text}");
    let second = open(passphrase("right")).rotate(NOW, DAY).unwrap();
    assert_eq!(second.earlier()[0].fingerprint(), first.current().fingerprint());
    let wrong = open(passphrase("wrong")).open_or_create(NOW).unwrap_err();
    assert!(matches!(wrong, IdentityError::WrongPassphrase(_)) && wrong.is_about_passphrase());
    let none = open(None).open_or_create(NOW).unwrap_err();
    assert!(matches!(none, IdentityError::PassphraseNeeded(_)) && none.is_about_passphrase());
    // A failed change leaves the file as it was.
    open(passphrase("wrong")).rotate(NOW, DAY).unwrap_err();
    open(passphrase("right")).encrypt(None).unwrap();
    let unneeded = open(passphrase("right")).open().unwrap_err();
    assert!(matches!(unneeded, IdentityError::NotEncrypted(_)));
    let plain = open(None).open().unwrap();
    assert_eq!(plain.current().fingerprint(), second.current().fingerprint());
    open(None).encrypt(passphrase("new")).unwrap();
    assert_eq!(open(passphrase("new")).open().unwrap().earlier().len(), 1);
}

#[test]
fn what_is_no_file_of_keys_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity");
    let file = IdentityFile::new(&path, None);
    file.create(NOW).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let other = IdentityFile::new(folder.path().join("other"), None)
        .create(NOW)
        .unwrap();
    for bad in [
        String::new(),
        "secret".to_owned(),
        "[]".to_owned(),
        good.replace("\"rendezvous_identity\": 1", "\"rendezvous_identity\": 2"),
        good.replace("\"keys\"", "\"more\""),
        good.replace(
            &file.open().unwrap().current().fingerprint().to_string(),
            &other.current().fingerprint().to_string(),
        ),
        good.replacen("\"seed\": \"", "\"seed\": \"AAAA", 1),
    ] {
        assert_ne!(bad, good);
        fs::write(&path, &bad).unwrap();
        let error = file.open_or_create(NOW).unwrap_err();
        assert!(matches!(error, IdentityError::Malformed { .. }), "{bad}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), bad, "left as it is");
    }
    let with = |keys: usize, change: fn(&mut serde_json::Value)| {
        let mut document: serde_json::Value = serde_json::from_str(&good).unwrap();
        document["keys"] = vec![document["keys"][0].clone(); keys].into();
        change(&mut document);
        document.to_string()
    };
    let sealed = |document: &mut serde_json::Value| {
        document["sealed"] =
            serde_json::json!({"kdf": "argon2id", "memory_kib": 8, "passes": 1, "salt": "", "ciphertext": ""});
    };
    fs::write(&path, with(1 + MAX_PREVIOUS_KEYS, |_| ())).unwrap();
    assert_eq!(file.open().unwrap().earlier().len(), MAX_PREVIOUS_KEYS);
    for bad in [with(0, |_| ()), with(2 + MAX_PREVIOUS_KEYS, |_| ()), with(1, sealed)] {
        fs::write(&path, &bad).unwrap();
        let error = file.open().unwrap_err();
        assert!(matches!(error, IdentityError::Malformed { .. }), "{bad}: {error}");
    }
    let padding = " ".repeat(MAX_FILE);
    fs::write(&path, format!("{good}{padding}")).unwrap();
    assert!(matches!(
        file.open().unwrap_err(),
        IdentityError::File(FileError::TooLong { .. })
    ));
    fs::write(&path, good).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = file.open_or_create(NOW).unwrap_err();
    assert!(matches!(
        error,
        IdentityError::File(FileError::Exposed { mode: 0o640, .. })
    ));
}

#[test]
fn nothing_secret_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = IdentityFile::new(folder.path().join("identity"), passphrase("right"));
    let keys = file.create(NOW).unwrap();
    let seed = STANDARD.encode(keys.current().seed().as_slice());
    for text in [
        format!("{file:?}"),
        format!("{keys:?}"),
        format!("{:?}", keys.keyring(NOW)),
    ] {
        assert!(!text.contains("right") && !text.contains(&seed[..16]), "{text}");
    }
    // A file that is not quite one, perhaps written by hand.
    for text in [
        format!("\"{seed}\""),
        format!(r#"{{"rendezvous_identity": 1, "fingerprint": "{seed}"}}"#),
        format!(
            r#"{{"rendezvous_identity": 1, "fingerprint": "{}", "keys": ["{seed}"]}}"#,
            keys.current().fingerprint()
        ),
        format!(r#"{{"{seed}": 1}}"#),
    ] {
        fs::write(file.path(), &text).unwrap();
        let error = file.open().unwrap_err();
        assert!(matches!(error, IdentityError::Malformed { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains(&seed[..16]), "{error}");
    }
}
