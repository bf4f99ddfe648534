//! Who may have one more stream, and memory for it, so that no harness key takes what the others need.

use std::cmp::Reverse;

use rendezvous_wire::id::StreamId;
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::limits::{
    MAX_PENDING_VALIDATIONS, MAX_PENDING_VALIDATIONS_PER_HARNESS, MAX_STREAMS, MAX_STREAMS_PER_HARNESS,
};
use rendezvous_wire::reason;

use super::{Acceptor, Slot, Validation};
use crate::budget::Budget;

impl Acceptor {
    /// Whether anybody's handshake may be read now: there is a place, and somebody to ask.
    pub(super) fn may_read(&self) -> bool {
        let is_free = self.active.len() < MAX_STREAMS || self.suspended > 0;
        is_free && self.validations.len() < MAX_PENDING_VALIDATIONS
    }

    /// Whether one more validation of this key may run.
    pub(super) fn may_validate(&self, harness: KeyDigest) -> bool {
        let own = self.validations.values().filter(|validation| match validation {
            Validation::Running { harness: of, .. } | Validation::Cancelled { harness: of } => *of == harness,
        });
        own.count() < MAX_PENDING_VALIDATIONS_PER_HARNESS && self.has_place(harness)
    }

    /// Whether one more stream of this key can be opened. Streams that wait for their harness give way to others.
    pub(super) fn has_place(&self, harness: KeyDigest) -> bool {
        !self.is_full_for(harness) || self.next_to_go(harness).is_some()
    }

    /// Makes room for one more stream of this key if there is none: a suspended one ends.
    pub(super) fn make_place(&mut self, harness: KeyDigest) {
        if !self.is_full_for(harness) {
            return;
        }
        if let Some(id) = self.next_to_go(harness).cloned() {
            self.with(&id, |stream| stream.give_up(reason::PROCESSOR_ENDED));
        }
    }

    /// Memory for a stream of this key: all its streams have a part of the whole in common.
    pub(super) fn budget_for(&self, harness: KeyDigest) -> Budget {
        let own = self.slots.values().find_map(|slot| match slot {
            Slot::Active {
                harness: of, budget, ..
            } if *of == harness => Some(budget.clone()),
            _ => None,
        });
        own.unwrap_or_else(|| self.budget.part())
    }

    fn is_full_for(&self, harness: KeyDigest) -> bool {
        self.active.len() >= MAX_STREAMS || self.streams_of(harness) >= MAX_STREAMS_PER_HARNESS
    }

    fn streams_of(&self, harness: KeyDigest) -> usize {
        let own = |slot: &&Slot| matches!(slot, Slot::Active { harness: of, .. } if *of == harness);
        self.slots.values().filter(own).count()
    }

    /// The suspended stream that ends for a new one of this key: one of its own, or of a key that has more streams; of those
    /// one of the key that has most, and there the one that has waited longest.
    fn next_to_go(&self, harness: KeyDigest) -> Option<&StreamId> {
        let own = self.streams_of(harness);
        let suspended = self.slots.iter().filter_map(|(id, slot)| {
            let Slot::Active {
                harness: of, stream, ..
            } = slot
            else {
                return None;
            };
            let since = stream.suspended_since()?;
            let streams = self.streams_of(*of);
            (*of == harness || streams > own).then_some((Reverse(streams), since, id))
        });
        suspended.min().map(|(_, _, id)| id)
    }
}
