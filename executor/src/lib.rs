//! The executor: serves processes and files of this machine over end-to-end encrypted streams.
//!
//! [`server`] answers JSON-RPC over any stream of messages; sessions of processes outlive streams.

mod methods;
pub mod server;
pub mod session;
