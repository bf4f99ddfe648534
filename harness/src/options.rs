//! Where to connect, and how.

use std::path::PathBuf;
use std::time::Duration;

use rendezvous_channel::reliable::HARNESS_GRACE;
pub use rendezvous_transport::policy::ClearText;
use rendezvous_transport::policy::{RegistryUrl, UrlError};
use rendezvous_wire::id::{EnvironmentId, IdError};
use rendezvous_wire::secret::Secret;

use crate::environments::Settings;
use crate::recovery::Policy;
use crate::trust::{KeyPolicy, Keyring};

/// Variable with the registry's URL.
pub const REGISTRY_URL: &str = "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL";
/// Variable with the environment's id.
pub const ENVIRONMENT_ID: &str = "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID";
/// Variable with the harness's token.
pub const AUTH_TOKEN: &str = "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN";
/// Variable with the passphrase of the command line's identity file. Kept from programs like the token.
pub const PASSPHRASE: &str = "HARNESS_IDENTITY_PASSPHRASE";
/// Variable with an account id, for registries that want one.
pub const ACCOUNT_ID: &str = "CODEX_EXEC_SERVER_NOISE_CHATGPT_ACCOUNT_ID";

/// Where to connect, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The registry.
    pub registry: RegistryUrl,
    /// The environment.
    pub environment: EnvironmentId,
    /// The harness's token.
    pub token: Secret,
    /// An account id, for registries that want one.
    pub account: Option<String>,
    /// Certificates to trust beside the machine's own, PEM.
    pub ca_file: Option<PathBuf>,
    /// Where clear text may go.
    pub clear_text: ClearText,
    /// Who we are; none: a new key for each session.
    pub identity: Option<Keyring>,
    /// What is asked of the executor's key.
    pub executors: KeyPolicy,
    /// How the first connect is tried.
    pub first: Policy,
    /// How a lost connection is tried, when it cannot be hidden by `stream_grace`.
    pub lost: Policy,
    /// How long a lost connection may take to come back before calls learn of it. Zero: at once, as in stock harnesses.
    pub stream_grace: Duration,
}

/// Longest [`Options::stream_grace`]; longer ones count as this.
pub const MAX_STREAM_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// Why options cannot be used; the user must change them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Nothing says where to connect, or not everything does.
    #[error(
        "where to connect is not configured: {REGISTRY_URL}, {ENVIRONMENT_ID} and {AUTH_TOKEN} must all be set, or given on the command line (see `harness --help`); missing: {0}"
    )]
    Missing(String),
    /// The registry's URL cannot be used.
    #[error("the registry's URL cannot be used")]
    Url(#[from] UrlError),
    /// The environment's id cannot be used.
    #[error(transparent)]
    Environment(#[from] IdError),
}

impl Options {
    /// Checks the three things that are always needed; everything else has its default.
    ///
    /// # Errors
    ///
    /// When one is missing, blank or unusable.
    pub fn new(
        registry: Option<&str>,
        environment: Option<&str>,
        token: Option<Secret>,
        clear_text: ClearText,
    ) -> Result<Self, OptionsError> {
        let registry = registry.map(str::trim).filter(|text| !text.is_empty());
        let environment = environment.map(str::trim).filter(|text| !text.is_empty());
        let token = token.filter(|token| !token.is_blank());
        let (Some(registry), Some(environment), Some(token)) = (registry, environment, token.as_ref()) else {
            let missing = [
                registry.is_none().then_some(REGISTRY_URL),
                environment.is_none().then_some(ENVIRONMENT_ID),
                token.is_none().then_some(AUTH_TOKEN),
            ];
            let missing: Vec<&str> = missing.into_iter().flatten().collect();
            return Err(OptionsError::Missing(missing.join(", ")));
        };
        Ok(Self {
            registry: RegistryUrl::parse(registry, clear_text)?,
            environment: EnvironmentId::new(environment)?,
            token: Secret::new(token.expose().trim()),
            account: None,
            ca_file: None,
            clear_text,
            identity: None,
            executors: KeyPolicy::default(),
            first: Policy::FIRST,
            lost: Policy::LOST,
            stream_grace: HARNESS_GRACE,
        })
    }

    /// What the settings say about a registry, as [`Options::new`] checks it.
    ///
    /// # Errors
    ///
    /// As [`Options::new`].
    pub fn from_settings(settings: &Settings) -> Result<Self, OptionsError> {
        let mut options = Self::new(
            settings.registry_url.as_deref(),
            settings.environment_id.as_deref(),
            settings.token.clone(),
            settings.clear_text,
        )?;
        options.set_account(settings.account.as_deref());
        options.ca_file.clone_from(&settings.ca_file);
        options.identity.clone_from(&settings.identity);
        options.executors.clone_from(&settings.executors);
        if let Some(timeout) = settings.connect_timeout {
            options.set_connect_timeout(timeout);
        }
        if let Some(grace) = settings.stream_grace {
            options.stream_grace = grace.min(MAX_STREAM_GRACE);
        }
        Ok(options)
    }

    /// Reads [`REGISTRY_URL`], [`ENVIRONMENT_ID`], [`AUTH_TOKEN`] and, when there is one, [`ACCOUNT_ID`]. White space around
    /// them is dropped; a blank one counts as unset.
    ///
    /// # Errors
    ///
    /// As [`Options::new`].
    pub fn from_env() -> Result<Self, OptionsError> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let mut options = Self::new(
            lookup(REGISTRY_URL).as_deref(),
            lookup(ENVIRONMENT_ID).as_deref(),
            lookup(AUTH_TOKEN).map(Secret::new),
            ClearText::Loopback,
        )?;
        options.set_account(lookup(ACCOUNT_ID).as_deref());
        Ok(options)
    }

    /// Sets the account id; a blank one counts as unset.
    pub fn set_account(&mut self, account: Option<&str>) {
        let account = account.map(str::trim).filter(|text| !text.is_empty());
        self.account = account.map(ToOwned::to_owned);
    }

    /// Gives the first connect this long, however many attempts that makes.
    pub fn set_connect_timeout(&mut self, budget: Duration) {
        self.first = Policy {
            budget,
            max_retries: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Options, OptionsError> {
        Options::from_lookup(|name| {
            let found = set.iter().find(|(key, _)| *key == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn all_or_none() {
        let full = [
            (REGISTRY_URL, " http://127.0.0.1:1/x/ "),
            (ENVIRONMENT_ID, "env "),
            (AUTH_TOKEN, " secret\n"),
            (ACCOUNT_ID, "  "),
        ];
        let options = read(&full).unwrap();
        assert_eq!(options.registry.as_str(), "http://127.0.0.1:1/x");
        assert_eq!(options.environment.as_str(), "env");
        assert_eq!(options.token.expose(), "secret");
        assert_eq!(options.account, None);
        assert!(!format!("{options:?}").contains("secret"));
        for missing in 0..3 {
            let mut set = full;
            set[missing].1 = "  ";
            let error = read(&set).unwrap_err().to_string();
            assert!(error.ends_with(&format!("missing: {}", full[missing].0)), "{error}");
        }
        assert!(matches!(read(&[]), Err(OptionsError::Missing(_))));
    }

    #[test]
    fn refuses_unusable_values() {
        let with = |url, id| read(&[(REGISTRY_URL, url), (ENVIRONMENT_ID, id), (AUTH_TOKEN, "t")]).unwrap_err();
        assert!(matches!(with("http://far.example", "e"), OptionsError::Url(_)));
        assert!(matches!(
            with("https://far.example", "a/b"),
            OptionsError::Environment(_)
        ));
    }
}
