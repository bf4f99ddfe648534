//! Two ledgers, what is between them, and what may happen.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::reliable::credit::{cost, weight};
use crate::reliable::ledger::{Beginning, Ledger, Urgent};
use crate::reliable::{Arrival, FIRST_WINDOW, Kind, Piece, ReliableError, Role, Switches, Trailer};

/// Two of them fill a first window. A message is one piece whose length is its number below this.
const LONGEST: usize = FIRST_WINDOW / 2 - 256;
static BYTES: [u8; LONGEST] = [0; LONGEST];
/// Frames on the way in one direction.
const MAX_ON_THE_WAY: usize = 3;
/// How long healing may take: less than the questions of a silent harness would need to do it alone.
const HEALING: Duration = Duration::from_secs(40);

/// How often what may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub(super) losses: u8,
    pub(super) repeats: u8,
    pub(super) cuts: u8,
    pub(super) replays: u8,
    pub(super) resets: u8,
    pub(super) forged_acks: u8,
    /// Timers that fire at each end.
    pub(super) timeouts: u8,
}

/// What happens next. The number of an end is 0 for the harness; that of a direction is its sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Transmit(usize),
    Deliver(usize, usize),
    Lose(usize, usize),
    Repeat(usize, usize),
    Take(usize),
    Timeout(usize),
    Cut,
    Reconnect,
    /// A resume that was seen, to this end.
    Replay(usize, usize),
    ForgeReset(usize),
    ForgeAck(usize),
    /// Says of single records that they arrived.
    ForgeBits(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wire {
    Record {
        seq: u32,
        trailer: Trailer,
        piece: usize,
        ack: (u32, u32),
    },
    Ack((u32, u32)),
    Resume {
        role: Role,
        epoch: u64,
        next_seq: u32,
    },
    Reset,
}

#[derive(Clone, Debug)]
struct End {
    ledger: Ledger,
    unsent: u8,
    /// Frames that were made, by number of their record: what the ledger gives back is the number.
    made: Vec<Wire>,
    received: Vec<usize>,
    untaken: Vec<usize>,
    greatest_limit: u64,
    /// The newest epoch that was taken.
    taken_epoch: u64,
    timeouts: u8,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    now: Instant,
    ends: [End; 2],
    messages: [u8; 2],
    on_the_way: [Vec<Wire>; 2],
    connected: bool,
    /// The harness was told that it has to dial.
    dials: bool,
    seen: Vec<Wire>,
    faults: Faults,
    pub(super) fault: Option<ReliableError>,
    pub(super) spoke_suspended: bool,
    pub(super) took_old_resume: bool,
    pub(super) resumed_silently: bool,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for end in &self.ends {
            end.ledger.hash(state);
            (
                end.unsent,
                &end.received,
                &end.untaken,
                end.greatest_limit,
                end.taken_epoch,
                end.timeouts,
            )
                .hash(state);
        }
        (&self.on_the_way, self.connected, self.dials, &self.seen, self.faults).hash(state);
        (self.fault.is_some(), self.spoke_suspended).hash(state);
        (self.took_old_resume, self.resumed_silently).hash(state);
    }
}

/// The same as far as anybody can tell without a clock.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let logical = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        logical(self) == logical(other)
    }
}

impl World {
    pub(super) fn new(messages: [u8; 2], faults: Faults, switches: Switches) -> Self {
        let now = Instant::now();
        let end = |role, unsent| {
            let beginning = Beginning {
                role,
                // The first messages have passed.
                next_sent: 1,
                next_received: 1,
                grace: Duration::from_secs(80),
                switches,
            };
            End {
                ledger: Ledger::new(now, beginning),
                unsent,
                made: Vec::new(),
                received: Vec::new(),
                untaken: Vec::new(),
                greatest_limit: FIRST_WINDOW as u64,
                taken_epoch: 0,
                timeouts: faults.timeouts,
            }
        };
        Self {
            now,
            ends: [end(Role::Initiator, messages[0]), end(Role::Responder, messages[1])],
            messages,
            on_the_way: [Vec::new(), Vec::new()],
            connected: true,
            dials: false,
            seen: Vec::new(),
            faults,
            fault: None,
            spoke_suspended: false,
            took_old_resume: false,
            resumed_silently: false,
        }
    }

    /// Behind an error nothing happens.
    pub(super) fn actions(&self, actions: &mut Vec<Action>) {
        if self.fault.is_some() {
            return;
        }
        for end in 0..2 {
            if self.connected && self.on_the_way[end].len() < MAX_ON_THE_WAY {
                actions.push(Action::Transmit(end));
            }
            for index in 0..self.on_the_way[end].len() {
                actions.push(Action::Deliver(end, index));
                actions.extend((self.faults.losses > 0).then_some(Action::Lose(end, index)));
                actions.extend((self.faults.repeats > 0).then_some(Action::Repeat(end, index)));
            }
            actions.extend((!self.ends[end].untaken.is_empty()).then_some(Action::Take(end)));
            actions.extend((self.ends[end].timeouts > 0).then_some(Action::Timeout(end)));
            if self.connected && self.faults.replays > 0 {
                actions.extend((0..self.seen.len()).map(|index| Action::Replay(end, index)));
            }
            actions.extend((self.faults.resets > 0).then_some(Action::ForgeReset(end)));
            if self.faults.forged_acks > 0 {
                actions.extend([Action::ForgeAck(end), Action::ForgeBits(end)]);
            }
        }
        actions.extend((self.connected && self.faults.cuts > 0).then_some(Action::Cut));
        actions.extend(self.dials.then_some(Action::Reconnect));
    }

    /// Does it; says whether it changed something.
    pub(super) fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Transmit(end) => return self.transmit(end),
            Action::Deliver(from, index) => {
                let frame = self.on_the_way[from].remove(index);
                self.deliver(1 - from, &frame);
            }
            Action::Lose(from, index) => {
                self.faults.losses -= 1;
                self.on_the_way[from].remove(index);
            }
            Action::Repeat(from, index) => {
                self.faults.repeats -= 1;
                let frame = self.on_the_way[from][index].clone();
                self.deliver(1 - from, &frame);
            }
            Action::Take(end) => self.take(end),
            Action::Timeout(end) => {
                self.ends[end].timeouts -= 1;
                return self.timeout(end);
            }
            Action::Cut => {
                self.faults.cuts -= 1;
                self.connected = false;
                self.dials = true;
                self.on_the_way = [Vec::new(), Vec::new()];
                for end in &mut self.ends {
                    end.ledger.suspend(self.now);
                }
            }
            Action::Reconnect => {
                self.reconnect();
                return self.ends[0].ledger.wants_urgent();
            }
            Action::Replay(end, index) => {
                self.faults.replays -= 1;
                let frame = self.seen[index].clone();
                self.deliver(end, &frame);
            }
            Action::ForgeReset(end) => {
                self.faults.resets -= 1;
                self.deliver(end, &Wire::Reset);
            }
            Action::ForgeAck(end) => {
                let (_, next, _) = self.ends[end].ledger.numbers();
                let Some(last) = next.checked_sub(1) else { return false };
                self.faults.forged_acks -= 1;
                self.deliver(end, &Wire::Ack((last, 0)));
            }
            Action::ForgeBits(end) => {
                let (first, next, _) = self.ends[end].ledger.numbers();
                let Some(before) = first.checked_sub(1).filter(|_| first < next) else {
                    return false;
                };
                self.faults.forged_acks -= 1;
                self.deliver(end, &Wire::Ack((before, u32::MAX)));
            }
        }
        true
    }

    /// The harness has a connection.
    fn reconnect(&mut self) {
        self.connected = true;
        self.dials = false;
        self.ends[0].ledger.reconnect(self.now);
    }

    /// One frame, in the order in which a stream sends.
    fn transmit(&mut self, index: usize) -> bool {
        let (now, messages) = (self.now, self.messages[index]);
        let end = &mut self.ends[index];
        let ledger = &mut end.ledger;
        let piece = LONGEST - usize::from(messages - end.unsent);
        let frame = match ledger.poll_urgent(now) {
            Some(Urgent::Resume { epoch, next_seq }) => {
                let role = [Role::Initiator, Role::Responder][index];
                let resume = Wire::Resume { role, epoch, next_seq };
                if !self.seen.contains(&resume) {
                    self.seen.push(resume.clone());
                }
                resume
            }
            Some(Urgent::Again(frame)) => end.made[frame.len()].clone(),
            None if end.unsent > 0 && ledger.permits(piece) => {
                end.unsent -= 1;
                end.seal(now, Kind::Piece, piece)
            }
            None => {
                if let Some(kind) = ledger.wants_control() {
                    end.seal(now, kind, 0)
                } else if ledger.wants_ack() {
                    ledger.ack_sent();
                    Wire::Ack(ledger.ack())
                } else {
                    return false;
                }
            }
        };
        let is_resume = matches!(frame, Wire::Resume { .. });
        self.spoke_suspended |= !is_resume && !self.ends[index].ledger.is_truly_attached();
        self.on_the_way[index].push(frame);
        true
    }

    fn deliver(&mut self, to: usize, frame: &Wire) {
        let result = self.try_deliver(to, frame);
        self.fault = self.fault.or_else(|| result.err());
    }

    fn try_deliver(&mut self, to: usize, frame: &Wire) -> Result<(), ReliableError> {
        let now = self.now;
        let newest = self.ends[0].ledger.epoch();
        let end = &mut self.ends[to];
        let ledger = &mut end.ledger;
        match *frame {
            Wire::Record {
                seq,
                trailer,
                piece,
                ack,
            } => {
                ledger.hint(now, ack.0, ack.1);
                end.receive(now, seq, &trailer, piece)?;
            }
            Wire::Ack(ack) => ledger.hint(now, ack.0, ack.1),
            Wire::Reset => {
                self.dials |= ledger.suspend(now) && to == 0;
            }
            Wire::Resume { role, epoch, next_seq } => {
                // What the proof tells.
                let is_peer = role == [Role::Responder, Role::Initiator][to];
                if is_peer && ledger.is_fresh(epoch) {
                    self.took_old_resume |= epoch <= end.taken_epoch || to == 0 && epoch != newest;
                    end.taken_epoch = epoch;
                    ledger.resume(now, epoch, next_seq)?;
                    self.resumed_silently |= !ledger.sends_again();
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, end: usize) {
        let now = self.now;
        let end = &mut self.ends[end];
        let message = end.untaken.remove(0);
        end.ledger.taken(weight(message));
        end.grow(now);
    }

    /// A timer fires; what would end the stream for want of a peer is not looked at.
    fn timeout(&mut self, end: usize) -> bool {
        let ledger = &mut self.ends[end].ledger;
        let Some(deadline) = ledger.deadline() else {
            return false;
        };
        let now = self.now.max(deadline);
        if ledger.handle_timeout(now).is_err() {
            return false;
        }
        self.now = now;
        true
    }

    pub(super) fn is_in_order(&self) -> bool {
        (0..2).all(|from| {
            let sent = (0..self.messages[from] - self.ends[from].unsent).map(|number| LONGEST - usize::from(number));
            let received = &self.ends[1 - from].received;
            let sent: Vec<_> = sent.collect();
            sent.starts_with(received)
        })
    }

    pub(super) fn is_confirmed_there(&self) -> bool {
        (0..2).all(|end| {
            let (confirmed, ..) = self.ends[end].ledger.numbers();
            let (.., there) = self.ends[1 - end].ledger.numbers();
            confirmed <= there
        })
    }

    pub(super) fn limits_grow(&self) -> bool {
        self.ends.iter().all(|end| end.ledger.credit().1 == end.greatest_limit)
    }

    pub(super) fn is_bounded(&self) -> bool {
        let held = |end: &End| end.untaken.iter().map(|&message| cost(message)).sum::<u64>();
        self.ends.iter().all(|end| held(end) <= FIRST_WINDOW as u64)
    }

    /// Nothing goes wrong from now on, and the applications read.
    pub(super) fn heals(&self) -> bool {
        let mut world = self.clone();
        for _ in 0..400 {
            if world.has_all() {
                return true;
            }
            if world.dials {
                world.reconnect();
            }
            let mut quiet = true;
            for end in 0..2 {
                while world.transmit(end) {
                    quiet = false;
                }
                while !world.on_the_way[end].is_empty() {
                    quiet = false;
                    let frame = world.on_the_way[end].remove(0);
                    world.deliver(1 - end, &frame);
                }
                while !world.ends[end].untaken.is_empty() {
                    quiet = false;
                    world.take(end);
                }
            }
            if world.fault.is_some() {
                return self.fault.is_some();
            }
            // The end whose timer comes first.
            let set = (0..2).filter_map(|end| Some((world.ends[end].ledger.deadline()?, end)));
            let first = set.min().map(|(_, end)| end);
            if world.now > self.now + HEALING {
                return false;
            }
            if quiet && !first.is_some_and(|end| world.timeout(end)) {
                return false;
            }
        }
        false
    }

    fn has_all(&self) -> bool {
        (0..2).all(|from| self.ends[1 - from].received.len() == usize::from(self.messages[from]))
    }
}

impl End {
    fn seal(&mut self, now: Instant, kind: Kind, piece: usize) -> Wire {
        let (_, seq, _) = self.ledger.numbers();
        let frame = Wire::Record {
            seq,
            trailer: self.ledger.trailer(kind),
            piece,
            ack: self.ledger.ack(),
        };
        let number = Bytes::from_static(&BYTES[..self.made.len()]);
        self.made.push(frame.clone());
        self.ledger.sent(now, number, kind, piece);
        frame
    }

    fn receive(&mut self, now: Instant, seq: u32, trailer: &Trailer, piece: usize) -> Result<(), ReliableError> {
        match self.ledger.judge(seq) {
            Arrival::Duplicate | Arrival::Beyond => return Ok(()),
            Arrival::Early => {
                let kind = trailer.kind;
                let bytes = Bytes::from_static(&BYTES[..piece]);
                self.ledger.accept_early(now, seq, trailer, Piece { kind, bytes })?;
            }
            Arrival::Next => {
                self.ledger.accept(now, trailer, piece)?;
                self.order(trailer.kind, piece)?;
                while let Some(next) = self.ledger.pop() {
                    self.order(next.kind, next.bytes.len())?;
                }
            }
        }
        self.greatest_limit = self.greatest_limit.max(trailer.limit);
        self.grow(now);
        Ok(())
    }

    fn order(&mut self, kind: Kind, piece: usize) -> Result<(), ReliableError> {
        self.ledger.ordered(kind, piece)?;
        if piece > 0 {
            self.ledger.completed(weight(piece));
            self.received.push(piece);
            self.untaken.push(piece);
        }
        Ok(())
    }

    fn grow(&mut self, now: Instant) {
        if let Some((limit, _)) = self.ledger.propose(now, FIRST_WINDOW as u64) {
            self.ledger.raise(limit);
        }
    }
}
