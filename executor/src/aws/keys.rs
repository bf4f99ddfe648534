use rendezvous_service::secret_file::{self, SecretError};
use rendezvous_wire::secret::Secret;
use serde::{Deserialize, Serialize};

/// Variables that hold keys. An executor that signs keeps them from its commands.
pub const KEY_VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Long-lived or temporary keys of an AWS identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Names the identity. No secret, though nobody's business.
    pub access_key_id: Secret,
    /// What signs.
    pub secret_access_key: Secret,
    /// Sent along by temporary identities.
    pub session_token: Option<Secret>,
}

impl Keys {
    /// The keys in this process's environment; nothing unless both are there.
    ///
    /// # Errors
    ///
    /// When a variable holds what no key can be.
    pub fn from_environment() -> Result<Option<Self>, SecretError> {
        let [id, secret, token] = KEY_VARIABLES.map(secret_file::from_env);
        let (Some(access_key_id), Some(secret_access_key)) = (id?, secret?) else {
            return Ok(None);
        };
        Ok(Some(Self {
            access_key_id,
            secret_access_key,
            session_token: token?,
        }))
    }

    /// One line that [`Self::unpack`] reads.
    pub(crate) fn pack(&self) -> Secret {
        Secret::new(serde_json::to_string(self).expect("texts are JSON"))
    }

    /// Reads what [`Self::pack`] wrote; nothing else.
    pub(crate) fn unpack(line: &Secret) -> Option<Self> {
        serde_json::from_str(line.expose()).ok()
    }
}
