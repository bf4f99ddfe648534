//! The managed network of a program: an HTTP and a SOCKS5 proxy of its own that let pass what rules and the client allow.
//!
//! A [`Proxy`] decides; [`Listeners`] say where it is asked. For a program without a sandbox they are on this machine's
//! loopback, and nothing keeps the program from going another way. For one whose sandbox has a network of its own
//! ([`Network::Managed`](crate::sandbox::Network::Managed)) they are inside of that network, which has no other way out.
//!
//! Names are resolved here, once for each request; all addresses are checked, and a checked one is dialled. What a client
//! answers is not remembered: it is asked again the next time, as stock clients expect.

mod address;
mod decision;
mod environment;
mod gate;
pub mod heads;
mod host;
mod http_server;
mod idle;
mod listen;
mod lookup;
mod pattern;
mod presence;
mod rules;
mod slots;
mod socks;
mod socks_server;
mod target;

pub use self::decision::{Answer, MAX_REASON, Notice, Outcome, Protocol, Referee, Verdict};
pub use self::environment::{Addresses, Locally, overlay, variables};
pub use self::gate::{CONNECT_LIMIT, DIAL_LIMIT, MAX_ADDRESSES, MAX_QUESTIONS, RESOLVE_LIMIT};
pub use self::host::{Host, HostError, MAX_HOST, Target};
pub use self::http_server::{HEAD_LIMIT, MAX_HEAD, MAX_HEADERS, MAX_METHOD};
pub use self::idle::IDLE_LIMIT;
pub use self::listen::{Attached, INSIDE, Listeners, Proxy, Serving};
pub use self::lookup::{MAX_LOOKUPS, MAX_LOOKUPS_TOTAL};
pub use self::pattern::{Pattern, PatternError};
pub use self::rules::{MAX_RULES, Mode, Rules, RulesError};
pub use self::slots::{MAX_CONNECTIONS, MAX_CONNECTIONS_PROXY, MAX_CONNECTIONS_TOTAL, Slots};
