//! Serving harnesses that a registry admits.

use std::io::Write as _;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rendezvous_channel::reliable::EXECUTOR_GRACE;
use rendezvous_executor::credential::{self, TOKEN_VARIABLES};
use rendezvous_executor::remote::{self, MAX_STREAM_GRACE, Status};
use rendezvous_identity::{AuthorizedHarnesses, Keyring};
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_service::exit::{Exit, Failure};
use rendezvous_transport::acceptor::Accepted;
use rendezvous_transport::connector::Connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::proxy::Proxies;
use rendezvous_transport::registry::{self, Registration};
use rendezvous_transport::tls::Trust;
use rendezvous_wire::id::{EnvironmentId, RegistrationId};
use rendezvous_wire::secret::Secret;
use tokio_util::sync::CancellationToken;

use super::identity::IdentityArgs;

/// Options of [`RemoteArgs`] with secrets that only a registration uses.
pub(super) const ONLY_REMOTE: [&str; 3] = ["token_file", "identity_file", "identity_passphrase_file"];

/// Whom to register with, and as what.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving through a relay")]
pub(super) struct RemoteArgs {
    /// Base URL of the registry
    #[arg(long, value_name = "URL", env = "EXECUTOR_REMOTE", requires = "environment_id")]
    pub(super) remote: Option<String>,
    /// The environment to serve
    #[arg(long, value_name = "ID", env = "EXECUTOR_ENVIRONMENT_ID")]
    environment_id: Option<EnvironmentId>,
    /// Name of this executor in its own log
    #[arg(long, value_name = "NAME", env = "EXECUTOR_NAME")]
    name: Option<String>,
    /// File with the executor's token, `-` for stdin; refused when group or others can read it
    #[arg(long, value_name = "FILE", env = "EXECUTOR_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with certificate authorities to trust beside the machine's own
    #[arg(long, value_name = "FILE", env = "EXECUTOR_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// How long a harness whose connection is lost finds its stream as it left it; 0 turns this off. Stock harnesses cannot
    /// come back to a stream, but to their session
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = EXECUTOR_GRACE.as_secs(),
        value_parser = clap::value_parser!(u64).range(..=MAX_STREAM_GRACE.as_secs()),
        env = "EXECUTOR_STREAM_GRACE"
    )]
    stream_grace: u64,
    /// Where a predecessor left the token
    #[arg(long, value_name = "FD", hide = true)]
    credential_fd: Option<RawFd>,
    #[command(flatten)]
    identity: IdentityArgs,
}

impl RemoteArgs {
    /// Whether the token is wanted from the environment.
    pub(super) fn wants_token(&self) -> bool {
        self.remote.is_some() && self.token_file.is_none()
    }

    /// Whether the passphrase of the identity file is wanted from the environment.
    pub(super) fn wants_passphrase(&self) -> bool {
        self.remote.is_some() && self.identity.wants_passphrase()
    }

    /// Whether that passphrase comes from stdin.
    pub(super) fn reads_passphrase(&self) -> bool {
        self.remote.is_some() && self.identity.reads_stdin()
    }

    /// Who this executor is, and whom it serves.
    pub(super) fn who(&self) -> Result<Who, Failure> {
        Ok(Who {
            authorized: self.identity.authorized()?,
            keys: self.identity.keys()?,
        })
    }

    /// Refuses a list of harnesses where no channel proves which harness has come.
    pub(super) fn check_list(&self, has_channel: bool) -> Result<(), Failure> {
        if has_channel || !self.identity.has_list() {
            return Ok(());
        }
        Err(Failure::usage(
            "--authorized-harnesses cannot be used with --listen or --remote-transport direct, where clients prove no key; use \
             --ws-auth, or serve through a relay",
        ))
    }

    /// Whether the token comes from stdin.
    pub(super) fn reads_stdin(&self) -> bool {
        self.remote.is_some() && self.token_file.as_deref().is_some_and(|file| file == "-")
    }

    pub(super) fn has_token_file(&self) -> bool {
        self.token_file.is_some()
    }

    /// Certificate authorities to trust beside the machine's own.
    pub(super) fn trust(&self) -> Result<Trust, Failure> {
        Trust::new(self.ca_file.as_deref()).map_err(Failure::usage)
    }

    /// Where a predecessor left its secret.
    pub(super) fn credential_fd(&self) -> Option<RawFd> {
        self.credential_fd
    }

    pub(super) fn place(self, clear_text: ClearText) -> Result<Place, Failure> {
        let trust = self.trust();
        let (Some(remote), Some(environment)) = (self.remote, self.environment_id) else {
            return Err(Failure::usage("--remote and --environment-id are needed"));
        };
        let url =
            RegistryUrl::parse(&remote, clear_text).map_err(|error| Failure::usage(format!("--remote: {error}")))?;
        let connector = Connector::through(trust?, Proxies::from_env());
        tracing::info!(%environment, name = self.name, registry = %url, "starting");
        Ok(Place {
            environment,
            url,
            connector,
        })
    }

    pub(super) fn token(&self) -> Result<Secret, Failure> {
        let token = credential::load(self.credential_fd, self.token_file.as_deref()).map_err(Failure::usage)?;
        token.ok_or_else(|| {
            let [first, second] = TOKEN_VARIABLES;
            let missing = format!("no token: use --token-file, {first} or {second}");
            Failure::new(Exit::NotAuthorized, missing)
        })
    }
}

/// Who this executor is, and whom it serves.
pub(super) struct Who {
    pub(super) keys: Keyring,
    /// Everybody whom the registry admits, without it.
    pub(super) authorized: Option<Arc<AuthorizedHarnesses>>,
}

impl Who {
    pub(super) fn statement(&self) -> IdentityStatement {
        IdentityStatement::new(self.keys.current().public().clone(), self.keys.is_persistent())
    }
}

/// Where to register, as what, and how to get there.
pub(super) struct Place {
    pub(super) environment: EnvironmentId,
    pub(super) url: RegistryUrl,
    pub(super) connector: Connector,
}

/// Where to register, checked.
pub(super) struct Plan {
    options: remote::Options,
}

impl Plan {
    /// Opens WebSockets by the same rules.
    pub(super) fn dialer(&self) -> Dialer {
        self.options.dialer.clone()
    }
}

pub(super) fn plan(args: RemoteArgs, token: Secret, who: Who, clear_text: ClearText) -> Result<Plan, Failure> {
    let stream_grace = Duration::from_secs(args.stream_grace);
    let place = args.place(clear_text)?;
    let client = registry::Client::new(&registry::Options {
        url: place.url,
        credential: token,
        account: None,
        connector: place.connector.clone(),
    })
    .map_err(Failure::usage)?;
    let options = remote::Options {
        environment: place.environment,
        registry: client,
        dialer: Dialer::new(place.connector, clear_text),
        stream_grace,
        keys: who.keys,
        authorized: who.authorized,
    };
    Ok(Plan { options })
}

/// Keeps the relay connection; every admitted stream goes to `on_stream`.
pub(super) async fn serve(
    plan: Plan,
    status: Status,
    stop: CancellationToken,
    on_stream: impl FnMut(Accepted),
) -> anyhow::Result<()> {
    let environment = plan.options.environment.clone();
    let announce = |registration: &Registration| announce(&environment, &registration.id);
    let served = remote::run(plan.options, status, on_stream, announce, stop).await;
    served.map_err(|error| {
        let exit = error.exit();
        Failure::new(exit, error).into()
    })
}

/// Scripts wait for this line.
pub(super) fn announce(environment: &EnvironmentId, registration: &RegistrationId) {
    let line = format!("executor registered environment={environment} registration={registration}\n");
    // Nobody may read it; the executor serves all the same.
    let _ = std::io::stdout().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
}
