//! Why a call failed, and whether to try again.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};
use rendezvous_wire::json::{self, Bounds};
use rendezvous_wire::limits::{MAX_REGISTRY_DEPTH, MAX_REGISTRY_RESPONSE};
use rendezvous_wire::registry::{ErrorResponse, code};

use super::clear_text::SpeaksTls;
use crate::connector::ConnectError;
use crate::signer::SignError;
use crate::text::clean;

/// Longest error code that is kept, in characters.
const MAX_CODE: usize = 64;
/// Longest error message that is kept, in characters.
const MAX_TEXT: usize = 512;
/// Longest wait that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Why a call of the registry failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The registry answered with another status than 2xx.
    #[error("{0}")]
    Refused(Refusal),
    /// No complete answer in time.
    #[error("the registry did not answer in time")]
    Timeout,
    /// The registry could not be reached, or the connection broke before it was encrypted.
    #[error("cannot connect to the registry")]
    Connect(#[source] Arc<ConnectError>),
    /// The registry's certificate is not trusted, or what answers does not speak TLS as we do.
    #[error("{}", no_tls(.0))]
    Tls(#[source] Arc<ConnectError>),
    /// The registry speaks TLS, and its URL says that it does not.
    #[error("the registry speaks TLS at this address: its URL must begin with https://")]
    ClearText,
    /// The connection broke before the answer was complete.
    #[error("the connection to the registry broke")]
    Interrupted(#[source] Box<dyn Error + Send + Sync>),
    /// The answer is larger than 64 KiB.
    #[error("the registry's answer is larger than {MAX_REGISTRY_RESPONSE} bytes")]
    TooLarge,
    /// The answer is not the JSON that it should be.
    #[error("the registry's answer is malformed: {0}")]
    Malformed(String),
    /// A member of the answer is blank, or not what was asked for.
    #[error("the registry's answer has an unusable `{0}`")]
    Mismatch(&'static str),
    /// The call could not be signed, so that nothing was sent.
    #[error(transparent)]
    Sign(#[from] SignError),
}

impl CallError {
    /// Whether the same call may succeed later: no answer or a broken one, 408, 429, 5xx, and 409 with the code
    /// `environment_offline`. A complete answer that is wrong, another refusal and an untrusted certificate stay, and so
    /// does what is wrong with the configuration here, or refused by a proxy.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout | Self::Interrupted(_) => true,
            // Whoever answers so from a proxy's address will again.
            Self::Connect(error) => error.is_retryable() && error.tls_error().is_none(),
            Self::Refused(refusal) => match refusal.status.as_u16() {
                408 | 429 | 500..=599 => true,
                409 => refusal.code.as_deref() == Some(code::ENVIRONMENT_OFFLINE),
                _ => false,
            },
            Self::Tls(_)
            | Self::ClearText
            | Self::TooLarge
            | Self::Malformed(_)
            | Self::Mismatch(_)
            | Self::Sign(_) => false,
        }
    }

    /// Whether the registry does not know the credential (401).
    pub fn is_unauthenticated(&self) -> bool {
        self.status() == Some(StatusCode::UNAUTHORIZED)
    }

    /// Whether the credential is unknown or does not reach so far (401, 403).
    pub fn is_not_authorized(&self) -> bool {
        self.is_unauthenticated() || self.status() == Some(StatusCode::FORBIDDEN)
    }

    /// The status of a refusal.
    pub fn status(&self) -> Option<StatusCode> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// The error code of a refusal.
    pub fn code(&self) -> Option<&str> {
        self.refusal()?.code.as_deref()
    }

    /// How long the registry wants not to be asked, at most five minutes.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn from_http(error: hyper_util::client::legacy::Error) -> Self {
        match error
            .source()
            .and_then(|source| source.downcast_ref::<Arc<ConnectError>>())
        {
            Some(error) if matches!(**error, ConnectError::Tls(_)) && error.tls_error().is_some() => {
                Self::Tls(Arc::clone(error))
            }
            Some(error) => Self::Connect(Arc::clone(error)),
            None if SpeaksTls::caused(&error) => Self::ClearText,
            None => Self::Interrupted(error.into()),
        }
    }

    /// Whether a proxy refuses the user name and password that it was given, or their absence.
    pub fn is_proxy_unauthorized(&self) -> bool {
        matches!(self, Self::Connect(error) if error.is_proxy_unauthorized())
    }
}

fn no_tls(error: &ConnectError) -> &'static str {
    if error.is_untrusted() {
        "the registry's certificate is not trusted; --ca-file adds an authority to trust"
    } else {
        "cannot speak TLS with the registry; does it serve https at this address?"
    }
}

/// An answer with another status than 2xx. Texts are bounded and fit to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The error code, for programs.
    pub code: Option<String>,
    /// The message, for people; the start of the body if it is not the JSON of an error. May be empty.
    pub message: String,
    /// How long the registry wants not to be asked, at most five minutes.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let bounds = Bounds {
            len: MAX_REGISTRY_RESPONSE,
            depth: MAX_REGISTRY_DEPTH,
            values: 1024,
        };
        let (code, message) = match json::decode::<ErrorResponse>(body, bounds) {
            Ok(body) => (
                Some(clean(&body.error.code, MAX_CODE)).filter(|code| !code.is_empty()),
                clean(&body.error.message, MAX_TEXT),
            ),
            Err(_) => (None, clean(&String::from_utf8_lossy(body), MAX_TEXT)),
        };
        Self {
            status,
            code,
            message,
            retry_after: retry_after(headers),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the registry answered {}", self.status.as_u16())?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// The seconds of a `Retry-After` header, at most five minutes; a date is not understood.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &str) -> CallError {
        let status = StatusCode::from_u16(status).expect("status");
        CallError::Refused(Refusal::new(status, &HeaderMap::new(), body.as_bytes()))
    }

    #[test]
    fn statuses_and_codes_decide_about_a_retry() {
        for (status, code, retry) in [
            (302, "x", false),
            (400, "x", false),
            (401, "x", false),
            (403, "x", false),
            (404, "x", false),
            (408, "x", true),
            (409, "environment_offline", true),
            (409, "environment_in_use", false),
            (429, "x", true),
            (500, "x", true),
            (503, "registration_conflict", true),
        ] {
            let error = refusal(status, &format!(r#"{{"error":{{"code":"{code}","message":"m"}}}}"#));
            assert_eq!(error.is_retryable(), retry, "{status} {code}");
            assert_eq!(error.code(), Some(code));
            assert_eq!(error.is_unauthenticated(), status == 401);
            assert_eq!(error.is_not_authorized(), matches!(status, 401 | 403));
        }
        assert!(CallError::Timeout.is_retryable());
        assert!(!CallError::Malformed(String::new()).is_retryable());
    }

    #[test]
    fn texts_are_bounded_and_clean() {
        let long = "x".repeat(2 * MAX_TEXT);
        let error = refusal(
            400,
            &format!(r#"{{"error":{{"code":"{long}","message":"\u001b[2J{long}"}}}}"#),
        );
        let text = error.to_string();
        assert!(text.len() < MAX_CODE + MAX_TEXT + 40, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(
            refusal(502, "<h1>Bad\r\n gateway</h1>").to_string(),
            "the registry answered 502: <h1>Bad   gateway</h1>"
        );
        assert_eq!(refusal(503, "").to_string(), "the registry answered 503");
    }

    #[test]
    fn retry_after_is_bounded() {
        let header = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, http::HeaderValue::from_static(text));
            retry_after(&headers)
        };
        assert_eq!(header("7"), Some(Duration::from_secs(7)));
        assert_eq!(header("99999999"), Some(MAX_RETRY_AFTER));
        for text in [
            "",
            "-1",
            "1.5",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "99999999999999999999999",
        ] {
            assert_eq!(header(text), None, "{text}");
        }
    }
}
