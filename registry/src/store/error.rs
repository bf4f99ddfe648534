//! Why the database did not do what it was asked.

/// A failure of the store. That something is not there is data (`Option`) unless the call needs it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What the call changes does not exist.
    #[error("not found")]
    NotFound,
    /// It exists already, or somebody else changed it first.
    #[error("conflict with what is stored")]
    Conflict,
    /// The database's file or its folder cannot be used: another path, or other permissions, are needed.
    #[error("{0}")]
    File(String),
    /// The database's file does not exist and was not to be made.
    #[error("there is no such file")]
    NoFile,
    /// The database does not answer, or not now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database refuses the registry's user, or the file's permissions do.
    #[error("the database denies access: {0}")]
    Denied(String),
    /// The database holds or answers what this version cannot use.
    #[error("the database holds what this version cannot use: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Whether the same call may succeed later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    #[expect(clippy::needless_pass_by_value, reason = "stands in map_err")]
    pub(super) fn corrupt(what: impl ToString) -> Self {
        Self::Corrupt(what.to_string())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::RowNotFound => Self::NotFound,
            sqlx::Error::Database(database) => match database.kind() {
                sqlx::error::ErrorKind::UniqueViolation => Self::Conflict,
                sqlx::error::ErrorKind::ForeignKeyViolation => Self::NotFound,
                _ => by_code(&database.code().unwrap_or_default(), database.message()),
            },
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::TypeNotFound { .. } => Self::corrupt(error),
            sqlx::Error::PoolTimedOut => {
                Self::Unavailable("no connection to it in time: it cannot be reached, or has too much to do".to_owned())
            }
            sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::PermissionDenied => Self::Denied(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::Execute(error) | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => {
                error.into()
            }
            other => Self::corrupt(other),
        }
    }
}

/// Sorts the codes that say something about a retry: SQLite's primary and extended result codes are numbers, PostgreSQL's
/// SQLSTATEs have five characters.
fn by_code(code: &str, message: &str) -> StoreError {
    if let Ok(number) = code.parse::<u32>()
        && code.len() != 5
    {
        return match number & 0xff {
            // BUSY, LOCKED, NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL
            5 | 6 | 7 | 9 | 10 | 13 | 14 | 15 => StoreError::Unavailable(message.to_owned()),
            // PERM, READONLY, AUTH
            3 | 8 | 23 => StoreError::Denied(message.to_owned()),
            _ => StoreError::corrupt(message),
        };
    }
    match code.get(..2) {
        // invalid authorization; insufficient privilege is 42501
        Some("28") => StoreError::Denied(message.to_owned()),
        // connection, transaction rollback, resources, operator intervention, system error; no such database
        Some("08" | "40" | "53" | "57" | "58" | "3D" | "55" | "25") => StoreError::Unavailable(message.to_owned()),
        _ if code == "42501" => StoreError::Denied(message.to_owned()),
        _ => StoreError::corrupt(message),
    }
}

#[cfg(test)]
mod tests {
    use super::{StoreError, by_code};

    #[test]
    fn sorts_codes() {
        for code in ["5", "517", "10", "14", "08006", "40001", "53300", "57P01", "3D000"] {
            assert!(by_code(code, "").is_retryable(), "{code}");
        }
        for code in ["3", "8", "28P01", "42501"] {
            assert!(matches!(by_code(code, ""), StoreError::Denied(_)), "{code}");
        }
        for code in ["1", "11", "26", "42601", "42P01", ""] {
            assert!(matches!(by_code(code, ""), StoreError::Corrupt(_)), "{code}");
        }
    }
}
