use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::limits::{REORDER_BYTES, REORDER_DISTANCE};

use super::StreamError;
use super::records::{Flow, Records};
use super::reliable::Reliable;
use crate::budget::{Budget, Lease};
use crate::handshake::SessionKeys;
use crate::message::Encoder;
use crate::record::RecordError;
use crate::reliable::{Beginning, Ledger, ReliableError, ResumeKey, Role, Share, Switches, weight};
use crate::reorder::ReorderError;

/// A stream that may become reliable: the first message of each direction passes, and what follows waits.
#[derive(Debug)]
pub(super) struct Undecided {
    records: Records,
    role: Role,
    key: ResumeKey,
    grace: Duration,
    window: Share,
    kept: Share,
    /// Frames of our first message.
    sent: Vec<Bytes>,
    has_sent: bool,
    has_received: bool,
    /// Weight of the peer's first message until the application takes it.
    untaken: u64,
    /// Records behind the peer's first message.
    held: Vec<(u32, Bytes)>,
    lease: Lease,
}

impl Undecided {
    /// `shares` are the first windows: what the peer may make us hold, and what we keep.
    pub(super) fn new(
        records: Records,
        keys: &SessionKeys,
        budget: &Budget,
        [window, kept]: [Share; 2],
        grace: Duration,
    ) -> Self {
        let (role, key) = keys.resume_key();
        Self {
            records,
            role,
            key,
            grace,
            window,
            kept,
            sent: Vec::new(),
            has_sent: false,
            has_received: false,
            untaken: 0,
            held: Vec::new(),
            lease: budget.lease(),
        }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        // Behind the first message nothing is missing, however long the decision takes.
        self.records.deadline().filter(|_| !self.has_received)
    }

    pub(super) fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Takes the ciphertext of one data frame.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        seq: u32,
        ciphertext: Bytes,
        mut sink: impl FnMut(Bytes),
    ) -> Result<(), StreamError> {
        if self.has_received {
            return self.hold(seq, &ciphertext);
        }
        let (mut whole, mut messages) = (0, 0);
        self.records.receive(now, seq, ciphertext, |message| {
            whole += weight(message.len());
            messages += 1;
            sink(message);
            Flow::Pause
        })?;
        if messages > 0 {
            self.has_received = true;
            self.untaken += whole;
        }
        Ok(())
    }

    /// The next frame: only our first message goes out.
    pub(super) fn transmit(&mut self, id: &StreamId, outgoing: &mut Encoder) -> Result<Option<Bytes>, RecordError> {
        if self.has_sent {
            return Ok(None);
        }
        let frame = self.records.seal(id, outgoing)?;
        if let Some(frame) = &frame {
            self.sent.push(frame.clone());
            self.has_sent = outgoing.is_between_messages();
        }
        Ok(frame)
    }

    pub(super) fn wants_transmit(&self, outgoing: &Encoder) -> bool {
        !self.has_sent && outgoing.queued() > 0
    }

    /// The application took messages of this weight.
    pub(super) fn taken(&mut self, weight: u64) {
        self.untaken = self.untaken.saturating_sub(weight);
    }

    /// The ends did not agree: a stock stream, and what it has to read.
    pub(super) fn decline(self) -> (Records, Vec<(u32, Bytes)>) {
        (self.records, self.held)
    }

    /// The ends agreed: a reliable stream, and what it has to read.
    pub(super) fn agree(self, now: Instant) -> Result<(Reliable, Vec<(u32, Bytes)>), StreamError> {
        let Records {
            sealer,
            opener,
            mut reorder,
            decoder,
        } = self.records;
        if decoder.is_within_message() {
            return Err(ReliableError::OutOfPlace.into());
        }
        let next_received = u32::try_from(reorder.next()).map_err(|_| RecordError::Exhausted)?;
        let mut ledger = Ledger::new(
            now,
            Beginning {
                role: self.role,
                next_sent: 0,
                next_received,
                grace: self.grace,
                switches: Switches::default(),
            },
        );
        for frame in self.sent {
            ledger.keep(now, frame);
        }
        ledger.completed(self.untaken);
        let held = reorder.drain().chain(self.held).collect();
        let reliable = Reliable {
            role: self.role,
            key: self.key,
            sealer,
            opener,
            ledger,
            decoder,
            first_is_stock: !self.has_sent,
            ready: VecDeque::new(),
            stalled: None,
            window: self.window,
            kept: self.kept,
            forged: 0,
        };
        Ok((reliable, held))
    }

    fn hold(&mut self, seq: u32, ciphertext: &Bytes) -> Result<(), StreamError> {
        let bytes = self.lease.held() + ciphertext.len();
        if bytes > REORDER_BYTES || self.held.len() >= REORDER_DISTANCE as usize {
            return Err(ReorderError::TooMuch.into());
        }
        self.lease.resize(bytes).map_err(ReorderError::from)?;
        self.held.push((seq, Bytes::copy_from_slice(ciphertext)));
        Ok(())
    }
}
