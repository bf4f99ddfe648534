//! The extension `outputWindow`: the executor hears how far the readers of its processes have come.

use rendezvous_rpc::Notification as _;
use rendezvous_rpc::envelope;
use rendezvous_rpc::method::initialize::OUTPUT_WINDOW;
use rendezvous_rpc::method::process::{Consumed, ConsumedParams};

use super::Core;

impl Core {
    /// The reader of a process has taken more of its events.
    pub(super) fn consumed(&mut self, process: &str) {
        if let Some(slot) = self.processes.get(process) {
            let seq = slot.consumed();
            self.tell_consumed(process, seq);
        }
    }

    /// Lets the executor send more of a process, and forget what came before.
    pub(super) fn tell_consumed(&mut self, process: &str, seq: u64) {
        if !self.is_ready() || !self.peer.extensions.has(OUTPUT_WINDOW, 1) {
            return;
        }
        let params = ConsumedParams {
            process_id: process.to_owned(),
            seq,
        };
        let mut message = Vec::new();
        if envelope::write_notification(&mut message, Consumed::NAME, &params).is_ok() {
            self.outbox.push_back(message.into());
        }
    }
}
