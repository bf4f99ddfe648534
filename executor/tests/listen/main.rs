//! The real binary as a listener, with clients that speak WebSocket and HTTP by hand.

mod auth;
mod container;
mod http;
mod network;
mod stdio;
mod websocket;
mod world;
