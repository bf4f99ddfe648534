//! Where the database is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// Whether opening a database may make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A missing file is made.
    Create,
    /// A missing file is an error.
    Existing,
}

/// A parsed database URL. Printing it shows no password.
#[derive(Clone)]
pub enum Location {
    /// `sqlite://PATH`: one file, relative to the working directory unless the path begins with `/`.
    Sqlite(PathBuf),
    /// `postgres://…` as libpq understands it.
    Postgres(Box<PgConnectOptions>),
}

/// Why a database URL was refused. The text holds nothing of the URL: there may be a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// Another scheme.
    #[error("the database URL must begin with sqlite:// or postgres://")]
    Scheme,
    /// `sqlite://` without a file, or with parameters.
    #[error(
        "a SQLite URL is sqlite:// and the path of a file, without parameters; databases in memory are not supported"
    )]
    File,
    /// Not a PostgreSQL URL.
    #[error("the PostgreSQL URL is malformed")]
    Postgres,
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.starts_with(':') || path.contains('?') {
                return Err(LocationError::File);
            }
            return Ok(Self::Sqlite(path.into()));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(text).map_err(|_| LocationError::Postgres)?;
            return Ok(Self::Postgres(Box::new(options)));
        }
        Err(LocationError::Scheme)
    }
}

impl Location {
    /// Whether the text of a database URL holds a password.
    pub fn has_password(text: &str) -> bool {
        url::Url::parse(text)
            .is_ok_and(|url| url.password().is_some() || url.query_pairs().any(|(name, _)| name == "password"))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(options) => write!(
                f,
                "postgres://{}:{}/{}",
                options.get_host(),
                options.get_port(),
                options.get_database().unwrap_or_default()
            ),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Location, LocationError};

    #[test]
    fn takes_files_and_servers() {
        for (text, shown) in [
            ("sqlite://rendezvous.db", "sqlite://rendezvous.db"),
            ("sqlite:///var/lib/r.db", "sqlite:///var/lib/r.db"),
            ("postgres://u:hunter2@db:5433/r", "postgres://db:5433/r"),
        ] {
            assert_eq!(text.parse::<Location>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn refuses_the_rest() {
        for (text, error) in [
            ("mysql://x", LocationError::Scheme),
            ("sqlite://", LocationError::File),
            ("sqlite::memory:", LocationError::File),
            ("sqlite://f?mode=ro", LocationError::File),
            ("postgres://h:port/", LocationError::Postgres),
        ] {
            assert_eq!(text.parse::<Location>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn finds_passwords() {
        assert!(Location::has_password("postgres://u:p@h/d"));
        assert!(Location::has_password("postgres://h/d?password=p"));
        assert!(!Location::has_password("postgres://u@h/d"));
    }
}
