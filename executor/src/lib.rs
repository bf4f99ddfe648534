//! The executor: serves processes and files of this machine over end-to-end encrypted streams.
//!
//! * [`remote`]: registers at a registry and keeps a relay connection, or a direct one; hands on each admitted stream.
//! * [`aws`]: the identity that signs direct connections.
//! * [`forward`]: hands streams on to another exec-server instead of serving them.
//! * [`gateway`]: lets a stock executor that sends its credential to loopback only use a registry elsewhere.
//! * [`listen`]: serves clients that connect directly, over WebSocket or stdio.
//! * [`server`] answers JSON-RPC over any stream of messages; sessions of processes outlive streams.
//! * [`credential`]: where the executor's own token comes from, and how it is kept from commands.

pub mod aws;
pub mod credential;
pub mod forward;
pub mod gateway;
pub mod listen;
mod methods;
mod relays;
pub mod remote;
pub mod server;
pub mod session;
