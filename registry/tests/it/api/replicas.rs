//! Two registries on one PostgreSQL; a relay is connected to one of them only.

use std::time::{Duration, Instant};

use rendezvous_wire::control::{FromRelay, ToRelay};
use rendezvous_wire::id::CredentialId;
use serde_json::json;

use super::{generation, supersede};
use crate::support::key;
use crate::support::registry::{Database, Registry};
use crate::support::relay::Relay;

#[tokio::test]
async fn either_registry_serves_every_environment() {
    let database = Database::postgres();
    database.environment("e").await;
    let (executor, (harness, harness_id)) = (
        database.token("executor").await,
        database.credential(&["harness"]).await,
    );
    let (near, far) = tokio::join!(Registry::start(&database, &[]), Registry::start(&database, &[]));
    let (mut relay, welcome) = Relay::connect(&near, &database.token("relay").await, "boot").await;

    let registered = far.register(&executor, "e", &key(1)).await;
    assert_eq!(registered.status, 200, "{registered:?}");
    let registered = registered.json();
    let ToRelay::Welcome { keys, .. } = welcome else {
        panic!("{welcome:?}")
    };
    let ticket = registered["url"].as_str().unwrap().split_once("?ticket=").unwrap().1;
    let kid = jsonwebtoken::decode_header(ticket).unwrap().kid.unwrap();
    assert_eq!(kid, keys[0].kid, "both sign with one key");

    let arrive = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        relay.executor_up(&registered, generation(&registered), 1).await;
    };
    let second = key(2);
    let (connected, ()) = tokio::join!(far.connect(&harness, "e", &second), arrive);
    assert_eq!(connected.status, 200, "{connected:?}");
    let connected = connected.json();
    let body = json!({
        "executor_registration_id": connected["executor_registration_id"],
        "harness_public_key": key(2),
        "harness_key_authorization": connected["harness_key_authorization"],
    });
    let validated = near.validate(&executor, "e", &body, Some("s")).await;
    assert_eq!(validated.json(), json!({"valid": true}));
    let replayed = far.validate(&executor, "e", &body, Some("t")).await;
    assert_eq!(replayed.json(), json!({"valid": false}));

    let mut contend = async |alive: bool| {
        let answer = async {
            let message = relay.hear().await;
            let ToRelay::Probe { probe, .. } = message else {
                panic!("{message:?}")
            };
            relay.say(&FromRelay::ProbeResult { probe, alive }).await;
        };
        let other = key(3);
        let start = Instant::now();
        let (answered, ()) = tokio::join!(far.register(&executor, "e", &other), answer);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        answered
    };
    assert_eq!(contend(true).await.code(), "environment_in_use");
    let again = contend(false).await.json();
    assert_eq!(supersede(&relay.hear().await), generation(&again));
    let admin = database.token("admin").await;
    let start = Instant::now();
    let revoked = far
        .call(&admin, "DELETE", &format!("/v1/credentials/{harness_id}"), "")
        .await;
    assert_eq!(revoked.status, 204);
    let credential = CredentialId::new(harness_id).unwrap();
    assert_eq!(relay.hear().await, ToRelay::Revoke { credential });
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(near.connect(&harness, "e", &key(2)).await.status, 401);
}

/// The relay's registry dies; the relay connects to the other one and is found again.
#[tokio::test]
async fn a_relay_moves_to_the_other_registry() {
    let database = Database::postgres();
    database.environment("e").await;
    let (executor, harness) = (database.token("executor").await, database.token("harness").await);
    let token = database.token("relay").await;
    let (one, two) = tokio::join!(Registry::start(&database, &[]), Registry::start(&database, &[]));
    let (mut relay, _) = Relay::connect(&one, &token, "boot").await;
    let registered = two.register(&executor, "e", &key(1)).await.json();
    relay.executor_up(&registered, generation(&registered), 1).await;
    let connected = two.connect(&harness, "e", &key(2)).await;
    assert_eq!(connected.status, 200, "{connected:?}");
    one.kill().await;
    let connected = two.connect(&harness, "e", &key(2)).await;
    assert_eq!(connected.status, 200, "the lease holds: {connected:?}");
    let (mut relay, _) = Relay::connect(&two, &token, "boot").await;
    relay.executor_up(&registered, generation(&registered), 1).await;
    let connected = two.connect(&harness, "e", &key(2)).await;
    assert_eq!(connected.status, 200, "{connected:?}");
}
