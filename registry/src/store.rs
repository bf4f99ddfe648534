//! Everything the registry remembers: one trait, kept by SQLite or PostgreSQL.
//!
//! The statements are written once, in the common dialect of both, and compiled for each backend; what differs (pools,
//! locks, migrations) stands in [`sqlite`] and [`postgres`]. The clock is an argument everywhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rendezvous_wire::control::{Presence, ToRelay};
use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId};

use crate::clock::Timestamp;
use crate::token::Digest;

mod error;
pub mod location;
pub mod postgres;
mod record;
pub mod sqlite;

pub use error::StoreError;
pub use location::{Access, Location, LocationError};
pub use record::{
    Credential, Environment, Live, NewAuthorization, NewRegistration, Presented, Registration, Relay, RelayHello, Role,
    SigningKey, Standing, Status,
};

/// Most rows of one page of a list.
pub const MAX_PAGE: u32 = 1000;
/// Most expired rows of one kind that one [`Housekeeping::sweep`] deletes.
pub const SWEEP_BATCH: i64 = 1000;
/// Most messages that wait for one relay; when there are more, the oldest are dropped and the relay learns what they
/// said from the next [`ToRelay::Welcome`] or when it names its executors again.
pub const MAX_RELAY_MESSAGES: i64 = 1000;
/// How long the answer to a first use of an authorization is repeated for the same stream.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(10);
/// How long the row of a relay outlives its lease, so that a relay which comes back finds its messages.
pub const RELAY_RETENTION: Duration = Duration::from_secs(3600);
/// How long the row of a credential outlives its end.
pub const CREDENTIAL_RETENTION: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Environments.
#[async_trait]
pub trait Environments: Send + Sync {
    /// Makes an environment.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when it exists.
    async fn create_environment(
        &self,
        id: &EnvironmentId,
        name: &str,
        now: Timestamp,
    ) -> Result<Environment, StoreError>;

    /// At most `limit` environments whose ids are greater than `after`, in order of their ids.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn environments(&self, after: &str, limit: u32) -> Result<Vec<Environment>, StoreError>;

    /// An environment, its registration, and where its executor is.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn status(&self, id: &EnvironmentId, now: Timestamp) -> Result<Option<Status>, StoreError>;

    /// Deletes an environment with its registration and authorizations, revokes the credentials that reach only it, and
    /// tells the relays to forget it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when there is none.
    async fn delete_environment(&self, id: &EnvironmentId, now: Timestamp) -> Result<(), StoreError>;
}

/// Credentials.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// Stores a credential.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when its environment does not exist, [`StoreError::Conflict`] when its id or digest does.
    async fn create_credential(&self, credential: &Credential) -> Result<(), StoreError>;

    /// The credential of a token, whatever its state.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn credential_by_digest(&self, digest: Digest) -> Result<Option<Credential>, StoreError>;

    /// The credential of an id, whatever its state.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn credential(&self, id: &CredentialId) -> Result<Option<Credential>, StoreError>;

    /// At most `limit` credentials whose ids are greater than `after`, in order of their ids.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn credentials(&self, after: &str, limit: u32) -> Result<Vec<Credential>, StoreError>;

    /// Revokes a credential and tells the relays to cut its connections. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when there is none.
    async fn revoke_credential(&self, id: &CredentialId, now: Timestamp) -> Result<(), StoreError>;

    /// Notes that a credential was used.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn touch_credential(&self, id: &CredentialId, now: Timestamp) -> Result<(), StoreError>;

    /// At most `limit` executor and harness credentials revoked since `since` whose ids are greater than `after`.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn revoked_since(&self, since: Timestamp, after: &str, limit: u32) -> Result<Vec<CredentialId>, StoreError>;
}

/// Registrations and authorizations.
#[async_trait]
pub trait Registrations: Send + Sync {
    /// Makes a registration the current one of its environment, drops the older one with its authorizations, and tells
    /// the relays to cut it. Returns the new number.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] without the environment, [`StoreError::Conflict`] when another registration came first.
    async fn register(&self, new: &NewRegistration, now: Timestamp) -> Result<u64, StoreError>;

    /// Stores an authorization.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when its registration is gone.
    async fn authorize(&self, new: &NewAuthorization, now: Timestamp) -> Result<(), StoreError>;

    /// Uses an authorization: true for the first presentation that fits its binding before it ends, and for
    /// repetitions by the same stream within [`REPEAT_WINDOW`], as long as the harness's credential is live.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn consume(&self, presented: &Presented, now: Timestamp) -> Result<bool, StoreError>;
}

/// Relays, presence, and what waits for relays.
#[async_trait]
pub trait Relays: Send + Sync {
    /// Takes a relay's run in, or over from an older control connection; its presence starts empty, and that of other runs with
    /// the same public URL and credential ends: they are over.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when another credential holds the boot id.
    async fn relay_hello(&self, hello: &RelayHello, lease_until: Timestamp) -> Result<(), StoreError>;

    /// Extends a relay's lease. False when another control connection took the run over.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn relay_renew(
        &self,
        boot_id: &BootId,
        session: &str,
        executors: u64,
        accepting: bool,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Notes executors' connections, of those whose registration is the current one, and says how each one stands.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when the relay's run is unknown.
    async fn executors_up(
        &self,
        boot_id: &BootId,
        executors: &[Presence],
        now: Timestamp,
    ) -> Result<Vec<Standing>, StoreError>;

    /// Notes that an executor's connection is gone. Later connections of the same executor stay.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn executor_down(&self, boot_id: &BootId, presence: &Presence, now: Timestamp) -> Result<(), StoreError>;

    /// Every relay whose lease holds, least loaded first, those that take no new streams last.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn relays(&self, now: Timestamp) -> Result<Vec<Relay>, StoreError>;

    /// Puts a message in a relay's queue.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when the relay's run is unknown.
    async fn send(&self, boot_id: &BootId, message: &ToRelay, now: Timestamp) -> Result<(), StoreError>;

    /// The oldest messages of a relay's queue, each with the number that [`Relays::delivered`] takes. `None` stands for
    /// a message that only a newer version understands.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn pending(&self, boot_id: &BootId, limit: u32) -> Result<Vec<(i64, Option<ToRelay>)>, StoreError>;

    /// Takes one message off a relay's queue.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn delivered(&self, number: i64) -> Result<(), StoreError>;

    /// Stores the question whether an executor still answers, and sends it to its relay.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] when the relay's run is unknown.
    async fn ask(&self, probe: i64, boot_id: &BootId, message: &ToRelay, now: Timestamp) -> Result<(), StoreError>;

    /// Stores the answer to a question.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn answer(&self, probe: i64, alive: bool) -> Result<(), StoreError>;

    /// The answer to a question, once there is one.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn answered(&self, probe: i64) -> Result<Option<bool>, StoreError>;
}

/// Keys, and the store's own upkeep.
#[async_trait]
pub trait Housekeeping: Send + Sync {
    /// Every key that signs tickets, newest first; stores `candidate` when there is none.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn signing_keys(&self, candidate: &SigningKey) -> Result<Vec<SigningKey>, StoreError>;

    /// Deletes what has ended, at most [`SWEEP_BATCH`] rows of each kind. Returns how many rows went.
    ///
    /// # Errors
    ///
    /// The database failed.
    async fn sweep(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Whether the database answers.
    ///
    /// # Errors
    ///
    /// It does not.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Closes every connection once its work is done.
    async fn close(&self);
}

/// Everything the registry remembers.
pub trait Store: Environments + Credentials + Registrations + Relays + Housekeeping + fmt::Debug {}

impl<S: Environments + Credentials + Registrations + Relays + Housekeeping + fmt::Debug> Store for S {}

/// Opens a store and brings its tables up to date.
///
/// # Errors
///
/// The database does not answer, denies access, is missing while `access` does not allow to make it, or was written by a
/// newer version.
pub async fn open(location: &Location, access: Access) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match location {
        Location::Sqlite(path) => Arc::new(sqlite::Sqlite::open(path, access).await?),
        Location::Postgres(options) => Arc::new(postgres::Postgres::open(options).await?),
    })
}
