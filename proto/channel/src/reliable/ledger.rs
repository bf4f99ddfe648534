//! What one end knows of what it sent and received.

#[cfg(test)]
mod logical;

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::acks::Acks;
use super::arrivals::{Arrival, Arrivals, Piece};
use super::attachment::Attachment;
use super::credit::{Allowed, Granted};
use super::mutant::{Switches, is_off};
use super::proof::Role;
use super::retained::Retained;
use super::rtt::RoundTrip;
use super::trailer::{Kind, Trailer};
use super::{DEAD_AFTER, DOUBTFUL_TIMEOUTS, MAX_CONTROLS, MAX_UNCONFIRMED_CONTROLS, RENEW_AT, ReliableError, SILENCE};

/// What goes out before anything new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Urgent {
    /// A resume, to be proved.
    Resume {
        /// Its epoch.
        epoch: u64,
        /// What we lack.
        next_seq: u32,
    },
    /// A frame, as it was sent before.
    Again(Bytes),
}

/// What an end has to know when a stream becomes reliable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) role: Role,
    /// The first record that was not sent, or that is kept.
    pub(crate) next_sent: u32,
    /// The first record that is not here.
    pub(crate) next_received: u32,
    pub(crate) grace: Duration,
    pub(crate) switches: Switches,
}

/// The state of one end of a reliable stream.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    role: Role,
    grace: Duration,
    sent: Retained,
    arrivals: Arrivals,
    granted: Granted,
    allowed: Allowed,
    /// The limit that the peer was told last.
    told: u64,
    acks: Acks,
    rtt: RoundTrip,
    attachment: Attachment,
    /// When a harness that hears nothing asks.
    ask_at: Instant,
    asks: bool,
    our_end: Option<u32>,
    peer_ended: bool,
    told_to_renew: bool,
    switches: Switches,
}

impl Ledger {
    pub(crate) fn new(now: Instant, beginning: Beginning) -> Self {
        let Beginning {
            role,
            next_sent,
            next_received,
            grace,
            switches,
        } = beginning;
        let granted = Granted::new(now, switches);
        Self {
            role,
            grace,
            sent: Retained::new(next_sent, switches),
            arrivals: Arrivals::new(next_received),
            told: granted.limit(),
            granted,
            allowed: Allowed::new(switches),
            acks: Acks::default(),
            rtt: RoundTrip::default(),
            attachment: Attachment::new(role, switches),
            ask_at: now + SILENCE,
            asks: false,
            our_end: None,
            peer_ended: false,
            told_to_renew: false,
            switches,
        }
    }

    // Receiving.

    /// Takes the clear-text acknowledgement of any frame.
    pub(crate) fn hint(&mut self, now: Instant, ack: u32, bits: u32) {
        self.sent.hint(now, ack, bits, &mut self.rtt);
    }

    /// What becomes of this record. One that was here before is acknowledged again.
    pub(crate) fn judge(&mut self, seq: u32) -> Arrival {
        let arrival = self.arrivals.judge(seq);
        if arrival == Arrival::Duplicate {
            self.acks.hint_now();
            if is_off!(self.switches, TakesTwice) {
                return Arrival::Next;
            }
        }
        arrival
    }

    /// Takes an authentic record that is the next one; the caller has its piece. [`Self::pop`] gives what waited for it.
    ///
    /// # Errors
    ///
    /// The peer broke a rule.
    pub(crate) fn accept(&mut self, now: Instant, trailer: &Trailer, piece: usize) -> Result<(), ReliableError> {
        let elicits = trailer.kind != Kind::Piece || piece > 0;
        self.take(now, trailer, piece)?;
        self.arrivals.advance();
        if self.arrivals.has_gap() {
            self.acks.hint_now();
        }
        self.acks.arrived(now, piece, elicits, self.granted.window());
        Ok(())
    }

    /// Takes an authentic record that came early. It may be dropped: then it is as if it had not come.
    ///
    /// # Errors
    ///
    /// The peer broke a rule.
    pub(crate) fn accept_early(
        &mut self,
        now: Instant,
        seq: u32,
        trailer: &Trailer,
        piece: Piece,
    ) -> Result<(), ReliableError> {
        if !self.arrivals.has_room(&piece) {
            return Ok(());
        }
        self.take(now, trailer, piece.bytes.len())?;
        self.acks.hint_now();
        self.acks
            .arrived(now, piece.bytes.len(), piece.elicits(), self.granted.window());
        self.arrivals.hold(seq, piece);
        if is_off!(self.switches, ConfirmsEarly) {
            self.arrivals.advance();
        }
        Ok(())
    }

    /// The next record, if it came early.
    pub(crate) fn pop(&mut self) -> Option<Piece> {
        self.arrivals.pop()
    }

    /// The piece of a record goes to the messages now: its turn came.
    ///
    /// # Errors
    ///
    /// The peer went on behind its end.
    pub(crate) fn ordered(&mut self, kind: Kind, piece: usize) -> Result<(), ReliableError> {
        if self.peer_ended {
            return Err(ReliableError::OutOfPlace);
        }
        match kind {
            Kind::Piece => self.granted.order(piece),
            Kind::End => self.peer_ended = true,
            Kind::Question => {}
        }
        Ok(())
    }

    /// Whether a resume with this epoch is worth the check of its proof.
    pub(crate) fn is_fresh(&self, epoch: u64) -> bool {
        self.attachment.is_fresh(epoch)
    }

    /// Takes a resume that is fresh and proved. Says whether the stream was suspended.
    ///
    /// # Errors
    ///
    /// The peer broke a rule.
    pub(crate) fn resume(&mut self, now: Instant, epoch: u64, next_seq: u32) -> Result<bool, ReliableError> {
        self.sent.rewind(now, next_seq, &mut self.rtt)?;
        self.ask_at = now + SILENCE;
        Ok(self.attachment.resume(epoch))
    }

    /// The connection is gone, or somebody says so. Says whether that is news.
    pub(crate) fn suspend(&mut self, now: Instant) -> bool {
        self.attachment.suspend(now)
    }

    /// Since when it has been suspended.
    pub(crate) fn suspended_since(&self) -> Option<Instant> {
        self.attachment.suspended_since()
    }

    /// A harness has a new connection.
    pub(crate) fn reconnect(&mut self, now: Instant) {
        self.attachment.ask(now);
    }

    // Credit.

    /// Messages of this [`weight`](super::credit::weight) are whole.
    pub(crate) fn completed(&mut self, weight: u64) {
        self.granted.completed(weight);
    }

    /// The application took messages of this weight.
    pub(crate) fn taken(&mut self, weight: u64) {
        self.granted.taken(weight);
    }

    /// A new limit for the peer if it is worth telling, and what has to be reserved for it. The window may be `cap`.
    pub(crate) fn propose(&mut self, now: Instant, cap: u64) -> Option<(u64, u64)> {
        let limit = self.granted.propose(now, cap, self.rtt.smoothed())?;
        Some((limit, self.granted.outstanding(limit)))
    }

    /// Grants a limit that was proposed.
    pub(crate) fn raise(&mut self, limit: u64) {
        self.granted.raise(limit);
    }

    // Sending.

    /// Whether anything new may be sent.
    pub(crate) fn is_attached(&self) -> bool {
        self.attachment.is_attached() || is_off!(self.switches, SendsSuspended)
    }

    /// Whether a record with a piece of this length may be sent.
    pub(crate) fn permits(&self, piece: usize) -> bool {
        self.is_attached() && self.our_end.is_none() && self.allowed.permits(piece) && self.has_room(piece)
    }

    /// What carries nothing is never held up.
    fn has_room(&self, piece: usize) -> bool {
        piece == 0 || self.sent.has_room(piece)
    }

    /// The acknowledgement that a frame carries.
    pub(crate) fn ack(&self) -> (u32, u32) {
        self.arrivals.ack()
    }

    /// The trailer of a record that is sealed now.
    pub(crate) fn trailer(&self, kind: Kind) -> Trailer {
        let limit = if is_off!(self.switches, KeepsCredit) {
            0
        } else {
            self.granted.limit()
        };
        Trailer {
            kind,
            next: self.arrivals.next(),
            limit,
        }
    }

    /// A record with [`Self::trailer`] was made and goes out now.
    pub(crate) fn sent(&mut self, now: Instant, frame: Bytes, kind: Kind, piece: usize) {
        match kind {
            Kind::Piece => self.allowed.spend(piece),
            Kind::End => self.our_end = Some(self.sent.next()),
            Kind::Question => self.asks = false,
        }
        let elicits = kind != Kind::Piece || piece > 0;
        self.told = self.granted.limit();
        self.acks.confirmed();
        self.sent.push(now, frame, elicits, &self.rtt);
    }

    /// Keeps a record that was sent before the stream became reliable.
    pub(crate) fn keep(&mut self, now: Instant, frame: Bytes) {
        self.sent.push(now, frame, true, &self.rtt);
    }

    /// A frame with nothing but [`Self::ack`] goes out now.
    pub(crate) fn ack_sent(&mut self) {
        self.acks.hinted();
    }

    /// What has to go out before anything new.
    pub(crate) fn poll_urgent(&mut self, now: Instant) -> Option<Urgent> {
        if let Some(epoch) = self.attachment.poll_resume(now) {
            let next_seq = self.arrivals.next();
            return Some(Urgent::Resume { epoch, next_seq });
        }
        if !self.is_attached() {
            return None;
        }
        self.sent.again(now).map(Urgent::Again)
    }

    pub(crate) fn wants_urgent(&self) -> bool {
        self.attachment.wants_resume() || self.is_attached() && self.sent.next_again().is_some()
    }

    /// The kind of a record without a piece that has to be sent.
    pub(crate) fn wants_control(&self) -> Option<Kind> {
        let news = self.told != self.granted.limit() || self.acks.wants_confirmation();
        if !self.is_attached() || self.our_end.is_some() || !news && !self.asks {
            return None;
        }
        let (on_their_way, unconfirmed) = self.sent.controls();
        if self.asks || unconfirmed >= MAX_UNCONFIRMED_CONTROLS {
            return Some(Kind::Question).filter(|_| self.asks || on_their_way < MAX_CONTROLS);
        }
        (on_their_way < MAX_CONTROLS).then_some(Kind::Piece)
    }

    /// Whether a frame with nothing but an acknowledgement has to be sent.
    pub(crate) fn wants_ack(&self) -> bool {
        self.is_attached() && self.acks.wants_hint()
    }

    /// What the kept frames occupy.
    pub(crate) fn kept(&self) -> usize {
        self.sent.bytes()
    }

    /// Whether the peer has our end, as far as one can know.
    pub(crate) fn is_end_known(&self) -> bool {
        self.our_end.is_some_and(|seq| self.sent.is_hinted(seq))
    }

    /// True once, for a harness, when the stream should be replaced by a new one.
    pub(crate) fn poll_renewal(&mut self) -> bool {
        let worn = self.sent.next().max(self.arrivals.next()) >= RENEW_AT;
        self.role == Role::Initiator && worn && !std::mem::replace(&mut self.told_to_renew, worn)
    }

    // Time.

    /// When [`Self::handle_timeout`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let attached = self.attachment.is_attached();
        let dead = self.sent.waiting_since().map(|since| since + DEAD_AFTER);
        let asks = (self.role == Role::Initiator && !self.asks).then_some(self.ask_at);
        let working = [self.sent.deadline(), self.acks.deadline(), dead, asks];
        let grace = self.attachment.suspended_since().map(|since| since + self.grace);
        [self.attachment.deadline(), grace]
            .into_iter()
            .chain(working.into_iter().filter(|_| attached))
            .flatten()
            .min()
    }

    /// Time has passed.
    ///
    /// # Errors
    ///
    /// The stream is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Result<(), ReliableError> {
        self.attachment.handle_timeout(now);
        if let Some(since) = self.attachment.suspended_since() {
            return match since + self.grace <= now {
                true => Err(ReliableError::NotResumed),
                false => Ok(()),
            };
        }
        let dead = |since: Instant| since + DEAD_AFTER <= now;
        if self.sent.waiting_since().is_some_and(dead) {
            return Err(ReliableError::Silent);
        }
        self.acks.handle_timeout(now);
        if self.sent.handle_timeout(now, &mut self.rtt) && self.rtt.expirations() >= DOUBTFUL_TIMEOUTS {
            self.attachment.ask(now);
        }
        if self.role == Role::Initiator && self.ask_at <= now {
            self.asks = true;
            self.ask_at = now + SILENCE;
        }
        Ok(())
    }

    fn take(&mut self, now: Instant, trailer: &Trailer, piece: usize) -> Result<(), ReliableError> {
        if trailer.kind == Kind::Piece {
            self.granted.receive(piece)?;
        }
        let before = self.sent.first();
        self.sent.confirm(now, trailer.next, &mut self.rtt)?;
        if self.sent.first() > before {
            self.attachment.cancel_question();
        }
        self.allowed.raise(trailer.limit);
        self.ask_at = now + SILENCE;
        if trailer.kind == Kind::Question {
            self.acks.confirm_now();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
