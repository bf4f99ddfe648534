//! The ways to an executor.
//!
//! ```
//! use rendezvous_harness::endpoint::{Listener, Program};
//! use rendezvous_harness::environments::{Environment, Status};
//! use rendezvous_harness::{HarnessError, PathUri};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! // An exec-server that listens, and one that is started where it is needed.
//! let listening = Environment::remote("lab", Listener::new("ws://127.0.0.1:9"));
//! let started = Environment::remote("box", Program::new("no-such-program", ["--listen", "stdio"]));
//! assert!(matches!(started.status().await, Status::Unused));
//!
//! // The first call connects. One that cannot be reached says so, and nothing happens here in its stead.
//! let root = PathUri::parse("file:///")?;
//! for environment in [listening, started] {
//!     let error = environment.files().list(&root).await.unwrap_err();
//!     assert!(matches!(error, HarnessError::Unreachable(_)), "{error}");
//!     assert!(matches!(environment.status().await, Status::Failed(_)));
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rendezvous_wire::limits::{INITIALIZE_TIMEOUT, RELAY_CONNECT_TIMEOUT};
use rendezvous_wire::secret::Secret;
use url::{Position, Url};

use crate::options::{ClearText, Options};
use crate::recovery::Policy;

/// Longest time that a timeout can set; longer ones count as this.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A way to an executor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Endpoint {
    /// Through a registry and a relay, end-to-end encrypted.
    Relay(Box<Options>),
    /// Straight to an exec-server that listens on a WebSocket.
    Listener(Box<Listener>),
    /// Over stdin and stdout of a program: an exec-server with `--listen stdio`, perhaps behind `ssh` or `docker exec`.
    Program(Box<Program>),
}

impl Endpoint {
    /// Where it leads, without secrets; nothing for a program.
    pub(crate) fn address(&self) -> Option<String> {
        match self {
            Self::Relay(options) => Some(format!("{} {}", options.registry.as_str(), options.environment)),
            Self::Listener(listener) => {
                let url = Url::parse(listener.url.expose()).ok()?;
                Some(url[..Position::BeforePath].to_owned())
            }
            Self::Program(_) => None,
        }
    }
}

impl From<Options> for Endpoint {
    fn from(options: Options) -> Self {
        Self::Relay(Box::new(options))
    }
}

impl From<Listener> for Endpoint {
    fn from(listener: Listener) -> Self {
        Self::Listener(Box::new(listener))
    }
}

impl From<Program> for Endpoint {
    fn from(program: Program) -> Self {
        Self::Program(Box::new(program))
    }
}

/// A listening exec-server. Whoever can read the connection reads the commands, unless it is `wss`.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its URL, `ws` or `wss`.
    pub url: Secret,
    /// A token for the header `Authorization`.
    pub bearer: Option<Secret>,
    /// Certificates to trust beside the machine's own, PEM.
    pub ca_file: Option<PathBuf>,
    /// Where clear text may go.
    pub clear_text: ClearText,
    /// The longest time from the begin of an attempt to the WebSocket.
    pub connect_timeout: Duration,
    /// The longest time until the server answers `initialize`.
    pub initialize_timeout: Duration,
    /// How a lost connection is tried. The first connect is one attempt.
    pub lost: Policy,
}

impl Listener {
    /// A server without a token, with the usual limits: ten seconds each, clear text to this machine only.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: Secret::new(url),
            bearer: None,
            ca_file: None,
            clear_text: ClearText::Loopback,
            connect_timeout: RELAY_CONNECT_TIMEOUT,
            initialize_timeout: INITIALIZE_TIMEOUT,
            lost: Policy::LOST,
        }
    }

    pub(crate) fn first(&self) -> Policy {
        once(self.connect_timeout.min(LONGEST) + self.initialize_timeout.min(LONGEST))
    }
}

/// A program whose stdin and stdout carry the messages, one in each line. It is started once: when it has ended, so has the
/// session. Its stderr goes to the log.
#[derive(Clone, Debug)]
pub struct Program {
    /// Looked up in `PATH` when it has no slash; a relative one with a slash starts at `cwd`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables over this process's own environment, which it gets without the harness's token.
    pub env: BTreeMap<String, String>,
    /// Its working directory; none: this process's own.
    pub cwd: Option<PathBuf>,
    /// The longest time until it answers `initialize`.
    pub initialize_timeout: Duration,
}

impl Program {
    /// A program with arguments and the usual limit of ten seconds.
    pub fn new<S: Into<String>>(program: impl Into<String>, args: impl IntoIterator<Item = S>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
            initialize_timeout: INITIALIZE_TIMEOUT,
        }
    }

    /// One attempt, to connect as to go on: the second fails with what became of the program.
    pub(crate) fn policy(&self) -> Policy {
        once(self.initialize_timeout.min(LONGEST) + Duration::from_secs(1))
    }
}

fn once(budget: Duration) -> Policy {
    Policy {
        budget,
        max_retries: Some(0),
    }
}
