//! A relay's check of a ticket. The first byte chooses: the rest is a whole ticket, or claims that are signed here with the
//! right key, so that the fuzzer reaches what stands behind the signature.

#![no_main]

use std::sync::LazyLock;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use libfuzzer_sys::fuzz_target;
use rendezvous_fuzz::{NOW, boot_id, environment, ticket};
use rendezvous_relay::ticket::KeySet;
use rendezvous_wire::id::{BootId, EnvironmentId};
use rendezvous_wire::ticket::{EXECUTOR_AUDIENCE, Role};

static KEYS: LazyLock<KeySet> = LazyLock::new(|| KeySet::new(&[ticket::public_key()]));
static SIGNER: LazyLock<EncodingKey> = LazyLock::new(ticket::signing_key);
static ENVIRONMENT: LazyLock<EnvironmentId> = LazyLock::new(environment);
static BOOT_ID: LazyLock<BootId> = LazyLock::new(boot_id);

fuzz_target!(|data: &[u8]| {
    let ticket = match data.split_first() {
        Some((0, text)) => match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => return,
        },
        Some((1, claims)) => {
            let Ok(claims) = serde_json::from_slice::<serde_json::Value>(claims) else {
                return;
            };
            let mut header = Header::new(Algorithm::EdDSA);
            header.kid = Some(rendezvous_fuzz::KEY_ID.to_owned());
            jsonwebtoken::encode(&header, &claims, &SIGNER).expect("JSON can be signed")
        }
        _ => return,
    };
    if let Ok(claims) = KEYS.verify(&ticket, &ENVIRONMENT, &BOOT_ID, NOW) {
        assert!(claims.exp > NOW);
        assert_eq!(claims.env, *ENVIRONMENT);
        match claims.role {
            Role::Executor => assert_eq!(claims.aud, EXECUTOR_AUDIENCE),
            Role::Harness => {
                assert_eq!(claims.aud, BOOT_ID.as_str());
                assert!(claims.key.is_some());
            }
        }
    }
});
