use rendezvous_wire::id::EnvironmentId;

use super::*;

fn key(byte: u8) -> PublicKey {
    PublicKey {
        x25519: [byte; 32],
        mlkem768: Box::new([byte; 1184]),
    }
}

fn pin(byte: u8) -> Option<Pin> {
    Some(Pin {
        registry: "https://registry.example".to_owned(),
        environment: EnvironmentId::new("lab").unwrap(),
        key: key(byte),
        since: "then".to_owned(),
    })
}

fn persistent(previous: &[u8]) -> IdentityClaim {
    IdentityClaim {
        persistent: true,
        previous: previous.iter().map(|byte| key(*byte).digest()).collect(),
    }
}

fn says(byte: u8, persistent: bool) -> IdentityStatement {
    IdentityStatement::new(key(byte), persistent)
}

fn policy(fingerprint: Option<u8>, strict: bool) -> KeyPolicy {
    KeyPolicy {
        known: None,
        fingerprint: fingerprint.map(|byte| key(byte).fingerprint()),
        strict,
        must_remember: false,
    }
}

fn decide(policy: &KeyPolicy, known: Option<Pin>, shown: u8, claim: &IdentityClaim) -> Result<Way, Refusal> {
    let key = key(shown);
    judge(policy, known, &Shown { key: &key, claim })
}

#[test]
fn a_key_that_outlives_its_process_is_noted_when_it_is_met() {
    let ephemeral = IdentityClaim::default();
    for (claim, statement, noted) in [
        (&ephemeral, None, false),
        (&ephemeral, Some(says(1, false)), false),
        // A registry that plays a key down does not keep it from being known.
        (&ephemeral, Some(says(1, true)), true),
        (&persistent(&[]), None, true),
        (&persistent(&[]), Some(says(1, true)), true),
    ] {
        let way = decide(&policy(None, false), None, 1, claim).unwrap();
        assert_eq!(way.key(), &key(1));
        let verdict = way.conclude(statement.as_ref()).unwrap();
        assert_eq!(verdict.note, noted.then(|| (key(1), None)), "{claim} {statement:?}");
        assert_eq!(verdict.persistent, noted);
        let standing = if noted { Standing::New } else { Standing::NotRemembered };
        assert_eq!(verdict.standing, standing);
    }
}

#[test]
fn a_known_key_is_taken_whatever_is_said_of_it() {
    for claim in [IdentityClaim::default(), persistent(&[7])] {
        for statement in [None, Some(says(1, false)), Some(says(1, true))] {
            let way = decide(&policy(None, true), pin(1), 1, &claim).unwrap();
            let verdict = way.conclude(statement.as_ref()).unwrap();
            assert_eq!(verdict.note, None);
            assert_eq!(verdict.standing, Standing::Known { since: "then".into() });
        }
    }
}

#[test]
fn another_key_than_the_known_one_is_refused_before_anything_is_sent() {
    let (known, shown) = (key(1).fingerprint(), key(2).fingerprint());
    for (claim, persistent) in [
        (IdentityClaim::default(), false),
        (persistent(&[]), true),
        // The successor of another key.
        (persistent(&[3]), true),
    ] {
        for strict in [false, true] {
            let refusal = decide(&policy(None, strict), pin(1), 2, &claim).unwrap_err();
            let expected = Refusal::Changed {
                known,
                shown,
                persistent,
            };
            assert_eq!(refusal, expected);
        }
    }
}

#[test]
fn only_the_holder_of_the_known_key_can_name_its_successor() {
    let claim = persistent(&[3, 1]);
    let way = || decide(&policy(None, true), pin(1), 2, &claim).unwrap();
    assert_eq!(way().key(), &key(1), "the handshake is for the key that is known");
    let verdict = way().conclude(Some(&says(2, true))).unwrap();
    assert_eq!(verdict.note, Some((key(2), Some(key(1)))));
    assert_eq!(verdict.key, key(2));
    let of = key(1).fingerprint();
    assert_eq!(verdict.standing, Standing::Successor { of });
    for statement in [None, Some(says(1, true)), Some(says(3, true))] {
        let refusal = way().conclude(statement.as_ref()).unwrap_err();
        let expected = Refusal::NotProven {
            known: key(1).fingerprint(),
            shown: key(2).fingerprint(),
        };
        assert_eq!(refusal, expected);
    }
}

#[test]
fn registry_and_executor_must_name_the_same_key() {
    for known in [None, pin(1)] {
        let way = decide(&policy(None, false), known, 1, &persistent(&[])).unwrap();
        let refusal = way.conclude(Some(&says(2, true))).unwrap_err();
        let expected = Refusal::Contradicted {
            stated: key(2).fingerprint(),
            shown: key(1).fingerprint(),
        };
        assert_eq!(refusal, expected);
    }
}

#[test]
fn a_given_fingerprint_is_the_only_one() {
    let claim = persistent(&[1]);
    assert!(decide(&policy(Some(2), false), None, 2, &claim).is_ok());
    assert!(decide(&policy(Some(2), true), None, 2, &claim).is_ok());
    assert!(decide(&policy(Some(2), true), pin(2), 2, &claim).is_ok());
    // The successor of the one that was given, or the successor that was given.
    for fingerprint in [1, 2] {
        let way = decide(&policy(Some(fingerprint), true), pin(1), 2, &claim).unwrap();
        assert!(matches!(way, Way::Prove { .. }), "{fingerprint}");
    }
    for (fingerprint, known, shown) in [(1, None, 2), (1, pin(2), 2), (3, pin(1), 2), (3, pin(2), 2)] {
        let refusal = decide(&policy(Some(fingerprint), false), known, shown, &claim).unwrap_err();
        let expected = Refusal::Unexpected {
            expected: key(fingerprint).fingerprint(),
            shown: key(shown).fingerprint(),
        };
        assert_eq!(refusal, expected, "{fingerprint} {shown}");
    }
}

#[test]
fn whoever_is_strict_meets_nobody_new() {
    let refusal = decide(&policy(None, true), None, 1, &persistent(&[])).unwrap_err();
    let shown = key(1).fingerprint();
    assert_eq!(refusal, Refusal::Unknown { shown });
}
