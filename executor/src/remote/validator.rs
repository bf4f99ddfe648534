use std::sync::Arc;

use rendezvous_channel::acceptor::Verdict;
use rendezvous_identity::AuthorizedHarnesses;
use rendezvous_transport::acceptor::{Request, Validator};
use rendezvous_transport::registry::Client;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::id::{EnvironmentId, RegistrationId};

use super::Status;
use super::wanted::is_listed_in_the_end;

/// Looks into the file of authorized harnesses, if there is one, and then asks the registry; whatever is not a clear yes is a no.
pub(super) struct RegistryValidator {
    registry: Client,
    environment: EnvironmentId,
    registration: RegistrationId,
    authorized: Option<Arc<AuthorizedHarnesses>>,
    status: Status,
}

impl RegistryValidator {
    pub(super) fn new(
        registry: Client,
        environment: EnvironmentId,
        registration: RegistrationId,
        authorized: Option<Arc<AuthorizedHarnesses>>,
        status: Status,
    ) -> Self {
        Self {
            registry,
            environment,
            registration,
            authorized,
            status,
        }
    }

    /// Why the file does not let the harness come, whatever the registry says. Without a file, everybody may.
    async fn objection(&self, harness: Fingerprint) -> Option<Verdict> {
        let authorized = self.authorized.as_ref()?;
        let file = authorized.path().display();
        let objection = match is_listed_in_the_end(authorized, harness).await {
            Ok(true) => return None,
            Ok(false) => {
                tracing::warn!(%harness, %file, "harness refused: its fingerprint is not in the file of authorized harnesses");
                Verdict::NotListed
            }
            Err(error) => {
                tracing::error!(%harness, error = %super::chain(&error), "harness refused: the file of authorized harnesses cannot be used");
                Verdict::Reject
            }
        };
        metrics::counter!("executor_handshakes_total", "verdict" => "unauthorized").increment(1);
        Some(objection)
    }
}

impl Validator for RegistryValidator {
    async fn validate(&self, request: Request) -> Verdict {
        let harness = request.harness_key.fingerprint();
        if let Some(objection) = self.objection(harness).await {
            return objection;
        }
        let answer = self
            .registry
            .validate(
                &self.environment,
                &self.registration,
                &request.harness_key,
                &request.authorization,
                &request.stream_id,
            )
            .await;
        match &answer {
            Ok(_) => self.status.set_credential_accepted(true),
            Err(error) if error.is_unauthenticated() => self.status.set_credential_accepted(false),
            // It says nothing of the credential.
            Err(_) => {}
        }
        let (verdict, label) = match answer {
            Ok(true) => (Verdict::Admit, "admitted"),
            Ok(false) => {
                tracing::info!(%harness, stream = %request.stream_id, "harness refused by the registry");
                (Verdict::Reject, "refused")
            }
            Err(error) if error.is_unauthenticated() => {
                tracing::error!(%error, "the registry does not accept this executor's credential any more");
                (Verdict::CredentialRejected, "unauthenticated")
            }
            Err(error) => {
                tracing::warn!(error = %super::chain(&error), "harness refused, because the registry gave no verdict");
                (Verdict::Reject, "failed")
            }
        };
        metrics::counter!("executor_handshakes_total", "verdict" => label).increment(1);
        verdict
    }
}
