//! As much of a registry as a relay needs: a signing key and the other end of the control connection.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rendezvous_wire::control::{FromRelay, TicketKey, ToRelay};
use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId, RegistrationId};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::ticket::{Claims, EXECUTOR_AUDIENCE, PARAMETER, PATH, Role};
use tokio_tungstenite::tungstenite::{self, Message};

pub(crate) struct Registry {
    key: EncodingKey,
    pub(crate) address: SocketAddr,
    boots: mpsc::Receiver<BootId>,
    boot: Option<BootId>,
    last: u64,
}

impl Registry {
    /// Serves one relay.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let pair = Ed25519KeyPair::generate()?;
        let key = EncodingKey::from_ed_der(pair.to_pkcs8()?.as_ref());
        let public = TicketKey {
            kid: "bench".into(),
            x: URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let (told, boots) = mpsc::channel();
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a relay");
            let mut socket = tungstenite::accept(stream).expect("a control connection");
            let welcome = ToRelay::Welcome {
                keys: vec![public],
                revoked: vec![],
            };
            let welcome = serde_json::to_string(&welcome).expect("JSON");
            socket.send(Message::text(welcome)).expect("a relay that listens");
            // The relay is killed when it is not needed any more.
            while let Ok(message) = socket.read() {
                if let Message::Text(text) = message
                    && let Ok(FromRelay::Hello { boot_id, .. }) = serde_json::from_str(&text)
                {
                    let _ = told.send(boot_id);
                }
            }
        });
        Ok(Self {
            key,
            address,
            boots,
            boot: None,
            last: 0,
        })
    }

    fn boot(&mut self) -> anyhow::Result<BootId> {
        if self.boot.is_none() {
            self.boot = Some(self.boots.recv().context("the relay said no hello")?);
        }
        self.boot.clone().context("no boot id")
    }

    /// Path and query with a ticket for environment `env`.
    pub(crate) fn target(&mut self, role: Role, env: &str) -> anyhow::Result<String> {
        self.last += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let claims = Claims {
            aud: match role {
                Role::Executor => EXECUTOR_AUDIENCE.to_owned(),
                Role::Harness => self.boot()?.to_string(),
            },
            iat: now,
            exp: now + 3600,
            jti: format!("{}", self.last),
            role,
            env: EnvironmentId::new(env)?,
            reg: RegistrationId::new(env)?,
            generation: 1,
            sub: CredentialId::new(match role {
                Role::Executor => format!("executor-{env}"),
                Role::Harness => format!("harness-{}", self.last),
            })?,
            ends: None,
            key: (role == Role::Harness).then_some(KeyDigest([1; 32])),
        };
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some("bench".into());
        let ticket = encode(&header, &claims, &self.key)?;
        Ok(format!("/{PATH}/{env}?{PARAMETER}={ticket}"))
    }
}
