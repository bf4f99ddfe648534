use std::fmt;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use rendezvous_wire::id::{EnvironmentId, RegistrationId};
use rendezvous_wire::limits::REGISTRY_TIMEOUT;
use rendezvous_wire::registry::{
    DIRECT_TRANSPORT, DirectRegisterRequest, DirectRegisterResponse, direct_register_path,
};
use rendezvous_wire::secret::Secret;

use super::http1::Http;
use super::{CallError, exchange, not_blank};
use crate::connector::Connector;
use crate::policy::RegistryUrl;
use crate::signer::Signer;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The place of an executor that serves without relay and channel.
#[derive(Clone, Debug)]
pub struct DirectRegistration {
    /// For people and logs.
    pub id: RegistrationId,
    /// The WebSocket to serve on; good for reconnects.
    pub url: Secret,
}

/// Calls one registry; each call is signed. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct DirectClient {
    http: Http,
    url: RegistryUrl,
    timeout: Duration,
}

impl DirectClient {
    /// Makes a client; nothing is sent yet.
    pub fn new(url: RegistryUrl, connector: Connector) -> Self {
        Self {
            http: Http::new(connector),
            url,
            timeout: REGISTRY_TIMEOUT,
        }
    }

    /// Replaces the ten seconds that a call may take, body included.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where the registry is.
    pub fn url(&self) -> &RegistryUrl {
        &self.url
    }

    /// Announces an executor.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn register(
        &self,
        environment: &EnvironmentId,
        signer: &impl Signer,
    ) -> Result<DirectRegistration, CallError> {
        let request = DirectRegisterRequest {
            transport: DIRECT_TRANSPORT.to_owned(),
        };
        let body = serde_json::to_vec(&request).map_err(|error| CallError::Malformed(error.to_string()))?;
        let url = self.url.join(&direct_register_path(environment));
        let unsigned = http::Request::post(&url).header(CONTENT_TYPE, JSON).body(&*body);
        let unsigned = unsigned.map_err(|error| CallError::Malformed(error.to_string()))?;
        let mut headers = signer.sign(&unsigned)?;
        headers.insert(CONTENT_TYPE, JSON);
        let reply: DirectRegisterResponse = exchange(&self.http, &url, headers, body, self.timeout).await?;
        if reply.environment_id != environment.as_str() {
            return Err(CallError::Mismatch("environment_id"));
        }
        if reply.transport != DIRECT_TRANSPORT {
            return Err(CallError::Mismatch("transport"));
        }
        Ok(DirectRegistration {
            id: RegistrationId::new(reply.registration_id).map_err(|_| CallError::Mismatch("registration_id"))?,
            url: not_blank("url", reply.url)?,
        })
    }
}

impl fmt::Debug for DirectClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectClient")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
