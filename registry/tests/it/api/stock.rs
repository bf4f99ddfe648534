//! `register`, `connect` and `validate`.

use std::time::{Duration, Instant};

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use rendezvous_wire::control::{FromRelay, ToRelay};
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::ticket::Claims;
use serde_json::{Value, json};

use super::{World, generation, supersede};
use crate::support::key;
use crate::support::registry::{Database, Registry};
use crate::support::relay::Relay;

/// Checks a ticket as a relay does, with the keys of the welcome.
fn verify(url: &Value, welcome: &ToRelay, audience: &str) -> Claims {
    let ToRelay::Welcome { keys, .. } = welcome else {
        panic!("{welcome:?}")
    };
    let ticket = url.as_str().unwrap().split_once("?ticket=").unwrap().1;
    let header = jsonwebtoken::decode_header(ticket).unwrap();
    assert_eq!(header.kid.as_ref(), Some(&keys[0].kid));
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.set_audience(&[audience]);
    let key = DecodingKey::from_ed_components(&keys[0].x).unwrap();
    decode::<Claims>(ticket, &key, &validation).unwrap().claims
}

#[tokio::test]
async fn an_executor_and_a_harness_meet() {
    let database = Database::sqlite();
    database.environment("e").await;
    let registry = Registry::start(&database, &[]).await;
    let (mut relay, welcome) = Relay::connect(&registry, &database.token("relay").await, "boot").await;
    let (executor, executor_id) = database.credential(&["executor", "--expires", "1h"]).await;
    let limited = ["harness", "--environment", "e", "--expires", "2h"];
    let (harness, harness_id) = database.credential(&limited).await;

    let registered = registry.register(&executor, "e", &key(1)).await;
    assert_eq!(registered.status, 200, "{registered:?}");
    assert!(registered.header("x-request-id").unwrap().starts_with("req_"));
    let registered = registered.json();
    assert_eq!(registered["environment_id"], "e");
    assert_eq!(registered["security_profile"], "noise_hybrid_ik_v1");
    let url = registered["url"].as_str().unwrap();
    assert!(url.starts_with("wss://boot.example/base/relay/e?ticket="), "{url}");
    let ticket = verify(&registered["url"], &welcome, "rendezvous-relay");
    assert!(
        (3500..=3600).contains(&(ticket.exp - ticket.iat)),
        "as long as its credential"
    );
    assert_eq!((ticket.sub.as_str(), ticket.key), (executor_id.as_str(), None));
    assert_eq!(ticket.reg.as_str(), registered["executor_registration_id"]);

    relay.executor_up(&registered, ticket.generation, 1).await;
    let connected = registry.connect(&harness, "e", &key(2)).await;
    assert_eq!(connected.status, 200, "{connected:?}");
    let connected = connected.json();
    assert_eq!(connected["executor_public_key"], json!(key(1)));
    assert_eq!(
        connected["executor_registration_id"],
        registered["executor_registration_id"]
    );
    let pass = verify(&connected["url"], &welcome, "boot");
    assert_eq!(pass.exp - pass.iat, 60);
    // So that a relay can cut the harness then without the registry.
    let ends = pass.ends.expect("the end of the credential");
    assert!((7100..=7201).contains(&(ends - pass.iat)), "{pass:?}");
    assert_eq!(
        (pass.sub.as_str(), pass.key),
        (harness_id.as_str(), Some(key(2).digest()))
    );
    assert_ne!(pass.jti, ticket.jti);

    let body = json!({
        "executor_registration_id": connected["executor_registration_id"],
        "harness_public_key": key(2),
        "harness_key_authorization": connected["harness_key_authorization"],
        "unknown": {"members": ["are", "fine"]},
    });
    let validated = registry.validate(&executor, "e", &body, None).await;
    assert_eq!((validated.status, validated.json()), (200, json!({"valid": true})));
}

#[tokio::test]
async fn an_authorization_admits_one_stream() {
    let mut world = World::start().await;
    let registered = world.online(1, 1).await;
    let body = world.granted(2).await;
    let valid = async |body: &Value, stream: Option<&str>| {
        let answer = world.registry.validate(&world.executor, "e", body, stream).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["valid"].as_bool().unwrap()
    };
    for (member, value) in [
        ("harness_public_key", json!(key(3))),
        ("executor_registration_id", json!("reg_other")),
        ("executor_registration_id", json!("\0")),
        ("harness_key_authorization", json!("")),
        ("harness_key_authorization", json!("x".repeat(4097))),
    ] {
        let mut wrong = body.clone();
        wrong[member] = value;
        assert!(!valid(&wrong, Some("s")).await, "{member}");
    }
    assert!(valid(&body, Some("s")).await);
    assert!(valid(&body, Some("s")).await, "a repetition");
    assert!(!valid(&body, Some("t")).await);
    assert!(!valid(&body, None).await);

    let unnamed = world.granted(2).await;
    assert!(valid(&unnamed, None).await);
    assert!(valid(&unnamed, None).await);
    assert!(!valid(&unnamed, Some("s")).await);

    let left = world.granted(2).await;
    let superseded = world.registry.register(&world.executor, "e", &key(1)).await.json();
    assert_ne!(
        superseded["executor_registration_id"],
        registered["executor_registration_id"]
    );
    assert!(!valid(&left, None).await, "the registration is superseded");
}

#[tokio::test]
async fn connect_waits_for_the_executor() {
    let mut world = World::start().await;
    let start = Instant::now();
    let offline = world.registry.connect(&world.harness, "e", &key(2)).await;
    assert_eq!((offline.status, offline.code().as_str()), (409, "environment_offline"));
    assert!(
        (4.0..10.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );

    let registered = world.registry.register(&world.executor, "e", &key(1)).await.json();
    let (registry, harness) = (&world.registry, world.harness.clone());
    let arrive = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.relay.executor_up(&registered, generation(&registered), 1).await;
    };
    let start = Instant::now();
    let second = key(2);
    let (connected, ()) = tokio::join!(registry.connect(&harness, "e", &second), arrive);
    assert_eq!(connected.status, 200, "{connected:?}");
    // Not at the end of the longest wait.
    assert!(
        (0.4..3.9).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );

    world
        .relay
        .say(&FromRelay::Renew {
            executors: 1,
            accepting: false,
        })
        .await;
    world.relay.hears_nothing().await;
    let draining = world.registry.connect(&world.harness, "e", &key(2)).await;
    assert_eq!(
        draining.code(),
        "environment_offline",
        "a draining relay takes no harness"
    );
}

#[tokio::test]
async fn a_living_executor_keeps_its_environment() {
    let mut world = World::start().await;
    let first = world.online(1, 1).await;
    let first_generation = generation(&first);
    let mut contend = async |contender: PublicKey, alive: Option<bool>| {
        let answer = async {
            let message = world.relay.hear().await;
            let ToRelay::Probe { probe, registration } = message else {
                panic!("{message:?}")
            };
            assert_eq!(registration.as_str(), first["executor_registration_id"]);
            if let Some(alive) = alive {
                world.relay.say(&FromRelay::ProbeResult { probe, alive }).await;
            }
        };
        tokio::join!(world.registry.register(&world.executor, "e", &contender), answer).0
    };
    // Its own public key too: every harness knows it.
    for contender in [key(3), key(1)] {
        let refused = contend(contender, Some(true)).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "environment_in_use"));
    }
    let start = Instant::now();
    let silent = contend(key(3), None).await;
    assert_eq!(silent.status, 200, "{silent:?}");
    assert!(
        (5.0..12.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );
    assert!(generation(&silent.json()) > first_generation);
    assert_eq!(supersede(&world.relay.hear().await), generation(&silent.json()));
}

#[tokio::test]
async fn a_dead_executor_is_replaced_at_once() {
    let mut world = World::start().await;
    world.online(1, 1).await;
    let answer = async {
        let message = world.relay.hear().await;
        let ToRelay::Probe { probe, .. } = message else {
            panic!("{message:?}")
        };
        world.relay.say(&FromRelay::ProbeResult { probe, alive: false }).await;
    };
    let start = Instant::now();
    let other = key(3);
    let (replaced, ()) = tokio::join!(world.registry.register(&world.executor, "e", &other), answer);
    assert_eq!(replaced.status, 200, "{replaced:?}");
    // Not after the time for silence.
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_executor_that_lost_its_connection_registers_again() {
    let mut world = World::start().await;
    let first = world.online(1, 1).await;
    let answer = async {
        let message = world.relay.hear().await;
        let ToRelay::Probe { probe, .. } = message else {
            panic!("{message:?}")
        };
        world.relay.say(&FromRelay::ProbeResult { probe, alive: false }).await;
    };
    let same = key(1);
    let (second, ()) = tokio::join!(world.registry.register(&world.executor, "e", &same), answer);
    let second = second.json();
    assert_eq!(generation(&second), generation(&first) + 1);
    assert_eq!(supersede(&world.relay.hear().await), generation(&second));
    // The old connection, told late, does not count; the relay is told again.
    world.relay.executor_up(&first, generation(&first), 1).await;
    assert_eq!(supersede(&world.relay.hear().await), generation(&second));
}

#[tokio::test]
async fn of_racing_registrations_the_last_one_holds() {
    let world = World::start().await;
    let keys: Vec<_> = (0..12).map(key).collect();
    let racing = keys
        .iter()
        .map(|key| world.registry.register(&world.executor, "e", key));
    let answers = futures_util::future::join_all(racing).await;
    let mut newest = None;
    for answer in answers {
        match answer.status {
            200 => {
                newest = newest.max(Some((
                    generation(&answer.json()),
                    answer.json()["executor_registration_id"].to_string(),
                )))
            }
            503 => {
                assert_eq!(answer.code(), "registration_conflict");
                assert_eq!(answer.header("retry-after"), Some("1"));
            }
            _ => panic!("{answer:?}"),
        }
    }
    let admin = world.database().token("admin").await;
    let shown = world
        .registry
        .call(&admin, "GET", "/v1/environments/e", "")
        .await
        .json();
    assert_eq!(shown["registration"]["id"].to_string(), newest.unwrap().1);
}

#[tokio::test]
async fn register_waits_for_a_relay() {
    let database = Database::sqlite();
    database.environment("e").await;
    let registry = Registry::start(&database, &[]).await;
    let executor = database.token("executor").await;
    let start = Instant::now();
    let refused = registry.register(&executor, "e", &key(1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "unavailable"));
    assert!(refused.header("retry-after").is_some());
    assert!(
        (5.0..12.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );

    let token = database.token("relay").await;
    let arrive = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Relay::connect(&registry, &token, "boot").await
    };
    let first = key(1);
    let (registered, _relay) = tokio::join!(registry.register(&executor, "e", &first), arrive);
    assert_eq!(registered.status, 200, "{registered:?}");
}

#[tokio::test]
async fn works_below_a_base_path() {
    let database = Database::sqlite();
    database.environment("e").await;
    let args = ["--public-url", "https://rdv.example/some/base/", "--embedded-relay"];
    let registry = Registry::start(&database, &args).await;
    let executor = database.token("executor").await;
    let body = json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": key(1)}).to_string();
    for path in [
        "/some/base/cloud/environment/e/register",
        "/cloud/environment/e/register",
    ] {
        let registered = registry.call(&executor, "POST", path, &body).await;
        assert_eq!(registered.status, 200, "{registered:?}");
        let json = registered.json();
        let url = json["url"].as_str().unwrap();
        assert!(url.starts_with("wss://rdv.example/some/base/relay/e?ticket="), "{url}");
    }
    let outside = registry
        .call(&executor, "POST", "/some/basecloud/environment/e/register", &body)
        .await;
    assert_eq!(outside.status, 404);
}
