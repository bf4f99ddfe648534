use std::time::Instant;

use bytes::Bytes;
use rendezvous_wire::id::StreamId;

use super::StreamError;
use super::records::{Flow, Records};
use super::reliable::{Delivered, Reliable};
use super::undecided::Undecided;
use crate::budget::Budget;
use crate::handshake::SessionKeys;
use crate::message::Encoder;
use crate::record::RecordError;
use crate::reliable::Config;

/// An open stream: as stock peers have it, or as two ends of ours agreed.
#[derive(Debug)]
pub(super) enum Open {
    Stock(Records),
    Undecided(Box<Undecided>),
    Reliable(Box<Reliable>),
}

impl Open {
    pub(super) fn new(keys: &SessionKeys, budget: &Budget, message_limit: usize, offer: Option<Config>) -> Self {
        let records = Records::new(keys, budget, message_limit);
        let Some(Config { pool, grace }) = offer else {
            return Self::Stock(records);
        };
        match (pool.share(), pool.share()) {
            (Ok(window), Ok(kept)) => {
                let undecided = Undecided::new(records, keys, budget, [window, kept], grace);
                Self::Undecided(Box::new(undecided))
            }
            // Without memory for windows it stays a stock stream.
            _ => Self::Stock(records),
        }
    }

    pub(super) fn set_message_limit(&mut self, limit: usize) {
        match self {
            Self::Stock(records) => records.set_message_limit(limit),
            Self::Undecided(undecided) => undecided.records_mut().set_message_limit(limit),
            Self::Reliable(reliable) => reliable.decoder.set_limit(limit),
        }
    }

    /// The ends agreed on a reliable stream, or did not. Says whether it is reliable now.
    pub(super) fn settle(
        self,
        now: Instant,
        agreed: bool,
        sink: &mut impl FnMut(Delivered),
    ) -> Result<Self, StreamError> {
        let Self::Undecided(undecided) = self else {
            return Ok(self);
        };
        if agreed {
            let (mut reliable, held) = undecided.agree(now)?;
            for (seq, ciphertext) in held {
                reliable.receive(now, seq, &ciphertext, sink)?;
            }
            return Ok(Self::Reliable(Box::new(reliable)));
        }
        let (mut records, held) = undecided.decline();
        let mut pass = |message| {
            sink(Delivered::Message(message));
            Flow::Continue
        };
        records.proceed(now, &mut pass)?;
        for (seq, ciphertext) in held {
            records.receive(now, seq, ciphertext, &mut pass)?;
        }
        Ok(Self::Stock(records))
    }

    pub(super) fn receive(
        &mut self,
        now: Instant,
        seq: u32,
        ciphertext: Bytes,
        sink: &mut impl FnMut(Delivered),
    ) -> Result<(), StreamError> {
        match self {
            Self::Stock(records) => records.receive(now, seq, ciphertext, |message| {
                sink(Delivered::Message(message));
                Flow::Continue
            }),
            Self::Undecided(undecided) => {
                undecided.receive(now, seq, ciphertext, |message| sink(Delivered::Message(message)))
            }
            Self::Reliable(reliable) => reliable.receive(now, seq, &ciphertext, sink),
        }
    }

    /// The next frame; `farewell` is the reason for which we leave once everything is sent. A reliable stream knows the time
    /// since it became one.
    pub(super) fn transmit(
        &mut self,
        now: Option<Instant>,
        id: &StreamId,
        outgoing: &mut Encoder,
        farewell: Option<&str>,
    ) -> Result<Option<Bytes>, RecordError> {
        match self {
            Self::Stock(records) => records.seal(id, outgoing),
            Self::Undecided(undecided) => undecided.transmit(id, outgoing),
            Self::Reliable(reliable) => match now {
                Some(now) => reliable.transmit(now, id, outgoing, farewell),
                None => Ok(None),
            },
        }
    }

    /// Whether [`Self::transmit`] would give a frame, or, when we are leaving, leads to the end.
    pub(super) fn wants_transmit(&self, outgoing: &Encoder, is_leaving: bool) -> bool {
        match self {
            Self::Stock(_) => is_leaving || outgoing.queued() > 0,
            Self::Undecided(undecided) => is_leaving || undecided.wants_transmit(outgoing),
            Self::Reliable(reliable) => {
                reliable.wants_transmit(outgoing, is_leaving) || is_leaving && reliable.ledger.is_end_known()
            }
        }
    }

    /// Whether a leaving stream that has nothing to transmit is over.
    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Stock(_) | Self::Undecided(_) => true,
            Self::Reliable(reliable) => reliable.ledger.is_end_known(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Stock(records) => records.deadline(),
            Self::Undecided(undecided) => undecided.deadline(),
            Self::Reliable(reliable) => reliable.deadline(),
        }
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant, sink: &mut impl FnMut(Delivered)) -> Result<(), StreamError> {
        let (deadline, missing) = match self {
            Self::Reliable(reliable) => return reliable.handle_timeout(now, sink),
            Self::Undecided(undecided) => (undecided.deadline(), undecided.records().missing()),
            Self::Stock(records) => (records.deadline(), records.missing()),
        };
        match deadline {
            Some(deadline) if deadline <= now => Err(StreamError::Gap(missing)),
            _ => Ok(()),
        }
    }

    /// The application took messages of this weight.
    pub(super) fn taken(&mut self, now: Instant, weight: u64) {
        match self {
            Self::Stock(_) => {}
            Self::Undecided(undecided) => undecided.taken(weight),
            Self::Reliable(reliable) => reliable.taken(now, weight),
        }
    }

    pub(super) fn reliable(&self) -> Option<&Reliable> {
        match self {
            Self::Reliable(reliable) => Some(reliable),
            _ => None,
        }
    }

    pub(super) fn reliable_mut(&mut self) -> Option<&mut Reliable> {
        match self {
            Self::Reliable(reliable) => Some(reliable),
            _ => None,
        }
    }
}
