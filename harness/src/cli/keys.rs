//! Our key, and the keys of executors: flags, and the commands that look after them.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use rendezvous_harness::options::PASSPHRASE;
use rendezvous_harness::trust::{
    self, ExecutorKey, Fingerprint, IdentityError, IdentityFile, KeyPolicy, Keyring, KnownExecutors, Passphrase, Pin,
    Standing,
};
use rendezvous_harness::{Options, exit};
use rendezvous_host::state;
use rendezvous_identity::time;
use rendezvous_wire::id::EnvironmentId;
use serde_json::json;

use super::status::Outcome;
use super::{Failure, print, text};

/// Name of the file in the state directory.
const KNOWN_EXECUTORS: &str = "known_executors";
/// What stands for no file.
const NONE: &str = "none";

/// Who we are, and whom we believe.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keys")]
pub(crate) struct KeyArgs {
    /// File with the key of this harness, made if it is missing; without it, each session has a new key
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HARNESS_IDENTITY_FILE",
        hide_env_values = true
    )]
    identity_file: Option<PathBuf>,
    /// File with the passphrase of that file, `-` for stdin; else HARNESS_IDENTITY_PASSPHRASE
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HARNESS_IDENTITY_PASSPHRASE_FILE",
        hide_env_values = true
    )]
    identity_passphrase_file: Option<PathBuf>,
    /// Where the keys of executors are remembered; `none`: nowhere [default: known_executors in the state directory]
    ///
    /// The state directory is `rendezvous` in XDG_STATE_HOME, else in ~/.local/state; in a systemd service, the service's own.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HARNESS_KNOWN_EXECUTORS",
        hide_env_values = true
    )]
    known_executors: Option<PathBuf>,
    /// The executor's fingerprint, as `executor identity show` prints it: no other executor is spoken to
    #[arg(
        long,
        global = true,
        value_name = "FINGERPRINT",
        env = "HARNESS_EXECUTOR_FINGERPRINT",
        hide_env_values = true
    )]
    executor_fingerprint: Option<Fingerprint>,
    /// Speak to no executor whose key is not known yet; stock executors have a new one each time they start
    #[arg(long, global = true, env = "HARNESS_STRICT_EXECUTOR_KEYS", hide_env_values = true)]
    strict_executor_keys: bool,
}

impl KeyArgs {
    /// Our key, if it has a file.
    pub(super) fn identity(&self) -> Result<Option<Keyring>, Failure> {
        let Some(path) = &self.identity_file else {
            return Ok(None);
        };
        let passphrase = match &self.identity_passphrase_file {
            Some(file) => Some(Passphrase::read(file).map_err(Failure::usage)?),
            None => Passphrase::from_variable(PASSPHRASE).map_err(Failure::usage)?,
        };
        let now = time::now();
        let keys = IdentityFile::new(path, passphrase)
            .open_or_create(now)
            .map_err(unusable)?;
        Ok(Some(keys.keyring(now)))
    }

    /// What is asked of the executor's key.
    pub(super) fn policy(&self) -> KeyPolicy {
        let known = self.known_file();
        if known.is_none() {
            tracing::info!("keys of executors are not remembered");
        }
        KeyPolicy {
            known: known.map(KnownExecutors::new),
            fingerprint: self.executor_fingerprint,
            strict: self.strict_executor_keys,
            // Whoever names a file relies on it.
            must_remember: self.known_executors.is_some(),
        }
    }

    /// Why this key will not be known again, if nobody asked for that.
    pub(super) fn forgotten(&self, key: &ExecutorKey) -> Option<String> {
        match &key.standing {
            Standing::Unwritten { reason } => Some(reason.clone()),
            Standing::NotRemembered if key.persistent && self.known_executors.is_none() => {
                self.known_file().is_none().then(|| "HOME is not set".to_owned())
            }
            _ => None,
        }
    }

    fn known_file(&self) -> Option<PathBuf> {
        match &self.known_executors {
            Some(file) if file.as_os_str() == NONE => None,
            Some(file) => Some(file.clone()),
            None => Some(state::directory()?.join(KNOWN_EXECUTORS)),
        }
    }

    fn known(&self) -> Result<KnownExecutors, Failure> {
        let missing = match &self.known_executors {
            Some(_) => "no file of known executors: --known-executors is `none`",
            None => "no file of known executors: HOME is not set; use --known-executors",
        };
        let file = self.known_file().context(missing).map_err(Failure::usage)?;
        Ok(KnownExecutors::new(file))
    }
}

fn unusable(error: IdentityError) -> Failure {
    let code = if error.is_about_passphrase() {
        exit::NOT_AUTHORIZED
    } else {
        exit::USAGE
    };
    let hint = match &error {
        IdentityError::PassphraseNeeded(_) => "; use --identity-passphrase-file or HARNESS_IDENTITY_PASSPHRASE",
        _ => "",
    };
    Failure {
        error: anyhow::Error::new(error).context(format!("cannot use this harness's key{hint}")),
        code,
    }
}

/// The keys of executors that this harness knows.
#[derive(Debug, Subcommand)]
pub(crate) enum KnownExecutorsCommand {
    /// List the known keys
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Take the key that the executor has now, whatever was known before, if it has this fingerprint
    ///
    /// Ask whoever runs the executor for the fingerprint (`executor identity show`), not the registry. The executor must be
    /// connected; nothing is sent to it.
    Accept {
        /// The fingerprint that the executor must have
        fingerprint: Fingerprint,
    },
    /// Forget the key of an executor, at every registry: the next one that is met there is taken
    Remove {
        /// The environment
        #[arg(value_name = "NAME")]
        name: EnvironmentId,
    },
}

/// Shows our key.
pub(super) fn identity(args: &KeyArgs, as_json: bool) -> Result<Outcome, Failure> {
    let Some(keys) = args.identity()? else {
        let missing = "this harness has no key that lasts; use --identity-file or HARNESS_IDENTITY_FILE";
        return Err(Failure::usage(anyhow::anyhow!(missing)));
    };
    let fingerprint = keys.fingerprint();
    if as_json {
        print(&format!("{}\n", json!({ "fingerprint": fingerprint })))?;
    } else {
        print(&format!("{fingerprint}\n"))?;
    }
    Ok(Outcome::command(0))
}

/// Lists the known keys.
pub(super) fn list(args: &KeyArgs, as_json: bool) -> Result<Outcome, Failure> {
    let pins = args.known()?.list().map_err(Failure::usage)?;
    let shown = if as_json {
        let describe = |pin: &Pin| {
            json!({
                "environment": pin.environment.as_str(),
                "fingerprint": pin.fingerprint(),
                "since": pin.since,
                "registry": pin.registry,
            })
        };
        let all: Vec<_> = pins.iter().map(describe).collect();
        format!("{}\n", text::json_line(&json!(all).to_string()))
    } else {
        let widest = pins.iter().map(|pin| pin.environment.as_str().len()).max().unwrap_or(0);
        let line = |pin: &Pin| {
            let registry = text::one_line(&pin.registry);
            let (environment, since) = (pin.environment.as_str(), text::one_line(&pin.since));
            format!("{environment:widest$}  {}  {since}  {registry}\n", pin.fingerprint())
        };
        pins.iter().map(line).collect()
    };
    print(&shown)?;
    Ok(Outcome::command(0))
}

/// Forgets a known key.
pub(super) fn remove(args: &KeyArgs, name: &EnvironmentId) -> Result<Outcome, Failure> {
    let known = args.known()?;
    let removed = known.remove(None, name).map_err(Failure::usage)?;
    if removed.is_empty() {
        let file = known.path().display();
        return Err(Failure::runtime(anyhow::anyhow!("{file} knows no key of `{name}`")));
    }
    for pin in removed {
        let registry = text::one_line(&pin.registry);
        print(&format!("forgot {} of `{name}` at {registry}\n", pin.fingerprint()))?;
    }
    Ok(Outcome::command(0))
}

/// Takes the key that the executor has now.
pub(super) async fn accept(args: &KeyArgs, options: &Options, fingerprint: Fingerprint) -> Result<Outcome, Failure> {
    let pin = trust::accept(options, &args.known()?, fingerprint).await?;
    let registry = text::one_line(&pin.registry);
    print(&format!(
        "`{}` at {registry} is known by {fingerprint} now\n",
        pin.environment
    ))?;
    Ok(Outcome::command(0))
}
