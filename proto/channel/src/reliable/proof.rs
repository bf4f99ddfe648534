//! The proof that a resume comes from the end that shook hands.

use hmac::{Hmac, KeyInit as _, Mac as _};
use rendezvous_wire::id::StreamId;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::primitives::hash::{Hash, SecretHash, hkdf_labelled};

/// Length of a proof.
pub const PROOF_LEN: usize = 32;

const LABEL: &[u8] = b"rendezvous/reliableStream/1/resume";

/// Which end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The harness: it dials again and resumes first.
    Initiator,
    /// The executor: it answers.
    Responder,
}

impl Role {
    /// The other end.
    pub(crate) fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// The key of the proofs of one stream, the same at both ends. It is wiped on drop.
pub(crate) struct ResumeKey(SecretHash);

impl ResumeKey {
    /// Derives the key from what a handshake left: its hash, and a secret of its own.
    pub(crate) fn new(handshake_hash: &Hash, exporter: &SecretHash) -> Self {
        Self(hkdf_labelled(handshake_hash, exporter.as_slice(), LABEL))
    }

    /// The proof of a resume.
    pub(crate) fn prove(&self, role: Role, stream: &StreamId, epoch: u64, next_seq: u32) -> [u8; PROOF_LEN] {
        self.mac(role, stream, epoch, next_seq).finalize().into_bytes().into()
    }

    /// Whether a proof holds. Takes the same time for every wrong one.
    pub(crate) fn verify(
        &self,
        role: Role,
        stream: &StreamId,
        epoch: u64,
        next_seq: u32,
        proof: &[u8; PROOF_LEN],
    ) -> bool {
        self.mac(role, stream, epoch, next_seq).verify_slice(proof).is_ok()
    }

    fn mac(&self, role: Role, stream: &StreamId, epoch: u64, next_seq: u32) -> Hmac<Sha256> {
        let role = match role {
            Role::Initiator => 1,
            Role::Responder => 2,
        };
        let stream = stream.as_str().as_bytes();
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("HMAC takes keys of any length");
        mac.update(&[role]);
        mac.update(&(stream.len() as u64).to_be_bytes());
        mac.update(stream);
        mac.update(&epoch.to_be_bytes());
        mac.update(&next_seq.to_be_bytes());
        mac
    }
}

impl Clone for ResumeKey {
    fn clone(&self) -> Self {
        Self(Zeroizing::new(*self.0))
    }
}

impl std::fmt::Debug for ResumeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResumeKey([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hash: u8, exporter: u8) -> ResumeKey {
        ResumeKey::new(&[hash; 32], &Zeroizing::new([exporter; 32]))
    }

    fn stream(name: &str) -> StreamId {
        StreamId::new(name).unwrap()
    }

    #[test]
    fn a_proof_holds_for_exactly_what_it_names() {
        let (ours, s) = (key(1, 2), stream("s"));
        let proof = ours.prove(Role::Initiator, &s, 7, 9);
        assert!(ours.verify(Role::Initiator, &s, 7, 9, &proof));
        assert!(!ours.verify(Role::Responder, &s, 7, 9, &proof));
        assert!(!ours.verify(Role::Initiator, &stream("t"), 7, 9, &proof));
        assert!(!ours.verify(Role::Initiator, &s, 8, 9, &proof));
        assert!(!ours.verify(Role::Initiator, &s, 7, 8, &proof));
        assert!(!key(1, 3).verify(Role::Initiator, &s, 7, 9, &proof));
        assert!(!key(3, 2).verify(Role::Initiator, &s, 7, 9, &proof));
        for bit in 0..PROOF_LEN * 8 {
            let mut forged = proof;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!ours.verify(Role::Initiator, &s, 7, 9, &forged));
        }
    }

    /// Made independently of this crate, from the definition in ADR 0007 (Python's hmac and hashlib).
    #[test]
    fn the_proof_is_the_one_that_is_written_down() {
        let proof = key(1, 2).prove(Role::Initiator, &stream("stream-1"), 7, 9);
        assert_eq!(
            hex::encode(proof),
            "490e7dec8621530371140329ee9b0e568846badd3a8e772e843e0ed974562229"
        );
    }
}
