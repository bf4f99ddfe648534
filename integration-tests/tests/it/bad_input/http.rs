//! Malformed, oversized, truncated and slow HTTP at the registry.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, made_up_key};
use rendezvous_integration_tests::site::ENVIRONMENT;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::yard::Yard;

/// Longest time that the registry keeps a connection whose request does not come.
const PATIENCE: Duration = Duration::from_secs(25);
/// Connections that dawdle at once.
const DAWDLERS: usize = 200;

/// Bodies of `register` that are refused, and the status.
fn refused_bodies() -> Vec<(&'static str, String, u16)> {
    let key = json!(made_up_key(1));
    let good = json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": key});
    let with = |name: &str, value: serde_json::Value| {
        let mut body = good.clone();
        body[name] = value;
        body.to_string()
    };
    let with_key = |name: &str, value: &str| {
        let mut body = good.clone();
        body["executor_public_key"][name] = json!(value);
        body.to_string()
    };
    let text = good.to_string();
    vec![
        ("nothing", String::new(), 400),
        ("no JSON", "not json".into(), 400),
        ("a JSON string", "\"text\"".into(), 400),
        ("half a body", text[..text.len() / 2].into(), 400),
        ("trailing data", format!("{text} {{}}"), 400),
        (
            "a duplicate member",
            text.replacen('{', "{\"security_profile\":\"x\",", 1),
            400,
        ),
        (
            "a duplicate member inside the key",
            text.replace("\"suite\"", "\"suite\":\"x\",\"suite\""),
            400,
        ),
        ("an unknown member inside the key", with_key("more", "x"), 400),
        ("a foreign profile", with("security_profile", json!("noise_xx")), 400),
        (
            "a foreign suite",
            with_key("suite", "Noise_XX_25519_AESGCM_SHA256"),
            400,
        ),
        ("a short key", with_key("x25519_public_key", "AAAA"), 400),
        (
            "a key without padding",
            with_key("x25519_public_key", &"A".repeat(43)),
            400,
        ),
        (
            "a key that is no base64",
            with_key("mlkem768_public_key", &"*".repeat(1580)),
            400,
        ),
        ("a number as key", with("executor_public_key", json!(7)), 400),
        (
            "nesting",
            format!("{{\"a\":{}1{}}}", "[".repeat(4000), "]".repeat(4000)),
            400,
        ),
        ("too many bytes", with("padding", json!("x".repeat(16 * 1024))), 413),
        ("bytes that are no UTF-8", "{\"a\":\"\\ud800\"}".into(), 400),
    ]
}

pub(crate) async fn bodies(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let url = yard.registry.url();
    for (what, body, status) in refused_bodies() {
        let answer = peer::call(url, ENVIRONMENT, "register", &yard.executor_token, body)
            .await
            .context(what)?;
        ensure!(answer.status == status, "{what}: {} {}", answer.status, answer.body);
        ensure!(!answer.code().is_empty(), "{what}: no error code in {}", answer.body);
    }
    for call in ["connect", "validate"] {
        let token = if call == "connect" {
            &yard.harness_token
        } else {
            &yard.executor_token
        };
        for body in ["", "[]", "{\"harness_public_key\":{}}", "{\"harness_public_key\":null"] {
            let answer = peer::call(url, ENVIRONMENT, call, token, body).await?;
            ensure!(
                answer.status == 400,
                "{call} with {body:?}: {} {}",
                answer.status,
                answer.body
            );
        }
    }
    // Unknown members are for the future; they are ignored everywhere but inside a key.
    let body = json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": made_up_key(1), "new": [1]});
    let answer = peer::call(url, ENVIRONMENT, "register", &yard.executor_token, body.to_string()).await?;
    ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
    yard.memory_is_bounded()
}

/// Whole requests, byte by byte, and the status that the answer begins with; 0 for a connection closed without one.
fn refused_heads(address: &str, token: &str) -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let request = |line: &str, more: &str| {
        format!("{line}\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{more}\r\n").into_bytes()
    };
    let path = format!("/cloud/environment/{ENVIRONMENT}/register");
    vec![
        ("noise", vec![0xff; 4096], &[400, 0]),
        (
            "an unknown route",
            request("POST /nowhere HTTP/1.1", "content-length: 0\r\n"),
            &[404],
        ),
        ("a wrong method", request(&format!("GET {path} HTTP/1.1"), ""), &[405]),
        (
            "an impossible environment",
            request(
                "POST /cloud/environment/a%2Fb/register HTTP/1.1",
                "content-length: 0\r\n",
            ),
            &[400, 404],
        ),
        (
            "an overlong environment",
            request(
                &format!("POST /cloud/environment/{}/register HTTP/1.1", "a".repeat(65)),
                "content-length: 0\r\n",
            ),
            &[400, 404],
        ),
        (
            "a huge header",
            request(
                &format!("POST {path} HTTP/1.1"),
                &format!("x: {}\r\n", "x".repeat(256 * 1024)),
            ),
            &[431, 400, 0],
        ),
        (
            "a thousand headers",
            request(&format!("POST {path} HTTP/1.1"), &"x: y\r\n".repeat(1000)),
            &[431, 400],
        ),
        (
            "a lying length",
            request(
                &format!("POST {path} HTTP/1.1"),
                "content-length: 99999999999999999999999\r\n",
            ),
            &[400],
        ),
        (
            // The registry answers at once and closes; the answer may be lost behind what it did not read.
            "a body of 4 MiB",
            [
                request(&format!("POST {path} HTTP/1.1"), "content-length: 4194304\r\n"),
                vec![b'['; 4 * 1024 * 1024],
            ]
            .concat(),
            &[413, 0],
        ),
        (
            "a huge length",
            request(&format!("POST {path} HTTP/1.1"), "content-length: 17000000000\r\n"),
            &[413, 400],
        ),
        (
            "two lengths",
            request(
                &format!("POST {path} HTTP/1.1"),
                "content-length: 3\r\ncontent-length: 4\r\n",
            ),
            &[400],
        ),
        (
            "a broken chunk",
            request(
                &format!("POST {path} HTTP/1.1"),
                "transfer-encoding: chunked\r\n\r\nzz\r\n",
            ),
            &[400, 0],
        ),
        (
            "no credential",
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").into_bytes(),
            &[401],
        ),
        (
            "a credential that is no text",
            [
                format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nauthorization: Bearer ").as_bytes(),
                b"\xff\xfe\r\n\r\n",
            ]
            .concat(),
            &[401, 400],
        ),
    ]
}

pub(crate) async fn heads(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let address = yard.registry.address()?;
    for (what, bytes, expected) in refused_heads(&address.to_string(), &yard.executor_token) {
        let status = exchange(address, &bytes).await.context(what)?;
        ensure!(
            expected.contains(&status),
            "{what}: {status}, expected one of {expected:?}"
        );
    }
    yard.executor(&made_up_key(1))
        .await
        .context("the registry does not serve any more")?;
    yard.memory_is_bounded()
}

async fn exchange(address: std::net::SocketAddr, request: &[u8]) -> Result<u16> {
    let mut socket = TcpStream::connect(address).await?;
    // The registry may answer and close before it has read everything.
    let _ = socket.write_all(request).await;
    let mut answer = Vec::new();
    // A keep-alive answer leaves the connection open: its head is enough.
    let read = async {
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            if !matches!(socket.read_buf(&mut answer).await, Ok(1..)) {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, read).await;
    let text = String::from_utf8_lossy(&answer);
    Ok(text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0))
}

pub(crate) async fn slow(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let address = yard.registry.address()?;
    let path = format!("/cloud/environment/{ENVIRONMENT}/register");
    let token = &yard.executor_token;
    let half_head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Be");
    let half_body = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 1000\r\n\r\n{{\"a\":"
    );
    let mut dawdlers = Vec::new();
    for number in 0..DAWDLERS {
        let mut socket = TcpStream::connect(address).await?;
        let half = if number % 2 == 0 { &half_head } else { &half_body };
        socket.write_all(half.as_bytes()).await?;
        dawdlers.push(socket);
    }
    let begin = Instant::now();
    yard.executor(&made_up_key(1)).await.context("beside slow clients")?;
    // Slow clients are cut after ten seconds.
    ensure!(
        begin.elapsed() < Duration::from_secs(9),
        "slow clients hold up others: {:?}",
        begin.elapsed()
    );
    yard.memory_is_bounded()?;
    for mut socket in dawdlers {
        let mut answer = Vec::new();
        let left = PATIENCE.saturating_sub(begin.elapsed());
        let closed = tokio::time::timeout(left, socket.read_to_end(&mut answer)).await;
        ensure!(closed.is_ok(), "a slow connection is still open after {PATIENCE:?}");
    }
    Ok(())
}
