//! The frame decoder and the relay's fast path, which must never disagree about a route.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use rendezvous_wire::frame::peek::{self, Kind};
use rendezvous_wire::frame::{Body, Frame};

fuzz_target!(|data: &[u8]| {
    let route = peek::route(data);
    let Ok(frame) = Frame::decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    match route {
        Ok(route) => {
            assert_eq!(route.stream_id, frame.stream_id.as_str());
            assert_eq!(route.kind, Some(kind(&frame.body)));
        }
        // Only frames with groups or a great many unknown or repeated fields are valid to an endpoint and refused by a relay.
        Err(error) => assert!(
            matches!(error, peek::PeekError::TooManyFields | peek::PeekError::Group),
            "{error}"
        ),
    }
    let again = Frame::decode(frame.clone().to_bytes()).expect("an encoded frame decodes");
    assert_eq!(again, frame);
});

fn kind(body: &Body) -> Kind {
    match body {
        Body::Data { .. } => Kind::Data,
        Body::Ack => Kind::Ack,
        Body::Resume { .. } | Body::Reattach { .. } => Kind::Resume,
        Body::Reset { .. } => Kind::Reset,
        Body::Heartbeat => Kind::Heartbeat,
        Body::Handshake { .. } => Kind::Handshake,
    }
}
