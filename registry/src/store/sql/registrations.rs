//! Registrations and authorizations.

use async_trait::async_trait;
use rendezvous_wire::control::ToRelay;

use super::{Backend, broadcast, environments, signed};
use crate::clock::Timestamp;
use crate::store::{NewAuthorization, NewRegistration, Presented, REPEAT_WINDOW, Registrations, StoreError};

/// Every condition stands in one statement, so that of two presentations at the same time one is the first.
const CONSUME: &str = "UPDATE authorizations
    SET consumed = COALESCE(consumed, $7), consumed_stream = COALESCE(consumed_stream, $5)
    WHERE digest = $1 AND environment = $2 AND registration = $3 AND key_digest = $4
        AND ((consumed IS NULL AND expires > $7) OR (consumed > $6 AND consumed_stream = $5))
        AND EXISTS (SELECT 1 FROM environments e WHERE e.id = $2 AND e.registration = $3)
        AND EXISTS (SELECT 1 FROM credentials c WHERE c.id = authorizations.credential
            AND c.revoked IS NULL AND (c.expires IS NULL OR c.expires > $7))";

#[async_trait]
impl Registrations for Backend {
    async fn register(&self, new: &NewRegistration, now: Timestamp) -> Result<u64, StoreError> {
        let key = serde_json::to_string(&new.key).map_err(StoreError::corrupt)?;
        let mut tx = self.begin().await?;
        Self::serialize(&mut tx).await?;
        let Some(generation) =
            environments::advance(&mut tx, &new.environment, new.expected_generation, &new.id).await?
        else {
            return Err(match environments::current(&mut tx, &new.environment).await? {
                Some(_) => StoreError::Conflict,
                None => StoreError::NotFound,
            });
        };
        let replaced = sqlx::query("DELETE FROM registrations WHERE environment = $1")
            .bind(new.environment.as_str())
            .execute(&mut *tx)
            .await?;
        sqlx::query(
            "INSERT INTO registrations (id, environment, generation, key, key_digest, identity, credential, created)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(new.id.as_str())
        .bind(new.environment.as_str())
        .bind(signed(generation))
        .bind(key)
        .bind(new.key.digest().0.as_slice())
        .bind(new.identity.to_string())
        .bind(new.credential.as_str())
        .bind(now.millis())
        .execute(&mut *tx)
        .await?;
        if replaced.rows_affected() > 0 {
            let environment = new.environment.clone();
            broadcast(
                &mut tx,
                &ToRelay::Supersede {
                    environment,
                    generation,
                },
                now,
            )
            .await?;
        }
        tx.commit().await?;
        Ok(generation)
    }

    async fn authorize(&self, new: &NewAuthorization, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO authorizations (digest, environment, registration, key_digest, credential, created, expires)
            VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(new.digest.0.as_slice())
        .bind(new.environment.as_str())
        .bind(new.registration.as_str())
        .bind(new.key.0.as_slice())
        .bind(new.credential.as_str())
        .bind(now.millis())
        .bind(new.expires.millis())
        .execute(self.writer())
        .await?;
        Ok(())
    }

    async fn consume(&self, presented: &Presented, now: Timestamp) -> Result<bool, StoreError> {
        let used = sqlx::query(CONSUME)
            .bind(presented.digest.0.as_slice())
            .bind(presented.environment.as_str())
            .bind(&presented.registration)
            .bind(presented.key.0.as_slice())
            .bind(&presented.stream)
            .bind(now.before(REPEAT_WINDOW).millis())
            .bind(now.millis())
            .execute(self.writer())
            .await?;
        Ok(used.rows_affected() == 1)
    }
}
