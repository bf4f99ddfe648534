//! Both roles against clatter, the implementation inside the stock peers.
//!
//! Its ML-KEM is PQClean's here: an implementation of its own, and the only one of clatter's that can stand in one lock
//! file with `ml-kem` 0.3. It is marked as deprecated because PQClean is no longer maintained; for comparing it serves.

use bytes::BytesMut;
use clatter::bytearray::ByteArray as _;
use clatter::crypto::cipher::AesGcm;
use clatter::crypto::dh::X25519;
use clatter::crypto::hash::Sha256;
use clatter::crypto::kem::pqclean_ml_kem::MlKem768;
use clatter::handshakepattern::noise_hybrid_ik;
use clatter::traits::{Dh, Kem};
use clatter::transportstate::TransportState;
use clatter::{Handshaker as _, HybridHandshake, HybridHandshakeParams, KeyPair};
use rendezvous_channel::handshake::CREDENTIAL_REJECTED;
use rendezvous_channel::record::Sealer;
use rendezvous_channel::{Identity, Initiator, Prologue, Responder, SessionKeys};
use rendezvous_wire::key::PublicKey;

use crate::support::{TestRng, prologue};

type Clatter = HybridHandshake<X25519, MlKem768, MlKem768, AesGcm, Sha256>;
type ClatterTransport = TransportState<AesGcm, Sha256>;
type DhPair = KeyPair<<X25519 as Dh>::PubKey, <X25519 as Dh>::PrivateKey>;
type KemPair = KeyPair<<MlKem768 as Kem>::PubKey, <MlKem768 as Kem>::SecretKey>;

/// A static key pair of clatter's.
struct Keys {
    dh: DhPair,
    kem: KemPair,
}

impl Keys {
    fn generate() -> Self {
        Self {
            dh: X25519::genkey().unwrap(),
            kem: MlKem768::genkey().unwrap(),
        }
    }

    fn public(&self) -> PublicKey {
        PublicKey {
            x25519: self.dh.public,
            mlkem768: Box::new(self.kem.public.as_slice().try_into().unwrap()),
        }
    }
}

fn clatter(keys: &Keys, prologue: &Prologue, responder: Option<&PublicKey>) -> Clatter {
    let mut params = HybridHandshakeParams::new(noise_hybrid_ik(), responder.is_some())
        .with_prologue(prologue.as_bytes())
        .with_s(keys.dh.clone())
        .with_s_kem(keys.kem.clone());
    if let Some(key) = responder {
        params = params
            .with_rs(key.x25519)
            .with_rs_kem(<MlKem768 as Kem>::PubKey::from_slice(key.mlkem768.as_slice()));
    }
    Clatter::new(params).unwrap()
}

/// Records of random sizes, the longest included, both ways.
fn exchange(ours: &SessionKeys, theirs: &mut ClatterTransport, rng: &mut TestRng) {
    let (mut sealer, mut opener) = ours.records();
    for round in 0..3 {
        let len = if round == 0 {
            61_440
        } else {
            usize::try_from(rng.below(61_441)).unwrap()
        };
        let text = rng.bytes(len);
        assert_eq!(theirs.receive_vec(&seal(&mut sealer, &text)).unwrap(), text);
        let mut opened = Vec::new();
        opener.open(&theirs.send_vec(&text).unwrap(), &mut opened).unwrap();
        assert_eq!(opened, text);
    }
}

fn seal(sealer: &mut Sealer, text: &[u8]) -> BytesMut {
    let mut record = BytesMut::from(text);
    sealer.seal(&mut record, 0).unwrap();
    record
}

fn our_initiator(ours: &Identity, theirs: &Keys, payload: &[u8], rng: &mut TestRng) {
    let prologue = prologue("stream-1");
    let (initiator, first) = Initiator::start(ours, &theirs.public(), &prologue, payload, rng).unwrap();
    assert_eq!(first.len(), 3568 + payload.len());
    let mut responder = clatter(theirs, &prologue, None);
    let mut buffer = vec![0; 65_535];
    let len = responder.read_message(&first, &mut buffer).unwrap();
    assert_eq!(&buffer[..len], payload);
    let seen = responder.get_remote_static().unwrap();
    assert_eq!(seen.dh(), &ours.public().x25519);
    assert_eq!(seen.kem().as_slice(), ours.public().mlkem768.as_slice());

    let len = responder.write_message(&[], &mut buffer).unwrap();
    assert_eq!(len, 3424);
    let keys = initiator.finish(&buffer[..len]).unwrap();
    assert_eq!(keys.handshake_hash(), responder.get_state().get_hash().as_slice());
    exchange(&keys, &mut responder.finalize().unwrap(), rng);
}

fn our_responder(ours: &Identity, theirs: &Keys, payload: &[u8], rng: &mut TestRng) {
    let prologue = prologue("stream-1");
    let mut initiator = clatter(theirs, &prologue, Some(ours.public()));
    let mut buffer = vec![0; 65_535];
    let len = initiator.write_message(payload, &mut buffer).unwrap();
    let paused = Responder::read(ours, &prologue, &buffer[..len]).unwrap();
    assert_eq!(paused.payload(), payload);
    assert_eq!(paused.initiator_key(), &theirs.public());

    let (second, keys) = paused.accept(rng).unwrap();
    let len = initiator.read_message(&second, &mut buffer).unwrap();
    assert_eq!(len, 0);
    assert_eq!(keys.handshake_hash(), initiator.get_state().get_hash().as_slice());
    exchange(&keys, &mut initiator.finalize().unwrap(), rng);
}

#[test]
fn a_thousand_handshakes_with_clatter() {
    const WORKERS: u64 = 4;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let mut rng = TestRng::new(worker);
                let (ours, theirs) = (Identity::generate(&mut rng), Keys::generate());
                for round in 0..1000 / WORKERS {
                    // Large ones in both roles: even and odd rounds.
                    let most = if round % 10 < 2 { 61_967 } else { 4096 };
                    let len = usize::try_from(rng.below(most + 1)).unwrap();
                    let payload = rng.bytes(len);
                    if round % 2 == 0 {
                        our_initiator(&ours, &theirs, &payload, &mut rng);
                    } else {
                        our_responder(&ours, &theirs, &payload, &mut rng);
                    }
                }
            });
        }
    });
}

#[test]
fn the_longest_and_the_empty_payload() {
    let mut rng = TestRng::new(7);
    let (ours, theirs) = (Identity::generate(&mut rng), Keys::generate());
    for payload in [vec![], vec![b'x'; 61_967]] {
        our_initiator(&ours, &theirs, &payload, &mut rng);
        our_responder(&ours, &theirs, &payload, &mut rng);
    }
}

#[test]
fn our_refusal_reaches_a_stock_harness() {
    let mut rng = TestRng::new(8);
    let (ours, theirs, prologue) = (Identity::generate(&mut rng), Keys::generate(), prologue("stream-1"));
    let mut initiator = clatter(&theirs, &prologue, Some(ours.public()));
    let mut buffer = vec![0; 65_535];
    let len = initiator.write_message(b"authorization", &mut buffer).unwrap();
    let paused = Responder::read(&ours, &prologue, &buffer[..len]).unwrap();
    let second = paused.refuse(&mut rng, CREDENTIAL_REJECTED).unwrap();
    let len = initiator.read_message(&second, &mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"codex-registry-authentication-rejected/v1");
}
