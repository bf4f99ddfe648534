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

/// A relay URL and the parts of its ticket, as they came: a part changes only if a forgery changes it.
struct Parts {
    base: String,
    header: String,
    claims: String,
    signature: String,
}

impl Parts {
    fn of(url: &str) -> Result<Self> {
        let (base, ticket) = url.split_once("?ticket=").context("a URL with a ticket")?;
        let mut parts = ticket.split('.').map(str::to_owned);
        let mut next = || parts.next().context("three parts");
        Ok(Self {
            base: base.to_owned(),
            header: next()?,
            claims: next()?,
            signature: next()?,
        })
    }

    fn url(&self) -> String {
        let Self {
            base,
            header,
            claims,
            signature,
        } = self;
        format!("{base}?ticket={header}.{claims}.{signature}")
    }
}

/// A way to change a good URL.
type Forge = fn(&mut Parts);

fn header(parts: &mut Parts, name: &str, value: Value) {
    set(&mut parts.header, name, value);
}

fn claim(parts: &mut Parts, name: &str, value: Value) {
    set(&mut parts.claims, name, value);
}

fn set(part: &mut String, name: &str, value: Value) {
    let decoded = URL_SAFE_NO_PAD.decode(part.as_bytes()).expect("base64");
    let mut object: Value = serde_json::from_slice(&decoded).expect("JSON");
    object[name] = value;
    *part = URL_SAFE_NO_PAD.encode(object.to_string());
}

/// What is done to a good URL, and the status and reason that answer it.
const FORGERIES: &[(&str, Forge, u16, &str)] = &[
    // The control: the forgeries prove something because the untouched URL is good.
    ("nothing", |_| {}, 101, ""),
    (
        "another role",
        |parts| claim(parts, "role", json!("executor")),
        401,
        "invalid_signature",
    ),
    (
        "another audience",
        |parts| claim(parts, "aud", json!("rendezvous-relay")),
        401,
        "invalid_signature",
    ),
    (
        "another environment inside",
        |parts| claim(parts, "env", json!("site-2")),
        401,
        "invalid_signature",
    ),
    (
        "a later expiry",
        |parts| claim(parts, "exp", json!(99_999_999_999_u64)),
        401,
        "invalid_signature",
    ),
    (
        "no expiry",
        |parts| claim(parts, "exp", Value::Null),
        401,
        "invalid_signature",
    ),
    (
        "a greater generation",
        |parts| claim(parts, "gen", json!(u64::MAX)),
        401,
        "invalid_signature",
    ),
    (
        "a further claim",
        |parts| claim(parts, "more", json!(1)),
        401,
        "invalid_signature",
    ),
    (
        "the members in another order",
        |parts| claim(parts, "role", json!("harness")),
        401,
        "invalid_signature",
    ),
    (
        "no algorithm",
        |parts| header(parts, "alg", json!("none")),
        401,
        "malformed_query",
    ),
    (
        "another algorithm",
        |parts| header(parts, "alg", json!("HS256")),
        401,
        "invalid_signature",
    ),
    (
        "another key",
        |parts| header(parts, "kid", json!("made-up")),
        401,
        "invalid_secret",
    ),
    (
        "no signature",
        |parts| parts.signature.clear(),
        401,
        "invalid_signature",
    ),
    (
        "a short signature",
        |parts| parts.signature.truncate(20),
        401,
        "invalid_signature",
    ),
    (
        "zeros as signature",
        |parts| parts.signature = URL_SAFE_NO_PAD.encode([0; 64]),
        401,
        "invalid_signature",
    ),
    (
        "one flipped bit in the signature",
        |parts| {
            let mut signature = URL_SAFE_NO_PAD.decode(parts.signature.as_bytes()).expect("base64");
            signature[40] ^= 1;
            parts.signature = URL_SAFE_NO_PAD.encode(signature);
        },
        401,
        "invalid_signature",
    ),
    (
        "claims of 5 KiB",
        |parts| claim(parts, "jti", json!("x".repeat(5000))),
        400,
        "malformed_query",
    ),
    // The ticket itself is genuine in these.
    (
        "another environment in the path",
        |parts| parts.base = parts.base.replace(ENVIRONMENT, "site-2"),
        401,
        "unexpected_environment",
    ),
    (
        "an impossible environment",
        |parts| parts.base = parts.base.replace(ENVIRONMENT, "a.b"),
        404,
        "unknown_route",
    ),
];

/// What stands for a ticket, and the answer to it.
const QUERIES: &[(&str, u16, &str)] = &[
    ("", 400, "missing_signature"),
    ("?", 400, "missing_signature"),
    ("?ticket=", 400, "malformed_query"),
    ("?ticket=x", 401, "malformed_query"),
    ("?ticket=a.b.c", 401, "malformed_query"),
    ("?other=1", 400, "malformed_query"),
    ("?ticket=a.b.c&more=1", 400, "extra_query_param"),
];

pub(crate) async fn refused(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    yard.registry.environment("site-2").await?;
    let _executor = yard.executor(&made_up_key(1)).await?;
    for (what, forge, status, reason) in FORGERIES {
        let mut parts = Parts::of(&yard.harness_url().await?)?;
        forge(&mut parts);
        answered(what, &parts.url(), *status, reason).await?;
    }

    let used = yard.harness_url().await?;
    answered("a fresh ticket", &used, 101, "").await?;
    answered("a replayed ticket", &used, 401, "already_used").await?;

    let bare = used.split('?').next().context("a path")?;
    for (query, status, reason) in QUERIES {
        answered(query, &format!("{bare}{query}"), *status, reason).await?;
    }
    yard.memory_is_bounded()
}

/// Genuine tickets, but of another registry, or of a registration that a newer one ended.
pub(crate) async fn of_another_time_or_place(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let old = peer::register(yard.registry.url(), ENVIRONMENT, &yard.executor_token, &made_up_key(1)).await?;
    let elsewhere = Yard::open_another(&cx, "elsewhere").await?;
    let _executor = elsewhere.executor(&made_up_key(1)).await?;
    let foreign = elsewhere.harness_url().await?;
    answered("the control", &elsewhere.harness_url().await?, 101, "").await?;
    let ticket = foreign.split_once('?').context("a URL with a ticket")?.1;
    let base = old.url.expose().split_once('?').context("a URL with a ticket")?.0;
    answered(
        "a ticket of another registry",
        &format!("{base}?{ticket}"),
        401,
        "invalid_secret",
    )
    .await?;

    let _newer = yard.executor(&made_up_key(1)).await?;
    answered(
        "an executor's ticket of an older registration",
        old.url.expose(),
        401,
        "unexpected_executor_registration_id",
    )
    .await
}

async fn answered(what: &str, url: &str, status: u16, reason: &str) -> Result<()> {
    let answer = Peer::answer(url).await.with_context(|| what.to_owned())?;
    ensure!(
        answer == (status, reason.to_owned()),
        "{what}: {answer:?}, expected {status} {reason:?}"
    );
    Ok(())
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
    let elsewhere = local(bundle.url.expose(), 1 - home);
    answered(
        "a ticket for another relay",
        &elsewhere,
        401,
        "wrong_rendezvous_cluster",
    )
    .await?;
    let there = local(bundle.url.expose(), home);
    answered("the same ticket at its relay", &there, 101, "").await
}

pub(crate) async fn expire(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let _executor = yard.executor(&made_up_key(1)).await?;
    let url = yard.harness_url().await?;
    // Nothing announces the end of a lifetime; relays may allow for clocks that differ a little.
    tokio::time::sleep(HARNESS_TICKET_LIFETIME + Duration::from_secs(35)).await;
    answered("an expired ticket", &url, 401, "expired").await
}
