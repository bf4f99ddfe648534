//! The real binary against a registry and a relay that do as they are told.

mod credential;
mod operators;
mod process;
mod registration;
mod session;
mod world;
