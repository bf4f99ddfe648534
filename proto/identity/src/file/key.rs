use std::fmt;

use rendezvous_channel::Identity;
use rendezvous_wire::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::IdentityError;
use crate::keyring::Keyring;

/// X25519 secret and ML-KEM seed.
const X25519_LEN: usize = 32;
const MLKEM_LEN: usize = 64;
pub(super) const SEED_LEN: usize = X25519_LEN + MLKEM_LEN;

/// What a key is made of. Wiped when it is dropped.
pub(super) type Seed = Zeroizing<[u8; SEED_LEN]>;

/// One key with its dates, in seconds since 1970. `Debug` shows what people may see.
#[derive(Clone)]
pub struct Key {
    seed: Seed,
    identity: Identity,
    created: u64,
    pub(super) retired: Option<Retired>,
}

/// When a key was replaced, and until when it is still answered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// When another key took its place.
    pub at: u64,
    /// The end.
    pub until: u64,
}

/// All keys of a file, the current one first.
#[derive(Clone, Debug)]
pub struct Keys {
    pub(super) current: Key,
    pub(super) earlier: Vec<Key>,
}

impl Key {
    pub(super) fn generate(now: u64) -> Result<Self, IdentityError> {
        let mut seed = Seed::new([0; SEED_LEN]);
        getrandom::fill(&mut *seed).map_err(|_| IdentityError::System("the system gives no random numbers"))?;
        Ok(Self::new(seed, now, None))
    }

    pub(super) fn new(seed: Seed, created: u64, retired: Option<Retired>) -> Self {
        let (mut x25519, mut mlkem) = (Zeroizing::new([0; X25519_LEN]), Zeroizing::new([0; MLKEM_LEN]));
        x25519.copy_from_slice(&seed[..X25519_LEN]);
        mlkem.copy_from_slice(&seed[X25519_LEN..]);
        Self {
            identity: Identity::from_seeds(&x25519, &mlkem),
            seed,
            created,
            retired,
        }
    }

    pub(super) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// What people compare it by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.identity.public().fingerprint()
    }

    /// When it was made.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// When it was replaced, if it was.
    pub fn retired(&self) -> Option<Retired> {
        self.retired
    }

    /// Whether it is an earlier key that is still answered to.
    pub(super) fn is_kept(&self, now: u64) -> bool {
        self.retired.is_some_and(|retired| now < retired.until)
    }
}

impl Keys {
    /// The key in use.
    pub fn current(&self) -> &Key {
        &self.current
    }

    /// The keys before it, the newest first.
    pub fn earlier(&self) -> &[Key] {
        &self.earlier
    }

    /// The keys as the channel uses them, without earlier ones whose time is over.
    pub fn keyring(&self, now: u64) -> Keyring {
        let kept = self.earlier.iter().filter(|key| key.is_kept(now));
        Keyring::persistent(
            self.current.identity.clone(),
            kept.map(|key| key.identity.clone()).collect(),
        )
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("fingerprint", &self.fingerprint())
            .field("created", &self.created)
            .field("retired", &self.retired)
            .finish_non_exhaustive()
    }
}
