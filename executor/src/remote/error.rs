use http::StatusCode;
use rendezvous_service::exit::Exit;
use rendezvous_transport::dial::DialError;
use rendezvous_transport::registry::CallError;
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::registry::code;

use crate::aws::AwsError;

/// Why the executor cannot serve, until a person changes something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The registry does not take the registration.
    #[error("cannot register environment {environment}{}", hint(source))]
    Register {
        /// The environment.
        environment: EnvironmentId,
        /// What the registry answered.
        source: CallError,
    },
    /// The relay URL from the registry must not be used.
    #[error("cannot use the relay that the registry names")]
    Relay(#[source] DialError),
    /// Nothing can be signed.
    #[error("cannot sign as the AWS identity that was asked for")]
    Aws(#[from] AwsError),
    /// The peer of a direct connection will not take it, now or later.
    #[error("cannot open the connection to serve on{}", identity_hint(.0))]
    Refused(#[source] DialError),
}

impl RemoteError {
    /// How the program ends: 77 for a refused credential, also a proxy's, 64 for an unknown environment and other mistakes of the
    /// configuration, 69 when the registry or the environment is not available.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Register { source, .. } if source.is_not_authorized() || source.is_proxy_unauthorized() => {
                Exit::NotAuthorized
            }
            Self::Register {
                source: CallError::Connect(error),
                ..
            } if error.is_configuration() => Exit::Usage,
            Self::Register { source, .. } => match source.status() {
                Some(status) if status.is_client_error() && status != StatusCode::CONFLICT => Exit::Usage,
                _ => Exit::Unavailable,
            },
            Self::Relay(_) => Exit::Usage,
            Self::Aws(error) => match error {
                AwsError::NoRegion(_) | AwsError::Unsupported { .. } | AwsError::File { .. } | AwsError::Syntax(_) => {
                    Exit::Usage
                }
                _ => Exit::NotAuthorized,
            },
            Self::Refused(error) if is_identity_refused(error) => Exit::NotAuthorized,
            Self::Refused(_) => Exit::Unavailable,
        }
    }
}

/// Whether the peer of a direct connection knows the identity not, or not for this.
fn is_identity_refused(error: &DialError) -> bool {
    matches!(error, DialError::Refused { status: 401 | 403, .. })
}

fn identity_hint(error: &DialError) -> &'static str {
    if is_identity_refused(error) {
        ": check the AWS identity, the region, the service and this machine's clock"
    } else {
        ""
    }
}

fn hint(error: &CallError) -> &'static str {
    if error.is_not_authorized() {
        return ": its credential is unknown, expired, revoked, or not for this environment";
    }
    match (error.status(), error.code()) {
        (Some(StatusCode::CONFLICT), Some(code::ENVIRONMENT_IN_USE)) => ": another executor serves it",
        (Some(StatusCode::NOT_FOUND), _) => ": the registry does not know it, or --remote has a wrong path",
        _ if matches!(error, CallError::Tls(_)) => ": the registry speaks no TLS, or its certificate is not trusted",
        _ => "",
    }
}
