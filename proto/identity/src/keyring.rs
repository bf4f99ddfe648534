//! The static keys of one end, in memory.

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::identity::IdentityClaim;

/// Who we are: a key, and those that we had before and still answer to. Clones share the secrets.
#[derive(Clone, Debug)]
pub struct Keyring {
    current: Identity,
    previous: Vec<Identity>,
    persistent: bool,
}

impl Keyring {
    /// A new key that is gone with this process, as stock ends have it.
    ///
    /// # Panics
    ///
    /// If the system gives no random numbers.
    pub fn ephemeral() -> Self {
        Self {
            current: Identity::generate(&mut UnwrapErr(SysRng)),
            previous: Vec::new(),
            persistent: false,
        }
    }

    pub(crate) fn persistent(current: Identity, previous: Vec<Identity>) -> Self {
        Self {
            current,
            previous,
            persistent: true,
        }
    }

    /// The key that we name.
    pub fn current(&self) -> &Identity {
        &self.current
    }

    /// The keys before it that we still answer to, the newest first.
    pub fn previous(&self) -> &[Identity] {
        &self.previous
    }

    /// Whether the key outlives this process.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// What people compare the key by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.current.public().fingerprint()
    }

    /// What an executor says of its keys at the registry.
    pub fn claim(&self) -> IdentityClaim {
        IdentityClaim {
            persistent: self.persistent,
            previous: self.previous.iter().map(|key| key.public().digest()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::IdentityFile;

    #[test]
    fn two_keys_have_no_half_in_common() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| {
            let keys = IdentityFile::new(folder.path().join(name), None).create(0).unwrap();
            keys.keyring(0).current().public().clone()
        });
        assert_ne!(one.x25519, two.x25519);
        assert_ne!(one.mlkem768, two.mlkem768);
    }

    #[test]
    fn a_key_that_ends_with_its_process_claims_nothing() {
        let keyring = Keyring::ephemeral();
        assert!(!keyring.is_persistent());
        assert_eq!(keyring.claim(), IdentityClaim::default());
    }
}
