//! Client side networking: registry calls, WebSocket links, TLS and the stream drivers.
//!
//! * [`policy`]: which URLs may be called, and that secrets go over clear text to loopback only.
//! * [`tls`]: whom a client trusts: the machine's certificate authorities and `--ca-file`.
//! * [`registry`]: the three calls of the registry, with errors that know whether a retry helps.
//! * [`dial`]: opens a WebSocket to a relay and gives a [`link::Link`].
//! * [`link`]: whole binary messages over a WebSocket, kept alive by pings ([`keepalive`]) and ended with a close frame.
//! * [`backoff`]: the jittered delay between attempts.
//!
//! Nothing here knows JSON-RPC. No proxy is used, whatever the environment says: a token must not take a way that nobody
//! chose.

pub mod backoff;
pub mod dial;
pub mod keepalive;
pub mod link;
pub mod policy;
pub mod registry;
mod text;
pub mod tls;
