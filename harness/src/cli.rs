//! The command line: parses, connects, runs one command, says how it ended.

mod args;
mod copy;
mod info;
mod keys;
mod logs;
mod output;
mod run;
mod secret;
mod sessions;
mod signals;
mod status;
mod store;
mod target;
mod terminal;
mod text;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Once;
use std::time::{Duration, Instant};

use clap::Parser as _;
use rendezvous_harness::environments::{Environments, Settings};
use rendezvous_harness::trust::{ExecutorKey, Standing};
use rendezvous_harness::{Environment, Harness, HarnessError, LinkState, Options, exit};
use rendezvous_transport::policy::ClearText;
use tokio_util::task::TaskTracker;

use args::{Cli, Command, Connection};
use keys::{KeyArgs, KnownExecutorsCommand};
use status::{Outcome, StatusFile};

/// Nothing names an environment.
const NOWHERE: &str = "where to connect is not configured: set CODEX_EXEC_SERVER_NOISE_REGISTRY_URL, \
    CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID and CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN, or CODEX_EXEC_SERVER_URL, or name an \
    environment with -e (`-e local` is this machine)";
const NO_REGISTRY: &str = "no registry is configured, and only a registry names keys: set \
    CODEX_EXEC_SERVER_NOISE_REGISTRY_URL and the like, or use --registry-url. What environments.toml or \
    CODEX_EXEC_SERVER_URL leads to proves no key, so there is none to accept";
/// How long a connect may take before it is told that it is waited for.
const SILENCE: Duration = Duration::from_secs(1);
/// How long a connection may be lost before that is told: what lasts shorter is no more than a stumble.
const VISIBLE: Duration = Duration::from_secs(1);
/// What a signal may interrupt.
const ASKING: &str = "waiting for the executor";
/// Longest time that the end of a session may take.
const FAREWELL: Duration = Duration::from_millis(500);

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { 0 };
            // A closed terminal is no reason for another message.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    logs::start(cli.connection.verbose);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            say(format_args!("cannot start: {error}"));
            return ExitCode::from(exit::RUNTIME);
        }
    };
    let code = runtime.block_on(play(cli));
    // Threads that read stdin, or wait for a file, cannot be stopped; the end of the process stops them.
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// Does what the command line says, tells how it ended, and gives the exit code.
async fn play(cli: Cli) -> u8 {
    let status_file = match &cli.command {
        Command::Run(args) => args.status_file.as_deref().map(StatusFile::prepare).transpose(),
        _ => Ok(None),
    };
    let status_file = match status_file {
        Ok(status_file) => status_file,
        Err(error) => {
            say(format_args!("{error:#}"));
            return exit::USAGE;
        }
    };
    let sessions = TaskTracker::new();
    let result = dispatch(cli, &sessions).await;
    sessions.close();
    // What could not be said to the executor by now, it finds out.
    let _ = tokio::time::timeout(FAREWELL, sessions.wait()).await;
    let outcome = result.unwrap_or_else(|failure| {
        say(format_args!("{:#}", failure.error));
        Outcome::ours(failure.code)
    });
    let Some(status_file) = status_file else {
        return outcome.code;
    };
    tokio::select! {
        written = status_file.write(&outcome) => match written {
            Ok(()) => outcome.code,
            Err(error) => {
                say(format_args!("{error:#}"));
                exit::RUNTIME
            }
        },
        // A FIFO may wait for its reader.
        signal = signals::ending() => signal.exit_code(),
    }
}

/// What ends the program without an outcome of its own.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    code: u8,
}

impl Failure {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            code: exit::USAGE,
        }
    }

    fn runtime(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            code: exit::RUNTIME,
        }
    }

    /// Whether the session that was followed is not there any more.
    fn is_session_gone(&self) -> bool {
        self.error.downcast_ref().is_some_and(HarnessError::is_session_gone)
    }

    /// Whether it is the environment that cannot do what was asked of it, and not the command line that is wrong.
    fn is_of_environment(&self) -> bool {
        self.code != exit::USAGE && self.error.is::<HarnessError>()
    }

    /// Says in front what could not be done.
    fn about(self, what: String) -> Self {
        Self {
            error: self.error.context(what),
            ..self
        }
    }
}

impl From<HarnessError> for Failure {
    fn from(error: HarnessError) -> Self {
        Self {
            code: error.exit_code(),
            error: error.into(),
        }
    }
}

async fn dispatch(cli: Cli, tasks: &TaskTracker) -> Result<Outcome, Failure> {
    let to = &cli.connection;
    match cli.command {
        Command::Run(args) => run::run(connect(to, None, tasks).await?, args, &cli.sessions).await,
        Command::Shell(args) => run::shell(connect(to, None, tasks).await?, args, &cli.sessions).await,
        Command::Ps(args) => {
            let (environment, store) = (to.environment(None)?, cli.sessions.store()?);
            let met = meet_and_report(&environment, to, None, tasks).await;
            unless_signalled(ASKING, sessions::ps::ps(&environment, met, &store, &args)).await
        }
        Command::Attach(args) => {
            let (environment, store) = (connect_quietly(to, None).await?, cli.sessions.store()?);
            sessions::attach::attach(environment, &store, &args, tasks).await
        }
        Command::Kill(args) => {
            let (environment, store) = (connect(to, None, tasks).await?, cli.sessions.store()?);
            unless_signalled(ASKING, sessions::kill::kill(&environment, &store, &args)).await
        }
        Command::Info(args) => {
            let environment = connect(to, None, tasks).await?;
            unless_signalled(ASKING, info::info(&environment, &args)).await
        }
        Command::Cp(args) => copy::copy(to, &args, tasks).await,
        Command::Identity(args) => keys::identity(&to.keys, args.json),
        Command::KnownExecutors(KnownExecutorsCommand::List { json }) => keys::list(&to.keys, json),
        Command::KnownExecutors(KnownExecutorsCommand::Remove { name }) => keys::remove(&to.keys, &name),
        Command::KnownExecutors(KnownExecutorsCommand::Accept { fingerprint }) => {
            let options = to.registry_options()?;
            let accepting = keys::accept(&to.keys, &options, fingerprint);
            unless_signalled("waiting for the registry", accepting).await
        }
    }
}

/// Connects to an environment, the one with this name if one is given, and reports on stderr whenever the connection is lost
/// and found again. `sessions` has a task until the session has ended.
async fn connect(connection: &Connection, name: Option<&str>, sessions: &TaskTracker) -> Result<Environment, Failure> {
    let environment = connection.environment(name)?;
    meet_and_report(&environment, connection, name, sessions).await?;
    Ok(environment)
}

/// Connects to an environment, and says so only if it takes long.
async fn connect_quietly(connection: &Connection, name: Option<&str>) -> Result<Environment, Failure> {
    let environment = connection.environment(name)?;
    meet(&environment, connection, name).await?;
    Ok(environment)
}

/// As [`connect`], to an environment that was found already.
async fn meet_and_report(
    environment: &Environment,
    connection: &Connection,
    name: Option<&str>,
    sessions: &TaskTracker,
) -> Result<(), Failure> {
    if let Some(harness) = meet(environment, connection, name).await? {
        sessions.spawn(report(harness.link_state()));
    }
    Ok(())
}

/// As [`connect_quietly`], to an environment that was found already; gives the session, unless it is this machine.
async fn meet(
    environment: &Environment,
    connection: &Connection,
    name: Option<&str>,
) -> Result<Option<Harness>, Failure> {
    let named = name
        .or(connection.environment.as_deref())
        .unwrap_or_else(|| environment.id());
    let what = match &connection.registry_url {
        Some(url) => format!("the executor of `{named}` at {url}"),
        None => format!("the executor of `{named}`"),
    };
    let harness = unless_signalled("connecting", not_silently(&what, environment.harness())).await?;
    if let Some(key) = harness.as_ref().and_then(Harness::executor_key) {
        say_of(key, named, &connection.keys);
    }
    Ok(harness)
}

/// Says what is noteworthy of an executor's key.
fn say_of(key: &ExecutorKey, environment: &str, keys: &KeyArgs) {
    static FORGOTTEN: Once = Once::new();
    if let Standing::Successor { of } = &key.standing {
        say(format_args!(
            "the executor of `{environment}` has a new key, and proved it with the one before, {of}"
        ));
    }
    if let Some(reason) = keys.forgotten(key) {
        FORGOTTEN.call_once(|| {
            say(format_args!(
                "the executor's key cannot be remembered: {reason}; use --known-executors FILE for another place, or `none`"
            ));
        });
    }
}

/// Does `work`, and says what it waits for when that takes long.
async fn not_silently<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE) => say(format_args!("waiting for {what} (-v tells more)")),
    }
    work.await
}

/// Does `work` unless a signal comes first.
async fn unless_signalled<T, E>(what: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    tokio::select! {
        result = work => Ok(result?),
        signal = signals::ending() => Err(Failure {
            error: anyhow::anyhow!("interrupted while {what}"),
            code: signal.exit_code(),
        }),
    }
}

/// Says on stderr that the connection is lost, if that lasts, and that it is found again.
async fn report(mut state: tokio::sync::watch::Receiver<LinkState>) {
    let mut lost: Option<Instant> = None;
    let mut is_said = false;
    loop {
        let due = lost.filter(|_| !is_said).map(|since| since + VISIBLE);
        tokio::select! {
            changed = state.changed() => if changed.is_err() {
                return;
            },
            () = until(due) => {
                say("connection lost, reconnecting…");
                is_said = true;
                continue;
            }
        }
        let now = state.borrow_and_update().clone();
        match now {
            LinkState::Recovering { since } => {
                lost.get_or_insert(since);
            }
            LinkState::Connected => {
                let since = lost.take().filter(|_| std::mem::take(&mut is_said));
                if let Some(since) = since {
                    say(format_args!("reconnected after {:.1} s", since.elapsed().as_secs_f64()));
                }
            }
            _ => {}
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Writes to stdout.
fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::runtime)
}

/// One line on stderr, whole also on a raw terminal. Nothing in the text, whoever it is from, reaches the terminal as anything
/// but text.
pub(crate) fn say(text: impl std::fmt::Display) {
    let end = if terminal::is_raw() { "\r\n" } else { "\n" };
    let line = format!("harness: {}{end}", text::one_line(&text.to_string()));
    // There is nowhere to report that stderr is gone.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

impl Connection {
    /// What the flags and variables say, with another name when one is given.
    fn settings(&self, name: Option<&str>) -> Result<Settings, Failure> {
        let mut settings = Settings::from_env();
        if let Some(url) = self.registry_url.as_ref().filter(|url| !url.trim().is_empty()) {
            settings.registry_url = Some(url.clone());
        }
        if let Some(path) = &self.token_file {
            settings.token = Some(secret::read(path).map_err(Failure::usage)?);
        }
        settings.ca_file.clone_from(&self.ca_file);
        settings.clear_text = ClearText::allow_insecure(self.allow_insecure);
        settings.connect_timeout = self.connect_timeout.map(Duration::from_secs_f64);
        settings.stream_grace = self.stream_grace.map(Duration::from_secs_f64);
        if settings.names_registry() {
            settings.environment_id = name.map(ToOwned::to_owned);
            settings.identity = self.keys.identity()?;
            settings.executors = self.keys.policy();
        }
        Ok(settings)
    }

    /// How the executor is reached through a registry.
    fn registry_options(&self) -> Result<Options, Failure> {
        let settings = self.settings(self.environment.as_deref())?;
        if !settings.names_registry() {
            return Err(Failure::usage(anyhow::anyhow!(NO_REGISTRY)));
        }
        Ok(Options::from_settings(&settings).map_err(HarnessError::from)?)
    }

    /// The environment, the one with this name if one is given.
    fn environment(&self, name: Option<&str>) -> Result<Environment, Failure> {
        let name = name.or(self.environment.as_deref());
        let settings = self.settings(name)?;
        if settings.names_registry() {
            return Ok(Environments::load(&settings)?.default_environment()?);
        }
        let environments = Environments::load(&settings)?;
        match name {
            Some(name) => environments.get(name).map_err(|error| {
                let known = environments.ids().join(", ");
                let hint = if name.contains('=') {
                    "; `--env` sets a variable"
                } else {
                    ""
                };
                Failure::usage(anyhow::anyhow!("{error}{hint} (known: {known})"))
            }),
            None if environments.is_default_chosen() => Ok(environments.default_environment()?),
            // What is meant for another machine must not happen here because a variable is missing.
            None => Err(Failure::usage(anyhow::anyhow!(NOWHERE))),
        }
    }
}
