//! Who may connect to the listener: whoever holds a token, or a bearer token signed with a shared secret.
//!
//! Flags and rules are those of the stock executor, except that a secret file must be private and a token that names
//! critical extensions (`crit`) is refused.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use rendezvous_wire::secret::Secret;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Shortest shared secret, in bytes.
pub const MIN_SHARED_SECRET: usize = 32;
/// How far the clocks of whoever signs and of this machine may be apart, unless told otherwise.
pub const DEFAULT_CLOCK_SKEW: Duration = Duration::from_secs(30);
/// Longest bearer token that is looked at.
const MAX_TOKEN: usize = 16 * 1024;

/// Why a setting for authentication is unusable; the user is at fault.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthError {
    /// Not the digest of a token.
    #[error("--ws-token-sha256 must be a SHA-256 digest: 64 hexadecimal digits")]
    Digest,
    /// Less than [`MIN_SHARED_SECRET`] bytes.
    #[error("the shared secret must have at least {MIN_SHARED_SECRET} bytes")]
    ShortSecret,
}

/// Why a request is refused; the peer is at fault.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No `Authorization: Bearer …`, or more than one.
    #[error("no bearer token")]
    Missing,
    /// Another token, or one with a signature that does not verify.
    #[error("wrong bearer token")]
    Wrong,
    /// Signed, but not now: before `nbf` or after `exp`.
    #[error("bearer token out of its time")]
    Time,
    /// Signed by or for somebody else.
    #[error("bearer token with another issuer or audience")]
    Scope,
}

/// A way to authenticate.
pub struct Auth(Mode);

enum Mode {
    Capability([u8; 32]),
    Signed(Box<Signed>),
}

struct Signed {
    key: DecodingKey,
    validation: Validation,
    expected: Expected,
}

/// What a signed token must say beside its time.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The claim `iss`.
    pub issuer: Option<String>,
    /// The claim `aud`, or one of its values.
    pub audience: Option<String>,
    /// How far clocks may be apart.
    pub clock_skew: Duration,
}

#[derive(Deserialize)]
struct Claims {
    exp: i64,
    nbf: Option<i64>,
    iss: Option<String>,
    aud: Option<Audience>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn contains(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}

impl Auth {
    /// Whoever sends `token`.
    pub fn capability(token: &Secret) -> Self {
        Self(Mode::Capability(Sha256::digest(token.expose()).into()))
    }

    /// Whoever sends a token with this SHA-256 digest, in hexadecimal digits.
    ///
    /// # Errors
    ///
    /// [`AuthError::Digest`].
    pub fn capability_digest(digest: &str) -> Result<Self, AuthError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(digest, &mut bytes).map_err(|_| AuthError::Digest)?;
        Ok(Self(Mode::Capability(bytes)))
    }

    /// Whoever sends a JWT that was signed with `secret` by HS256, is valid now, and says what is `expected`. It must have the
    /// claim `exp`.
    ///
    /// # Errors
    ///
    /// [`AuthError::ShortSecret`].
    pub fn signed(secret: &Secret, expected: Expected) -> Result<Self, AuthError> {
        let secret = secret.expose().as_bytes();
        if secret.len() < MIN_SHARED_SECRET {
            return Err(AuthError::ShortSecret);
        }
        // The library's own checks of claims tell too little about what they refuse, and treat odd types leniently.
        let mut validation = Validation::new(Algorithm::HS256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        Ok(Self(Mode::Signed(Box::new(Signed {
            key: DecodingKey::from_secret(secret).map_err(|_| AuthError::ShortSecret)?,
            validation,
            expected,
        }))))
    }

    /// Checks the header `Authorization`.
    ///
    /// # Errors
    ///
    /// Why the request is refused; it is answered with 401.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.check_token(bearer(headers)?, now)
    }

    fn check_token(&self, token: &str, now: Duration) -> Result<(), Refusal> {
        match &self.0 {
            Mode::Capability(digest) => {
                let given: [u8; 32] = Sha256::digest(token).into();
                if bool::from(given.ct_eq(digest)) {
                    Ok(())
                } else {
                    Err(Refusal::Wrong)
                }
            }
            Mode::Signed(signed) => signed.check(token, now),
        }
    }
}

impl Signed {
    fn check(&self, token: &str, now: Duration) -> Result<(), Refusal> {
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation);
        let claims = decoded.map_err(|_| Refusal::Wrong)?.claims;
        let Expected {
            issuer,
            audience,
            clock_skew,
        } = &self.expected;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let skew = i64::try_from(clock_skew.as_secs()).unwrap_or(i64::MAX);
        if claims.exp.saturating_add(skew) < now {
            return Err(Refusal::Time);
        }
        if claims.nbf.is_some_and(|begin| begin.saturating_sub(skew) > now) {
            return Err(Refusal::Time);
        }
        if issuer.is_some() && claims.iss != *issuer {
            return Err(Refusal::Scope);
        }
        match audience {
            Some(audience) if !claims.aud.is_some_and(|claim| claim.contains(audience)) => Err(Refusal::Scope),
            _ => Ok(()),
        }
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Refusal::Missing);
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or(Refusal::Missing)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.len() > MAX_TOKEN {
        return Err(Refusal::Missing);
    }
    Ok(token)
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Mode::Capability(_) => "Auth(capability token)",
            Mode::Signed(_) => "Auth(signed bearer token)",
        })
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header};
    use serde_json::{Value, json};

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);
    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn headers(values: &[&str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (header::AUTHORIZATION, value.parse().expect("header")))
            .collect()
    }

    fn token(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
        let key = EncodingKey::from_secret(secret.as_bytes()).expect("key");
        jsonwebtoken::encode(&Header::new(algorithm), claims, &key).expect("token")
    }

    #[test]
    fn finds_the_bearer_token() {
        for value in ["Bearer t", "bearer t", "BEARER  t ", "Bearer t "] {
            assert_eq!(bearer(&headers(&[value])), Ok("t"), "{value}");
        }
        for values in [&[][..], &["t"], &["Basic t"], &["Bearer "], &["Bearer t", "Bearer t"]] {
            assert_eq!(bearer(&headers(values)), Err(Refusal::Missing), "{values:?}");
        }
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
        assert_eq!(bearer(&headers(&[&long])), Err(Refusal::Missing));
    }

    #[test]
    fn a_capability_is_its_digest() {
        let auth = Auth::capability(&Secret::new("token"));
        assert_eq!(auth.check(&headers(&["Bearer token"])), Ok(()));
        assert_eq!(auth.check(&headers(&["Bearer tokem"])), Err(Refusal::Wrong));
        let digest = hex::encode_upper(Sha256::digest("token"));
        let auth = Auth::capability_digest(&digest).expect("digest");
        assert_eq!(auth.check(&headers(&["Bearer token"])), Ok(()));
        assert_eq!(auth.check(&headers(&["Bearer other"])), Err(Refusal::Wrong));
        for bad in ["", "00", &digest[1..], &"g".repeat(64)] {
            assert!(matches!(Auth::capability_digest(bad), Err(AuthError::Digest)), "{bad}");
        }
        assert!(!format!("{auth:?}").contains("token\""));
    }

    #[test]
    fn a_signed_token_needs_its_time_and_signature() {
        let expected = Expected {
            clock_skew: DEFAULT_CLOCK_SKEW,
            ..Expected::default()
        };
        let auth = Auth::signed(&Secret::new(SECRET), expected).expect("secret");
        let now = 1_000_000;
        let cases = [
            (json!({"exp": now + 1}), Ok(())),
            (json!({"exp": now - 30}), Ok(())),
            (json!({"exp": now - 31}), Err(Refusal::Time)),
            (json!({"exp": now, "nbf": now + 30}), Ok(())),
            (json!({"exp": now, "nbf": now + 31}), Err(Refusal::Time)),
            (json!({"exp": i64::MAX, "iat": now + 500}), Ok(())),
            (json!({"exp": -5}), Err(Refusal::Time)),
            (json!({"exp": now, "iss": "x", "aud": ["y"]}), Ok(())),
            (json!({}), Err(Refusal::Wrong)),
            (json!({"exp": "1000001"}), Err(Refusal::Wrong)),
            (json!({"exp": 1_000_001.5}), Err(Refusal::Wrong)),
            (json!({"exp": u64::MAX}), Err(Refusal::Wrong)),
            (json!({"exp": now, "aud": 5}), Err(Refusal::Wrong)),
        ];
        for (claims, verdict) in cases {
            let token = token(Algorithm::HS256, SECRET, &claims);
            assert_eq!(auth.check_token(&token, NOW), verdict, "{claims}");
        }
        let claims = json!({"exp": now});
        let other = SECRET.replace('0', "1");
        for token in [
            token(Algorithm::HS512, SECRET, &claims),
            token(Algorithm::HS256, &other, &claims),
            // {"alg":"none"} and no signature.
            "eyJhbGciOiJub25lIn0.eyJleHAiOjEwMDAwMDB9.".to_owned(),
            "nonsense".to_owned(),
        ] {
            assert_eq!(auth.check_token(&token, NOW), Err(Refusal::Wrong), "{token}");
        }
        let short = Secret::new(&SECRET[1..]);
        assert!(matches!(
            Auth::signed(&short, Expected::default()),
            Err(AuthError::ShortSecret)
        ));
    }

    #[test]
    fn issuer_and_audience_are_checked_when_expected() {
        let expected = Expected {
            issuer: Some("me".to_owned()),
            audience: Some("you".to_owned()),
            clock_skew: Duration::ZERO,
        };
        let auth = Auth::signed(&Secret::new(SECRET), expected).expect("secret");
        let cases = [
            (json!({"iss": "me", "aud": "you"}), Ok(())),
            (json!({"iss": "me", "aud": ["they", "you"]}), Ok(())),
            (json!({"iss": "me"}), Err(Refusal::Scope)),
            (json!({"aud": "you"}), Err(Refusal::Scope)),
            (json!({"iss": "m", "aud": "you"}), Err(Refusal::Scope)),
            (json!({"iss": "me", "aud": ["they"]}), Err(Refusal::Scope)),
            (json!({"iss": "me", "aud": []}), Err(Refusal::Scope)),
        ];
        for (mut claims, verdict) in cases {
            claims["exp"] = 1_000_000.into();
            let token = token(Algorithm::HS256, SECRET, &claims);
            assert_eq!(auth.check_token(&token, NOW), verdict, "{claims}");
        }
    }
}
