//! The two ends, their applications, and the clock.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::acceptor::{self, StreamKey, ValidationId, Verdict};
use rendezvous_channel::budget::Budget;
use rendezvous_channel::stream::{self, Stream};
use rendezvous_channel::{Acceptor, Identity};
use rendezvous_wire::frame::Frame;
use rendezvous_wire::reason;

use super::network::{Direction, Weather};
use crate::support::{TestRng, environment, harness, registration, stream_id};

const STREAM: &str = "simulated";
/// No run takes longer, or something hangs.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Both applications speak at least so often, as JSON-RPC clients that watch their peer do: silence hides a loss.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_MESSAGE: &[u8] = b"keepalive";

/// How a run ended.
#[derive(Debug)]
#[expect(dead_code, reason = "printed when a run fails")]
pub(crate) enum Outcome {
    /// Both ends have everything.
    Complete { after: Duration },
    /// Both ends know that the stream is over.
    Ended {
        after: Duration,
        harness: String,
        executor: String,
    },
}

/// The application at one end: what it says, and what it has heard.
struct Application {
    to_say: Vec<Bytes>,
    said: usize,
    expected: Vec<Bytes>,
    heard: usize,
    last_words: Instant,
    ended: Option<String>,
}

impl Application {
    fn new(now: Instant, to_say: Vec<Bytes>, expected: Vec<Bytes>) -> Self {
        Self {
            to_say,
            said: 0,
            expected,
            heard: 0,
            last_words: now,
            ended: None,
        }
    }

    fn hear(&mut self, message: &[u8]) {
        if message != KEEPALIVE_MESSAGE {
            assert!(message == self.expected[self.heard], "message {} differs", self.heard);
            self.heard += 1;
        }
    }

    /// What it says next, if it says something now.
    fn speak(&mut self, now: Instant) -> Option<Bytes> {
        if let Some(message) = self.to_say.get(self.said) {
            self.said += 1;
            self.last_words = now;
            return Some(message.clone());
        }
        if now >= self.last_words + KEEPALIVE {
            self.last_words = now;
            return Some(Bytes::from_static(KEEPALIVE_MESSAGE));
        }
        None
    }

    fn has_all(&self) -> bool {
        self.heard == self.expected.len()
    }
}

pub(crate) struct World {
    rng: TestRng,
    start: Instant,
    now: Instant,
    weather: Weather,
    budget: Budget,
    harness: Stream,
    acceptor: Acceptor,
    key: Option<StreamKey>,
    verdict_due: Option<(Instant, ValidationId)>,
    outbound: Direction,
    inbound: Direction,
    at_harness: Application,
    at_executor: Application,
    is_cut: bool,
}

impl World {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        let mut rng = TestRng::new(seed);
        let now = Instant::now();
        let (identity, executor) = (Identity::generate(&mut rng), Identity::generate(&mut rng));
        let budget = Budget::new(64 * 1024 * 1024);
        let mut script = || -> Vec<Bytes> {
            (0..rng.below(20))
                .map(|_| {
                    let most = [30, 3000, 200_000][usize::try_from(rng.below(3)).unwrap()];
                    let len = usize::try_from(1 + rng.below(most)).unwrap();
                    rng.bytes(len).into()
                })
                .collect()
        };
        let (questions, answers) = (script(), script());
        Self {
            harness: harness(now, STREAM, &identity, &executor, "authorization", &mut rng),
            acceptor: Acceptor::new(executor, environment(), registration(), budget.clone()),
            budget,
            key: None,
            verdict_due: None,
            outbound: Direction::new(now, weather.clone()),
            inbound: Direction::new(now, weather.clone()),
            at_harness: Application::new(now, questions.clone(), answers.clone()),
            at_executor: Application::new(now, answers, questions),
            is_cut: false,
            start: now,
            now,
            weather,
            rng,
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        loop {
            self.speak();
            self.transmit();
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            self.now = self.next_moment().max(self.now);
            let after = self.now - self.start;
            assert!(
                after < TIME_LIMIT,
                "hangs: harness {:?} {}/{}, executor {:?} {}/{}",
                self.at_harness.ended,
                self.at_harness.heard,
                self.at_harness.expected.len(),
                self.at_executor.ended,
                self.at_executor.heard,
                self.at_executor.expected.len(),
            );
            self.step();
        }
    }

    fn speak(&mut self) {
        while self.at_harness.ended.is_none() && self.harness.has_room() {
            let Some(message) = self.at_harness.speak(self.now) else {
                break;
            };
            self.harness.send(message).unwrap();
        }
        while let Some(key) = self.key
            && self.acceptor.has_room(key)
        {
            let Some(message) = self.at_executor.speak(self.now) else {
                break;
            };
            self.acceptor.send(key, message).unwrap();
        }
    }

    fn transmit(&mut self) {
        while let Some(frame) = self.harness.poll_transmit() {
            if !self.is_cut {
                self.outbound.send(self.now, &frame, &mut self.rng);
            }
        }
        while let Some(frame) = self.acceptor.poll_transmit() {
            if !self.is_cut {
                self.inbound.send(self.now, &frame, &mut self.rng);
            }
        }
    }

    fn next_moment(&self) -> Instant {
        let cut = self
            .weather
            .cut
            .filter(|_| !self.is_cut)
            .map(|after| self.start + after);
        [
            self.harness.poll_timeout(),
            self.acceptor.poll_timeout(),
            self.verdict_due.map(|(due, _)| due),
            self.outbound.next_arrival(),
            self.inbound.next_arrival(),
            cut,
            Some(self.now + KEEPALIVE),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap()
    }

    fn step(&mut self) {
        let now = self.now;
        if self.weather.cut.is_some_and(|after| now >= self.start + after) {
            self.cut();
        }
        self.harness.handle_timeout(now);
        self.acceptor.handle_timeout(now);
        if let Some((due, id)) = self.verdict_due
            && due <= now
        {
            self.verdict_due = None;
            self.acceptor.handle_verdict(now, id, Verdict::Admit, &mut self.rng);
        }
        while let Some(frame) = self.outbound.receive(now) {
            self.acceptor.handle_message(now, frame);
        }
        while let Some(frame) = self.inbound.receive(now) {
            self.harness.handle_message(now, frame);
        }
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(event) = self.harness.poll_event() {
            match event {
                stream::Event::Connected
                | stream::Event::Suspended
                | stream::Event::Resumed
                | stream::Event::Ended { .. }
                | stream::Event::Worn => {}
                stream::Event::Message(message) => self.at_harness.hear(&message),
                stream::Event::Reset { reason } => self.at_harness.ended = Some(format!("reset: {reason}")),
                stream::Event::Failed(error) => self.at_harness.ended = Some(error.to_string()),
            }
        }
        while let Some(event) = self.acceptor.poll_event() {
            match event {
                acceptor::Event::ValidationRequested { id, .. } => {
                    let due = self.now + Duration::from_millis(self.rng.below(2000));
                    self.verdict_due = Some((due, id));
                }
                acceptor::Event::StreamOpened { key, .. } => {
                    self.key = Some(key);
                    self.acceptor.set_initialized(key);
                }
                acceptor::Event::Message { message, .. } => self.at_executor.hear(&message),
                acceptor::Event::StreamSuspended { .. } | acceptor::Event::StreamResumed { .. } => {
                    panic!("stock streams end with their connection");
                }
                acceptor::Event::StreamClosed { ended, .. } => {
                    self.key = None;
                    self.at_executor.ended = Some(format!("{ended:?}"));
                }
            }
        }
        // A harness whose stream is over leaves; the relay tells the executor.
        if self.at_harness.ended.is_some() {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.is_cut {
            return;
        }
        self.is_cut = true;
        self.at_harness
            .ended
            .get_or_insert_with(|| "connection lost".to_owned());
        self.inbound.cut();
        self.outbound.cut();
        let reset = Frame::reset(stream_id(STREAM), reason::HARNESS_GONE);
        self.outbound.send_safely(self.now, reset.to_bytes());
    }

    fn outcome(&self) -> Option<Outcome> {
        let after = self.now - self.start;
        if self.at_harness.has_all() && self.at_executor.has_all() && self.at_harness.ended.is_none() {
            return Some(Outcome::Complete { after });
        }
        let harness = self.at_harness.ended.clone()?;
        if self.outbound.next_arrival().is_some() || self.verdict_due.is_some() || self.acceptor.active_streams() > 0 {
            return None;
        }
        assert_eq!(self.budget.used(), 0);
        let executor = self
            .at_executor
            .ended
            .clone()
            .unwrap_or_else(|| "never opened".to_owned());
        Some(Outcome::Ended {
            after,
            harness,
            executor,
        })
    }
}
