//! The executor: serves processes and files of this machine over end-to-end encrypted streams.
//!
//! * [`remote`]: registers at a registry and keeps a relay connection; hands on each admitted stream.
//! * [`server`] answers JSON-RPC over any stream of messages; sessions of processes outlive streams.
//! * [`credential`]: where the executor's own token comes from, and how it is kept from commands.

pub mod credential;
mod methods;
pub mod remote;
pub mod server;
pub mod session;
