use std::sync::Arc;

use rendezvous_transport::link::LinkError;
use rendezvous_wire::id::RegistrationId;
use rendezvous_wire::identity::IdentityClaim;
use rendezvous_wire::secret::Secret;

use super::*;
use crate::recovery::Verdict;

const REGISTRY: &str = "https://registry.example";

fn key(byte: u8) -> PublicKey {
    PublicKey {
        x25519: [byte; 32],
        mlkem768: Box::new([byte; 1184]),
    }
}

fn environment() -> EnvironmentId {
    EnvironmentId::new("lab").unwrap()
}

/// What the registry says: a key that lasts, and the one before it.
fn bundle(byte: u8, previous: Option<u8>) -> Bundle {
    Bundle {
        registration: RegistrationId::new("registration").unwrap(),
        url: Secret::new("wss://relay.example"),
        executor_key: key(byte),
        identity: IdentityClaim {
            persistent: true,
            previous: previous.into_iter().map(|byte| key(byte).digest()).collect(),
        },
        authorization: Secret::new("authorization"),
    }
}

fn states(byte: u8) -> IdentityStatement {
    IdentityStatement::new(key(byte), true)
}

/// A harness with a file that does not exist yet, and a guard of a new session.
struct World {
    _folder: tempfile::TempDir,
    known: KnownExecutors,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            known: KnownExecutors::new(folder.path().join("known_executors")),
            _folder: folder,
        }
    }

    fn guard(&self) -> Guard {
        let policy = KeyPolicy::known_in(self.known.path());
        Guard::new(policy, REGISTRY, &environment())
    }

    fn pinned(&self) -> Option<PublicKey> {
        self.known.find(REGISTRY, &environment()).unwrap().map(|pin| pin.key)
    }
}

#[tokio::test]
async fn a_key_is_remembered_from_one_session_to_the_next() {
    let world = World::new();
    let mut guard = world.guard();
    assert_eq!(guard.choose(&bundle(1, None)).await.unwrap(), key(1));
    assert_eq!(world.pinned(), None, "not before the executor has proved it");
    assert_eq!(guard.taken(), None);
    guard.confirm(Some(&states(1))).await.unwrap();
    assert_eq!(world.pinned(), Some(key(1)));
    assert_eq!(guard.taken().unwrap().standing, Standing::New);

    let mut guard = world.guard();
    assert_eq!(guard.choose(&bundle(1, None)).await.unwrap(), key(1));
    guard.confirm(Some(&states(1))).await.unwrap();
    assert!(matches!(guard.taken().unwrap().standing, Standing::Known { .. }));

    let mut guard = world.guard();
    let error = guard.choose(&bundle(2, None)).await.unwrap_err();
    assert!(matches!(error, KeyError::Changed { .. }), "{error}");
    let text = error.to_string();
    for part in [
        key(1).fingerprint().to_string(),
        key(2).fingerprint().to_string(),
        format!(
            "then: harness -e lab --registry-url {REGISTRY} known-executors accept {}",
            key(2).fingerprint()
        ),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    assert_eq!(world.pinned(), Some(key(1)));
}

#[tokio::test]
async fn a_successor_is_remembered_once_it_is_proved() {
    let world = World::new();
    let mut guard = world.guard();
    guard.choose(&bundle(1, None)).await.unwrap();
    guard.confirm(Some(&states(1))).await.unwrap();

    let mut guard = world.guard();
    assert_eq!(guard.choose(&bundle(2, Some(1))).await.unwrap(), key(1));
    // Another end that holds the old key does not follow.
    let error = guard.confirm(Some(&states(1))).await.unwrap_err();
    assert!(matches!(error, KeyError::NotProven { .. }), "{error}");
    assert_eq!((world.pinned(), guard.taken()), (Some(key(1)), None));

    guard.choose(&bundle(2, Some(1))).await.unwrap();
    guard.confirm(Some(&states(2))).await.unwrap();
    assert_eq!(world.pinned(), Some(key(2)));
    let taken = guard.taken().unwrap();
    assert_eq!(taken.fingerprint, key(2).fingerprint());
    assert_eq!(
        taken.standing,
        Standing::Successor {
            of: key(1).fingerprint()
        }
    );
}

/// The connection may be lost right after the executor's owner has given it a new key.
#[tokio::test]
async fn a_session_with_a_given_fingerprint_goes_on_with_its_successor() {
    let world = World::new();
    let given = || KeyPolicy {
        fingerprint: Some(key(1).fingerprint()),
        ..KeyPolicy::known_in(world.known.path())
    };
    let mut guard = Guard::new(given(), REGISTRY, &environment());
    guard.choose(&bundle(1, None)).await.unwrap();
    guard.confirm(Some(&states(1))).await.unwrap();
    guard.choose(&bundle(2, Some(1))).await.unwrap();
    guard.confirm(Some(&states(2))).await.unwrap();
    assert_eq!(guard.taken().unwrap().fingerprint, key(2).fingerprint());
    assert_eq!(guard.choose(&bundle(2, Some(1))).await.unwrap(), key(2));
    guard.confirm(Some(&states(2))).await.unwrap();

    // The next session is told the old one, and believes nobody else.
    let mut guard = Guard::new(given(), REGISTRY, &environment());
    let error = guard.choose(&bundle(2, Some(1))).await.unwrap_err();
    assert!(matches!(error, KeyError::Unexpected { .. }), "{error}");
}

#[tokio::test]
async fn without_a_file_a_session_keeps_to_a_key_that_lasts() {
    let mut guard = Guard::new(KeyPolicy::default(), REGISTRY, &environment());
    guard.choose(&bundle(1, None)).await.unwrap();
    guard.confirm(Some(&states(1))).await.unwrap();
    assert_eq!(guard.taken().unwrap().standing, Standing::NotRemembered);
    let error = guard.choose(&bundle(2, None)).await.unwrap_err();
    assert!(matches!(error, KeyError::Changed { .. }), "{error}");
    assert_eq!(guard.choose(&bundle(2, Some(1))).await.unwrap(), key(1));
    guard.confirm(Some(&states(2))).await.unwrap();
    assert_eq!(guard.choose(&bundle(2, None)).await.unwrap(), key(2));

    // One that does not last ends with its process, which its session may outlive.
    let mut guard = Guard::new(KeyPolicy::default(), REGISTRY, &environment());
    for byte in [1, 2] {
        let mut bundle = bundle(byte, None);
        bundle.identity = IdentityClaim::default();
        guard.choose(&bundle).await.unwrap();
        guard.confirm(None).await.unwrap();
    }
}

/// The registry says whether a key lasts, and could say anything: the remedy is bound to the fingerprint in any case.
#[tokio::test]
async fn a_key_that_is_said_not_to_last_is_accepted_by_its_fingerprint() {
    let world = World::new();
    let mut guard = world.guard();
    guard.choose(&bundle(1, None)).await.unwrap();
    guard.confirm(Some(&states(1))).await.unwrap();
    let mut changed = bundle(2, None);
    changed.identity = IdentityClaim::default();
    let text = guard.choose(&changed).await.unwrap_err().to_string();
    let accept = format!(" known-executors accept {} (", key(2).fingerprint());
    assert!(text.contains(&accept), "{text}");
}

#[tokio::test]
async fn the_remedy_names_the_file_that_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("who's known");
    let policy = KeyPolicy {
        strict: true,
        must_remember: true,
        ..KeyPolicy::known_in(&file)
    };
    let mut guard = Guard::new(policy, "https://a.example/x;y", &environment());
    let text = guard.choose(&bundle(1, None)).await.unwrap_err().to_string();
    let (folder, key) = (folder.path().display(), key(1).fingerprint());
    let accept = format!(
        "harness -e lab --registry-url 'https://a.example/x;y' --known-executors='{folder}/who'\\''s known' known-executors \
         accept {key}"
    );
    assert!(text.ends_with(&accept), "{text}");
}

#[tokio::test]
async fn a_handshake_that_fails_once_may_be_a_bad_moment() {
    let world = World::new();
    let mut guard = world.guard();
    let reset = || StreamEnd::Reset("no".to_owned());
    guard.choose(&bundle(1, None)).await.unwrap();
    for _ in 0..2 * PROOFS {
        let error = guard.failed(reset());
        assert!(
            matches!(error, AttemptError::Stream(_)),
            "an ordinary handshake: {error:?}"
        );
    }
    guard.confirm(Some(&states(1))).await.unwrap();

    for _ in 0..2 {
        for _ in 1..PROOFS {
            guard.choose(&bundle(2, Some(1))).await.unwrap();
            let error = guard.failed(reset());
            assert!(matches!(error, AttemptError::Stream(_)), "{error:?}");
            // Whoever cuts the connection proves nothing, and denies nothing.
            let gone = StreamEnd::Disconnected(Arc::new(LinkError::Text));
            assert!(matches!(guard.failed(gone), AttemptError::Stream(_)));
        }
        // It answers after all, and what follows is counted anew.
        guard.choose(&bundle(1, None)).await.unwrap();
        guard.confirm(None).await.unwrap();
    }
    for _ in 1..PROOFS {
        guard.choose(&bundle(2, Some(1))).await.unwrap();
        guard.failed(reset());
    }
    let error = guard.failed(reset());
    assert!(
        matches!(error, AttemptError::Key(KeyError::NotProven { .. })),
        "{error:?}"
    );
    assert_eq!(error.verdict(), Verdict::Final);
    assert_eq!(world.pinned(), Some(key(1)));
}

#[tokio::test]
async fn a_file_that_cannot_be_written_hinders_no_first_meeting() {
    let nowhere = KeyPolicy::known_in("/proc/nowhere/known_executors");
    let mut guard = Guard::new(nowhere, REGISTRY, &environment());
    guard.choose(&bundle(1, None)).await.unwrap();
    guard.confirm(Some(&states(1))).await.unwrap();
    let taken = guard.taken().unwrap();
    assert!(taken.persistent);
    assert!(
        matches!(&taken.standing, Standing::Unwritten { reason } if reason.contains("/proc/nowhere")),
        "{taken:?}"
    );
}

#[tokio::test]
async fn whoever_must_remember_a_key_takes_none_that_is_forgotten() {
    let policy = KeyPolicy {
        must_remember: true,
        ..KeyPolicy::known_in("/proc/nowhere/known_executors")
    };
    let mut guard = Guard::new(policy.clone(), REGISTRY, &environment());
    guard.choose(&bundle(1, None)).await.unwrap();
    let error = guard.confirm(Some(&states(1))).await.unwrap_err();
    assert!(matches!(error, KeyError::Known(_)), "{error}");
    assert_eq!((error.exit_code(), guard.taken()), (crate::exit::USAGE, None));

    // What ends with its process is never remembered.
    let mut ephemeral = bundle(1, None);
    ephemeral.identity.persistent = false;
    let mut guard = Guard::new(policy, REGISTRY, &environment());
    guard.choose(&ephemeral).await.unwrap();
    guard.confirm(None).await.unwrap();
    assert_eq!(guard.taken().unwrap().standing, Standing::NotRemembered);
}

/// Whoever follows without a note would believe the old key's holder again.
#[tokio::test]
async fn a_successor_that_cannot_be_remembered_is_not_taken() {
    let world = World::new();
    let mut guard = world.guard();
    guard.choose(&bundle(1, None)).await.unwrap();
    guard.confirm(Some(&states(1))).await.unwrap();
    let lock = world.known.path().with_file_name("known_executors.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let mut guard = world.guard();
    guard.choose(&bundle(2, Some(1))).await.unwrap();
    let error = guard.confirm(Some(&states(2))).await.unwrap_err();
    assert!(matches!(error, KeyError::Known(_)), "{error}");
    assert_eq!((world.pinned(), guard.taken()), (Some(key(1)), None));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_no_reason_to_believe() {
    let world = World::new();
    std::fs::write(world.known.path(), "rubbish\n").unwrap();
    let error = world.guard().choose(&bundle(1, None)).await.unwrap_err();
    assert!(matches!(error, KeyError::Known(_)), "{error}");
    let mut guard = Guard::new(KeyPolicy::known_in("/dev/null"), REGISTRY, &environment());
    assert!(matches!(guard.choose(&bundle(1, None)).await, Err(KeyError::Known(_))));
}

#[tokio::test]
async fn whoever_meets_another_at_the_same_time_does_not_overwrite() {
    let world = World::new();
    let (mut one, mut two) = (world.guard(), world.guard());
    one.choose(&bundle(1, None)).await.unwrap();
    two.choose(&bundle(2, None)).await.unwrap();
    one.confirm(Some(&states(1))).await.unwrap();
    let error = two.confirm(Some(&states(2))).await.unwrap_err();
    assert!(matches!(error, KeyError::Known(_)), "{error}");
    assert_eq!(world.pinned(), Some(key(1)));
}
