//! What processes tell, in order.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Most bytes of output in one notification.
const MAX_CHUNK: usize = 44 * 1024;
/// Characters of a process's output that are recorded as they are; more are recorded by length and digest.
const SHOWN: usize = 1000;

/// What a process told.
#[derive(Debug, Default)]
pub(super) struct News {
    /// By its number: the stream and bytes of output, or the record of another event.
    pub(super) events: BTreeMap<u64, Event>,
}

#[derive(Debug)]
pub(super) enum Event {
    Output(String, Vec<u8>),
    Exited(Value),
    Closed,
}

impl News {
    /// The close was told, and everything before it.
    pub(super) fn is_closed(&self) -> bool {
        let closed = self.events.iter().find(|(_, event)| matches!(event, Event::Closed));
        closed.is_some_and(|(seq, _)| self.events.range(..=seq).count() as u64 == *seq)
    }

    pub(super) fn exit(&self) -> Option<&Value> {
        self.events.values().find_map(|event| match event {
            Event::Exited(exit) => Some(exit),
            _ => None,
        })
    }

    /// All output, of all streams, lossy.
    pub(super) fn output(&self) -> String {
        let bytes = self.events.values().filter_map(|event| match event {
            Event::Output(_, bytes) => Some(bytes.as_slice()),
            _ => None,
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>().concat()).into_owned()
    }

    /// Each stream's whole output, the exit, and whether the close was last.
    pub(super) fn summary(self) -> Result<Value> {
        let mut streams: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut exit = Value::Null;
        let last = self.events.last_key_value().map(|(seq, _)| *seq);
        let mut closed_last = false;
        let mut longest = 0;
        for (seq, event) in self.events {
            match event {
                Event::Output(stream, bytes) => {
                    longest = longest.max(bytes.len());
                    streams.entry(stream).or_default().extend(bytes);
                }
                Event::Exited(value) => exit = value,
                Event::Closed => closed_last = Some(seq) == last,
            }
        }
        let mut summary = json!({"exit": exit, "closedLast": closed_last});
        // Stock sends at most 8192 bytes in one; how much more a pipe holds for ours is chance.
        if longest > MAX_CHUNK {
            summary["longChunks"] = true.into();
        }
        for (stream, bytes) in streams {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            summary[stream] = match text.char_indices().nth(SHOWN) {
                None => text.into(),
                Some(_) => json!({"length": bytes.len(), "sha256": hex::encode(Sha256::digest(&bytes))}),
            };
        }
        Ok(summary)
    }
}
