//! The harness: runs processes and reaches files on a remote executor, through a relay that cannot read along.
//!
//! ```no_run
//! use rendezvous_harness::{Harness, Options, ProcessEvent, ProcessSpec};
//!
//! # async fn example() -> Result<(), rendezvous_harness::HarnessError> {
//! // CODEX_EXEC_SERVER_NOISE_REGISTRY_URL, …_ENVIRONMENT_ID and …_AUTH_TOKEN say where to.
//! let harness = Harness::connect(Options::from_env()?).await?;
//! let mut process = harness.start(ProcessSpec::new(["uname", "-a"])).await?;
//! while let Some(event) = process.next().await? {
//!     match event {
//!         ProcessEvent::Output { stream, bytes } => println!("{stream:?}: {bytes:?}"),
//!         ProcessEvent::Exited { code, .. } => println!("exit code {code}"),
//!         ProcessEvent::Dropped { .. } | ProcessEvent::Closed => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * [`Harness`]: the session; typed calls. It survives lost connections: with a fresh way from the registry, the same key
//!   and a new stream it takes the session up again, and reads what it missed.
//! * [`process`]: processes and their ordered events. [`files`]: files. [`stdin`]: how input ends.
//! * [`http`]: requests from the executor's network. [`watch`]: paths that appear. [`network`]: what a process may reach. [`discovery`]: plugins, skills and
//!   configuration there.
//! * [`detached`]: sessions that are kept while nobody is connected.
//! * [`environments`]: places by name, executors and this machine, which do the same things behind the traits of
//!   [`backend`]. [`endpoint`]: the ways to an executor.
//! * [`options`], [`recovery`]: where to connect, and how patiently. [`trust`]: which executor is believed to be the one that is
//!   meant. [`HarnessError`]: what can go wrong.

pub mod backend;
mod client;
mod connect;
pub mod detached;
pub mod discovery;
pub mod endpoint;
pub mod environments;
mod error;
pub mod files;
pub mod http;
pub mod network;
pub mod options;
pub mod process;
pub mod recovery;
mod session;
pub mod stdin;
pub mod trust;
pub mod watch;

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use client::Harness;
pub use connect::ProgramError;
pub use endpoint::Endpoint;
pub use environments::{Environment, Environments};
pub use error::{AttemptError, HarnessError, LocalError, exit};
pub use network::ManagedNetwork;
pub use options::{Options, OptionsError};
pub use process::{Process, ProcessControl, ProcessInfo, ProcessSpec, ProcessState, Signal, Stdin};
pub use rendezvous_rpc::PathUri;
pub use rendezvous_rpc::event::ProcessEvent;
pub use rendezvous_rpc::method::fs::WalkOptions;
pub use rendezvous_rpc::method::process::OutputStream;
pub use session::MAX_PROCESSES;
pub use session::delivery::{MAX_BODY_BYTES, MAX_EVENT_BYTES, MAX_EVENTS};
pub use session::driver::LinkState;
