//! The HTTP surface of the real binary.

mod control;
mod durability;
mod embedded;
mod http;
mod limits;
mod management;
mod replicas;
mod stock;

use rendezvous_wire::control::ToRelay;
use serde_json::{Value, json};

use crate::support::key;
use crate::support::registry::{Database, Registry};
use crate::support::relay::Relay;

/// A registry with one environment `e`, a relay worked by hand, and a credential of each role.
struct World {
    registry: Registry,
    relay: Relay,
    executor: String,
    harness: String,
}

impl World {
    async fn start() -> Self {
        let database = Database::sqlite();
        database.environment("e").await;
        let registry = Registry::start(&database, &[]).await;
        let token = database.token("relay").await;
        let (relay, _) = Relay::connect(&registry, &token, "boot").await;
        Self {
            registry,
            relay,
            executor: database.token("executor").await,
            harness: database.token("harness").await,
        }
    }

    fn database(&self) -> &Database {
        &self.registry.database
    }

    /// Registers the key of this number and connects its executor.
    async fn online(&mut self, number: u8, connection: u64) -> Value {
        let registered = self.registry.register(&self.executor, "e", &key(number)).await;
        assert_eq!(registered.status, 200, "{registered:?}");
        let registered = registered.json();
        self.relay
            .executor_up(&registered, generation(&registered), connection)
            .await;
        // `connect` waits until the registry has taken the presence.
        let reached = self.registry.connect(&self.harness, "e", &key(99)).await;
        assert_eq!(reached.status, 200, "{reached:?}");
        registered
    }

    /// What `validate` takes for the answer of a `connect`.
    async fn granted(&self, number: u8) -> Value {
        let connected = self.registry.connect(&self.harness, "e", &key(number)).await;
        assert_eq!(connected.status, 200, "{connected:?}");
        let connected = connected.json();
        json!({
            "executor_registration_id": connected["executor_registration_id"],
            "harness_public_key": key(number),
            "harness_key_authorization": connected["harness_key_authorization"],
        })
    }
}

/// The signed part of a ticket, without a look at the signature.
fn claims(url: &str) -> Value {
    use base64::Engine as _;
    let ticket = url.split_once("?ticket=").unwrap().1;
    let payload = ticket.split('.').nth(1).unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(payload)
        .unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The generation in an executor's ticket.
fn generation(registered: &Value) -> u64 {
    claims(registered["url"].as_str().unwrap())["gen"].as_u64().unwrap()
}

fn supersede(message: &ToRelay) -> u64 {
    match message {
        ToRelay::Supersede { generation, .. } => *generation,
        other => panic!("{other:?}"),
    }
}
