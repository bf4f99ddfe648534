//! The client's calls in flight on one connection.

use std::collections::HashMap;

use crate::envelope::RequestId;

/// Most ordinary calls in flight.
pub const MAX_CALLS: usize = 1024;
/// Calls in flight beyond [`MAX_CALLS`] that only clean up: `process/terminate`, `fs/close`.
pub const RESERVED_CALLS: usize = 1;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Anything.
    Ordinary,
    /// Gives something back to the executor, so that it must get through when all else is full.
    Cleanup,
}

/// Too many calls in flight; wait for replies.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("more than {MAX_CALLS} calls in flight")]
pub struct TooManyCalls;

/// Calls that wait for their reply. `C` is whatever completes one.
///
/// Ids count from 1; a new connection starts a new table.
#[derive(Debug)]
pub struct CallTable<C> {
    waiting: HashMap<i64, C>,
    next_id: i64,
}

impl<C> Default for CallTable<C> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            next_id: 1,
        }
    }
}

impl<C> CallTable<C> {
    /// Takes a call and gives it the next id.
    ///
    /// # Errors
    ///
    /// When the lane is full; the completion comes back.
    pub fn begin(&mut self, lane: Lane, completion: C) -> Result<i64, (TooManyCalls, C)> {
        let limit = match lane {
            Lane::Ordinary => MAX_CALLS,
            Lane::Cleanup => MAX_CALLS + RESERVED_CALLS,
        };
        if self.waiting.len() >= limit {
            return Err((TooManyCalls, completion));
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.waiting.insert(id, completion);
        Ok(id)
    }

    /// The call that a reply belongs to; none for an unknown or already answered id.
    pub fn finish(&mut self, id: &RequestId) -> Option<C> {
        match id {
            RequestId::Integer(id) => self.waiting.remove(id),
            RequestId::Text(_) => None,
        }
    }

    /// Takes out every call with its id, for a connection that is gone. Later replies find none.
    pub fn take_all(&mut self) -> impl Iterator<Item = (i64, C)> {
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Every call that waits, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.waiting.values()
    }

    /// Calls in flight.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is in flight.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_find_their_call_in_any_order_and_once() {
        let mut table = CallTable::default();
        let first = table.begin(Lane::Ordinary, "a").unwrap();
        let second = table.begin(Lane::Ordinary, "b").unwrap();
        assert_eq!((first, second), (1, 2));
        assert_eq!(table.finish(&2.into()), Some("b"));
        assert_eq!(table.finish(&2.into()), None);
        assert_eq!(table.finish(&RequestId::Text("1".into())), None);
        assert_eq!(table.finish(&3.into()), None);
        assert_eq!(table.finish(&1.into()), Some("a"));
        assert_eq!(table.begin(Lane::Ordinary, "c").unwrap(), 3);
    }

    #[test]
    fn a_full_table_still_cleans_up() {
        let mut table = CallTable::default();
        for call in 0..MAX_CALLS {
            table.begin(Lane::Ordinary, call).unwrap();
        }
        assert_eq!(table.begin(Lane::Ordinary, 7), Err((TooManyCalls, 7)));
        let cleanup = table.begin(Lane::Cleanup, 8).unwrap();
        assert_eq!(table.begin(Lane::Cleanup, 9), Err((TooManyCalls, 9)));
        assert_eq!(table.finish(&cleanup.into()), Some(8));
        assert_eq!(table.begin(Lane::Ordinary, 7), Err((TooManyCalls, 7)));
        assert_eq!(table.finish(&1.into()), Some(0));
        table.begin(Lane::Ordinary, 7).unwrap();
    }

    #[test]
    fn a_lost_connection_ends_every_call() {
        let mut table = CallTable::default();
        table.begin(Lane::Ordinary, 1).unwrap();
        table.begin(Lane::Ordinary, 2).unwrap();
        let mut ended: Vec<(i64, i32)> = table.take_all().collect();
        ended.sort_unstable();
        assert_eq!(ended, [(1, 1), (2, 2)]);
        assert!(table.is_empty());
        assert_eq!(table.finish(&1.into()), None);
    }
}
