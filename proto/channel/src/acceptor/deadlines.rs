//! When each stream wants to be told the time, so that nobody has to ask all of them.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use super::StreamKey;

/// One deadline of each stream that has one.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    of: HashMap<StreamKey, Instant>,
    ordered: BTreeSet<(Instant, StreamKey)>,
}

impl Deadlines {
    /// The stream's deadline is another one, or there is none any more.
    pub(super) fn set(&mut self, key: StreamKey, deadline: Option<Instant>) {
        let known = match deadline {
            Some(deadline) => self.of.insert(key, deadline),
            None => self.of.remove(&key),
        };
        if known == deadline {
            return;
        }
        if let Some(known) = known {
            self.ordered.remove(&(known, key));
        }
        if let Some(deadline) = deadline {
            self.ordered.insert((deadline, key));
        }
    }

    /// The earliest.
    pub(super) fn first(&self) -> Option<Instant> {
        self.ordered.first().map(|(deadline, _)| *deadline)
    }

    /// The streams whose time has come.
    pub(super) fn due(&self, now: Instant) -> Vec<StreamKey> {
        let due = self.ordered.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, key)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_word_of_each_stream_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut deadlines = Deadlines::default();
        assert_eq!((deadlines.first(), deadlines.due(at(99))), (None, vec![]));
        deadlines.set(StreamKey(1), Some(at(5)));
        deadlines.set(StreamKey(2), Some(at(3)));
        deadlines.set(StreamKey(3), Some(at(4)));
        assert_eq!(deadlines.first(), Some(at(3)));
        assert_eq!(deadlines.due(at(4)), [StreamKey(2), StreamKey(3)]);
        deadlines.set(StreamKey(2), Some(at(6)));
        deadlines.set(StreamKey(3), None);
        deadlines.set(StreamKey(3), None);
        deadlines.set(StreamKey(1), Some(at(5)));
        assert_eq!((deadlines.first(), deadlines.due(at(4))), (Some(at(5)), vec![]));
        assert_eq!(deadlines.due(at(6)), [StreamKey(1), StreamKey(2)]);
    }
}
