//! The shell of a daemon: logs, metrics, health, TLS listeners, shutdown and drain.
//!
//! A binary flattens [`args::LogArgs`], [`args::TlsArgs`] and [`args::AdminArgs`] into its command line, and then
//!
//! 1. parses with [`exit::parse`], starts logs with [`logging::init`] and asks for [`shutdown::signal`],
//! 2. raises the limit of open files with [`files::raise_limit`], binds a [`listener::Server`] and prints its address,
//! 3. serves until the shutdown token is cancelled; [`admin::Admin`] answers health and metrics beside it,
//! 4. turns its error into an exit code with [`exit::report`].
//!
//! Nothing here knows the protocol that is served.

pub mod admin;
pub mod args;
pub mod exit;
pub mod files;
pub mod listener;
pub mod logging;
pub mod net;
pub mod secret_file;
pub mod shutdown;
pub mod tls;
