//! The HTTP side of the listeners: paths, browsers, upgrades that are none, authentication.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
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
            if status != *expected {
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
