//! The end-to-end channel between harness and executor, without IO: time and randomness are arguments.
//!
//! * [`identity`]: the static key pair of an executor or harness.
//! * [`handshake`]: hybrid-IK Noise over X25519 and ML-KEM-768; the responder pauses between the two messages until the
//!   initiator's authorization is judged.
//! * [`record`], [`message`], [`reorder`]: sealed records, the byte stream inside them cut into messages, and the window
//!   in which records may arrive out of order.
//! * [`reliable`]: streams between two ends of ours that outlive their connections.
//! * [`stream`]: one stream of either role, frames in and frames out.
//! * [`acceptor`]: the many streams of one executor connection, with their limits.
//! * [`budget`]: memory that many streams share.
//! * [`primitives`]: the cryptography that all of it stands on.
//!
//! The bytes are described in `proto/README.md`, sections "Handshake", "Records and messages" and "Streams".

pub mod acceptor;
pub mod budget;
pub mod handshake;
pub mod identity;
pub mod message;
pub mod primitives;
pub mod record;
pub mod reliable;
pub mod reorder;
pub mod stream;
mod symmetric;

pub use acceptor::Acceptor;
pub use handshake::{Initiator, Paused, Prologue, Responder, SessionKeys};
pub use identity::Identity;
pub use stream::Stream;
