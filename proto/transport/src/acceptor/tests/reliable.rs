//! Streams that outlive their connections.

use std::sync::Mutex;

use rendezvous_channel::reliable::{Config, EXECUTOR_GRACE, HARNESS_GRACE, MAX_WINDOW, Pool};
use tokio::task::AbortHandle;

use super::*;
use crate::stream::{MessageReceiver, MessageSender, Offer, Redial, RedialError, WayBack, connect_reliable};

mod keepers;
mod refusals;

/// Where harnesses find the relay of the moment.
type Place = Arc<Mutex<Relay>>;

/// What a harness does when its connection is gone.
struct Way {
    place: Place,
    is_moved: bool,
    /// Nobody can help it.
    is_final: bool,
}

impl Redial for Way {
    type Socket = DuplexStream;

    async fn redial(&mut self) -> Result<WayBack<DuplexStream>, RedialError> {
        let (near, far) = link_pair().await;
        let is_final = self.is_final;
        if is_final || self.place.lock().unwrap().take_harness(far).is_err() {
            return Err(RedialError {
                is_final,
                after: Duration::ZERO,
                source: Arc::new(std::io::Error::other("no relay")),
            });
        }
        Ok(WayBack {
            link: near,
            is_moved: self.is_moved,
        })
    }
}

struct Pair {
    place: Place,
    /// Gives the executor a connection to a new relay.
    links: mpsc::UnboundedSender<Link<DuplexStream>>,
    accepted: mpsc::UnboundedReceiver<Accepted>,
    serving: AbortHandle,
    stop: watch::Sender<bool>,
    executor: Identity,
    tally: watch::Receiver<Tally>,
}

fn config(grace: Duration) -> Config {
    Config {
        pool: Pool::new(16 * MAX_WINDOW),
        grace,
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // A test that is over has stopped, too.
    let _ = stop.wait_for(|stop| *stop).await;
}

impl Pair {
    async fn new() -> Self {
        Self::with_backlog(Backlog::unlimited()).await
    }

    async fn with_backlog(backlog: Backlog) -> Self {
        let executor = Identity::generate(&mut UnwrapErr(SysRng));
        let (near, far) = link_pair().await;
        let (links, mut arriving) = mpsc::unbounded_channel();
        links.send(near).unwrap();
        let (admitted, accepted) = mpsc::unbounded_channel();
        let (tallies, tally) = watch::channel(Tally::default());
        let (stop, stopping) = watch::channel(false);
        let mut streams = Streams::new(Options {
            identity: executor.clone(),
            previous: Vec::new(),
            environment: environment(),
            registration: registration(),
            budget: Budget::new(256 * 1024 * 1024),
            backlog,
            offer: Some(config(EXECUTOR_GRACE)),
        });
        let serving = tokio::spawn(async move {
            let on_tally = |tally: &Tally| {
                tallies.send_replace(*tally);
            };
            loop {
                let link = tokio::select! {
                    link = arriving.recv() => link,
                    never = streams.keep(on_tally) => match never {},
                };
                let Some(link) = link else { return };
                let on_stream = |stream| drop(admitted.send(stream));
                let judge = Arc::new(ByText::default());
                let stop = stopped(stopping.clone());
                let served = streams.serve(link, registration(), judge, on_stream, on_tally, stop);
                if served.await.is_ok() {
                    return;
                }
            }
        });
        Self {
            place: Arc::new(Mutex::new(Relay::start(far))),
            links,
            accepted,
            serving: serving.abort_handle(),
            stop,
            executor,
            tally,
        }
    }

    fn way(&self) -> Way {
        Way {
            place: self.place.clone(),
            is_moved: false,
            is_final: false,
        }
    }

    async fn connect<R>(&mut self, redial: R) -> (MessageStream, MessageStream)
    where
        R: Redial<Socket = DuplexStream>,
    {
        let identity = Identity::generate(&mut UnwrapErr(SysRng));
        self.connect_as(&identity, redial).await
    }

    async fn connect_as<R>(&mut self, identity: &Identity, redial: R) -> (MessageStream, MessageStream)
    where
        R: Redial<Socket = DuplexStream>,
    {
        let (near, far) = link_pair().await;
        self.place.lock().unwrap().take_harness(far).unwrap();
        let target = Target {
            environment: &environment(),
            registration: &registration(),
            executor_key: self.executor.public(),
            authorization: &Secret::new("good"),
        };
        let offer = Offer {
            config: config(HARNESS_GRACE),
            redial,
        };
        let budget = Budget::new(256 * 1024 * 1024);
        let harness = connect_reliable(near, identity, &target, &budget, offer).await.unwrap();
        let executor = self.accepted.recv().await.unwrap().stream;
        executor.set_initialized();
        (harness, executor)
    }

    /// Both ends of a stream; they agree.
    async fn agree<R>(&mut self, redial: R) -> (MessageStream, MessageStream)
    where
        R: Redial<Socket = DuplexStream>,
    {
        let identity = Identity::generate(&mut UnwrapErr(SysRng));
        self.agree_as(&identity, redial).await
    }

    async fn agree_as<R>(&mut self, identity: &Identity, redial: R) -> (MessageStream, MessageStream)
    where
        R: Redial<Socket = DuplexStream>,
    {
        let (mut harness, mut executor) = self.connect_as(identity, redial).await;
        greet(&mut harness, &mut executor, true).await;
        (harness, executor)
    }

    fn cut(&self) {
        self.place.lock().unwrap().stop();
    }

    /// Another relay takes the place of the one before.
    async fn heal(&self) {
        let (near, far) = link_pair().await;
        *self.place.lock().unwrap() = Relay::start(far);
        self.links.send(near).unwrap();
    }
}

/// The first message of each direction.
async fn greet(harness: &mut MessageStream, executor: &mut MessageStream, agreed: bool) {
    assert!(harness.continuity().borrow().is_offered && executor.continuity().borrow().is_offered);
    let (question, answer) = (Bytes::from_static(b"initialize"), Bytes::from_static(b"agreed"));
    harness.send(question.clone()).await.unwrap();
    expect(executor, &question).await;
    if agreed {
        executor.settle(true);
    }
    executor.send(answer.clone()).await.unwrap();
    expect(harness, &answer).await;
    harness.settle(agreed);
}

async fn send_all(sender: &MessageSender, total: usize, message: impl Fn(usize) -> Bytes) {
    for i in 0..total {
        sender.send(message(i)).await.unwrap();
    }
}

async fn receive_all(receiver: &mut MessageReceiver, total: usize, message: impl Fn(usize) -> Bytes) {
    for i in 0..total {
        let (got, wanted) = (receiver.recv().await.unwrap().unwrap(), message(i));
        assert!(got == wanted, "message {i}, of {} bytes", wanted.len());
    }
}

async fn resumed(stream: &MessageStream, times: u64) {
    let mut continuity = stream.continuity();
    let state = continuity.wait_for(|state| state.resumes >= times && state.suspended_since.is_none());
    assert!(state.await.unwrap().is_reliable);
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_behind_a_lost_relay_and_nothing_is_lost() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (harness, executor) = pair.agree(way).await;
    let id = harness.id().clone();
    let (harness_sender, mut harness_receiver) = harness.split();
    let (executor_sender, mut executor_receiver) = executor.split();
    let message = |i: usize| Bytes::from(vec![(i % 251).to_le_bytes()[0]; 1 + i * 7919 % 200_000]);
    let total = 400;
    let cutting = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(3)).await;
            pair.cut();
            tokio::time::sleep(Duration::from_secs(6)).await;
            pair.heal().await;
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
    };
    tokio::join!(
        send_all(&harness_sender, total, message),
        send_all(&executor_sender, total, message),
        receive_all(&mut harness_receiver, total, message),
        receive_all(&mut executor_receiver, total, message),
        cutting
    );
    assert_eq!(harness_receiver.id(), &id);
    assert!(pair.accepted.try_recv().is_err(), "another handshake");
    let resumes = pair.tally.borrow().resumes;
    assert!(resumes >= 5, "{resumes} resumes");
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_goes_on_too_and_tells_how_it_is() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (mut harness, mut executor) = pair.agree(way).await;
    pair.cut();
    for stream in [&harness, &executor] {
        let mut continuity = stream.continuity();
        continuity
            .wait_for(|state| state.suspended_since.is_some())
            .await
            .unwrap();
    }
    pair.tally.wait_for(|tally| tally.suspended == 1).await.unwrap();
    pair.heal().await;
    resumed(&harness, 1).await;
    resumed(&executor, 1).await;
    expect_alive(&mut harness, &mut executor).await;
    assert_eq!(pair.tally.borrow().suspended, 0);
}

#[tokio::test(start_paused = true)]
async fn ends_that_do_not_agree_have_a_stream_that_ends_with_its_connection() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (mut harness, mut executor) = pair.connect(way).await;
    greet(&mut harness, &mut executor, false).await;
    expect_alive(&mut harness, &mut executor).await;
    assert!(!executor.continuity().borrow().is_offered);
    pair.cut();
    assert!(matches!(end_of(&mut harness).await, StreamEnd::Disconnected(_)));
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Disconnected(_)));
}

#[tokio::test(start_paused = true)]
async fn without_a_way_back_both_ends_give_up_after_their_grace() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (mut harness, mut executor) = pair.agree(way).await;
    let start = now();
    pair.cut();
    let end = end_of(&mut harness).await;
    assert!(matches!(&end, StreamEnd::Failed(_)) && end.is_retryable(), "{end:?}");
    assert!((now() - start).abs_diff(HARNESS_GRACE) < Duration::from_secs(1));
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Failed(_)));
    assert!((now() - start).abs_diff(EXECUTOR_GRACE) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_harness_that_nobody_can_help_gives_up_at_once() {
    let mut pair = Pair::new().await;
    let way = Way {
        is_final: true,
        ..pair.way()
    };
    let (mut harness, _executor) = pair.agree(way).await;
    let start = now();
    pair.cut();
    assert!(matches!(end_of(&mut harness).await, StreamEnd::NotResumed(_)));
    assert!(now() - start < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_executor_elsewhere_that_knows_nothing_of_the_stream_ends_it_soon() {
    let mut pair = Pair::new().await;
    let way = Way {
        is_moved: true,
        ..pair.way()
    };
    let (mut harness, _executor) = pair.agree(way).await;
    let start = now();
    pair.cut();
    pair.serving.abort();
    let other = Pair::new().await;
    std::mem::swap(&mut *pair.place.lock().unwrap(), &mut *other.place.lock().unwrap());
    let end = end_of(&mut harness).await;
    assert!(matches!(&end, StreamEnd::Reset(_)), "{end:?}");
    assert!(now() - start < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_stops_says_so() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (mut harness, mut executor) = pair.agree(way).await;
    executor.send(long(300_000)).await.unwrap();
    let start = now();
    pair.stop.send_replace(true);
    expect(&mut harness, &long(300_000)).await;
    let end = end_of(&mut harness).await;
    assert!(
        matches!(&end, StreamEnd::Reset(reason) if reason == reason::EXECUTOR_GONE),
        "{end:?}"
    );
    assert!(matches!(end_of(&mut executor).await, StreamEnd::Closed));
    assert!(now() - start < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_holds_up_nobody_and_is_not_reset() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (stuck, mut unread) = pair.agree(way).await;
    let way = pair.way();
    let (mut harness, mut executor) = pair.agree(way).await;
    let sent = AtomicUsize::new(0);
    let message = long(SEND_BUFFER / 2);
    let total = 60;
    let flooding = async {
        for _ in 0..total {
            stuck.send(message.clone()).await.unwrap();
            sent.fetch_add(1, Ordering::Relaxed);
        }
    };
    let talking = async {
        for _ in 0..120 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let start = now();
            expect_alive(&mut harness, &mut executor).await;
            assert!(now() - start < Duration::from_millis(100));
        }
        let held = sent.load(Ordering::Relaxed) * message.len();
        assert!(held < 8 * SEND_BUFFER, "{held}");
        for _ in 0..total {
            expect(&mut unread, &message).await;
        }
    };
    tokio::join!(flooding, talking);
}

/// Sizes at which the bytes and the number of messages that may wait are used up together.
#[tokio::test(start_paused = true)]
async fn a_full_send_buffer_drops_no_message_of_any_size() {
    let mut pair = Pair::new().await;
    let way = pair.way();
    let (harness, executor) = pair.agree(way).await;
    let (to_executor, mut from_executor) = harness.split();
    let (to_harness, mut from_harness) = executor.split();
    for len in [1, 1019, 1020, 1021, 1024, 1300, 2000, SEND_BUFFER - 3, SEND_BUFFER] {
        let total = 2000.min(4 * SEND_BUFFER / len);
        let message = |i: usize| {
            let mut message = vec![0; len];
            message[0] = (i % 251).to_le_bytes()[0];
            Bytes::from(message)
        };
        let healing = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            pair.heal().await;
        };
        pair.cut();
        tokio::join!(
            send_all(&to_executor, total, message),
            send_all(&to_harness, total, message),
            receive_all(&mut from_harness, total, message),
            receive_all(&mut from_executor, total, message),
            healing
        );
    }
}
