//! The rendezvous relay: routes frames it cannot read.
//!
//! Executors and harnesses connect to `/relay/{environment}?ticket=…`; see `proto/README.md` for the protocol and
//! `README.md` beside this crate for how to run it.
//!
//! * [`rendezvous`]: the routing core, without sockets.
//! * [`websocket`]: the frame codec of the hot path.
//! * [`ticket`]: who gets in.
//! * [`server`]: [`Relay`], which a hyper server mounts; the connections behind it.
//! * [`control`]: what the registry and the relay tell each other.

mod connection;
mod hub;
mod metrics;

pub mod config;
pub mod control;
pub mod rendezvous;
pub mod server;
pub mod ticket;
pub mod websocket;

pub use config::Config;
pub use control::ControlChannel;
pub use server::Relay;
