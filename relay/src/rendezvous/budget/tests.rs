use std::time::{Duration, Instant};

use super::*;

fn id(name: &str) -> CredentialId {
    CredentialId::new(name).unwrap()
}

#[test]
fn a_credential_is_locked_out_after_its_failures_and_longer_each_time() {
    let mut credentials = Credentials::default();
    let (bad, good) = (id("bad"), id("good"));
    let mut now = Instant::now();
    let mut expected = LOCKOUT;
    for _ in 0..8 {
        for _ in 1..FAILURES_PER_WINDOW {
            credentials.failed(&bad, now);
            assert_eq!(credentials.locked(&bad, now), None);
        }
        credentials.failed(&bad, now);
        assert_eq!(credentials.locked(&bad, now), Some(expected));
        assert_eq!(credentials.locked(&good, now), None);
        now += expected;
        assert_eq!(credentials.locked(&bad, now), None);
        expected = (expected * 2).min(MAX_LOCKOUT);
    }
    now += FORGIVENESS;
    for _ in 0..FAILURES_PER_WINDOW {
        credentials.failed(&bad, now);
    }
    assert_eq!(credentials.locked(&bad, now), Some(LOCKOUT));
}

#[test]
fn old_failures_do_not_count() {
    let mut credentials = Credentials::default();
    let (slow, start) = (id("slow"), Instant::now());
    for i in 0..100 {
        let now = start + WINDOW / 3 * i;
        credentials.failed(&slow, now);
        assert_eq!(credentials.locked(&slow, now), None);
    }
}

#[test]
fn credentials_that_are_remembered_are_bounded_and_lockouts_are_kept() {
    let mut credentials = Credentials::default();
    let (bad, now) = (id("bad"), Instant::now());
    for _ in 0..FAILURES_PER_WINDOW {
        credentials.failed(&bad, now);
    }
    for i in 0..MAX_CREDENTIALS + 10 {
        credentials.failed(&id(&format!("c{i}")), now);
    }
    assert!(credentials.0.len() <= MAX_CREDENTIALS);
    assert!(credentials.locked(&bad, now).is_some());
}

/// Plays handshakes that all fail against one executor; gives how many reached it.
fn attack(names: &[&str], parallel: usize, time: Duration) -> usize {
    let mut credentials = Credentials::default();
    let mut admissions = Admissions::default();
    let start = Instant::now();
    let (mut failures, mut connection) = (0, 0);
    let mut now = start;
    while now < start + time {
        let mut asked = Vec::new();
        for name in names {
            for _ in 0..parallel {
                let name = id(name);
                connection += 1;
                if credentials.locked(&name, now).is_none() {
                    let recent = credentials.recent(&name, now);
                    if admissions.ask(connection, &name, recent, 32, now) == Admission::Go {
                        asked.push((connection, name));
                    }
                }
            }
        }
        now += Duration::from_millis(100);
        for (connection, name) in asked {
            admissions.failed(connection, now);
            credentials.failed(&name, now);
            failures += 1;
        }
    }
    failures
}

#[test]
fn no_number_of_bad_credentials_reaches_the_executors_limit_within_a_window() {
    for names in [
        &["a"][..],
        &["a", "b"],
        &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"],
    ] {
        for parallel in [1, 4, 20] {
            let failures = attack(names, parallel, WINDOW - Duration::from_secs(1));
            assert!(failures > 0);
            assert!(
                failures < MAX_FAILED_HANDSHAKES as usize,
                "{names:?} x {parallel}: {failures}"
            );
        }
    }
}

#[test]
fn a_proven_credential_gets_in_while_others_fail() {
    let mut admissions = Admissions::default();
    let now = Instant::now();
    let (good, new) = (id("good"), id("new"));
    assert_eq!(admissions.ask(1, &good, 0, 32, now), Admission::Go);
    admissions.opened(1, &good);
    for connection in 10..10 + CRITICAL as u64 {
        admissions.failed(connection, now);
    }
    assert_eq!(admissions.ask(2, &new, 0, 32, now), Admission::Wait);
    assert_eq!(admissions.ask(3, &good, 0, 32, now), Admission::Go);
    assert_eq!(admissions.ask(4, &new, 0, 32, now + WINDOW), Admission::Go);
}

#[test]
fn failures_and_handshakes_under_way_count_together() {
    let mut admissions = Admissions::default();
    let (now, id) = (Instant::now(), id("x"));
    let recent = FAILURES_PER_WINDOW - 1;
    assert_eq!(admissions.ask(1, &id, recent, 32, now), Admission::Go);
    assert_eq!(admissions.ask(2, &id, recent, 32, now), Admission::Wait);
    assert_eq!(admissions.ask(2, &id, recent - 1, 32, now), Admission::Go);
}

#[test]
fn whoever_contributed_waits_when_the_limit_is_near() {
    let mut admissions = Admissions::default();
    let now = Instant::now();
    let known = id("known");
    admissions.opened(0, &known);
    for _ in 0..TIGHT {
        assert_eq!(admissions.ask(99, &known, 1, 32, now), Admission::Go);
        admissions.failed(99, now);
    }
    assert_eq!(admissions.ask(100, &known, 1, 32, now), Admission::Wait);
    assert_eq!(admissions.ask(100, &known, 0, 32, now), Admission::Go);
}

#[test]
fn pending_handshakes_are_bounded_even_when_their_harnesses_leave() {
    let mut admissions = Admissions::default();
    let now = Instant::now();
    let leaver = id("leaver");
    for connection in 0..FAILURES_PER_WINDOW as u64 {
        assert_eq!(admissions.ask(connection, &leaver, 0, 32, now), Admission::Go);
        admissions.abandoned(connection, now + Duration::from_secs(10));
    }
    assert_eq!(admissions.ask(99, &leaver, 0, 32, now), Admission::Wait);
    assert_eq!(
        admissions.ask(99, &leaver, 0, 32, now + Duration::from_secs(10)),
        Admission::Go
    );
}

#[test]
fn many_credentials_share_the_places_of_an_executor() {
    let mut admissions = Admissions::default();
    let now = Instant::now();
    let names: Vec<_> = (0..20).map(|i| id(&format!("c{i}"))).collect();
    for (connection, name) in (0..).zip(&names) {
        // All of them are known to be good.
        admissions.opened(connection, name);
    }
    let gone = (100..)
        .zip(&names)
        .filter(|(connection, name)| admissions.ask(*connection, name, 0, 8, now) == Admission::Go);
    assert_eq!(gone.count(), 8);
}
