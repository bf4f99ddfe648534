use std::fmt;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use rendezvous_transport::signer::{SignError, Signer};

use super::Keys;

/// Signs with one identity for one region and service.
#[derive(Clone)]
pub struct SigV4 {
    identity: Identity,
    region: String,
    service: String,
}

impl SigV4 {
    /// Signs with `keys`.
    pub fn new(keys: &Keys, region: String, service: String) -> Self {
        let credentials = Credentials::new(
            keys.access_key_id.expose(),
            keys.secret_access_key.expose(),
            keys.session_token.as_ref().map(|token| token.expose().to_owned()),
            None,
            "executor",
        );
        Self {
            identity: credentials.into(),
            region,
            service,
        }
    }

    /// The headers that prove who sent `request` at `time`.
    ///
    /// # Errors
    ///
    /// When the request, the region or the service cannot stand in a signature.
    pub fn sign_at(&self, request: &Request<&[u8]>, time: SystemTime) -> Result<HeaderMap, SignError> {
        // The path is normalised and encoded twice, and the digest of the body is not sent: what gateways of AWS expect.
        let settings = SigningSettings::default();
        let parameters = v4::SigningParams::builder()
            .identity(&self.identity)
            .region(&self.region)
            .name(&self.service)
            .time(time)
            .settings(settings)
            .build()
            .map_err(SignError::new)?
            .into();
        let headers = request
            .headers()
            .iter()
            .map(|(name, value)| Ok((name.as_str(), value.to_str()?)))
            .collect::<Result<Vec<_>, http::header::ToStrError>>()
            .map_err(SignError::new)?;
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.uri().to_string(),
            headers.into_iter(),
            SignableBody::Bytes(request.body()),
        )
        .map_err(SignError::new)?;
        let (instructions, _) = sign(signable, &parameters).map_err(SignError::new)?.into_parts();
        instructions
            .headers()
            .map(|(name, value)| header(name, value))
            .collect()
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SignError> {
    let name = HeaderName::try_from(name).map_err(SignError::new)?;
    let mut value = HeaderValue::try_from(value).map_err(SignError::new)?;
    value.set_sensitive(true);
    Ok((name, value))
}

impl Signer for SigV4 {
    fn sign(&self, request: &Request<&[u8]>) -> Result<HeaderMap, SignError> {
        self.sign_at(request, SystemTime::now())
    }
}

impl fmt::Debug for SigV4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigV4")
            .field("region", &self.region)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
