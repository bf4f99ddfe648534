//! Exit codes, and how errors turn into them.

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::process::{ExitCode, Termination};

use clap::{ArgMatches, Parser};

use crate::secret_file::SecretError;
use crate::tls::TlsError;

/// What the codes of [`Exit`] mean, for the end of `--help`.
pub const HELP: &str = "Exit codes: 0 done; 1 failed while running; 64 wrong usage or configuration, or a file named there that \
                        cannot be used; 69 a service that is needed is not available; 77 not authorized.";

/// How a program ends. The same mistake ends every program with the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// It failed while running.
    Runtime = 1,
    /// The command line or environment is wrong, or a file that is named there cannot be used: it is missing, unreadable or
    /// malformed.
    Usage = 64,
    /// A service that it needs is not there: a registry, a relay, an executor, a database server.
    Unavailable = 69,
    /// A credential is missing, unknown, or does not reach so far.
    NotAuthorized = 77,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.into()
    }
}

/// An error that knows how the program should end.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Ends the program with `exit` because of `source`, which may be a text.
    pub fn new(exit: Exit, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            exit,
            source: source.into(),
        }
    }

    /// Wrong command line, environment or configuration.
    pub fn usage(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(Exit::Usage, source)
    }

    /// How the program ends.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// The exit code of an error: that of the first [`Failure`] among its causes, [`Exit::Usage`] for unusable secret and
/// TLS files, else [`Exit::Runtime`].
pub fn of(error: &(dyn Error + 'static)) -> Exit {
    causes(error)
        .find_map(|cause| {
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                return Some(failure.exit);
            }
            (cause.is::<SecretError>() || cause.is::<TlsError>()).then_some(Exit::Usage)
        })
        .unwrap_or(Exit::Runtime)
}

/// Prints `program: error: cause: cause` to stderr and says how to end.
pub fn report(program: &str, error: &(dyn Error + 'static)) -> Exit {
    let mut line = program.to_owned();
    let mut last = String::new();
    for cause in causes(error) {
        let text = cause.to_string();
        // Many errors repeat their cause's text in their own.
        if !last.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        last = text;
    }
    line.push('\n');
    // Nobody is left to tell when stderr is gone.
    let _ = std::io::stderr().write_all(line.as_bytes());
    of(error)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Parses the command line. Help and version go to stdout and end with 0, mistakes to stderr with [`Exit::Usage`].
///
/// # Errors
///
/// The exit code to end with, after everything was printed.
pub fn parse<C: Parser>() -> Result<C, Exit> {
    parse_with_sources().map(|(parsed, _)| parsed)
}

/// As [`parse`], with what tells where each value came from.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_with_sources<C: Parser>() -> Result<(C, ArgMatches), Exit> {
    let mut command = C::command();
    let parsed = command
        .try_get_matches_from_mut(std::env::args_os())
        .and_then(|matches| {
            let parsed = C::from_arg_matches(&matches)?;
            Ok((parsed, matches))
        });
    parsed.map_err(|error| {
        let error = error.format(&mut command);
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Ok }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Failure);

    #[test]
    fn finds_the_code_among_the_causes() {
        let error = Outer(Failure::new(Exit::NotAuthorized, "refused"));
        assert_eq!(of(&error), Exit::NotAuthorized);
        assert_eq!(of(&std::io::Error::other("x")), Exit::Runtime);
        assert_eq!(of(&SecretError::Empty { origin: "x".into() }), Exit::Usage);
    }
}
