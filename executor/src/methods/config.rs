//! Configuration of agents that lies on this machine.
//!
//! The files are those of stock executors: `config.toml` of the system and of the user, `managed_config.toml`, and
//! `requirements.toml`. A project's own configuration is not among them: the harness decides whether it is trusted.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use rendezvous_host::files::{FileError, Files};
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::config::{ConfigLayer, ConfigLayers, ReadConfig, ReadConfigResult};
use rendezvous_rpc::{PathUri, RpcError};
use toml::{Table, Value};

use super::{Family, Reply, params, reply};
use crate::server::{Connection, Sink};

/// Where the system's configuration lies.
const SYSTEM: &str = "/etc/codex";
/// Largest file.
const MAX_FILE: u64 = 1024 * 1024;
/// Paths of one call.
const MAX_PATHS: usize = 4096;

pub(super) async fn read<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<ReadConfig>(request)?;
    connection.require(Family::EnvironmentConfig)?;
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    // It only has to be a path of this machine: no layer depends on it.
    params
        .cwd
        .to_path()
        .map_err(|error| RpcError::invalid_params(error.to_string()))?;
    if params.config_paths.is_empty() && params.requirements_paths.is_empty() {
        return Err(RpcError::invalid_params(
            "at least one config or requirements path is required",
        ));
    }
    let keys = [Keys::new(params.config_paths)?, Keys::new(params.requirements_paths)?];
    let place = Place {
        files: &connection.server.files,
        system: Path::new(SYSTEM),
        user: codex_home(home.as_deref())?,
    };
    let result = ReadConfigResult {
        user_home_dir: home.and_then(|home| PathUri::from_path(&home).ok()),
        codex_home_dir: uri(&place.user)?,
        hostname: hostname(),
        config: place.config(&keys[0]).await?,
        requirements: place.requirements(&keys[1]).await?,
    };
    reply::<ReadConfig>(request, &result)
}

fn codex_home(home: Option<&Path>) -> Result<PathBuf, RpcError> {
    let named = env::var_os("CODEX_HOME")
        .map(PathBuf::from)
        .filter(|named| named.is_absolute());
    named
        .or_else(|| Some(home?.join(".codex")))
        .ok_or_else(|| RpcError::internal("failed to load executor-local config: there is no home directory"))
}

fn hostname() -> Option<String> {
    Some(rustix::system::uname().nodename().to_str().ok()?.to_owned())
}

/// The keys to read, without those inside another.
struct Keys(Vec<Vec<String>>);

impl Keys {
    fn new(paths: Vec<Vec<String>>) -> Result<Self, RpcError> {
        if paths.len() > MAX_PATHS {
            return Err(RpcError::invalid_params(format!(
                "at most {MAX_PATHS} TOML paths may be read at once"
            )));
        }
        if paths.iter().any(Vec::is_empty) {
            return Err(RpcError::invalid_params(
                "TOML paths must contain at least one key segment",
            ));
        }
        let mut outer: Vec<Vec<String>> = Vec::new();
        // In order, a key comes right after what it is inside of.
        for path in paths.into_iter().collect::<BTreeSet<_>>() {
            if !outer.last().is_some_and(|last| path.starts_with(last)) {
                outer.push(path);
            }
        }
        Ok(Self(outer))
    }

    /// A table with nothing but these keys.
    fn select(&self, from: &Table) -> Table {
        let mut selected = Table::new();
        for path in &self.0 {
            if let Some(value) = get(from, path) {
                put(&mut selected, path, value.clone());
            }
        }
        selected
    }
}

fn get<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first)?;
    if rest.is_empty() {
        Some(value)
    } else {
        get(value.as_table()?, rest)
    }
}

fn put(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => drop(table.insert(last.clone(), value)),
        [first, rest @ ..] => {
            let inner = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Where the files lie.
struct Place<'a> {
    files: &'a Files,
    system: &'a Path,
    user: PathBuf,
}

impl Place<'_> {
    async fn config(&self, keys: &Keys) -> Result<ConfigLayers, RpcError> {
        let mut layers = Vec::new();
        let named = |kind: &str, path: &Path| format!("{kind} ({})", path.display());
        let path = self.system.join("config.toml");
        layers.extend(self.layer(named("system", &path), &path, keys).await?);
        let cloud_insertion_index = layers.len() as u64;
        let path = self.user.join("config.toml");
        layers.extend(self.layer(named("user", &path), &path, keys).await?);
        let path = self.system.join("managed_config.toml");
        layers.extend(
            self.layer(named("legacy managed_config.toml", &path), &path, keys)
                .await?,
        );
        Ok(ConfigLayers {
            layers,
            cloud_insertion_index,
        })
    }

    async fn requirements(&self, keys: &Keys) -> Result<ConfigLayers, RpcError> {
        let path = self.system.join("requirements.toml");
        let layers = Vec::from_iter(self.layer(path.display().to_string(), &path, keys).await?);
        Ok(ConfigLayers {
            cloud_insertion_index: layers.len() as u64,
            layers,
        })
    }

    /// What a file says about the keys; nothing if there is no file.
    async fn layer(&self, source: String, path: &Path, keys: &Keys) -> Result<Option<ConfigLayer>, RpcError> {
        let failed = |reason: &dyn std::fmt::Display| {
            RpcError::internal(format!(
                "failed to load executor-local config: {}{reason}",
                path.display()
            ))
        };
        if keys.0.is_empty() {
            return Ok(None);
        }
        let bytes = match self.files.read(path, MAX_FILE).await {
            Ok(bytes) => bytes,
            Err(FileError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&format_args!(": {error}"))),
        };
        let text = String::from_utf8(bytes).map_err(|error| failed(&format_args!(": {error}")))?;
        let table: Table = toml::from_str(&text).map_err(|error| failed(&format_args!("{}", At(&text, &error))))?;
        let selected = keys.select(&table);
        if selected.is_empty() {
            return Ok(None);
        }
        Ok(Some(ConfigLayer {
            source,
            base_dir: uri(path.parent().unwrap_or(path))?,
            toml: toml::to_string(&selected).map_err(|error| failed(&format_args!(": {error}")))?,
        }))
    }
}

/// Where in a text and why it is no TOML. What stands there is left out: it may be a secret.
struct At<'a>(&'a str, &'a toml::de::Error);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(text, error) = self;
        if let Some(before) = error.span().and_then(|span| text.get(..span.start)) {
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", error.message())
    }
}

fn uri(path: &Path) -> Result<PathUri, RpcError> {
    PathUri::from_path(path).map_err(|error| RpcError::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        system: tempfile::TempDir,
        user: tempfile::TempDir,
        files: Files,
    }

    impl Machine {
        fn new() -> Self {
            Self {
                system: tempfile::tempdir().expect("directory"),
                user: tempfile::tempdir().expect("directory"),
                files: Files::default(),
            }
        }

        fn place(&self) -> Place<'_> {
            Place {
                files: &self.files,
                system: self.system.path(),
                user: self.user.path().to_owned(),
            }
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.system.path().join(name), text).expect("file");
        }

        fn write_user(&self, text: &str) {
            std::fs::write(self.user.path().join("config.toml"), text).expect("file");
        }
    }

    fn keys(paths: &[&[&str]]) -> Keys {
        let own = |path: &&[&str]| path.iter().map(|&key| key.to_owned()).collect();
        Keys::new(paths.iter().map(own).collect()).expect("keys")
    }

    fn texts(layers: &ConfigLayers) -> Vec<&str> {
        layers.layers.iter().map(|layer| layer.toml.as_str()).collect()
    }

    #[tokio::test]
    async fn layers_come_from_low_to_high_with_the_chosen_keys_only() {
        let machine = Machine::new();
        let none = machine.place().config(&keys(&[&["a"]])).await.expect("no files");
        assert_eq!(none, ConfigLayers::default());
        machine.write_user("secret = 1\n[a.b]\nc = 1\nd = 2\n[a.e]\nf = 3\n");
        let layers = machine.place().config(&keys(&[&["a", "b", "c"], &["a", "e"]])).await;
        let layers = layers.expect("user");
        assert_eq!(texts(&layers), ["[a.b]\nc = 1\n\n[a.e]\nf = 3\n"]);
        assert_eq!(layers.cloud_insertion_index, 0);
        let user = machine.user.path().display();
        assert_eq!(layers.layers[0].source, format!("user ({user}/config.toml)"));
        assert_eq!(layers.layers[0].base_dir.as_str(), format!("file://{user}"));

        machine.write("config.toml", "a = \"system\"\n");
        machine.write("managed_config.toml", "a = \"managed\"\n");
        machine.write("requirements.toml", "a = \"required\"\nb = 1\n");
        let layers = machine.place().config(&keys(&[&["a"]])).await.expect("all");
        let all = [
            "a = \"system\"\n",
            "[a.b]\nc = 1\nd = 2\n\n[a.e]\nf = 3\n",
            "a = \"managed\"\n",
        ];
        assert_eq!((texts(&layers), layers.cloud_insertion_index), (all.to_vec(), 1));
        let required = machine.place().requirements(&keys(&[&["a"]])).await.expect("all");
        assert_eq!(
            (texts(&required), required.cloud_insertion_index),
            (vec!["a = \"required\"\n"], 1)
        );
        let none = machine
            .place()
            .config(&keys(&[&["none"], &["a", "x"], &["secret", "x"]]))
            .await;
        assert_eq!(none.expect("nothing there"), ConfigLayers::default());
    }

    #[test]
    fn keys_inside_others_add_nothing() {
        let inside = keys(&[&["a", "b"], &["a"], &["a-"], &["a"], &["b", "c"]]);
        assert_eq!(inside.0, [vec!["a"], vec!["a-"], vec!["b", "c"]]);
        let many = |count| Keys::new(vec![vec!["a".to_owned()]; count]);
        assert!(many(MAX_PATHS).is_ok());
        assert_eq!(many(MAX_PATHS + 1).map(|_| ()).expect_err("too many").code, -32602);
        assert_eq!(Keys::new(vec![vec![]]).map(|_| ()).expect_err("empty").code, -32602);
    }

    #[tokio::test]
    async fn what_is_broken_is_told_without_its_content() {
        let machine = Machine::new();
        machine.write_user("a = 1\nhidden = [\n");
        let error = machine.place().config(&keys(&[&["a"]])).await.expect_err("broken");
        assert_eq!(error.code, -32603);
        let place = format!("{}/config.toml:2:", machine.user.path().display());
        assert!(error.message.contains(&place), "{}", error.message);
        assert!(!error.message.contains("hidden"), "{}", error.message);
        machine.write_user(&"#".repeat(1 << 21));
        let error = machine.place().config(&keys(&[&["a"]])).await.expect_err("too large");
        assert!(error.message.contains("too large"), "{}", error.message);
    }
}
