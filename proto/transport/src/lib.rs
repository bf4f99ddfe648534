//! Client side networking: registry calls, WebSocket links, TLS and the stream drivers.
//!
//! * [`policy`]: which URLs may be called, and that secrets go over clear text to loopback only.
//! * [`connector`], [`proxy`], [`tls`]: how all of them reach another machine.
//! * [`registry`]: the calls of the registry, with errors that know whether a retry helps.
//! * [`signer`]: what proves a request where no token does.
//! * [`dial`]: opens a WebSocket to a relay and gives a [`link::Link`].
//! * [`link`]: whole messages over a WebSocket, kept alive by pings ([`keepalive`]) and ended with a close frame.
//! * [`stream`]: streams of whole messages over a link, and how a harness opens one.
//! * [`direct`]: the same streams without channel and relay, over a WebSocket or lines of text.
//! * [`acceptor`]: the executor's end of a link: admits harnesses and serves their streams.
//! * [`backoff`], [`wake`]: the jittered delay between attempts, and a sense of the time slept.
//!
//! Nothing here knows JSON-RPC.

pub mod acceptor;
pub mod dial;
pub mod direct;
mod flight;
pub mod heap;
pub mod keepalive;
pub mod link;
pub mod policy;
pub mod registry;
pub mod signer;
pub mod stream;
mod text;

pub use rendezvous_connect::{backoff, connector, proxy, socket, tls, wake};
