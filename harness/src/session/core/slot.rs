//! One process of a session.

use rendezvous_rpc::event::{EventOrder, OrderError, ProcessEvent, Pushed};
use rendezvous_rpc::method::process::ReadResult;

use crate::network::ManagedNetwork;
use crate::session::delivery::{Delivered, EventSender};

/// Reads in a row that may bring nothing new before a process counts as lost.
const MAX_IDLE_READS: u32 = 8;

/// Events of one process, from the wire to its reader.
#[derive(Debug)]
pub(super) struct Slot {
    order: EventOrder,
    pub(super) events: EventSender,
    /// Who decides about hosts that it wants to reach.
    pub(super) network: Option<ManagedNetwork>,
    /// In order, but its reader has no room.
    stuck: Option<(u64, ProcessEvent)>,
    /// A `process/read` is on its way.
    pub(super) reading: bool,
    /// Events were dropped, so that the process must be read.
    behind: bool,
    idle_reads: u32,
    /// Pages have a limit, so that another one follows each that is not empty.
    pub(super) is_paged: bool,
    /// Only what begins about so many bytes before the end is wanted.
    pub(super) tail: Option<u64>,
    /// The last number that its reader will never ask for.
    unwanted: u64,
}

/// What comes next for a process.
pub(super) enum Progress {
    Going,
    ReadAgain,
    Blocked,
    Done,
    Abandoned,
}

impl Slot {
    pub(super) fn new(events: EventSender) -> Self {
        Self {
            order: EventOrder::default(),
            events,
            network: None,
            stuck: None,
            reading: false,
            behind: false,
            idle_reads: 0,
            is_paged: false,
            tail: None,
            unwanted: 0,
        }
    }

    /// The last event that needs no reading any more.
    pub(super) fn delivered(&self) -> u64 {
        self.order.delivered()
    }

    /// The last event that its reader has taken, or does not want.
    pub(super) fn consumed(&self) -> u64 {
        self.events.consumed().max(self.unwanted)
    }

    pub(super) fn push(&mut self, seq: u64, event: ProcessEvent) -> Result<(), OrderError> {
        if self.order.push(seq, event)? == Pushed::Overflow {
            self.behind = true;
        }
        Ok(())
    }

    pub(super) fn page(&mut self, page: ReadResult) -> Result<(), OrderError> {
        self.reading = false;
        self.idle_reads += 1;
        let (was_behind, last) = (std::mem::take(&mut self.behind), page.next_seq.saturating_sub(1));
        self.behind = self.is_paged && !page.chunks.is_empty();
        if self.tail.take().is_some() {
            let first = page.chunks.first().map_or(page.next_seq, |chunk| chunk.seq);
            self.unwanted = first.saturating_sub(1);
            self.order.begin_with(&page);
        }
        self.order.catch_up(page)?;
        if was_behind && self.idle_reads > MAX_IDLE_READS {
            return Err(OrderError::NotRetained(last));
        }
        Ok(())
    }

    /// Hands out everything that is in order.
    pub(super) fn deliver(&mut self) -> Progress {
        while let Some((seq, event)) = self.stuck.take().or_else(|| self.order.pop()) {
            match self.events.try_send(seq, event) {
                Delivered::Yes => self.idle_reads = 0,
                Delivered::Full(event) => {
                    self.stuck = Some((seq, event));
                    return Progress::Blocked;
                }
                Delivered::Gone => return Progress::Abandoned,
            }
        }
        if self.order.is_closed() {
            Progress::Done
        } else if self.behind {
            Progress::ReadAgain
        } else {
            Progress::Going
        }
    }

    /// Waits until the event that is stuck fits.
    pub(super) fn room(&self) -> impl Future<Output = ()> + Send + use<> {
        let room = self.stuck.as_ref().map(|(_, event)| self.events.room(event));
        async move {
            if let Some(room) = room {
                room.await;
            }
        }
    }
}
