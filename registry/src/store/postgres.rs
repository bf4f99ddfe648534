//! The store in PostgreSQL, shared by any number of registry processes.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection as _, Postgres as Db, Transaction};
use tokio::time::timeout;

use super::StoreError;

#[expect(clippy::duplicate_mod, reason = "the same statements are compiled for each backend")]
#[path = "sql/mod.rs"]
mod sql;

/// Connections of one registry process. PostgreSQL allows 100 in all by default.
const CONNECTIONS: u32 = 16;
/// How long a call waits for a connection of the pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// Name of the advisory lock of [`Postgres::serialize`]; any number that nobody else uses in this database.
const LOCK: i64 = 0x72_64_76_5f_72_65_67_31;

/// What the common statements are compiled for.
type Backend = Postgres;

/// A pool of connections to one PostgreSQL database.
#[derive(Clone, Debug)]
pub struct Postgres {
    pool: PgPool,
}

impl Postgres {
    /// Connects, and brings the tables up to date under an advisory lock.
    ///
    /// # Errors
    ///
    /// As [`super::open`].
    pub async fn open(options: &PgConnectOptions) -> Result<Self, StoreError> {
        let options = options.clone().application_name("rendezvous-registry").options([
            ("statement_timeout", "5000"),
            ("idle_in_transaction_session_timeout", "10000"),
            ("client_min_messages", "warning"),
        ]);
        reach(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options)
            .await?;
        sqlx::migrate!("migrations/postgres").run(&pool).await?;
        Ok(Self { pool })
    }

    const fn reader(&self) -> &PgPool {
        &self.pool
    }

    const fn writer(&self) -> &PgPool {
        &self.pool
    }

    async fn begin(&self) -> Result<Transaction<'static, Db>, StoreError> {
        Ok(self.pool.begin().await?)
    }

    /// Waits until no other transaction that asked for this is open: the few that decide by what is not there yet.
    async fn serialize(transaction: &mut Transaction<'static, Db>) -> Result<(), StoreError> {
        sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(LOCK)
            .execute(&mut **transaction)
            .await?;
        Ok(())
    }

    async fn close_pools(&self) {
        self.pool.close().await;
    }
}

/// Connects once. A pool would try again for as long as it waits, and then say only that it has waited.
async fn reach(options: &PgConnectOptions) -> Result<(), StoreError> {
    let server = || match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let unreachable = |why: &dyn std::fmt::Display| {
        StoreError::Unavailable(format!("PostgreSQL cannot be reached at {}: {why}", server()))
    };
    let connection = match timeout(ACQUIRE_TIMEOUT, PgConnection::connect_with(options)).await {
        Err(_) => return Err(unreachable(&format_args!("no answer within {ACQUIRE_TIMEOUT:?}"))),
        Ok(Err(sqlx::Error::Io(error))) if error.kind() != std::io::ErrorKind::PermissionDenied => {
            return Err(unreachable(&error));
        }
        Ok(Err(sqlx::Error::Protocol(error))) => {
            return Err(unreachable(&format_args!(
                "what answers there is no PostgreSQL: {error}"
            )));
        }
        Ok(connected) => connected?,
    };
    // It has served its purpose, however it ends.
    let _ = connection.close().await;
    Ok(())
}
