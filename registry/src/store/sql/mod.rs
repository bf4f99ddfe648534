//! The statements, in the dialect that SQLite and PostgreSQL share, compiled once for each.

use rendezvous_wire::control::ToRelay;
use sqlx::Transaction;

use super::{Backend, Db};
use crate::clock::Timestamp;
use crate::store::StoreError;

mod credentials;
mod environments;
mod housekeeping;
mod registrations;
mod relays;

/// One row of a result.
type Row = <Db as sqlx::Database>::Row;
/// An open transaction.
type Tx = Transaction<'static, Db>;

/// A number that the protocol keeps unsigned, as the database keeps it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// And back.
fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(StoreError::corrupt)
}

fn encode(message: &ToRelay) -> Result<String, StoreError> {
    serde_json::to_string(message).map_err(StoreError::corrupt)
}

/// Puts a message in every relay's queue. The caller has called [`Backend::serialize`], so that a relay which says hello
/// meanwhile either gets the message or sees what it is about in the registry's welcome.
async fn broadcast(tx: &mut Tx, message: &ToRelay, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO relay_messages (boot_id, message, created) SELECT boot_id, $1, $2 FROM relays")
        .bind(encode(message)?)
        .bind(now.millis())
        .execute(&mut **tx)
        .await?;
    Ok(())
}
