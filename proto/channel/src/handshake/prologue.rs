use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};

const LABEL: &str = "codex-exec-server-relay-noise/v1";

/// What both sides must agree on before the first message: environment, registration and stream.
///
/// Four texts, the label first, each behind its length as eight big-endian bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prologue(Vec<u8>);

impl Prologue {
    /// The prologue of a stream.
    pub fn new(environment: &EnvironmentId, registration: &RegistrationId, stream: &StreamId) -> Self {
        let mut bytes = Vec::new();
        for text in [LABEL, environment.as_str(), registration.as_str(), stream.as_str()] {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        Self(bytes)
    }

    /// The hashed bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
