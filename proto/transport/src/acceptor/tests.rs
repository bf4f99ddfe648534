//! Harness and executor drivers on one relay, over WebSockets in memory, in stopped time.

mod pressure;
mod relay;
mod reliable;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::handshake::HandshakeError;
use rendezvous_channel::stream::{StreamError, Target};
use rendezvous_wire::limits::{MAX_FAILED_HANDSHAKES, VALIDATION_TIMEOUT};
use rendezvous_wire::reason;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task;
use tokio::time::timeout;

use self::relay::{Relay, link_pair};
use super::*;
use crate::link::{Link, LinkError};
use crate::stream::{SEND_BUFFER, StreamEnd, connect, now};

/// Judges by the authorization's text.
#[derive(Default)]
struct ByText {
    asked: AtomicUsize,
    given_up: AtomicUsize,
}

struct CountDrop<'a>(&'a AtomicUsize);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Validator for ByText {
    async fn validate(&self, request: Request) -> Verdict {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match request.authorization.expose() {
            "good" => Verdict::Admit,
            "executor revoked" => Verdict::CredentialRejected,
            "crash" => panic!("asked to"),
            "slow" => {
                let _given_up = CountDrop(&self.given_up);
                pending().await
            }
            _ => Verdict::Reject,
        }
    }
}

struct World {
    relay: Relay,
    executor: Identity,
    harness: Identity,
    accepted: mpsc::UnboundedReceiver<Accepted>,
    validator: Arc<ByText>,
    shutdown: Option<oneshot::Sender<()>>,
    served: task::JoinHandle<Result<(), Arc<LinkError>>>,
    budget: Budget,
    tally: watch::Receiver<Tally>,
}

fn environment() -> EnvironmentId {
    EnvironmentId::new("env").unwrap()
}

fn registration() -> RegistrationId {
    RegistrationId::new("registration").unwrap()
}

impl World {
    async fn new() -> Self {
        Self::with_backlog(Backlog::unlimited()).await
    }

    async fn with_backlog(backlog: Backlog) -> Self {
        let mut rng = UnwrapErr(SysRng);
        let (executor, harness) = (Identity::generate(&mut rng), Identity::generate(&mut rng));
        let (near, far) = link_pair().await;
        let (admitted, accepted) = mpsc::unbounded_channel();
        let (shutdown, stop) = oneshot::channel();
        let (tallies, tally) = watch::channel(Tally::default());
        let validator = Arc::new(ByText::default());
        let budget = Budget::new(256 * 1024 * 1024);
        let options = Options {
            identity: executor.clone(),
            previous: Vec::new(),
            environment: environment(),
            registration: registration(),
            budget: budget.clone(),
            backlog,
            offer: None,
        };
        let judge = validator.clone();
        let serving = async move {
            let mut streams = Streams::new(options);
            let served = streams.serve(
                near,
                registration(),
                judge,
                move |stream| drop(admitted.send(stream)),
                move |tally| {
                    tallies.send_replace(*tally);
                },
                async {
                    let _ = stop.await;
                },
            );
            served.await
        };
        Self {
            relay: Relay::start(far),
            served: tokio::spawn(serving),
            executor,
            harness,
            accepted,
            validator,
            shutdown: Some(shutdown),
            budget,
            tally,
        }
    }

    async fn connect(&self, authorization: &str) -> Result<MessageStream, StreamEnd> {
        let link: Link<DuplexStream> = self.relay.harness().await;
        let target = Target {
            environment: &environment(),
            registration: &registration(),
            executor_key: self.executor.public(),
            authorization: &Secret::new(authorization),
        };
        connect(link, &self.harness, &target, &Budget::new(256 * 1024 * 1024)).await
    }

    /// Both ends of an admitted stream.
    async fn open(&mut self) -> (MessageStream, MessageStream) {
        let harness = self.connect("good").await.unwrap();
        let accepted = self.accepted.recv().await.unwrap();
        assert_eq!(accepted.stream.id(), harness.id());
        assert_eq!(&accepted.harness_key, self.harness.public());
        accepted.stream.set_initialized();
        (harness, accepted.stream)
    }
}

async fn expect(stream: &mut MessageStream, message: &Bytes) {
    let got = stream.recv().await.unwrap().unwrap();
    assert!(got == *message, "{} bytes differ", got.len());
}

async fn expect_alive(harness: &mut MessageStream, executor: &mut MessageStream) {
    let (question, answer) = (Bytes::from_static(b"question"), Bytes::from_static(b"answer"));
    harness.send(question.clone()).await.unwrap();
    expect(executor, &question).await;
    executor.send(answer.clone()).await.unwrap();
    expect(harness, &answer).await;
}

/// The end, and that it comes once.
async fn end_of(stream: &mut MessageStream) -> StreamEnd {
    let end = stream.recv().await.unwrap().unwrap_err();
    assert!(stream.recv().await.is_none());
    end
}

fn long(len: usize) -> Bytes {
    (0..len).map(|i| i.to_le_bytes()[i % 3]).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_of_all_sizes_go_both_ways() {
    let mut world = World::new().await;
    let (mut harness, mut executor) = world.open().await;
    for len in [1, 200, 61_436, 61_437, 200_000, 8 * 1024 * 1024] {
        let message = long(len);
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut harness, &mut executor];
            let sent = ends[from].send(message.clone()).await;
            sent.unwrap();
            expect(ends[to], &message).await;
        }
    }
    assert_eq!(world.budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_is_refused_and_the_stream_goes_on() {
    let mut world = World::new().await;
    let (mut harness, mut executor) = world.open().await;
    for len in [0, rendezvous_wire::limits::MAX_MESSAGE + 1] {
        let refused = harness.send(Bytes::from(vec![0; len])).await;
        assert!(matches!(refused, Err(StreamEnd::Unsendable(got)) if got == len));
    }
    expect_alive(&mut harness, &mut executor).await;
}

#[tokio::test(start_paused = true)]
async fn a_harness_is_admitted_by_its_authorization_only() {
    let mut world = World::new().await;
    for bad in ["bad", "crash"] {
        let end = world.connect(bad).await.unwrap_err();
        assert!(
            matches!(&end, StreamEnd::Reset(reason) if reason == reason::PROTOCOL_ERROR),
            "{end:?}"
        );
    }
    let end = world.connect("executor revoked").await.unwrap_err();
    assert!(!end.is_retryable());
    let StreamEnd::Failed(error) = end else {
        panic!("{end:?}");
    };
    assert!(matches!(&*error, StreamError::Handshake(HandshakeError::Refused(_))));
    let (mut harness, mut executor) = world.open().await;
    expect_alive(&mut harness, &mut executor).await;
    assert_eq!(world.validator.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_counted() {
    let mut world = World::new().await;
    let (harness, mut executor) = world.open().await;
    assert_eq!(world.tally.wait_for(|tally| tally.streams == 1).await.unwrap().texts, 0);
    drop(harness);
    end_of(&mut executor).await;
    for _ in 0..MAX_FAILED_HANDSHAKES {
        world.connect("bad").await.unwrap_err();
    }
    world.connect("good").await.unwrap_err();
    let counted = world.tally.wait_for(|tally| tally.counters.refused == 1).await.unwrap();
    let counters = Counters {
        failed_handshakes: MAX_FAILED_HANDSHAKES.into(),
        admission_pauses: 1,
        refused: 1,
        ..Counters::default()
    };
    assert_eq!(
        *counted,
        Tally {
            counters,
            ..Tally::default()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_text_message_is_dropped_and_counted() {
    let mut world = World::new().await;
    let (mut harness, mut executor) = world.open().await;
    for texts in 1..=2 {
        world.relay.send_text();
        expect_alive(&mut harness, &mut executor).await;
        let seen = world
            .tally
            .wait_for(|tally| tally.texts == texts)
            .await
            .unwrap()
            .streams;
        assert_eq!(seen, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_validation_without_answer_holds_up_nobody_and_ends() {
    let mut world = World::new().await;
    let start = now();
    let (slow, ()) = tokio::join!(world.connect("slow"), async {
        let mut other = World::new().await;
        let (mut harness, mut executor) = other.open().await;
        expect_alive(&mut harness, &mut executor).await;
    });
    assert!(slow.unwrap_err().is_retryable());
    assert!(now() - start >= VALIDATION_TIMEOUT && now() - start < VALIDATION_TIMEOUT + Duration::from_secs(2));
    // The harness waits no longer, so that alone tells nothing of the executor.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.validator.given_up.load(Ordering::Relaxed), 1);
    let (mut harness, mut executor) = world.open().await;
    expect_alive(&mut harness, &mut executor).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_executors_end_sends_what_was_sent_and_then_resets() {
    let mut world = World::new().await;
    let (mut harness, executor) = world.open().await;
    let message = long(300_000);
    executor.send(message.clone()).await.unwrap();
    let (sender, receiver) = executor.split();
    drop(receiver);
    expect(&mut harness, &message).await;
    let end = end_of(&mut harness).await;
    assert!(
        matches!(&end, StreamEnd::Reset(reason) if reason == reason::PROCESSOR_ENDED),
        "{end:?}"
    );
    assert!(sender.send(long(1)).await.is_err());
    assert!(harness.send(long(1)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn closing_waits_until_everything_is_sent() {
    let mut world = World::new().await;
    let (mut harness, executor) = world.open().await;
    let message = long(900_000);
    executor.send(message.clone()).await.unwrap();
    tokio::join!(executor.close(), expect(&mut harness, &message));
    end_of(&mut harness).await;

    let (harness, mut executor) = world.open().await;
    harness.send(message.clone()).await.unwrap();
    tokio::join!(harness.close(), expect(&mut executor, &message));
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Reset(_)));
}

#[tokio::test(start_paused = true)]
async fn a_harness_that_goes_ends_its_stream_only() {
    let mut world = World::new().await;
    let (gone, mut executor) = world.open().await;
    let (mut harness, mut other) = world.open().await;
    drop(gone);
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Reset(_)));
    expect_alive(&mut harness, &mut other).await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_stream_does_not_starve_another() {
    let mut world = World::new().await;
    let (mut busy, flood) = world.open().await;
    let (mut harness, mut executor) = world.open().await;
    let message = long(SEND_BUFFER);
    let total = 30;
    let received = AtomicUsize::new(0);
    let flooding = async {
        for _ in 0..total {
            flood.send(message.clone()).await.unwrap();
        }
    };
    let draining = async {
        for _ in 0..total {
            expect(&mut busy, &message).await;
            received.fetch_add(1, Ordering::Relaxed);
        }
    };
    let talking = async {
        for _ in 0..10 {
            expect_alive(&mut harness, &mut executor).await;
        }
        received.load(Ordering::Relaxed)
    };
    let ((), (), by_then) = tokio::join!(flooding, draining, talking);
    assert!(by_then < total - 5, "{by_then} of {total} were through");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_stream() {
    let mut world = World::new().await;
    let (mut harness, mut executor) = world.open().await;
    world.shutdown.take();
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Closed));
    assert!(matches!(end_of(&mut harness).await, StreamEnd::Disconnected(_)));
    world.served.await.unwrap().unwrap();
    assert!(executor.send(long(1)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_every_stream() {
    let mut world = World::new().await;
    let (mut harness, mut executor) = world.open().await;
    world.relay.stop();
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Disconnected(_)));
    assert!(matches!(end_of(&mut harness).await, StreamEnd::Disconnected(_)));
    assert!(world.served.await.unwrap().is_err());
}
