//! What can go wrong, sorted by whose fault it is.

use std::sync::Arc;

use rendezvous_host::files::{Fault, FileError};
use rendezvous_host::http::HttpError;
use rendezvous_host::process::StartError;
use rendezvous_rpc::RpcError;
use rendezvous_rpc::call_table::TooManyCalls;
use rendezvous_rpc::event::OrderError;
use rendezvous_rpc::path_uri::PathUriError;
use rendezvous_transport::dial::DialError;
use rendezvous_transport::registry::{CallError, SetupError};
use rendezvous_transport::stream::StreamEnd;
use rendezvous_transport::tls::TrustError;
use rendezvous_wire::fingerprint::Fingerprint;

use crate::connect::ProgramError;
use crate::environments::EnvironmentError;
use crate::options::OptionsError;
use crate::recovery::Verdict;
use crate::trust::KeyError;

/// Exit codes of the command line.
pub mod exit {
    /// Something failed at run time.
    pub const RUNTIME: u8 = 1;
    /// The command line or configuration is wrong.
    pub const USAGE: u8 = 64;
    /// The executor cannot be reached, or not any more.
    pub const UNAVAILABLE: u8 = 69;
    /// The credential does not reach so far.
    pub const NOT_AUTHORIZED: u8 = 77;
}

/// Why something failed. Cheap to clone: one lost connection fails many calls.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The options cannot be used.
    #[error(transparent)]
    Options(Arc<OptionsError>),
    /// The client cannot be set up.
    #[error("{}", chain(.0.as_ref()))]
    Setup(Arc<SetupError>),
    /// The further certificate authorities cannot be used.
    #[error("{}", chain(.0.as_ref()))]
    Trust(Arc<TrustError>),
    /// The environment cannot be used.
    #[error("{}", chain(.0.as_ref()))]
    Environment(Arc<EnvironmentError>),
    /// This machine refused the call.
    #[error(transparent)]
    Local(Arc<LocalError>),
    /// The executor could not be reached.
    #[error("cannot reach the executor: {}", chain(.0.as_ref()))]
    Unreachable(Arc<AttemptError>),
    /// The connection was lost and could not be made again.
    #[error("connection lost, and {}", lost(.0))]
    Lost(Arc<AttemptError>),
    /// The executor's key is not one that may be spoken to.
    #[error("{}", chain(.0.as_ref()))]
    Untrusted(Arc<AttemptError>),
    /// The executor does not serve this harness.
    #[error("{}", chain(.0.as_ref()))]
    NotListed(Arc<AttemptError>),
    /// The executor refused the call.
    #[error("{0}")]
    Refused(RpcError),
    /// The connection was lost while the call ran, so that nobody knows whether it took effect.
    #[error("connection lost while `{0}` was running; it may or may not have taken effect")]
    OutcomeUnknown(&'static str),
    /// The executor dropped events of the process before they could be read again, or numbered them wrongly.
    #[error("output of the process is lost")]
    Events(#[from] OrderError),
    /// The executor does not know the process any more.
    #[error("the executor has lost the process: {0}")]
    ProcessLost(RpcError),
    /// The executor's answer does not fit the call.
    #[error("the executor's answer to `{method}` cannot be read: {reason}")]
    Answer {
        /// The call.
        method: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Too many calls at once.
    #[error(transparent)]
    TooManyCalls(#[from] TooManyCalls),
    /// Too many processes at once.
    #[error("more than {0} processes at once")]
    TooManyProcesses(usize),
    /// Too many bodies of responses on their way.
    #[error("more than {0} response bodies at once")]
    TooManyBodies(usize),
    /// The body of a response broke off.
    #[error("the response's body broke off: {0}")]
    Body(String),
    /// The executor did not answer in time.
    #[error("no answer to `{0}` in time")]
    NoAnswer(&'static str),
    /// The process has no stdin, or no more.
    #[error("the process takes no input any more")]
    StdinClosed,
    /// A path that cannot be sent, or that this system cannot name.
    #[error(transparent)]
    Path(#[from] PathUriError),
    /// The process is followed already by this client.
    #[error("the process is followed already")]
    AlreadyFollowed,
    /// The executor keeps no detached sessions.
    #[error(
        "this executor keeps no detached sessions: it is a stock exec-server, ends with its connection, or has \
         --max-session-retention 0"
    )]
    NoDetachedSessions,
    /// The harness was shut down.
    #[error("the harness was shut down")]
    Shutdown,
}

impl HarnessError {
    /// What a failed attempt leads to: `other`, unless it is about one of the keys.
    pub(crate) fn of_attempt(error: Arc<AttemptError>, other: impl FnOnce(Arc<AttemptError>) -> Self) -> Self {
        match error.as_ref() {
            AttemptError::Key(_) => Self::Untrusted(error),
            AttemptError::NotListed { .. } => Self::NotListed(error),
            _ => other(error),
        }
    }

    /// Whether the same call may succeed later with nothing changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(error) | Self::Lost(error) => !matches!(error.verdict(), Verdict::Final),
            Self::Refused(error) => error.is_retryable(),
            Self::Local(error) => error.is_retryable(),
            Self::TooManyCalls(_) | Self::TooManyProcesses(_) | Self::TooManyBodies(_) | Self::NoAnswer(_) => true,
            _ => false,
        }
    }

    /// What the command line exits with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Options(_) | Self::Setup(_) | Self::Trust(_) | Self::Environment(_) | Self::Path(_) => exit::USAGE,
            Self::Unreachable(error) | Self::Lost(error) | Self::Untrusted(error) | Self::NotListed(error) => {
                error.exit_code()
            }
            Self::OutcomeUnknown(_)
            | Self::Events(_)
            | Self::ProcessLost(_)
            | Self::NoAnswer(_)
            | Self::NoDetachedSessions => exit::UNAVAILABLE,
            _ => exit::RUNTIME,
        }
    }

    /// Whether the named thing does not exist there.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Refused(error) => error.code == rendezvous_rpc::code::NOT_FOUND,
            Self::Local(error) => matches!(error.as_ref(), LocalError::File(error) if error.fault() == Fault::NotFound),
            _ => false,
        }
    }

    /// Whether the other side looked at the call and refused it, so that other calls may succeed.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Local(_))
    }

    /// Whether the session that was to be taken up does not exist, or not any more.
    pub fn is_session_gone(&self) -> bool {
        match self {
            Self::Unreachable(error) | Self::Lost(error) => error.is_session_gone(),
            _ => false,
        }
    }

    /// Whether the executor does not know the method.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == rendezvous_rpc::code::METHOD_NOT_FOUND)
    }
}

/// What this machine refused to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// A process was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A call on files failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A request failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The process has no terminal, or not any more.
    #[error("the process has no terminal")]
    NoTerminal,
    /// The local environment does not have this.
    #[error("{0} are not supported in the local environment")]
    Unsupported(&'static str),
}

impl LocalError {
    /// Whether the same call may succeed later with nothing changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Start(error) => error.is_retryable(),
            Self::File(error) => error.is_retryable(),
            Self::Http(error) => error.is_retryable(),
            Self::NoTerminal | Self::Unsupported(_) => false,
        }
    }
}

impl From<LocalError> for HarnessError {
    fn from(error: LocalError) -> Self {
        Self::Local(Arc::new(error))
    }
}

impl From<EnvironmentError> for HarnessError {
    fn from(error: EnvironmentError) -> Self {
        Self::Environment(Arc::new(error))
    }
}

impl From<OptionsError> for HarnessError {
    fn from(error: OptionsError) -> Self {
        Self::Options(Arc::new(error))
    }
}

impl From<SetupError> for HarnessError {
    fn from(error: SetupError) -> Self {
        Self::Setup(Arc::new(error))
    }
}

impl From<AttemptError> for HarnessError {
    fn from(error: AttemptError) -> Self {
        Self::of_attempt(Arc::new(error), Self::Unreachable)
    }
}

impl From<TrustError> for HarnessError {
    fn from(error: TrustError) -> Self {
        Self::Trust(Arc::new(error))
    }
}

/// Why one attempt to connect failed, or a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// The registry.
    #[error("registry")]
    Registry(#[from] CallError),
    /// The executor's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The executor's own list of harnesses does not have our key.
    #[error(
        "the executor serves only harnesses whose keys its owner has listed, and this one's is not: {key}. {}",
        listing(key, .is_lasting)
    )]
    NotListed {
        /// Our key.
        key: Fingerprint,
        /// Whether we have it the next time, too.
        is_lasting: bool,
    },
    /// The relay.
    #[error("relay")]
    Dial(#[from] DialError),
    /// The end-to-end channel to the executor.
    #[error("end-to-end channel")]
    Stream(#[from] StreamEnd),
    /// A listening exec-server.
    #[error("exec-server")]
    Listener(#[source] DialError),
    /// The program that is an exec-server, or leads to one.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The executor refused `initialize`.
    #[error("the executor refused the session: {}", refusal(.0))]
    Initialize(RpcError),
    /// The executor said something that no executor may say.
    #[error("the executor broke the protocol: {0}")]
    Violation(String),
    /// It took too long.
    #[error("no answer in time; is the executor running?")]
    Timeout,
}

impl AttemptError {
    /// What the failure says about the next attempt.
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Registry(error) if error.is_retryable() => Verdict::Retry(error.retry_after().unwrap_or_default()),
            // It aged on its way, or was for the relay that was there before: the registry may not know yet that another one took
            // its place.
            Self::Dial(error) if error.is_ticket_refused() => Verdict::Retry(Default::default()),
            Self::Dial(DialError::Connect(error)) | Self::Listener(DialError::Connect(error))
                if error.is_untrusted() =>
            {
                Verdict::Final
            }
            Self::Dial(error) | Self::Listener(error) if error.is_retryable() => {
                Verdict::Retry(error.retry_after().unwrap_or_default())
            }
            Self::Initialize(error) if error.is_retryable() => Verdict::Retry(Default::default()),
            Self::Stream(error) if error.is_retryable() => Verdict::Retry(Default::default()),
            Self::Violation(_) | Self::Timeout => Verdict::Retry(Default::default()),
            Self::Key(_)
            | Self::NotListed { .. }
            | Self::Registry(_)
            | Self::Dial(_)
            | Self::Listener(_)
            | Self::Program(_)
            | Self::Stream(_)
            | Self::Initialize(_) => Verdict::Final,
        }
    }

    /// Whether the executor does not know the session that was to be taken up.
    fn is_session_gone(&self) -> bool {
        matches!(self, Self::Initialize(error) if error.code == rendezvous_rpc::code::INVALID_REQUEST)
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Key(error) => error.exit_code(),
            Self::NotListed { .. } => exit::NOT_AUTHORIZED,
            Self::Registry(error) if error.is_not_authorized() => exit::NOT_AUTHORIZED,
            Self::Dial(error) if error.is_ticket_refused() => exit::NOT_AUTHORIZED,
            Self::Registry(error) if error.is_proxy_unauthorized() => exit::NOT_AUTHORIZED,
            Self::Dial(DialError::Connect(error)) | Self::Listener(DialError::Connect(error))
                if error.is_proxy_unauthorized() =>
            {
                exit::NOT_AUTHORIZED
            }
            Self::Dial(DialError::Connect(error)) | Self::Listener(DialError::Connect(error))
                if error.is_configuration() =>
            {
                exit::USAGE
            }
            Self::Registry(CallError::Connect(error)) if error.is_configuration() => exit::USAGE,
            Self::Listener(DialError::Refused { status: 401 | 403, .. }) => exit::NOT_AUTHORIZED,
            Self::Listener(DialError::Url(_)) => exit::USAGE,
            _ => exit::UNAVAILABLE,
        }
    }
}

/// How a harness gets into an executor's list.
fn listing(key: &Fingerprint, is_lasting: &bool) -> String {
    if *is_lasting {
        return format!("Ask the owner to add this line to the file of the executor's --authorized-harnesses: {key}");
    }
    "This harness has a new key each time: give it one that lasts by --identity-file, and ask the owner to add the line \
     that `harness identity` prints then to the file of the executor's --authorized-harnesses"
        .to_owned()
}

/// Why the executor gives no session, in words that help where its own do not.
fn refusal(error: &RpcError) -> String {
    match error.code {
        rendezvous_rpc::code::SESSION_ATTACHED => {
            "another connection has it; somebody may have taken it over (`harness \
             attach --take-over`), or the one before is not missed yet"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// What became of a lost session.
fn lost(error: &AttemptError) -> String {
    match error {
        AttemptError::Initialize(refusal) if error.is_session_gone() => {
            format!("the command is gone: the executor was restarted, or gave the session up ({refusal})")
        }
        _ => format!("recovery failed: {}", chain(error)),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lost_a_session_to_somebody_else_hears_of_it_without_its_id() {
        let refused = || Arc::new(AttemptError::Initialize(RpcError::session_attached("5e55-10n")));
        for error in [HarnessError::Lost(refused()), HarnessError::Unreachable(refused())] {
            let text = error.to_string();
            assert!(text.contains("--take-over") && !text.contains("5e55-10n"), "{text}");
            assert_eq!(error.exit_code(), exit::UNAVAILABLE);
        }
    }

    #[test]
    fn a_harness_that_is_not_listed_learns_the_line_that_is_missing() {
        let key = rendezvous_wire::key::KeyDigest([7; 32]).fingerprint();
        let refused = |is_lasting| HarnessError::from(AttemptError::NotListed { key, is_lasting });
        for is_lasting in [true, false] {
            let error = refused(is_lasting);
            assert!(!error.is_retryable() && error.exit_code() == exit::NOT_AUTHORIZED);
            let text = error.to_string();
            assert!(
                text.contains(&key.to_string()) && text.contains("--authorized-harnesses"),
                "{text}"
            );
            assert_eq!(text.contains("--identity-file"), !is_lasting, "{text}");
        }
    }
}
