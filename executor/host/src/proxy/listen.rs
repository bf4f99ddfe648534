//! Where proxies are asked, and how long they live.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::decision::Referee;
use super::environment::Addresses;
use super::gate::{Gate, MAX_QUESTIONS, system_resolver};
use super::rules::Rules;
use super::slots::Slots;
use super::{http_server, socks_server};
use crate::own::Listening;

/// Where proxies are asked inside of a sandbox with a network of its own, which nobody else uses.
pub const INSIDE: Addresses = Addresses {
    http: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 3128),
    socks: Some(SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1080)),
};
/// How long to wait after a connection could not be accepted, for want of descriptors for example.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What one program may reach. Cheap to clone.
#[derive(Clone)]
pub struct Proxy {
    gate: Arc<Gate>,
    slots: Slots,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("rules", &self.gate.rules)
            .finish_non_exhaustive()
    }
}

/// The sockets of a proxy.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) http: TcpListener,
    pub(crate) socks: Option<TcpListener>,
    /// That they are this program's, unless they are in a network of their own, where nobody of this one reaches them.
    pub(crate) own: Vec<Listening>,
}

/// A proxy at work. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct Serving {
    _end: DropGuard,
    _own: Vec<Listening>,
}

/// How a program comes by its proxy.
#[derive(Clone, Debug)]
pub enum Attached {
    /// It is at work on this machine's loopback, until the program is closed.
    Serving(Arc<Serving>),
    /// It is to be asked inside of the program's sandbox, at [`INSIDE`].
    Inside {
        /// The proxy.
        proxy: Proxy,
        /// Whether there is a SOCKS5 proxy, too.
        socks: bool,
    },
}

impl Attached {
    /// Begins its work, once the program runs with these listeners.
    pub(crate) fn begin(self, listeners: Option<Listeners>) -> io::Result<Arc<Serving>> {
        match (self, listeners) {
            (Self::Serving(serving), _) => Ok(serving),
            (Self::Inside { proxy, socks }, Some(listeners)) => {
                let socks = listeners.socks.filter(|_| socks);
                proxy.serve(Listeners { socks, ..listeners }).map(Arc::new)
            }
            (Self::Inside { .. }, None) => Err(io::Error::other("there is no sandbox with a network of its own")),
        }
    }
}

impl Listeners {
    /// Takes free ports of this machine's loopback.
    ///
    /// # Errors
    ///
    /// When there are none, or no descriptors.
    pub fn bind(with_socks: bool) -> io::Result<Self> {
        let any = (Ipv4Addr::LOCALHOST, 0);
        let http = TcpListener::bind(any)?;
        let socks = with_socks.then(|| TcpListener::bind(any)).transpose()?;
        let mut own = vec![Listening::at(http.local_addr()?)];
        if let Some(socks) = &socks {
            own.push(Listening::at(socks.local_addr()?));
        }
        Ok(Self { http, socks, own })
    }

    /// Where they are.
    ///
    /// # Errors
    ///
    /// When the system cannot tell.
    pub fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses {
            http: self.http.local_addr()?,
            socks: self.socks.as_ref().map(TcpListener::local_addr).transpose()?,
        })
    }
}

impl Proxy {
    /// A proxy for one program, whose connections count in `slots`.
    pub fn new(rules: Rules, referee: Arc<dyn Referee>, slots: &Slots) -> Self {
        let resolver = system_resolver();
        Self {
            gate: Arc::new(Gate {
                rules,
                referee,
                resolver,
                questions: Semaphore::new(MAX_QUESTIONS),
            }),
            slots: slots.proxy(),
        }
    }

    /// Answers on `listeners`. Must be called inside a tokio runtime with IO and time.
    ///
    /// # Errors
    ///
    /// When they cannot be watched.
    pub fn serve(&self, listeners: Listeners) -> io::Result<Serving> {
        let end = CancellationToken::new();
        let accept = |listener: TcpListener, kind| -> io::Result<()> {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let accepting = self.clone().accept(listener, kind, end.clone());
            tokio::spawn(end.clone().run_until_cancelled_owned(accepting));
            Ok(())
        };
        accept(listeners.http, Kind::Http)?;
        if let Some(socks) = listeners.socks {
            accept(socks, Kind::Socks)?;
        }
        Ok(Serving {
            _end: end.drop_guard(),
            _own: listeners.own,
        })
    }

    /// Serves as many connections as there is room for.
    async fn accept(self, listener: tokio::net::TcpListener, kind: Kind, end: CancellationToken) {
        loop {
            let (stream, client) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "proxy cannot accept");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            // One connection waits here, the others in the kernel's queue.
            let Some(slot) = self.slots.take().await else { return };
            let gate = Arc::clone(&self.gate);
            tokio::spawn(end.clone().run_until_cancelled_owned(async move {
                let _slot = slot;
                let _delay = stream.set_nodelay(true);
                match kind {
                    Kind::Http => http_server::serve(stream, client, gate).await,
                    Kind::Socks => socks_server::serve(stream, client, &gate).await,
                }
            }));
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Http,
    Socks,
}
