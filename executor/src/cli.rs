//! Flags, and how the parts are put together.

mod direct;
mod forward;
mod gateway;
mod identity;
mod keeping;
mod keys;
mod listen;
mod remote;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::FalseyValueParser;
use clap::parser::ValueSource;
use clap::{ArgGroup, ArgMatches, Parser, Subcommand};
use rendezvous_executor::aws;
use rendezvous_executor::credential::{self, Wanted};
use rendezvous_executor::listen::{ListenUrl, stop_with_stdin};
use rendezvous_executor::remote::{Status, revoked};
use rendezvous_executor::server::{Config, MAX_CONCURRENT_REQUESTS, Server};
use rendezvous_host::own::Listening;
use rendezvous_host::process::{Budget, limit_child_files};
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_service::admin::Admin;
use rendezvous_service::args::{AdminArgs, LogArgs};
use rendezvous_service::exit::{self, Exit, Failure};
use rendezvous_service::{files, logging, shutdown};
use rendezvous_transport::policy::ClearText;
use rendezvous_wire::secret::Secret;
use tokio_util::sync::CancellationToken;

use direct::DirectArgs;
use forward::ForwardArgs;
use gateway::GatewayArgs;
use keeping::KeepingArgs;
use keys::KeysArgs;
use listen::ListenArgs;
use remote::{RemoteArgs, Who};

/// The variable of `--allow-insecure`, which means something of its own to each way of running.
const ALLOW_INSECURE: &str = "EXECUTOR_ALLOW_INSECURE";
/// The generated one gives both ways of serving the options of one.
const USAGE: &str = "executor [OPTIONS] --remote <URL> --environment-id <ID>\n       executor [OPTIONS] --listen [<URL>]\n       \
                     executor <COMMAND>";
/// How long file operations may go on after the end.
const LAST_WORK: Duration = Duration::from_secs(1);

/// Runs commands on this machine, for harnesses that a registry admits or for clients that connect directly.
///
/// What a harness wants confined runs in a sandbox, for which bubblewrap must be installed; what cannot be confined is refused.
///
/// The token for the registry is read from --token-file, else from EXECUTOR_TOKEN or CODEX_API_KEY. Commands get neither.
/// With --remote-transport direct there is no token: an AWS identity signs.
#[derive(Debug, Parser)]
#[command(
    name = "executor",
    version,
    override_usage = USAGE,
    after_help = exit::HELP,
    group = ArgGroup::new("mode").args(["remote", "listen"]).required(true),
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    direct: DirectArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    keeping: KeepingArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    logs: LogArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Forward(Box<ForwardArgs>),
    Gateway(Box<GatewayArgs>),
    Identity(KeysArgs),
}

/// What holds for every way of serving.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Serving")]
struct ServingArgs {
    /// Calls of one client that are answered at once; 1 means in the order of their arrival
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = NonZeroUsize::MIN,
        value_parser = concurrency,
        env = "EXECUTOR_CONCURRENT_REQUESTS"
    )]
    concurrent_requests: NonZeroUsize,
    /// Send secrets unencrypted to other machines, and let whoever reaches --listen run commands
    #[arg(long, env = ALLOW_INSECURE, value_parser = FalseyValueParser::new())]
    allow_insecure: bool,
    #[command(flatten)]
    shell: ShellArgs,
}

/// What holds for every command that goes on until it is stopped.
#[derive(Debug, clap::Args)]
struct ShellArgs {
    /// End when stdin is closed, so that the program cannot outlive its parent
    #[arg(long, env = "EXECUTOR_EXIT_ON_STDIN_CLOSE", value_parser = FalseyValueParser::new())]
    exit_on_stdin_close: bool,
}

fn concurrency(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .ok()
        .filter(|count| *count <= MAX_CONCURRENT_REQUESTS)
        .ok_or_else(|| format!("expected a number from 1 to {MAX_CONCURRENT_REQUESTS}"))
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
    let (cli, sources): (Cli, _) = exit::parse_with_sources().map_err(Stop::Printed)?;
    check_mode(&cli, &sources)?;
    credential::leave_environment(wanted(&cli), wants_passphrase(&cli)).map_err(Failure::usage)?;
    cli.direct.check(&cli.remote)?;
    let serves = cli.command.is_none();
    let has_channel = cli.listen.listen.is_none() && !cli.direct.is_direct();
    cli.remote.check_list(!serves || has_channel)?;
    check_stdin(&cli)?;
    logging::init(&cli.logs)?;
    let authorities = cli.remote.trust()?.authorities().into();
    let mode = match (cli.command, cli.listen.listen) {
        (Some(Command::Forward(args)), _) => {
            let (token, who) = (args.remote.token()?, args.remote.who()?);
            Mode::Forward(args, token, who)
        }
        (Some(Command::Gateway(args)), _) => Mode::Gateway(args),
        (Some(Command::Identity(args)), _) => return Ok(keys::run(args)?),
        (None, Some(url)) => Mode::Listen(cli.listen, url),
        (None, None) if cli.direct.is_direct() => {
            let aws = cli.direct.options(&cli.remote)?;
            Mode::Direct(cli.remote, aws)
        }
        (None, None) => {
            let (token, who) = (cli.remote.token()?, cli.remote.who()?);
            Mode::Remote(cli.remote, token, who)
        }
    };
    let files = files::raise_limit();
    limit_child_files(files.before);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let budget = Budget::for_files(files.now);
    let config = Config {
        concurrent_requests: cli.serving.concurrent_requests,
        budget: Arc::new(budget),
        authorities,
        detached: mode.outlives_streams().then(|| cli.keeping.rules()).flatten(),
        ..Config::default()
    };
    let served = runtime.block_on(serve(mode, config, cli.serving, cli.admin));
    // A file system that hangs, or a stdin that nobody closes, must not keep the process.
    runtime.shutdown_timeout(LAST_WORK);
    Ok(served?)
}

/// What is needed of the secrets in the environment.
fn wanted(cli: &Cli) -> Wanted {
    let remote = match &cli.command {
        Some(Command::Forward(args)) => &args.remote,
        Some(Command::Gateway(_) | Command::Identity(_)) => return Wanted::Nothing,
        None if cli.direct.is_direct() => return Wanted::AwsKeys,
        None => &cli.remote,
    };
    if remote.wants_token() {
        Wanted::Token
    } else {
        Wanted::Nothing
    }
}

/// Whether the passphrase of the identity file is needed.
fn wants_passphrase(cli: &Cli) -> bool {
    match &cli.command {
        Some(Command::Forward(args)) => args.remote.wants_passphrase(),
        Some(Command::Identity(args)) => args.wants_passphrase(),
        Some(Command::Gateway(_)) => false,
        None => !cli.direct.is_direct() && cli.remote.wants_passphrase(),
    }
}

enum Mode {
    Listen(ListenArgs, ListenUrl),
    Remote(RemoteArgs, Secret, Who),
    Direct(RemoteArgs, aws::Options),
    Forward(Box<ForwardArgs>, Secret, Who),
    Gateway(Box<GatewayArgs>),
}

impl Mode {
    /// Whether sessions can be kept without a stream. Over stdin there is one stream, and nothing after it.
    fn outlives_streams(&self) -> bool {
        !matches!(self, Self::Listen(_, ListenUrl::Stdio))
    }

    /// What harnesses are told of our key.
    fn statement(&self) -> Option<IdentityStatement> {
        match self {
            Self::Remote(_, _, who) => Some(who.statement()),
            Self::Listen(..) | Self::Direct(..) | Self::Forward(..) | Self::Gateway(_) => None,
        }
    }
}

/// Refuses options that mean nothing in this way of serving, above all those that would protect another one. Stock executors
/// take `--environment-id` and `--name` for a listener, too; and variables may be meant for another executor.
fn check_mode(cli: &Cli, sources: &ArgMatches) -> Result<(), Failure> {
    let (strange, needed): (&[&str], _) = match (&cli.command, &cli.listen.listen) {
        (Some(_), _) => return Ok(()),
        (None, Some(_)) => (&remote::ONLY_REMOTE, "--remote"),
        (None, None) => (&listen::ONLY_LISTENING, "--listen"),
    };
    let is_given = |id: &&&str| sources.value_source(id) == Some(ValueSource::CommandLine);
    match strange.iter().find(is_given) {
        Some(id) => Err(Failure::usage(format!(
            "--{} means something with {needed} only",
            id.replace('_', "-")
        ))),
        None => Ok(()),
    }
}

/// Stdin can serve one purpose only.
fn check_stdin(cli: &Cli) -> Result<(), Failure> {
    let (shell, remote) = match &cli.command {
        Some(Command::Forward(args)) => (&args.shell, Some(&args.remote)),
        Some(Command::Gateway(args)) => (&args.shell, None),
        Some(Command::Identity(_)) => return Ok(()),
        None => (&cli.serving.shell, Some(&cli.remote)),
    };
    let reads_token = remote.is_some_and(RemoteArgs::reads_stdin);
    let reads_passphrase = remote.is_some_and(RemoteArgs::reads_passphrase);
    let uses = [
        (shell.exit_on_stdin_close, "--exit-on-stdin-close"),
        (reads_token, "--token-file -"),
        (reads_passphrase, "--identity-passphrase-file -"),
    ];
    let uses: Vec<&str> = uses
        .into_iter()
        .filter_map(|(is_used, how)| is_used.then_some(how))
        .collect();
    if let [first, second, ..] = uses[..] {
        return Err(Failure::usage(format!("{first} cannot be used with {second}")));
    }
    if !shell.exit_on_stdin_close {
        return Ok(());
    }
    if cli.listen.listen == Some(ListenUrl::Stdio) {
        return Err(Failure::usage(
            "--listen stdio ends with stdin without --exit-on-stdin-close",
        ));
    }
    Ok(())
}

async fn serve(mode: Mode, config: Config, serving: ServingArgs, admin: AdminArgs) -> anyhow::Result<()> {
    let stop = shutdown::signal().context("cannot listen for signals")?;
    let shell = match &mode {
        Mode::Forward(args, ..) => &args.shell,
        Mode::Gateway(args) => &args.shell,
        Mode::Listen(..) | Mode::Remote(..) | Mode::Direct(..) => &serving.shell,
    };
    if shell.exit_on_stdin_close {
        stop_with_stdin(stop.clone()).context("cannot watch stdin")?;
    }
    let allow_insecure = serving.allow_insecure;
    let server = Server::new(Config {
        identity: mode.statement(),
        ..config
    });
    let served = match mode {
        Mode::Forward(args, token, who) => return forward::run(*args, token, who, stop).await,
        Mode::Gateway(args) => return gateway::run(*args, stop).await,
        Mode::Listen(args, url) => {
            let plan = listen::plan(&args, url, allow_insecure)?;
            serve_operators(admin, None, stop.clone())?;
            listen::serve(plan, &server, stop).await;
            Ok(())
        }
        Mode::Remote(args, token, who) => {
            let authorized = who.authorized.clone();
            let plan = remote::plan(args, token, who, ClearText::allow_insecure(allow_insecure))?;
            let status = Status::default();
            serve_operators(admin, Some(status.clone()), stop.clone())?;
            remote::serve(plan, status, stop, |accepted| {
                let harness = accepted.harness_key.digest();
                let (sender, receiver) = accepted.stream.split();
                let (server, revoked) = (server.clone(), revoked(authorized.clone(), harness.fingerprint()));
                tokio::spawn(async move {
                    tokio::select! {
                        () = server.serve_harness(harness, sender, receiver) => {}
                        () = revoked => {}
                    }
                });
            })
            .await
        }
        Mode::Direct(args, aws) => {
            let options = direct::plan(args, aws, ClearText::allow_insecure(allow_insecure)).await?;
            let status = Status::default();
            serve_operators(admin, Some(status.clone()), stop.clone())?;
            direct::serve(options, status, &server, stop).await
        }
    };
    // Also after a failure: no process may outlive its executor.
    server.shut();
    served
}

/// Serves health and metrics. Without a relay connection to wait for, the executor is ready at once.
fn serve_operators(args: AdminArgs, status: Option<Status>, stop: CancellationToken) -> anyhow::Result<()> {
    let Some(addr) = args.admin_listen else {
        return Ok(());
    };
    let admin = Admin::bind(addr)?;
    let readiness = Arc::new(move || status.as_ref().map(Status::obstacles).unwrap_or_default());
    let own = Listening::at(admin.local_addr());
    tokio::spawn(async move {
        // Programs of this executor must not come here through its proxies.
        let _own = own;
        admin.serve(readiness, stop).await;
    });
    Ok(())
}
