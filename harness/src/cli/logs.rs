//! Logs to stderr.

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging: by the filter in `HARNESS_LOG`, else as often as `-v` was given.
pub(super) fn start(verbose: u8) {
    let level = match verbose {
        0 => "off",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("HARNESS_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    subscriber(filter, std::io::stderr).init();
}

fn subscriber<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    // Filters of the whole registry, not of a layer: those lose the event after `log::log_enabled!` was answered with no.
    tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(|about| !tells_secrets(about)))
        .with(lines)
}

/// Whether a log line may have a ticket in it: the WebSocket library writes out the requests that it sends.
fn tells_secrets(about: &Metadata<'_>) -> bool {
    *about.level() > Level::INFO && about.target().starts_with("tungstenite")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn no_filter_shows_requests_with_tickets() {
        for filter in [
            "trace",
            "tungstenite=trace",
            "tungstenite::handshake::client=trace,info",
        ] {
            let mut file = tempfile::tempfile().unwrap();
            let subscriber = subscriber(EnvFilter::new(filter), file.try_clone().unwrap());
            tracing::subscriber::with_default(subscriber, || {
                tracing::trace!(target: "tungstenite::handshake::client", "Request: GET /?ticket=secret");
                tracing::debug!(target: "tungstenite::client", "Trying wss://relay/?ticket=secret");
                tracing::info!(target: "tungstenite::handshake::client", "harmless");
            });
            let mut text = String::new();
            std::io::Seek::rewind(&mut file).unwrap();
            file.read_to_string(&mut text).unwrap();
            assert!(text.contains("harmless"), "{filter}: {text}");
            assert!(!text.contains("secret"), "{filter}: {text}");
        }
    }
}
