//! Client side networking: registry calls, WebSocket links, TLS and the stream drivers.
//!
//! * [`policy`]: which URLs may be called, and that secrets go over clear text to loopback only.
//! * [`tls`]: whom a client trusts: the machine's certificate authorities and `--ca-file`.
//! * [`registry`]: the calls of the registry, with errors that know whether a retry helps.
//! * [`signer`]: what proves a request where no token does.
//! * [`dial`]: opens a WebSocket to a relay and gives a [`link::Link`].
//! * [`link`]: whole messages over a WebSocket, kept alive by pings ([`keepalive`]) and ended with a close frame.
//! * [`stream`]: streams of whole messages over a link, and how a harness opens one.
//! * [`direct`]: the same streams without channel and relay, over a WebSocket or lines of text.
//! * [`acceptor`]: the executor's end of a link: admits harnesses and serves their streams.
//! * [`backoff`]: the jittered delay between attempts.
//!
//! Nothing here knows JSON-RPC. No proxy is used, whatever the environment says: a token must not take a way that nobody
//! chose.

pub mod acceptor;
pub mod backoff;
pub mod dial;
pub mod direct;
pub mod keepalive;
pub mod link;
pub mod policy;
pub mod registry;
pub mod signer;
pub mod stream;
mod text;
pub mod tls;
