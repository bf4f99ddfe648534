//! Rates.

use super::World;
use crate::support::http;
use crate::support::key;
use crate::support::registry::{Database, Registry};

#[tokio::test]
async fn each_credential_has_its_rate() {
    let database = Database::sqlite();
    database.environment("e").await;
    let registry = Registry::start(&database, &["--rate-per-minute", "1", "--rate-burst", "3"]).await;
    let (one, two) = (database.token("admin").await, database.token("admin").await);
    for _ in 0..3 {
        assert_eq!(registry.call(&one, "GET", "/v1/environments", "").await.status, 200);
    }
    let limited = registry.call(&one, "GET", "/v1/environments", "").await;
    assert_eq!((limited.status, limited.code().as_str()), (429, "rate_limited"));
    let wait: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((50..=60).contains(&wait), "{wait}");
    assert_eq!(registry.call(&two, "GET", "/v1/environments", "").await.status, 200);
}

#[tokio::test]
async fn failures_count_by_address_and_spare_the_living() {
    let database = Database::sqlite();
    let args = [
        "--rate-failed-per-minute",
        "1",
        "--rate-failed-burst",
        "3",
        "--trusted-proxy",
        "127.0.0.0/8",
    ];
    let registry = Registry::start(&database, &args).await;
    let admin = database.token("admin").await;
    let fail = async |client: &str| {
        let headers = [
            "authorization: Bearer x".to_owned(),
            format!("x-forwarded-for: {client}"),
        ];
        http::send(registry.addr, "GET", "/v1/environments", &headers, "")
            .await
            .status
    };
    for expected in [401, 401, 401, 429] {
        assert_eq!(fail("192.0.2.1").await, expected);
    }
    assert_eq!(fail("192.0.2.2").await, 401);
    for expected in [401, 401, 401, 429] {
        assert_eq!(fail("2001:db8::1").await, expected);
    }
    assert_eq!(fail("2001:db8::ffff:1").await, 429, "the same network");
    assert_eq!(fail("2001:db8:0:1::1").await, 401, "another network");
    let headers = [
        format!("authorization: Bearer {admin}"),
        "x-forwarded-for: 192.0.2.1".to_owned(),
    ];
    let living = http::send(registry.addr, "GET", "/v1/environments", &headers, "").await;
    assert_eq!(living.status, 200);
}

#[tokio::test]
async fn without_a_trusted_proxy_headers_are_not_believed() {
    let database = Database::sqlite();
    let registry = Registry::start(
        &database,
        &["--rate-failed-per-minute", "1", "--rate-failed-burst", "2"],
    )
    .await;
    let mut statuses = Vec::new();
    for client in 1..=3 {
        let headers = [format!("x-forwarded-for: 192.0.2.{client}")];
        statuses.push(
            http::send(registry.addr, "GET", "/v1/environments", &headers, "")
                .await
                .status,
        );
    }
    assert_eq!(statuses, [401, 401, 429]);
}

/// More requests than may wait: each has its answer, and nobody else is held up.
#[tokio::test]
async fn waiting_has_an_end() {
    let world = World::start().await;
    let database = world.database();
    let mut harnesses = Vec::new();
    for _ in 0..5 {
        harnesses.push(database.token("harness").await);
    }
    let second = key(2);
    let calls = (0..1250).map(|number| world.registry.connect(&harnesses[number % 5], "e", &second));
    let all = futures_util::future::join_all(calls);
    let registering = world.registry.register(&world.executor, "e", &second);
    let (answers, registered) = tokio::join!(all, registering);
    assert_eq!(registered.status, 200, "{registered:?}");
    for answer in answers {
        assert_eq!((answer.status, answer.code().as_str()), (409, "environment_offline"));
    }
}
