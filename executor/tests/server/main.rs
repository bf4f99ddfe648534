//! The server over streams in memory, with real processes and files.

mod capability;
mod concurrency;
mod control;
mod files;
mod http;
mod kept;
mod lifecycle;
mod network;
mod process;
mod snapshot;
mod support;
mod web;
mod window;
