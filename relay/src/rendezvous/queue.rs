//! What waits to be written to one connection, in turns between its streams.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;

use bytes::Bytes;

/// What one waiting chunk costs beside its bytes, so that many small ones are bounded too.
pub const CHUNK_OVERHEAD: usize = 64;

/// One stream's place in a queue. Numbers are never used twice within one relay process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub u64);

/// Chunks of several streams, each in its own order. A chunk is at most one large frame or
/// [`crate::websocket::MAX_CHUNK`] bytes of small ones, and streams take turns chunk by chunk.
#[derive(Debug, Default)]
pub struct FairQueue {
    lanes: HashMap<Lane, Waiting>,
    /// Lanes with chunks, in the order of their turns.
    turns: VecDeque<Lane>,
    cost: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    chunks: VecDeque<Bytes>,
    cost: usize,
    /// Nothing more will be pushed; the lane goes with its last chunk.
    finished: bool,
    /// Whoever waits for room.
    waker: Option<Waker>,
}

fn cost(chunk: &Bytes) -> usize {
    chunk.len() + CHUNK_OVERHEAD
}

impl FairQueue {
    /// Opens a lane. A lane must be open to be pushed to.
    pub fn open(&mut self, lane: Lane) {
        self.lanes.entry(lane).or_default();
    }

    /// Number of lanes, finished ones that still hold chunks included.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// What waits in all lanes, in bytes with overhead.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// What waits in one lane, in bytes with overhead.
    pub fn lane_cost(&self, lane: Lane) -> usize {
        self.lanes.get(&lane).map_or(0, |waiting| waiting.cost)
    }

    /// Appends a chunk. Gives false when the lane is not open or finished; the chunk is dropped then, because its stream
    /// is over.
    pub fn push(&mut self, lane: Lane, chunk: Bytes) -> bool {
        let Some(waiting) = self.lanes.get_mut(&lane).filter(|waiting| !waiting.finished) else {
            return false;
        };
        let cost = cost(&chunk);
        if waiting.chunks.is_empty() {
            self.turns.push_back(lane);
        }
        waiting.chunks.push_back(chunk);
        waiting.cost += cost;
        self.cost += cost;
        true
    }

    /// Ends a lane: what waits is still written, then `last`, then the lane is gone.
    pub fn finish(&mut self, lane: Lane, last: Option<Bytes>) {
        if let Some(last) = last {
            self.push(lane, last);
        }
        if let Some(waiting) = self.lanes.get_mut(&lane) {
            waiting.finished = true;
            if waiting.chunks.is_empty() {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Removes a lane with everything that waits in it.
    pub fn remove(&mut self, lane: Lane) {
        if let Some(waiting) = self.lanes.remove(&lane) {
            self.cost -= waiting.cost;
            if !waiting.chunks.is_empty() {
                self.turns.retain(|other| *other != lane);
            }
            if let Some(waker) = waiting.waker {
                waker.wake();
            }
        }
    }

    /// Keeps `waker` to be woken as soon as the lane has at most `room` waiting, see [`FairQueue::pop`].
    pub fn wait(&mut self, lane: Lane, waker: &Waker) {
        if let Some(waiting) = self.lanes.get_mut(&lane) {
            match &mut waiting.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
    }

    /// Moves chunks to `out`, one from each lane in turn, until `out` holds `max_chunks` or `max_bytes` were moved. Wakers
    /// of lanes that now have at most `room` waiting go to `wake`.
    pub fn pop(
        &mut self,
        out: &mut VecDeque<Bytes>,
        max_chunks: usize,
        max_bytes: usize,
        room: usize,
        wake: &mut Vec<Waker>,
    ) {
        let mut bytes = 0;
        while out.len() < max_chunks && bytes < max_bytes {
            let Some(lane) = self.turns.pop_front() else { break };
            let Some(waiting) = self.lanes.get_mut(&lane) else {
                continue;
            };
            let Some(chunk) = waiting.chunks.pop_front() else {
                continue;
            };
            let cost = cost(&chunk);
            bytes += chunk.len();
            self.cost -= cost;
            waiting.cost -= cost;
            out.push_back(chunk);
            if waiting.cost <= room {
                wake.extend(waiting.waker.take());
            }
            if !waiting.chunks.is_empty() {
                self.turns.push_back(lane);
            } else if waiting.finished {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Drops everything and wakes everybody; the connection is gone.
    pub fn clear(&mut self) {
        self.turns.clear();
        self.cost = 0;
        for (_, waiting) in self.lanes.drain() {
            if let Some(waker) = waiting.waker {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests;
