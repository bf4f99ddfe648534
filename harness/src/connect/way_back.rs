use std::sync::Arc;
use std::time::Duration;

use rendezvous_transport::dial::{Dialer, Socket};
use rendezvous_transport::registry;
use rendezvous_transport::stream::{Redial, RedialError, WayBack as Found};
use rendezvous_wire::id::{EnvironmentId, RegistrationId};
use rendezvous_wire::key::PublicKey;

use crate::error::AttemptError;
use crate::recovery::Verdict;

/// Leads back to the executor that holds the other end of a stream.
pub(super) struct WayBack {
    pub(super) registry: registry::Client,
    pub(super) dialer: Dialer,
    pub(super) environment: EnvironmentId,
    pub(super) own_key: PublicKey,
    pub(super) executor_key: PublicKey,
    /// Where the executor was when the stream was last proved to be its.
    pub(super) registration: RegistrationId,
    /// Where the last attempt leads.
    pub(super) found: Option<RegistrationId>,
}

/// Another executor has the environment: nobody there knows the stream.
#[derive(Debug, thiserror::Error)]
#[error("another executor serves the environment")]
struct Replaced;

impl Redial for WayBack {
    type Socket = Socket;

    async fn redial(&mut self) -> Result<Found<Socket>, RedialError> {
        let bundle = self.registry.connect(&self.environment, &self.own_key).await;
        let bundle = bundle.map_err(|error| judge(error.into()))?;
        if bundle.executor_key != self.executor_key {
            return Err(RedialError {
                is_final: true,
                after: Duration::ZERO,
                source: Arc::new(Replaced),
            });
        }
        let link = self.dialer.dial(&bundle.url).await;
        let link = link.map_err(|error| judge(error.into()))?;
        let is_moved = bundle.registration != self.registration;
        self.found = Some(bundle.registration);
        Ok(Found { link, is_moved })
    }

    fn resumed(&mut self) {
        if let Some(found) = self.found.take() {
            self.registration = found;
        }
    }
}

fn judge(error: AttemptError) -> RedialError {
    let (is_final, after) = match error.verdict() {
        Verdict::Retry(after) => (false, after),
        Verdict::Final => (true, Duration::ZERO),
    };
    RedialError {
        is_final,
        after,
        source: Arc::new(error),
    }
}
