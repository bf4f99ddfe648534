//! Reliable streams between two ends of ours, and the relay in between that may do what it likes.
//!
//! [`storm`] runs the ends in virtual time through weather, cuts, stalls and a hostile relay: every message arrives once
//! and in order. All decisions follow from a seed, which is printed; `CHANNEL_SIMULATION_SEED=n` runs one of them alone.

mod attacks;
mod credit;
mod ends;
mod negotiation;
mod pair;
mod storm;
