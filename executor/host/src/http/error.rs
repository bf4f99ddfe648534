//! Why a request failed.

use reqwest::Url;
use reqwest::header::{InvalidHeaderName, InvalidHeaderValue};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// No such method can be written.
    #[error("http/request method is invalid: {0}")]
    Method(#[source] http::method::InvalidMethod),
    /// No URL.
    #[error("http/request url is invalid: {0}")]
    Url(String),
    /// A URL for something else.
    #[error("http/request only supports http and https URLs, got {0}")]
    Scheme(String),
    /// No such header can be written.
    #[error("http/request header name is invalid: {0}")]
    HeaderName(#[source] InvalidHeaderName),
    /// No such value can be written.
    #[error("http/request header value is invalid for {name}: {error}")]
    HeaderValue {
        /// The header.
        name: String,
        /// What is wrong.
        error: InvalidHeaderValue,
    },
    /// The environment has no such variable, or it is withheld.
    #[error("http/request header {name} requires executor environment variable {variable}")]
    Variable {
        /// The header.
        name: String,
        /// The variable.
        variable: String,
    },
    /// More headers than can be sent.
    #[error("http/request has too many headers")]
    TooManyHeaders,
    /// [`super::MAX_EXCHANGES`] are under way.
    #[error("http/request failed: too many requests at once on this executor")]
    TooMany,
    /// No response came.
    #[error("http/request failed: {error} for url ({url})")]
    Send {
        /// Why.
        error: reqwest::Error,
        /// Where it was sent, without a user's name and password.
        url: Box<Url>,
    },
    /// The body broke off.
    #[error("{0}")]
    Body(#[source] reqwest::Error),
    /// There can be no client.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(#[source] reqwest::Error),
}

impl HttpError {
    pub(super) fn send(error: reqwest::Error, mut url: Url) -> Self {
        // Both fail only for URLs that have no place for a user.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self::Send {
            error: error.without_url(),
            url: Box::new(url),
        }
    }

    /// Whether the request itself is at fault, so that no machine could make it.
    pub fn is_invalid(&self) -> bool {
        matches!(
            self,
            Self::Method(_)
                | Self::Url(_)
                | Self::Scheme(_)
                | Self::HeaderName(_)
                | Self::HeaderValue { .. }
                | Self::Variable { .. }
                | Self::TooManyHeaders
        )
    }

    /// Whether the same request may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        !self.is_invalid() && !matches!(self, Self::Setup(_))
    }
}
