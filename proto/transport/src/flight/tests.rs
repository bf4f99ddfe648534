use super::*;

const FRAME: usize = 60 * 1024;
const MILLISECOND: Duration = Duration::from_millis(1);

/// A sender that always has something to send, on a way with one queue in front of its slowest part.
struct Way {
    flight: Flight,
    start: Instant,
    now: Duration,
    /// Bytes in a second.
    rate: f64,
    /// The shortest round trip.
    round_trip: Duration,
    /// How much longer a round trip may be, and is at times.
    unsteadiness: Duration,
    answers: u32,
    /// When the queue is empty again.
    free_at: Duration,
    /// Answers that will come, and when.
    pongs: VecDeque<(Duration, [u8; 8])>,
    longest_wait: Duration,
}

impl Way {
    fn new(megabytes: f64, round_trip: Duration) -> Self {
        Self {
            flight: Flight::new(),
            start: Instant::now(),
            now: Duration::ZERO,
            rate: megabytes * 1e6,
            round_trip,
            unsteadiness: Duration::ZERO,
            answers: 0,
            free_at: Duration::ZERO,
            pongs: VecDeque::new(),
            longest_wait: Duration::ZERO,
        }
    }

    /// What was sent, in bytes.
    fn send(&mut self) -> usize {
        let probe = self.flight.probe(self.start + self.now);
        self.answer(probe);
        let frame = self.flight.longest().unwrap_or(FRAME).clamp(4096, FRAME);
        let wait = self.free_at.saturating_sub(self.now);
        self.longest_wait = self.longest_wait.max(wait);
        self.free_at = self.now + wait + Duration::from_secs_f64(frame as f64 / self.rate);
        let ping = self.flight.sent(self.start + self.now, frame);
        self.answer(ping);
        frame
    }

    fn answer(&mut self, ping: Option<[u8; 8]>) {
        let Some(ping) = ping else { return };
        self.answers += 1;
        // From none of it to all of it, in no order.
        let more = self.unsteadiness * (self.answers * 7 % 11) / 10;
        let at = self.free_at.max(self.now) + self.round_trip + more;
        // None passes another.
        let last = self.pongs.back().map_or(Duration::ZERO, |(last, _)| *last);
        self.pongs.push_back((at.max(last), ping));
    }

    /// Sends as much as it may for a while; what was sent, in bytes.
    fn flood(&mut self, time: Duration) -> f64 {
        let until = self.now + time;
        let mut sent = 0;
        self.longest_wait = Duration::ZERO;
        while self.now < until {
            while self.flight.has_room() {
                sent += self.send();
            }
            let (at, pong) = self.pongs.pop_front().expect("whoever must wait has asked");
            self.now = self.now.max(at);
            let again = self.flight.pong(self.start + self.now, &pong);
            self.answer(again);
        }
        sent as f64
    }
}

#[test]
fn little_waits_on_the_way_and_the_way_is_full() {
    for (megabytes, milliseconds) in [(2.0, 1), (12.0, 1), (60.0, 1), (1000.0, 1), (12.0, 50), (125.0, 100)] {
        let round_trip = MILLISECOND * milliseconds;
        let mut way = Way::new(megabytes, round_trip);
        way.flood(Duration::from_secs(5));
        let sent = way.flood(Duration::from_secs(10));
        assert!(sent > 0.95 * 10e6 * megabytes, "{megabytes}: {sent}");
        let least = Duration::from_secs_f64((LEAST + 2 * FRAME) as f64 / way.rate);
        // What is between two pings counts, too.
        let bound = least.max((round_trip + DELAY) * 3 / 2);
        assert!(way.longest_wait <= bound, "{megabytes}: {:?}", way.longest_wait);
    }
}

#[test]
fn a_shared_way_is_shorter_and_full_too() {
    for (megabytes, milliseconds) in [(2.0, 1), (12.0, 1), (60.0, 1), (1000.0, 1), (12.0, 50), (125.0, 100)] {
        let round_trip = MILLISECOND * milliseconds;
        let mut way = Way::new(megabytes, round_trip);
        way.flood(Duration::from_secs(1));
        let ping = way.flight.share(way.start + way.now, true);
        way.answer(ping);
        way.flood(Duration::from_secs(5));
        let sent = way.flood(Duration::from_secs(10));
        assert!(sent > 0.95 * 10e6 * megabytes, "{megabytes}: {sent}");
        let frame = way.flight.longest().expect("it is shared") as f64;
        assert!(frame <= 1.1 * way.rate * TURN.as_secs_f64(), "{megabytes}: {frame}");
        let least = Duration::from_secs_f64((LEAST_SHARED as f64 + 2.0 * frame.max(4096.0)) / way.rate);
        let bound = least.max((round_trip + DELAY_SHARED * 3) * 3 / 2);
        assert!(way.longest_wait <= bound, "{megabytes}: {:?}", way.longest_wait);
        way.flight.share(way.start + way.now, false);
        assert_eq!(way.flight.longest(), None);
    }
}

#[test]
fn how_long_a_message_takes_is_no_part_of_the_round_trip() {
    let mut way = Way::new(2.0, MILLISECOND);
    way.flood(Duration::from_secs(1));
    assert_eq!(way.flight.shortest[0], Some(MILLISECOND));
    // Not every message asks.
    assert_eq!(way.flight.probe(way.start + way.now), None);
    let (mut flight, now) = (Flight::new(), Instant::now());
    let ping = flight.probe(now).expect("nothing is on its way");
    flight.pong(now + MILLISECOND, &ping);
    assert_eq!(flight.probe(now + 2 * MILLISECOND), None);
    let ping = flight.probe(now + PROBE).expect("a while ago");
    // One is under way, or a message is.
    assert_eq!(flight.probe(now + 2 * PROBE), None);
    flight.pong(now + 2 * PROBE, &ping);
    // What no ping is behind is little.
    assert_eq!(flight.sent(now + 2 * PROBE, 1000), None);
    assert!(flight.probe(now + 3 * PROBE).is_some());
}

#[test]
fn what_waits_on_the_way_for_long_does_not_become_the_round_trip() {
    for (megabytes, is_shared) in [(12.0, false), (60.0, false), (60.0, true)] {
        let mut way = Way::new(megabytes, 20 * MILLISECOND);
        let ping = way.flight.share(way.start, is_shared);
        way.answer(ping);
        way.flood(Duration::from_secs(10));
        let first = way.flight.window;
        for _ in 0..6 {
            way.flood(MEMORY);
        }
        assert!(way.flight.window < first * 3 / 2, "{first} {}", way.flight.window);
        let sent = way.flood(Duration::from_secs(10));
        assert!(sent > 0.95 * 10e6 * megabytes, "{megabytes}: {sent}");
    }
}

#[test]
fn an_unsteady_way_is_used() {
    for (megabytes, round_trip, more, share) in [(12.0, 2, 20, 0.5), (12.0, 5, 5, 0.9), (60.0, 1, 10, 0.9)] {
        let mut way = Way::new(megabytes, MILLISECOND * round_trip);
        way.unsteadiness = MILLISECOND * more;
        let ping = way.flight.share(way.start + way.now, true);
        way.answer(ping);
        way.flood(Duration::from_secs(10));
        let sent = way.flood(Duration::from_secs(10));
        assert!(sent > share * 10e6 * megabytes, "{megabytes} {more}: {}", sent / 10e6);
    }
}

#[test]
fn a_way_that_is_shared_now_does_not_wait_for_an_answer_to_nothing() {
    let mut flight = Flight::new();
    let mut now = Instant::now();
    for _ in 0..100 {
        now += INTERVAL;
        let ping = flight.sent(now, 2_000_000).expect("more than a quarter");
        flight.pong(now + MILLISECOND / 10, &ping);
    }
    let before = flight.window;
    assert_eq!(flight.sent(now, before / 4 - 1), None);
    let ping = flight.share(now, true).expect("a question, as there is no room");
    assert!(!flight.has_room() && flight.window < before / 4);
    assert_eq!(flight.share(now, true), None);
    flight.pong(now + MILLISECOND, &ping);
    assert!(flight.has_room());
}

#[test]
fn a_way_that_changes_is_noticed() {
    let mut way = Way::new(100.0, 20 * MILLISECOND);
    way.flood(Duration::from_secs(5));
    way.rate = 5e6;
    way.flood(Duration::from_secs(10));
    way.flood(Duration::from_secs(1));
    assert!(way.longest_wait < 100 * MILLISECOND, "{:?}", way.longest_wait);
    way.rate = 100e6;
    way.flood(Duration::from_secs(2));
    assert!(way.flood(Duration::from_secs(5)) > 0.95 * 500e6);
    way.round_trip = 200 * MILLISECOND;
    way.flood(MEMORY * 2);
    assert!(way.flood(Duration::from_secs(10)) > 0.9 * 1e9);
}

#[test]
fn a_window_that_shrinks_is_asked_for() {
    let mut flight = Flight::new();
    let mut now = Instant::now();
    for _ in 0..100 {
        now += INTERVAL;
        let ping = flight.sent(now, 2_000_000).expect("more than a quarter");
        flight.pong(now + MILLISECOND / 10, &ping);
    }
    let quarter = flight.window / 4;
    assert!(quarter > LEAST && flight.has_room());
    // So slow that what no ping is behind is too much.
    let pings = std::array::from_fn::<_, INTERVALS, _>(|_| flight.sent(now, quarter).expect("due"));
    assert_eq!(flight.sent(now, quarter - 1), None);
    let mut again = None;
    for (number, ping) in (1..).zip(pings) {
        assert_eq!(again, None);
        again = flight.pong(now + Duration::from_secs(10) * number, &ping);
    }
    assert!(!flight.has_room());
    flight.pong(now + Duration::from_secs(200), &again.expect("a question"));
    assert!(flight.has_room());
}

#[test]
fn what_passes_at_once_after_a_silence_is_no_rate() {
    let mut flight = Flight::new();
    let mut now = Instant::now();
    for _ in 0..100 {
        // 60 kB in 5 ms are 12 MB in a second, and each fifth of them comes at once.
        for round in 0..5 {
            let ping = flight.sent(now, FRAME).expect("due");
            let time = if round == 0 { MILLISECOND / 10 } else { 5 * MILLISECOND };
            flight.pong(now + time, &ping);
            now += 5 * MILLISECOND;
        }
    }
    assert_eq!(flight.window, LEAST);
}

#[test]
fn only_answers_count_and_the_latest_is_enough() {
    let mut flight = Flight::new();
    let now = Instant::now();
    let mut pings = Vec::new();
    while flight.has_room() {
        pings.extend(flight.sent(now, 20_000));
    }
    assert!(pings.len() >= 3, "{}", pings.len());
    for payload in [&b""[..], b"hello", &u64::MAX.to_be_bytes(), &[0; 9]] {
        flight.pong(now, payload);
        assert!(!flight.has_room());
    }
    let last = pings.last().unwrap();
    flight.pong(now + MILLISECOND, last);
    assert!(flight.has_room() && flight.pings.is_empty());
    // Once.
    while flight.has_room() {
        flight.sent(now, 20_000);
    }
    flight.pong(now, last);
    assert!(!flight.has_room());
}
