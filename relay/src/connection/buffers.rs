//! Read buffers, shared by all connections of a thread.
//!
//! An idle connection holds no buffer: each read borrows one of the thread's, and gives back what it did not fill. A buffer
//! whose frames were all written is used again, so that a busy relay runs in memory that is already in the cache and never
//! asks the system for pages.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};
use rendezvous_wire::limits::MAX_RECORD_CIPHERTEXT;

/// Size of a buffer: four frames that carry the largest record, with what is around it. A little less, and the fourth would
/// nearly fit: most of it would be copied to the next buffer, each time.
pub(crate) const BUFFER: usize = 4 * (MAX_RECORD_CIPHERTEXT + 256);
/// A buffer with less room than this is not read into any more.
const MIN_ROOM: usize = 64 * 1024;
/// Buffers that a thread keeps for reuse.
const KEPT: usize = 16;
/// A chunk that waits in a queue and is shorter than this is copied, lest it hold a whole buffer. So what waits never holds
/// more than five times its own size, and frames with the largest record are not copied.
const COPY_BELOW: usize = BUFFER / 5;

thread_local! {
    static BUFFERS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least `need` bytes, mostly much more.
pub(crate) fn take(need: usize) -> BytesMut {
    let reused = BUFFERS.with_borrow_mut(|buffers| {
        // The one that was used last is most likely in the cache.
        let index = buffers
            .iter_mut()
            .rposition(|buffer| buffer.try_reclaim(BUFFER.max(need)) || buffer.capacity() >= need.max(MIN_ROOM))?;
        Some(buffers.swap_remove(index))
    });
    reused.unwrap_or_else(|| BytesMut::with_capacity(BUFFER.max(need)))
}

/// Gives a buffer back; what is in it is dropped.
pub(crate) fn give(mut buffer: BytesMut) {
    buffer.clear();
    if buffer.capacity() == 0 {
        return;
    }
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() == KEPT {
            buffers.remove(0);
        }
        buffers.push(buffer);
    });
}

/// Whether there is room enough to go on reading into `buffer`, whose content is the beginning of a frame of `need` bytes.
pub(crate) fn has_room(buffer: &BytesMut, need: usize) -> bool {
    let missing = need.saturating_sub(buffer.len());
    buffer.capacity() - buffer.len() >= missing.max(MIN_ROOM / 4)
}

/// The rest of a buffer, kept while its connection waits. A short one is copied, so that the buffer is free.
pub(crate) fn keep(buffer: BytesMut) -> BytesMut {
    if buffer.is_empty() {
        give(buffer);
        return BytesMut::new();
    }
    if buffer.len() >= COPY_BELOW {
        return buffer;
    }
    let rest = BytesMut::from(&buffer[..]);
    give(buffer);
    rest
}

/// A chunk in memory of about its own size.
pub(crate) fn detach(chunk: Bytes) -> Bytes {
    if chunk.len() >= COPY_BELOW {
        chunk
    } else {
        Bytes::copy_from_slice(&chunk)
    }
}

#[cfg(test)]
mod tests {
    use rendezvous_wire::frame::{Body, Frame};
    use rendezvous_wire::id::StreamId;
    use rendezvous_wire::limits::MAX_STREAM_ID;

    use super::*;

    /// What is in front of a payload of this length, when a client sends it.
    const CLIENT_HEADER: usize = 8;

    #[test]
    fn four_largest_frames_fit_and_wait_without_a_copy() {
        let payload = Bytes::from(vec![7; MAX_RECORD_CIPHERTEXT]);
        let largest = |id: String| {
            let body = Body::Data {
                seq: u32::MAX,
                payload: payload.clone(),
            };
            Frame::new(StreamId::new(id).unwrap(), body).to_bytes()
        };
        assert!(4 * (CLIENT_HEADER + largest("s".repeat(MAX_STREAM_ID)).len()) <= BUFFER);
        let frame = largest("s".to_owned());
        let place = frame.as_ptr();
        assert_eq!(detach(frame).as_ptr(), place);
    }
}
