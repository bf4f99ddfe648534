//! Following the processes of a session: their events in order, and what has to be read again.

use rendezvous_rpc::Method as _;
use rendezvous_rpc::event::ProcessEvent;
use rendezvous_rpc::method::process::{self, ReadParams, ReadResult};

use super::slot::Progress;
use super::{Core, Pending, Phase};
use crate::error::HarnessError;
use crate::session::Class;

/// Bytes of one page of what a kept process wrote.
const PAGE: u64 = 4 * 1024 * 1024;

impl Core {
    pub(super) fn event(&mut self, process: &str, seq: u64, event: ProcessEvent) {
        let Some(slot) = self.processes.get_mut(process) else {
            return;
        };
        match slot.push(seq, event) {
            Ok(()) => self.advance(process),
            Err(error) => self.lose(process, error.into()),
        }
    }

    pub(super) fn page(&mut self, process: &str, page: ReadResult) {
        let Some(slot) = self.processes.get_mut(process) else {
            return;
        };
        let is_tail = slot.tail.is_some();
        match slot.page(page) {
            Ok(()) => {
                if is_tail {
                    // The program may wait until what is not wanted need not be kept for us.
                    self.consumed(process);
                }
                self.advance(process);
            }
            Err(error) => self.lose(process, error.into()),
        }
    }

    /// Delivers what is in order, and reads again what is not.
    pub(super) fn advance(&mut self, process: &str) {
        let Some(slot) = self.processes.get_mut(process) else {
            return;
        };
        match slot.deliver() {
            Progress::Going => {}
            Progress::ReadAgain => self.read(process),
            Progress::Blocked => self.blocked = Some(process.to_owned()),
            Progress::Done => {
                // Everything is here: the executor need not keep it for a slow reader.
                let last = slot.delivered();
                self.processes.remove(process);
                self.tell_consumed(process, last);
            }
            Progress::Abandoned => self.abandon(process.to_owned()),
        }
    }

    pub(super) fn read(&mut self, process: &str) {
        let Some(slot) = self.processes.get_mut(process) else {
            return;
        };
        if slot.reading || !matches!(self.phase, Phase::Ready) {
            return;
        }
        slot.reading = true;
        let params = ReadParams {
            process_id: process.to_owned(),
            after_seq: Some(slot.delivered()),
            max_bytes: slot.is_paged.then_some(PAGE),
            wait_ms: Some(0),
            tail_bytes: slot.tail,
        };
        let pending = Pending::Read {
            process: process.to_owned(),
        };
        self.call(Class::Repeatable, process::Read::NAME, &params, pending);
    }

    /// The process cannot be followed any more; others go on.
    pub(super) fn lose(&mut self, process: &str, error: HarnessError) {
        if self.blocked.as_deref() == Some(process) {
            self.blocked = None;
        }
        if let Some(slot) = self.processes.remove(process) {
            slot.events.fail(error);
            if !self.is_kept {
                self.terminate(process.to_owned());
            }
        }
    }
}
