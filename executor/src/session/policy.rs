//! What a session asks its client about the network, and tells it.
//!
//! The proxies of a session's processes outlive its streams; questions do not. One that is open when its stream ends is
//! answered with a denial, as is one that comes while no stream is attached.

mod answer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rendezvous_host::proxy::{Answer, Notice, Protocol, Referee, Target, Verdict};
use rendezvous_rpc::envelope::{Message, RequestId, write_notification, write_request};
use rendezvous_rpc::method::network::{
    NetworkProtocol, NetworkRequest, PolicyDecision, PolicyDecisionParams, PolicyRequest, PolicyRequestParams,
};
use rendezvous_rpc::{Method as _, Notification as _};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

/// Questions of one session that are open at once. The next one is answered with a denial.
pub(crate) const MAX_QUESTIONS: usize = 256;
/// Messages of a session that wait for its stream; a decision that finds no room is not told.
pub(crate) const MAX_MESSAGES: usize = 512;
/// Longest message, in bytes; a longer one is not sent. With [`MAX_MESSAGES`] it bounds what waits for a stream.
pub(crate) const MAX_MESSAGE: usize = 4 * 1024;
/// Longest time that a client may ask for; it is more than anybody waits for a connection.
pub(crate) const MAX_PATIENCE: Duration = Duration::from_secs(60 * 60);
/// How long after its own time a client is waited for, as stock executors do: it answers then that it was too late.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The questions of one session.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<mpsc::Sender<Bytes>>,
    /// The number of the last question. It never goes back, so that a late answer is not taken for another one's.
    last: i64,
    open: HashMap<i64, Open>,
}

#[derive(Debug)]
struct Open {
    answer: oneshot::Sender<Verdict>,
    /// The end of the client's own time, after which it allows nothing.
    until: Instant,
}

/// What an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A question that was asked, perhaps answered or given up already.
    Asked,
    /// No question ever.
    Never,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends everything to `stream` from now on.
    pub(crate) fn attach(&self, stream: mpsc::Sender<Bytes>) {
        self.state().stream = Some(stream);
    }

    /// The stream is gone; what it was asked is denied.
    pub(crate) fn detach(&self) {
        let mut state = self.state();
        state.stream = None;
        state.open.clear();
        self.open.store(0, Ordering::Relaxed);
    }

    /// Whether an answer is waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Takes an answer.
    pub(crate) fn answered(&self, id: &RequestId, result: Option<&RawValue>) -> Known {
        let RequestId::Integer(id) = *id else {
            return Known::Never;
        };
        let mut state = self.state();
        if let Some(waiting) = state.open.remove(&id) {
            self.open.store(state.open.len(), Ordering::Relaxed);
            let verdict = match verdict(result) {
                Verdict::Allow if Instant::now() > waiting.until => Verdict::not_allowed(),
                verdict => verdict,
            };
            let _gone = waiting.answer.send(verdict);
        } else if !(1..=state.last).contains(&id) {
            return Known::Never;
        }
        Known::Asked
    }

    /// Takes a whole message if it is an answer to a question.
    pub(crate) fn take(&self, message: &Message) -> Option<Known> {
        match message {
            Message::Response(response) => {
                let result = Some(&*response.result).filter(|_| !response.has_error);
                Some(self.answered(&response.id, result))
            }
            Message::Error(error) => Some(self.answered(&error.id, None)),
            Message::Request(_) | Message::Notification(_) => None,
        }
    }

    /// Sends a question, if there is room for one and a stream that takes it.
    fn ask(&self, params: &PolicyRequestParams, patience: Duration) -> Option<(i64, oneshot::Receiver<Verdict>)> {
        let mut state = self.state();
        if state.open.len() >= MAX_QUESTIONS {
            return None;
        }
        let id = state.last + 1;
        let mut message = Vec::new();
        write_request(&mut message, &id.into(), PolicyRequest::NAME, params, None).ok()?;
        if message.len() > MAX_MESSAGE {
            return None;
        }
        state.stream.as_ref()?.try_send(message.into()).ok()?;
        state.last = id;
        let (answer, waiting) = oneshot::channel();
        let until = Instant::now() + patience;
        state.open.insert(id, Open { answer, until });
        self.open.store(state.open.len(), Ordering::Relaxed);
        Some((id, waiting))
    }

    fn give_up(&self, id: i64) {
        let mut state = self.state();
        state.open.remove(&id);
        self.open.store(state.open.len(), Ordering::Relaxed);
    }

    fn tell(&self, params: &PolicyDecisionParams) {
        let stream = self.state().stream.clone();
        let mut message = Vec::new();
        if let Some(stream) = stream
            && write_notification(&mut message, PolicyDecision::NAME, params).is_ok()
            && message.len() <= MAX_MESSAGE
        {
            let _full = stream.try_send(message.into());
        }
    }
}

/// An open question, which is given up when nobody waits any more.
struct Question {
    desk: Arc<Desk>,
    id: i64,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.desk.give_up(self.id);
    }
}

/// Only an answer that can be understood allows anything.
fn verdict(result: Option<&RawValue>) -> Verdict {
    result.and_then(answer::read).unwrap_or_else(Verdict::not_allowed)
}

/// Stands between the proxy of one process and the session's client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) desk: Arc<Desk>,
    pub(crate) process: String,
    /// How long the client may take. None: it is not asked.
    pub(crate) patience: Option<Duration>,
}

impl Referee for Client {
    fn ask(&self, protocol: Protocol, target: &Target) -> Option<Answer> {
        let patience = self.patience?.min(MAX_PATIENCE);
        let params = PolicyRequestParams {
            process_id: self.process.clone(),
            request: NetworkRequest {
                protocol: name(protocol),
                host: target.host.to_string(),
                port: target.port,
            },
        };
        let asked = self.desk.ask(&params, patience).map(|(id, waiting)| {
            let desk = Arc::clone(&self.desk);
            (Question { desk, id }, waiting)
        });
        Some(Box::pin(async move {
            let Some((_question, waiting)) = asked else {
                return Verdict::not_allowed();
            };
            match timeout(patience + GRACE, waiting).await {
                Ok(Ok(verdict)) => verdict,
                // Nobody answers, or nobody is there any more.
                Ok(Err(_)) | Err(_) => Verdict::not_allowed(),
            }
        }))
    }

    fn notice(&self, notice: Notice) {
        let outcome = &notice.outcome;
        self.desk.tell(&PolicyDecisionParams {
            process_id: self.process.clone(),
            timestamp: timestamp(notice.at.into()),
            scope: outcome.scope().to_owned(),
            decision: outcome.decision().to_owned(),
            source: outcome.source().to_owned(),
            reason: outcome.reason().to_owned(),
            protocol: name(notice.protocol),
            host: notice.target.host.to_string(),
            port: notice.target.port,
            policy_override: outcome.is_allowed() && outcome.source() == "decider",
            method: notice.method,
            client: Some(notice.client.to_string()),
        });
    }
}

fn name(protocol: Protocol) -> NetworkProtocol {
    match protocol {
        Protocol::Http => NetworkProtocol::Http,
        Protocol::Connect => NetworkProtocol::HttpsConnect,
        Protocol::Socks5 => NetworkProtocol::Socks5Tcp,
    }
}

/// RFC 3339 with milliseconds.
const FORMAT: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

fn timestamp(at: OffsetDateTime) -> String {
    at.format(FORMAT).unwrap_or_default()
}

#[cfg(test)]
mod tests;
