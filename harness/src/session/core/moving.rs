//! When a session may leave a connection that still works.

use rendezvous_rpc::Method as _;
use rendezvous_rpc::method::fs;

use super::{Core, Pending};
use crate::session::Class;

impl Core {
    /// Whether the executor has not confirmed the end of every process that nobody holds any more.
    pub(crate) fn is_terminating(&self) -> bool {
        let is_unanswered = |pending: &Pending| matches!(pending, Pending::Terminate { .. });
        !self.to_terminate.is_empty() || self.calls.iter().any(is_unanswered)
    }

    /// Whether the session can go on with another connection without a loss: nothing is under way that cannot be repeated.
    pub(crate) fn is_movable(&self) -> bool {
        let is_lossless = |pending: &Pending| match pending {
            Pending::Call(call) => call.class == Class::Repeatable,
            Pending::Read { .. } | Pending::Terminate { .. } => true,
            Pending::Initialize | Pending::Start { .. } => false,
        };
        self.calls.iter().all(is_lossless)
            && self.open_questions == 0
            && self.open_files == 0
            && self.listeners.are_none()
    }

    /// An executor closes with the connection what it holds open for it.
    pub(super) fn count_open_files(&mut self, method: &str, succeeded: bool) {
        match method {
            fs::Open::NAME if succeeded => self.open_files += 1,
            fs::Close::NAME => self.open_files = self.open_files.saturating_sub(1),
            _ => {}
        }
    }
}
