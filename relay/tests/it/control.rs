//! What the registry tells the relay, and the other way round.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use rendezvous_relay::ControlChannel;
use rendezvous_wire::control::{FromRelay, ToRelay};
use rendezvous_wire::id::{CredentialId, EnvironmentId, RegistrationId};
use rendezvous_wire::ticket::Role;
use tokio::sync::mpsc;

use crate::world::{PATIENCE, Signer, World, eventually, resume};

#[tokio::test]
async fn nobody_gets_in_before_keys_are_known() {
    let relay = rendezvous_relay::Relay::detached(crate::world::config());
    assert!(!relay.is_ready());
    let world = World::new().await;
    world.tell(ToRelay::Keys { keys: vec![] }).await;
    eventually(|| !world.relay.is_ready()).await;
    assert_eq!(world.refusal(&world.claims(Role::Executor, "exec")).await.0, 503);
}

#[tokio::test]
async fn keys_can_be_rotated() {
    let mut world = World::new().await;
    let old = world.claims(Role::Executor, "exec");
    let old_url = world.url(&old);
    let next = Signer::new("k2");
    world
        .tell(ToRelay::Keys {
            keys: vec![next.public.clone()],
        })
        .await;
    world.signer = next;
    let claims = world.claims(Role::Executor, "exec");
    let mut connected = None;
    let taken = async {
        while connected.is_none() {
            connected = crate::world::open(&world.url(&claims)).await.ok();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.unwrap();
    assert_eq!(crate::world::refusal(&old_url).await, (401, "invalid_secret".into()));
}

#[tokio::test]
async fn a_revoked_credential_is_cut_at_once_and_stays_out() {
    let world = World::new().await;
    let mut executor = world.executor().await;
    let mut bad = world.open_stream(&mut executor, "bad", "bad").await;
    let mut good = world.open_stream(&mut executor, "good", "good").await;
    let start = std::time::Instant::now();
    world
        .tell(ToRelay::Revoke {
            credential: CredentialId::new("bad").unwrap(),
        })
        .await;
    assert_eq!(bad.closed().await, (1008, "revoked".into()));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(executor.reset("bad").await, "revoked");
    assert_eq!(
        world.refusal(&world.claims(Role::Harness, "bad")).await,
        (401, "revoked".into())
    );
    good.echo(&mut executor, "good", 0).await;
}

/// The relay knows when a harness's credential ends, so that it needs no registry to cut it.
#[tokio::test]
async fn a_harness_ends_with_its_credential_while_the_registry_is_away() {
    let mut world = World::new().await;
    let mut executor = world.executor().await;
    // The registry goes away.
    (world.to_relay, _) = mpsc::channel(1);
    world.from_relay.close();
    let mut other = world.open_stream(&mut executor, "other", "other").await;
    let mut claims = world.claims(Role::Harness, "short");
    let end = claims.iat + 3;
    claims.ends = Some(end);
    let mut short = world.connect(&claims).await;
    short.send(resume("short")).await;
    assert_eq!(executor.frame().await, resume("short"));
    assert_eq!(short.closed().await, (1008, "revoked".into()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now >= end, "cut {now}, before {end}");
    assert_eq!(executor.reset("short").await, "revoked");
    claims = world.claims(Role::Harness, "short");
    claims.ends = Some(end);
    assert_eq!(world.refusal(&claims).await, (401, "expired".into()));
    other.echo(&mut executor, "other", 0).await;
}

#[tokio::test]
async fn an_executor_goes_on_when_its_credential_ends() {
    let world = World::new().await;
    let mut claims = world.claims(Role::Executor, "exec");
    claims.ends = Some(claims.iat + 2);
    let mut executor = world.connect(&claims).await;
    // By the time that a harness is cut, the executor would have been.
    let mut short = world.claims(Role::Harness, "short");
    short.ends = Some(claims.iat + 3);
    let mut short = world.connect(&short).await;
    assert_eq!(short.closed().await.0, 1008);
    world.open_stream(&mut executor, "other", "other").await;
}

#[tokio::test]
async fn a_superseded_executor_is_closed_and_a_deleted_environment_is_empty() {
    let mut world = World::new().await;
    let mut executor = world.executor().await;
    assert!(matches!(world.told().await, FromRelay::ExecutorUp(_)));
    let environment = EnvironmentId::new("env").unwrap();
    world
        .tell(ToRelay::Supersede {
            environment: environment.clone(),
            generation: 2,
        })
        .await;
    assert_eq!(executor.closed().await.0, 1001);
    assert!(matches!(world.told().await, FromRelay::ExecutorDown(_)));
    assert_eq!(world.refusal(&world.claims(Role::Executor, "exec")).await.0, 401);
    let mut newer = world.claims(Role::Executor, "exec");
    newer.generation = 2;
    newer.reg = RegistrationId::new("reg-2").unwrap();
    let mut executor = world.connect(&newer).await;
    world
        .tell(ToRelay::Forget {
            environment,
            generation: 2,
        })
        .await;
    assert_eq!(executor.closed().await.0, 1001);
    assert_eq!(world.refusal(&newer).await.0, 401);
}

#[tokio::test]
async fn presence_is_told_in_order_and_again_to_a_new_registry() {
    let mut world = World::new().await;
    let first = world.executor().await;
    let FromRelay::ExecutorUp(one) = world.told().await else {
        panic!()
    };
    let _second = world.executor().await;
    assert_eq!(world.told().await, FromRelay::ExecutorDown(one.clone()));
    let FromRelay::ExecutorUp(two) = world.told().await else {
        panic!()
    };
    assert!(two.connection > one.connection);
    drop(first);
    // The registry goes away; live connections stay.
    let (to_relay, from_registry) = mpsc::channel(8);
    let (to_registry, mut from_relay) = mpsc::channel(8);
    world.to_relay = to_relay;
    tokio::spawn(world.relay.clone().attach(ControlChannel {
        to_registry,
        from_registry,
    }));
    assert!(
        matches!(from_relay.recv().await, Some(FromRelay::Hello { boot_id, .. }) if boot_id == *world.relay.boot_id())
    );
    assert_eq!(from_relay.recv().await, Some(FromRelay::ExecutorUp(two)));
    assert!(world.relay.is_ready(), "the last known keys hold");
    let mut renewed = false;
    while let Ok(Some(message)) = tokio::time::timeout(PATIENCE, from_relay.recv()).await {
        if matches!(
            message,
            FromRelay::Renew {
                executors: 1,
                accepting: true
            }
        ) {
            renewed = true;
            break;
        }
    }
    assert!(renewed);
}

#[tokio::test]
async fn probes_tell_the_living_from_the_dead() {
    let mut world = World::new().await;
    let mut executor = world.executor().await;
    assert!(matches!(world.told().await, FromRelay::ExecutorUp(_)));
    let probe = |probe, registration: &str| ToRelay::Probe {
        probe,
        registration: RegistrationId::new(registration).unwrap(),
    };
    world.tell(probe(1, "nobody")).await;
    assert_eq!(world.told().await, FromRelay::ProbeResult { probe: 1, alive: false });
    // Reading answers pings.
    let reading = tokio::spawn(async move { while executor.socket.next().await.is_some() {} });
    world.tell(probe(2, "reg-1")).await;
    assert_eq!(world.told().await, FromRelay::ProbeResult { probe: 2, alive: true });
    reading.abort();
}
