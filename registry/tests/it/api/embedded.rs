//! The relay inside the registry, reached by WebSockets with real tickets.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::postgres::Lock;
use crate::support::registry::{Database, Registry, Starting};
use crate::support::{SOON, eventually, http, key};

async fn dial(registry: &Registry, answer: &Value) -> Result<WebSocketStream<TcpStream>, Error> {
    let tcp = TcpStream::connect(registry.addr).await.unwrap();
    client_async(answer["url"].as_str().unwrap(), tcp)
        .await
        .map(|(socket, _)| socket)
}

/// Reads until the other side ends the connection.
async fn ended(mut socket: WebSocketStream<TcpStream>) -> Duration {
    let start = Instant::now();
    timeout(SOON, async {
        while let Some(Ok(message)) = socket.next().await {
            if message.is_close() {
                break;
            }
        }
    })
    .await
    .expect("an end in time");
    start.elapsed()
}

struct World {
    registry: Registry,
    executor: (String, String),
    harness: (String, String),
}

async fn start() -> World {
    let database = Database::sqlite();
    database.environment("e").await;
    World {
        registry: Registry::start(&database, &["--embedded-relay"]).await,
        executor: database.credential(&["executor"]).await,
        harness: database.credential(&["harness"]).await,
    }
}

impl World {
    async fn register(&self, number: u8) -> Value {
        let registered = self.registry.register(&self.executor.0, "e", &key(number)).await;
        assert_eq!(registered.status, 200, "{registered:?}");
        registered.json()
    }

    async fn connect(&self) -> Value {
        let connected = self.registry.connect(&self.harness.0, "e", &key(2)).await;
        assert_eq!(connected.status, 200, "{connected:?}");
        connected.json()
    }
}

#[tokio::test]
async fn frames_pass_and_revocation_cuts() {
    let world = start().await;
    let registered = world.register(1).await;
    let mut executor = dial(&world.registry, &registered).await.unwrap();
    let connected = world.connect().await;
    let mut harness = dial(&world.registry, &connected).await.unwrap();
    let replay = dial(&world.registry, &connected).await;
    assert!(
        matches!(&replay, Err(Error::Http(response)) if response.status() == 401),
        "{replay:?}"
    );

    // A resume frame: version 1, stream id, empty resume body.
    let stream = "0b1c0b9e-6d7b-4d0e-8a51-1e4d5f6a7b8c";
    let mut frame = vec![0x08, 0x01, 0x12, u8::try_from(stream.len()).unwrap()];
    frame.extend_from_slice(stream.as_bytes());
    frame.extend_from_slice(&[0x3a, 0x00]);
    harness.send(Message::binary(frame.clone())).await.unwrap();
    let received = timeout(SOON, executor.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(received.into_data(), frame);

    let database = world.registry.database.clone();
    database.run(&["credential", "revoke", &world.harness.1]).await;
    let cut = ended(harness).await;
    assert!(cut < Duration::from_secs(5), "{cut:?}");
    database.run(&["credential", "revoke", &world.executor.1]).await;
    let cut = ended(executor).await;
    assert!(cut < Duration::from_secs(5), "{cut:?}");
    let refused = dial(&world.registry, &registered).await;
    assert!(
        matches!(&refused, Err(Error::Http(response)) if response.status() == 401),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_deleted_environment_is_cut() {
    let world = start().await;
    let registered = world.register(1).await;
    let executor = dial(&world.registry, &registered).await.unwrap();
    world.connect().await;
    world.registry.database.run(&["environment", "delete", "e"]).await;
    let cut = ended(executor).await;
    assert!(cut < Duration::from_secs(5), "{cut:?}");
}

#[tokio::test]
async fn a_second_executor_waits_until_the_first_is_gone() {
    let world = start().await;
    let registered = world.register(1).await;
    let mut executor = dial(&world.registry, &registered).await.unwrap();
    world.connect().await;
    // Answering pings is what a living WebSocket does while it is read.
    let living = tokio::spawn(async move { while let Some(Ok(_)) = executor.next().await {} });
    let refused = world.registry.register(&world.executor.0, "e", &key(3)).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "environment_in_use"));
    living.abort();
    let _ = living.await;
    eventually("the environment is free", || async {
        world.registry.register(&world.executor.0, "e", &key(3)).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn an_executor_that_hangs_is_replaced() {
    let world = start().await;
    let hanging = dial(&world.registry, &world.register(1).await).await.unwrap();
    world.connect().await;
    let start = Instant::now();
    let second = world.register(3).await;
    assert!(
        (4.5..12.0).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );
    let _second = dial(&world.registry, &second).await.unwrap();
    ended(hanging).await;
    let connected = world.connect().await;
    assert_eq!(
        connected["executor_registration_id"],
        second["executor_registration_id"]
    );
}

#[tokio::test]
async fn stopping_drains_and_answers_meanwhile() {
    let world = start().await;
    let executor = dial(&world.registry, &world.register(1).await).await.unwrap();
    let harness = dial(&world.registry, &world.connect().await).await.unwrap();
    let start = Instant::now();
    world.registry.terminate().await;
    ended(harness).await;
    // Until the relay's word has come, there may be a way to the executor, which the relay then refuses.
    eventually("an executor that is away", async || {
        let answer = world.registry.connect(&world.harness.0, "e", &key(2)).await;
        match answer.status {
            200 => false,
            _ => {
                assert_eq!((answer.status, answer.code().as_str()), (409, "environment_offline"));
                true
            }
        }
    })
    .await;
    ended(executor).await;
    assert_eq!(world.registry.ended().await, Some(0));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn nothing_is_announced_before_the_relay_has_its_keys() {
    let database = Database::postgres();
    database.environment("e").await;
    let (token, _) = database.credential(&["executor"]).await;
    // The relay gets its keys once its row is stored.
    let lock = Lock::table(&database.url, "relays");
    let mut starting = Starting::new(&database, &["--embedded-relay", "--admin-listen", "127.0.0.1:0"]);
    let operators = starting.admin().await;
    let get = async |path: &str| http::send(operators, "GET", path, &[], "").await;
    assert_eq!(get("/healthz").await.status, 200);
    let unready = get("/readyz").await;
    assert_eq!(unready.status, 503);
    assert!(unready.body.contains("the embedded relay is not ready"), "{unready:?}");
    // Long enough for whoever prints without waiting.
    let early = timeout(Duration::from_millis(500), starting.line()).await;
    assert!(early.is_err(), "{early:?}");
    drop(lock);
    let registry = starting.listening().await;
    assert_eq!(get("/readyz").await.status, 200);
    let registered = registry.register(&token, "e", &key(1)).await.json();
    dial(&registry, &registered).await.unwrap();
}
