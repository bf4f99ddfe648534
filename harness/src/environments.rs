//! Environments: the places where an agent works, by name. Some are executors, one may be this machine.
//!
//! ```
//! use rendezvous_harness::environments::{Environments, LOCAL, Settings};
//! use rendezvous_harness::{ProcessEvent, ProcessSpec};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let environments = Environments::load(&Settings::default())?;
//! let local = environments.get(LOCAL)?;
//! let mut process = local.exec().start(ProcessSpec::new(["echo", "hello"])).await?;
//! let mut output = Vec::new();
//! while let Some(event) = process.next().await? {
//!     if let ProcessEvent::Output { bytes, .. } = event {
//!         output.extend_from_slice(&bytes);
//!     }
//! }
//! assert_eq!(output, b"hello\n");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! An executor is connected to by the first call that needs it, and all that come meanwhile wait for the same attempt. When
//! it cannot be reached the call fails; nothing is ever done on this machine in its stead.

mod error;
mod file;
mod local;
mod remote;
mod settings;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rendezvous_rpc::PathUri;
use rendezvous_rpc::method::environment::EnvironmentInfo;
use rendezvous_wire::secret::Secret;
use tokio::time::timeout;

pub use self::error::EnvironmentError;
pub use self::file::MAX_FILE;
use self::file::{Choice, Configured};
use self::local::Local;
use self::remote::Remote;
pub use self::settings::{CODEX_HOME, EXEC_SERVER_URL, FILE_NAME, Settings};
use crate::backend::{ExecBackend, FileSystem, HttpClient};
use crate::client::Harness;
use crate::endpoint::{Endpoint, Listener};
use crate::error::{HarnessError, LocalError};
use crate::options::Options;

/// Id of this machine.
pub const LOCAL: &str = "local";
/// Id of the only environment that variables name.
pub const REMOTE: &str = "remote";
/// Most environments, this machine not counted.
pub const MAX_ENVIRONMENTS: usize = 1024;
/// Longest id, in bytes.
pub const MAX_ID: usize = 64;

/// How long a connected executor may take to say that it works.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);

/// The environments that there are.
#[derive(Debug)]
pub struct Environments {
    known: RwLock<BTreeMap<String, Environment>>,
    default: Option<String>,
    is_default_chosen: bool,
}

impl Environments {
    /// Finds the environments: a registry in the settings gives one that is called [`REMOTE`]; else the file counts, if it
    /// exists; else a URL gives [`REMOTE`], and `none` nothing at all; else there is [`LOCAL`] only.
    ///
    /// ```
    /// use rendezvous_harness::environments::{Environments, Settings};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let file = folder.path().join("environments.toml");
    /// std::fs::write(
    ///     &file,
    ///     r#"
    /// default = "build-box"
    /// include_local = false
    ///
    /// [[environments]]
    /// id = "build-box"
    /// program = "ssh"
    /// args = ["build-box", "executor", "--listen", "stdio"]
    ///
    /// [[environments]]
    /// id = "lab"
    /// url = "wss://lab.example:7000"
    /// "#,
    /// )?;
    /// let settings = Settings {
    ///     file: Some(file),
    ///     ..Settings::default()
    /// };
    /// let environments = Environments::load(&settings)?;
    /// assert_eq!(environments.ids(), ["build-box", "lab"]);
    /// assert_eq!(environments.default_id(), Some("build-box"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When something of a registry is given but not all, or the file or the URL cannot be used.
    pub fn load(settings: &Settings) -> Result<Self, HarnessError> {
        if settings.names_registry() {
            return Ok(Self::only(Options::from_settings(settings)?.into()));
        }
        let file = settings.file.as_deref();
        if let Some(configured) = file
            .map(|file| file::read(file, settings.clear_text))
            .transpose()?
            .flatten()
        {
            return Ok(Self::configured(configured, settings));
        }
        match &settings.exec_server_url {
            Some(url) if url.expose().trim().eq_ignore_ascii_case("none") => Ok(Self::new(BTreeMap::new(), None)),
            Some(url) => {
                let mut listener = Listener::new(url.expose().trim());
                listener.clear_text = settings.clear_text;
                listener.ca_file.clone_from(&settings.ca_file);
                file::check_listener(&listener).map_err(|error| EnvironmentError::Url {
                    id: REMOTE.to_owned(),
                    error,
                })?;
                Ok(Self::only(listener.into()))
            }
            None => {
                let local = Environment::trusting(settings);
                Ok(Self {
                    is_default_chosen: false,
                    ..Self::new(BTreeMap::from([(LOCAL.to_owned(), local)]), Some(LOCAL.to_owned()))
                })
            }
        }
    }

    fn new(known: BTreeMap<String, Environment>, default: Option<String>) -> Self {
        Self {
            known: RwLock::new(known),
            default,
            is_default_chosen: true,
        }
    }

    fn only(endpoint: Endpoint) -> Self {
        let remote = Environment::remote(REMOTE, endpoint);
        Self::new(BTreeMap::from([(REMOTE.to_owned(), remote)]), Some(REMOTE.to_owned()))
    }

    fn configured(configured: Configured, settings: &Settings) -> Self {
        let remote = |(id, mut endpoint): (String, Endpoint)| {
            if let Endpoint::Listener(listener) = &mut endpoint {
                listener.ca_file.clone_from(&settings.ca_file);
            }
            (id.clone(), Environment::remote(id, endpoint))
        };
        let mut known: BTreeMap<_, _> = configured.environments.into_iter().map(remote).collect();
        if configured.include_local {
            known.insert(LOCAL.to_owned(), Environment::trusting(settings));
        }
        let is_default_chosen = configured.default != Choice::Unsaid;
        let default = match configured.default {
            Choice::Unsaid => configured.include_local.then(|| LOCAL.to_owned()),
            Choice::Nothing => None,
            Choice::Named(id) => Some(id),
        };
        Self {
            is_default_chosen,
            ..Self::new(known, default)
        }
    }

    /// Adds an environment, or puts it in the place of one with the same id; whoever holds that one may go on with it. The
    /// default stays. Nothing is connected yet.
    ///
    /// ```
    /// use rendezvous_harness::endpoint::Program;
    /// use rendezvous_harness::environments::{Environments, Settings, Status};
    ///
    /// let environments = Environments::load(&Settings::default())?;
    /// let args = ["exec", "-i", "box", "executor", "--listen", "stdio"];
    /// environments.add("container", Program::new("docker", args))?;
    /// let container = environments.get("container")?;
    /// assert!(!container.is_local());
    /// # Ok::<_, rendezvous_harness::HarnessError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the id is no name for an environment, or there are too many.
    pub fn add(&self, id: &str, endpoint: impl Into<Endpoint>) -> Result<Environment, HarnessError> {
        check_id(id)?;
        let environment = Environment::remote(id, endpoint.into());
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let remotes = known.keys().filter(|known| *known != LOCAL).count();
        if remotes >= MAX_ENVIRONMENTS && !known.contains_key(id) {
            return Err(EnvironmentError::TooMany.into());
        }
        known.insert(id.to_owned(), environment.clone());
        Ok(environment)
    }

    /// The environment with this id.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn get(&self, id: &str) -> Result<Environment, HarnessError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(id).cloned();
        found.ok_or_else(|| EnvironmentError::Unknown(id.to_owned()).into())
    }

    /// The environment that counts when none is named.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn default_environment(&self) -> Result<Environment, HarnessError> {
        match &self.default {
            Some(id) => self.get(id),
            None => Err(EnvironmentError::NoDefault.into()),
        }
    }

    /// The id of the environment that counts when none is named.
    pub fn default_id(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Whether somebody has said that there is this default, or none. Otherwise it is this machine because nothing else was
    /// said.
    pub fn is_default_chosen(&self) -> bool {
        self.is_default_chosen
    }

    /// All ids, sorted.
    pub fn ids(&self) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.keys().cloned().collect()
    }

    /// Describes the machine of an environment; connects if need be.
    ///
    /// # Errors
    ///
    /// When there is no such environment, or as any call.
    pub async fn info(&self, id: &str) -> Result<EnvironmentInfo, HarnessError> {
        self.get(id)?.info().await
    }

    /// How an environment is, without connecting.
    ///
    /// # Errors
    ///
    /// When there is no such environment.
    pub async fn status(&self, id: &str) -> Result<Status, HarnessError> {
        Ok(self.get(id)?.status().await)
    }
}

/// How an environment is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Status {
    /// It takes calls.
    Ready,
    /// Nobody has needed it yet.
    Unused,
    /// The first call waits for its session.
    Connecting,
    /// The connection was lost, and is being made again.
    Recovering {
        /// Since when.
        since: Instant,
    },
    /// Its session could not be opened, or is lost. The next call opens another one, unless it is a program's.
    Failed(HarnessError),
}

/// One environment. Clones are the same one, with one session.
#[derive(Clone, Debug)]
pub struct Environment {
    id: Arc<str>,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Local(Arc<Local>),
    Remote(Arc<Remote>),
}

impl Environment {
    /// This machine.
    pub fn local() -> Self {
        Self {
            id: LOCAL.into(),
            place: Place::Local(Arc::default()),
        }
    }

    /// This machine, whose requests trust what the settings say.
    fn trusting(settings: &Settings) -> Self {
        Self {
            id: LOCAL.into(),
            place: Place::Local(Arc::new(Local::trusting(settings.ca_file.clone()))),
        }
    }

    /// An executor, which is connected to when it is first needed.
    pub fn remote(id: impl Into<Arc<str>>, endpoint: impl Into<Endpoint>) -> Self {
        Self {
            id: id.into(),
            place: Place::Remote(Arc::new(Remote::new(endpoint.into()))),
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it is this machine.
    pub fn is_local(&self) -> bool {
        matches!(self.place, Place::Local(_))
    }

    /// Where processes are started.
    pub fn exec(&self) -> &dyn ExecBackend {
        match &self.place {
            Place::Local(local) => &local.processes,
            Place::Remote(remote) => remote.as_ref(),
        }
    }

    /// Its files.
    pub fn files(&self) -> &dyn FileSystem {
        match &self.place {
            Place::Local(local) => &local.files,
            Place::Remote(remote) => remote.as_ref(),
        }
    }

    /// Requests from its place in the network.
    pub fn http(&self) -> &dyn HttpClient {
        match &self.place {
            Place::Local(local) => &local.http,
            Place::Remote(remote) => remote.as_ref(),
        }
    }

    /// Describes its machine; connects if need be.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn info(&self) -> Result<EnvironmentInfo, HarnessError> {
        match &self.place {
            Place::Local(local) => Ok(local.info()),
            Place::Remote(remote) => remote.harness().await?.info().await,
        }
    }

    /// Its working directory, or its root when it tells none.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn working_directory(&self) -> Result<PathUri, HarnessError> {
        match self.info().await?.cwd {
            Some(cwd) => Ok(cwd),
            None => Ok(PathUri::parse("file:///")?),
        }
    }

    /// How it is, without connecting or waiting for a lost connection. An executor that is connected is asked, and must
    /// answer within ten seconds.
    pub async fn status(&self) -> Status {
        let Place::Remote(remote) = &self.place else {
            return Status::Ready;
        };
        let (Status::Ready, Some(harness)) = (remote.status(), remote.connected()) else {
            return remote.status();
        };
        let mut link = harness.link_state();
        let lost = async {
            // Its end is a change, too.
            let _ = link
                .wait_for(|state| !matches!(state, crate::LinkState::Connected))
                .await;
        };
        tokio::select! {
            answer = timeout(STATUS_TIMEOUT, harness.status()) => match answer {
                Ok(Ok(())) => Status::Ready,
                Ok(Err(error)) => Status::Failed(error),
                Err(_elapsed) => Status::Failed(HarnessError::NoAnswer("environment/status")),
            },
            () = lost => remote.status(),
        }
    }

    /// A connection of its own to its executor, which takes up a kept session ([`Harness::resume`]).
    ///
    /// # Errors
    ///
    /// On this machine, which keeps none; otherwise as [`Harness::resume`].
    pub async fn resume(&self, session: &Secret, take_over: bool) -> Result<Harness, HarnessError> {
        match &self.place {
            Place::Local(_) => Err(LocalError::Unsupported("detached sessions").into()),
            Place::Remote(remote) => Harness::resume(remote.endpoint().clone(), session, take_over).await,
        }
    }

    /// Where its executor is, in words that stay the same: registry and environment, or URL. Nothing for this machine and for
    /// programs, whose sessions end with them.
    pub fn address(&self) -> Option<String> {
        match &self.place {
            Place::Local(_) => None,
            Place::Remote(remote) => remote.endpoint().address(),
        }
    }

    /// The session with its executor, for what only executors can do; nothing for this machine.
    ///
    /// # Errors
    ///
    /// When the executor cannot be reached.
    pub async fn harness(&self) -> Result<Option<Harness>, HarnessError> {
        match &self.place {
            Place::Local(_) => Ok(None),
            Place::Remote(remote) => remote.harness().await.map(Some),
        }
    }
}

/// Whether an id may name an environment that is no part of this machine.
fn check_id(id: &str) -> Result<(), EnvironmentError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let reason = if id.is_empty() {
        "is empty"
    } else if id == LOCAL || id.eq_ignore_ascii_case("none") {
        "is reserved"
    } else if id.len() > MAX_ID {
        "is longer than 64 characters"
    } else if !id.bytes().all(is_allowed) {
        "may have letters, digits, `-` and `_` only"
    } else {
        return Ok(());
    };
    Err(EnvironmentError::Id {
        id: id.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests;
