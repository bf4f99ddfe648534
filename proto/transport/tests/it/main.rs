//! Client networking against real loopback sockets, and links in virtual time.

mod dial;
mod link;
mod registry;
mod world;
