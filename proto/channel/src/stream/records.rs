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
    sealer: Sealer,
    opener: Opener,
    reorder: Reorder,
    decoder: Decoder,
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
        mut sink: impl FnMut(Bytes),
    ) -> Result<(), StreamError> {
        let Inserted::Next(mut record) = self.reorder.insert(now, seq, ciphertext)? else {
            return Ok(());
        };
        loop {
            let append = |buffer: &mut Vec<u8>| self.opener.open(&record, buffer).map_err(StreamError::from);
            self.decoder.push(record.len(), append, &mut sink)?;
            match self.reorder.pop(now) {
                Some(next) => record = next,
                None => return Ok(()),
            }
        }
    }

    /// Seals the next record of `outgoing` inside its frame.
    pub(super) fn seal(&mut self, id: &StreamId, outgoing: &mut Encoder) -> Result<Option<Bytes>, RecordError> {
        let Some(len) = outgoing.record_len() else {
            return Ok(None);
        };
        let mut frame = BytesMut::new();
        put_head(&mut frame, id, self.sealer.next_seq()?, len + TAG_LEN);
        let start = frame.len();
        outgoing.write_record(&mut frame);
        self.sealer.seal(&mut frame, start)?;
        Ok(Some(frame.freeze()))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.reorder.deadline()
    }

    pub(super) fn missing(&self) -> u64 {
        self.reorder.next()
    }
}
