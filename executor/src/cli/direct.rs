//! Serving without a relay, on a connection of the executor's own that AWS identities sign.

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use rendezvous_executor::aws::{self, Aws, DEFAULT_SERVICE};
use rendezvous_executor::credential;
use rendezvous_executor::remote::{RemoteError, Status, direct};
use rendezvous_executor::server::Server;
use rendezvous_service::exit::Failure;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::ClearText;
use rendezvous_transport::registry::DirectClient;
use tokio_util::sync::CancellationToken;

use super::remote::{RemoteArgs, announce};

/// How harnesses reach an executor that registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// End-to-end encrypted, through a relay
    Noise,
    /// JSON-RPC on a WebSocket that the registry names and whose server can read it
    Direct,
}

/// The transport, and who signs when there is no relay.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving without a relay")]
pub(super) struct DirectArgs {
    /// How harnesses reach this executor: encrypted through a relay, or `direct`, which needs --aws-sigv4 instead of a token
    #[arg(
        long,
        value_name = "TRANSPORT",
        env = "EXECUTOR_REMOTE_TRANSPORT",
        default_value = "noise",
        hide_possible_values = true,
        requires_if("direct", "aws_sigv4"),
        requires_if("direct", "remote")
    )]
    remote_transport: Transport,
    /// Sign the registration and the connection with AWS SigV4
    ///
    /// The keys are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, which commands do not get
    /// then, or from a profile of the files in ~/.aws.
    #[arg(long, env = "EXECUTOR_AWS_SIGV4", value_parser = FalseyValueParser::new())]
    aws_sigv4: bool,
    /// Profile to take the keys from, also when the environment has some
    #[arg(long, value_name = "NAME", env = "EXECUTOR_AWS_PROFILE", requires = "aws_sigv4")]
    aws_profile: Option<String>,
    /// Region to sign for; AWS_REGION, AWS_DEFAULT_REGION or the profile's without it
    #[arg(long, value_name = "REGION", env = "EXECUTOR_AWS_REGION", requires = "aws_sigv4")]
    aws_region: Option<String>,
    /// Service to sign for
    #[arg(
        long,
        value_name = "SERVICE",
        env = "EXECUTOR_AWS_SERVICE",
        default_value = DEFAULT_SERVICE
    )]
    aws_service: String,
}

impl DirectArgs {
    pub(super) fn is_direct(&self) -> bool {
        self.remote_transport == Transport::Direct
    }

    /// What only a look at several flags finds.
    pub(super) fn check(&self, remote: &RemoteArgs) -> Result<(), Failure> {
        if self.is_direct() && remote.has_token_file() {
            return Err(Failure::usage(
                "--token-file cannot be used with --remote-transport direct, which AWS keys sign",
            ));
        }
        if self.is_direct() && !self.aws_sigv4 {
            return Err(Failure::usage("--remote-transport direct needs --aws-sigv4"));
        }
        if self.aws_sigv4 && !self.is_direct() {
            return Err(Failure::usage("--aws-sigv4 needs --remote-transport direct"));
        }
        Ok(())
    }

    /// The keys from the environment, which the program has left by now.
    pub(super) fn options(&self, remote: &RemoteArgs) -> Result<aws::Options, Failure> {
        let keys = credential::load_keys(remote.credential_fd()).map_err(Failure::usage)?;
        Ok(aws::Options {
            profile: self.aws_profile.clone().filter(|profile| !profile.trim().is_empty()),
            region: self.aws_region.clone(),
            service: self.aws_service.clone(),
            keys,
        })
    }
}

pub(super) async fn plan(
    remote: RemoteArgs,
    aws: aws::Options,
    clear_text: ClearText,
) -> Result<direct::Options, Failure> {
    let place = remote.place(clear_text)?;
    let aws = Aws::new(aws).await.map_err(|error| {
        let error = RemoteError::from(error);
        Failure::new(error.exit(), error)
    })?;
    let registry = DirectClient::new(place.url, place.connector.clone());
    Ok(direct::Options {
        environment: place.environment,
        registry,
        dialer: Dialer::new(place.connector, clear_text),
        aws,
    })
}

pub(super) async fn serve(
    options: direct::Options,
    status: Status,
    server: &Server,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let environment = options.environment.clone();
    let served = direct::run(
        options,
        status,
        server,
        |registration| announce(&environment, &registration.id),
        stop,
    );
    served.await.map_err(|error| {
        let exit = error.exit();
        Failure::new(exit, error).into()
    })
}
