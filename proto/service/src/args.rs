//! Flags that every daemon has. Each one has an environment variable too.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::tls::{ServerConfigLoader, TlsError};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text for each event.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Format of the log on stderr
    #[arg(long, value_enum, default_value_t, env = "RENDEZVOUS_LOG_FORMAT", global = true)]
    pub log_format: LogFormat,
    /// What to log: a level, or directives such as `info,rendezvous_relay=debug`
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "info",
        env = "RENDEZVOUS_LOG",
        global = true
    )]
    pub log_filter: String,
}

/// Certificate and key of a listener. Without them it serves clear text.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// PEM file with the certificate chain, leaf first; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "RENDEZVOUS_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "RENDEZVOUS_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Loads the files, or says `None` when no TLS was asked for.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or the two are no pair.
    pub fn load(&self) -> Result<Option<Arc<ServerConfigLoader>>, TlsError> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => Ok(Some(Arc::new(ServerConfigLoader::load(cert, key)?))),
            _ => Ok(None),
        }
    }
}

/// The listener for operators.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Operation")]
pub struct AdminArgs {
    /// Serve /healthz, /readyz and /metrics here; a bare port means loopback
    #[arg(long, value_name = "[IP:]PORT", value_parser = address, env = "RENDEZVOUS_ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,
}

/// `IP:PORT`, or `PORT` on loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| "expected IP:PORT or PORT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_means_loopback() {
        assert_eq!(address("9100").expect("port").to_string(), "127.0.0.1:9100");
        assert_eq!(address("0.0.0.0:1").expect("both").to_string(), "0.0.0.0:1");
        assert_eq!(address("[::1]:1").expect("both").to_string(), "[::1]:1");
        for bad in ["", "x", "1.2.3.4", "70000", "host:1"] {
            address(bad).expect_err(bad);
        }
    }
}
