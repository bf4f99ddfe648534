//! A relay on a socket, a registry's key, and clients.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rendezvous_relay::{Config, ControlChannel, Relay};
use rendezvous_service::listener::Server;
use rendezvous_wire::control::{FromRelay, TicketKey, ToRelay};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::{CredentialId, EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::limits::HANDSHAKE_1_OVERHEAD;
use rendezvous_wire::ticket::{Claims, EXECUTOR_AUDIENCE, Role, relay_url};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::http::Response;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longer than anything takes; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The registry's signing key.
pub(crate) struct Signer {
    private: EncodingKey,
    pub(crate) public: TicketKey,
}

impl Signer {
    pub(crate) fn new(kid: &str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        Self {
            private: EncodingKey::from_ed_der(pair.to_pkcs8().unwrap().as_ref()),
            public: TicketKey {
                kid: kid.into(),
                x: URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()),
            },
        }
    }

    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.public.kid.clone());
        encode(&header, claims, &self.private).unwrap()
    }
}

pub(crate) struct World {
    pub(crate) relay: Relay,
    pub(crate) signer: Signer,
    pub(crate) address: SocketAddr,
    pub(crate) to_relay: mpsc::Sender<ToRelay>,
    pub(crate) from_relay: mpsc::Receiver<FromRelay>,
    _stop: DropGuard,
}

pub(crate) fn config() -> Config {
    Config::new("ws://relay.test")
}

/// Claims that are good for a minute; `boot` is only a harness's.
pub(crate) fn claims_for(role: Role, sub: &str, boot: &str) -> Claims {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let executor = role == Role::Executor;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Claims {
        aud: if executor { EXECUTOR_AUDIENCE } else { boot }.to_owned(),
        iat: now,
        exp: now + 60,
        jti: format!("ticket-{}", LAST.fetch_add(1, Ordering::Relaxed)),
        role,
        env: EnvironmentId::new("env").unwrap(),
        reg: RegistrationId::new("reg-1").unwrap(),
        generation: 1,
        sub: CredentialId::new(sub).unwrap(),
        ends: None,
        key: (!executor).then(|| {
            let mut digest = [0; 32];
            digest[..sub.len()].copy_from_slice(sub.as_bytes());
            KeyDigest(digest)
        }),
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let (to_registry, from_relay) = mpsc::channel(64);
        let (to_relay, from_registry) = mpsc::channel(64);
        let channel = ControlChannel {
            to_registry,
            from_registry,
        };
        let relay = Relay::new(config, channel);
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = server.local_addr();
        let stop = CancellationToken::new();
        let mounted = relay.clone();
        tokio::spawn(server.serve(
            move |request, peer| {
                let relay = mounted.clone();
                async move { relay.handle(request, peer).await }
            },
            stop.clone(),
        ));
        let mut world = Self {
            relay,
            signer: Signer::new("k1"),
            address,
            to_relay,
            from_relay,
            _stop: stop.drop_guard(),
        };
        assert!(matches!(world.told().await, FromRelay::Hello { .. }));
        let keys = vec![world.signer.public.clone()];
        world.tell(ToRelay::Welcome { keys, revoked: vec![] }).await;
        eventually(|| world.relay.is_ready()).await;
        world
    }

    pub(crate) async fn tell(&self, message: ToRelay) {
        self.to_relay.send(message).await.unwrap();
    }

    /// The next message to the registry, renewals left out.
    pub(crate) async fn told(&mut self) -> FromRelay {
        loop {
            let message = timeout(PATIENCE, self.from_relay.recv()).await.unwrap().unwrap();
            if !matches!(message, FromRelay::Renew { .. }) {
                return message;
            }
        }
    }

    pub(crate) fn claims(&self, role: Role, sub: &str) -> Claims {
        claims_for(role, sub, self.relay.boot_id().as_str())
    }

    pub(crate) fn url(&self, claims: &Claims) -> String {
        relay_url(
            &format!("ws://{}", self.address),
            &claims.env,
            &self.signer.sign(claims),
        )
    }

    pub(crate) async fn connect(&self, claims: &Claims) -> Client {
        open(&self.url(claims)).await.unwrap()
    }

    pub(crate) async fn executor(&self) -> Client {
        self.connect(&self.claims(Role::Executor, "exec")).await
    }

    pub(crate) async fn harness(&self, sub: &str) -> Client {
        self.connect(&self.claims(Role::Harness, sub)).await
    }

    /// The refusal of an upgrade.
    pub(crate) async fn refusal(&self, claims: &Claims) -> (u16, String) {
        refusal(&self.url(claims)).await
    }

    /// A harness whose stream the executor has answered.
    pub(crate) async fn open_stream(&self, executor: &mut Client, sub: &str, id: &str) -> Client {
        let mut harness = self.harness(sub).await;
        harness.send(resume(id)).await;
        harness.send(handshake(id)).await;
        assert_eq!(executor.frame().await, resume(id));
        assert_eq!(executor.frame().await, handshake(id));
        executor.send(answer(id)).await;
        assert_eq!(harness.frame().await, answer(id));
        harness
    }
}

pub(crate) async fn open(url: &str) -> Result<Client, Error> {
    let (socket, _) = timeout(PATIENCE, connect_async(url)).await.unwrap()?;
    Ok(Client { socket })
}

pub(crate) async fn refusal(url: &str) -> (u16, String) {
    match open(url).await {
        Err(Error::Http(response)) => rejection(&response),
        Ok(_) => panic!("was let in"),
        Err(error) => panic!("{error}"),
    }
}

fn rejection(response: &Response<Option<Vec<u8>>>) -> (u16, String) {
    let reason = response.headers()["x-codex-rendezvous-rejection-reason"]
        .to_str()
        .unwrap();
    (response.status().as_u16(), reason.to_owned())
}

pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    pub(crate) async fn send(&mut self, frame: Bytes) {
        timeout(PATIENCE, self.socket.send(Message::Binary(frame)))
            .await
            .unwrap()
            .unwrap();
    }

    /// The next binary message.
    pub(crate) async fn frame(&mut self) -> Bytes {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.unwrap() {
                Some(Ok(Message::Binary(frame))) => return frame,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The close code, frames before it left out.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.unwrap() {
                Some(Ok(Message::Close(Some(frame)))) => return (frame.code.into(), frame.reason.to_string()),
                Some(Ok(Message::Close(None))) => return (CloseCode::Status.into(), String::new()),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The reset of a stream.
    pub(crate) async fn reset(&mut self, id: &str) -> String {
        match decode(self.frame().await) {
            Frame {
                stream_id,
                body: Body::Reset { reason },
                ..
            } if stream_id.as_str() == id => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Sends there and back, to show that a connection works and that everything before was handled.
    pub(crate) async fn echo(&mut self, other: &mut Self, id: &str, seq: u32) {
        let frame = data(id, seq, 100);
        self.send(frame.clone()).await;
        assert_eq!(other.frame().await, frame);
    }
}

pub(crate) fn decode(frame: Bytes) -> Frame {
    Frame::decode(frame).unwrap()
}

fn encode_frame(id: &str, body: Body) -> Bytes {
    Frame::new(StreamId::new(id).unwrap(), body).to_bytes()
}

pub(crate) fn resume(id: &str) -> Bytes {
    encode_frame(id, Body::Resume { next_seq: 0 })
}

pub(crate) fn handshake(id: &str) -> Bytes {
    let payload = vec![0x5a; HANDSHAKE_1_OVERHEAD + 36].into();
    encode_frame(id, Body::Handshake { payload })
}

pub(crate) fn answer(id: &str) -> Bytes {
    let payload = vec![0xa5; rendezvous_wire::limits::HANDSHAKE_2_OVERHEAD].into();
    encode_frame(id, Body::Handshake { payload })
}

pub(crate) fn data(id: &str, seq: u32, len: usize) -> Bytes {
    let [.., start] = seq.to_be_bytes();
    let pattern: Vec<u8> = (0..=u8::MAX).map(|i| i.wrapping_mul(31).wrapping_add(start)).collect();
    let payload = Bytes::from(pattern.repeat(len / pattern.len() + 1)).slice(..len);
    encode_frame(id, Body::Data { seq, payload })
}

pub(crate) fn reset(id: &str) -> Bytes {
    Frame::reset(StreamId::new(id).unwrap(), "noise_relay_protocol_error").to_bytes()
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("condition did not come true");
}
