//! What an executor asks about the network.

use rendezvous_rpc::envelope::{self, Request, RequestId};
use rendezvous_rpc::method::network::{PolicyDecisionParams, PolicyRequest, PolicyRequestParams, PolicyRequestResult};
use rendezvous_rpc::{Method as _, RpcError};

use super::Core;
use crate::network::{HostDecision, MAX_QUESTIONS, ManagedNetwork, not_allowed};

/// A question, and who decides.
#[derive(Debug)]
pub(crate) struct Question {
    /// What the answer must name.
    pub(crate) id: RequestId,
    pub(crate) params: PolicyRequestParams,
    pub(crate) network: ManagedNetwork,
}

impl Core {
    /// Questions to decide; each must be answered with [`Core::answer`] while the connection stands.
    pub(crate) fn take_questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.questions)
    }

    /// Takes a call of the executor.
    pub(super) fn called(&mut self, request: Request) {
        if request.method != PolicyRequest::NAME {
            let error = RpcError::method_not_found(&request.method);
            return self.refuse(&request.id, &error);
        }
        let params: PolicyRequestParams = match envelope::decode_params(request.params.as_deref()) {
            Ok(params) => params,
            Err(error) => return self.refuse(&request.id, &error),
        };
        let slot = self.processes.get(&params.process_id);
        let network = slot.and_then(|slot| slot.network.clone());
        self.open_questions += 1;
        match network {
            Some(network) if self.open_questions <= MAX_QUESTIONS => self.questions.push(Question {
                id: request.id,
                params,
                network,
            }),
            _ => self.answer(&request.id, not_allowed()),
        }
    }

    /// Answers a question.
    pub(crate) fn answer(&mut self, id: &RequestId, decision: HostDecision) {
        self.give_up_question();
        let mut message = Vec::new();
        if envelope::write_response(&mut message, id, &PolicyRequestResult { decision }).is_ok() {
            self.outbox.push_back(message.into());
        }
    }

    /// A question is not decided; the executor takes silence for a denial.
    pub(crate) fn give_up_question(&mut self) {
        self.open_questions = self.open_questions.saturating_sub(1);
    }

    /// Takes a decision of the executor.
    pub(super) fn decided(&self, decision: PolicyDecisionParams) {
        if let Some(network) = self
            .processes
            .get(&decision.process_id)
            .and_then(|slot| slot.network.as_ref())
        {
            network.decided(decision);
        }
    }

    fn refuse(&mut self, id: &RequestId, error: &RpcError) {
        let mut message = Vec::new();
        if envelope::write_error(&mut message, id, error).is_ok() {
            self.outbox.push_back(message.into());
        }
    }
}
