//! The HTTP side of the listeners: paths, browsers, upgrades that are none, authentication.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::exec_server::{ExecServer, Over};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::stock::Version;
use serde_json::{Value, json};

use crate::runner::{Case, When};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const UPGRADE: &str = "GET / HTTP/1.1
Connection: Upgrade
Upgrade: websocket
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==";

/// Heads of requests, and what all servers answer.
const REQUESTS: &[(&str, u16)] = &[
    ("GET /readyz HTTP/1.1", 200),
    ("HEAD /readyz HTTP/1.1", 200),
    ("POST /readyz HTTP/1.1\nContent-Length: 0", 405),
    ("GET /readyz?x=1 HTTP/1.1", 200),
    ("GET /readyz/ HTTP/1.1", 404),
    ("GET /healthz HTTP/1.1", 404),
    ("GET /metrics HTTP/1.1", 404),
    ("GET / HTTP/1.1", 400),
    ("POST / HTTP/1.1\nContent-Length: 0", 405),
    (
        "GET / HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        400,
    ),
    (
        "GET / HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 12\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        400,
    ),
    (
        "GET / HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13",
        400,
    ),
    ("GET /readyz HTTP/1.1\nOrigin: https://example.com", 403),
    ("GET / HTTP/1.1\nOrigin: null", 403),
    ("GET /nothing HTTP/1.1\nOrigin: http://127.0.0.1", 403),
    (
        "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        404,
    ),
    (UPGRADE, 101),
];

/// What ours answers otherwise, and why.
pub(super) const DIFFERENCES: &[(&str, u16, &str)] = &[
    ("an extension that must be understood", 401, CRITICAL),
    ("an empty list of extensions", 401, CRITICAL),
];
const CRITICAL: &str = "a token says by `crit` that it must not be taken by who does not understand the rest of its header; stock takes it";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("conformance::http::requests", When::Always, requests),
        Case::new("conformance::http::capability_token", When::Always, capability_token),
        Case::new(
            "conformance::http::signed_bearer_token",
            When::Always,
            signed_bearer_token,
        ),
    ]
}

async fn requests(cx: Context) -> Result<()> {
    let mut findings = Vec::new();
    for end in [End::Stock(Version::V0_171), End::Stock(Version::V0_145), End::Ours] {
        let server = ExecServer::start(&cx, end, Over::WebSocket, &[]).await?;
        for (head, expected) in REQUESTS {
            let status = server.status(head).await?;
            if status != *expected {
                findings.push(format!("{}: {status} instead of {expected} for {head:?}", end.name()));
            }
        }
    }
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(())
}

/// Upgrades with these values of `Authorization` are answered alike.
async fn compare(cx: &Context, flags: &[&str], rows: &[(&str, Option<String>, u16)]) -> Result<()> {
    let mut findings = Vec::new();
    for end in [End::Stock(Version::V0_171), End::Ours] {
        let server = ExecServer::start(cx, end, Over::WebSocket, flags).await?;
        for (name, authorization, expected) in rows {
            let header = authorization.as_ref().map(|value| format!("\nAuthorization: {value}"));
            let status = server
                .status(&format!("{UPGRADE}{}", header.unwrap_or_default()))
                .await?;
            let known = DIFFERENCES.iter().find(|known| end == End::Ours && known.0 == *name);
            let expected = known.map_or(*expected, |known| known.1);
            if status != expected {
                findings.push(format!("{}: {status} instead of {expected} for {name}", end.name()));
            }
        }
        let ready = server.status("GET /readyz HTTP/1.1").await?;
        ensure!(ready == 200, "{}: /readyz answers {ready}", end.name());
    }
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    Ok(())
}

async fn capability_token(cx: Context) -> Result<()> {
    let file = cx.secret_file("token", "the-token\n")?;
    let file = file.to_string_lossy();
    let row = |value: &'static str, status| (value, Some(value.to_owned()), status);
    let rows = [
        ("nothing", None, 401),
        row("Bearer the-token", 101),
        row("bearer the-token", 101),
        row("BEARER  the-token", 101),
        row("Bearer the-tokem", 401),
        row("Bearer", 401),
        row("Basic the-token", 401),
        row("the-token", 401),
    ];
    compare(&cx, &["--ws-auth", "capability-token", "--ws-token-file", &file], &rows).await
}

async fn signed_bearer_token(cx: Context) -> Result<()> {
    let file = cx.secret_file("secret", SECRET)?;
    let file = file.to_string_lossy();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let sign = |algorithm, secret: &str, claims: Value| -> Result<Option<String>> {
        let key = EncodingKey::from_secret(secret.as_bytes())?;
        let token = jsonwebtoken::encode(&Header::new(algorithm), &claims, &key)?;
        Ok(Some(format!("Bearer {token}")))
    };
    let good = |claims: Value| sign(Algorithm::HS256, SECRET, claims);
    let claims = json!({"exp": now + 60});
    let headed = |header: Value| -> Result<Option<String>> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(&claims));
        let key = EncodingKey::from_secret(SECRET.as_bytes())?;
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256)?;
        Ok(Some(format!("Bearer {message}.{signature}")))
    };
    let rows = [
        ("a good token", good(json!({"exp": now + 60}))?, 101),
        ("no expiry", good(json!({"sub": "x"}))?, 401),
        ("expired within the tolerance", good(json!({"exp": now - 15}))?, 101),
        ("expired", good(json!({"exp": now - 60}))?, 401),
        ("soon valid", good(json!({"exp": now + 60, "nbf": now + 15}))?, 101),
        ("not yet valid", good(json!({"exp": now + 60, "nbf": now + 60}))?, 401),
        (
            "any issuer and audience",
            good(json!({"exp": now + 60, "iss": "x", "aud": "y"}))?,
            101,
        ),
        ("expiry with a fraction", good(json!({"exp": 2_000_000_000.5}))?, 401),
        ("expiry as a text", good(json!({"exp": "4000000000"}))?, 401),
        ("negative expiry", good(json!({"exp": -5}))?, 401),
        (
            "audience of another type",
            good(json!({"exp": now + 60, "aud": 5}))?,
            401,
        ),
        (
            "another algorithm",
            sign(Algorithm::HS512, SECRET, json!({"exp": now + 60}))?,
            401,
        ),
        (
            "another secret",
            sign(Algorithm::HS256, &SECRET.replace('0', "1"), json!({"exp": now + 60}))?,
            401,
        ),
        ("no token", Some("Bearer x.y.z".to_owned()), 401),
        ("a header by hand", headed(json!({"alg": "HS256"}))?, 101),
        (
            "a header with more",
            headed(json!({"alg": "HS256", "typ": "x", "kid": "y", "more": {}}))?,
            101,
        ),
        (
            "an extension that must be understood",
            headed(json!({"alg": "HS256", "crit": ["x"], "x": 1}))?,
            101,
        ),
        (
            "an empty list of extensions",
            headed(json!({"alg": "HS256", "crit": []}))?,
            101,
        ),
        (
            "a type that is no text",
            headed(json!({"alg": "HS256", "typ": 5}))?,
            401,
        ),
        ("no algorithm", headed(json!({"typ": "JWT"}))?, 401),
        ("an algorithm that is none", headed(json!({"alg": "none"}))?, 401),
        ("an algorithm in other letters", headed(json!({"alg": "hs256"}))?, 401),
        (
            "a time before all times",
            good(json!({"exp": now + 60, "nbf": -5}))?,
            101,
        ),
        (
            "a time that is no number",
            good(json!({"exp": now + 60, "nbf": "x"}))?,
            401,
        ),
        ("the last time", good(json!({"exp": i64::MAX}))?, 101),
        ("a time after all times", good(json!({"exp": u64::MAX}))?, 401),
        ("no time", good(json!({"exp": null}))?, 401),
        ("claims in a list", good(json!([1]))?, 401),
    ];
    let flags = ["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", &file];
    compare(&cx, &flags, &rows).await?;

    let rows = [
        ("both", good(json!({"exp": now + 60, "iss": "me", "aud": "you"}))?, 101),
        (
            "one of several",
            good(json!({"exp": now + 60, "iss": "me", "aud": ["a", "you"]}))?,
            101,
        ),
        ("no audience", good(json!({"exp": now + 60, "iss": "me"}))?, 401),
        ("no issuer", good(json!({"exp": now + 60, "aud": "you"}))?, 401),
        (
            "wrong issuer",
            good(json!({"exp": now + 60, "iss": "m", "aud": "you"}))?,
            401,
        ),
        (
            "wrong audience",
            good(json!({"exp": now + 60, "iss": "me", "aud": ["a"]}))?,
            401,
        ),
        (
            "expired within more tolerance",
            good(json!({"exp": now - 60, "iss": "me", "aud": "you"}))?,
            101,
        ),
    ];
    let more = [
        "--ws-issuer",
        "me",
        "--ws-audience",
        "you",
        "--ws-max-clock-skew-seconds",
        "200",
    ];
    compare(&cx, &[flags.as_slice(), &more].concat(), &rows).await
}
