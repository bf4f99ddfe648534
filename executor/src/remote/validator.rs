use rendezvous_channel::acceptor::Verdict;
use rendezvous_transport::acceptor::{Request, Validator};
use rendezvous_transport::registry::Client;
use rendezvous_wire::id::{EnvironmentId, RegistrationId};

/// Asks the registry; whatever is not a clear yes is a no.
pub(super) struct RegistryValidator {
    registry: Client,
    environment: EnvironmentId,
    registration: RegistrationId,
}

impl RegistryValidator {
    pub(super) fn new(registry: Client, environment: EnvironmentId, registration: RegistrationId) -> Self {
        Self {
            registry,
            environment,
            registration,
        }
    }
}

impl Validator for RegistryValidator {
    async fn validate(&self, request: Request) -> Verdict {
        let harness = request.harness_key.digest();
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
