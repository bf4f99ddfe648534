//! The key pair that signs fuzzed tickets.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use rendezvous_wire::control::TicketKey;

use crate::{KEY_ID, TICKET_SEED};

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&TICKET_SEED).expect("any seed is a key")
}

/// What the relay learns.
pub fn public_key() -> TicketKey {
    TicketKey {
        kid: KEY_ID.to_owned(),
        x: URL_SAFE_NO_PAD.encode(pair().public_key()),
    }
}

/// What the registry holds.
pub fn signing_key() -> EncodingKey {
    EncodingKey::from_ed_der(pair().to_pkcs8v1().expect("a key can be written").as_ref())
}
