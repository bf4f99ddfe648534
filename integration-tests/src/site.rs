//! A whole installation on loopback: registry, relay, one executor, and links that a test can cut.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use crate::executor::{self, End};
use crate::harness::Access;
use crate::link::{Link, Party};
use crate::model::Model;
use crate::registry::{Registry, Role};
use crate::relay::Relay;
use crate::stock::{self, Mode, Version, Way};
use crate::{Context, Program, registry, relay, wait};

/// The environment's name.
pub const ENVIRONMENT: &str = "site-1";

/// Where the relay runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayKind {
    /// In the registry's process.
    Embedded,
    /// In a process of its own.
    StandAlone,
}

/// The installation. Parties reach the relay through [`Site::link`].
#[derive(Debug)]
pub struct Site {
    /// The test.
    pub cx: Context,
    /// The network between the parties and the relay.
    pub link: Link,
    /// The registry.
    pub registry: Registry,
    /// The relay, if it stands alone.
    pub relay: Option<Relay>,
    /// The executor, while it runs.
    pub executor: Option<Program>,
    /// Whose executor it is.
    pub end: End,
    /// The path that both machines know; empty on the harness's.
    pub workspace: PathBuf,
    /// What the executor's machine has there.
    pub content: PathBuf,
    kind: RelayKind,
    executor_token: String,
    harness_token: String,
    relay_token: Option<String>,
}

fn registry_options(link: &Link, kind: RelayKind) -> registry::Options {
    let embedded = kind == RelayKind::Embedded;
    registry::Options {
        embedded_relay: embedded,
        public_url: embedded.then(|| format!("http://{}", link.address())),
        ..registry::Options::default()
    }
}

async fn ended_well(program: &mut Program) -> Result<()> {
    program.finish(wait::SOON).await?.success()?;
    Ok(())
}

impl Site {
    /// Starts everything and waits until the executor can be reached.
    ///
    /// # Errors
    ///
    /// A part does not start.
    pub async fn start(cx: &Context, end: End, kind: RelayKind) -> Result<Self> {
        let mut site = Self::start_without_executor(cx, end, kind).await?;
        site.start_executor().await?;
        Ok(site)
    }

    /// Starts everything but the executor.
    ///
    /// # Errors
    ///
    /// A part does not start.
    pub async fn start_without_executor(cx: &Context, end: End, kind: RelayKind) -> Result<Self> {
        let link = Link::bind().await?;
        let registry = Registry::start(cx, registry_options(&link, kind)).await?;
        registry.environment(ENVIRONMENT).await?;
        let relay_token = match kind {
            RelayKind::Embedded => None,
            RelayKind::StandAlone => Some(registry.credential(Role::Relay, None).await?),
        };
        let mut site = Self {
            cx: cx.clone(),
            kind,
            executor_token: registry.credential(Role::Executor, Some(ENVIRONMENT)).await?,
            harness_token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
            link,
            registry,
            relay: None,
            executor: None,
            end,
            workspace: cx.subfolder("workspace")?,
            content: cx.subfolder("far-content")?,
            relay_token,
        };
        match kind {
            RelayKind::Embedded => site.link.lead_to(site.registry.address()?),
            RelayKind::StandAlone => site.start_relay().await?,
        }
        Ok(site)
    }

    /// Starts the stand-alone relay, or a new one after [`Self::relay`] was killed.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start_relay(&mut self) -> Result<()> {
        let public_url = format!("ws://{}", self.link.address());
        let token = self.relay_token.clone().unwrap_or_default();
        let options = relay::Options::new(self.registry.url(), &token, &public_url);
        let relay = Relay::start(&self.cx, options).await?;
        self.link.lead_to(relay.address()?);
        self.relay = Some(relay);
        Ok(())
    }

    /// Kills the stand-alone relay as a power cut does, and starts another one in its place.
    ///
    /// # Errors
    ///
    /// The new one does not start.
    pub async fn restart_relay(&mut self) -> Result<()> {
        if let Some(mut relay) = self.relay.take() {
            relay.program.kill().await?;
        }
        self.start_relay().await
    }

    /// Asks the stand-alone relay to stop, as a service manager does, and starts another one in its place while it still
    /// says goodbye.
    ///
    /// # Errors
    ///
    /// The new one does not start, or the old one does not end well.
    pub async fn drain_relay(&mut self) -> Result<()> {
        let mut old = self.relay.take().context("no relay")?;
        old.program.signal(Signal::SIGTERM)?;
        self.start_relay().await?;
        ended_well(&mut old.program).await
    }

    /// Asks the registry, and the relay in it, to stop, and starts it again as soon as it has.
    ///
    /// # Errors
    ///
    /// It does not end well, or does not start.
    pub async fn restart_registry(&mut self) -> Result<()> {
        self.registry.program.signal(Signal::SIGTERM)?;
        self.replace_registry().await
    }

    /// As [`Self::restart_registry`]; `harness` stands still meanwhile, and finds its connection closed afterwards.
    ///
    /// # Errors
    ///
    /// It does not end well, or does not start.
    pub async fn restart_registry_unseen(&mut self, harness: &Program) -> Result<()> {
        harness.signal(Signal::SIGSTOP)?;
        self.registry.program.signal(Signal::SIGTERM)?;
        let replaced = self.replace_registry().await;
        harness.signal(Signal::SIGCONT)?;
        replaced
    }

    async fn replace_registry(&mut self) -> Result<()> {
        let address = self.registry.address()?;
        ended_well(&mut self.registry.program).await?;
        let mut options = registry_options(&self.link, self.kind);
        options.name = "registry again".into();
        options.listen = address.to_string();
        self.registry = Registry::start(&self.cx, options).await?;
        Ok(())
    }

    /// Starts the executor, or a new one after the old one was stopped, and waits until the relay has it.
    ///
    /// # Errors
    ///
    /// It does not get there.
    pub async fn start_executor(&mut self) -> Result<()> {
        let before = self.link.upgraded(Party::Executor);
        self.launch_executor()?;
        self.link.wait_upgraded(Party::Executor, before + 1, wait::SOON).await
    }

    /// Starts the executor and waits for nothing.
    ///
    /// # Errors
    ///
    /// Its binary is missing.
    pub fn launch_executor(&mut self) -> Result<()> {
        self.executor = Some(executor::start(&self.cx, self.end, &self.executor_options())?);
        Ok(())
    }

    /// How this site's executor is started.
    pub fn executor_options(&self) -> executor::Options {
        executor::Options {
            name: "executor".into(),
            registry: self.registry.url().into(),
            environment: ENVIRONMENT.into(),
            token: self.executor_token.clone(),
            workspace: self.workspace.clone(),
            content: self.content.clone(),
            ca_file: None,
            namespace: None,
        }
    }

    /// Kills the executor as a power cut does.
    ///
    /// # Errors
    ///
    /// There is none.
    pub async fn kill_executor(&mut self) -> Result<()> {
        if let Some(mut executor) = self.executor.take() {
            executor.kill().await?;
        }
        Ok(())
    }

    /// How our harness reaches this site.
    pub fn access(&self) -> Access {
        Access {
            registry: self.registry.url().into(),
            environment: ENVIRONMENT.into(),
            token: self.harness_token.clone(),
            ca_file: None,
            namespace: None,
        }
    }

    /// The executor's credential.
    pub fn executor_token(&self) -> &str {
        &self.executor_token
    }

    /// Starts a stock harness here, played by `model`.
    ///
    /// # Errors
    ///
    /// The stock binary is missing.
    pub fn stock_harness(&self, version: Version, name: &str, model: &Model) -> Result<Program> {
        self.stock_harness_in(Mode::FullAccess, version, name, model)
    }

    /// Starts a stock harness here in a sandbox mode, played by `model`.
    ///
    /// # Errors
    ///
    /// The stock binary is missing.
    pub fn stock_harness_in(&self, mode: Mode, version: Version, name: &str, model: &Model) -> Result<Program> {
        let access = self.access();
        let way = Way::Registry {
            url: &access.registry,
            environment: &access.environment,
            token: &access.token,
        };
        stock::harness_in(mode, &self.cx, version, name, &way, &self.workspace, model)
    }

    /// Waits until a file exists in the executor's workspace.
    ///
    /// # Errors
    ///
    /// It does not appear within the time.
    pub async fn far_file(&self, name: &str, within: Duration) -> Result<()> {
        let path = self.content.join(name);
        wait::until_true(&format!("the executor's file {name}"), within, || path.exists()).await
    }

    /// Fails if anything was written into the harness's own workspace.
    ///
    /// # Errors
    ///
    /// Something was.
    pub fn near_is_untouched(&self) -> Result<()> {
        let entry = std::fs::read_dir(&self.workspace)?.next();
        match entry {
            None => Ok(()),
            Some(entry) => anyhow::bail!("the harness's own workspace has {:?}", entry?.path()),
        }
    }
}
