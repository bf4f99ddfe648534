//! The upgrade request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, Version, header};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Why a request is no WebSocket upgrade; the client is at fault.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// Not GET.
    #[error("a relay connection is opened with GET")]
    Method,
    /// Not HTTP/1.1, or no `connection: upgrade` and `upgrade: websocket`.
    #[error("a relay connection is a WebSocket")]
    NotAnUpgrade,
    /// Another version than 13.
    #[error("only WebSocket version 13 is spoken here")]
    Version,
    /// `sec-websocket-key` is missing, repeated or not 16 bytes in base64.
    #[error("malformed sec-websocket-key")]
    Key,
}

/// Checks the upgrade and gives the client's key. Offered extensions and subprotocols are ignored, which declines them.
///
/// # Errors
///
/// Says which rule the request breaks.
pub fn check<'a>(method: &Method, version: Version, headers: &'a HeaderMap) -> Result<&'a HeaderValue, HandshakeError> {
    if method != Method::GET {
        return Err(HandshakeError::Method);
    }
    let upgrade =
        has_token(headers, &header::CONNECTION, "upgrade") && has_token(headers, &header::UPGRADE, "websocket");
    if version != Version::HTTP_11 || !upgrade {
        return Err(HandshakeError::NotAnUpgrade);
    }
    if only(headers, &header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(HandshakeError::Version);
    }
    let key = only(headers, &header::SEC_WEBSOCKET_KEY).ok_or(HandshakeError::Key)?;
    let decoded = (key.len() == 24).then(|| STANDARD.decode(key)).and_then(Result::ok);
    match decoded {
        Some(nonce) if nonce.len() == 16 => Ok(key),
        _ => Err(HandshakeError::Key),
    }
}

/// The value of `sec-websocket-accept`.
pub fn accept_key(key: &HeaderValue) -> String {
    derive_accept_key(key.as_bytes())
}

fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect()
    }

    const GOOD: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn the_example_of_the_rfc() {
        let headers = headers(&GOOD);
        let key = check(&Method::GET, Version::HTTP_11, &headers).unwrap();
        assert_eq!(accept_key(key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn refusals() {
        let with = |index: usize, value: &'static str| {
            let mut pairs = GOOD;
            pairs[index].1 = value;
            headers(&pairs)
        };
        let get = |headers: HeaderMap| check(&Method::GET, Version::HTTP_11, &headers).map(|_| ());
        assert_eq!(
            check(&Method::POST, Version::HTTP_11, &headers(&GOOD)).map(|_| ()),
            Err(HandshakeError::Method)
        );
        assert_eq!(
            check(&Method::GET, Version::HTTP_10, &headers(&GOOD)).map(|_| ()),
            Err(HandshakeError::NotAnUpgrade)
        );
        assert_eq!(get(with(0, "close")), Err(HandshakeError::NotAnUpgrade));
        assert_eq!(get(with(1, "h2c")), Err(HandshakeError::NotAnUpgrade));
        assert_eq!(get(with(2, "8")), Err(HandshakeError::Version));
        assert_eq!(get(with(3, "dGhlIHNhbXBsZSBub25jZQ")), Err(HandshakeError::Key));
        assert_eq!(get(with(3, "!GhlIHNhbXBsZSBub25jZQ==")), Err(HandshakeError::Key));
        assert_eq!(get(headers(&GOOD[..3])), Err(HandshakeError::Key));
    }
}
