//! One story for each promise of the store, told to both databases.

mod credentials;
mod environments;
mod housekeeping;
mod registrations;
mod relays;

use std::sync::Arc;
use std::time::Duration;

use rendezvous_registry::clock::Timestamp;
use rendezvous_registry::store::{
    self, Access, Credential, Location, NewRegistration, RelayHello, Role, Store, StoreError,
};
use rendezvous_registry::token::{self, Digest};
use rendezvous_wire::control::{Presence, ToRelay};
use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId, RegistrationId};
use rendezvous_wire::identity::IdentityClaim;

use crate::support::key;
use crate::support::registry::Database;

/// When the stories begin.
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn at(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

/// An open store, and the database that it must not outlive.
struct World {
    store: Arc<dyn Store>,
    database: Database,
}

impl World {
    async fn open(database: Database) -> Self {
        let location: Location = database.url.parse().unwrap();
        let store = store::open(&location, Access::Create).await.unwrap();
        Self { store, database }
    }

    /// Another process's view of the same database.
    async fn again(&self) -> Self {
        Self::open(self.database.clone()).await
    }

    async fn environment(&self, id: &str) -> EnvironmentId {
        let id = EnvironmentId::new(id).unwrap();
        self.store.create_environment(&id, "", NOW).await.unwrap();
        id
    }

    async fn credential(&self, role: Role, environment: Option<&EnvironmentId>) -> Credential {
        let credential = credential(role, environment);
        self.store.create_credential(&credential).await.unwrap();
        credential
    }

    /// Registers the key of this number; returns the registration and its generation.
    async fn register(&self, environment: &EnvironmentId, number: u8) -> (RegistrationId, u64) {
        let status = self.store.status(environment, NOW).await.unwrap().unwrap();
        let new = registration(environment, number, status.environment.generation);
        let generation = self.store.register(&new, NOW).await.unwrap();
        (new.id, generation)
    }

    async fn relay(&self, boot_id: &str) -> BootId {
        let hello = hello(boot_id);
        self.store.relay_hello(&hello, at(15)).await.unwrap();
        hello.boot_id
    }

    /// Takes everything that waits for a relay.
    async fn messages(&self, boot_id: &BootId) -> Vec<ToRelay> {
        let mut messages = Vec::new();
        for (number, message) in self.store.pending(boot_id, 100).await.unwrap() {
            messages.push(message.unwrap());
            self.store.delivered(number).await.unwrap();
        }
        assert!(self.store.pending(boot_id, 100).await.unwrap().is_empty());
        messages
    }
}

fn credential(role: Role, environment: Option<&EnvironmentId>) -> Credential {
    Credential {
        id: CredentialId::new(token::id("cred_")).unwrap(),
        digest: Digest::of(&token::random_text().unwrap()),
        role,
        environment: environment.cloned(),
        name: "a name".to_owned(),
        created: NOW,
        expires: Some(at(3600)),
        revoked: None,
        last_used: None,
    }
}

/// What an executor with the key of this number says of it.
fn claim(number: u8) -> IdentityClaim {
    let persistent = number.is_multiple_of(2);
    let earlier = if persistent { number } else { 0 };
    IdentityClaim {
        persistent,
        previous: (0..earlier).map(|earlier| key(earlier).digest()).collect(),
    }
}

fn registration(environment: &EnvironmentId, number: u8, expected_generation: u64) -> NewRegistration {
    NewRegistration {
        environment: environment.clone(),
        id: RegistrationId::new(token::id("reg_")).unwrap(),
        key: key(number),
        identity: claim(number),
        credential: CredentialId::new("cred_x").unwrap(),
        expected_generation,
    }
}

fn hello(boot_id: &str) -> RelayHello {
    RelayHello {
        boot_id: BootId::new(boot_id).unwrap(),
        public_url: format!("wss://{boot_id}"),
        version: "1".to_owned(),
        credential: CredentialId::new("cred_relay").unwrap(),
        session: "first".to_owned(),
        accepting: true,
        executors: 0,
    }
}

fn presence(environment: &EnvironmentId, registration: &(RegistrationId, u64), connection: u64) -> Presence {
    Presence {
        environment: environment.clone(),
        registration: registration.0.clone(),
        generation: registration.1,
        connection,
    }
}

/// Runs each story once with SQLite and once with PostgreSQL.
macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $story() {
                let world = super::World::open(super::Database::sqlite()).await;
                super::$story(world).await;
            })+
        }
        mod postgres {
            $(#[tokio::test]
            async fn $story() {
                let world = super::World::open(super::Database::postgres()).await;
                super::$story(world).await;
            })+
        }
    };
}
use stories;

#[tokio::test]
async fn sqlite_makes_a_private_file_only_when_allowed() {
    let database = Database::sqlite();
    let location: Location = database.url.parse().unwrap();
    let missing = store::open(&location, Access::Existing).await;
    assert!(matches!(missing, Err(StoreError::NoFile)), "{missing:?}");
    let world = World::open(database).await;
    world.environment("e").await;
    let path = world.database.url.strip_prefix("sqlite://").unwrap().to_owned();
    for suffix in ["", "-wal", "-shm"] {
        let mode = crate::support::registry::mode(format!("{path}{suffix}").as_ref());
        assert_eq!(mode, 0o600, "{suffix}");
    }
    store::open(&location, Access::Existing).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_not_touched() {
    let database = Database::sqlite();
    let path = database.url.strip_prefix("sqlite://").unwrap();
    std::fs::write(path, "this is no database, and long enough to be looked at".repeat(100)).unwrap();
    let opened = store::open(&database.url.parse().unwrap(), Access::Create).await;
    assert!(matches!(opened, Err(StoreError::Corrupt(_))), "{opened:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let location = "postgres://postgres@127.0.0.1:1/none".parse().unwrap();
    let opened = store::open(&location, Access::Create).await;
    assert!(matches!(&opened, Err(error) if error.is_retryable()), "{opened:?}");
}
