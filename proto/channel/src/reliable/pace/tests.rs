use super::*;

const FRAME: usize = 60 * 1024;

/// A sender that always has something to send, behind a path with one queue in front of its slowest part.
struct Path {
    pace: Pace,
    start: Instant,
    now: Duration,
    /// Bytes in a second.
    rate: f64,
    /// The shortest round trip.
    round_trip: Duration,
    /// When the queue is empty again.
    free_at: Duration,
    /// When each frame that is on its way was sent, and when its acknowledgement comes.
    frames: VecDeque<(Duration, Duration)>,
    next: u32,
    longest_wait: Duration,
}

impl Path {
    fn new(megabytes: f64, round_trip: Duration) -> Self {
        Self {
            pace: Pace::new(),
            start: Instant::now(),
            now: Duration::ZERO,
            rate: megabytes * 1e6,
            round_trip,
            free_at: Duration::ZERO,
            frames: VecDeque::new(),
            next: 0,
            longest_wait: Duration::ZERO,
        }
    }

    fn outstanding(&self) -> usize {
        self.frames.len() * FRAME
    }

    fn send(&mut self) {
        let wait = self.free_at.saturating_sub(self.now);
        self.longest_wait = self.longest_wait.max(wait);
        self.free_at = self.now + wait + Duration::from_secs_f64(FRAME as f64 / self.rate);
        self.frames.push_back((self.now, self.free_at + self.round_trip));
        self.next += 1;
    }

    /// The next acknowledgement, of one frame.
    fn receive(&mut self) {
        let Some((sent, back)) = self.frames.pop_front() else {
            return;
        };
        self.now = back;
        let now = self.start + back;
        self.pace.sample(now, back - sent);
        let hinted = self.next - u32::try_from(self.frames.len()).unwrap();
        let outstanding = self.outstanding() + FRAME;
        self.pace.delivered(now, FRAME, outstanding, hinted, self.next);
    }

    /// Sends as much as it may for a while; what arrived, in bytes.
    fn flood(&mut self, time: Duration) -> usize {
        let until = self.now + time;
        let mut arrived = 0;
        self.longest_wait = Duration::ZERO;
        while self.now < until {
            while self.pace.permits(self.outstanding(), FRAME) {
                self.send();
            }
            self.receive();
            arrived += FRAME;
        }
        arrived
    }

    /// Sends one frame and waits for its acknowledgement, again and again.
    fn trickle(&mut self, frames: u32) {
        for _ in 0..frames {
            self.send();
            self.receive();
        }
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_long_path_is_filled_within_a_few_round_trips() {
    let mut path = Path::new(125.0, 100 * MILLISECOND);
    path.flood(20 * 100 * MILLISECOND);
    let arrived = path.flood(Duration::from_secs(10));
    assert!(arrived as f64 > 0.95 * 1.25e9, "{arrived}");
    assert_eq!(path.pace.window, MAX_WINDOW);
}

#[test]
fn little_waits_on_the_way() {
    for (megabytes, milliseconds) in [(2.0, 1), (20.0, 1), (300.0, 1), (20.0, 50), (125.0, 50)] {
        let round_trip = MILLISECOND * milliseconds;
        let mut path = Path::new(megabytes, round_trip);
        let arrived = path.flood(Duration::from_secs(20));
        assert!(arrived as f64 > 0.9 * 20e6 * megabytes, "{megabytes}: {arrived}");
        path.flood(Duration::from_secs(20));
        let least = Duration::from_secs_f64(LEAST as f64 / path.rate);
        let bound = least.max(round_trip * 5 / 4) + MILLISECOND;
        assert!(path.longest_wait <= bound, "{megabytes}: {:?}", path.longest_wait);
    }
}

#[test]
fn a_path_that_becomes_slow_is_noticed() {
    let mut path = Path::new(100.0, 50 * MILLISECOND);
    path.flood(Duration::from_secs(5));
    assert!(path.pace.window > 8_000_000, "{}", path.pace.window);
    path.rate = 2e6;
    path.flood(Duration::from_secs(60));
    assert_eq!(path.pace.window, LEAST);
}

#[test]
fn a_path_that_becomes_longer_is_noticed_in_time() {
    let mut path = Path::new(20.0, 10 * MILLISECOND);
    path.flood(Duration::from_secs(1));
    path.round_trip = 200 * MILLISECOND;
    path.flood(2 * MEMORY);
    let arrived = path.flood(Duration::from_secs(10));
    assert!(arrived as f64 > 0.9 * 200e6, "{arrived}");
}

#[test]
fn who_sends_little_keeps_the_window() {
    let mut path = Path::new(100.0, 50 * MILLISECOND);
    path.flood(Duration::from_secs(5));
    let window = path.pace.window;
    path.trickle(1000);
    assert_eq!(path.pace.window, window);
    path.pace.forget();
    assert_eq!(path.pace.window, LEAST);
}

#[test]
fn a_frame_of_any_length_goes_alone() {
    let pace = Pace::new();
    assert!(pace.permits(0, usize::MAX) && !pace.permits(1, usize::MAX));
    assert!(pace.permits(LEAST - 10, 10) && !pace.permits(LEAST - 10, 11));
}
