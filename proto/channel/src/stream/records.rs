use std::time::Instant;

use bytes::{Bytes, BytesMut};
use rendezvous_wire::frame::data::put_head;
use rendezvous_wire::id::StreamId;

use super::StreamError;
use crate::budget::Budget;
use crate::handshake::SessionKeys;
use crate::message::{Decoder, Encoder};
use crate::primitives::aead::TAG_LEN;
use crate::record::{Opener, RecordError, Sealer};
use crate::reorder::{Inserted, Reorder};

/// Both directions of an open stream: data frames to messages, messages to data frames.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    pub(super) reorder: Reorder,
    pub(super) decoder: Decoder,
}

/// Whether reading goes on behind a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Pause,
}

impl Records {
    pub(super) fn new(keys: &SessionKeys, budget: &Budget, message_limit: usize) -> Self {
        let (sealer, opener) = keys.records();
        Self {
            sealer,
            opener,
            reorder: Reorder::new(budget),
            decoder: Decoder::new(budget, message_limit),
        }
    }

    pub(super) fn set_message_limit(&mut self, limit: usize) {
        self.decoder.set_limit(limit);
    }

    /// Takes the ciphertext of one data frame; every message that it completes goes to `sink`.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        seq: u32,
        ciphertext: Bytes,
        sink: impl FnMut(Bytes) -> Flow,
    ) -> Result<(), StreamError> {
        let Inserted::Next(record) = self.reorder.insert(now, seq, ciphertext)? else {
            return Ok(());
        };
        self.read(now, Some(record), sink)
    }

    /// Reads what came early and is in order now, behind a pause.
    pub(super) fn proceed(&mut self, now: Instant, sink: impl FnMut(Bytes) -> Flow) -> Result<(), StreamError> {
        let first = self.reorder.pop(now);
        self.read(now, first, sink)
    }

    fn read(
        &mut self,
        now: Instant,
        mut next: Option<Bytes>,
        mut sink: impl FnMut(Bytes) -> Flow,
    ) -> Result<(), StreamError> {
        let mut flow = Flow::Continue;
        while flow == Flow::Continue
            && let Some(record) = next
        {
            let append = |buffer: &mut Vec<u8>| self.opener.open(&record, buffer).map_err(StreamError::from);
            self.decoder.push(record.len(), append, |message| {
                if sink(message) == Flow::Pause {
                    flow = Flow::Pause;
                }
            })?;
            next = match flow {
                Flow::Continue => self.reorder.pop(now),
                Flow::Pause => None,
            };
        }
        Ok(())
    }

    /// Seals the next record of `outgoing` inside its frame.
    pub(super) fn seal(&mut self, id: &StreamId, outgoing: &mut Encoder) -> Result<Option<Bytes>, RecordError> {
        seal_stock(&mut self.sealer, id, outgoing)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.reorder.deadline()
    }

    pub(super) fn missing(&self) -> u64 {
        self.reorder.next()
    }
}

/// Seals the next record of `outgoing` inside its frame, as stock peers do.
pub(super) fn seal_stock(
    sealer: &mut Sealer,
    id: &StreamId,
    outgoing: &mut Encoder,
) -> Result<Option<Bytes>, RecordError> {
    let Some(len) = outgoing.record_len() else {
        return Ok(None);
    };
    let mut frame = BytesMut::new();
    put_head(&mut frame, id, sealer.next_seq()?, len + TAG_LEN);
    let start = frame.len();
    outgoing.write_record(&mut frame);
    sealer.seal(&mut frame, start)?;
    Ok(Some(frame.freeze()))
}
