//! `executor forward`: an exec-server that listens somewhere becomes a remote environment.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;
use rendezvous_executor::forward::Backend;
use rendezvous_executor::remote::{Status, revoked};
use rendezvous_service::args::AdminArgs;
use rendezvous_service::exit::{Exit, Failure};
use rendezvous_service::secret_file;
use rendezvous_transport::dial::DialError;
use rendezvous_transport::policy::ClearText;
use rendezvous_wire::secret::Secret;
use tokio_util::sync::CancellationToken;

use super::remote::{self, RemoteArgs, Who};
use super::{ALLOW_INSECURE, ShellArgs};

/// Passes harnesses that a registry admits on to another exec-server.
///
/// Each stream of the relay gets a WebSocket connection of its own there. The end-to-end encryption ends in this program.
#[derive(Debug, Args)]
#[command(override_usage = "executor forward [OPTIONS] --connect <URL> --remote <URL> --environment-id <ID>")]
pub(super) struct ForwardArgs {
    /// URL of the exec-server: `ws://IP:PORT`
    #[arg(long, value_name = "URL", env = "EXECUTOR_CONNECT")]
    connect: String,
    /// File with the bearer token that the exec-server wants; refused when group or others can read it
    #[arg(long, value_name = "FILE", env = "EXECUTOR_CONNECT_TOKEN_FILE")]
    connect_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) remote: RemoteArgs,
    /// Send secrets unencrypted to other machines: to the registry, the relay, and the exec-server, with what commands do
    #[arg(long, env = ALLOW_INSECURE, value_parser = FalseyValueParser::new())]
    allow_insecure: bool,
    #[command(flatten)]
    pub(super) shell: ShellArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) async fn run(args: ForwardArgs, token: Secret, who: Who, stop: CancellationToken) -> anyhow::Result<()> {
    let clear_text = ClearText::allow_insecure(args.allow_insecure);
    let (authorized, statement) = (who.authorized.clone(), who.statement());
    let plan = remote::plan(args.remote, token, who, clear_text)?;
    let bearer = args.connect_token_file.as_deref().map(secret_file::read);
    let bearer = bearer.transpose().map_err(Failure::usage)?;
    let has_token = bearer.is_some();
    let backend = Backend::new(plan.dialer(), Secret::new(args.connect), bearer, statement);
    backend.probe().await.map_err(|error| unusable(error, has_token))?;
    let status = Status::default();
    super::serve_operators(args.admin, Some(status.clone()), stop.clone())?;
    remote::serve(plan, status, stop, |accepted| {
        let backend = backend.clone();
        let revoked = revoked(authorized.clone(), accepted.harness_key.fingerprint());
        tokio::spawn(async move {
            tokio::select! {
                () = backend.forward(accepted.stream) => {}
                () = revoked => {}
            }
        });
    })
    .await
}

/// An exec-server that is not there at the start is more likely a mistake than late.
fn unusable(error: DialError, has_token: bool) -> Failure {
    let (exit, hint) = match &error {
        DialError::Url(_) => (Exit::Usage, ""),
        DialError::Refused { status: 401, .. } if has_token => (
            Exit::NotAuthorized,
            ", which does not take the token of --connect-token-file",
        ),
        DialError::Refused { status: 401, .. } => {
            (Exit::NotAuthorized, ", which wants a token: use --connect-token-file")
        }
        _ => (Exit::Unavailable, ""),
    };
    Failure::new(exit, Unusable { hint, error })
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use the exec-server at --connect{hint}")]
struct Unusable {
    hint: &'static str,
    #[source]
    error: DialError,
}
