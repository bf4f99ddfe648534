//! The cryptography under the channel, each primitive from one well-kept crate.
//!
//! `proto/adr/0001-channel-primitives.md` says which crate provides what, and why.

pub mod aead;
pub(crate) mod hash;
pub(crate) mod mlkem;
pub(crate) mod x25519;
