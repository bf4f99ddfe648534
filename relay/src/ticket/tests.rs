#![expect(clippy::type_complexity, reason = "a table of cases")]

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use jsonwebtoken::{EncodingKey, Header, encode};
use rendezvous_wire::id::{CredentialId, RegistrationId};
use rendezvous_wire::key::KeyDigest;
use serde_json::{Value, json};

use super::*;

/// A registry's signing key.
struct Signer {
    kid: &'static str,
    private: EncodingKey,
    public: TicketKey,
}

impl Signer {
    fn new(kid: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        let private = EncodingKey::from_ed_der(pair.to_pkcs8().unwrap().as_ref());
        let public = TicketKey {
            kid: kid.into(),
            x: B64.encode(pair.public_key().as_ref()),
        };
        Self { kid, private, public }
    }

    fn sign(&self, claims: &impl serde::Serialize) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.kid.into());
        encode(&header, claims, &self.private).unwrap()
    }
}

fn boot() -> BootId {
    BootId::new("boot-1").unwrap()
}

fn env() -> EnvironmentId {
    EnvironmentId::new("env").unwrap()
}

fn claims(role: Role) -> Claims {
    let executor = role == Role::Executor;
    Claims {
        aud: if executor {
            EXECUTOR_AUDIENCE.into()
        } else {
            boot().as_str().into()
        },
        iat: 1000,
        exp: 1060,
        jti: "ticket-1".into(),
        role,
        env: env(),
        reg: RegistrationId::new("reg").unwrap(),
        generation: 1,
        sub: CredentialId::new("cred").unwrap(),
        ends: None,
        key: (!executor).then_some(KeyDigest([7; 32])),
    }
}

fn verify(signer: &Signer, ticket: &str, now: u64) -> Result<Claims, TicketError> {
    KeySet::new(std::slice::from_ref(&signer.public)).verify(ticket, &env(), &boot(), now)
}

#[test]
fn both_roles_get_in_until_the_end() {
    let signer = Signer::new("k1");
    for role in [Role::Executor, Role::Harness] {
        let ticket = signer.sign(&claims(role));
        assert_eq!(verify(&signer, &ticket, 1059), Ok(claims(role)));
        assert_eq!(verify(&signer, &ticket, 1060), Err(TicketError::Expired));
        // The credential may end before the ticket.
        let mut claims = claims(role);
        claims.ends = Some(1050);
        let ticket = signer.sign(&claims);
        assert_eq!(verify(&signer, &ticket, 1049), Ok(claims));
        assert_eq!(verify(&signer, &ticket, 1050), Err(TicketError::Expired));
    }
}

#[test]
fn any_key_of_the_set_will_do() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let set = KeySet::new(&[old.public.clone(), new.public.clone()]);
    for signer in [&old, &new] {
        let ticket = signer.sign(&claims(Role::Harness));
        assert!(set.verify(&ticket, &env(), &boot(), 1000).is_ok());
    }
    let rotated = KeySet::new(&[new.public]);
    assert_eq!(
        rotated.verify(&old.sign(&claims(Role::Harness)), &env(), &boot(), 1000),
        Err(TicketError::UnknownKey)
    );
}

#[test]
fn claims_that_do_not_fit() {
    let signer = Signer::new("k1");
    let cases: [(fn(&mut Claims), Role, TicketError); 10] = [
        (
            |c| c.env = EnvironmentId::new("other").unwrap(),
            Role::Harness,
            TicketError::Environment,
        ),
        (
            |c| c.env = EnvironmentId::new("other").unwrap(),
            Role::Executor,
            TicketError::Environment,
        ),
        (|c| c.aud = "boot-0".into(), Role::Harness, TicketError::Audience),
        (|c| c.aud = "somebody".into(), Role::Executor, TicketError::Audience),
        (|c| c.aud = EXECUTOR_AUDIENCE.into(), Role::Harness, TicketError::Role),
        (|c| c.aud = boot().as_str().into(), Role::Executor, TicketError::Role),
        (|c| c.key = None, Role::Harness, TicketError::Role),
        (|c| c.key = claims(Role::Harness).key, Role::Executor, TicketError::Role),
        (|c| c.role = Role::Executor, Role::Harness, TicketError::Role),
        (|c| c.jti = "j".repeat(MAX_JTI + 1), Role::Harness, TicketError::Role),
    ];
    for (change, role, error) in cases {
        let mut claims = claims(role);
        change(&mut claims);
        assert_eq!(verify(&signer, &signer.sign(&claims), 1000), Err(error), "{claims:?}");
    }
}

#[test]
fn forgeries() {
    let signer = Signer::new("k1");
    let good = signer.sign(&claims(Role::Harness));
    let parts: Vec<_> = good.split('.').collect();
    let encode = |value: &Value| B64.encode(value.to_string());
    let mut richer = serde_json::to_value(claims(Role::Harness)).unwrap();
    richer["sub"] = json!("somebody-else");
    let impostor = Signer {
        kid: "k1",
        ..Signer::new("k2")
    };
    let hs256 = encode(&json!({"alg": "HS256", "kid": "k1"}));
    let none = encode(&json!({"alg": "none", "kid": "k1"}));
    let no_kid = encode(&json!({"alg": "EdDSA"}));
    for (ticket, error) in [
        (
            format!("{}.{}.{}", parts[0], encode(&richer), parts[2]),
            TicketError::Signature,
        ),
        (impostor.sign(&claims(Role::Harness)), TicketError::Signature),
        (format!("{hs256}.{}.{}", parts[1], parts[2]), TicketError::Signature),
        (format!("{none}.{}.", parts[1]), TicketError::Malformed),
        (format!("{no_kid}.{}.{}", parts[1], parts[2]), TicketError::UnknownKey),
        (format!("{}.{}.", parts[0], parts[1]), TicketError::Signature),
        (format!("{}.{}", parts[0], parts[1]), TicketError::Malformed),
        (String::new(), TicketError::Malformed),
        ("..".into(), TicketError::Malformed),
        ("é.é.é".into(), TicketError::Malformed),
        (format!("{good}{}", "A".repeat(MAX_TICKET)), TicketError::Malformed),
    ] {
        assert_eq!(verify(&signer, &ticket, 1000), Err(error), "{ticket}");
    }
    // One changed character anywhere.
    for index in (0..good.len()).step_by(7) {
        let mut forged = good.clone().into_bytes();
        forged[index] = if forged[index] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        assert!(verify(&signer, &forged, 1000).is_err(), "{index}");
    }
}

#[test]
fn signed_nonsense() {
    let signer = Signer::new("k1");
    let mut extra = serde_json::to_value(claims(Role::Harness)).unwrap();
    extra["admin"] = json!(true);
    let mut missing = serde_json::to_value(claims(Role::Harness)).unwrap();
    missing.as_object_mut().unwrap().remove("exp");
    let mut role = serde_json::to_value(claims(Role::Harness)).unwrap();
    role["role"] = json!("admin");
    for claims in [extra, missing, role, json!({}), json!([])] {
        assert_eq!(
            verify(&signer, &signer.sign(&claims), 1000),
            Err(TicketError::Malformed),
            "{claims}"
        );
    }
}

#[test]
fn malformed_keys_are_left_out() {
    let signer = Signer::new("k1");
    let bad = TicketKey {
        kid: "bad".into(),
        x: "!".into(),
    };
    let set = KeySet::new(&[bad, signer.public.clone()]);
    assert!(!set.is_empty());
    assert!(
        set.verify(&signer.sign(&claims(Role::Executor)), &env(), &boot(), 1000)
            .is_ok()
    );
}
