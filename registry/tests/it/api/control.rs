//! The control connection of a relay.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_wire::control::{FromRelay, Presence, ToRelay};
use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId, RegistrationId};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{World, supersede};
use crate::support::registry::{Database, Registry};
use crate::support::relay::Relay;
use crate::support::{eventually, key};

#[tokio::test]
async fn only_relays_may_open_it() {
    let world = World::start().await;
    let admin = world.database().token("admin").await;
    for (token, status) in [("x", 401), (&admin, 403), (&world.executor, 403)] {
        match Relay::dial(&world.registry, token).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), status),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_revoked_credential_is_cut_off() {
    let mut world = World::start().await;
    let registered = world.online(1, 1).await;
    let granted = world.granted(2).await;
    let database = world.database().clone();
    let list: serde_json::Value = serde_json::from_str(&database.run(&["credential", "list", "--json"]).await).unwrap();
    let id = |role: &str| {
        let found = list.as_array().unwrap().iter().find(|row| row["role"] == role).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    let start = Instant::now();
    database.run(&["credential", "revoke", &id("harness")]).await;
    let harness = CredentialId::new(id("harness")).unwrap();
    assert_eq!(
        world.relay.hear().await,
        ToRelay::Revoke {
            credential: harness.clone()
        }
    );
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(world.registry.connect(&world.harness, "e", &key(2)).await.status, 401);
    let validated = world.registry.validate(&world.executor, "e", &granted, None).await;
    assert_eq!(validated.json(), json!({"valid": false}));

    database.run(&["credential", "revoke", &id("executor")]).await;
    let executor = CredentialId::new(id("executor")).unwrap();
    assert_eq!(
        world.relay.hear().await,
        ToRelay::Revoke {
            credential: executor.clone()
        }
    );
    let validated = world.registry.validate(&world.executor, "e", &granted, None).await;
    assert_eq!(validated.status, 401, "the executor's own credential is refused");
    assert_eq!(world.registry.register(&world.executor, "e", &key(1)).await.status, 401);
    drop(registered);

    let token = database.token("relay").await;
    let (_second, welcome) = Relay::connect(&world.registry, &token, "late").await;
    let ToRelay::Welcome { revoked, keys } = welcome else {
        panic!("{welcome:?}")
    };
    assert_eq!(keys.len(), 1);
    let mut expected = [executor, harness];
    expected.sort();
    assert_eq!(revoked, expected, "a relay that comes later is told");
}

#[tokio::test]
async fn a_deleted_environment_is_forgotten() {
    let mut world = World::start().await;
    let (scoped, id) = world.database().credential(&["harness", "--environment", "e"]).await;
    world.online(1, 1).await;
    assert_eq!(world.registry.connect(&scoped, "e", &key(2)).await.status, 200);
    let start = Instant::now();
    world.database().run(&["environment", "delete", "e"]).await;
    let environment = EnvironmentId::new("e").unwrap();
    let forget = world.relay.hear().await;
    assert!(
        matches!(&forget, ToRelay::Forget { environment: told, generation } if *told == environment && *generation > 1),
        "{forget:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let credential = CredentialId::new(id).unwrap();
    assert_eq!(world.relay.hear().await, ToRelay::Revoke { credential });
    assert_eq!(world.registry.connect(&scoped, "e", &key(2)).await.status, 401);
    assert_eq!(world.registry.connect(&world.harness, "e", &key(2)).await.status, 404);
}

#[tokio::test]
async fn a_relay_whose_credential_is_revoked_is_closed() {
    let database = Database::sqlite();
    let registry = Registry::start(&database, &[]).await;
    let (token, id) = database.credential(&["relay"]).await;
    let (mut relay, _) = Relay::connect(&registry, &token, "boot").await;
    database.run(&["credential", "revoke", &id]).await;
    let start = Instant::now();
    let frame = relay.closed().await.unwrap();
    assert_eq!(u16::from(frame.code), 1008);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    match Relay::dial(&registry, &token).await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 401),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rule_breakers_are_closed() {
    let world = World::start().await;
    let token = world.database().token("relay").await;
    let hello = |boot_id: &str, public_url: &str, version: &str| {
        serde_json::to_string(&FromRelay::Hello {
            boot_id: BootId::new(boot_id).unwrap(),
            public_url: public_url.to_owned(),
            version: version.to_owned(),
        })
        .unwrap()
    };
    let renew = serde_json::to_string(&FromRelay::Renew {
        executors: 1,
        accepting: true,
    })
    .unwrap();
    let good = hello("other", "ws://x", "1");
    let cases: [(&str, Vec<Message>, u16); 12] = [
        ("no hello", vec![Message::text(renew)], 1008),
        ("not JSON", vec![Message::text("x")], 1002),
        ("unknown type", vec![Message::text(r#"{"type":"x"}"#)], 1002),
        (
            "duplicate key",
            vec![Message::text(good.replacen('{', r#"{"version":"2","#, 1))],
            1002,
        ),
        ("bad id", vec![Message::text(good.replace("other", "a b"))], 1002),
        ("binary", vec![Message::binary(good.clone())], 1003),
        ("http URL", vec![Message::text(hello("other", "http://x", "1"))], 1008),
        ("no URL", vec![Message::text(hello("other", "ws://", "1"))], 1008),
        (
            "long URL",
            vec![Message::text(hello(
                "other",
                &format!("ws://{}", "x".repeat(1024)),
                "1",
            ))],
            1008,
        ),
        (
            "long version",
            vec![Message::text(hello("other", "ws://x", &"1".repeat(65)))],
            1008,
        ),
        (
            "another run's id",
            vec![Message::text(hello("boot", "ws://x", "1"))],
            1008,
        ),
        (
            "two relays",
            vec![
                Message::text(good.clone()),
                Message::text(hello("third", "ws://x", "1")),
            ],
            1008,
        ),
    ];
    for (what, messages, code) in cases {
        let mut relay = Relay {
            boot_id: BootId::new("unused").unwrap(),
            socket: Relay::dial(&world.registry, &token).await.unwrap(),
        };
        for message in messages {
            relay.socket.send(message).await.unwrap();
        }
        let frame = relay.closed().await.unwrap_or_else(|| panic!("{what}: no close frame"));
        assert_eq!(u16::from(frame.code), code, "{what}: {frame:?}");
        assert_ne!(frame.reason.as_str(), "no message in time", "{what}: was taken");
    }
    let mut large = Relay::dial(&world.registry, &token).await.unwrap();
    let _ = large.send(Message::text("x".repeat(1024 * 1024 + 1))).await;
    while let Some(Ok(message)) = large.next().await {
        assert!(message.is_close(), "{message:?}");
    }
}

#[tokio::test]
async fn a_silent_relay_is_closed() {
    let world = World::start().await;
    let token = world.database().token("relay").await;
    let mut silent = Relay {
        boot_id: BootId::new("silent").unwrap(),
        socket: Relay::dial(&world.registry, &token).await.unwrap(),
    };
    let start = Instant::now();
    let frame = silent.closed().await.unwrap();
    assert_eq!(u16::from(frame.code), 1008);
    assert!(
        (9.0..25.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );
}

/// A relay that comes back with a new connection, or starts over on the old one, tells everything anew.
#[tokio::test]
async fn presence_is_told_anew() {
    let mut world = World::start().await;
    let registered = world.online(1, 1).await;
    let admin = world.database().token("admin").await;
    let present = async |world: &World| {
        let shown = world.registry.call(&admin, "GET", "/v1/environments/e", "").await;
        shown.json()["presence"]["relay"].is_string()
    };
    eventually("the executor is present", || present(&world)).await;
    world.relay.hello().await;
    assert!(matches!(world.relay.hear().await, ToRelay::Welcome { .. }));
    assert!(!present(&world).await);
    world.relay.executor_up(&registered, 1, 2).await;
    eventually("the executor is present again", || present(&world)).await;

    let list: serde_json::Value =
        serde_json::from_str(&world.database().run(&["credential", "list", "--json"]).await).unwrap();
    assert!(
        list.as_array()
            .unwrap()
            .iter()
            .any(|row| row["role"] == "relay" && row["last_used"].is_string())
    );
}

/// Hundreds of executors that are out of date are each put right, while the relay reads nothing until it has said all.
#[tokio::test]
async fn a_flood_of_stale_executors_blocks_nobody() {
    let mut world = World::start().await;
    for number in 0..2000 {
        let presence = Presence {
            environment: EnvironmentId::new(format!("gone-{number}")).unwrap(),
            registration: RegistrationId::new("reg_gone").unwrap(),
            generation: 1,
            connection: number,
        };
        let text = serde_json::to_string(&FromRelay::ExecutorUp(presence)).unwrap();
        world.relay.socket.feed(Message::text(text)).await.unwrap();
    }
    world.relay.socket.flush().await.unwrap();
    let mut put_right = std::collections::HashSet::new();
    while put_right.len() < 2000 {
        match world.relay.hear().await {
            ToRelay::Forget {
                environment,
                generation: 1,
            } => assert!(put_right.insert(environment), "told twice"),
            other => panic!("{other:?}"),
        }
    }
    let registered = world.registry.register(&world.executor, "e", &key(1)).await.json();
    let again = world.registry.register(&world.executor, "e", &key(1)).await.json();
    assert_ne!(registered, again);
    supersede(&world.relay.hear().await);
}

#[tokio::test]
async fn relays_hear_of_a_stop() {
    let world = World::start().await;
    let World {
        registry, mut relay, ..
    } = world;
    let start = Instant::now();
    let (code, frame) = tokio::join!(registry.stop(), relay.closed());
    assert_eq!(code, Some(0));
    assert_eq!(u16::from(frame.unwrap().code), 1001);
    // Not after the grace for requests in flight.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}
