//! What several tests need.

use std::convert::Infallible;
use std::time::Instant;

use rand_core::{Rng as _, TryCryptoRng, TryRng};
use rendezvous_channel::budget::Budget;
use rendezvous_channel::stream::{Event, Stream, Target};
use rendezvous_channel::{Identity, Prologue};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::secret::Secret;
use sha2::{Digest as _, Sha256};

/// SHA-256 of seed and counter: enough for tests, and the same everywhere.
pub(crate) struct TestRng {
    seed: u64,
    block: u64,
}

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, block: 0 }
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }

    /// True in `percent` of the cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill_bytes(&mut bytes);
        bytes
    }
}

impl TryRng for TestRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for part in out.chunks_mut(32) {
            let mut hash = Sha256::new();
            hash.update(self.seed.to_le_bytes());
            hash.update(self.block.to_le_bytes());
            self.block += 1;
            part.copy_from_slice(&hash.finalize()[..part.len()]);
        }
        Ok(())
    }
}

impl TryCryptoRng for TestRng {}

pub(crate) fn environment() -> EnvironmentId {
    EnvironmentId::new("env-1").unwrap()
}

pub(crate) fn registration() -> RegistrationId {
    RegistrationId::new("registration-1").unwrap()
}

pub(crate) fn stream_id(name: &str) -> StreamId {
    StreamId::new(name).unwrap()
}

pub(crate) fn prologue(stream: &str) -> Prologue {
    Prologue::new(&environment(), &registration(), &stream_id(stream))
}

pub(crate) fn unlimited() -> Budget {
    Budget::new(usize::MAX)
}

/// A harness that opens `stream` to the holder of `executor`.
pub(crate) fn harness(
    now: Instant,
    stream: &str,
    identity: &Identity,
    executor: &Identity,
    authorization: &str,
    rng: &mut TestRng,
) -> Stream {
    let target = Target {
        environment: &environment(),
        registration: &registration(),
        executor_key: executor.public(),
        authorization: &Secret::new(authorization),
    };
    Stream::connect(now, stream_id(stream), identity, &target, &unlimited(), rng).unwrap()
}

pub(crate) fn events(stream: &mut Stream) -> Vec<Event> {
    std::iter::from_fn(|| stream.poll_event()).collect()
}
