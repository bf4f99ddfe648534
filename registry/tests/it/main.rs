//! The registry's integration tests: the store over both databases, and the real binary over real HTTP.

mod api;
mod cli;
mod store;
mod support;
