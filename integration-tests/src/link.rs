//! The network between the parties and the relay, in a test's hand: a TCP proxy that knows who dials through it and
//! cuts, refuses or holds up the connections of either party.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Longest request head that the proxy looks at.
const MAX_HEAD: usize = 16 * 1024;

/// Who opened a connection, told by the role in its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// An executor's relay connection.
    Executor,
    /// A harness's relay connection.
    Harness,
    /// Everything else: calls of the registry.
    Other,
}

/// The proxy. Dropping it cuts everything.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Tells that something in the state changed.
    changed: watch::Sender<()>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    target: Option<SocketAddr>,
    refused: HashMap<Party, bool>,
    held: HashMap<Party, bool>,
    arrived: HashMap<Party, usize>,
    upgraded: HashMap<Party, usize>,
    connects: usize,
    connections: HashMap<u64, (Party, CancellationToken)>,
    next: u64,
}

impl Link {
    /// A proxy on a free port of loopback, which leads nowhere yet.
    ///
    /// # Errors
    ///
    /// No port could be bound.
    pub async fn bind() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: watch::channel(()).0,
            stop: CancellationToken::new(),
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared })
    }

    /// Where the parties dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads new connections to `target`.
    pub fn lead_to(&self, target: SocketAddr) {
        self.shared.update(|state| state.target = Some(target));
    }

    /// Ends every connection of `party` at once, as a network does: no farewell.
    pub fn cut(&self, party: Party) {
        self.shared.update(|state| {
            for (_, token) in state.connections.values().filter(|(whose, _)| *whose == party) {
                token.cancel();
            }
        });
    }

    /// Refuses new connections of `party`, or takes them again.
    pub fn refuse(&self, party: Party, refuse: bool) {
        self.shared.update(|state| state.refused.insert(party, refuse));
    }

    /// Holds up every byte of `party`, or lets them flow again.
    pub fn hold(&self, party: Party, hold: bool) {
        self.shared.update(|state| state.held.insert(party, hold));
    }

    /// How many connections `party` has opened so far, accepted or not.
    pub fn arrived(&self, party: Party) -> usize {
        self.shared.state().arrived.get(&party).copied().unwrap_or(0)
    }

    /// How many relay connections of `party` the relay has accepted so far.
    pub fn upgraded(&self, party: Party) -> usize {
        self.shared.state().upgraded.get(&party).copied().unwrap_or(0)
    }

    /// How many times a registry behind it was asked for a way to an executor so far.
    pub fn connects(&self) -> usize {
        self.shared.state().connects
    }

    /// Waits until the relay has accepted `count` connections of `party` since the start.
    ///
    /// # Errors
    ///
    /// They were not accepted within the time.
    pub async fn wait_upgraded(&self, party: Party, count: usize, within: Duration) -> Result<()> {
        let mut changed = self.shared.changed.subscribe();
        let reached = async { while self.upgraded(party) < count && changed.changed().await.is_ok() {} };
        tokio::time::timeout(within, reached)
            .await
            .with_context(|| format!("{party:?} has {} of {count} connections", self.upgraded(party)))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        let _ = self.changed.send(());
        result
    }

    /// Waits while the bytes of `party` are held up.
    async fn flow(&self, party: Party) {
        let mut changed = self.changed.subscribe();
        while self.state().held.get(&party) == Some(&true) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        if let Ok((client, _)) = accepted {
            tokio::spawn(serve(client, Arc::clone(&shared)));
        }
    }
}

async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let Some(head) = read_head(&mut client).await else {
        return;
    };
    let party = party_of(&head);
    let token = shared.stop.child_token();
    let (id, target) = {
        let mut state = shared.state();
        *state.arrived.entry(party).or_default() += 1;
        state.connects += connects_in(&head);
        if state.refused.get(&party) == Some(&true) {
            return;
        }
        let Some(target) = state.target else {
            return;
        };
        let id = state.next;
        state.next += 1;
        state.connections.insert(id, (party, token.clone()));
        (id, target)
    };
    tokio::select! {
        _ = forward(client, &head, target, party, &shared) => {}
        () = token.cancelled() => {}
    }
    shared.update(|state| state.connections.remove(&id));
}

async fn forward(
    mut client: TcpStream,
    head: &[u8],
    target: SocketAddr,
    party: Party,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.write_all(head).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = pump(&mut from_client, &mut to_server, party, shared, |bytes| {
        if party == Party::Other && connects_in(bytes) > 0 {
            shared.update(|state| state.connects += connects_in(bytes));
        }
    });
    let mut first = true;
    let down = pump(&mut from_server, &mut to_client, party, shared, |bytes| {
        if std::mem::take(&mut first) && bytes.starts_with(b"HTTP/1.1 101") {
            shared.update(|state| *state.upgraded.entry(party).or_default() += 1);
        }
    });
    // A half-closed connection is over for both parties: WebSockets know no half-close.
    tokio::select! {
        result = up => result,
        result = down => result,
    }
}

async fn pump(
    source: &mut (impl tokio::io::AsyncRead + Unpin),
    sink: &mut (impl tokio::io::AsyncWrite + Unpin),
    party: Party,
    shared: &Shared,
    mut seen: impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = source.read(&mut buffer).await?;
        if n == 0 {
            return Ok(());
        }
        shared.flow(party).await;
        sink.write_all(&buffer[..n]).await?;
        seen(&buffer[..n]);
    }
}

async fn read_head(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || client.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Calls of `connect` whose first lines are in these bytes.
fn connects_in(bytes: &[u8]) -> usize {
    memchr::memmem::find_iter(bytes, b"/connect HTTP/1.1\r\n").count()
}

/// The role that stands in the ticket of the request's URL.
pub(crate) fn party_of(head: &[u8]) -> Party {
    let role = || {
        let line = String::from_utf8_lossy(head).lines().next()?.to_owned();
        let ticket = line.split("ticket=").nth(1)?.split([' ', '&']).next()?.to_owned();
        let claims = URL_SAFE_NO_PAD.decode(ticket.split('.').nth(1)?).ok()?;
        let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
        claims["role"].as_str().map(str::to_owned)
    };
    match role().as_deref() {
        Some("executor") => Party::Executor,
        Some("harness") => Party::Harness,
        _ => Party::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_kind_are_counted() {
        let call = |name: &str| format!("POST /cloud/environment/e1/{name} HTTP/1.1\r\n\r\n");
        assert_eq!(connects_in(call("validate").as_bytes()), 0);
        let three = [call("connect"), call("register"), call("connect")].concat();
        assert_eq!(connects_in(three.as_bytes()), 2);
    }

    #[test]
    fn the_ticket_tells_the_party() {
        let head = |claims: &str| {
            let ticket = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
            format!("GET /relay/e1?ticket={ticket} HTTP/1.1\r\n\r\n").into_bytes()
        };
        assert_eq!(party_of(&head(r#"{"role":"executor"}"#)), Party::Executor);
        assert_eq!(party_of(&head(r#"{"role":"harness"}"#)), Party::Harness);
        assert_eq!(
            party_of(b"POST /cloud/environment/e1/connect HTTP/1.1\r\n\r\n"),
            Party::Other
        );
        assert_eq!(party_of(b"GET /relay/e1?ticket=x HTTP/1.1\r\n\r\n"), Party::Other);
    }
}
