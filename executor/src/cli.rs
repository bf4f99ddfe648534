//! Flags, and how the parts are put together.

use std::io::Write as _;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use clap::builder::FalseyValueParser;
use rendezvous_executor::credential::{self, TOKEN_VARIABLES};
use rendezvous_executor::remote::{self, Status};
use rendezvous_executor::server::{Config, Server};
use rendezvous_service::admin::Admin;
use rendezvous_service::args::{AdminArgs, LogArgs};
use rendezvous_service::exit::{self, Exit, Failure};
use rendezvous_service::{logging, shutdown};
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::registry::{self, Registration};
use rendezvous_transport::tls::Trust;
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::secret::Secret;
use tokio_util::sync::CancellationToken;

/// How long file operations may go on after the end.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Runs commands on this machine for harnesses that a registry admits.
///
/// What a harness wants confined runs in a sandbox, for which bubblewrap must be installed; what cannot be confined is refused.
///
/// The token of the executor is read from --token-file, else from EXECUTOR_TOKEN or CODEX_API_KEY. Commands get neither.
#[derive(Debug, Parser)]
#[command(name = "executor", version)]
struct Cli {
    /// Base URL of the registry
    #[arg(long, value_name = "URL", env = "EXECUTOR_REMOTE")]
    remote: String,
    /// The environment to serve
    #[arg(long, value_name = "ID", env = "EXECUTOR_ENVIRONMENT_ID")]
    environment_id: EnvironmentId,
    /// Name of this executor in its own log
    #[arg(long, value_name = "NAME", env = "EXECUTOR_NAME")]
    name: Option<String>,
    /// File with the executor's token, `-` for stdin; refused when group or others can read it
    #[arg(long, value_name = "FILE", env = "EXECUTOR_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with certificate authorities to trust beside the machine's own
    #[arg(long, value_name = "FILE", env = "EXECUTOR_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// Send secrets unencrypted to other machines too
    #[arg(long, env = "EXECUTOR_ALLOW_INSECURE", value_parser = FalseyValueParser::new())]
    allow_insecure: bool,
    /// Where a predecessor left the token
    #[arg(long, value_name = "FD", hide = true)]
    credential_fd: Option<RawFd>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    logs: LogArgs,
}

/// Why the program ends without success.
pub(crate) enum Stop {
    /// All is printed already.
    Printed(Exit),
    /// To be printed.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

pub(crate) fn run() -> Result<(), Stop> {
    credential::protect().context("cannot hide this process's memory from its user's other processes")?;
    let cli: Cli = exit::parse().map_err(Stop::Printed)?;
    credential::leave_environment(cli.token_file.is_none()).map_err(Failure::usage)?;
    let token = credential::load(cli.credential_fd, cli.token_file.as_deref()).map_err(Failure::usage)?;
    let Some(token) = token else {
        let [first, second] = TOKEN_VARIABLES;
        let missing = format!("no token: use --token-file, {first} or {second}");
        return Err(Failure::new(Exit::NotAuthorized, missing).into());
    };
    logging::init(&cli.logs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let served = runtime.block_on(serve(cli, token));
    // A file system that hangs must not keep the process.
    runtime.shutdown_timeout(LAST_WORK);
    Ok(served?)
}

async fn serve(cli: Cli, token: Secret) -> anyhow::Result<()> {
    let stop = shutdown::signal().context("cannot listen for signals")?;
    let clear_text = ClearText::allow_insecure(cli.allow_insecure);
    let url =
        RegistryUrl::parse(&cli.remote, clear_text).map_err(|error| Failure::usage(format!("--remote: {error}")))?;
    let trust = Arc::new(Trust::new(cli.ca_file.as_deref()).map_err(Failure::usage)?);
    let client = registry::Client::new(&registry::Options {
        url,
        credential: token,
        account: None,
        trust: trust.clone(),
    })
    .map_err(Failure::usage)?;
    let options = remote::Options {
        environment: cli.environment_id,
        registry: client,
        dialer: Dialer::new(trust, clear_text),
    };
    let status = Status::default();
    serve_operators(cli.admin, status.clone(), stop.clone())?;
    tracing::info!(environment = %options.environment, name = cli.name, registry = %options.registry.url(), "starting");

    let server = Server::new(Config::default());
    let environment = options.environment.clone();
    let served = remote::run(
        options,
        status,
        |accepted| {
            let (sender, receiver) = accepted.stream.split();
            let server = server.clone();
            tokio::spawn(async move { server.serve_stream(sender, receiver).await });
        },
        |registration| announce(&environment, registration),
        stop,
    )
    .await;
    // Also after a failure: no process may outlive its executor.
    server.shut();
    served.map_err(|error| {
        let exit = error.exit();
        Failure::new(exit, error).into()
    })
}

/// Scripts wait for this line.
fn announce(environment: &EnvironmentId, registration: &Registration) {
    let line = format!(
        "executor registered environment={environment} registration={}\n",
        registration.id
    );
    // Nobody may read it; the executor serves all the same.
    let _ = std::io::stdout().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
}

fn serve_operators(args: AdminArgs, status: Status, stop: CancellationToken) -> anyhow::Result<()> {
    let Some(addr) = args.admin_listen else {
        return Ok(());
    };
    let admin = Admin::bind(addr)?;
    let readiness = Arc::new(move || {
        if status.is_connected() {
            Vec::new()
        } else {
            vec!["no relay connection".to_owned()]
        }
    });
    tokio::spawn(admin.serve(readiness, stop));
    Ok(())
}
