//! A relay's end of the control connection, worked by hand.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_wire::control::{FromRelay, Presence, ToRelay};
use rendezvous_wire::id::{BootId, EnvironmentId, RegistrationId};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::SOON;
use super::registry::Registry;

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) boot_id: BootId,
    pub(crate) socket: WebSocketStream<TcpStream>,
}

impl Relay {
    /// Opens the connection without saying anything.
    pub(crate) async fn dial(registry: &Registry, token: &str) -> Result<WebSocketStream<TcpStream>, Error> {
        let tcp = TcpStream::connect(registry.addr).await.unwrap();
        let mut request = format!("ws://{}/v1/relay/control", registry.addr)
            .into_client_request()
            .unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        client_async(request, tcp).await.map(|(socket, _)| socket)
    }

    /// Says hello and takes the welcome.
    pub(crate) async fn connect(registry: &Registry, token: &str, boot_id: &str) -> (Self, ToRelay) {
        let mut relay = Self {
            boot_id: BootId::new(boot_id).unwrap(),
            socket: Self::dial(registry, token).await.unwrap(),
        };
        relay.hello().await;
        let welcome = relay.hear().await;
        assert!(matches!(welcome, ToRelay::Welcome { .. }), "{welcome:?}");
        (relay, welcome)
    }

    pub(crate) async fn hello(&mut self) {
        let hello = FromRelay::Hello {
            boot_id: self.boot_id.clone(),
            public_url: format!("wss://{}.example/base/", self.boot_id),
            version: "test".to_owned(),
        };
        self.say(&hello).await;
    }

    pub(crate) async fn say(&mut self, message: &FromRelay) {
        let text = serde_json::to_string(message).unwrap();
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> ToRelay {
        loop {
            match timeout(SOON, self.socket.next()).await.expect("a message in time") {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Nothing comes for a while.
    pub(crate) async fn hears_nothing(&mut self) {
        let heard = timeout(Duration::from_millis(700), self.socket.next()).await;
        assert!(heard.is_err(), "{heard:?}");
    }

    /// How the registry closed.
    pub(crate) async fn closed(&mut self) -> Option<CloseFrame> {
        loop {
            match timeout(SOON, self.socket.next()).await.expect("a close in time") {
                Some(Ok(Message::Close(frame))) => return frame,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The executor that was registered with this answer connects.
    pub(crate) async fn executor_up(&mut self, registered: &Value, generation: u64, connection: u64) -> Presence {
        let text = |name: &str| registered[name].as_str().unwrap();
        let presence = Presence {
            environment: EnvironmentId::new(text("environment_id")).unwrap(),
            registration: RegistrationId::new(text("executor_registration_id")).unwrap(),
            generation,
            connection,
        };
        self.say(&FromRelay::ExecutorUp(presence.clone())).await;
        presence
    }
}
