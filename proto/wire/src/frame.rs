//! The relay frame: one protobuf message in one binary WebSocket message.
//!
//! [`Frame::decode`] takes what arrived and gives a frame that satisfies every rule of the protocol, or says which rule
//! it breaks. [`Frame::encode`] writes what stock peers write. [`peek`] is for the relay: it finds the route in a
//! buffer without looking into the body. [`data`] writes data frames around ciphertext that is sealed in place.

pub mod data;
pub mod peek;

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use crate::id::StreamId;
use crate::limits::{FRAME_VERSION, MAX_RESET_REASON};

/// Length of the proof in a [`Body::Reattach`].
pub const PROOF_LEN: usize = 32;

/// The generated protobuf messages, without any validation.
pub mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::allow_attributes)]
    include!(concat!(env!("OUT_DIR"), "/codex.exec_server.relay.v1.rs"));
}

/// A valid frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The stream that the frame belongs to.
    pub stream_id: StreamId,
    /// Highest contiguous `seq` received; 0 between stock peers.
    pub ack: u32,
    /// Bit i: `ack + 1 + i` was received too; 0 between stock peers.
    pub ack_bits: u32,
    /// What the frame carries.
    pub body: Body,
    /// W3C trace context of the request that begins in this record.
    pub trace: Option<Trace>,
}

/// What a frame carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// One Noise record.
    Data {
        /// Number of the record in its direction, from 0.
        seq: u32,
        /// The ciphertext, never empty.
        payload: Bytes,
    },
    /// Only acknowledges.
    Ack,
    /// The harness opens, or takes up, its stream.
    Resume {
        /// The first `seq` that the sender has not received.
        next_seq: u32,
    },
    /// An end proves itself on another connection. Only ends that agreed on it inside their channel send it; to all others
    /// it is a resume.
    Reattach {
        /// The first `seq` that the sender has not received.
        next_seq: u32,
        /// Greater than in any earlier one of the stream.
        epoch: u64,
        /// Says that the sender holds the stream's keys.
        proof: [u8; PROOF_LEN],
    },
    /// The stream is over.
    Reset {
        /// Why, for people; never blank, at most [`MAX_RESET_REASON`] bytes.
        reason: String,
    },
    /// Keeps a path alive.
    Heartbeat,
    /// One Noise handshake message, never empty.
    Handshake {
        /// The handshake message.
        payload: Bytes,
    },
}

/// W3C trace context. It comes from the peer in clear text: data, never trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The `traceparent` header value.
    pub traceparent: Option<String>,
    /// The `tracestate` header value.
    pub tracestate: Option<String>,
}

/// Which rule a received buffer breaks. All of them are the peer's fault; none is worth a retry.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not a protobuf message of this schema.
    #[error("not a relay frame: {0}")]
    Malformed(prost::DecodeError),
    /// `version` is not 1.
    #[error("frame version {0} is not supported, expected {FRAME_VERSION}")]
    Version(u32),
    /// `stream_id` is blank or too long.
    #[error("invalid stream id: {0}")]
    StreamId(#[from] crate::id::IdError),
    /// No member of the body is set.
    #[error("frame has no body")]
    NoBody,
    /// `segment_index` is not 0 or `segment_count` is not 1.
    #[error("data segment {index} of {count} is not supported, expected 0 of 1")]
    Segment {
        /// The received index.
        index: u32,
        /// The received count.
        count: u32,
    },
    /// A data or handshake payload is empty.
    #[error("{0} payload is empty")]
    EmptyPayload(&'static str),
    /// A reset without a reason.
    #[error("reset reason is blank")]
    BlankReason,
}

impl Frame {
    /// A frame without acknowledgement and trace, as stock peers send it.
    pub fn new(stream_id: StreamId, body: Body) -> Self {
        Self {
            stream_id,
            ack: 0,
            ack_bits: 0,
            body,
            trace: None,
        }
    }

    /// A reset; a blank reason is replaced and a long one cut, so that the frame is always valid.
    pub fn reset(stream_id: StreamId, reason: &str) -> Self {
        let reason = match reason.trim() {
            "" => crate::reason::PROTOCOL_ERROR,
            reason => cut(reason, MAX_RESET_REASON),
        };
        let reason = reason.to_owned();
        Self::new(stream_id, Body::Reset { reason })
    }

    /// Decodes and validates one frame. Payloads share the received buffer.
    ///
    /// # Errors
    ///
    /// Says which rule the buffer breaks.
    pub fn decode(buffer: Bytes) -> Result<Self, DecodeError> {
        let message = proto::RelayMessageFrame::decode(buffer).map_err(DecodeError::Malformed)?;
        Self::try_from(message)
    }

    /// Decodes one frame on a connection that carries one stream: a frame of another stream is skipped, and only then
    /// is anything else about it judged.
    ///
    /// # Errors
    ///
    /// The buffer is no protobuf message of this schema, or an invalid frame of `stream_id`.
    pub fn decode_for(stream_id: &StreamId, buffer: Bytes) -> Result<Option<Self>, DecodeError> {
        let message = proto::RelayMessageFrame::decode(buffer).map_err(DecodeError::Malformed)?;
        if message.stream_id != stream_id.as_str() {
            return Ok(None);
        }
        Self::try_from(message).map(Some)
    }

    /// Writes the frame to the end of `buffer`.
    pub fn encode(self, buffer: &mut BytesMut) {
        let message = proto::RelayMessageFrame::from(self);
        buffer.reserve(message.encoded_len());
        message.encode_raw(buffer);
    }

    /// The frame as a buffer of its own.
    pub fn to_bytes(self) -> Bytes {
        let mut buffer = BytesMut::new();
        self.encode(&mut buffer);
        buffer.freeze()
    }
}

/// The longest prefix of `text` that has at most `limit` bytes and ends between characters.
fn cut(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl TryFrom<proto::RelayMessageFrame> for Frame {
    type Error = DecodeError;

    fn try_from(message: proto::RelayMessageFrame) -> Result<Self, DecodeError> {
        use proto::relay_message_frame::Body as Raw;
        if message.version != FRAME_VERSION {
            return Err(DecodeError::Version(message.version));
        }
        let stream_id = StreamId::new(message.stream_id)?;
        let body = match message.body.ok_or(DecodeError::NoBody)? {
            Raw::Data(data) => {
                if (data.segment_index, data.segment_count) != (0, 1) {
                    return Err(DecodeError::Segment {
                        index: data.segment_index,
                        count: data.segment_count,
                    });
                }
                if data.payload.is_empty() {
                    return Err(DecodeError::EmptyPayload("data"));
                }
                Body::Data {
                    seq: data.seq,
                    payload: data.payload,
                }
            }
            Raw::AckFrame(_) => Body::Ack,
            Raw::Resume(resume) => match <[u8; PROOF_LEN]>::try_from(&*resume.proof) {
                Ok(proof) => Body::Reattach {
                    next_seq: resume.next_seq,
                    epoch: resume.epoch,
                    proof,
                },
                Err(_) => Body::Resume {
                    next_seq: resume.next_seq,
                },
            },
            Raw::Reset(reset) => {
                if reset.reason.trim().is_empty() {
                    return Err(DecodeError::BlankReason);
                }
                Body::Reset {
                    reason: cut(&reset.reason, MAX_RESET_REASON).to_owned(),
                }
            }
            Raw::Heartbeat(_) => Body::Heartbeat,
            Raw::Handshake(handshake) => {
                if handshake.payload.is_empty() {
                    return Err(DecodeError::EmptyPayload("handshake"));
                }
                Body::Handshake {
                    payload: handshake.payload,
                }
            }
        };
        let trace = Trace {
            traceparent: message.traceparent,
            tracestate: message.tracestate,
        };
        Ok(Self {
            stream_id,
            ack: message.ack,
            ack_bits: message.ack_bits,
            body,
            trace: (trace != Trace::default()).then_some(trace),
        })
    }
}

impl From<Frame> for proto::RelayMessageFrame {
    fn from(frame: Frame) -> Self {
        use proto::relay_message_frame::Body as Raw;
        let body = match frame.body {
            Body::Data { seq, payload } => Raw::Data(proto::RelayData {
                seq,
                segment_index: 0,
                segment_count: 1,
                payload,
            }),
            Body::Ack => Raw::AckFrame(proto::RelayAck {}),
            Body::Resume { next_seq } => Raw::Resume(proto::RelayResume {
                next_seq,
                ..Default::default()
            }),
            Body::Reattach { next_seq, epoch, proof } => Raw::Resume(proto::RelayResume {
                next_seq,
                epoch,
                proof: Bytes::copy_from_slice(&proof),
            }),
            Body::Reset { reason } => Raw::Reset(proto::RelayReset { reason }),
            Body::Heartbeat => Raw::Heartbeat(proto::RelayHeartbeat {}),
            Body::Handshake { payload } => Raw::Handshake(proto::RelayHandshake { payload }),
        };
        let trace = frame.trace.unwrap_or_default();
        Self {
            version: FRAME_VERSION,
            stream_id: frame.stream_id.into(),
            ack: frame.ack,
            ack_bits: frame.ack_bits,
            body: Some(body),
            traceparent: trace.traceparent,
            tracestate: trace.tracestate,
        }
    }
}

#[cfg(test)]
mod tests;
