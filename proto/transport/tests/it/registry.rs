use std::net::SocketAddr;
use std::time::Duration;

use rendezvous_transport::connector::Connector;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::registry::{CallError, Client, Options, SetupError};
use rendezvous_transport::tls::{Trust, TrustError};
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};
use rendezvous_wire::identity::{IDENTITY_HEADER, IdentityClaim};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::MAX_REGISTRY_RESPONSE;
use rendezvous_wire::secret::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{Authority, PATIENCE, answering, connector, response, serve, within};

fn client_of(url: &str, connector: Connector) -> Client {
    Client::new(&options(url, connector)).expect("client")
}

fn options(url: &str, connector: Connector) -> Options {
    Options {
        url: RegistryUrl::parse(url, ClearText::Loopback).expect("url"),
        credential: Secret::new("the-token"),
        account: None,
        connector,
    }
}

fn key() -> PublicKey {
    PublicKey {
        x25519: [7; 32],
        mlkem768: Box::new([9; 1184]),
    }
}

fn environment() -> EnvironmentId {
    EnvironmentId::new("env-1").expect("id")
}

fn registered(environment: &str, profile: &str, registration: &str, url: &str) -> String {
    format!(
        r#"{{"environment_id":"{environment}","url":"{url}","security_profile":"{profile}","executor_registration_id":"{registration}","transport_policy":{{"version":1}}}}"#
    )
}

const PROFILE: &str = "noise_hybrid_ik_v1";

async fn register(answer: String) -> Result<Secret, CallError> {
    let (addr, _asked) = answering(None, answer, false).await;
    let client = client_of(&format!("http://{addr}"), connector());
    let registration = within(client.register(&environment(), &key())).await?;
    Ok(registration.url)
}

async fn register_body(body: &str) -> Result<Secret, CallError> {
    register(response("200 OK", "", body)).await
}

#[tokio::test]
async fn register_sends_what_the_protocol_says() {
    let body = registered("env-1", PROFILE, "reg-1", "wss://r.example/?ticket=x");
    let (addr, mut asked) = answering(None, response("200 OK", "", &body), false).await;
    let client = client_of(&format!("http://{addr}/v1/api/"), connector());
    let registration = within(client.register(&environment(), &key()))
        .await
        .expect("registration");
    assert_eq!(registration.id.as_str(), "reg-1");
    assert_eq!(registration.url.expose(), "wss://r.example/?ticket=x");
    let (head, body) = asked.recv().await.expect("request");
    assert!(
        head.starts_with("post /v1/api/cloud/environment/env-1/register http/1.1\r\n"),
        "{head}"
    );
    for header in [
        "authorization: bearer the-token\r\n",
        "content-type: application/json\r\n",
        "accept: */*\r\n",
        "content-length: 1792\r\n",
    ] {
        assert!(head.contains(header), "{header} not in {head}");
    }
    for header in [
        "user-agent",
        "cookie",
        "origin",
        "referer",
        "accept-encoding",
        "chatgpt",
    ] {
        assert!(!head.contains(header), "{header} in {head}");
    }
    assert!(
        body.starts_with(
            r#"{"security_profile":"noise_hybrid_ik_v1","executor_public_key":{"suite":"Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256","#
        ),
        "{body}"
    );
}

#[tokio::test]
async fn what_an_executor_says_of_its_key_stands_in_a_header() {
    let claim = IdentityClaim {
        persistent: true,
        previous: vec![key().digest()],
    };
    let answer = response("200 OK", "", &registered("env-1", PROFILE, "reg-1", "wss://r.example/"));
    let (addr, mut asked) = answering(None, answer, false).await;
    let client = client_of(&format!("http://{addr}"), connector());
    within(client.register_as(&environment(), &key(), &claim))
        .await
        .expect("registration");
    let (head, _) = asked.recv().await.expect("request");
    assert!(head.contains(&format!("{IDENTITY_HEADER}: {claim}\r\n")), "{head}");

    let key_json = serde_json::to_string(&key()).expect("a key");
    for (header, expected) in [
        (format!("{IDENTITY_HEADER}: {claim}\r\n"), claim),
        (String::new(), IdentityClaim::default()),
        (format!("{IDENTITY_HEADER}: rubbish\r\n"), IdentityClaim::default()),
    ] {
        let start = registered("env-1", PROFILE, "reg-1", "wss://r.example/");
        let start = start.strip_suffix('}').expect("object");
        let body = format!(r#"{start},"executor_public_key":{key_json},"harness_key_authorization":"go"}}"#);
        let (addr, _asked) = answering(None, response("200 OK", &header, &body), false).await;
        let client = client_of(&format!("http://{addr}"), connector());
        let bundle = within(client.connect(&environment(), &key())).await.expect("bundle");
        assert_eq!(bundle.identity, expected, "{header}");
    }
}

#[tokio::test]
async fn connect_gives_a_checked_bundle() {
    let key_json = format!(
        r#"{{"suite":"Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256","x25519_public_key":"{}","mlkem768_public_key":"{}"}}"#,
        "A".repeat(43) + "=",
        "A".repeat(1579) + "="
    );
    let bundle = |authorization: &str| {
        let start = registered("env-1", PROFILE, "reg-1", "wss://r.example/");
        let start = start.strip_suffix('}').expect("object").to_owned();
        let body =
            format!(r#"{start},"executor_public_key":{key_json},"harness_key_authorization":"{authorization}"}}"#);
        response("200 OK", "", &body)
    };
    let (addr, mut asked) = answering(None, bundle("go"), false).await;
    let mut options = options(&format!("http://{addr}"), connector());
    options.account = Some("account-1".to_owned());
    let client = Client::new(&options).expect("client");
    let bundle_of = within(client.connect(&environment(), &key())).await.expect("bundle");
    assert_eq!(bundle_of.authorization.expose(), "go");
    assert_eq!(bundle_of.executor_key.x25519, [0; 32]);
    let (head, body) = asked.recv().await.expect("request");
    assert!(head.starts_with("post /cloud/environment/env-1/connect "), "{head}");
    assert!(head.contains("chatgpt-account-id: account-1\r\n"), "{head}");
    assert_eq!(body.len(), 1751);

    let (addr, _asked) = answering(None, bundle(" "), false).await;
    let client = client_of(&format!("http://{addr}"), connector());
    let error = within(client.connect(&environment(), &key())).await.expect_err("blank");
    assert!(
        matches!(error, CallError::Mismatch("harness_key_authorization")),
        "{error}"
    );
}

/// Long enough for the head of an answer on a busy machine, and spent whole when the body never comes.
const HEAD_IN_TIME: Duration = Duration::from_secs(3);

async fn validate(answer: impl Into<Vec<u8>>) -> (Result<bool, CallError>, (String, String)) {
    validate_within(PATIENCE, answer).await
}

async fn validate_within(limit: Duration, answer: impl Into<Vec<u8>>) -> (Result<bool, CallError>, (String, String)) {
    let (addr, mut asked) = answering(None, answer, false).await;
    let client = client_of(&format!("http://{addr}"), connector()).with_timeout(limit);
    let registration = RegistrationId::new("reg-1").expect("id");
    let stream = StreamId::new("stream-1").expect("id");
    let authorization = Secret::new("authorization-1");
    let verdict = within(client.validate(&environment(), &registration, &key(), &authorization, &stream)).await;
    (verdict, asked.recv().await.expect("request"))
}

#[tokio::test]
async fn validate_admits_on_a_literal_true_only() {
    let (verdict, (head, body)) = validate(response("200 OK", "", r#"{"valid":true}"#)).await;
    assert!(verdict.expect("verdict"));
    assert!(head.contains("x-codex-noise-stream-id: stream-1\r\n"), "{head}");
    assert!(
        body.contains(r#""harness_key_authorization":"authorization-1""#),
        "{body}"
    );
    assert!(body.contains(r#""executor_registration_id":"reg-1""#), "{body}");
    for body in [r#"{"valid":false}"#, "{}", r#"{"other":1}"#] {
        let (verdict, _) = validate(response("200 OK", "", body)).await;
        assert!(!verdict.expect(body), "{body}");
    }
    for body in [
        "",
        "true",
        "[true]",
        r#"{"valid":1}"#,
        r#"{"valid":"true"}"#,
        r#"{"valid":null}"#,
        r#"{"valid":false,"valid":true}"#,
    ] {
        let (verdict, _) = validate(response("200 OK", "", body)).await;
        assert!(matches!(verdict, Err(CallError::Malformed(_))), "{body}");
    }
    let (verdict, _) = validate(response("401 Unauthorized", "", r#"{"valid":true}"#)).await;
    assert!(verdict.expect_err("401").is_unauthenticated());
    for status in ["201 Created", "204 No Content"] {
        let (verdict, _) = validate(response(status, "", "")).await;
        verdict.expect_err(status);
    }
    for status in [
        "302 Found",
        "403 Forbidden",
        "404 Not Found",
        "500 Internal Server Error",
    ] {
        let (verdict, _) = validate(response(status, "", r#"{"valid":true}"#)).await;
        let error = verdict.expect_err(status);
        assert!(!error.is_unauthenticated(), "{status}");
    }
    let stalled = "HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"valid\":true";
    let (verdict, _) = validate_within(HEAD_IN_TIME, stalled).await;
    assert!(matches!(verdict, Err(CallError::Timeout)), "a stalled body");
}

#[tokio::test]
async fn wrong_replies_are_refused() {
    let url = "wss://r.example/";
    for (body, member) in [
        (registered("env-2", PROFILE, "r", url), "environment_id"),
        (registered("env-1", "noise_hybrid_ik_v2", "r", url), "security_profile"),
        (registered("env-1", PROFILE, "  ", url), "executor_registration_id"),
        (registered("env-1", PROFILE, "r", " "), "url"),
    ] {
        let error = register_body(&body).await.expect_err(member);
        assert!(matches!(error, CallError::Mismatch(m) if m == member), "{error}");
        assert!(!error.is_retryable());
    }
    for body in ["", "{", "[]", r#"{"environment_id":"env-1"}"#, &"[".repeat(1000)] {
        let error = register_body(body).await.expect_err("malformed");
        assert!(matches!(error, CallError::Malformed(_)), "{error}");
    }
}

#[tokio::test]
async fn replies_are_bounded_in_size() {
    let filler = |len: usize| {
        let body = registered("env-1", PROFILE, "reg-1", "wss://r.example/");
        let body = body.strip_suffix('}').expect("object").to_owned();
        let rest = len - body.len() - r#","f":""}"#.len();
        format!(r#"{body},"f":"{}"}}"#, "x".repeat(rest))
    };
    let largest = filler(MAX_REGISTRY_RESPONSE);
    assert_eq!(largest.len(), MAX_REGISTRY_RESPONSE);
    register_body(&largest).await.expect("the largest");
    let error = register_body(&filler(MAX_REGISTRY_RESPONSE + 1))
        .await
        .expect_err("too large");
    assert!(matches!(error, CallError::TooLarge), "{error}");

    // Endless, and without a declared length.
    let addr = serve(None, |mut stream| async move {
        use tokio::io::AsyncWriteExt as _;
        crate::world::read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b' '; 4096]).await.is_ok() {}
    })
    .await;
    let client = client_of(&format!("http://{addr}"), connector());
    let error = within(client.register(&environment(), &key()))
        .await
        .expect_err("endless");
    assert!(matches!(error, CallError::TooLarge), "{error}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (target, mut asked) = answering(None, response("200 OK", "", "{}"), false).await;
    let location = format!("location: http://{target}/\r\n");
    let error = register(response("302 Found", &location, ""))
        .await
        .expect_err("redirect");
    assert_eq!(error.status().map(|status| status.as_u16()), Some(302));
    assert!(!error.is_retryable());
    assert!(asked.try_recv().is_err(), "the token went to another place");
}

#[tokio::test]
async fn refusals_carry_status_code_message_and_wait() {
    let body = r#"{"error":{"code":"rate_limited","message":"too many\u0007 calls"}}"#;
    let answer = response("429 Too Many Requests", "retry-after: 3\r\n", body);
    let error = register(answer).await.expect_err("refused");
    assert_eq!(
        error.to_string(),
        "the registry answered 429 rate_limited: too many calls"
    );
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn slow_and_broken_registries() {
    let silent = serve(None, |stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let client = client_of(&format!("http://{silent}"), connector()).with_timeout(Duration::from_millis(200));
    let error = within(client.register(&environment(), &key()))
        .await
        .expect_err("silent");
    assert!(matches!(error, CallError::Timeout), "{error}");
    assert!(error.is_retryable());

    // The status of a refusal counts although its body never comes.
    let (addr, _asked) = answering(None, "HTTP/1.1 403 Forbidden\r\ncontent-length: 10\r\n\r\n", false).await;
    let client = client_of(&format!("http://{addr}"), connector()).with_timeout(HEAD_IN_TIME);
    let error = within(client.register(&environment(), &key()))
        .await
        .expect_err("forbidden");
    assert!(error.is_not_authorized(), "{error}");

    let (addr, _asked) = answering(None, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{", true).await;
    let client = client_of(&format!("http://{addr}"), connector());
    let error = within(client.register(&environment(), &key())).await.expect_err("cut");
    assert!(matches!(error, CallError::Interrupted(_)), "{error:?}");
    assert!(error.is_retryable());

    // Bound, so that nobody else gets the port, and not listening.
    let closed = tokio::net::TcpSocket::new_v4().expect("socket");
    closed.bind(([127, 0, 0, 1], 0).into()).expect("bind");
    let addr = closed.local_addr().expect("address");
    let client = client_of(&format!("http://{addr}"), connector());
    let error = within(client.register(&environment(), &key()))
        .await
        .expect_err("closed");
    assert!(matches!(error, CallError::Connect(_)), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn tls_needs_the_right_authority() {
    let authority = Authority::new();
    let body = registered("env-1", PROFILE, "reg-1", "wss://r.example/");
    let (addr, mut asked) = answering(Some(&authority), response("200 OK", "", &body), false).await;
    let port = addr.port();
    for host in ["localhost", "127.0.0.1"] {
        let client = client_of(&format!("https://{host}:{port}"), authority.connector());
        within(client.register(&environment(), &key())).await.expect(host);
        asked.recv().await.expect("request");
    }
    for connector in [connector(), Authority::new().connector()] {
        let client = client_of(&format!("https://localhost:{port}"), connector);
        let error = within(client.register(&environment(), &key()))
            .await
            .expect_err("untrusted");
        assert!(matches!(error, CallError::Tls(_)), "{error:?}");
        assert!(!error.is_retryable());
    }
    assert!(asked.try_recv().is_err(), "the token went to a stranger");
}

#[tokio::test]
async fn a_connection_that_breaks_in_the_tls_handshake_may_hold_the_next_time() {
    let closing = serve(None, |stream| async move { drop(stream) }).await;
    let error = register_over_tls(closing).await;
    assert!(matches!(error, CallError::Connect(_)), "{error:?}");
    assert!(error.is_retryable());
    // What answers in clear text will do so again.
    let clear = serve(None, |mut stream| async move {
        let _broken = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ended = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let error = register_over_tls(clear).await;
    assert!(matches!(error, CallError::Tls(_)), "{error:?}");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("does it serve https"), "{error}");
}

#[tokio::test]
async fn clear_text_to_a_server_that_speaks_tls_is_told_as_that() {
    let authority = Authority::new();
    let addr = serve(Some(&authority), |stream| async move { drop(stream) }).await;
    let client = client_of(&format!("http://{addr}"), connector());
    let error = within(client.register(&environment(), &key()))
        .await
        .expect_err("no TLS");
    assert!(matches!(error, CallError::ClearText), "{error:?}");
    assert!(
        !error.is_retryable() && error.to_string().contains("https://"),
        "{error}"
    );
}

async fn register_over_tls(addr: SocketAddr) -> CallError {
    let client = client_of(&format!("https://{addr}"), connector());
    within(client.register(&environment(), &key()))
        .await
        .expect_err("no TLS")
}

#[test]
fn unusable_authorities_and_credentials_are_named() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("ca.pem");
    let error = Trust::new(Some(&file)).expect_err("missing");
    assert!(matches!(error, TrustError::Read { .. }), "{error}");
    for text in [
        "",
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&file, text).expect("write");
        let error = Trust::new(Some(&file)).expect_err(text);
        assert!(matches!(error, TrustError::Pem { .. }), "{error}");
    }
    let mut options = options("http://localhost", connector());
    options.credential = Secret::new("two\nlines");
    let error = Client::new(&options).expect_err("credential");
    assert!(matches!(error, SetupError::Header("credential")));
    assert!(!format!("{error:?} {options:?}").contains("two"));
}
