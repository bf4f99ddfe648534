//! The routing core, without sockets, clock or tasks.
//!
//! * [`core::Core`] knows who is connected and which stream belongs to whom. Inputs are its methods, which take the time
//!   as an argument; what has to be done comes out of [`core::Core::take_commands`]. It is asked when connections come
//!   and go and while a stream opens, never for each frame.
//! * [`gate::Gate`] decides which frames of a harness reach the executor.
//! * [`budget`] counts failed handshakes, so that one harness cannot lock others out.
//! * [`queue::FairQueue`] holds what waits for one connection and takes turns between its streams.

pub mod budget;
pub mod core;
pub mod gate;
pub mod queue;
