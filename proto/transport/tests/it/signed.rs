//! Calls and upgrades that a signer proves.

use http::{HeaderMap, HeaderValue, Request};
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::registry::{CallError, DirectClient};
use rendezvous_transport::signer::{SignError, Signer};
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::secret::Secret;

use crate::world::{Authority, answering, connector, response, within};

/// Repeats what it was asked to sign.
struct Echo;

impl Signer for Echo {
    fn sign(&self, request: &Request<&[u8]>) -> Result<HeaderMap, SignError> {
        let headers: Vec<&str> = request.headers().keys().map(|name| name.as_str()).collect();
        let body = String::from_utf8_lossy(request.body());
        let text = format!("{} {} {headers:?} {body}", request.method(), request.uri());
        let text = HeaderValue::try_from(text).map_err(SignError::new)?;
        Ok(HeaderMap::from_iter([(http::HeaderName::from_static("x-proof"), text)]))
    }
}

struct Unable;

impl Signer for Unable {
    fn sign(&self, _request: &Request<&[u8]>) -> Result<HeaderMap, SignError> {
        Err(SignError::new("no key"))
    }
}

fn environment() -> EnvironmentId {
    EnvironmentId::new("env-1").expect("id")
}

const REPLY: &str = r#"{"environment_id":"env-1","transport":"direct_jsonrpc_v1","registration_id":"reg-1","url":"wss://r.example/?x"}"#;

#[tokio::test]
async fn all_of_a_call_is_signed() {
    let authority = Authority::new();
    let (addr, mut asked) = answering(Some(&authority), response("200 OK", "", REPLY), false).await;
    let url = format!("https://localhost:{}/v1/", addr.port());
    let url = RegistryUrl::parse(&url, ClearText::Loopback).expect("url");
    let client = DirectClient::new(url, authority.connector());
    let registration = within(client.register(&environment(), &Echo))
        .await
        .expect("registration");
    assert_eq!(registration.id.as_str(), "reg-1");
    assert_eq!(registration.url.expose(), "wss://r.example/?x");
    let (head, body) = asked.recv().await.expect("request");
    assert_eq!(body, r#"{"transport":"direct_jsonrpc_v1"}"#);
    let proof = format!(
        "x-proof: post https://localhost:{}/v1/cloud/environment/env-1/direct/register [\"content-type\"] {body}\r\n",
        addr.port()
    );
    assert!(head.contains(&proof), "{head}");
    assert!(!head.contains("bearer"), "{head}");
    within(client.register(&environment(), &Echo)).await.expect("again");

    let error = within(client.register(&environment(), &Unable))
        .await
        .expect_err("unsigned");
    assert!(
        matches!(error, CallError::Sign(_)) && !error.is_retryable(),
        "{error:?}"
    );
}

#[tokio::test]
async fn all_of_an_upgrade_is_signed() {
    let authority = Authority::new();
    let (addr, mut asked) = answering(Some(&authority), response("403 Forbidden", "", ""), false).await;
    let place = format!("wss://localhost:{}/a%20b/?t=secret&b", addr.port());
    let url = Secret::new(&*place);
    let dialer = Dialer::new(authority.connector(), ClearText::Loopback);
    let error = within(dialer.dial_signed(&url, &Echo)).await.expect_err("refused");
    assert!(matches!(error, DialError::Refused { status: 403, .. }), "{error:?}");
    let (head, _) = asked.recv().await.expect("request");
    let proof = format!("x-proof: get {place} [\"host\"] ");
    assert!(head.contains(&proof.to_ascii_lowercase()), "{head}");
    assert!(head.contains(&format!("host: localhost:{}\r\n", addr.port())), "{head}");

    let error = within(dialer.dial_signed(&url, &Unable)).await.expect_err("unsigned");
    assert!(
        matches!(error, DialError::Sign(_)) && !error.is_retryable(),
        "{error:?}"
    );
    let clear = Secret::new("ws://r.example/");
    let dialer = Dialer::new(connector(), ClearText::Loopback);
    let error = within(dialer.dial_signed(&clear, &Echo)).await.expect_err("clear text");
    assert!(matches!(error, DialError::Url(_)), "{error:?}");
}
