//! Whether the two ends have proved themselves on the connection that is there now.

use std::time::{Duration, Instant};

use super::mutant::{Switches, is_off};
use super::proof::Role;

/// Least time between two resumes of which none is answered.
const RESUME_INTERVAL: Duration = Duration::from_secs(1);
/// Doublings of that time.
const MAX_DOUBLINGS: u32 = 3;

/// The state of suspension and resume. It begins attached, by the handshake.
#[derive(Clone, Debug)]
pub(super) struct Attachment {
    role: Role,
    suspended_since: Option<Instant>,
    /// The greatest epoch that we sent, or as executor took.
    epoch: u64,
    /// A harness that waits for an answer, and when it asks again.
    asking: Option<Asking>,
    /// An executor's answer that waits to be sent.
    answers: bool,
    switches: Switches,
}

#[derive(Clone, Debug)]
struct Asking {
    at: Instant,
    due: bool,
    /// It was sent: an answer that comes before belongs to an older one.
    sent: bool,
    doublings: u32,
}

impl Attachment {
    pub(super) fn new(role: Role, switches: Switches) -> Self {
        Self {
            role,
            suspended_since: None,
            epoch: 0,
            asking: None,
            answers: false,
            switches,
        }
    }

    pub(super) fn is_attached(&self) -> bool {
        self.suspended_since.is_none()
    }

    pub(super) fn suspended_since(&self) -> Option<Instant> {
        self.suspended_since
    }

    #[cfg(test)]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The connection is gone. Says whether that is news: the stream went on there, or a harness waited there for an answer
    /// and now waits for another connection.
    pub(super) fn suspend(&mut self, now: Instant) -> bool {
        let was_used = self.is_attached() || self.asking.is_some();
        self.asking = None;
        self.answers = false;
        self.suspended_since.get_or_insert(now);
        was_used
    }

    /// A harness has a connection, or doubts the one it has.
    pub(super) fn ask(&mut self, now: Instant) {
        if self.role == Role::Initiator && self.asking.is_none() {
            self.asking = Some(Asking {
                at: now,
                due: true,
                sent: false,
                doublings: 0,
            });
        }
    }

    /// The peer is there without an answer.
    pub(super) fn cancel_question(&mut self) {
        if self.is_attached() {
            self.asking = None;
        }
    }

    /// Whether a resume with this epoch means something, if its proof holds.
    pub(super) fn is_fresh(&self, epoch: u64) -> bool {
        match self.role {
            Role::Initiator if is_off!(self.switches, AnswerToAnyEpoch) => self.asking.is_some(),
            Role::Initiator => self.epoch == epoch && self.asking.as_ref().is_some_and(|asking| asking.sent),
            Role::Responder if is_off!(self.switches, EpochRepeats) => epoch >= self.epoch,
            Role::Responder => epoch > self.epoch,
        }
    }

    /// A fresh resume whose proof holds. Says whether the stream was suspended.
    pub(super) fn resume(&mut self, epoch: u64) -> bool {
        self.epoch = self.epoch.max(epoch);
        self.asking = None;
        self.answers = self.role == Role::Responder;
        self.suspended_since.take().is_some()
    }

    pub(super) fn wants_resume(&self) -> bool {
        self.answers || self.asking.as_ref().is_some_and(|asking| asking.due)
    }

    /// The epoch of the resume to be sent now.
    pub(super) fn poll_resume(&mut self, now: Instant) -> Option<u64> {
        if std::mem::take(&mut self.answers) {
            return Some(self.epoch);
        }
        let asking = self.asking.as_mut().filter(|asking| asking.due)?;
        asking.due = false;
        asking.sent = true;
        asking.at = now + RESUME_INTERVAL * (1 << asking.doublings);
        asking.doublings = (asking.doublings + 1).min(MAX_DOUBLINGS);
        self.epoch += 1;
        Some(self.epoch)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.asking
            .as_ref()
            .filter(|asking| !asking.due)
            .map(|asking| asking.at)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(asking) = &mut self.asking {
            asking.due |= asking.at <= now;
        }
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> (bool, u64, Option<[bool; 2]>, bool) {
        let asking = self.asking.as_ref().map(|asking| [asking.due, asking.sent]);
        (self.is_attached(), self.epoch, asking, self.answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_takes_growing_epochs_only() {
        let now = Instant::now();
        let mut executor = Attachment::new(Role::Responder, Switches::default());
        assert!(!executor.is_fresh(0) && executor.is_fresh(1));
        assert!(executor.suspend(now) && !executor.suspend(now));
        executor.ask(now);
        assert!(!executor.wants_resume());
        assert!(executor.resume(5));
        assert_eq!(executor.poll_resume(now), Some(5));
        assert!(!executor.wants_resume());
        assert!(!executor.is_fresh(5) && executor.is_fresh(6));
        assert!(!executor.resume(6));
    }

    #[test]
    fn a_harness_takes_the_answer_to_its_newest_epoch() {
        let now = Instant::now();
        let mut harness = Attachment::new(Role::Initiator, Switches::default());
        harness.suspend(now);
        assert!(!harness.wants_resume() && !harness.is_fresh(0));
        harness.ask(now);
        assert_eq!(harness.poll_resume(now), Some(1));
        assert_eq!(
            (harness.poll_resume(now), harness.deadline()),
            (None, Some(now + RESUME_INTERVAL))
        );
        harness.handle_timeout(now + RESUME_INTERVAL);
        assert_eq!(harness.poll_resume(now), Some(2));
        assert!(!harness.is_fresh(1) && !harness.is_fresh(3) && harness.is_fresh(2));
        assert!(harness.resume(2));
        assert!(harness.is_attached() && !harness.is_fresh(2));
        // The connection is lost while it asks.
        harness.suspend(now);
        harness.ask(now);
        harness.suspend(now);
        assert!(!harness.wants_resume());
        harness.ask(now);
        assert!(!harness.is_fresh(2));
        assert_eq!(harness.poll_resume(now), Some(3));
    }
}
