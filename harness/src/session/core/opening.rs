//! How a session begins, and how it goes on with another connection.

use rendezvous_rpc::RpcError;
use rendezvous_rpc::call_table::CallTable;
use rendezvous_rpc::envelope;
use rendezvous_rpc::method::initialize::{
    Extensions, Initialize, InitializeParams, InitializeResult, Initialized, OUTPUT_WINDOW, PROCESS_CONTROL,
    RELIABLE_STREAM,
};
use rendezvous_rpc::method::session::DETACHED_SESSIONS;
use rendezvous_rpc::{Method as _, Notification as _};
use rendezvous_wire::secret::Secret;
use serde_json::value::RawValue;

use super::{Core, Peer, Pending, Phase, violation};
use crate::error::AttemptError;
use crate::session::Class;

impl Core {
    /// A connection stands: opens or resumes the session. `is_offered` says that its stream can become reliable.
    pub(crate) fn link_up(&mut self, is_offered: bool) {
        self.outbox.clear();
        self.calls = CallTable::default();
        self.open_files = 0;
        let mut extensions = offer();
        if is_offered {
            extensions = extensions.with(RELIABLE_STREAM, 1);
        }
        let params = InitializeParams {
            client_name: self.client_name.clone(),
            resume_session_id: self.session.clone(),
            take_over: self.takes_over,
            extensions: extensions.with_identity(),
        };
        self.call(Class::Once, Initialize::NAME, &params, Pending::Initialize);
    }

    /// Takes the reply of `initialize`, and goes on where the last connection ended.
    pub(super) fn initialized(&mut self, result: Result<Box<RawValue>, RpcError>) -> Result<(), AttemptError> {
        let result: InitializeResult = match result {
            Ok(result) => envelope::decode_result(&result).map_err(violation)?,
            Err(error) => return Err(AttemptError::Initialize(redact(error, self.session.as_deref()))),
        };
        if self
            .session
            .as_ref()
            .is_some_and(|session| *session != result.session_id)
        {
            let error = RpcError::invalid_request("it resumed another session than was asked for");
            return Err(AttemptError::Initialize(error));
        }
        self.takes_over = false;
        self.peer = Peer {
            session: Some(Secret::new(result.session_id.as_str())),
            environment: result.environment_info,
            extensions: result.extensions,
            key: None,
        };
        self.session = Some(result.session_id);
        let mut message = Vec::new();
        envelope::write_notification(&mut message, Initialized::NAME, &serde_json::json!({})).map_err(violation)?;
        self.outbox.push_back(message.into());
        self.phase = Phase::Ready;
        for process in std::mem::take(&mut self.to_terminate) {
            self.terminate(process);
        }
        let started: Vec<String> = self.processes.keys().cloned().collect();
        for process in started {
            // What was told on the lost connection may not have arrived.
            self.consumed(&process);
            self.read(&process);
        }
        for command in std::mem::take(&mut self.held) {
            self.command(command);
        }
        Ok(())
    }
}

/// A session id is a secret, and some executors repeat it in their errors.
fn redact(mut error: RpcError, session: Option<&str>) -> RpcError {
    if let Some(session) = session.filter(|session| !session.is_empty() && error.message.contains(session)) {
        error.message = error.message.replace(session, "…").into();
    }
    error
}

/// What we can do beyond the stock contract.
fn offer() -> Extensions {
    let versions = [OUTPUT_WINDOW, PROCESS_CONTROL, DETACHED_SESSIONS];
    versions
        .into_iter()
        .fold(Extensions::default(), |offer, name| offer.with(name, 1))
}
