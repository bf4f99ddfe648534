//! Keys, and the store's own upkeep.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row as _;
use zeroize::Zeroizing;

use super::{Backend, Row, Tx, relays};
use crate::clock::Timestamp;
use crate::store::{
    CREDENTIAL_RETENTION, Housekeeping, RELAY_RETENTION, REPEAT_WINDOW, SWEEP_BATCH, SigningKey, StoreError,
};

/// How long the question whether an executor answers is kept.
const PROBE_RETENTION: Duration = Duration::from_secs(60);

const SWEEPS: [(&str, Duration); 4] = [
    (
        "DELETE FROM authorizations WHERE digest IN (
            SELECT digest FROM authorizations WHERE expires < $1 LIMIT $2)",
        REPEAT_WINDOW,
    ),
    (
        "DELETE FROM probes WHERE id IN (SELECT id FROM probes WHERE created < $1 LIMIT $2)",
        PROBE_RETENTION,
    ),
    (
        "DELETE FROM relays WHERE boot_id IN (SELECT boot_id FROM relays WHERE lease_until < $1 LIMIT $2)",
        RELAY_RETENTION,
    ),
    (
        "DELETE FROM credentials WHERE id IN (
            SELECT id FROM credentials WHERE revoked < $1 OR expires < $1 LIMIT $2)",
        CREDENTIAL_RETENTION,
    ),
];

#[async_trait]
impl Housekeeping for Backend {
    async fn signing_keys(&self, candidate: &SigningKey) -> Result<Vec<SigningKey>, StoreError> {
        let mut tx = self.begin().await?;
        Self::serialize(&mut tx).await?;
        let mut keys = keys(&mut tx).await?;
        if keys.is_empty() {
            sqlx::query("INSERT INTO signing_keys (kid, pkcs8, x, created) VALUES ($1, $2, $3, $4)")
                .bind(&candidate.kid)
                .bind(candidate.pkcs8.as_slice())
                .bind(&candidate.x)
                .bind(candidate.created.millis())
                .execute(&mut *tx)
                .await?;
            keys.push(candidate.clone());
        }
        tx.commit().await?;
        Ok(keys)
    }

    async fn sweep(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut swept = 0;
        for (statement, retention) in SWEEPS {
            swept += sqlx::query(statement)
                .bind(now.before(retention).millis())
                .bind(SWEEP_BATCH)
                .execute(self.writer())
                .await?
                .rows_affected();
        }
        let mut tx = self.begin().await?;
        swept += relays::trim(&mut tx).await?;
        tx.commit().await?;
        Ok(swept)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(self.reader()).await?;
        self.begin().await?.rollback().await?;
        Ok(())
    }

    async fn close(&self) {
        self.close_pools().await;
    }
}

async fn keys(tx: &mut Tx) -> Result<Vec<SigningKey>, StoreError> {
    sqlx::query("SELECT kid, pkcs8, x, created FROM signing_keys ORDER BY created DESC, kid LIMIT 16")
        .fetch_all(&mut **tx)
        .await?
        .iter()
        .map(key)
        .collect()
}

fn key(row: &Row) -> Result<SigningKey, StoreError> {
    Ok(SigningKey {
        kid: row.try_get("kid")?,
        pkcs8: Zeroizing::new(row.try_get("pkcs8")?),
        x: row.try_get("x")?,
        created: Timestamp::from_millis(row.try_get("created")?),
    })
}
