//! Real processes and real files.

mod files;
mod http;
mod links;
mod process;
mod process_output;
mod proxy;
mod replace;
mod support;
mod watch;
