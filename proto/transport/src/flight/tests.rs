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
            free_at: Duration::ZERO,
            pongs: VecDeque::new(),
            longest_wait: Duration::ZERO,
        }
    }

    fn send(&mut self) {
        let wait = self.free_at.saturating_sub(self.now);
        self.longest_wait = self.longest_wait.max(wait);
        self.free_at = self.now + wait + Duration::from_secs_f64(FRAME as f64 / self.rate);
        if let Some(ping) = self.flight.sent(self.start + self.now, FRAME) {
            self.pongs.push_back((self.free_at + self.round_trip, ping));
        }
    }

    /// Sends as much as it may for a while; what was sent, in bytes.
    fn flood(&mut self, time: Duration) -> f64 {
        let until = self.now + time;
        let mut sent = 0;
        self.longest_wait = Duration::ZERO;
        while self.now < until {
            while self.flight.has_room() {
                self.send();
                sent += FRAME;
            }
            let (at, pong) = self.pongs.pop_front().expect("whoever must wait has asked");
            self.now = self.now.max(at);
            let again = self.flight.pong(self.start + self.now, &pong);
            self.pongs
                .extend(again.map(|ping| (self.free_at.max(self.now) + self.round_trip, ping)));
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
