//! Nothing but the messages of the two named keys, for this very stream, makes a session.

use rendezvous_channel::handshake::HandshakeError;
use rendezvous_channel::{Identity, Initiator, Paused, Prologue, Responder};
use rendezvous_wire::id::{EnvironmentId, RegistrationId};
use rendezvous_wire::key::PublicKey;

use crate::support::{TestRng, environment, prologue, registration, stream_id};

struct World {
    rng: TestRng,
    harness: Identity,
    executor: Identity,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        Self {
            harness: Identity::generate(&mut rng),
            executor: Identity::generate(&mut rng),
            rng,
        }
    }

    fn start(&mut self, key: &PublicKey) -> (Initiator, Vec<u8>) {
        Initiator::start(&self.harness, key, &prologue("s"), b"payload", &mut self.rng).unwrap()
    }

    fn read(&self, message: &[u8]) -> Result<Paused, HandshakeError> {
        Responder::read(&self.executor, &prologue("s"), message)
    }
}

/// The bits of a byte that are flipped, one at a time: `usual` of them, others from byte to byte; all with
/// `RENDEZVOUS_FULL=1`.
fn bits(index: usize, usual: usize) -> Vec<usize> {
    let all = std::env::var_os("RENDEZVOUS_FULL").is_some_and(|value| value == "1");
    let count = if all { 8 } else { usual };
    (0..count).map(|nth| (index + 3 * nth) % 8).collect()
}

/// Calls `check` for every byte of a message, on several threads.
fn each_byte(len: usize, check: impl Fn(usize) + Sync) {
    const WORKERS: usize = 4;
    let check = &check;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || (worker..len).step_by(WORKERS).for_each(check));
        }
    });
}

#[test]
fn a_flipped_bit_anywhere_in_message_1_is_refused() {
    let mut world = World::new(1);
    let key = world.executor.public().clone();
    let (_, message) = world.start(&key);
    assert!(world.read(&message).is_ok());
    each_byte(message.len(), |index| {
        for bit in bits(index, 2) {
            let mut forged = message.clone();
            forged[index] ^= 1 << bit;
            assert!(world.read(&forged).is_err(), "bit {bit} of byte {index}");
        }
    });
}

#[test]
fn a_flipped_bit_anywhere_in_message_2_is_refused() {
    // The same draws give the same messages, so each byte can be tried on a state of its own.
    let message_2 = |forge: &dyn Fn(&mut Vec<u8>)| {
        let mut world = World::new(2);
        let key = world.executor.public().clone();
        let (initiator, first) = world.start(&key);
        let (mut second, _) = world.read(&first).unwrap().accept(&mut world.rng).unwrap();
        forge(&mut second);
        initiator.finish(&second)
    };
    assert!(message_2(&|_| {}).is_ok());
    each_byte(3424, |index| {
        // Each needs a handshake of its own.
        for bit in bits(index, 1) {
            let result = message_2(&|second| second[index] ^= 1 << bit);
            assert!(result.is_err(), "bit {bit} of byte {index}");
        }
    });
}

#[test]
fn a_wrong_half_of_the_executors_key_is_refused() {
    let mut world = World::new(3);
    let right = world.executor.public().clone();
    let other = Identity::generate(&mut world.rng).public().clone();
    let (_, message) = world.start(&PublicKey {
        x25519: other.x25519,
        ..right.clone()
    });
    assert_eq!(world.read(&message).unwrap_err(), HandshakeError::NotAuthentic);
    let (_, message) = world.start(&PublicKey {
        mlkem768: other.mlkem768,
        x25519: right.x25519,
    });
    assert_eq!(world.read(&message).unwrap_err(), HandshakeError::NotAuthentic);
    // A key that is none is refused before anything is sent.
    let broken = PublicKey {
        mlkem768: Box::new([0xff; 1184]),
        ..right
    };
    let error = Initiator::start(&world.harness, &broken, &prologue("s"), b"", &mut world.rng).unwrap_err();
    assert_eq!(error, HandshakeError::InvalidResponderKey);
}

#[test]
fn an_answer_by_another_executor_is_refused() {
    let mut world = World::new(4);
    let key = world.executor.public().clone();
    let (first_try, message) = world.start(&key);
    let (second_try, _) = world.start(&key);
    let (answer, _) = world.read(&message).unwrap().accept(&mut world.rng).unwrap();
    // The answer to one handshake is no answer to another one of the same two keys.
    assert_eq!(second_try.finish(&answer).unwrap_err(), HandshakeError::NotAuthentic);
    assert!(first_try.finish(&answer).is_ok());
}

#[test]
fn a_difference_in_any_part_of_the_prologue_is_refused() {
    let mut world = World::new(5);
    let key = world.executor.public().clone();
    let (_, message) = world.start(&key);
    let (environment, registration, stream) = (environment(), registration(), stream_id("s"));
    let other_environment = EnvironmentId::new("env-2").unwrap();
    let other_registration = RegistrationId::new("registration-2").unwrap();
    let shifted = (
        EnvironmentId::new("env-").unwrap(),
        RegistrationId::new("1registration-1").unwrap(),
    );
    for prologue in [
        Prologue::new(&other_environment, &registration, &stream),
        Prologue::new(&environment, &other_registration, &stream),
        Prologue::new(&environment, &registration, &stream_id("t")),
        Prologue::new(&shifted.0, &shifted.1, &stream),
    ] {
        let result = Responder::read(&world.executor, &prologue, &message);
        assert_eq!(result.unwrap_err(), HandshakeError::NotAuthentic);
    }
}

#[test]
fn lengths_outside_of_noise_are_refused() {
    let mut world = World::new(6);
    for len in [0, 1, 3567, 65_536, 1_000_000] {
        let error = world.read(&vec![0; len]).unwrap_err();
        assert_eq!(error, HandshakeError::Length { len, at_least: 3568 });
    }
    for len in [3568, 65_535] {
        assert_eq!(world.read(&vec![0; len]).unwrap_err(), HandshakeError::NotAuthentic);
    }
    let key = world.executor.public().clone();
    for len in [0, 3423, 65_536] {
        let (initiator, _) = world.start(&key);
        let error = initiator.finish(&vec![0; len]).unwrap_err();
        assert_eq!(error, HandshakeError::Length { len, at_least: 3424 });
    }
    let (initiator, _) = world.start(&key);
    assert_eq!(
        initiator.finish(&vec![0; 65_535]).unwrap_err(),
        HandshakeError::NotAuthentic
    );
    let too_long = vec![0; 61_968];
    let error = Initiator::start(&world.harness, &key, &prologue("s"), &too_long, &mut world.rng).unwrap_err();
    assert_eq!(
        error,
        HandshakeError::PayloadTooLong {
            len: 61_968,
            limit: 61_967
        }
    );
}
