//! Serving with another exec-server: each stream of the relay connection is passed on to a WebSocket of its own.
//!
//! The channel ends here, so messages are in clear text between this program and that exec-server. Sessions are the other
//! one's: a stream that is lost here is a lost connection there. A stream of a harness of ours outlives its connection, of
//! which the exec-server learns nothing.

mod negotiation;

use std::sync::OnceLock;

use bytes::Bytes;
use rendezvous_rpc::Message;
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::direct;
use rendezvous_transport::stream::{MessageReceiver, MessageSender, MessageStream};
use rendezvous_wire::reason;
use rendezvous_wire::secret::Secret;
use url::{Position, Url};

use self::negotiation::Offered;

/// The exec-server that does the work.
#[derive(Clone, Debug)]
pub struct Backend {
    dialer: Dialer,
    url: Secret,
    bearer: Option<Secret>,
    statement: IdentityStatement,
}

impl Backend {
    /// The exec-server that listens at `url`, a `ws` or `wss` URL; `bearer` is its token, if it wants one. Harnesses that ask
    /// are told `statement` of the key that ends their channel.
    pub fn new(dialer: Dialer, url: Secret, bearer: Option<Secret>, statement: IdentityStatement) -> Self {
        Self {
            dialer,
            url,
            bearer,
            statement,
        }
    }

    /// Connects once and disconnects, to find out whether the exec-server can be used.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub async fn probe(&self) -> Result<(), DialError> {
        drop(self.connect().await?);
        Ok(())
    }

    /// Passes a stream on until either side ends it; then the other side is ended, too. Without a connection to the
    /// exec-server the stream is reset at once, which says why, and the harness comes again.
    pub async fn forward(&self, stream: MessageStream) {
        let id = stream.id().clone();
        let backend = match self.connect().await {
            Ok(backend) => backend,
            Err(error) => {
                let (exec_server, error) = (self.place(), crate::remote::chain(&error));
                tracing::warn!(stream = %id, exec_server, error, "cannot reach the exec-server, the harness is sent away");
                metrics::counter!("executor_forwards_total", "result" => "failed").increment(1);
                return stream.refuse(reason::UNREACHABLE);
            }
        };
        metrics::counter!("executor_forwards_total", "result" => "up").increment(1);
        let (to_harness, mut from_harness) = stream.split();
        let (to_backend, mut from_backend) = backend.split();
        let offered = OnceLock::new();
        tokio::select! {
            () = ask(&mut from_harness, &to_backend, &offered) => {}
            () = answer(&mut from_backend, &to_harness, &offered, &self.statement) => {}
        }
        tokio::join!(from_harness.close(), from_backend.close());
        tracing::debug!(stream = %id, "forwarding ended");
    }

    /// Where it is, without what may be secret in its URL.
    fn place(&self) -> String {
        let url = Url::parse(self.url.expose());
        url.map_or_else(|_| "?".to_owned(), |url| url[..Position::BeforePath].to_owned())
    }

    async fn connect(&self) -> Result<MessageStream, DialError> {
        let link = self.dialer.dial_direct(&self.url, self.bearer.as_ref()).await?;
        Ok(direct::over_link(link))
    }
}

/// Passes on what the harness says. Its first message may name extensions of the channel, which ends here; `offered` tells
/// which it did.
async fn ask(from: &mut MessageReceiver, to: &MessageSender, offered: &OnceLock<Offered>) {
    let mut is_first = true;
    pass(from, to, |message| {
        if !std::mem::take(&mut is_first) {
            return Some(message);
        }
        let Some((message, offers)) = negotiation::take_offers(&message) else {
            return Some(message);
        };
        // It is the first, so nothing was there before.
        offered.get_or_init(|| offers);
        Some(message)
    })
    .await;
}

/// Passes answers and notifications back. The harness may send large messages once `initialize` has succeeded. Whose answer
/// that is can be told by its number where the harness made offers; else the first result is taken for it, because every
/// other call fails before it.
async fn answer(
    from: &mut MessageReceiver,
    to: &MessageSender,
    offered: &OnceLock<Offered>,
    statement: &IdentityStatement,
) {
    let mut is_initialized = false;
    pass(from, to, |message| {
        if is_initialized {
            return Some(message);
        }
        let Ok(Message::Response(response)) = Message::decode(&message) else {
            return Some(message);
        };
        let offered = offered.get();
        if offered.is_some_and(|offered| offered.call != response.id) {
            return Some(message);
        }
        is_initialized = true;
        to.set_initialized();
        let Some(offered) = offered else { return Some(message) };
        let is_reliable = offered.reliable && to.continuity().borrow().is_offered;
        let statement = offered.identity.then_some(statement);
        let answered = negotiation::put_answers(&message, is_reliable, statement);
        match answered {
            // Passed on as it is, it could say of our key what the exec-server likes.
            None => tracing::warn!("the exec-server's result of initialize has no place for extensions"),
            Some(_) if is_reliable => to.settle(true),
            Some(_) => {}
        }
        answered
    })
    .await;
}

/// Passes messages on until an end of the two, or a message that must not pass.
async fn pass(from: &mut MessageReceiver, to: &MessageSender, mut edit: impl FnMut(Bytes) -> Option<Bytes>) {
    while let Some(Ok(message)) = from.recv().await {
        // No document, and nothing that a stream can carry.
        if message.is_empty() {
            continue;
        }
        let Some(message) = edit(message) else { return };
        if to.send(message).await.is_err() {
            return;
        }
    }
}
