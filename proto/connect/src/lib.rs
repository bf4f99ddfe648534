//! Connections to other machines, for every client of this project: HTTP calls and WebSockets go through the same
//! [`Connector`](connector::Connector), so that what holds for one holds for all.
//!
//! * [`connector`]: name, proxy, TCP and TLS: an address becomes a socket.
//! * [`proxy`]: which proxy the environment names for an address, and the tunnel through it.
//! * [`socket`]: what every socket gets, those that were accepted too.
//! * [`tls`]: whom a client trusts: the machine's certificate authorities and `--ca-file`.
//! * [`wake`]: notices that the machine slept, which the runtime's timers do not.
//! * [`backoff`]: the jittered delay between attempts.
//!
//! Nothing here knows HTTP beyond `CONNECT`, or WebSockets.

pub mod backoff;
pub mod connector;
pub mod proxy;
mod race;
pub mod socket;
pub mod tls;
pub mod wake;
