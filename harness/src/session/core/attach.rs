//! Following a process that runs already, in a kept session.

use tokio::sync::oneshot;

use super::Core;
use super::slot::Slot;
use crate::error::HarnessError;
use crate::session::MAX_PROCESSES;
use crate::session::delivery::EventSender;

impl Core {
    /// Follows a process from its first output that is kept, or from about `tail` bytes before the end.
    pub(super) fn attach(
        &mut self,
        process: &str,
        tail: Option<u64>,
        events: EventSender,
        reply: oneshot::Sender<Result<(), HarnessError>>,
    ) {
        let refusal = if self.processes.contains_key(process) {
            Some(HarnessError::AlreadyFollowed)
        } else if self.processes.len() >= MAX_PROCESSES {
            Some(HarnessError::TooManyProcesses(MAX_PROCESSES))
        } else {
            None
        };
        if let Some(error) = refusal {
            let _ = reply.send(Err(error));
            return;
        }
        let mut slot = Slot::new(events);
        slot.is_paged = true;
        slot.tail = tail;
        self.processes.insert(process.to_owned(), slot);
        // Whoever does not wait drops its events, too.
        let _ = reply.send(Ok(()));
        self.read(process);
    }
}
