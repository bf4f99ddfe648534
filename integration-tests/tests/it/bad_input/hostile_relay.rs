//! A relay under an attacker's control: it forwards like an honest one, until it is told what to do to whom.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_integration_tests::upgrade::{accept_key, read_head, upgrade};
use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::StreamId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// What the relay does to the connection of one harness.
#[derive(Clone, Copy)]
pub(super) enum Misdeed {
    /// Answers the upgrade with these bytes; the argument is the answer to the client's key.
    Answer(fn(&str) -> Vec<u8>),
    /// Answers the harness's first two frames itself.
    Instead(fn(&StreamId) -> Vec<Message>),
    /// Forwards, and once it is [`HostileRelay::strike`]'s turn gives these messages for the executor's next frame.
    Amid(fn(&StreamId, Bytes) -> Vec<Message>),
}

/// A misdeed that waits for its harness.
#[derive(Clone, Copy)]
struct Plan {
    misdeed: Misdeed,
    /// It is done to every connection, not only to the first.
    forever: bool,
    armed: bool,
}

/// The relay; it ends with the test's runtime.
pub(super) struct HostileRelay {
    address: SocketAddr,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    honest: Option<SocketAddr>,
    plans: HashMap<String, Plan>,
    done: HashMap<String, usize>,
}

impl HostileRelay {
    pub(super) async fn listen() -> Result<Arc<Self>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let relay = Arc::new(Self {
            address: listener.local_addr()?,
            state: Mutex::default(),
        });
        let accepting = Arc::clone(&relay);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let relay = Arc::clone(&accepting);
                tokio::spawn(async move {
                    // However it ends, the client sees it.
                    let _ = relay.serve(socket).await;
                });
            }
        });
        Ok(relay)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the honest relay is.
    pub(super) fn lead_to(&self, honest: SocketAddr) {
        self.state().honest = Some(honest);
    }

    /// Plans a misdeed for the holder of a credential.
    pub(super) fn plan(&self, credential: &str, misdeed: Misdeed, forever: bool) {
        let plan = Plan {
            misdeed,
            forever,
            armed: false,
        };
        self.state().plans.insert(credential.to_owned(), plan);
    }

    /// Lets [`Misdeed::Amid`] happen.
    pub(super) fn strike(&self, credential: &str) {
        if let Some(plan) = self.state().plans.get_mut(credential) {
            plan.armed = true;
        }
    }

    /// How often the credential's holder met its misdeed.
    pub(super) fn done(&self, credential: &str) -> usize {
        self.state().done.get(credential).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, credential: &str) {
        let mut state = self.state();
        *state.done.entry(credential.to_owned()).or_default() += 1;
        if state.plans.get(credential).is_some_and(|plan| !plan.forever) {
            state.plans.remove(credential);
        }
    }

    async fn serve(&self, mut client: TcpStream) -> Result<()> {
        client.set_nodelay(true)?;
        let head = read_head(&mut client).await?;
        let credential = credential_of(&head).unwrap_or_default();
        let (honest, plan) = {
            let state = self.state();
            (
                state.honest.context("an honest relay")?,
                state.plans.get(&credential).copied(),
            )
        };
        match plan.map(|plan| plan.misdeed) {
            None => {
                let mut server = TcpStream::connect(honest).await?;
                server.set_nodelay(true)?;
                server.write_all(head.as_bytes()).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await?;
                Ok(())
            }
            Some(Misdeed::Answer(answer)) => {
                self.count(&credential);
                client.write_all(&answer(&accept_key(&head)?)).await?;
                linger(client).await
            }
            Some(Misdeed::Instead(answer)) => {
                self.count(&credential);
                let mut client = upgrade(client, &head).await?;
                let stream = stream_of(&mut client).await?;
                stream_of(&mut client).await?;
                for message in answer(&stream) {
                    client.send(message).await?;
                }
                while let Some(Ok(_)) = client.next().await {}
                Ok(())
            }
            Some(Misdeed::Amid(change)) => self.forward(client, &head, honest, &credential, change).await,
        }
    }

    async fn forward(
        &self,
        client: TcpStream,
        head: &str,
        honest: SocketAddr,
        credential: &str,
        change: fn(&StreamId, Bytes) -> Vec<Message>,
    ) -> Result<()> {
        let target = head.split(' ').nth(1).context("a target")?;
        let server = TcpStream::connect(honest).await?;
        server.set_nodelay(true)?;
        let (mut server, _) = tokio_tungstenite::client_async(format!("ws://{honest}{target}"), server).await?;
        let mut client = upgrade(client, head).await?;
        loop {
            tokio::select! {
                message = client.next() => server.send(message.context("the harness left")??).await?,
                message = server.next() => {
                    let message = message.context("the honest relay left")??;
                    let armed = self.state().plans.get(credential).is_some_and(|plan| plan.armed);
                    let Message::Binary(bytes) = &message else {
                        client.send(message).await?;
                        continue;
                    };
                    if armed {
                        self.count(credential);
                        let stream = Frame::decode(bytes.clone())?.stream_id;
                        for message in change(&stream, bytes.clone()) {
                            client.send(message).await?;
                        }
                    } else {
                        client.send(message).await?;
                    }
                }
            }
        }
    }
}

/// Keeps a connection open until the client leaves, as an attacker would.
async fn linger(mut client: TcpStream) -> Result<()> {
    let mut buffer = vec![0; 4096];
    while client.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// The credential in the ticket of a harness.
fn credential_of(head: &str) -> Option<String> {
    let ticket = head.split_once("ticket=")?.1.split_once(' ')?.0;
    let claims = URL_SAFE_NO_PAD.decode(ticket.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    Some(claims["sub"].as_str()?.to_owned())
}

async fn stream_of(client: &mut WebSocketStream<TcpStream>) -> Result<StreamId> {
    loop {
        if let Message::Binary(bytes) = client.next().await.context("a frame")?? {
            return Ok(Frame::decode(bytes)?.stream_id);
        }
    }
}
