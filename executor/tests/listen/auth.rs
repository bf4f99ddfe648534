//! Flags, and who gets in.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use crate::world::{Executor, command, refused};

fn private(folder: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("write");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("chmod");
    path.to_str().expect("text").to_owned()
}

async fn assert_refused(executor: &Executor, authorization: Option<&str>) {
    match executor.try_connect(authorization).await {
        Err(Error::Http(answer)) => assert_eq!(answer.status(), 401, "{authorization:?}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{authorization:?} was let in"),
    }
}

#[tokio::test]
async fn a_capability_token_lets_in() {
    let folder = tempfile::tempdir().expect("folder");
    let file = private(&folder, "token", "the-token\n");
    let executor = Executor::start(&["--ws-auth", "capability-token", "--ws-token-file", &file]).await;
    executor.try_connect(Some("Bearer the-token")).await.expect("let in");
    for wrong in [
        None,
        Some("Bearer the-tokem"),
        Some("Basic the-token"),
        Some("the-token"),
    ] {
        assert_refused(&executor, wrong).await;
    }
    assert_eq!(executor.status("GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await, 200);
}

#[tokio::test]
async fn a_signed_token_lets_in() {
    let secret = "0123456789abcdef0123456789abcdef";
    let folder = tempfile::tempdir().expect("folder");
    let file = private(&folder, "secret", secret);
    let executor = Executor::start(&[
        "--ws-auth",
        "signed-bearer-token",
        "--ws-shared-secret-file",
        &file,
        "--ws-issuer",
        "me",
        "--ws-audience",
        "you",
        "--ws-max-clock-skew-seconds",
        "5",
    ])
    .await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("clock").as_secs();
    let bearer = |expires: u64, issuer: &str| {
        let key = EncodingKey::from_secret(secret.as_bytes()).expect("key");
        let claims = json!({"exp": expires, "iss": issuer, "aud": ["you"]});
        let token = jsonwebtoken::encode(&Header::default(), &claims, &key).expect("token");
        format!("Bearer {token}")
    };
    executor
        .try_connect(Some(&bearer(now + 60, "me")))
        .await
        .expect("let in");
    assert_refused(&executor, Some(&bearer(now - 20, "me"))).await;
    assert_refused(&executor, Some(&bearer(now + 60, "other"))).await;
    assert_refused(&executor, None).await;
}

#[tokio::test]
async fn unusable_flags_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let token = private(&folder, "token", "the-token");
    let open = private(&folder, "open", "the-token");
    fs::set_permissions(&open, Permissions::from_mode(0o644)).expect("chmod");
    let (token, open) = (token.as_str(), open.as_str());
    let capability = ["--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token"];
    let signed = ["--listen", "ws://127.0.0.1:0", "--ws-auth", "signed-bearer-token"];
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &[]),
        (&[], &["--listen", "ws://localhost:0"]),
        (&[], &["--listen", "http://127.0.0.1:0"]),
        (&[], &["--listen", "ws://0.0.0.0:0"]),
        (&[], &["--listen", "ws://[::]:0"]),
        (
            &[],
            &["--listen", "--remote", "http://127.0.0.1:1", "--environment-id", "e"],
        ),
        (&[], &["--listen", "--concurrent-requests", "0"]),
        (&[], &["--listen", "--concurrent-requests", "100000"]),
        (&[], &["--listen", "--ws-token-file", token]),
        (
            &["--listen", "stdio", "--ws-auth", "capability-token"],
            &["--ws-token-file", token],
        ),
        (&capability, &[]),
        (&capability, &["--ws-token-file", "/nonexistent"]),
        (&capability, &["--ws-token-file", open]),
        (&capability, &["--ws-token-sha256", "00"]),
        (&capability, &["--ws-token-file", token, "--ws-issuer", "me"]),
        (&signed, &[]),
        (&signed, &["--ws-shared-secret-file", token]),
        (&signed, &["--ws-token-file", token]),
    ];
    for (first, rest) in cases {
        let args = [*first, *rest].concat();
        let (code, text) = refused(&args).await;
        assert_eq!(code, Some(64), "{args:?}: {text}");
        assert!(!text.contains("the-token"), "{text}");
    }
}

/// No channel proves which harness has come, so a list of them would let everybody in.
#[tokio::test]
async fn a_list_of_harnesses_is_refused_where_it_means_nothing() {
    let remote = ["--remote", "http://127.0.0.1:1", "--environment-id", "e"];
    let direct = [&remote[..], &["--remote-transport", "direct", "--aws-sigv4"]].concat();
    for mode in [&["--listen", "ws://127.0.0.1:0"][..], &["--listen", "stdio"], &direct] {
        let args = [mode, &["--authorized-harnesses", "/nowhere"]].concat();
        let (code, text) = refused(&args).await;
        assert_eq!(code, Some(64), "{args:?}: {text}");
        assert!(
            text.contains("--authorized-harnesses cannot be used"),
            "{args:?}: {text}"
        );
    }
}

#[tokio::test]
async fn options_of_the_other_way_to_serve_are_refused() {
    let remote = ["--remote", "http://127.0.0.1:1", "--environment-id", "e"];
    let listen = ["--listen", "ws://127.0.0.1:0"];
    let capability = ["--ws-auth", "capability-token"];
    let cases: &[(&[&str], &[&str], [&str; 2])] = &[
        (&remote, &capability, ["--ws-auth", "--listen"]),
        (
            &remote,
            &["--ws-auth", "signed-bearer-token", "--ws-issuer", "me"],
            ["--ws-auth", "--listen"],
        ),
        (&listen, &["--token-file", "/nowhere"], ["--token-file", "--remote"]),
        (
            &["--listen", "stdio"],
            &["--identity-file", "/nowhere"],
            ["--identity-file", "--remote"],
        ),
        (
            &listen,
            &["--identity-passphrase-file=-"],
            ["--identity-passphrase-file", "--remote"],
        ),
    ];
    for (mode, more, [option, needed]) in cases {
        let args = [*mode, *more].concat();
        let (code, text) = refused(&args).await;
        assert_eq!(code, Some(64), "{args:?}: {text}");
        let expected = format!("{option} means something with {needed} only");
        assert!(text.contains(&expected), "{args:?}: {text}");
    }
}

/// Variables may be there for another executor, and stock executors take an environment and a name.
#[tokio::test]
async fn variables_and_what_stock_executors_take_are_not_refused() {
    let mut command = command(&["--listen", "--environment-id", "e", "--name", "n"]);
    for name in [
        "EXECUTOR_TOKEN_FILE",
        "EXECUTOR_IDENTITY_FILE",
        "EXECUTOR_IDENTITY_PASSPHRASE_FILE",
    ] {
        command.env(name, "/nowhere");
    }
    let executor = Executor::spawn(command).await;
    executor.try_connect(None).await.expect("let in");
}
