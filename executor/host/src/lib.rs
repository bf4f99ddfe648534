//! This machine's processes, terminals, files and requests; no protocol of ours.
//!
//! * [`process`]: start a program with pipes or a terminal, stream what it writes, signal its group, and learn how it
//!   ended. [`process::Processes`] is the table of one session.
//! * [`mod@env`]: the environment of a child, computed from the host's own.
//! * [`files`]: reads, writes, listings, copies and walks, run off the async threads.
//! * [`http`]: requests from this machine's place in the network.
//! * [`own`]: where this program itself listens.
//! * [`proxy`]: the managed network of a program.
//! * [`watch`]: waiting for paths to appear.
//! * [`sandbox`]: confines programs and calls on files to what a permission profile allows.
//! * [`shell`]: which shell the user of this machine has. [`snapshot`]: what its start-up files leave.
//! * [`state`]: where what has to last is kept.
//!
//! Linux only.

pub mod env;
pub mod files;
mod glob;
pub mod http;
pub mod own;
pub mod process;
pub mod proxy;
pub mod sandbox;
pub mod shell;
pub mod snapshot;
pub mod state;
pub mod watch;
