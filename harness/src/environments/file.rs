//! `environments.toml`: which environments there are. Accepted and refused as stock harnesses do, all versions together.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rendezvous_transport::policy::{ClearText, UrlError, relay_url};
use rendezvous_wire::limits::{INITIALIZE_TIMEOUT, RELAY_CONNECT_TIMEOUT};
use rendezvous_wire::secret::Secret;
use serde::{Deserialize, Deserializer};

use super::error::EnvironmentError;
use super::{LOCAL, MAX_ENVIRONMENTS, check_id};
use crate::endpoint::{Endpoint, Listener, Program};

/// Largest file that is looked at, in bytes.
pub const MAX_FILE: u64 = 1024 * 1024;

/// What a file says.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) include_local: bool,
    pub(super) environments: BTreeMap<String, Endpoint>,
    pub(super) default: Choice,
}

/// Which environment is taken when none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Nothing was said.
    Unsaid,
    /// None is.
    Nothing,
    /// The one with this id.
    Named(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: Option<String>,
    include_local: Option<bool>,
    #[serde(default)]
    environments: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    /// Skills are the affair of agents.
    #[serde(rename = "skills")]
    _skills: Option<Skills>,
    url: Option<String>,
    auth_bearer_token: Option<Secret>,
    program: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    cwd: Option<PathBuf>,
    #[serde(default, deserialize_with = "seconds")]
    connect_timeout_sec: Option<Duration>,
    #[serde(default, deserialize_with = "seconds")]
    initialize_timeout_sec: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skills {
    #[serde(default, rename = "required")]
    _required: Vec<String>,
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let duration = Duration::try_from_secs_f64(seconds);
    duration.map(Some).map_err(serde::de::Error::custom)
}

/// Reads a file; nothing when there is none.
pub(super) fn read(path: &Path, clear_text: ClearText) -> Result<Option<Configured>, EnvironmentError> {
    let failed = |error| EnvironmentError::Read {
        path: path.to_owned(),
        error,
    };
    // A link to nothing is no file.
    if !path.try_exists().map_err(failed)? {
        return Ok(None);
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    if file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)? as u64 > MAX_FILE {
        return Err(EnvironmentError::TooLarge(path.to_owned()));
    }
    parse(&text, path, clear_text).map(Some)
}

/// Takes the text of the file at `path`.
fn parse(text: &str, path: &Path, clear_text: ClearText) -> Result<Configured, EnvironmentError> {
    let file: File = toml::from_str(text).map_err(|error| EnvironmentError::Syntax {
        path: path.to_owned(),
        reason: reason(text, &error),
    })?;
    if file.environments.len() > MAX_ENVIRONMENTS {
        return Err(EnvironmentError::TooMany);
    }
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let mut environments = BTreeMap::new();
    for entry in file.environments {
        let id = entry.id.clone();
        check_id(&id)?;
        let endpoint = entry.endpoint(folder, clear_text)?;
        if environments.insert(id.clone(), endpoint).is_some() {
            return Err(EnvironmentError::Duplicate(id));
        }
    }
    let include_local = file.include_local.unwrap_or(true);
    let default = match file.default.as_deref().map(str::trim) {
        None => Choice::Unsaid,
        Some(none) if none.eq_ignore_ascii_case("none") => Choice::Nothing,
        Some(id) if environments.contains_key(id) || (include_local && id == LOCAL) => Choice::Named(id.to_owned()),
        Some(id) => return Err(EnvironmentError::UnknownDefault(id.to_owned())),
    };
    Ok(Configured {
        include_local,
        environments,
        default,
    })
}

/// What is wrong and where, without the line itself.
fn reason(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message.to_owned(),
    }
}

impl Entry {
    fn endpoint(self, folder: &Path, clear_text: ClearText) -> Result<Endpoint, EnvironmentError> {
        let id = self.id;
        let wrong = |reason| Err(EnvironmentError::Entry { id: id.clone(), reason });
        if self.program.is_none() && (self.args.is_some() || self.env.is_some() || self.cwd.is_some()) {
            return wrong("`args`, `env` and `cwd` go with `program` only");
        }
        if self.url.is_none() && self.auth_bearer_token.is_some() {
            return wrong("`auth_bearer_token` goes with `url` only");
        }
        if self.url.is_none() && self.connect_timeout_sec.is_some() {
            return wrong("`connect_timeout_sec` goes with `url` only");
        }
        match (self.url, self.program) {
            (Some(url), None) => {
                let mut listener = Listener::new(url.trim());
                listener.bearer = self.auth_bearer_token.filter(|token| !token.is_blank());
                listener.clear_text = clear_text;
                listener.connect_timeout = self.connect_timeout_sec.unwrap_or(RELAY_CONNECT_TIMEOUT);
                listener.initialize_timeout = self.initialize_timeout_sec.unwrap_or(INITIALIZE_TIMEOUT);
                check_listener(&listener).map_err(|error| EnvironmentError::Url { id: id.clone(), error })?;
                if !listener.bearer.as_ref().is_none_or(is_header_value) {
                    return wrong("`auth_bearer_token` cannot be sent");
                }
                Ok(listener.into())
            }
            (None, Some(program)) if program.trim().is_empty() => wrong("`program` must not be empty"),
            (None, Some(program)) => {
                let mut program = Program::new(program.trim(), self.args.unwrap_or_default());
                program.env = self.env.unwrap_or_default();
                program.cwd = self.cwd.map(|cwd| folder.join(cwd));
                program.initialize_timeout = self.initialize_timeout_sec.unwrap_or(INITIALIZE_TIMEOUT);
                Ok(program.into())
            }
            _ => wrong("it needs either `url` or `program`"),
        }
    }
}

/// Checks what can be known before the first dial. Clear text to other machines is refused here only where a token would go
/// with it; otherwise the dial refuses it.
pub(super) fn check_listener(listener: &Listener) -> Result<(), UrlError> {
    let text = listener.url.expose();
    if !text.starts_with("ws://") && !text.starts_with("wss://") {
        return Err(UrlError::Scheme("ws:// or wss://"));
    }
    let clear_text = match listener.bearer {
        Some(_) => listener.clear_text,
        None => ClearText::Anywhere,
    };
    match relay_url(&listener.url, clear_text) {
        Err(error @ (UrlError::Syntax(_) | UrlError::TooLong | UrlError::Host | UrlError::ClearText(_))) => Err(error),
        // Others are told when it is dialled, as stock harnesses accept them.
        _ => Ok(()),
    }
}

fn is_header_value(token: &Secret) -> bool {
    token
        .expose()
        .bytes()
        .all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

#[cfg(test)]
mod tests;
