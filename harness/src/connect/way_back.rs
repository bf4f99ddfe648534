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

#[cfg(test)]
mod tests {
    use rendezvous_transport::connector::Connector;
    use rendezvous_transport::policy::{ClearText, RegistryUrl};
    use rendezvous_transport::tls::Trust;
    use rendezvous_wire::key::{MLKEM768_LEN, X25519_LEN};
    use rendezvous_wire::secret::Secret;

    use super::*;

    fn registration(name: &str) -> RegistrationId {
        RegistrationId::new(name).unwrap()
    }

    /// Where an attempt leads counts from the proof on, and not before.
    #[test]
    fn the_executor_is_where_it_was_last_proved_to_be() {
        let connector = Connector::direct(Trust::new(None).unwrap());
        let options = registry::Options {
            url: RegistryUrl::parse("http://127.0.0.1:1", ClearText::Loopback).unwrap(),
            credential: Secret::new("token"),
            account: None,
            connector: connector.clone(),
        };
        let key = PublicKey {
            x25519: [1; X25519_LEN],
            mlkem768: Box::new([1; MLKEM768_LEN]),
        };
        let mut way = WayBack {
            registry: registry::Client::new(&options).unwrap(),
            dialer: Dialer::new(connector, ClearText::Loopback),
            environment: EnvironmentId::new("env").unwrap(),
            own_key: key.clone(),
            executor_key: key,
            registration: registration("first"),
            found: None,
        };
        way.resumed();
        assert_eq!(way.registration, registration("first"));
        way.found = Some(registration("second"));
        way.resumed();
        assert_eq!((&way.registration, &way.found), (&registration("second"), &None));
    }
}
