//! `/v1`, and management commands beside it.

use std::time::{Duration, Instant};

use rendezvous_wire::control::FromRelay;
use serde_json::{Value, json};

use super::World;
use crate::support::registry::{Database, Registry};
use crate::support::{eventually, http, key};

#[tokio::test]
async fn environments_come_and_go() {
    let database = Database::sqlite();
    let admin = database.token("admin").await;
    let registry = Registry::start(&database, &[]).await;
    let call = async |method: &str, path: &str, body: &str| registry.call(&admin, method, path, body).await;
    let created = call("POST", "/v1/environments", r#"{"id":"build-1","name":"Build machine"}"#).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.json()["name"], "Build machine");
    let again = call("POST", "/v1/environments", r#"{"id":"build-1"}"#).await;
    assert_eq!((again.status, again.code().as_str()), (409, "already_exists"));
    call("POST", "/v1/environments", r#"{"id":"a"}"#).await;
    let ids = async |query: &str| -> Vec<String> {
        let listed = call("GET", &format!("/v1/environments{query}"), "").await.json();
        let rows = listed["environments"].as_array().unwrap().clone();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("").await, ["a", "build-1"]);
    assert_eq!(ids("?limit=1").await, ["a"]);
    assert_eq!(ids("?limit=1&after=a").await, ["build-1"]);
    let shown = call("GET", "/v1/environments/build-1", "").await.json();
    assert_eq!(
        (&shown["id"], &shown["registration"], &shown["last_seen"]),
        (&json!("build-1"), &Value::Null, &Value::Null)
    );
    assert_eq!(call("DELETE", "/v1/environments/build-1", "").await.status, 204);
    assert_eq!(call("DELETE", "/v1/environments/build-1", "").await.status, 404);
    assert_eq!(call("GET", "/v1/environments/build-1", "").await.status, 404);
    assert_eq!(
        database
            .run(&["environment", "list", "--json"])
            .await
            .matches("\"id\"")
            .count(),
        1
    );
}

#[tokio::test]
async fn bad_management_calls_are_refused() {
    let database = Database::sqlite();
    let admin = database.token("admin").await;
    let registry = Registry::start(&database, &[]).await;
    let long = format!(r#"{{"id":"a","name":"{}"}}"#, "x".repeat(257));
    for (method, path, body, status) in [
        ("POST", "/v1/environments", r#"{"id":"a","unknown":1}"#, 400),
        ("POST", "/v1/environments", r#"{"id":"a","id":"b"}"#, 400),
        ("POST", "/v1/environments", r#"{"id":"a/b"}"#, 400),
        ("POST", "/v1/environments", r#"{"id":"a","name":"\u0000"}"#, 400),
        ("POST", "/v1/environments", &long, 400),
        ("POST", "/v1/environments", "", 400),
        ("GET", "/v1/environments?limit=0", "", 400),
        ("GET", "/v1/environments?limit=1001", "", 400),
        ("GET", "/v1/environments?limit=x", "", 400),
        ("GET", "/v1/environments?unknown=1", "", 400),
        ("GET", "/v1/environments?after=%00", "", 400),
        ("PUT", "/v1/environments", "", 405),
        ("POST", "/v1/credentials", r#"{"role":"root"}"#, 400),
        ("POST", "/v1/credentials", r#"{"role":"admin","environment":"e"}"#, 400),
        ("POST", "/v1/credentials", r#"{"role":"relay","environment":"e"}"#, 400),
        (
            "POST",
            "/v1/credentials",
            r#"{"role":"harness","environment":"none"}"#,
            404,
        ),
        ("POST", "/v1/credentials", r#"{"role":"harness","expires_in":0}"#, 400),
        ("POST", "/v1/credentials", r#"{"role":"harness","expires_in":-1}"#, 400),
        ("POST", "/v1/credentials", r#"{"role":"harness","token":"mine"}"#, 400),
        ("DELETE", "/v1/credentials/none", "", 404),
        ("DELETE", "/v1/credentials/a%20b", "", 400),
    ] {
        let answer = registry.call(&admin, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        answer.code();
    }
}

#[tokio::test]
async fn credentials_are_shown_once() {
    let world = World::start().await;
    let admin = world.database().token("admin").await;
    let call = async |method: &str, path: &str, body: &str| world.registry.call(&admin, method, path, body).await;
    let body = r#"{"role":"harness","environment":"e","name":"ci","expires_in":60}"#;
    let created = call("POST", "/v1/credentials", body).await;
    assert_eq!(created.status, 201, "{created:?}");
    let created = created.json();
    let token = created["token"].as_str().unwrap();
    let listed = call("GET", "/v1/credentials", "").await;
    assert!(!listed.body.contains(token) && !listed.body.contains("digest"));
    let listed = listed.json();
    let row = listed["credentials"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == created["id"])
        .unwrap();
    assert_eq!(
        (&row["name"], &row["environment"], &row["revoked"]),
        (&json!("ci"), &json!("e"), &Value::Null)
    );
    assert_eq!(world.registry.connect(token, "e", &key(2)).await.status, 409);
    let path = format!("/v1/credentials/{}", created["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(call("DELETE", &path, "").await.status, 204);
    }
    assert_eq!(world.registry.connect(token, "e", &key(2)).await.status, 401);
}

#[tokio::test]
async fn presence_is_shown() {
    let mut world = World::start().await;
    let registered = world.online(1, 1).await;
    let admin = world.database().token("admin").await;
    let registry = &world.registry;
    eventually("the executor is shown", || async {
        let shown = registry.call(&admin, "GET", "/v1/environments/e", "").await.json();
        shown["presence"]["relay"] == "boot" && shown["last_seen"].is_string()
    })
    .await;
    let shown = registry.call(&admin, "GET", "/v1/environments/e", "").await.json();
    assert_eq!(shown["registration"]["id"], registered["executor_registration_id"]);
    let fingerprint = key(1).fingerprint().to_string();
    assert_eq!(shown["registration"]["executor_fingerprint"], fingerprint.as_str());
    assert_eq!(shown["registration"]["executor_key_persistent"], false);
    assert_eq!(shown["registration"]["previous_fingerprints"], json!([]));
    let relays = registry.call(&admin, "GET", "/v1/relays", "").await.json();
    assert_eq!(relays["relays"][0]["boot_id"], "boot");
    let text = world.database().run(&["environment", "show", "e"]).await;
    assert!(text.contains("connected to wss://boot.example/base/ since"), "{text}");
    assert!(
        text.contains(&format!("executor key: {fingerprint} (ephemeral)")),
        "{text}"
    );
}

/// What an executor says of its key is shown, and passed on to harnesses; stock executors say nothing.
#[tokio::test]
async fn what_an_executor_says_of_its_key_is_passed_on() {
    let mut world = World::start().await;
    let registered = world.registry.register(&world.executor, "e", &key(1)).await.json();
    let generation = super::generation(&registered);
    let presence = world.relay.executor_up(&registered, generation, 1).await;
    let connected = world.registry.connect(&world.harness, "e", &key(99)).await;
    assert_eq!(
        (connected.status, connected.header("x-rendezvous-identity")),
        (200, None)
    );
    world.relay.say(&FromRelay::ExecutorDown(presence)).await;

    let claim = format!("persistent; previous={}", key(1).digest());
    let header = |value: &str| {
        let bearer = format!("authorization: Bearer {}", world.executor);
        [bearer, format!("x-rendezvous-identity: {value}")]
    };
    let body = json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": key(2)}).to_string();
    let register = async |value: &str| {
        let path = "/cloud/environment/e/register";
        http::send(world.registry.addr, "POST", path, &header(value), &body).await
    };
    for wrong in ["", "forever", "persistent; previous=1"] {
        assert_eq!(register(wrong).await.status, 400, "{wrong}");
    }
    let registered = register(&claim).await;
    assert_eq!(registered.status, 200, "{registered:?}");
    let registered = registered.json();
    let generation = super::generation(&registered);
    world.relay.executor_up(&registered, generation, 2).await;
    let connected = world.registry.connect(&world.harness, "e", &key(99)).await;
    assert_eq!(connected.header("x-rendezvous-identity"), Some(claim.as_str()));
    let text = world.database().run(&["environment", "show", "e"]).await;
    assert!(
        text.contains(&format!("{} (persistent)", key(2).fingerprint())),
        "{text}"
    );
    let earlier = format!("earlier key:  {}", key(1).fingerprint());
    assert!(text.contains(&earlier), "{text}");
}

/// What a management command does while `serve` runs holds for the very next request.
#[tokio::test]
async fn commands_take_effect_at_once() {
    let world = World::start().await;
    let database = world.database();
    assert_eq!(
        world.registry.register(&world.executor, "later", &key(1)).await.status,
        404
    );
    database.environment("later").await;
    assert_eq!(
        world.registry.register(&world.executor, "later", &key(1)).await.status,
        200
    );
    let (token, id) = database.credential(&["executor"]).await;
    assert_eq!(world.registry.register(&token, "later", &key(1)).await.status, 200);
    database.run(&["credential", "revoke", &id]).await;
    assert_eq!(world.registry.register(&token, "later", &key(1)).await.status, 401);
}

/// Not at every call: that would be a write each time.
#[tokio::test]
async fn the_use_of_a_credential_is_noted_once_a_minute() {
    let world = World::start().await;
    let (admin, id) = world.database().credential(&["admin"]).await;
    let call = async || {
        assert_eq!(
            world
                .registry
                .call(&admin, "GET", "/v1/environments/e", "")
                .await
                .status,
            200
        )
    };
    let noted = async || {
        let list: Value = serde_json::from_str(&world.database().run(&["credential", "list", "--json"]).await).unwrap();
        let rows = list.as_array().unwrap();
        let row = rows.iter().find(|row| row["id"] == id.as_str()).unwrap();
        row["last_used"].as_str().unwrap().to_owned()
    };
    call().await;
    let first = noted().await;
    // It is told in seconds.
    let start = Instant::now();
    eventually("it is another second", async || {
        call().await;
        start.elapsed() > Duration::from_millis(1100)
    })
    .await;
    assert_eq!(noted().await, first);
}
