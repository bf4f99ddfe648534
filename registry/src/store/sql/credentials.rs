//! Credentials.

use async_trait::async_trait;
use rendezvous_wire::control::ToRelay;
use rendezvous_wire::id::{CredentialId, EnvironmentId};
use sqlx::Row as _;

use super::{Backend, Row, broadcast, environments};
use crate::clock::Timestamp;
use crate::store::{Credential, Credentials, Role, StoreError};
use crate::token::Digest;

#[async_trait]
impl Credentials for Backend {
    async fn create_credential(&self, credential: &Credential) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if let Some(environment) = &credential.environment
            && environments::current(&mut tx, environment).await?.is_none()
        {
            return Err(StoreError::NotFound);
        }
        sqlx::query(
            "INSERT INTO credentials (id, digest, role, environment, name, created, expires, revoked, last_used)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(credential.id.as_str())
        .bind(credential.digest.0.as_slice())
        .bind(credential.role.as_str())
        .bind(credential.environment.as_ref().map(EnvironmentId::as_str))
        .bind(&credential.name)
        .bind(credential.created.millis())
        .bind(credential.expires.map(Timestamp::millis))
        .bind(credential.revoked.map(Timestamp::millis))
        .bind(credential.last_used.map(Timestamp::millis))
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    async fn credential_by_digest(&self, digest: Digest) -> Result<Option<Credential>, StoreError> {
        let found = sqlx::query("SELECT * FROM credentials WHERE digest = $1")
            .bind(digest.0.as_slice())
            .fetch_optional(self.reader())
            .await?
            .as_ref()
            .map(credential)
            .transpose()?;
        Ok(found.filter(|credential| credential.digest == digest))
    }

    async fn credential(&self, id: &CredentialId) -> Result<Option<Credential>, StoreError> {
        sqlx::query("SELECT * FROM credentials WHERE id = $1")
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await?
            .as_ref()
            .map(credential)
            .transpose()
    }

    async fn credentials(&self, after: &str, limit: u32) -> Result<Vec<Credential>, StoreError> {
        sqlx::query("SELECT * FROM credentials WHERE id > $1 ORDER BY id LIMIT $2")
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await?
            .iter()
            .map(credential)
            .collect()
    }

    async fn revoke_credential(&self, id: &CredentialId, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        Self::serialize(&mut tx).await?;
        let found = sqlx::query("UPDATE credentials SET revoked = COALESCE(revoked, $2) WHERE id = $1")
            .bind(id.as_str())
            .bind(now.millis())
            .execute(&mut *tx)
            .await?;
        if found.rows_affected() == 0 {
            return Err(StoreError::NotFound);
        }
        broadcast(&mut tx, &ToRelay::Revoke { credential: id.clone() }, now).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn touch_credential(&self, id: &CredentialId, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query("UPDATE credentials SET last_used = $2 WHERE id = $1")
            .bind(id.as_str())
            .bind(now.millis())
            .execute(self.writer())
            .await?;
        Ok(())
    }

    async fn revoked_since(&self, since: Timestamp, after: &str, limit: u32) -> Result<Vec<CredentialId>, StoreError> {
        sqlx::query(
            "SELECT id FROM credentials WHERE revoked >= $1 AND id > $2 AND role IN ('executor', 'harness')
            ORDER BY id LIMIT $3",
        )
        .bind(since.millis())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(self.reader())
        .await?
        .iter()
        .map(id)
        .collect()
    }
}

fn id(row: &Row) -> Result<CredentialId, StoreError> {
    CredentialId::new(row.try_get::<String, _>("id")?).map_err(StoreError::corrupt)
}

fn credential(row: &Row) -> Result<Credential, StoreError> {
    let time = |column| -> Result<Option<Timestamp>, StoreError> {
        Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_millis))
    };
    let role: String = row.try_get("role")?;
    Ok(Credential {
        id: id(row)?,
        digest: Digest(
            row.try_get::<Vec<u8>, _>("digest")?
                .try_into()
                .map_err(|_| StoreError::corrupt("a digest of the wrong length"))?,
        ),
        role: Role::named(&role).ok_or_else(|| StoreError::corrupt(format!("role {role}")))?,
        environment: row
            .try_get::<Option<String>, _>("environment")?
            .map(EnvironmentId::new)
            .transpose()
            .map_err(StoreError::corrupt)?,
        name: row.try_get("name")?,
        created: Timestamp::from_millis(row.try_get("created")?),
        expires: time("expires")?,
        revoked: time("revoked")?,
        last_used: time("last_used")?,
    })
}
