//! Who gets in.

use std::time::{Duration, Instant};

use rendezvous_wire::id::{BootId, EnvironmentId, RegistrationId};
use rendezvous_wire::ticket::Role;

use crate::world::{PATIENCE, Signer, World, config, open, refusal};

#[tokio::test]
async fn tickets_that_are_no_good_get_401_with_a_reason() {
    let world = World::new().await;
    let _executor = world.executor().await;
    let harness = || world.claims(Role::Harness, "cred");

    let mut expired = harness();
    expired.exp = expired.iat - 1;
    assert_eq!(world.refusal(&expired).await, (401, "expired".into()));

    let mut other_relay = harness();
    other_relay.aud = BootId::new("another").unwrap().to_string();
    assert_eq!(
        world.refusal(&other_relay).await,
        (401, "wrong_rendezvous_cluster".into())
    );

    let mut other_role = harness();
    other_role.role = Role::Executor;
    assert_eq!(world.refusal(&other_role).await, (401, "invalid_role".into()));

    let url = world.url(&harness()).replace("/relay/env?", "/relay/other?");
    assert_eq!(refusal(&url).await, (401, "unexpected_environment".into()));

    let forged = format!("{}x", world.url(&harness()));
    assert_eq!(refusal(&forged).await.0, 401);

    let mut superseded = world.claims(Role::Executor, "exec");
    superseded.generation = 0;
    assert_eq!(
        world.refusal(&superseded).await,
        (401, "unexpected_executor_registration_id".into())
    );
}

#[tokio::test]
async fn a_key_of_somebody_else_signs_nothing() {
    let mut world = World::new().await;
    let claims = world.claims(Role::Executor, "exec");
    for kid in ["k1", "k2"] {
        world.signer = Signer::new(kid);
        let (status, reason) = world.refusal(&claims).await;
        assert_eq!(status, 401);
        assert!(["invalid_signature", "invalid_secret"].contains(&reason.as_str()));
    }
}

#[tokio::test]
async fn a_harness_ticket_is_used_once_and_an_executors_again_and_again() {
    let world = World::new().await;
    let executor = world.claims(Role::Executor, "exec");
    for _ in 0..3 {
        world.connect(&executor).await;
    }
    let _executor = world.connect(&executor).await;
    let harness = world.claims(Role::Harness, "cred");
    let _harness = world.connect(&harness).await;
    assert_eq!(world.refusal(&harness).await, (401, "already_used".into()));
}

#[tokio::test]
async fn a_harness_waits_for_its_executor() {
    let mut config = config();
    config.times.absent_executor = PATIENCE;
    let world = World::with(config).await;
    let harness = world.url(&world.claims(Role::Harness, "cred"));
    let waiting = tokio::spawn(async move { open(&harness).await.is_ok() });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    let _executor = world.executor().await;
    assert!(waiting.await.unwrap());
}

#[tokio::test]
async fn an_absent_executor_is_503_after_the_wait() {
    let mut config = config();
    config.times.absent_executor = Duration::from_millis(300);
    let world = World::with(config).await;
    let start = Instant::now();
    let refused = world.refusal(&world.claims(Role::Harness, "cred")).await;
    assert_eq!(refused, (503, "route_unavailable".into()));
    assert!(start.elapsed() >= Duration::from_millis(300));
    // An executor of an older registration is not the one that is waited for.
    let _old = world.executor().await;
    let mut newer = world.claims(Role::Harness, "cred");
    newer.generation = 2;
    newer.reg = RegistrationId::new("reg-2").unwrap();
    assert_eq!(world.refusal(&newer).await.0, 503);
}

#[tokio::test]
async fn held_upgrades_are_bounded() {
    let mut config = config();
    config.limits.held_upgrades = 0;
    // Whoever is held does not get its answer in time.
    config.times.absent_executor = PATIENCE * 2;
    let world = World::with(config).await;
    assert_eq!(world.refusal(&world.claims(Role::Harness, "cred")).await.0, 503);
}

#[tokio::test]
async fn malformed_requests() {
    let world = World::new().await;
    let good = world.url(&world.claims(Role::Executor, "exec"));
    let base = format!("ws://{}", world.address);
    for (url, status, reason) in [
        (format!("{base}/other"), 404, "unknown_route"),
        (format!("{base}/relay"), 404, "unknown_route"),
        (format!("{base}/relay/a/b?ticket=x"), 404, "unknown_route"),
        (format!("{base}/relay/%2e%2e?ticket=x"), 404, "unknown_route"),
        (
            format!("{base}/relay/{}?ticket=x", "a".repeat(65)),
            404,
            "unknown_route",
        ),
        (format!("{base}/relay/env"), 400, "missing_signature"),
        (format!("{base}/relay/env?ticket="), 400, "malformed_query"),
        (format!("{base}/relay/env?other=x"), 400, "malformed_query"),
        (format!("{good}&role=executor"), 400, "extra_query_param"),
        (
            format!("{base}/relay/env?ticket={}", "a".repeat(2200)),
            400,
            "malformed_query",
        ),
        (format!("{base}/relay/env?ticket=x"), 401, "malformed_query"),
    ] {
        assert_eq!(refusal(&url).await, (status, reason.to_owned()), "{url}");
    }
}

#[tokio::test]
async fn requests_that_are_no_upgrade() {
    let world = World::new().await;
    let url = world.url(&world.claims(Role::Executor, "exec"));
    let path = url.split_once(&world.address.to_string()).unwrap().1;
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (method, headers, status) in [
        ("GET", String::new(), "426"),
        ("POST", format!("{upgrade}{key}sec-websocket-version: 13\r\n"), "405"),
        ("GET", format!("{upgrade}{key}sec-websocket-version: 8\r\n"), "426"),
        ("GET", format!("{upgrade}sec-websocket-version: 13\r\n"), "400"),
        ("GET", format!("{upgrade}{key}sec-websocket-version: 13\r\n"), "101"),
    ] {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut socket = tokio::net::TcpStream::connect(world.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: relay\r\n{headers}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(std::str::from_utf8(&answer[9..]).unwrap(), status, "{request}");
    }
}

#[tokio::test]
async fn too_many_upgrades_are_put_off() {
    let mut config = config();
    config.limits.upgrades_per_credential_minute = 2;
    let world = World::with(config).await;
    let _executor = world.executor().await;
    let _first = world.harness("cred").await;
    let _second = world.harness("cred").await;
    assert_eq!(
        world.refusal(&world.claims(Role::Harness, "cred")).await,
        (429, "too_many_upgrades".into())
    );
    let _other = world.harness("other").await;
}

#[tokio::test]
async fn upgrades_without_a_ticket_take_nothing_from_those_with_one() {
    let mut config = config();
    config.limits.upgrades_per_second = 4;
    let world = World::with(config).await;
    let mut forged = world.claims(Role::Harness, "cred");
    forged.env = EnvironmentId::new("other").unwrap();
    for _ in 0..20 {
        let url = world.url(&forged).replace("/other?", "/env?");
        assert_eq!(refusal(&url).await.0, 401);
    }
    let _executor = world.executor().await;
    let mut refused = 0;
    for number in 0..20 {
        let claims = world.claims(Role::Executor, &format!("exec{number}"));
        refused += u32::from(open(&world.url(&claims)).await.is_err());
    }
    assert!(refused > 0, "the limit is still there");
}

#[tokio::test]
async fn environments_are_apart() {
    let world = World::new().await;
    let _executor = world.executor().await;
    let mut other = world.claims(Role::Executor, "exec");
    other.env = EnvironmentId::new("other").unwrap();
    let _other = world.connect(&other).await;
    assert_eq!(world.relay.connections(), (2, 0));
}
