//! The tunnel through a proxy: `CONNECT`, and its answer.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Proxy;
use crate::connector::Target;

/// Largest head of an answer, in bytes.
pub const MAX_HEAD: usize = 16 * 1024;
/// Most headers of an answer.
const MAX_HEADERS: usize = 64;
/// Longest part of an answer that is kept, in characters.
const MAX_TEXT: usize = 128;

/// Why a proxy gives no tunnel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// 407: it wants a user name and password, or others.
    #[error("it refuses the user name and password, or their absence (407); set USER:PASSWORD@ in {variable}{}", schemes(.offered))]
    Unauthorized {
        /// The variable that names the proxy.
        variable: &'static str,
        /// How it wants to be asked, in its own words; none if Basic is among it.
        offered: Option<String>,
    },
    /// It answered with another status than 2xx.
    #[error("it refuses a tunnel to {target}: {status}{}", spaced(.reason))]
    Refused {
        /// Where the tunnel should lead.
        target: String,
        /// The HTTP status.
        status: u16,
        /// The words behind the status, made fit to show.
        reason: String,
    },
    /// The answer is no HTTP, too long, or goes on where the tunnel should begin.
    #[error("its answer is no HTTP proxy's: {0}")]
    Malformed(&'static str),
    /// The connection broke before there was an answer.
    #[error("the connection to it broke")]
    Broken(#[source] io::Error),
}

fn schemes(offered: &Option<String>) -> String {
    let text = |offered: &String| format!("; it offers {offered}, and only Basic is supported");
    offered.as_ref().map(text).unwrap_or_default()
}

fn spaced(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" {reason}")
    }
}

impl TunnelError {
    /// Whether the same tunnel may be given later. Refused credentials and refused targets (407, 403 and other 4xx, except 408 and
    /// 429) stay refused.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unauthorized { .. } => false,
            Self::Refused { status, .. } => !matches!(status, 400..=499) || matches!(status, 408 | 429),
            Self::Malformed(_) | Self::Broken(_) => true,
        }
    }
}

/// Asks the proxy at the other end of `stream` for a tunnel; afterwards the stream is the target's.
pub(crate) async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    proxy: &Proxy,
    target: &Target,
) -> Result<S, TunnelError> {
    stream
        .write_all(&request(proxy, target))
        .await
        .map_err(TunnelError::Broken)?;
    stream.flush().await.map_err(TunnelError::Broken)?;
    let mut head = Vec::with_capacity(512);
    loop {
        let read = stream.read_buf(&mut head).await.map_err(TunnelError::Broken)?;
        if read == 0 {
            return Err(TunnelError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        if judge(&head, proxy, target)? {
            return Ok(stream);
        }
    }
}

fn request(proxy: &Proxy, target: &Target) -> zeroize::Zeroizing<Vec<u8>> {
    let mut text = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(value) = proxy.authorization() {
        text.push_str("Proxy-Authorization: ");
        text.push_str(value.expose());
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes().into()
}

/// Whether the answer is complete and opens the tunnel; not yet is false.
fn judge(head: &[u8], proxy: &Proxy, target: &Target) -> Result<bool, TunnelError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(head);
    let parsed = parsed.map_err(|_error| TunnelError::Malformed("it cannot be read"))?;
    let httparse::Status::Complete(length) = parsed else {
        if head.len() >= MAX_HEAD {
            return Err(TunnelError::Malformed("its head is too long"));
        }
        return Ok(false);
    };
    match response.code.unwrap_or_default() {
        // The target never speaks first.
        200..=299 if head.len() > length => Err(TunnelError::Malformed("it goes on behind its head")),
        200..=299 => Ok(true),
        407 => Err(TunnelError::Unauthorized {
            variable: proxy.variable(),
            offered: offered(response.headers),
        }),
        status => Err(TunnelError::Refused {
            target: target.to_string(),
            status,
            reason: clean(response.reason.unwrap_or_default()),
        }),
    }
}

/// What the proxy offers instead of Basic.
fn offered(headers: &[httparse::Header<'_>]) -> Option<String> {
    let values = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("proxy-authenticate"))
        .filter_map(|header| std::str::from_utf8(header.value).ok());
    let schemes: Vec<&str> = values
        .filter_map(|value| value.split_ascii_whitespace().next())
        .collect();
    let has_basic = schemes.iter().any(|scheme| scheme.eq_ignore_ascii_case("basic"));
    (!schemes.is_empty() && !has_basic).then(|| clean(&schemes.join(", ")))
}

/// What a proxy wrote, fit for logs and terminals.
fn clean(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_TEXT).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn proxy() -> Proxy {
        Proxy::parse("http://user:secret@p:1", "HTTPS_PROXY").expect("proxy")
    }

    fn target() -> Target {
        Target::of(&"wss://relay.example/x?ticket=t".parse().expect("URL")).expect("target")
    }

    /// The proxy answers with these pieces; gives what it was asked, too.
    async fn ask(pieces: &[&str]) -> (String, Result<(), TunnelError>) {
        let (near, mut far) = duplex(64 * 1024);
        let (proxy, target) = (proxy(), target());
        let opening = open(near, &proxy, &target);
        let answering = async {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(far.read_u8().await.expect("request"));
            }
            for piece in pieces {
                // The other end may have seen enough.
                let _ = far.write_all(piece.as_bytes()).await;
                tokio::task::yield_now().await;
            }
            drop(far);
            String::from_utf8(asked).expect("text")
        };
        let (opened, asked) = tokio::join!(opening, answering);
        (asked, opened.map(drop))
    }

    #[tokio::test]
    async fn asks_for_the_target_by_name() {
        let (asked, opened) = ask(&["HTTP/1.1 200 Connection established\r\n\r\n"]).await;
        opened.expect("tunnel");
        assert_eq!(
            asked,
            "CONNECT relay.example:443 HTTP/1.1\r\nHost: relay.example:443\r\n\
             Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n"
        );
        let (_, opened) = ask(&["HTTP/1.0 200", " OK\r\nvia: x\r\n", "\r", "\n"]).await;
        opened.expect("in pieces");
    }

    #[tokio::test]
    async fn a_refusal_says_what_to_do() {
        let basic = "HTTP/1.1 407 X\r\nproxy-authenticate: Negotiate\r\nProxy-Authenticate: Basic realm=x\r\n\r\n";
        let error = ask(&[basic]).await.1.expect_err("407");
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(text.ends_with("set USER:PASSWORD@ in HTTPS_PROXY"), "{text}");
        let ntlm = "HTTP/1.1 407 X\r\nproxy-authenticate: NTLM\r\n\r\n";
        let text = ask(&[ntlm]).await.1.expect_err("407").to_string();
        assert!(text.ends_with("it offers NTLM, and only Basic is supported"), "{text}");

        let error = ask(&["HTTP/1.1 403 Filtered\r\n\r\n<html>"]).await.1.expect_err("403");
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            "it refuses a tunnel to relay.example:443: 403 Filtered"
        );
        for status in ["502", "503", "504", "429", "302"] {
            let error = ask(&[&format!("HTTP/1.1 {status} X\r\n\r\n")])
                .await
                .1
                .expect_err(status);
            assert!(error.is_retryable(), "{status}");
        }
    }

    #[tokio::test]
    async fn other_answers_are_no_tunnel() {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(MAX_HEAD));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(MAX_HEADERS + 1));
        for answer in [
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n\x16\x03\x01",
            &long,
            &many,
        ] {
            let error = ask(&[answer]).await.1.expect_err(answer);
            assert!(matches!(error, TunnelError::Malformed(_)), "{error:?}");
        }
        for answer in ["", "HTTP/1.1 200 OK\r\n"] {
            let error = ask(&[answer]).await.1.expect_err(answer);
            assert!(matches!(error, TunnelError::Broken(_)), "{error:?}");
        }
    }
}
