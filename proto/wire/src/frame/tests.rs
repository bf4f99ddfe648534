use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use prost::Message as _;

use super::peek::{Kind, PeekError, Route, route};
use super::{Body, DecodeError, Frame, Trace, data, proto};
use crate::id::StreamId;

const STREAM: &str = "7f3c2f4e-3f0e-4a53-9a65-2f3ef2b6a001";

fn stream() -> StreamId {
    StreamId::new(STREAM).expect("valid")
}

fn raw(body: Option<proto::relay_message_frame::Body>) -> proto::RelayMessageFrame {
    proto::RelayMessageFrame {
        version: 1,
        stream_id: STREAM.to_owned(),
        body,
        ..Default::default()
    }
}

#[test]
fn resume_is_the_42_bytes_that_stock_peers_send() {
    let frame = Frame::new(stream(), Body::Resume { next_seq: 0 }).to_bytes();
    let expected = [&[0x08, 1, 0x12, 36], STREAM.as_bytes(), &[0x3a, 0]].concat();
    assert_eq!(frame, expected);
    assert_eq!(frame.len(), 42);
}

#[test]
fn to_a_stock_peer_a_reattachment_is_a_resume() {
    let proof = [7; 32];
    let body = Body::Reattach {
        next_seq: 5,
        epoch: 300,
        proof,
    };
    let frame = Frame::new(stream(), body.clone()).to_bytes();
    // Fields 1, 1000 and 1001 of body 7.
    let expected = [
        &[0x08, 1, 0x12, 36],
        STREAM.as_bytes(),
        &[0x3a, 41, 0x08, 5, 0xc0, 0x3e, 0xac, 0x02, 0xca, 0x3e, 32],
        &proof,
    ]
    .concat();
    assert_eq!(frame, expected);
    assert_eq!(route(&frame).map(|route| route.kind), Ok(Some(Kind::Resume)));
    assert_eq!(Frame::decode(frame).map(|frame| frame.body), Ok(body));
    let short = proto::RelayResume {
        next_seq: 5,
        epoch: 300,
        proof: Bytes::from_static(&[7; 31]),
    };
    let frame = Frame::try_from(raw(Some(proto::relay_message_frame::Body::Resume(short))));
    assert_eq!(frame.map(|frame| frame.body), Ok(Body::Resume { next_seq: 5 }));
}

#[test]
fn first_record_omits_seq_and_names_one_segment() {
    let body = Body::Data {
        seq: 0,
        payload: Bytes::from_static(b"xyz"),
    };
    let frame = Frame::new(stream(), body).to_bytes();
    let expected = [
        &[0x08, 1, 0x12, 36],
        STREAM.as_bytes(),
        &[0x2a, 7, 0x18, 1, 0x22, 3],
        b"xyz",
    ]
    .concat();
    assert_eq!(frame, expected);
}

#[test]
fn head_and_payload_equal_the_encoded_frame() {
    for seq in [0, 1, 127, 128, u32::MAX] {
        for len in [1usize, 127, 128, 16_384, 61_456] {
            let payload = Bytes::from(vec![7; len]);
            let mut buffer = BytesMut::new();
            data::put_head(&mut buffer, &stream(), seq, len);
            buffer.extend_from_slice(&payload);
            let frame = Frame::new(stream(), Body::Data { seq, payload });
            assert_eq!(buffer.freeze(), frame.to_bytes(), "seq {seq}, {len} bytes");
        }
    }
    for (ack, ack_bits) in [(0, 5), (128, 0), (u32::MAX, u32::MAX)] {
        let payload = Bytes::from_static(b"record");
        let mut buffer = BytesMut::new();
        data::put_head_with_ack(&mut buffer, &stream(), (ack, ack_bits), 7, payload.len());
        let reserved = buffer.capacity();
        buffer.extend_from_slice(&payload);
        assert_eq!(buffer.capacity(), reserved);
        let body = Body::Data { seq: 7, payload };
        let frame = Frame {
            ack,
            ack_bits,
            ..Frame::new(stream(), body)
        };
        assert_eq!(buffer.freeze(), frame.to_bytes());
    }
}

#[test]
fn every_rule_of_a_frame_is_checked() {
    use proto::relay_message_frame::Body as Raw;
    let data = |index, count, payload: &'static [u8]| {
        raw(Some(Raw::Data(proto::RelayData {
            seq: 0,
            segment_index: index,
            segment_count: count,
            payload: Bytes::from_static(payload),
        })))
    };
    type Check = fn(&DecodeError) -> bool;
    let cases: Vec<(proto::RelayMessageFrame, Check)> = vec![
        (
            proto::RelayMessageFrame {
                version: 2,
                ..data(0, 1, b"x")
            },
            |e| matches!(e, DecodeError::Version(2)),
        ),
        (
            proto::RelayMessageFrame {
                version: 0,
                ..data(0, 1, b"x")
            },
            |e| matches!(e, DecodeError::Version(0)),
        ),
        (
            proto::RelayMessageFrame {
                stream_id: String::new(),
                ..data(0, 1, b"x")
            },
            |e| matches!(e, DecodeError::StreamId(_)),
        ),
        (
            proto::RelayMessageFrame {
                stream_id: " \t".into(),
                ..data(0, 1, b"x")
            },
            |e| matches!(e, DecodeError::StreamId(_)),
        ),
        (
            proto::RelayMessageFrame {
                stream_id: "x".repeat(129),
                ..data(0, 1, b"x")
            },
            |e| matches!(e, DecodeError::StreamId(_)),
        ),
        (raw(None), |e| matches!(e, DecodeError::NoBody)),
        (data(1, 1, b"x"), |e| {
            matches!(e, DecodeError::Segment { index: 1, count: 1 })
        }),
        (data(0, 0, b"x"), |e| {
            matches!(e, DecodeError::Segment { index: 0, count: 0 })
        }),
        (data(0, 2, b"x"), |e| {
            matches!(e, DecodeError::Segment { index: 0, count: 2 })
        }),
        (data(0, 1, b""), |e| matches!(e, DecodeError::EmptyPayload("data"))),
        (raw(Some(Raw::Handshake(proto::RelayHandshake::default()))), |e| {
            matches!(e, DecodeError::EmptyPayload("handshake"))
        }),
        (raw(Some(Raw::Reset(proto::RelayReset { reason: " ".into() }))), |e| {
            matches!(e, DecodeError::BlankReason)
        }),
    ];
    for (message, expected) in cases {
        let error = Frame::decode(message.encode_to_vec().into()).expect_err("invalid");
        assert!(expected(&error), "{error}");
    }
    assert!(matches!(
        Frame::decode(Bytes::from_static(b"\xff\xff")),
        Err(DecodeError::Malformed(_))
    ));
}

#[test]
fn unknown_fields_are_skipped_and_traces_kept() {
    let mut frame = Frame::new(stream(), Body::Heartbeat);
    frame.trace = Some(Trace {
        traceparent: Some("00-1-2-00".into()),
        tracestate: None,
    });
    let mut buffer = BytesMut::from(&frame.clone().to_bytes()[..]);
    prost::encoding::string::encode(1000, &"later".to_owned(), &mut buffer);
    let buffer = buffer.freeze();
    assert_eq!(route(&buffer).expect("routable").stream_id, STREAM);
    assert_eq!(Frame::decode(buffer).expect("valid"), frame);
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let frame = Frame::reset(stream(), &"é".repeat(200));
    let Body::Reset { reason } = frame.body else {
        panic!("no reset")
    };
    assert_eq!(reason.len(), 256);
    let Body::Reset { reason } = Frame::reset(stream(), &format!("x{}", "é".repeat(200))).body else {
        panic!("no reset")
    };
    assert_eq!(reason.len(), 255);
    let Body::Reset { reason } = Frame::reset(stream(), " ").body else {
        panic!("no reset")
    };
    assert_eq!(reason, crate::reason::PROTOCOL_ERROR);
}

#[test]
fn peek_refuses_what_it_cannot_route() {
    let good = Frame::new(stream(), Body::Resume { next_seq: 3 }).to_bytes();
    for end in 0..good.len() {
        let cut = route(&good[..end]);
        assert!(
            cut.is_err() || cut.is_ok_and(|route| route.kind.is_none()),
            "{end} bytes"
        );
    }
    assert_eq!(route(&[0x08, 2, 0x12, 1, b'a']), Err(PeekError::Version(2)));
    assert_eq!(route(&[0x08, 1]), Err(PeekError::StreamId));
    assert_eq!(route(&[0x08, 1, 0x12, 1, 0xff]), Err(PeekError::StreamId));
    assert_eq!(route(&[0x0b]), Err(PeekError::Field));
    for (fields, expected) in [(32, Err(PeekError::StreamId)), (33, Err(PeekError::TooManyFields))] {
        assert_eq!(route(&[8, 1].repeat(fields)), expected, "{fields} fields");
    }
    for (len, expected) in [(128, true), (129, false)] {
        let id = "a".repeat(len);
        let frame = proto::RelayMessageFrame {
            stream_id: id,
            ..raw(Some(proto::relay_message_frame::Body::Heartbeat(
                proto::RelayHeartbeat {},
            )))
        };
        assert_eq!(route(&frame.encode_to_vec()).is_ok(), expected, "{len} bytes");
    }
}

/// Where a lenient and a strict reader could differ, the relay reads as the endpoints' decoder does.
#[test]
fn odd_numbers_mean_the_same_to_relay_and_endpoint() {
    let id = [0x12, 1, b'a', 0x4a, 0];
    let version = |bytes: &[u8]| [&[0x08], bytes, &id].concat();
    // 2^32 + 1 in a field of 32 bits.
    let wide = version(&[0x81, 0x80, 0x80, 0x80, 0x10]);
    // More than 64 bits.
    let huge = version(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02]);
    // Field 2^29, which protobuf has not.
    let beyond = [&version(&[1])[..], &[0x80, 0x80, 0x80, 0x80, 0x10, 0]].concat();
    for (buffer, is_valid) in [(wide, true), (huge, false), (beyond, false)] {
        assert_eq!(route(&buffer).is_ok(), is_valid, "{buffer:?}");
        assert_eq!(Frame::decode(buffer.into()).is_ok(), is_valid);
    }
}

/// A decoder skips an unknown group of any depth; the relay does not walk into it.
#[test]
fn peek_refuses_groups() {
    let mut frame = Frame::new(stream(), Body::Heartbeat).to_bytes().to_vec();
    frame.extend_from_slice(&[13 << 3 | 3, 13 << 3 | 4]);
    assert_eq!(route(&frame), Err(PeekError::Group));
    Frame::decode(frame.into()).expect("valid for an endpoint");
}

#[test]
fn the_last_of_a_repeated_field_is_the_route() {
    let twice = [
        &[0x08, 9, 0x12, 1, b'a'][..],
        &[0x08, 1, 0x12, 1, b'b', 0x4a, 0, 0x3a, 0],
    ]
    .concat();
    assert_eq!(
        route(&twice),
        Ok(Route {
            stream_id: "b",
            kind: Some(Kind::Resume)
        })
    );
    assert_eq!(Frame::decode(twice.into()).expect("valid").stream_id.as_str(), "b");
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let payload = || prop::collection::vec(any::<u8>(), 1..300).prop_map(Bytes::from);
    let body = prop_oneof![
        (any::<u32>(), payload()).prop_map(|(seq, payload)| Body::Data { seq, payload }),
        Just(Body::Ack),
        any::<u32>().prop_map(|next_seq| Body::Resume { next_seq }),
        any::<(u32, u64, [u8; 32])>().prop_map(|(next_seq, epoch, proof)| Body::Reattach { next_seq, epoch, proof }),
        "[a-z_]{1,40}".prop_map(|reason| Body::Reset { reason }),
        Just(Body::Heartbeat),
        payload().prop_map(|payload| Body::Handshake { payload }),
    ];
    let trace = prop::option::of("[0-9a-f-]{1,55}").prop_map(|t| {
        t.map(|t| Trace {
            traceparent: Some(t),
            tracestate: None,
        })
    });
    ("[!-~]{1,128}", any::<u32>(), any::<u32>(), body, trace).prop_map(|(id, ack, ack_bits, body, trace)| Frame {
        stream_id: StreamId::new(id).expect("valid"),
        ack,
        ack_bits,
        body,
        trace,
    })
}

#[test]
fn frames_of_other_streams_are_skipped_before_they_are_judged() {
    let own = StreamId::new("own").expect("valid");
    let raw = |stream_id: &str, version| {
        let message = proto::RelayMessageFrame {
            version,
            stream_id: stream_id.to_owned(),
            body: Some(proto::relay_message_frame::Body::Heartbeat(proto::RelayHeartbeat {})),
            ..Default::default()
        };
        Bytes::from(prost::Message::encode_to_vec(&message))
    };
    assert_eq!(Frame::decode_for(&own, raw("other", 7)), Ok(None));
    assert_eq!(Frame::decode_for(&own, raw("own", 7)), Err(DecodeError::Version(7)));
    let frame = Frame::decode_for(&own, raw("own", 1)).expect("valid").expect("own");
    assert_eq!(frame, Frame::new(own.clone(), Body::Heartbeat));
    let garbage = Frame::decode_for(&own, Bytes::from_static(b"\xff\xff"));
    assert!(matches!(garbage, Err(DecodeError::Malformed(_))));
}

proptest! {
    #[test]
    fn frames_survive_the_wire(frame in any_frame()) {
        let bytes = frame.clone().to_bytes();
        prop_assert_eq!(route(&bytes).expect("routable").stream_id, frame.stream_id.as_str());
        prop_assert_eq!(Frame::decode(bytes).expect("valid"), frame);
    }

    /// Whatever an endpoint would accept, the relay routes to the same stream; anything else may be refused.
    #[test]
    fn relay_and_endpoint_see_one_route(frame in any_frame(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = frame.to_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(decoded) = Frame::decode(Bytes::from(bytes.clone())) {
            let seen = route(&bytes).expect("an endpoint accepts it");
            prop_assert_eq!(seen.stream_id, decoded.stream_id.as_str());
        }
    }
}
