//! Two directions that lose, repeat, delay and cut.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_wire::frame::peek::{Kind, route};

use crate::support::TestRng;

const LATENCY: Duration = Duration::from_millis(20);
/// Time that each frame occupies a direction: frames that are delayed by n of these are overtaken by n others.
const SLOT: Duration = Duration::from_millis(1);

/// How a network behaves.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Frames of a thousand that are lost.
    pub(crate) lost: u64,
    /// Frames of a thousand that arrive twice.
    pub(crate) repeated: u64,
    /// By how many places a record may be late.
    pub(crate) late: u64,
    /// Whether handshakes and resets suffer too, or records only.
    pub(crate) handshakes_too: bool,
    /// When the harness's connection is cut.
    pub(crate) cut: Option<Duration>,
}

impl Weather {
    /// Nothing is lost; records arrive up to 15 places late and some twice.
    pub(crate) fn rough_but_whole(seed: u64) -> Self {
        let mut rng = TestRng::new(seed ^ 0x5eed);
        Self {
            lost: 0,
            repeated: rng.below(100),
            late: rng.below(16),
            handshakes_too: false,
            cut: None,
        }
    }

    /// Anything may happen.
    pub(crate) fn stormy(seed: u64) -> Self {
        let mut rng = TestRng::new(seed ^ 0x57012);
        Self {
            lost: [0, 2, 10, 100][usize::try_from(rng.below(4)).unwrap()],
            repeated: rng.below(50),
            late: rng.below(65),
            handshakes_too: rng.chance(30),
            cut: rng.chance(20).then(|| Duration::from_millis(rng.below(3000))),
        }
    }
}

/// One direction. Frames on their way are ordered by arrival.
pub(crate) struct Direction {
    weather: Weather,
    on_the_way: BTreeMap<(Instant, u64), Bytes>,
    free_at: Instant,
    sent: u64,
}

impl Direction {
    pub(crate) fn new(now: Instant, weather: Weather) -> Self {
        Self {
            weather,
            on_the_way: BTreeMap::new(),
            free_at: now,
            sent: 0,
        }
    }

    pub(crate) fn send(&mut self, now: Instant, frame: &Bytes, rng: &mut TestRng) {
        let is_record = route(frame).unwrap().kind == Some(Kind::Data);
        let suffers = is_record || self.weather.handshakes_too;
        self.free_at = self.free_at.max(now) + SLOT;
        let repeats = if suffers && rng.below(1000) < self.weather.repeated {
            2
        } else {
            1
        };
        for _ in 0..repeats {
            if suffers && rng.below(1000) < self.weather.lost {
                continue;
            }
            let late = if is_record { rng.below(self.weather.late + 1) } else { 0 };
            let arrival = self.free_at + LATENCY + SLOT * u32::try_from(late).unwrap();
            self.sent += 1;
            self.on_the_way.insert((arrival, self.sent), frame.clone());
        }
    }

    /// Puts a frame in that nothing happens to, as the relay does.
    pub(crate) fn send_safely(&mut self, now: Instant, frame: Bytes) {
        self.sent += 1;
        self.on_the_way.insert((now + LATENCY, self.sent), frame);
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.on_the_way.keys().next().map(|&(arrival, _)| arrival)
    }

    pub(crate) fn receive(&mut self, now: Instant) -> Option<Bytes> {
        let first = self.on_the_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn cut(&mut self) {
        self.on_the_way.clear();
    }
}
