//! The published vectors byte for byte, with every draw injected.

use std::convert::Infallible;

use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};

use super::{CREDENTIAL_REJECTED, HandshakeError, Initiator, Prologue, Responder};
use crate::identity::Identity;
use crate::primitives::aead::{Aead, AwsLc, RustCrypto};
use crate::record::{Opener, Sealer};

struct Vectors(serde_json::Value);

impl Vectors {
    fn load() -> Self {
        Self(serde_json::from_str(include_str!("../../tests/vectors/hybrid-ik.json")).unwrap())
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        hex::decode(self.0[name].as_str().unwrap_or_else(|| panic!("no {name}"))).unwrap()
    }

    fn array<const N: usize>(&self, name: &str) -> [u8; N] {
        self.bytes(name).try_into().unwrap()
    }

    fn identity(&self, role: &str) -> Identity {
        let mut seed = self.bytes(&format!("{role}_static_mlkem_d"));
        seed.extend(self.bytes(&format!("{role}_static_mlkem_z")));
        let x25519 = self.array(&format!("{role}_static_x25519_secret"));
        Identity::from_seeds(&x25519, &seed.try_into().unwrap())
    }

    fn rng(&self, draws: &[&str]) -> Script {
        Script(draws.iter().rev().map(|name| self.array(name)).collect())
    }
}

/// Gives exactly the scripted draws, 32 bytes each.
struct Script(Vec<[u8; 32]>);

impl rand_core::TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("unexpected draw")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        panic!("unexpected draw")
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for part in out.chunks_exact_mut(32) {
            part.copy_from_slice(&self.0.pop().expect("no draw left"));
        }
        assert!(out.len().is_multiple_of(32));
        Ok(())
    }
}

impl rand_core::TryCryptoRng for Script {}

fn prologue() -> Prologue {
    Prologue::new(
        &EnvironmentId::new("env-1").unwrap(),
        &RegistrationId::new("registration-1").unwrap(),
        &StreamId::new("stream-1").unwrap(),
    )
}

fn message_1(vectors: &Vectors) -> (Initiator, Vec<u8>) {
    let mut rng = vectors.rng(&[
        "msg1_skem_m",
        "msg1_e_x25519_secret",
        "msg1_e_mlkem_d",
        "msg1_e_mlkem_z",
    ]);
    let started = Initiator::start(
        &vectors.identity("initiator"),
        vectors.identity("responder").public(),
        &prologue(),
        &vectors.bytes("msg1_payload_utf8_hex"),
        &mut rng,
    )
    .unwrap();
    assert!(rng.0.is_empty());
    started
}

fn message_2_rng(vectors: &Vectors) -> Script {
    vectors.rng(&[
        "msg2_ekem_m",
        "msg2_skem_m",
        "msg2_e_x25519_secret",
        "msg2_e_mlkem_d",
        "msg2_e_mlkem_z",
    ])
}

#[test]
fn identities_and_prologue() {
    let vectors = Vectors::load();
    for role in ["initiator", "responder"] {
        let identity = vectors.identity(role);
        let public = identity.public();
        assert_eq!(public.x25519.to_vec(), vectors.bytes(&format!("{role}_x25519_public")));
        assert_eq!(public.mlkem768.to_vec(), vectors.bytes(&format!("{role}_mlkem_public")));
        assert_eq!(format!("{identity:?}"), format!("Identity({})", public.digest()));
    }
    assert_eq!(prologue().as_bytes(), vectors.bytes("prologue"));
}

#[test]
fn both_messages_and_all_states() {
    let vectors = Vectors::load();
    let (initiator, first) = message_1(&vectors);
    assert_eq!(first, vectors.bytes("msg1"));
    let after_first = (vectors.array("h_after_msg1"), vectors.array("ck_after_msg1"));
    assert_eq!(initiator.symmetric().state(), after_first);

    let paused = Responder::read(&vectors.identity("responder"), &prologue(), &first).unwrap();
    assert_eq!(paused.initiator_key(), vectors.identity("initiator").public());
    assert_eq!(paused.payload(), vectors.bytes("msg1_payload_utf8_hex"));
    assert_eq!(paused.symmetric().state(), after_first);

    let mut rng = message_2_rng(&vectors);
    let (second, responder) = paused.accept(&mut rng).unwrap();
    assert!(rng.0.is_empty());
    assert_eq!(second, vectors.bytes("msg2"));
    let initiator = initiator.finish(&second).unwrap();

    let (forward, back) = (
        vectors.array("key_initiator_to_responder"),
        vectors.array("key_responder_to_initiator"),
    );
    assert_eq!((&*initiator.sending, &*initiator.receiving), (&forward, &back));
    assert_eq!((&*responder.sending, &*responder.receiving), (&back, &forward));
    for keys in [&initiator, &responder] {
        assert_eq!(keys.handshake_hash(), &vectors.array("h_after_msg2"));
    }
}

fn records<A: Aead>() {
    let vectors = Vectors::load();
    for (key, names) in [
        ("key_initiator_to_responder", &["i2r_record0", "i2r_record1"] as &[&str]),
        ("key_responder_to_initiator", &["r2i_record0"]),
    ] {
        let mut sealer = Sealer::<A>::new(&vectors.array(key));
        let mut opener = Opener::<A>::new(&vectors.array(key));
        for name in names {
            let plain = vectors.bytes(&format!("{name}_plain"));
            let mut record = bytes::BytesMut::from(plain.as_slice());
            sealer.seal(&mut record, 0).unwrap();
            assert_eq!(record, vectors.bytes(&format!("{name}_cipher")));
            let mut opened = Vec::new();
            opener.open(&record, &mut opened).unwrap();
            assert_eq!(opened, plain);
        }
    }
}

#[test]
fn transport_records_of_both_providers() {
    records::<AwsLc>();
    records::<RustCrypto>();
}

#[test]
fn a_refusal_is_read_by_the_initiator_only_as_such() {
    let vectors = Vectors::load();
    let refuse = |reason: &[u8]| {
        let (initiator, first) = message_1(&vectors);
        let paused = Responder::read(&vectors.identity("responder"), &prologue(), &first).unwrap();
        let second = paused.refuse(&mut message_2_rng(&vectors), reason).unwrap();
        assert_eq!(second.len(), 3424 + reason.len());
        initiator.finish(&second).unwrap_err()
    };
    let refused = |text: &str| HandshakeError::Refused(text.to_owned());
    assert_eq!(refuse(b"not\x1b[31m you\n"), refused("not[31m you"));
    assert_eq!(refuse(b"x"), refused("x"));
    assert_eq!(refuse(&[0xff; 40]), refused("no readable reason"));
    assert_eq!(refuse(&[b'x'; 5000]), refused(&"x".repeat(256)));
    assert_eq!(CREDENTIAL_REJECTED.len(), 41);
    assert_eq!(
        refuse(CREDENTIAL_REJECTED),
        refused("the registry rejected the executor's credential")
    );
    let (_, first) = message_1(&vectors);
    let paused = Responder::read(&vectors.identity("responder"), &prologue(), &first).unwrap();
    let error = paused.refuse(&mut message_2_rng(&vectors), b"").unwrap_err();
    assert_eq!(error, HandshakeError::NoReason);
}
