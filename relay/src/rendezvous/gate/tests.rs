use bytes::Bytes;
use rendezvous_wire::frame::peek;
use rendezvous_wire::id::StreamId;

use super::*;

fn frame(body: Body) -> Bytes {
    Frame::new(StreamId::new("s").unwrap(), body).to_bytes()
}

fn resume() -> Bytes {
    frame(Body::Resume { next_seq: 0 })
}

fn handshake(len: usize) -> Bytes {
    frame(Body::Handshake {
        payload: vec![1; len].into(),
    })
}

fn data() -> Bytes {
    frame(Body::Data {
        seq: 0,
        payload: Bytes::from_static(b"x"),
    })
}

fn reset() -> Bytes {
    frame(Body::Reset { reason: "r".into() })
}

fn check(gate: &mut Gate, phase: Phase, frame: &[u8]) -> Result<Verdict, GateError> {
    gate.check(phase, peek::route(frame).map_or(None, |route| route.kind), frame)
}

#[test]
fn what_stock_harnesses_send_passes() {
    for authorization in [0, 36, MAX_AUTHORIZATION] {
        let mut gate = Gate::default();
        assert_eq!(check(&mut gate, Phase::Opening, &resume()), Ok(Verdict::Pass));
        let message = handshake(HANDSHAKE_1_OVERHEAD + authorization);
        assert_eq!(check(&mut gate, Phase::Opening, &message), Ok(Verdict::Handshake));
        assert_eq!(check(&mut gate, Phase::Open, &data()), Ok(Verdict::Pass));
        assert_eq!(check(&mut gate, Phase::Open, &reset()), Ok(Verdict::End));
        assert_eq!(check(&mut gate, Phase::Ended, &data()), Ok(Verdict::Late));
    }
}

#[test]
fn a_handshake_may_come_without_resume() {
    let message = handshake(HANDSHAKE_1_OVERHEAD);
    assert_eq!(
        check(&mut Gate::default(), Phase::Opening, &message),
        Ok(Verdict::Handshake)
    );
}

#[test]
fn nothing_else_begins_a_stream() {
    for first in [data(), reset(), frame(Body::Ack), frame(Body::Heartbeat)] {
        assert_eq!(
            check(&mut Gate::default(), Phase::Opening, &first),
            Err(GateError::NotABeginning)
        );
    }
}

#[test]
fn one_handshake_of_a_plausible_size() {
    for len in [
        1,
        HANDSHAKE_1_OVERHEAD - 1,
        HANDSHAKE_1_OVERHEAD + MAX_AUTHORIZATION + 1,
    ] {
        assert_eq!(
            check(&mut Gate::default(), Phase::Opening, &handshake(len)),
            Err(GateError::HandshakeSize(len))
        );
    }
    for phase in [Phase::Pending, Phase::Open] {
        let mut gate = Gate::default();
        let message = handshake(HANDSHAKE_1_OVERHEAD);
        assert_eq!(check(&mut gate, Phase::Opening, &message), Ok(Verdict::Handshake));
        assert_eq!(check(&mut gate, phase, &message), Err(GateError::SecondHandshake));
    }
}

#[test]
fn data_waits_for_the_executor() {
    let mut gate = Gate::default();
    check(&mut gate, Phase::Opening, &handshake(HANDSHAKE_1_OVERHEAD)).unwrap();
    assert_eq!(check(&mut gate, Phase::Pending, &data()), Err(GateError::EarlyData));
    assert_eq!(check(&mut gate, Phase::Pending, &reset()), Ok(Verdict::End));
}

#[test]
fn the_opening_is_short_and_small() {
    let mut gate = Gate::default();
    for _ in 0..MAX_OPENING_FRAMES {
        assert_eq!(check(&mut gate, Phase::Opening, &resume()), Ok(Verdict::Pass));
    }
    assert_eq!(check(&mut gate, Phase::Opening, &resume()), Err(GateError::TooMuch));
    let mut big = resume().to_vec();
    // An unknown field of our own range is skipped by every decoder, but not at any size.
    big.extend([0xc2, 0x3e, 0xff, 0x7f]);
    big.extend(vec![0; 16_383]);
    assert_eq!(
        Gate::default().check(Phase::Opening, Some(Kind::Resume), &big),
        Err(GateError::TooMuch)
    );
}

#[test]
fn an_open_stream_carries_what_the_relay_cannot_judge() {
    let own_field = [resume().to_vec(), vec![0xc2, 0x3e, 1, 7]].concat();
    let mut gate = Gate::default();
    assert_eq!(check(&mut gate, Phase::Open, &own_field), Ok(Verdict::Pass));
    // No body at all: for the executor to refuse.
    let empty = [0x08, 0x01, 0x12, 0x01, b's'];
    assert_eq!(check(&mut gate, Phase::Open, &empty), Ok(Verdict::Pass));
    assert!(matches!(
        check(&mut Gate::default(), Phase::Pending, &empty),
        Err(GateError::NotABeginning)
    ));
}
