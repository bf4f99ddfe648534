//! Client networking against real loopback sockets, and links in virtual time.

mod dial;
mod direct;
mod link;
mod registry;
mod signed;
mod world;
