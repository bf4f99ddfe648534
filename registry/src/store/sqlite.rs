//! The store in one SQLite file.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::error::DatabaseError;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Sqlite as Db, Transaction};
use tokio::time::sleep;

use super::{Access, StoreError};

#[expect(clippy::duplicate_mod, reason = "the same statements are compiled for each backend")]
#[path = "sql/mod.rs"]
mod sql;

/// How long a statement waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two attempts to open a file that is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// How long a call waits for a connection of its pool.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that read. There is one that writes, as SQLite has one writer.
const READERS: u32 = 4;

/// What the common statements are compiled for.
type Backend = Sqlite;

/// One file, in WAL mode, so that management commands and a running registry share it.
#[derive(Clone, Debug)]
pub struct Sqlite {
    read: SqlitePool,
    write: SqlitePool,
}

impl Sqlite {
    /// Opens the file, which only its owner may read when it is made here, and brings its tables up to date.
    ///
    /// # Errors
    ///
    /// As [`super::open`].
    pub async fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        prepare(path, access)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY_TIMEOUT)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true);
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(ACQUIRE_TIMEOUT)
        };
        // SQLite may end a transaction by itself, on a full disk for one; the connection would take it to be open for ever.
        let write = pool(1).after_release(|connection, _| {
            Box::pin(async move {
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        });
        let write = connect(&write, &options).await?;
        let migrations = sqlx::migrate!("migrations/sqlite");
        // Only then, because a transaction under way elsewhere would be waited for, by commands that only read too.
        if !is_current(&write, &migrations).await {
            let mut transaction = write.begin_with("BEGIN EXCLUSIVE").await?;
            migrations.run(&mut *transaction).await?;
            transaction.commit().await?;
        }
        let read = connect(&pool(READERS), &options.pragma("query_only", "1")).await?;
        Ok(Self { read, write })
    }

    const fn reader(&self) -> &SqlitePool {
        &self.read
    }

    const fn writer(&self) -> &SqlitePool {
        &self.write
    }

    async fn begin(&self) -> Result<Transaction<'static, Db>, StoreError> {
        Ok(self.write.begin_with("BEGIN IMMEDIATE").await?)
    }

    /// A writing transaction is alone anyway.
    #[expect(clippy::unused_async, reason = "the other backend asks its server")]
    async fn serialize(_: &mut Transaction<'static, Db>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close_pools(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}

/// Opens a pool. While somebody else turns a new file's journal into a WAL, SQLite lets no connection wait; so we do.
async fn connect(pool: &SqlitePoolOptions, options: &SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let start = Instant::now();
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && start.elapsed() < BUSY_TIMEOUT => sleep(BUSY_PAUSE).await,
            connected => return connected,
        }
    }
}

/// Whether another connection is in the way.
fn is_busy(error: &sqlx::Error) -> bool {
    const SQLITE_BUSY: u32 = 5;
    let code = error.as_database_error().and_then(DatabaseError::code);
    // The rest of the number says what it is busy with.
    code.is_some_and(|code| code.parse().is_ok_and(|code: u32| code & 0xff == SQLITE_BUSY))
}

/// Whether exactly these migrations were done. What cannot be found out is left to the migration, and its error.
async fn is_current(pool: &SqlitePool, migrations: &Migrator) -> bool {
    let done = sqlx::query_as::<_, (i64, Vec<u8>)>(
        "SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version",
    )
    .fetch_all(pool)
    .await
    .unwrap_or_default();
    let wanted = migrations
        .iter()
        .map(|migration| (migration.version, migration.checksum.to_vec()));
    wanted.eq(done)
}

/// Makes a missing file with mode 0600, which the files that SQLite puts beside it inherit, and its missing folder with
/// mode 0700.
fn prepare(path: &Path, access: Access) -> Result<(), StoreError> {
    let creating = access == Access::Create;
    if creating
        && let Some(folder) = path.parent()
        && !folder.as_os_str().is_empty()
    {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| refused(folder, &error))?;
    }
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(creating)
        .truncate(false)
        .mode(0o600)
        .open(path);
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !creating => Err(StoreError::NoFile),
        Err(error) => Err(refused(path, &error)),
    }
}

fn refused(path: &Path, error: &io::Error) -> StoreError {
    StoreError::File(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Environments as _, Housekeeping as _};

    #[tokio::test]
    async fn opens_beside_a_writer_unless_there_is_something_to_migrate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.db");
        let store = Sqlite::open(&path, Access::Create).await.unwrap();
        let writing = store.begin().await.unwrap();
        let other = Sqlite::open(&path, Access::Existing).await.expect("nothing to migrate");
        assert!(other.environments("", 10).await.unwrap().is_empty());
        writing.rollback().await.unwrap();
        sqlx::query("UPDATE _sqlx_migrations SET checksum = x'00'")
            .execute(&store.write)
            .await
            .unwrap();
        let error = Sqlite::open(&path, Access::Existing).await.expect_err("another schema");
        assert!(matches!(error, StoreError::Corrupt(_)), "{error:?}");
    }

    #[tokio::test]
    async fn works_again_once_a_full_disk_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("r.db"), Access::Create).await.unwrap();
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
            .fetch_one(&store.write)
            .await
            .unwrap();
        let limit = format!("PRAGMA max_page_count = {}", pages + 2);
        sqlx::query(sqlx::AssertSqlSafe(limit))
            .execute(&store.write)
            .await
            .unwrap();
        let mut number = 0;
        let mut create = async || {
            number += 1;
            let mut transaction = store.begin().await?;
            sqlx::query("INSERT INTO environments (id, name, created, generation) VALUES ($1, $2, 0, 0)")
                .bind(format!("e-{number}"))
                .bind("x".repeat(200))
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await.map_err(StoreError::from)
        };
        while create().await.is_ok() {}
        // The limit belonged to the connection that failed.
        create().await.expect("room again");
        store.ping().await.unwrap();
    }
}
