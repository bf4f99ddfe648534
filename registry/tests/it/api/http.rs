//! What no good client sends, and who may not call.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::World;
use crate::support::http::{self, raw};
use crate::support::key;

const REGISTER: &str = "/cloud/environment/e/register";

#[tokio::test]
async fn each_refusal_has_its_status() {
    let world = World::start().await;
    let database = world.database();
    database.environment("other").await;
    let (admin, relay) = (database.token("admin").await, database.token("relay").await);
    let (scoped, _) = database.credential(&["executor", "--environment", "other"]).await;
    let (revoked, revoked_id) = database.credential(&["executor"]).await;
    database.run(&["credential", "revoke", &revoked_id]).await;
    let (expired, _) = database.credential(&["executor", "--expires", "1s"]).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let good = json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": key(1)}).to_string();
    let bearer = |token: &str| vec![format!("authorization: Bearer {token}")];
    let executor = bearer(&world.executor);
    let unknown = format!("rdv_{}", "A".repeat(43));
    let cases = [
        (
            "no credential",
            "POST",
            REGISTER,
            vec![],
            &*good,
            401,
            "unauthenticated",
        ),
        (
            "another scheme",
            "POST",
            REGISTER,
            vec!["authorization: Basic eDp5".to_owned()],
            &good,
            401,
            "unauthenticated",
        ),
        (
            "two credentials",
            "POST",
            REGISTER,
            [bearer(&world.executor), bearer(&world.executor)].concat(),
            &good,
            401,
            "unauthenticated",
        ),
        (
            "no token of ours",
            "POST",
            REGISTER,
            bearer("x"),
            &good,
            401,
            "unauthenticated",
        ),
        (
            "unknown",
            "POST",
            REGISTER,
            bearer(&unknown),
            &good,
            401,
            "unauthenticated",
        ),
        (
            "revoked",
            "POST",
            REGISTER,
            bearer(&revoked),
            &good,
            401,
            "unauthenticated",
        ),
        (
            "expired",
            "POST",
            REGISTER,
            bearer(&expired),
            &good,
            401,
            "unauthenticated",
        ),
        (
            "harness registers",
            "POST",
            REGISTER,
            bearer(&world.harness),
            &good,
            403,
            "forbidden",
        ),
        (
            "admin registers",
            "POST",
            REGISTER,
            bearer(&admin),
            &good,
            403,
            "forbidden",
        ),
        (
            "relay registers",
            "POST",
            REGISTER,
            bearer(&relay),
            &good,
            403,
            "forbidden",
        ),
        (
            "executor connects",
            "POST",
            "/cloud/environment/e/connect",
            executor.clone(),
            &good,
            403,
            "forbidden",
        ),
        (
            "harness validates",
            "POST",
            "/cloud/environment/e/validate",
            bearer(&world.harness),
            &good,
            403,
            "forbidden",
        ),
        (
            "executor manages",
            "GET",
            "/v1/environments",
            executor.clone(),
            "",
            403,
            "forbidden",
        ),
        (
            "out of scope",
            "POST",
            REGISTER,
            bearer(&scoped),
            &good,
            403,
            "forbidden",
        ),
        (
            "no environment",
            "POST",
            "/cloud/environment/none/register",
            executor.clone(),
            &good,
            404,
            "not_found",
        ),
        (
            "bad id",
            "POST",
            "/cloud/environment/a.b/register",
            executor.clone(),
            &good,
            400,
            "invalid_request",
        ),
        (
            "bad escape",
            "POST",
            "/cloud/environment/%ff/register",
            executor.clone(),
            &good,
            400,
            "invalid_request",
        ),
        (
            "escaped slash",
            "POST",
            "/cloud/environment/a%2fb/register",
            executor.clone(),
            &good,
            400,
            "invalid_request",
        ),
        (
            "no route",
            "POST",
            "/cloud/environment/e/unregister",
            executor.clone(),
            &good,
            404,
            "not_found",
        ),
        ("no route", "GET", "/", vec![], "", 404, "not_found"),
        (
            "other method",
            "GET",
            REGISTER,
            executor.clone(),
            "",
            405,
            "invalid_request",
        ),
        (
            "no body",
            "POST",
            REGISTER,
            executor.clone(),
            "",
            400,
            "invalid_request",
        ),
        (
            "other profile",
            "POST",
            REGISTER,
            executor.clone(),
            &good.replace("ik_v1", "ik_v2"),
            400,
            "invalid_request",
        ),
        (
            "other suite",
            "POST",
            REGISTER,
            executor.clone(),
            &good.replace("AESGCM", "CHACHA"),
            400,
            "invalid_request",
        ),
        (
            "control without upgrade",
            "GET",
            "/v1/relay/control",
            bearer(&relay),
            "",
            400,
            "invalid_request",
        ),
        (
            "control by an executor",
            "GET",
            "/v1/relay/control",
            executor.clone(),
            "",
            403,
            "forbidden",
        ),
    ];
    for (what, method, path, headers, body, status, code) in cases {
        let answer = http::send(world.registry.addr, method, path, &headers, body).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{what}: {answer:?}"
        );
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{what}");
        assert!(answer.header("x-request-id").is_some(), "{what}");
    }
    let missing = http::send(
        world.registry.addr,
        "POST",
        "/cloud/environment/none/register",
        &executor,
        &good,
    )
    .await;
    assert!(missing.body.contains("registry environment create none"), "{missing:?}");
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let world = World::start().await;
    let key = json!(key(1)).to_string();
    let profile = r#""security_profile":"noise_hybrid_ik_v1""#;
    let deep = format!("{}{}", "[".repeat(17), "]".repeat(17));
    let cases = [
        ("not JSON", "hello".to_owned(), 400),
        ("truncated", format!(r#"{{{profile},"executor_public_key":"#), 400),
        (
            "trailing data",
            format!(r#"{{{profile},"executor_public_key":{key}}}x"#),
            400,
        ),
        (
            "two documents",
            format!(r#"{{{profile},"executor_public_key":{key}}}{{}}"#),
            400,
        ),
        (
            "duplicate key",
            format!(r#"{{{profile},{profile},"executor_public_key":{key}}}"#),
            400,
        ),
        (
            "duplicate key below",
            format!(r#"{{{profile},"x":{{"a":1,"a":2}},"executor_public_key":{key}}}"#),
            400,
        ),
        (
            "duplicate key, escaped",
            format!(r#"{{{profile},"x":{{"a":1,"\u0061":2}},"executor_public_key":{key}}}"#),
            400,
        ),
        (
            "too deep",
            format!(r#"{{{profile},"x":{deep},"executor_public_key":{key}}}"#),
            400,
        ),
        (
            "too many values",
            format!(
                r#"{{{profile},"x":[{}1],"executor_public_key":{key}}}"#,
                "1,".repeat(1100)
            ),
            400,
        ),
        (
            "unknown member in the key",
            format!(
                r#"{{{profile},"executor_public_key":{}}}"#,
                key.replacen('{', r#"{"x":1,"#, 1)
            ),
            400,
        ),
        ("array", "[]".to_owned(), 400),
        ("no key", format!("{{{profile}}}"), 400),
        (
            "invalid UTF-16",
            format!(r#"{{{profile},"x":"\ud800","executor_public_key":{key}}}"#),
            400,
        ),
        (
            "too long",
            format!(
                r#"{{{profile},"x":"{}","executor_public_key":{key}}}"#,
                "x".repeat(16 * 1024)
            ),
            413,
        ),
        ("exactly too long", " ".repeat(16 * 1024 + 1), 413),
        ("longest", " ".repeat(16 * 1024), 400),
        (
            "unknown member",
            format!(r#"{{{profile},"x":{{"y":[1]}},"executor_public_key":{key}}}"#),
            200,
        ),
    ];
    for (what, body, status) in cases {
        let answer = world.registry.call(&world.executor, "POST", REGISTER, &body).await;
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        if status != 200 {
            let code = if status == 413 {
                "request_too_large"
            } else {
                "invalid_request"
            };
            assert_eq!(answer.code(), code, "{what}");
        }
    }
}

/// A body without end is cut at the limit, whatever it claims.
#[tokio::test]
async fn claimed_lengths_are_not_believed() {
    let world = World::start().await;
    let head = format!(
        "POST {REGISTER} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n",
        world.executor
    );
    let huge = format!("{head}content-length: 18446744073709551615\r\n\r\n{{}}");
    let answer = raw(world.registry.addr, huge.as_bytes()).await.unwrap();
    assert!([400, 413, 431].contains(&answer.status), "{answer:?}");

    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let endless = format!(
        "{head}transfer-encoding: chunked\r\nconnection: close\r\n\r\n{}",
        chunk.repeat(8)
    );
    let answer = raw(world.registry.addr, endless.as_bytes()).await.unwrap();
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[tokio::test]
async fn broken_requests_do_no_harm() {
    let world = World::start().await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(40_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200));
    for request in [
        "\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &long,
        &many,
    ] {
        let answer = raw(world.registry.addr, request.as_bytes()).await;
        if let Some(answer) = answer {
            assert!((400..500).contains(&answer.status), "{request:.40}: {answer:?}");
        }
    }
    assert_eq!(world.registry.register(&world.executor, "e", &key(1)).await.status, 200);
}

/// Three kinds of slowness at once; meanwhile others are served.
#[tokio::test]
async fn slow_clients_are_cut() {
    let world = World::start().await;
    let addr = world.registry.addr;
    let head = format!(
        "POST {REGISTER} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n",
        world.executor
    );
    let begun = [
        ("nothing", String::new(), None),
        ("half a head", head.clone(), Some(408)),
        (
            "half a body",
            format!("{head}connection: close\r\ncontent-length: 100\r\n\r\n{{"),
            Some(408),
        ),
    ];
    let start = Instant::now();
    let slow = begun.map(|(what, bytes, status)| async move {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        socket.write_all(bytes.as_bytes()).await.unwrap();
        let answer = http::read(&mut socket).await;
        if what == "half a body" {
            assert_eq!(answer.map(|answer| answer.status), status, "{what}");
        }
    });
    let serve = async {
        assert_eq!(world.registry.register(&world.executor, "e", &key(1)).await.status, 200);
        assert!(start.elapsed() < Duration::from_secs(9));
    };
    tokio::join!(futures_util::future::join_all(slow), serve);
    assert!(
        (9.0..30.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );
}
