//! Logs to stderr.

use std::io::{self, Write};

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{LogArgs, LogFormat};
use crate::exit::Failure;

/// Starts logging for the whole process: one event a line, whatever text from outside is in it.
///
/// # Errors
///
/// A usage failure when the filter cannot be read, or when logging was started before.
pub fn init(args: &LogArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log_filter)
        .map_err(|error| Failure::usage(format!("--log-filter {:?}: {error}", args.log_filter)))?;
    subscriber(filter, args.log_format, || OneLine(io::stderr()))
        .try_init()
        .map_err(Failure::usage)
}

fn subscriber<W>(filter: EnvFilter, format: LogFormat, writer: W) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    // Filters of the whole registry, not of a layer: those lose the event after `log::log_enabled!` was answered with
    // no, which the PostgreSQL driver asks for every notice.
    let registry = tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(|about| !tells_secrets(about)));
    match format {
        // Colours could not be told from what somebody else wants a terminal to do.
        LogFormat::Text => Box::new(registry.with(lines.with_ansi(false))),
        LogFormat::Json => Box::new(registry.with(lines.json())),
    }
}

/// Whether a log line may have a ticket in it: the libraries for WebSockets and for signatures write out the requests that
/// they send or sign.
fn tells_secrets(about: &Metadata<'_>) -> bool {
    let target = about.target();
    *about.level() > Level::INFO && (target.starts_with("tungstenite") || target.starts_with("aws_sigv4"))
}

/// Escapes the control characters inside an event, which arrives in one piece.
#[derive(Debug)]
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = event.strip_suffix(b"\n").unwrap_or(event);
        match std::str::from_utf8(line) {
            Ok(text) if text.chars().any(char::is_control) => {
                let mut escaped = String::with_capacity(event.len() + 16);
                for c in text.chars() {
                    if c.is_control() {
                        escaped.extend(c.escape_default());
                    } else {
                        escaped.push(c);
                    }
                }
                escaped.push('\n');
                self.0.write_all(escaped.as_bytes())?;
            }
            _ => self.0.write_all(event)?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn logged(filter: &str, format: LogFormat, events: impl FnOnce()) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let kept = file.try_clone().unwrap();
        let writer = move || OneLine(kept.try_clone().unwrap());
        let subscriber = subscriber(EnvFilter::new(filter), format, writer);
        tracing::subscriber::with_default(subscriber, events);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn an_event_is_one_line() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged("info", format, || {
                tracing::info!(stream = %"x\n2026 ERROR forged\r\x1b[31m", "harness admitted");
                tracing::info!("next");
            });
            assert_eq!(text.lines().count(), 2, "{text}");
            assert!(text.contains("forged") && text.ends_with('\n'), "{text}");
            assert!(!text.contains(['\r', '\x1b']), "{text:?}");
        }
    }

    #[test]
    fn no_filter_shows_requests_with_tickets() {
        for filter in ["trace", "tungstenite::handshake::client=trace,aws_sigv4=trace,info"] {
            let text = logged(filter, LogFormat::Text, || {
                tracing::trace!(target: "tungstenite::handshake::client", "Request: GET /?ticket=secret");
                tracing::trace!(target: "aws_sigv4::http_request::sign", "canonical_request=GET /?ticket=secret");
                tracing::info!(target: "tungstenite::handshake::client", "harmless");
            });
            assert!(
                text.contains("harmless") && !text.contains("secret"),
                "{filter}: {text}"
            );
        }
    }
}
