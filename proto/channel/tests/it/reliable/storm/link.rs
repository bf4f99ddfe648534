//! What is between two ends, and what it does to frames.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_wire::frame::{Body, Frame};

use super::super::pair::STREAM;
use crate::support::{TestRng, stream_id};

/// Frames that a relay remembers to play them again.
const MEMORY: usize = 64;

/// What a relay does.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    pub(super) latency: Duration,
    /// Frames of a thousand that are lost.
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) corrupted: u64,
    /// Frames of a thousand at which the relay says something of its own.
    pub(super) forged: u64,
    /// By how many milliseconds a frame may be late.
    pub(super) late: u64,
    /// Mean time between cuts, in milliseconds.
    pub(super) cuts: u64,
    /// Mean time between stalls of an end.
    pub(super) stalls: u64,
}

impl Weather {
    pub(super) fn any(rng: &mut TestRng) -> Self {
        let mut one_of = |choices: &[u64]| {
            let index = rng.below(choices.len() as u64);
            choices[usize::try_from(index).unwrap()]
        };
        Self {
            latency: Duration::from_millis(one_of(&[1, 20, 100, 400])),
            lost: one_of(&[0, 5, 50, 300]),
            repeated: one_of(&[0, 20, 200]),
            corrupted: one_of(&[0, 5, 50]),
            forged: one_of(&[0, 0, 10, 50]),
            late: one_of(&[0, 5, 100, 2000]),
            cuts: one_of(&[u64::MAX, 20_000, 5_000, 1_000]),
            stalls: one_of(&[u64::MAX, 20_000, 5_000]),
        }
    }

    pub(super) fn clear(&self) -> Self {
        Self {
            latency: self.latency,
            lost: 0,
            repeated: 0,
            corrupted: 0,
            forged: 0,
            late: 0,
            cuts: u64::MAX,
            stalls: u64::MAX,
        }
    }
}

/// One direction. What is on its way is ordered by arrival.
pub(super) struct Direction {
    on_the_way: BTreeMap<(Instant, u64), Bytes>,
    memory: Vec<Bytes>,
    count: u64,
    /// Ciphertext takes its time, too.
    free_at: Instant,
}

/// Frames that suffered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Harm {
    pub(super) lost: u64,
    pub(super) repeated: u64,
    pub(super) corrupted: u64,
    pub(super) forged: u64,
}

impl Direction {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            on_the_way: BTreeMap::new(),
            memory: Vec::new(),
            count: 0,
            free_at: now,
        }
    }

    pub(super) fn send(&mut self, now: Instant, frame: &Bytes, weather: &Weather, rng: &mut TestRng, harm: &mut Harm) {
        let mut happens = |of_a_thousand: u64, count: &mut u64| {
            let happens = rng.below(1000) < of_a_thousand;
            *count += u64::from(happens);
            happens
        };
        let lost = happens(weather.lost, &mut harm.lost);
        let repeated = happens(weather.repeated, &mut harm.repeated);
        let corrupted = happens(weather.corrupted, &mut harm.corrupted);
        let forged = happens(weather.forged, &mut harm.forged);
        // 1 Gbit/s.
        self.free_at = self.free_at.max(now) + Duration::from_nanos(8 * frame.len() as u64);
        for _ in 0..u32::from(!lost) + u32::from(repeated) {
            let frame = if corrupted { corrupt(frame, rng) } else { frame.clone() };
            self.put(weather, frame, rng);
        }
        if weather.forged > 0 {
            if self.memory.len() < MEMORY {
                self.memory.push(frame.clone());
            } else {
                let place = usize::try_from(rng.below(MEMORY as u64)).unwrap();
                self.memory[place] = frame.clone();
            }
        }
        if forged {
            let frame = self.forge(rng);
            self.put(weather, frame, rng);
        }
    }

    fn put(&mut self, weather: &Weather, frame: Bytes, rng: &mut TestRng) {
        let late = Duration::from_millis(rng.below(weather.late + 1));
        self.count += 1;
        self.on_the_way
            .insert((self.free_at + weather.latency + late, self.count), frame);
    }

    /// What a relay may say by itself.
    fn forge(&self, rng: &mut TestRng) -> Bytes {
        let id = stream_id(STREAM);
        let seq = u32::try_from(rng.below(200)).unwrap();
        let body = match rng.below(6) {
            0 => return Frame::reset(id, "somebody left").to_bytes(),
            1 => Body::Ack,
            2 => Body::Reattach {
                next_seq: seq,
                epoch: rng.below(50),
                proof: [7; 32],
            },
            3 => Body::Data {
                seq,
                payload: rng.bytes(100).into(),
            },
            // Something that was said before.
            _ => {
                let place = rng.below(self.memory.len().max(1) as u64);
                let old = self.memory.get(usize::try_from(place).unwrap());
                return old.cloned().unwrap_or_default();
            }
        };
        let frame = Frame {
            ack: seq,
            ack_bits: u32::try_from(rng.below(1 << 32)).unwrap(),
            ..Frame::new(id, body)
        };
        frame.to_bytes()
    }

    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.on_the_way.keys().next().map(|&(arrival, _)| arrival)
    }

    pub(super) fn receive(&mut self, now: Instant) -> Option<Bytes> {
        let first = self.on_the_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(super) fn cut(&mut self) {
        self.on_the_way.clear();
    }
}

/// Flips a bit, or cuts the frame off.
fn corrupt(frame: &Bytes, rng: &mut TestRng) -> Bytes {
    let place = usize::try_from(rng.below(frame.len() as u64)).unwrap();
    if rng.chance(20) {
        return frame.slice(..place);
    }
    let mut frame = frame.to_vec();
    frame[place] ^= 1 << rng.below(8);
    frame.into()
}
