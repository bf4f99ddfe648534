//! Everything that two parts of Rendezvous must agree on, and nothing that does IO.
//!
//! * [`frame`]: the relay frame, its validation, and [`frame::peek`], the fast path that routes a frame without
//!   decoding it.
//! * [`id`]: environments, streams, registrations and the other names of the protocol, checked when they are made.
//! * [`key`], [`fingerprint`]: the public key of an executor or harness in its JSON form, and as people see it.
//! * [`identity`]: what an executor says of its key.
//! * [`registry`]: bodies of the registry's HTTP calls.
//! * [`ticket`]: the claims of the signed capability inside a relay URL.
//! * [`control`]: what a relay and the registry tell each other.
//! * [`json`]: bounds that JSON from outside must respect before it is decoded.
//! * [`quantity`]: durations and sizes as people write and read them.
//! * [`limits`], [`reason`]: every number and every reason that both ends of a wire must know.

pub mod control;
pub mod fingerprint;
pub mod frame;
pub mod id;
pub mod identity;
pub mod json;
pub mod key;
pub mod limits;
pub mod quantity;
pub mod reason;
pub mod registry;
pub mod secret;
pub mod ticket;
