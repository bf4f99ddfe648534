//! The real binary against a registry and a relay that do as they are told.

mod authorized;
mod credential;
mod forward;
mod hostile;
mod hostile_harness;
mod operators;
mod process;
mod raw;
mod registration;
mod session;
mod world;
