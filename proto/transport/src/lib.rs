//! Client side networking: registry calls, WebSocket links, TLS and the stream drivers.
//!
//! * [`policy`]: which URLs may be called, and that secrets go over clear text to loopback only.
//! * [`tls`]: whom a client trusts: the machine's certificate authorities and `--ca-file`.
//! * [`registry`]: the three calls of the registry, with errors that know whether a retry helps.
//! * [`dial`]: opens a WebSocket to a relay and gives a [`link::Link`].
//! * [`link`]: whole binary messages over a WebSocket, kept alive by pings ([`keepalive`]) and ended with a close frame.
//! * [`stream`]: streams of whole messages over a link, and how a harness opens one.
//! * [`acceptor`]: the executor's end of a link: admits harnesses and serves their streams.
//! * [`backoff`]: the jittered delay between attempts.
//!
//! Nothing here knows JSON-RPC. No proxy is used, whatever the environment says: a token must not take a way that nobody
//! chose.

pub mod acceptor;
pub mod backoff;
pub mod dial;
pub mod keepalive;
pub mod link;
pub mod policy;
pub mod registry;
pub mod stream;
mod text;
pub mod tls;
