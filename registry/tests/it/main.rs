//! The registry's integration tests: the store over both databases, and the real binary over real HTTP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod api;
mod cli;
mod store;
mod support;
