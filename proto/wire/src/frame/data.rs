//! Data frames written around ciphertext that is sealed in place.
//!
//! The record is the last field of the frame, so a sender writes the head, appends the plaintext and seals it where it
//! stands: one copy of the plaintext, no copy of the ciphertext.

use bytes::{BufMut as _, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};

use crate::id::StreamId;
use crate::limits::FRAME_VERSION;

const VERSION: u8 = 1 << 3;
const STREAM_ID: u8 = 2 << 3 | 2;
const ACK: u8 = 3 << 3;
const ACK_BITS: u8 = 4 << 3;
const DATA: u8 = 5 << 3 | 2;
const SEQ: u8 = 1 << 3;
const SEGMENT_COUNT: u8 = 3 << 3;
const PAYLOAD: u8 = 4 << 3 | 2;
/// Most that both acknowledgements take.
const ACKS_LEN: usize = 12;

/// Writes everything of a data frame but its payload: exactly `payload_len` bytes must follow.
///
/// Reserves space for the payload too.
pub fn put_head(buffer: &mut BytesMut, stream_id: &StreamId, seq: u32, payload_len: usize) {
    put_head_with_ack(buffer, stream_id, (0, 0), seq, payload_len);
}

/// As [`put_head`], with `ack` and `ack_bits`.
pub fn put_head_with_ack(
    buffer: &mut BytesMut,
    stream_id: &StreamId,
    (ack, ack_bits): (u32, u32),
    seq: u32,
    payload_len: usize,
) {
    let id = stream_id.as_str().as_bytes();
    let seq_len = if seq == 0 {
        0
    } else {
        1 + encoded_len_varint(u64::from(seq))
    };
    let data_len = seq_len + 2 + 1 + encoded_len_varint(payload_len as u64) + payload_len;
    buffer.reserve(
        2 + 1
            + encoded_len_varint(id.len() as u64)
            + id.len()
            + ACKS_LEN
            + 1
            + encoded_len_varint(data_len as u64)
            + data_len,
    );
    buffer.put_u8(VERSION);
    encode_varint(u64::from(FRAME_VERSION), buffer);
    buffer.put_u8(STREAM_ID);
    encode_varint(id.len() as u64, buffer);
    buffer.put_slice(id);
    for (field, value) in [(ACK, ack), (ACK_BITS, ack_bits)] {
        if value != 0 {
            buffer.put_u8(field);
            encode_varint(u64::from(value), buffer);
        }
    }
    buffer.put_u8(DATA);
    encode_varint(data_len as u64, buffer);
    if seq != 0 {
        buffer.put_u8(SEQ);
        encode_varint(u64::from(seq), buffer);
    }
    buffer.put_u8(SEGMENT_COUNT);
    encode_varint(1, buffer);
    buffer.put_u8(PAYLOAD);
    encode_varint(payload_len as u64, buffer);
}
