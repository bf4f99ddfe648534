//! Tickets that are forged, replayed, expired, or for somebody else.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, Peer, made_up_key};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_wire::limits::HARNESS_TICKET_LIFETIME;
use serde_json::{Value, json};

use super::yard::Yard;

/// The parts of a relay URL with a ticket.
struct Parts {
    base: String,
    header: Value,
    claims: Value,
    signature: String,
}

impl Parts {
    fn of(url: &str) -> Result<Self> {
        let (base, ticket) = url.split_once("?ticket=").context("a URL with a ticket")?;
        let mut parts = ticket.split('.');
        let mut next = || parts.next().context("three parts");
        let (header, claims, signature) = (next()?, next()?, next()?);
        Ok(Self {
            base: base.to_owned(),
            header: serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header)?)?,
            claims: serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?,
            signature: signature.to_owned(),
        })
    }

    fn url(&self) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!(
            "{}?ticket={}.{}.{}",
            self.base,
            part(&self.header),
            part(&self.claims),
            self.signature
        )
    }
}

/// A way to make a good URL bad, and the statuses that may answer it.
type Forgery = (&'static str, fn(&mut Parts), &'static [u16]);

const FORGERIES: &[Forgery] = &[
    ("another role", |parts| parts.claims["role"] = json!("executor"), &[401]),
    (
        "another audience",
        |parts| parts.claims["aud"] = json!("rendezvous-relay"),
        &[401],
    ),
    (
        "another environment inside",
        |parts| parts.claims["env"] = json!("site-2"),
        &[401],
    ),
    (
        "a later expiry",
        |parts| parts.claims["exp"] = json!(99_999_999_999_u64),
        &[401],
    ),
    ("no expiry", |parts| parts.claims["exp"] = Value::Null, &[401]),
    (
        "a greater generation",
        |parts| parts.claims["gen"] = json!(u64::MAX),
        &[401],
    ),
    ("a further claim", |parts| parts.claims["more"] = json!(1), &[401]),
    ("no algorithm", |parts| parts.header["alg"] = json!("none"), &[401]),
    (
        "another algorithm",
        |parts| parts.header["alg"] = json!("HS256"),
        &[401],
    ),
    ("another key", |parts| parts.header["kid"] = json!("made-up"), &[401]),
    ("no signature", |parts| parts.signature.clear(), &[401]),
    ("a short signature", |parts| parts.signature.truncate(20), &[401]),
    (
        "zeros as signature",
        |parts| parts.signature = URL_SAFE_NO_PAD.encode([0; 64]),
        &[401],
    ),
    (
        "claims of 5 KiB",
        |parts| parts.claims["jti"] = json!("x".repeat(5000)),
        &[400, 401, 414, 431],
    ),
    (
        "another environment in the path",
        |parts| parts.base = parts.base.replace(ENVIRONMENT, "site-2"),
        &[401],
    ),
    (
        "an impossible environment",
        |parts| parts.base = parts.base.replace(ENVIRONMENT, "a.b"),
        &[404, 401, 400],
    ),
];

pub(crate) async fn refused(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    yard.registry.environment("site-2").await?;
    let _executor = yard.executor(&made_up_key(1)).await?;
    for (what, forge, expected) in FORGERIES {
        let mut parts = Parts::of(&yard.harness_url().await?)?;
        // The parts as they are make a good URL: otherwise the forgeries would prove nothing.
        forge(&mut parts);
        let dialled = Peer::dial(&parts.url()).await.context(*what)?;
        ensure!(
            dialled.as_ref().err().is_some_and(|status| expected.contains(status)),
            "{what}: {dialled:?}"
        );
    }
    let untouched = yard.harness_url().await?;
    Peer::open(&untouched).await.context("an untouched ticket")?;
    let replayed = Peer::dial(&untouched).await?;
    ensure!(replayed.as_ref().err() == Some(&401), "a replayed ticket: {replayed:?}");

    let bare = untouched.split('?').next().context("a path")?;
    for query in [
        "",
        "?",
        "?ticket=",
        "?ticket=x",
        "?ticket=a.b.c",
        "?other=1",
        "?ticket=a.b.c&more=1",
    ] {
        let dialled = Peer::dial(&format!("{bare}{query}")).await?;
        ensure!(
            dialled.as_ref().err().is_some_and(|status| (400..500).contains(status)),
            "{query}: {dialled:?}"
        );
    }
    yard.memory_is_bounded()
}

pub(crate) async fn of_another_relay(cx: Context) -> Result<()> {
    let registry = Registry::start(&cx, registry::Options::default()).await?;
    registry.environment(ENVIRONMENT).await?;
    let executor_token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let harness_token = registry.credential(Role::Harness, Some(ENVIRONMENT)).await?;
    let mut relays = Vec::new();
    for number in 0..2 {
        let token = registry.credential(Role::Relay, None).await?;
        let options = relay::Options {
            name: format!("relay-{number}"),
            ..relay::Options::new(registry.url(), &token, &format!("ws://relay-{number}"))
        };
        relays.push(Relay::start(&cx, options).await?);
    }
    // The names stand in the URLs; the test knows the addresses.
    let local = |url: &str, relay: usize| {
        (0..2).fold(url.to_owned(), |url, number| {
            url.replace(&format!("ws://relay-{number}"), relays[relay].url())
        })
    };
    let registered = peer::register(registry.url(), ENVIRONMENT, &executor_token, &made_up_key(1)).await?;
    let url = registered.url.expose();
    let home = usize::from(url.contains("relay-1"));
    let _executor = Peer::open(&local(url, home)).await?;
    let bundle = peer::connect(registry.url(), ENVIRONMENT, &harness_token, &made_up_key(2)).await?;
    let elsewhere = Peer::dial(&local(bundle.url.expose(), 1 - home)).await?;
    ensure!(
        elsewhere.as_ref().err() == Some(&401),
        "a ticket for another relay: {elsewhere:?}"
    );
    Peer::open(&local(bundle.url.expose(), home))
        .await
        .context("the same ticket at its relay")?;
    Ok(())
}

pub(crate) async fn expire(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let _executor = yard.executor(&made_up_key(1)).await?;
    let url = yard.harness_url().await?;
    // Nothing announces the end of a lifetime; relays may allow for clocks that differ a little.
    tokio::time::sleep(HARNESS_TICKET_LIFETIME + Duration::from_secs(35)).await;
    let dialled = Peer::dial(&url).await?;
    ensure!(dialled.as_ref().err() == Some(&401), "an expired ticket: {dialled:?}");
    Ok(())
}
