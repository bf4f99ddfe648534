//! A stream whose every record is written by hand: the keys are right, the rest is as the test wants it.

use bytes::{BufMut as _, Bytes, BytesMut};
use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::record::{Opener, Sealer};
use rendezvous_channel::{Identity, Initiator, Prologue};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::world::{Bundle, World};

/// A new stream's id.
pub(crate) fn stream_id() -> StreamId {
    StreamId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is a stream id")
}

/// A frame as the relay would send it.
pub(crate) fn binary(stream: &StreamId, body: Body) -> Message {
    Message::Binary(Frame::new(stream.clone(), body).to_bytes())
}

/// A handshake frame with any payload.
pub(crate) fn handshake(stream: &StreamId, payload: impl Into<Bytes>) -> Message {
    let payload = payload.into();
    binary(stream, Body::Handshake { payload })
}

/// An open stream.
pub(crate) struct RawStream {
    pub(crate) id: StreamId,
    seq: u32,
    sealer: Sealer,
    opener: Opener,
    received: Vec<u8>,
}

impl RawStream {
    /// Shakes hands with the executor; nothing if it answers with a reset.
    pub(crate) async fn open(world: &mut World) -> Option<Self> {
        let Bundle {
            environment,
            registration,
            executor_key,
            authorization,
        } = world.bundle();
        let id = stream_id();
        let mut rng = UnwrapErr(SysRng);
        let identity = Identity::generate(&mut rng);
        let prologue = Prologue::new(&environment, &registration, &id);
        let authorization = authorization.expose().as_bytes().to_owned();
        let started = Initiator::start(&identity, &executor_key, &prologue, &authorization, &mut rng);
        let (initiator, message) = started.expect("message 1");
        world.inject(binary(&id, Body::Resume { next_seq: 0 }));
        world.inject(handshake(&id, message));
        let answer = world.stray().await;
        assert_eq!(answer.stream_id, id);
        let payload = match answer.body {
            Body::Handshake { payload } => payload,
            Body::Reset { .. } => return None,
            other => panic!("{other:?}"),
        };
        let (sealer, opener) = initiator.finish(&payload).expect("message 2").records();
        Some(Self {
            id,
            seq: 0,
            sealer,
            opener,
            received: Vec::new(),
        })
    }

    /// The next record with this plaintext.
    pub(crate) fn record(&mut self, plaintext: &[u8]) -> Message {
        let mut buffer = BytesMut::from(plaintext);
        self.sealer.seal(&mut buffer, 0).expect("a record");
        let seq = self.seq;
        self.seq += 1;
        let payload = buffer.freeze();
        binary(&self.id, Body::Data { seq, payload })
    }

    /// Sends a message of one record.
    pub(crate) fn send(&mut self, world: &World, document: &Value) {
        let text = document.to_string();
        let mut framed = BytesMut::new();
        framed.put_u32(u32::try_from(text.len()).expect("a short message"));
        framed.put_slice(text.as_bytes());
        world.inject(self.record(&framed));
    }

    /// The next message.
    pub(crate) async fn recv(&mut self, world: &mut World) -> Value {
        loop {
            if let Some((prefix, rest)) = self.received.split_first_chunk::<4>() {
                let len = usize::try_from(u32::from_be_bytes(*prefix)).expect("a length");
                if rest.len() >= len {
                    let message = serde_json::from_slice(&rest[..len]).expect("json");
                    self.received.drain(..4 + len);
                    return message;
                }
            }
            let frame = world.stray().await;
            assert_eq!(frame.stream_id, self.id);
            match frame.body {
                Body::Data { payload, .. } => self.opener.open(&payload, &mut self.received).expect("authentic"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Opens a session.
    pub(crate) async fn initialize(&mut self, world: &mut World) {
        self.send(
            world,
            &json!({"id": 1, "method": "initialize", "params": {"clientName": "raw"}}),
        );
        let answer = self.recv(world).await;
        assert!(answer["result"]["sessionId"].is_string(), "{answer}");
        self.send(world, &json!({"method": "initialized"}));
        self.works(world).await;
    }

    /// A question is answered.
    pub(crate) async fn works(&mut self, world: &mut World) {
        self.send(world, &json!({"id": "status", "method": "environment/status"}));
        let answer = self.recv(world).await;
        assert_eq!(answer["result"]["status"], "ready", "{answer}");
    }
}

/// The executor resets this stream next.
pub(crate) async fn is_reset(world: &mut World, stream: &StreamId) {
    let frame = world.stray().await;
    assert_eq!(frame.stream_id, *stream, "{frame:?}");
    assert!(matches!(frame.body, Body::Reset { .. }), "{frame:?}");
}

/// The executor has sent nothing since the last stray frame: its next answer is the one to a frame for nobody's stream.
pub(crate) async fn is_silent(world: &mut World) {
    let probe = stream_id();
    let payload = Bytes::from_static(b"probe");
    world.inject(binary(&probe, Body::Data { seq: 0, payload }));
    is_reset(world, &probe).await;
}
