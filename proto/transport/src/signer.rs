//! Requests that prove on their own who sends them.

use std::error::Error;

use http::{HeaderMap, Request};

/// Signs requests.
pub trait Signer: Send + Sync {
    /// The headers that prove who sends `request`. Its URL is absolute; the headers that it holds, and the one that names the
    /// host, are sent as they are, and others that are not signed beside them.
    ///
    /// # Errors
    ///
    /// When the request cannot be signed.
    fn sign(&self, request: &Request<&[u8]>) -> Result<HeaderMap, SignError>;
}

/// Why a request could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign the request")]
pub struct SignError(#[source] Box<dyn Error + Send + Sync>);

impl SignError {
    /// For this reason.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}
