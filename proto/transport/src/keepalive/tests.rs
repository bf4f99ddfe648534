use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A machine that never sleeps: what its other clock shows does not matter as long as it stands still.
fn never() -> Duration {
    Duration::ZERO
}

/// A connection whose machine has slept for `slept` when its clock shows `at`, which is returned too.
fn awoken(mut keepalive: Keepalive, start: Instant, at: Duration, slept: Duration) -> (Keepalive, Instant) {
    assert!(matches!(keepalive.poll(start, || Duration::ZERO), Action::Wait(_)));
    let now = start + at;
    keepalive.watch = Some(Watch::new(now - SECOND, Duration::ZERO));
    assert_ne!(
        keepalive.poll(now - SECOND / 2, || slept),
        Action::Ping,
        "too early to look"
    );
    (keepalive, now)
}

/// Runs a connection in virtual time until it expires or `end`, answering pings `answer` after they were written.
fn run(end: u32, answer: impl Fn(u32) -> Option<u32>) -> (Vec<u32>, Option<(u32, Expired)>) {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    let (mut pings, mut pong) = (Vec::new(), None);
    for second in 0..end {
        let now = start + SECOND * second;
        if pong == Some(second) {
            keepalive.pong();
        }
        loop {
            match keepalive.poll(now, never) {
                Action::Ping => {
                    pings.push(second);
                    keepalive.written(now);
                    pong = answer(second).map(|delay| second + delay);
                }
                Action::Expired(expired) => return (pings, Some((second, expired))),
                Action::Wait(until) => {
                    assert!(until > now, "waits for the past");
                    break;
                }
            }
        }
    }
    (pings, None)
}

#[test]
fn pings_every_thirty_seconds() {
    let (pings, expired) = run(200, |_| Some(1));
    assert_eq!(pings, [30, 60, 90, 120, 150, 180]);
    assert_eq!(expired, None);
}

#[test]
fn no_ping_while_one_is_unanswered() {
    let (pings, expired) = run(200, |_| Some(45));
    assert_eq!(pings, [30, 90, 150]);
    assert_eq!(expired, None);
}

#[test]
fn a_missing_pong_ends_the_connection_after_sixty_seconds() {
    let (pings, expired) = run(500, |second| (second < 60).then_some(1));
    assert_eq!(pings, [30, 60]);
    assert_eq!(expired, Some((120, Expired::Pong)));
}

#[test]
fn a_patient_connection_is_pinged_and_never_given_up() {
    let start = Instant::now();
    let mut keepalive = Keepalive::patient(start);
    assert_eq!(keepalive.poll(start + 30 * SECOND, never), Action::Ping);
    keepalive.written(start + 30 * SECOND);
    assert_eq!(keepalive.poll(start + 60 * SECOND, never), Action::Ping);
    keepalive.blocked(start + 60 * SECOND);
    // The ping is still behind what blocks: no second one.
    for second in [90, 120, 1000] {
        assert!(matches!(
            keepalive.poll(start + second * SECOND, never),
            Action::Wait(_)
        ));
    }
    keepalive.written(start + 1000 * SECOND);
    assert_eq!(keepalive.poll(start + 1030 * SECOND, never), Action::Ping);
}

#[test]
fn the_deadline_counts_from_the_written_ping() {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    let ping = start + PING_INTERVAL;
    assert_eq!(keepalive.poll(ping, never), Action::Ping);
    keepalive.blocked(ping);
    let written = ping + 20 * SECOND;
    keepalive.written(written);
    let before = written + PONG_TIMEOUT - SECOND;
    assert!(matches!(keepalive.poll(before, never), Action::Wait(_)));
    assert_eq!(
        keepalive.poll(written + PONG_TIMEOUT, never),
        Action::Expired(Expired::Pong)
    );
}

#[test]
fn a_blocked_write_ends_after_sixty_seconds() {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    keepalive.blocked(start + SECOND);
    keepalive.blocked(start + 20 * SECOND);
    assert_eq!(keepalive.poll(start + PING_INTERVAL, never), Action::Ping);
    let end = start + SECOND + PONG_TIMEOUT;
    assert!(matches!(keepalive.poll(end - SECOND, never), Action::Wait(until) if until == end));
    assert_eq!(keepalive.poll(end, never), Action::Expired(Expired::Write));
    keepalive.written(end);
    assert!(
        matches!(keepalive.poll(end, never), Action::Wait(_)),
        "the write went through after all"
    );
}

#[test]
fn a_blocked_write_ends_with_the_outstanding_pong() {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    let ping = start + PING_INTERVAL;
    assert_eq!(keepalive.poll(ping, never), Action::Ping);
    keepalive.written(ping);
    keepalive.blocked(ping + 50 * SECOND);
    assert_eq!(
        keepalive.poll(ping + PONG_TIMEOUT, never),
        Action::Expired(Expired::Pong)
    );
}

#[test]
fn a_pong_may_overtake_the_news_of_the_write() {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    let ping = start + PING_INTERVAL;
    assert_eq!(keepalive.poll(ping, never), Action::Ping);
    keepalive.pong();
    keepalive.written(ping + SECOND);
    assert_eq!(keepalive.poll(ping + PONG_TIMEOUT + SECOND, never), Action::Ping);
}

#[test]
fn a_connection_is_looked_at_every_second() {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    assert_eq!(keepalive.poll(start, never), Action::Wait(start + SECOND));
    assert_eq!(keepalive.poll(start + SECOND, never), Action::Wait(start + 2 * SECOND));
}

#[test]
fn a_long_sleep_ends_the_connection_within_a_second() {
    let start = Instant::now();
    let (mut keepalive, now) = awoken(Keepalive::new(start), start, 10 * SECOND, GIVEN_UP + SECOND);
    assert_eq!(
        keepalive.poll(now, || GIVEN_UP + SECOND),
        Action::Expired(Expired::Slept)
    );
    assert_eq!(
        keepalive.poll(now + SECOND, || GIVEN_UP + SECOND),
        Action::Expired(Expired::Slept),
        "it stays ended"
    );
}

#[test]
fn a_short_sleep_is_followed_by_a_ping_that_must_be_answered_soon() {
    let start = Instant::now();
    let slept = || 60 * SECOND;
    let (mut keepalive, now) = awoken(Keepalive::new(start), start, 10 * SECOND, slept());
    assert_eq!(keepalive.poll(now, slept), Action::Ping);
    keepalive.written(now);
    let mut answered = keepalive.clone();
    assert_eq!(
        keepalive.poll(now + AWAKE_TIMEOUT, slept),
        Action::Expired(Expired::Pong)
    );
    answered.pong();
    assert!(matches!(answered.poll(now + AWAKE_TIMEOUT, slept), Action::Wait(_)));
    assert_eq!(answered.poll(now + PING_INTERVAL, slept), Action::Ping, "as before");
    answered.written(now + PING_INTERVAL);
    let late = now + PING_INTERVAL + AWAKE_TIMEOUT;
    assert!(
        matches!(answered.poll(late, slept), Action::Wait(_)),
        "no hurry any more"
    );
}

#[test]
fn a_ping_that_was_out_before_the_sleep_is_enough() {
    let start = Instant::now();
    let mut keepalive = Keepalive::new(start);
    assert_eq!(keepalive.poll(start + PING_INTERVAL, never), Action::Ping);
    keepalive.written(start + PING_INTERVAL);
    let at = PING_INTERVAL + 10 * SECOND;
    keepalive.watch = Some(Watch::new(start + at - SECOND, Duration::ZERO));
    let slept = || 60 * SECOND;
    assert!(matches!(keepalive.poll(start + at, slept), Action::Wait(_)));
    let end = start + at + AWAKE_TIMEOUT;
    assert_eq!(keepalive.poll(end, slept), Action::Expired(Expired::Pong));
}

#[test]
fn a_patient_connection_is_pinged_after_a_sleep_and_kept() {
    let start = Instant::now();
    let slept = || 100 * GIVEN_UP;
    let (mut keepalive, now) = awoken(Keepalive::patient(start), start, 10 * SECOND, slept());
    assert_eq!(keepalive.poll(now, slept), Action::Ping);
    keepalive.written(now);
    assert!(matches!(keepalive.poll(now + AWAKE_TIMEOUT, slept), Action::Wait(_)));
}
