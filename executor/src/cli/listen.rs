//! Serving clients that connect directly.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rendezvous_executor::listen::auth::{Auth, DEFAULT_CLOCK_SKEW, Expected};
use rendezvous_executor::listen::{self, ListenUrl, Listener};
use rendezvous_executor::server::Server;
use rendezvous_service::exit::Failure;
use rendezvous_service::secret_file;
use tokio_util::sync::CancellationToken;

/// The default of stock executors.
const DEFAULT_URL: &str = "ws://127.0.0.1:0";

/// Options of [`ListenArgs`] that say who may connect.
pub(super) const ONLY_LISTENING: [&str; 7] = [
    "ws_auth",
    "ws_token_file",
    "ws_token_sha256",
    "ws_shared_secret_file",
    "ws_issuer",
    "ws_audience",
    "ws_max_clock_skew_seconds",
];

/// Where to listen, and who may connect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Serving directly")]
pub(super) struct ListenArgs {
    /// Serve clients that connect here instead: `ws://IP:PORT`, or `stdio`; ws://127.0.0.1:0 without a value
    ///
    /// The WebSocket URL is printed on stdout once it can be used. Nothing is encrypted. Whoever connects can run
    /// commands: an address other than loopback needs --ws-auth, or --allow-insecure.
    #[arg(
        long,
        value_name = "URL",
        env = "EXECUTOR_LISTEN",
        num_args = 0..=1,
        default_missing_value = DEFAULT_URL,
        conflicts_with = "remote"
    )]
    pub(super) listen: Option<ListenUrl>,
    /// How WebSocket clients prove who they are; without it they need not
    #[arg(long, value_name = "MODE", env = "EXECUTOR_WS_AUTH")]
    ws_auth: Option<Mode>,
    /// File with the token that clients must send, for `capability-token`; refused when group or others can read it
    #[arg(long, value_name = "FILE", env = "EXECUTOR_WS_TOKEN_FILE")]
    ws_token_file: Option<PathBuf>,
    /// SHA-256 of that token in hexadecimal digits, instead of the file
    #[arg(
        long,
        value_name = "HEX",
        env = "EXECUTOR_WS_TOKEN_SHA256",
        conflicts_with = "ws_token_file"
    )]
    ws_token_sha256: Option<String>,
    /// File with the secret, at least 32 bytes, that JWTs are signed with (HS256), for `signed-bearer-token`
    #[arg(long, value_name = "FILE", env = "EXECUTOR_WS_SHARED_SECRET_FILE")]
    ws_shared_secret_file: Option<PathBuf>,
    /// The issuer (`iss`) that a JWT must have
    #[arg(long, value_name = "ISSUER", env = "EXECUTOR_WS_ISSUER")]
    ws_issuer: Option<String>,
    /// The audience (`aud`) that a JWT must have
    #[arg(long, value_name = "AUDIENCE", env = "EXECUTOR_WS_AUDIENCE")]
    ws_audience: Option<String>,
    /// How far the clock of whoever signs may be off; 30 unless given
    #[arg(long, value_name = "SECONDS", env = "EXECUTOR_WS_MAX_CLOCK_SKEW_SECONDS")]
    ws_max_clock_skew_seconds: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A secret token that all clients share
    CapabilityToken,
    /// A JWT signed with a shared secret
    SignedBearerToken,
}

impl ListenArgs {
    /// What the flags ask of clients; nothing is no authentication.
    fn auth(&self) -> Result<Option<Auth>, Failure> {
        let is_about_signed = self.ws_shared_secret_file.is_some()
            || self.ws_issuer.is_some()
            || self.ws_audience.is_some()
            || self.ws_max_clock_skew_seconds.is_some();
        let is_about_capability = self.ws_token_file.is_some() || self.ws_token_sha256.is_some();
        let Some(mode) = self.ws_auth else {
            return if is_about_signed || is_about_capability {
                Err(Failure::usage("the other options --ws-… need --ws-auth"))
            } else {
                Ok(None)
            };
        };
        let auth = match mode {
            Mode::CapabilityToken if is_about_signed => {
                return Err(Failure::usage(
                    "--ws-shared-secret-file, --ws-issuer, --ws-audience and --ws-max-clock-skew-seconds need --ws-auth \
                     signed-bearer-token",
                ));
            }
            Mode::SignedBearerToken if is_about_capability => {
                return Err(Failure::usage(
                    "--ws-token-file and --ws-token-sha256 need --ws-auth capability-token",
                ));
            }
            Mode::CapabilityToken => match (&self.ws_token_file, &self.ws_token_sha256) {
                (Some(file), _) => Auth::capability(&secret_file::read(file).map_err(Failure::usage)?),
                (None, Some(digest)) => Auth::capability_digest(digest).map_err(Failure::usage)?,
                (None, None) => {
                    return Err(Failure::usage(
                        "--ws-auth capability-token needs --ws-token-file or --ws-token-sha256",
                    ));
                }
            },
            Mode::SignedBearerToken => {
                let Some(file) = &self.ws_shared_secret_file else {
                    return Err(Failure::usage(
                        "--ws-auth signed-bearer-token needs --ws-shared-secret-file",
                    ));
                };
                let expected = Expected {
                    issuer: self.ws_issuer.clone(),
                    audience: self.ws_audience.clone(),
                    clock_skew: self
                        .ws_max_clock_skew_seconds
                        .map_or(DEFAULT_CLOCK_SKEW, Duration::from_secs),
                };
                Auth::signed(&secret_file::read(file).map_err(Failure::usage)?, expected).map_err(Failure::usage)?
            }
        };
        Ok(Some(auth))
    }
}

/// Where to listen and for whom, checked.
pub(super) enum Plan {
    WebSocket {
        listener: Box<Listener>,
        auth: Option<Auth>,
    },
    Stdio,
}

/// Binds. Must be called inside a Tokio runtime.
pub(super) fn plan(args: &ListenArgs, url: ListenUrl, allow_insecure: bool) -> anyhow::Result<Plan> {
    let auth = args.auth()?;
    let ListenUrl::WebSocket(addr) = url else {
        if auth.is_some() {
            return Err(Failure::usage("--ws-auth needs a WebSocket listener").into());
        }
        return Ok(Plan::Stdio);
    };
    if !addr.ip().is_loopback() {
        if auth.is_none() && !allow_insecure {
            let refusal = format!(
                "refusing to let everybody who reaches {addr} run commands; use --ws-auth, or --allow-insecure"
            );
            return Err(Failure::usage(refusal).into());
        }
        tracing::warn!(%addr, "connections from other machines are not encrypted");
    }
    let listener = Box::new(Listener::bind(addr)?);
    Ok(Plan::WebSocket { listener, auth })
}

pub(super) async fn serve(plan: Plan, server: &Server, stop: CancellationToken) {
    match plan {
        Plan::Stdio => listen::serve_stdio(server, stop.cancelled()).await,
        Plan::WebSocket { listener, auth } => {
            announce(&listener.url());
            listener.serve(server.clone(), auth, stop).await;
        }
    }
}

/// The one line on stdout, as stock executors print it; scripts wait for it.
fn announce(url: &str) {
    // Nobody may read it; the executor serves all the same.
    let _ = std::io::stdout().write_all(format!("{url}\n").as_bytes());
    let _ = std::io::stdout().flush();
}
