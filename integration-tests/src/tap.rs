//! A relay that cannot be trusted, in front of an honest one: it sees every frame, may change each of them, and adds its own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::link::{self, Party};
use crate::upgrade::{read_head, upgrade};

/// Whose frame it is, by who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A harness, on its way to the executor.
    Harness,
    /// The executor, on its way to a harness.
    Executor,
}

/// Changes a frame on its way from a party to the honest relay: nothing, another one, or several.
type Change = Box<dyn FnMut(Sender, Bytes) -> Vec<Bytes> + Send>;

/// The relay; it ends when it is dropped.
#[derive(Debug)]
pub struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    state: Mutex<State>,
    seen: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    honest: Option<SocketAddr>,
    frames: Vec<(Sender, Bytes)>,
    change: Option<Change>,
    /// What is added to the newest connection of each party, towards it.
    to_harness: Option<mpsc::UnboundedSender<Bytes>>,
    to_executor: Option<mpsc::UnboundedSender<Bytes>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Tap {
    /// A relay on a free port of loopback.
    ///
    /// # Errors
    ///
    /// No port could be bound.
    pub async fn listen(honest: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                honest: Some(honest),
                ..State::default()
            }),
            seen: watch::channel(0).0,
        });
        let stop = CancellationToken::new();
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(accept(listener, Arc::clone(&shared), stop.clone())),
        );
        Ok(Self {
            address,
            shared,
            _stop: stop.drop_guard(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads new connections to another honest relay.
    pub fn lead_to(&self, honest: SocketAddr) {
        self.shared.state().honest = Some(honest);
    }

    /// Every frame that a party sent so far, as it was sent.
    pub fn frames(&self) -> Vec<(Sender, Bytes)> {
        self.shared.state().frames.clone()
    }

    /// Changes every frame from now on.
    pub fn change(&self, change: impl FnMut(Sender, Bytes) -> Vec<Bytes> + Send + 'static) {
        self.shared.state().change = Some(Box::new(change));
    }

    /// Forwards as an honest relay from now on.
    pub fn be_honest(&self) {
        self.shared.state().change = None;
    }

    /// Sends a frame to the executor, or to the harness that connected last, as if the other one had sent it.
    ///
    /// # Errors
    ///
    /// There is no such connection.
    pub fn inject(&self, as_if: Sender, frame: Bytes) -> Result<()> {
        let state = self.shared.state();
        let to = match as_if {
            Sender::Harness => &state.to_executor,
            Sender::Executor => &state.to_harness,
        };
        let to = to.as_ref().context("no connection")?;
        to.send(frame).context("the connection is gone")
    }

    /// Waits until `find` finds something in the frames so far.
    ///
    /// # Errors
    ///
    /// It does not within the time.
    pub async fn wait<T>(
        &self,
        what: &str,
        within: Duration,
        mut find: impl FnMut(&[(Sender, Bytes)]) -> Option<T>,
    ) -> Result<T> {
        let mut seen = self.shared.seen.subscribe();
        let found = async {
            loop {
                seen.mark_unchanged();
                if let Some(found) = find(&self.shared.state().frames) {
                    return found;
                }
                if seen.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(within, found)
            .await
            .with_context(|| format!("{what} did not come within {within:?}"))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a frame, and gives what is sent in its place.
    fn pass(&self, from: Sender, frame: Bytes) -> Vec<Bytes> {
        let mut state = self.state();
        state.frames.push((from, frame.clone()));
        let count = state.frames.len();
        let passed = match &mut state.change {
            Some(change) => change(from, frame),
            None => vec![frame],
        };
        drop(state);
        self.seen.send_replace(count);
        passed
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        // However it ends, both sides see it.
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let _ = serve(client, &shared).await;
        }));
    }
}

async fn serve(mut client: TcpStream, shared: &Shared) -> Result<()> {
    client.set_nodelay(true)?;
    let head = read_head(&mut client).await?;
    let from = match link::party_of(head.as_bytes()) {
        Party::Executor => Sender::Executor,
        Party::Harness => Sender::Harness,
        Party::Other => bail!("no relay connection"),
    };
    let honest = shared.state().honest.context("no honest relay")?;
    let target = head.split(' ').nth(1).context("a target")?;
    let server = TcpStream::connect(honest).await?;
    server.set_nodelay(true)?;
    let (mut server, _) = tokio_tungstenite::client_async(format!("ws://{honest}{target}"), server).await?;
    let mut client = upgrade(client, &head).await?;
    let (injections, mut injected) = mpsc::unbounded_channel();
    match from {
        Sender::Harness => shared.state().to_harness = Some(injections),
        Sender::Executor => shared.state().to_executor = Some(injections),
    }
    loop {
        tokio::select! {
            message = client.next() => {
                if let Message::Binary(frame) = message.context("the client left")?? {
                    for frame in shared.pass(from, frame) {
                        server.send(Message::Binary(frame)).await?;
                    }
                }
            }
            message = server.next() => {
                if let message @ Message::Binary(_) = message.context("the relay left")?? {
                    client.send(message).await?;
                }
            }
            Some(frame) = injected.recv() => client.send(Message::Binary(frame)).await?,
        }
    }
}
