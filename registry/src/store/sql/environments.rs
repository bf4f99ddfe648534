//! Environments.

use async_trait::async_trait;
use rendezvous_wire::control::ToRelay;
use rendezvous_wire::id::{BootId, CredentialId, EnvironmentId, RegistrationId};
use sqlx::Row as _;

use super::{Backend, Row, Tx, broadcast, signed, unsigned};
use crate::clock::Timestamp;
use crate::store::{Environment, Environments, Live, Registration, Status, StoreError};

const COLUMNS: &str =
    "SELECT id, name, created, generation, last_seen FROM environments WHERE id > $1 ORDER BY id LIMIT $2";

const STATUS: &str = "SELECT e.id, e.name, e.created, e.generation, e.last_seen,
        r.id AS registration, r.generation AS registration_generation, r.key, r.identity, r.credential,
        p.since, l.boot_id, l.public_url, l.accepting
    FROM environments e
    LEFT JOIN registrations r ON r.id = e.registration
    LEFT JOIN presence p ON p.environment = e.id AND p.registration = e.registration
        AND EXISTS (SELECT 1 FROM relays h WHERE h.boot_id = p.boot_id AND h.lease_until > $2)
    LEFT JOIN relays l ON l.boot_id = p.boot_id
    WHERE e.id = $1";

#[async_trait]
impl Environments for Backend {
    async fn create_environment(
        &self,
        id: &EnvironmentId,
        name: &str,
        now: Timestamp,
    ) -> Result<Environment, StoreError> {
        sqlx::query("INSERT INTO environments (id, name, created, generation) VALUES ($1, $2, $3, $4)")
            .bind(id.as_str())
            .bind(name)
            .bind(now.millis())
            .bind(now.millis())
            .execute(self.writer())
            .await?;
        Ok(Environment {
            id: id.clone(),
            name: name.to_owned(),
            created: now,
            generation: unsigned(now.millis())?,
            last_seen: None,
        })
    }

    async fn environments(&self, after: &str, limit: u32) -> Result<Vec<Environment>, StoreError> {
        sqlx::query(COLUMNS)
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await?
            .iter()
            .map(environment)
            .collect()
    }

    async fn status(&self, id: &EnvironmentId, now: Timestamp) -> Result<Option<Status>, StoreError> {
        sqlx::query(STATUS)
            .bind(id.as_str())
            .bind(now.millis())
            .fetch_optional(self.reader())
            .await?
            .as_ref()
            .map(status)
            .transpose()
    }

    async fn delete_environment(&self, id: &EnvironmentId, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        Self::serialize(&mut tx).await?;
        let deleted = sqlx::query("DELETE FROM environments WHERE id = $1 RETURNING generation")
            .bind(id.as_str())
            .fetch_optional(&mut *tx)
            .await?
            .ok_or(StoreError::NotFound)?;
        broadcast(
            &mut tx,
            &ToRelay::Forget {
                environment: id.clone(),
                generation: unsigned(deleted.try_get("generation")?)?,
            },
            now,
        )
        .await?;
        revoke_scoped(&mut tx, id, now).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// A new environment of the same id must not be reached by the credentials of the old one.
async fn revoke_scoped(tx: &mut Tx, id: &EnvironmentId, now: Timestamp) -> Result<(), StoreError> {
    let revoked =
        sqlx::query("UPDATE credentials SET revoked = $2 WHERE environment = $1 AND revoked IS NULL RETURNING id")
            .bind(id.as_str())
            .bind(now.millis())
            .fetch_all(&mut **tx)
            .await?;
    for row in revoked {
        let credential = CredentialId::new(row.try_get::<String, _>("id")?).map_err(StoreError::corrupt)?;
        broadcast(tx, &ToRelay::Revoke { credential }, now).await?;
    }
    Ok(())
}

fn environment(row: &Row) -> Result<Environment, StoreError> {
    Ok(Environment {
        id: EnvironmentId::new(row.try_get::<String, _>("id")?).map_err(StoreError::corrupt)?,
        name: row.try_get("name")?,
        created: Timestamp::from_millis(row.try_get("created")?),
        generation: unsigned(row.try_get("generation")?)?,
        last_seen: row.try_get::<Option<i64>, _>("last_seen")?.map(Timestamp::from_millis),
    })
}

fn status(row: &Row) -> Result<Status, StoreError> {
    Ok(Status {
        environment: environment(row)?,
        registration: row
            .try_get::<Option<String>, _>("registration")?
            .map(|id| registration(row, &id))
            .transpose()?,
        live: row
            .try_get::<Option<String>, _>("boot_id")?
            .map(|boot_id| live(row, &boot_id))
            .transpose()?,
    })
}

fn registration(row: &Row, id: &str) -> Result<Registration, StoreError> {
    Ok(Registration {
        id: RegistrationId::new(id).map_err(StoreError::corrupt)?,
        generation: unsigned(row.try_get("registration_generation")?)?,
        key: serde_json::from_str(row.try_get("key")?).map_err(StoreError::corrupt)?,
        identity: row
            .try_get::<String, _>("identity")?
            .parse()
            .map_err(StoreError::corrupt)?,
        credential: CredentialId::new(row.try_get::<String, _>("credential")?).map_err(StoreError::corrupt)?,
    })
}

fn live(row: &Row, boot_id: &str) -> Result<Live, StoreError> {
    Ok(Live {
        relay: BootId::new(boot_id).map_err(StoreError::corrupt)?,
        public_url: row.try_get("public_url")?,
        accepting: row.try_get::<i64, _>("accepting")? != 0,
        since: Timestamp::from_millis(row.try_get("since")?),
    })
}

/// Notes when an environment's executor came or went.
pub(super) async fn seen(tx: &mut Tx, id: &EnvironmentId, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query("UPDATE environments SET last_seen = $2 WHERE id = $1")
        .bind(id.as_str())
        .bind(now.millis())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// The current number of an environment and its registration's id.
pub(super) async fn current(tx: &mut Tx, id: &EnvironmentId) -> Result<Option<(u64, Option<String>)>, StoreError> {
    sqlx::query("SELECT generation, registration FROM environments WHERE id = $1")
        .bind(id.as_str())
        .fetch_optional(&mut **tx)
        .await?
        .map(|row| Ok((unsigned(row.try_get("generation")?)?, row.try_get("registration")?)))
        .transpose()
}

/// Moves an environment to its next number. `None` when its number is not `expected`.
pub(super) async fn advance(
    tx: &mut Tx,
    id: &EnvironmentId,
    expected: u64,
    registration: &RegistrationId,
) -> Result<Option<u64>, StoreError> {
    sqlx::query(
        "UPDATE environments SET generation = generation + 1, registration = $3
        WHERE id = $1 AND generation = $2 RETURNING generation",
    )
    .bind(id.as_str())
    .bind(signed(expected))
    .bind(registration.as_str())
    .fetch_optional(&mut **tx)
    .await?
    .map(|row| unsigned(row.try_get("generation")?))
    .transpose()
}
