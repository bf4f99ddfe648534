//! What says which environments there are.

use std::path::PathBuf;
use std::time::Duration;

use rendezvous_wire::secret::Secret;

use crate::options::{ACCOUNT_ID, AUTH_TOKEN, ClearText, ENVIRONMENT_ID, REGISTRY_URL};
use crate::trust::{KeyPolicy, Keyring};

/// Variable with the URL of a listening exec-server, or `none`.
pub const EXEC_SERVER_URL: &str = "CODEX_EXEC_SERVER_URL";
/// Variable with the folder in which [`FILE_NAME`] lies; `.codex` in the home directory otherwise.
pub const CODEX_HOME: &str = "CODEX_HOME";
/// The file that names environments.
pub const FILE_NAME: &str = "environments.toml";

/// What says which environments there are. The first of these that is given is the only one that counts: a registry, the
/// file, the URL. With none of them, there is this machine.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The registry. With it there must be `environment_id` and `token`.
    pub registry_url: Option<String>,
    /// The environment's id at the registry.
    pub environment_id: Option<String>,
    /// The token for the registry.
    pub token: Option<Secret>,
    /// An account id, for registries that want one.
    pub account: Option<String>,
    /// The file that names environments; it need not exist.
    pub file: Option<PathBuf>,
    /// The URL of a listening exec-server; `none`: there is no environment.
    pub exec_server_url: Option<Secret>,
    /// Certificates to trust beside the machine's own, PEM.
    pub ca_file: Option<PathBuf>,
    /// Where clear text may go.
    pub clear_text: ClearText,
    /// Who we are at a registry; none: a new key for each session.
    pub identity: Option<Keyring>,
    /// What is asked of the keys of executors at a registry.
    pub executors: KeyPolicy,
    /// How long the first connect through a registry may take, with all its attempts; none: as usual.
    pub connect_timeout: Option<Duration>,
    /// How long a connection through a relay may be lost before calls learn of it; none: as usual.
    pub stream_grace: Option<Duration>,
}

impl Settings {
    /// Reads the variables that stock harnesses read. White space around them is dropped; a blank one counts as unset.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    pub(super) fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name| {
            let text = lookup(name)?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let home = || text("HOME").map(|home| PathBuf::from(home).join(".codex"));
        Self {
            registry_url: text(REGISTRY_URL),
            environment_id: text(ENVIRONMENT_ID),
            token: text(AUTH_TOKEN).map(Secret::new),
            account: text(ACCOUNT_ID),
            file: text(CODEX_HOME)
                .map(PathBuf::from)
                .or_else(home)
                .map(|folder| folder.join(FILE_NAME)),
            exec_server_url: text(EXEC_SERVER_URL).map(Secret::new),
            ..Self::default()
        }
    }

    /// Whether anything of a registry is given: then all of it must be.
    pub fn names_registry(&self) -> bool {
        self.registry_url.is_some() || self.environment_id.is_some() || self.token.is_some()
    }
}
