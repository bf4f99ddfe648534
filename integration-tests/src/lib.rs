//! The test world: real processes, real sockets and real databases, started by a test and gone with it.
//!
//! A test gets a [`Context`] (a folder and a place for logs), starts a [`site::Site`] or single parts, and waits on
//! conditions ([`wait`]). Every part is a [`program::Program`] in a process group of its own, killed when it is dropped.

pub mod asleep;
pub mod bench;
pub mod binaries;
pub mod capture;
pub mod cloud;
pub mod command;
pub mod context;
pub mod exec_server;
pub mod executor;
pub mod harness;
pub mod installation;
pub mod link;
pub mod model;
pub mod netns;
pub mod peer;
pub mod postgres;
pub mod program;
pub mod proxy;
pub mod registry;
pub mod relay;
pub mod sigv4;
pub mod site;
pub mod stock;
pub mod tap;
pub mod terminal;
pub mod tls;
pub mod upgrade;
pub mod wait;

pub use command::Command;
pub use context::Context;
pub use program::Program;
