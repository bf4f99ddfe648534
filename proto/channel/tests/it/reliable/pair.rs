//! Two ends without a network: what each sends is in the test's hands.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::reliable::{Config, EXECUTOR_GRACE, HARNESS_GRACE, MAX_WINDOW, Pool};
use rendezvous_channel::stream::{Event, Stream};
use rendezvous_channel::{Identity, Prologue, Responder};
use rendezvous_wire::frame::{Body, Frame};

use crate::support::{TestRng, environment, events, harness, registration, stream_id, unlimited};

pub(crate) const STREAM: &str = "reliable-stream";
pub(crate) const REQUEST: &[u8] = b"{\"method\":\"initialize\"}";
pub(crate) const RESPONSE: &[u8] = b"{\"result\":{}}";

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) rng: TestRng,
    pub(crate) pool: Pool,
    pub(crate) budget: Budget,
    pub(crate) harness: Stream,
    pub(crate) executor: Stream,
}

impl Pair {
    /// Two ends behind the handshake that offer the extension.
    pub(crate) fn undecided(seed: u64) -> Self {
        let pool = Pool::new(4 * MAX_WINDOW);
        Self::with(seed, &pool, [true, true])
    }

    pub(crate) fn with(seed: u64, pool: &Pool, offers: [bool; 2]) -> Self {
        Self::with_graces(seed, pool, offers, [HARNESS_GRACE, EXECUTOR_GRACE])
    }

    /// Two ends that agreed, and never give up a suspended stream.
    pub(crate) fn patient(seed: u64) -> Self {
        let forever = Duration::from_secs(100_000);
        let pool = Pool::new(4 * MAX_WINDOW);
        let mut pair = Self::with_graces(seed, &pool, [true, true], [forever, forever]);
        pair.agree();
        pair
    }

    fn with_graces(seed: u64, pool: &Pool, offers: [bool; 2], graces: [Duration; 2]) -> Self {
        let mut rng = TestRng::new(seed);
        let (identity, executor) = (Identity::generate(&mut rng), Identity::generate(&mut rng));
        let now = Instant::now();
        let config = |grace| Config {
            pool: pool.clone(),
            grace,
        };
        let mut harness = harness(now, STREAM, &identity, &executor, "authorization", &mut rng);
        if offers[0] {
            harness = harness.offering(config(graces[0]));
        }
        let frames: Vec<_> = std::iter::from_fn(|| harness.poll_transmit()).collect();
        let Body::Handshake { payload } = Frame::decode(frames[1].clone()).unwrap().body else {
            panic!("no handshake");
        };
        let prologue = Prologue::new(&environment(), &registration(), &stream_id(STREAM));
        let paused = Responder::read(&executor, &prologue, &payload).unwrap();
        let (message, keys) = paused.accept(&mut rng).unwrap();
        let payload = message.into();
        harness.handle_frame(now, Frame::new(stream_id(STREAM), Body::Handshake { payload }));
        assert_eq!(events(&mut harness), [Event::Connected]);
        let budget = unlimited();
        let offer = offers[1].then(|| config(graces[1]));
        let executor = Stream::accept_with(stream_id(STREAM), &keys, &budget, offer);
        Self {
            now,
            rng,
            pool: pool.clone(),
            budget,
            harness,
            executor,
        }
    }

    /// Two ends that agreed.
    pub(crate) fn open(seed: u64) -> Self {
        let mut pair = Self::undecided(seed);
        pair.agree();
        pair
    }

    /// The first messages, as both ends exchange them.
    pub(crate) fn agree(&mut self) {
        self.harness.send(Bytes::from_static(REQUEST)).unwrap();
        let frames = self.harness_sends();
        self.executor_gets(&frames);
        assert_eq!(self.take_at_executor(), [REQUEST]);
        self.executor.set_initialized();
        self.executor.settle(self.now, true);
        self.executor.send(Bytes::from_static(RESPONSE)).unwrap();
        let frames = self.executor_sends();
        self.harness_gets(&frames);
        assert_eq!(self.take_at_harness(), [RESPONSE]);
        self.harness.settle(self.now, true);
        assert!(self.harness.is_reliable() && self.executor.is_reliable());
    }

    pub(crate) fn harness_sends(&mut self) -> Vec<Bytes> {
        self.harness.handle_timeout(self.now);
        std::iter::from_fn(|| self.harness.poll_transmit()).collect()
    }

    pub(crate) fn executor_sends(&mut self) -> Vec<Bytes> {
        self.executor.handle_timeout(self.now);
        std::iter::from_fn(|| self.executor.poll_transmit()).collect()
    }

    pub(crate) fn harness_gets(&mut self, frames: &[Bytes]) {
        for frame in frames {
            self.harness.handle_message(self.now, frame.clone());
        }
    }

    pub(crate) fn executor_gets(&mut self, frames: &[Bytes]) {
        for frame in frames {
            self.executor.handle_message(self.now, frame.clone());
        }
    }

    /// Frames go to and fro until both are silent.
    pub(crate) fn exchange(&mut self) {
        loop {
            let (a, b) = (self.harness_sends(), self.executor_sends());
            if a.is_empty() && b.is_empty() {
                return;
            }
            self.executor_gets(&a);
            self.harness_gets(&b);
        }
    }

    /// Time passes in small steps, with frames going to and fro.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.exchange();
            let next = [self.harness.poll_timeout(), self.executor.poll_timeout()];
            let next = next.into_iter().flatten().min().unwrap_or(end);
            self.now = next.clamp(self.now, end);
            self.harness.handle_timeout(self.now);
            self.executor.handle_timeout(self.now);
        }
        self.exchange();
    }

    /// The connection goes: both ends learn it.
    pub(crate) fn cut(&mut self) {
        assert!(self.harness.suspend(self.now) && self.executor.suspend(self.now));
    }

    /// Messages that the harness has, taken at once; everything else that it tells must be in `others`.
    pub(crate) fn take_at_harness(&mut self) -> Vec<Bytes> {
        take(&mut self.harness, self.now)
    }

    pub(crate) fn take_at_executor(&mut self) -> Vec<Bytes> {
        take(&mut self.executor, self.now)
    }
}

/// Takes messages; tells of suspension and resume are passed over.
fn take(stream: &mut Stream, now: Instant) -> Vec<Bytes> {
    let mut messages = Vec::new();
    for event in events(stream) {
        match event {
            Event::Message(message) => {
                stream.taken(now, message.len());
                messages.push(message);
            }
            Event::Suspended | Event::Resumed => {}
            event => panic!("{event:?}"),
        }
    }
    messages
}

/// The record numbers of data frames.
pub(crate) fn seqs(frames: &[Bytes]) -> Vec<u32> {
    let seq = |frame: &Bytes| match Frame::decode(frame.clone()).unwrap().body {
        Body::Data { seq, .. } => Some(seq),
        _ => None,
    };
    frames.iter().filter_map(seq).collect()
}

pub(crate) fn body(frame: &Bytes) -> Body {
    Frame::decode(frame.clone()).unwrap().body
}
