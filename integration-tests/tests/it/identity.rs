//! Keys that are known again: executors and harnesses with files, and registries that lie.

mod files;
mod harnesses;
mod pins;
mod rotation;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::link::Link;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::{Command, Context, Program, binaries, executor, wait};
use serde_json::Value;

use crate::runner::{Case, When};

const ENVIRONMENT: &str = "lab";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    macro_rules! add {
        ($($module:ident::$name:ident),* $(,)?) => {
            $(cases.push(Case::new(
                concat!("identity::", stringify!($module), "::", stringify!($name)),
                When::Always,
                $module::$name,
            ));)*
        };
    }
    add!(
        pins::restart,
        pins::swapped_key,
        pins::false_successor,
        pins::ephemeral_executor,
        pins::stock_executor,
        pins::expected_fingerprint,
        rotation::successor,
        rotation::long_absence,
        rotation::forgotten_key,
        rotation::forwarder,
        files::permissions,
        files::no_place,
        files::passphrase,
        files::passphrase_stays_secret,
        files::harness_identity,
        files::nothing_remembered,
        harnesses::authorized,
        harnesses::revoked,
    );
    cases
}

/// A registry with its relay, and a place in front of it which is what the harness believes to be the registry.
struct House {
    cx: Context,
    registry: Registry,
    front: Link,
    executor_token: String,
    harness_token: String,
}

impl House {
    async fn open(cx: &Context) -> Result<Self> {
        let front = Link::bind().await?;
        let registry = Registry::start(cx, options("registry", registry::default_database(cx))).await?;
        front.lead_to(registry.address()?);
        registry.environment(ENVIRONMENT).await?;
        Ok(Self {
            cx: cx.clone(),
            executor_token: registry.credential(Role::Executor, Some(ENVIRONMENT)).await?,
            harness_token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
            registry,
            front,
        })
    }

    /// Puts a registry in the place of the one that the harness knows: with the same database, so that every credential is
    /// good there, and with its own ideas.
    async fn fall(&mut self) -> Result<()> {
        self.registry.program.signal(nix::sys::signal::Signal::SIGTERM)?;
        self.registry.program.finish(wait::SOON).await?;
        let stolen = self.cx.folder().join("stolen.sqlite");
        for more in ["", "-wal"] {
            // A registry that had no time to tidy up leaves a part of its database beside it.
            let from = self.cx.folder().join(format!("registry.sqlite{more}"));
            if from.try_exists()? {
                std::fs::copy(from, self.cx.folder().join(format!("stolen.sqlite{more}")))?;
            }
        }
        let options = options("fallen registry", format!("sqlite://{}", stolen.display()));
        self.registry = Registry::start(&self.cx, options).await?;
        self.front.lead_to(self.registry.address()?);
        Ok(())
    }

    /// An executor with its usual file of keys.
    async fn executor(&self, more: &[&str]) -> Result<Program> {
        self.executor_called("executor", more).await
    }

    async fn executor_called(&self, name: &str, more: &[&str]) -> Result<Program> {
        let mut program = Program::start(&self.cx, name, self.executor_command(name, more)?)?;
        program.close_stdin();
        program.line("executor registered ", wait::SOON).await?;
        Ok(program)
    }

    fn executor_command(&self, name: &str, more: &[&str]) -> Result<Command> {
        let mut options = executor::Options::new(&self.cx, self.registry.url(), ENVIRONMENT, &self.executor_token)?;
        options.name = name.to_owned();
        Ok(executor::ours(&self.cx, &options)?.args(more))
    }

    /// Refused handshakes count against a credential, which has few to spare.
    async fn use_another_credential(&mut self) -> Result<()> {
        self.harness_token = self.registry.credential(Role::Harness, Some(ENVIRONMENT)).await?;
        Ok(())
    }

    fn access(&self) -> Access {
        Access {
            registry: format!("http://{}", self.front.address()),
            environment: ENVIRONMENT.to_owned(),
            token: self.harness_token.clone(),
            ca_file: None,
            namespace: None,
        }
    }

    async fn harness(&self, arguments: &[&str]) -> Result<Finished> {
        let command = self.access().command(&self.cx, arguments)?;
        Program::run(&self.cx, "harness", command, b"", wait::SOON).await
    }

    /// Runs a command at the executor, which must work, with more options of the harness.
    async fn works(&self, more: &[&str]) -> Result<Finished> {
        let arguments = [&["run"], more, &["--", "echo", "it works"]].concat();
        let finished = self.harness(&arguments).await?.success()?;
        ensure!(finished.text() == "it works\n", "{finished:?}");
        Ok(finished)
    }

    /// The same must be refused with this exit code and these words.
    async fn is_refused(&self, more: &[&str], code: i32, words: &[&str]) -> Result<()> {
        let arguments = [&["run"], more, &["--", "echo", "it works"]].concat();
        let finished = self.harness(&arguments).await?;
        ensure!(finished.code == code && finished.stdout.is_empty(), "{finished:?}");
        for word in words {
            ensure!(finished.stderr.contains(word), "no `{word}` in {}", finished.stderr);
        }
        Ok(())
    }

    /// What the harness knows of the executor's key, as `info` shows it.
    async fn executor_key(&self) -> Result<Value> {
        let finished = self.harness(&["info", "--json"]).await?.success()?;
        let info: Value = serde_json::from_slice(&finished.stdout)?;
        Ok(info["executorKey"].clone())
    }

    /// The fingerprints that the harness remembers.
    async fn known(&self) -> Result<Vec<String>> {
        let finished = self.harness(&["known-executors", "list", "--json"]).await?.success()?;
        let pins: Vec<Value> = serde_json::from_slice(&finished.stdout)?;
        pins.iter().map(|pin| member(pin, "fingerprint")).collect()
    }

    /// `executor identity …`.
    async fn identity(&self, arguments: &[&str]) -> Result<Finished> {
        let command = Command::new(binaries::ours("executor")?).arg("identity");
        let command = command.args(arguments).env("HOME", self.cx.folder());
        Program::run(&self.cx, "executor identity", command, b"", wait::SOON).await
    }

    /// The fingerprint in the executor's usual file, or another.
    async fn fingerprint(&self, more: &[&str]) -> Result<String> {
        let shown = self.identity(&[&["show", "--json"], more].concat()).await?.success()?;
        member(&serde_json::from_slice(&shown.stdout)?, "fingerprint")
    }

    /// The executor's usual file.
    fn identity_file(&self) -> PathBuf {
        self.cx.folder().join(".local/state/rendezvous/executor-identity")
    }

    /// The harness's usual file.
    fn known_executors(&self) -> PathBuf {
        self.cx.folder().join(".local/state/rendezvous/known_executors")
    }
}

fn options(name: &str, database: String) -> registry::Options {
    registry::Options {
        name: name.to_owned(),
        database: Some(database),
        embedded_relay: true,
        ..registry::Options::default()
    }
}

fn member(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str().map(str::to_owned);
    text.with_context(|| format!("no {name} in {value}"))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}
