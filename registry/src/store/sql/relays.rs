//! Relays, presence, and what waits for relays.

use async_trait::async_trait;
use rendezvous_wire::control::{Presence, ToRelay};
use rendezvous_wire::id::BootId;
use sqlx::Row as _;

use super::{Backend, Row, Tx, encode, environments, signed, unsigned};
use crate::clock::Timestamp;
use crate::store::{MAX_RELAY_MESSAGES, Relay, RelayHello, Relays, Standing, StoreError};

/// The last condition keeps one relay from taking over the run of another.
const HELLO: &str = "INSERT INTO relays
        (boot_id, public_url, version, credential, session, accepting, executors, lease_until)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (boot_id) DO UPDATE SET public_url = excluded.public_url, version = excluded.version,
        session = excluded.session, accepting = excluded.accepting, executors = excluded.executors,
        lease_until = excluded.lease_until
    WHERE relays.credential = excluded.credential";

/// A newer registration, another relay, or a later connection at the same relay takes the place.
const UP: &str = "INSERT INTO presence (environment, registration, generation, boot_id, connection, since)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (environment) DO UPDATE SET registration = excluded.registration, generation = excluded.generation,
        boot_id = excluded.boot_id, connection = excluded.connection, since = excluded.since
    WHERE presence.generation < excluded.generation
        OR (presence.generation = excluded.generation
            AND (presence.boot_id <> excluded.boot_id OR presence.connection < excluded.connection))";

/// Presence of this run, which is told anew, and of earlier runs: whoever is sent to the same URL now finds this one. Only of
/// the same credential, so that no relay can make another's executors vanish.
const FORGET: &str = "DELETE FROM presence
    WHERE boot_id IN (SELECT boot_id FROM relays WHERE boot_id = $1 OR (public_url = $2 AND credential = $3))";

#[async_trait]
impl Relays for Backend {
    async fn relay_hello(&self, hello: &RelayHello, lease_until: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        Self::serialize(&mut tx).await?;
        let taken = sqlx::query(HELLO)
            .bind(hello.boot_id.as_str())
            .bind(&hello.public_url)
            .bind(&hello.version)
            .bind(hello.credential.as_str())
            .bind(&hello.session)
            .bind(i64::from(hello.accepting))
            .bind(signed(hello.executors))
            .bind(lease_until.millis())
            .execute(&mut *tx)
            .await?;
        if taken.rows_affected() == 0 {
            return Err(StoreError::Conflict);
        }
        sqlx::query(FORGET)
            .bind(hello.boot_id.as_str())
            .bind(&hello.public_url)
            .bind(hello.credential.as_str())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn relay_renew(
        &self,
        boot_id: &BootId,
        session: &str,
        executors: u64,
        accepting: bool,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        let renewed = sqlx::query(
            "UPDATE relays SET executors = $3, accepting = $4, lease_until = $5 WHERE boot_id = $1 AND session = $2",
        )
        .bind(boot_id.as_str())
        .bind(session)
        .bind(signed(executors))
        .bind(i64::from(accepting))
        .bind(lease_until.millis())
        .execute(self.writer())
        .await?;
        Ok(renewed.rows_affected() == 1)
    }

    async fn executors_up(
        &self,
        boot_id: &BootId,
        executors: &[Presence],
        now: Timestamp,
    ) -> Result<Vec<Standing>, StoreError> {
        let mut standings = Vec::with_capacity(executors.len());
        let mut tx = self.begin().await?;
        for presence in executors {
            standings.push(up(&mut tx, boot_id, presence, now).await?);
        }
        tx.commit().await?;
        Ok(standings)
    }

    async fn executor_down(&self, boot_id: &BootId, presence: &Presence, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        environments::seen(&mut tx, &presence.environment, now).await?;
        sqlx::query(
            "DELETE FROM presence WHERE environment = $1 AND registration = $2 AND boot_id = $3 AND connection <= $4",
        )
        .bind(presence.environment.as_str())
        .bind(presence.registration.as_str())
        .bind(boot_id.as_str())
        .bind(signed(presence.connection))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn relays(&self, now: Timestamp) -> Result<Vec<Relay>, StoreError> {
        sqlx::query(
            "SELECT * FROM relays WHERE lease_until > $1 ORDER BY accepting DESC, executors, boot_id LIMIT 1000",
        )
        .bind(now.millis())
        .fetch_all(self.reader())
        .await?
        .iter()
        .map(relay)
        .collect()
    }

    async fn send(&self, boot_id: &BootId, message: &ToRelay, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        queue(&mut tx, boot_id, message, now).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn pending(&self, boot_id: &BootId, limit: u32) -> Result<Vec<(i64, Option<ToRelay>)>, StoreError> {
        sqlx::query("SELECT id, message FROM relay_messages WHERE boot_id = $1 ORDER BY id LIMIT $2")
            .bind(boot_id.as_str())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await?
            .iter()
            .map(|row| {
                let message = serde_json::from_str(row.try_get("message")?).ok();
                Ok((row.try_get("id")?, message))
            })
            .collect()
    }

    async fn delivered(&self, number: i64) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM relay_messages WHERE id = $1")
            .bind(number)
            .execute(self.writer())
            .await?;
        Ok(())
    }

    async fn ask(&self, probe: i64, boot_id: &BootId, message: &ToRelay, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("INSERT INTO probes (id, created) VALUES ($1, $2)")
            .bind(probe)
            .bind(now.millis())
            .execute(&mut *tx)
            .await?;
        queue(&mut tx, boot_id, message, now).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn answer(&self, probe: i64, alive: bool) -> Result<(), StoreError> {
        sqlx::query("UPDATE probes SET alive = $2 WHERE id = $1 AND alive IS NULL")
            .bind(probe)
            .bind(i64::from(alive))
            .execute(self.writer())
            .await?;
        Ok(())
    }

    async fn answered(&self, probe: i64) -> Result<Option<bool>, StoreError> {
        let row = sqlx::query("SELECT alive FROM probes WHERE id = $1")
            .bind(probe)
            .fetch_optional(self.reader())
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(row.try_get::<Option<i64>, _>("alive")?.map(|alive| alive != 0))
    }
}

async fn up(tx: &mut Tx, boot_id: &BootId, presence: &Presence, now: Timestamp) -> Result<Standing, StoreError> {
    match environments::current(tx, &presence.environment).await? {
        None => return Ok(Standing::Unknown),
        Some((_, Some(registration))) if registration == presence.registration.as_str() => {}
        Some((generation, _)) => return Ok(Standing::Superseded { generation }),
    }
    // The environment's row first, as whoever deletes an environment does: otherwise the two could wait for each other.
    environments::seen(tx, &presence.environment, now).await?;
    sqlx::query(UP)
        .bind(presence.environment.as_str())
        .bind(presence.registration.as_str())
        .bind(signed(presence.generation))
        .bind(boot_id.as_str())
        .bind(signed(presence.connection))
        .bind(now.millis())
        .execute(&mut **tx)
        .await?;
    Ok(Standing::Current)
}

async fn queue(tx: &mut Tx, boot_id: &BootId, message: &ToRelay, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO relay_messages (boot_id, message, created) VALUES ($1, $2, $3)")
        .bind(boot_id.as_str())
        .bind(encode(message)?)
        .bind(now.millis())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Drops the oldest messages of a relay that takes none.
pub(super) async fn trim(tx: &mut Tx) -> Result<u64, StoreError> {
    let trimmed = sqlx::query(
        "DELETE FROM relay_messages WHERE id IN (
            SELECT m.id FROM (
                SELECT id, ROW_NUMBER() OVER (PARTITION BY boot_id ORDER BY id DESC) AS age FROM relay_messages
            ) m WHERE m.age > $1)",
    )
    .bind(MAX_RELAY_MESSAGES)
    .execute(&mut **tx)
    .await?;
    Ok(trimmed.rows_affected())
}

fn relay(row: &Row) -> Result<Relay, StoreError> {
    Ok(Relay {
        boot_id: BootId::new(row.try_get::<String, _>("boot_id")?).map_err(StoreError::corrupt)?,
        public_url: row.try_get("public_url")?,
        version: row.try_get("version")?,
        accepting: row.try_get::<i64, _>("accepting")? != 0,
        executors: unsigned(row.try_get("executors")?)?,
        lease_until: Timestamp::from_millis(row.try_get("lease_until")?),
    })
}
