//! The daemon shell against real sockets.

mod admin;
mod certificate;
mod listener;
mod tls;
mod upgrade;
mod world;
