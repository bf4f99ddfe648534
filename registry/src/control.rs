//! The control connection of each relay: presence upwards, keys, revocations and probes downwards.
//!
//! [`session`] speaks it over two channels. [`websocket`] joins those to a stand-alone relay's WebSocket; an embedded
//! relay holds the other ends itself.

pub mod session;
pub mod websocket;

/// Values that wait in each direction between a session and its connection.
pub const QUEUE: usize = 256;
