//! One WebSocket: its socket, its queue and its task.
//!
//! Each connection has one task, [`task::Task`], which reads. What it reads it hands to the [`link::Link`] of the other
//! side, and writes to that socket right there when nobody else is writing: a frame then passes the relay without a
//! change of task. When the socket is full, the other side's own task goes on.

pub(crate) mod buffers;
pub(crate) mod executor;
pub(crate) mod halves;
pub(crate) mod harness;
pub(crate) mod link;
pub(crate) mod outbox;
pub(crate) mod task;
