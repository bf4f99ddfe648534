//! The relay over real sockets, with tungstenite as the independent client.

mod binary;
mod control;
mod flow;
mod misuse;
mod tickets;
mod world;
