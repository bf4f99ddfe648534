//! Parties without manners: they speak the registry's HTTP and the relay's frames byte by byte, right or wrong.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::key::{MLKEM768_LEN, PublicKey, X25519_LEN};
use rendezvous_wire::registry::{ConnectResponse, RegisterResponse};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::registry;

/// Longest time for the answer to an upgrade.
const ANSWER: Duration = Duration::from_secs(15);
/// Names the reason of a refused upgrade.
const REASON_HEADER: &str = "x-codex-rendezvous-rejection-reason";

/// An HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The `error.code` of the body, or nothing.
    pub fn code(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The body of an answer that must be 200.
    ///
    /// # Errors
    ///
    /// It is another one.
    pub fn ok<T: DeserializeOwned>(&self) -> Result<T> {
        if self.status != 200 {
            bail!("status {}: {}", self.status, self.body);
        }
        Ok(serde_json::from_str(&self.body)?)
    }
}

/// A key that nobody holds the secret of.
pub fn made_up_key(seed: u8) -> PublicKey {
    PublicKey {
        x25519: [seed; X25519_LEN],
        mlkem768: Box::new([seed; MLKEM768_LEN]),
    }
}

/// One of the registry's calls with any body.
///
/// # Errors
///
/// No answer.
pub async fn call(
    registry: &str,
    environment: &str,
    call: &str,
    token: &str,
    body: impl Into<reqwest::Body>,
) -> Result<Answer> {
    let response = reqwest::Client::new()
        .post(format!("{registry}/cloud/environment/{environment}/{call}"))
        .bearer_auth(token)
        .header("content-type", "application/json")
        .timeout(Duration::from_secs(15))
        .body(body)
        .send()
        .await?;
    Ok(Answer {
        status: response.status().as_u16(),
        body: response.text().await?,
    })
}

/// Registers a made-up executor key.
///
/// # Errors
///
/// The registry refuses.
pub async fn register(registry: &str, environment: &str, token: &str, key: &PublicKey) -> Result<RegisterResponse> {
    let body = json!({"security_profile": rendezvous_wire::registry::SECURITY_PROFILE, "executor_public_key": key});
    call(registry, environment, "register", token, body.to_string())
        .await?
        .ok()
}

/// Asks for a way to the executor with a made-up harness key.
///
/// # Errors
///
/// The registry refuses.
pub async fn connect(registry: &str, environment: &str, token: &str, key: &PublicKey) -> Result<ConnectResponse> {
    let body = json!({"harness_public_key": key});
    call(registry, environment, "connect", token, body.to_string())
        .await?
        .ok()
}

/// Any transport below a WebSocket.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// A relay connection.
pub struct Peer {
    socket: WebSocketStream<Box<dyn Transport>>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Peer")
    }
}

/// What ended a relay connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A close frame with its code.
    Close(u16),
    /// The connection broke or ended without a close frame.
    Broken,
}

/// What came over a relay connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame.
    Frame(Frame),
    /// The end.
    End(End),
}

impl Peer {
    /// Opens a relay connection; the HTTP status if the relay refuses.
    ///
    /// # Errors
    ///
    /// No HTTP answer at all.
    pub async fn dial(url: &str) -> Result<Result<Self, u16>> {
        let address = registry::address(url)?;
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let socket: Box<dyn Transport> = Box::new(socket);
        let dialled = tokio::time::timeout(ANSWER, tokio_tungstenite::client_async(url, socket));
        match dialled.await.context("no answer to the upgrade")? {
            Ok((socket, _)) => Ok(Ok(Self { socket })),
            Err(tungstenite::Error::Http(response)) => Ok(Err(response.status().as_u16())),
            Err(error) => Err(error.into()),
        }
    }

    /// What the relay answers to an upgrade: the status, and the reason that its header names; 101 and no reason if it
    /// accepts. The connection is dropped.
    ///
    /// # Errors
    ///
    /// No HTTP answer at all.
    pub async fn answer(url: &str) -> Result<(u16, String)> {
        let socket = TcpStream::connect(registry::address(url)?).await?;
        let dialled = tokio::time::timeout(ANSWER, tokio_tungstenite::client_async(url, socket));
        match dialled.await.context("no answer to the upgrade")? {
            Ok(_) => Ok((101, String::new())),
            Err(tungstenite::Error::Http(response)) => {
                let reason = response.headers().get(REASON_HEADER);
                let reason = reason.map(|reason| reason.to_str().map(str::to_owned)).transpose()?;
                Ok((response.status().as_u16(), reason.unwrap_or_default()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a relay connection over a transport that is connected already.
    ///
    /// # Errors
    ///
    /// The relay refuses.
    pub async fn over(transport: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, url: &str) -> Result<Self> {
        let transport: Box<dyn Transport> = Box::new(transport);
        let (socket, _) = tokio_tungstenite::client_async(url, transport).await?;
        Ok(Self { socket })
    }

    /// Opens a relay connection that must be accepted.
    ///
    /// # Errors
    ///
    /// The relay refuses.
    pub async fn open(url: &str) -> Result<Self> {
        match Self::dial(url).await? {
            Ok(peer) => Ok(peer),
            Err(status) => bail!("upgrade refused with {status}"),
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub async fn send(&mut self, frame: Frame) -> Result<()> {
        self.send_bytes(frame.to_bytes()).await
    }

    /// Sends any bytes as one binary message.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub async fn send_bytes(&mut self, bytes: Bytes) -> Result<()> {
        Ok(self.socket.send(Message::Binary(bytes)).await?)
    }

    /// Sends a text message.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub async fn send_text(&mut self, text: &str) -> Result<()> {
        Ok(self.socket.send(Message::text(text)).await?)
    }

    /// The next frame or the end.
    ///
    /// # Errors
    ///
    /// Nothing came within the time, or something that is no frame.
    pub async fn next(&mut self, within: Duration) -> Result<Event> {
        let wait = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => return Ok(Event::Frame(Frame::decode(bytes)?)),
                    Some(Ok(Message::Close(close))) => {
                        let code = close.map_or(1005, |close| close.code.into());
                        return Ok(Event::End(End::Close(code)));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Ok(Event::End(End::Broken)),
                }
            }
        };
        tokio::time::timeout(within, wait)
            .await
            .context("nothing from the relay")?
    }

    /// Skips frames until the end.
    ///
    /// # Errors
    ///
    /// The connection did not end within the time.
    pub async fn end(&mut self, within: Duration) -> Result<End> {
        let wait = async {
            loop {
                if let Event::End(end) = self.next(within).await? {
                    return anyhow::Ok(end);
                }
            }
        };
        tokio::time::timeout(within, wait)
            .await
            .context("the relay did not end the connection")?
    }
}

/// A new stream's id.
///
/// # Errors
///
/// There is none: a UUID is a valid id.
pub fn stream_id() -> Result<StreamId> {
    Ok(StreamId::new(uuid::Uuid::new_v4().to_string())?)
}

/// The first frame of a harness.
pub fn resume(stream: &StreamId) -> Frame {
    Frame::new(stream.clone(), Body::Resume { next_seq: 0 })
}

/// A handshake message of any bytes.
pub fn handshake(stream: &StreamId, payload: impl Into<Bytes>) -> Frame {
    Frame::new(
        stream.clone(),
        Body::Handshake {
            payload: payload.into(),
        },
    )
}

/// A record of any bytes.
pub fn data(stream: &StreamId, seq: u32, payload: impl Into<Bytes>) -> Frame {
    Frame::new(
        stream.clone(),
        Body::Data {
            seq,
            payload: payload.into(),
        },
    )
}
