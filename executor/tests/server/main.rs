//! The server over streams in memory, with real processes and files.

mod concurrency;
mod files;
mod lifecycle;
mod process;
mod support;
