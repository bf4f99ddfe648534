//! The exec-server JSON-RPC contract: what a harness and an executor say to each other inside a stream, without IO.
//!
//! * [`envelope`]: bytes to requests, notifications and replies, and back.
//! * [`code`]: error codes and the error of a call.
//! * [`method`]: typed parameters and results of every method.
//! * [`base64`]: byte payloads inside JSON.
//! * [`path_uri`]: paths as `file:` URIs that survive foreign systems and any byte.
//! * [`call_table`]: the client's calls in flight.
//! * [`event`]: the client's order of one process's notifications.
//!
//! The tables of methods, codes and limits stand in `proto/README.md`, "JSON-RPC".

pub mod base64;
pub mod call_table;
pub mod code;
pub mod envelope;
pub mod event;
pub mod method;
pub mod path_uri;

pub use base64::Base64;
pub use code::RpcError;
pub use envelope::{Message, RequestId};
pub use method::{Method, Notification};
pub use path_uri::PathUri;
