//! A registry, a relay in a process of its own, and executors, without anything in between.

use std::net::TcpListener;

use crate::executor::{self, End};
use crate::harness::Access;
use crate::registry::{self, Registry, Role};
use crate::relay::{self, Relay};
use crate::{Context, Program, stock, wait};
use anyhow::Result;

/// The ends that can be reached, by the names of their environments.
const ENVIRONMENTS: [&str; 2] = ["ours", "stock"];

/// Services, and the credentials of two environments, `ours` and `stock`.
#[derive(Debug)]
pub struct Installation {
    registry: Registry,
    /// The relay.
    pub relay: Relay,
    harness_tokens: Vec<String>,
    executor_tokens: Vec<String>,
}

impl Installation {
    /// Starts the services.
    ///
    /// # Errors
    ///
    /// One does not start.
    pub async fn start(cx: &Context) -> Result<Self> {
        let registry = Registry::start(cx, registry::Options::default()).await?;
        let (mut harness_tokens, mut executor_tokens) = (Vec::new(), Vec::new());
        for id in ENVIRONMENTS {
            registry.environment(id).await?;
            harness_tokens.push(registry.credential(Role::Harness, Some(id)).await?);
            executor_tokens.push(registry.credential(Role::Executor, Some(id)).await?);
        }
        let token = registry.credential(Role::Relay, None).await?;
        // What the registry tells the ends must be known before the relay listens.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut options = relay::Options::new(registry.url(), &token, &format!("ws://{address}"));
        options.listen = address.to_string();
        Ok(Self {
            relay: Relay::start(cx, options).await?,
            registry,
            harness_tokens,
            executor_tokens,
        })
    }

    /// How the environment `id` is reached.
    pub fn access(&self, id: &str) -> Access {
        Access {
            registry: self.registry.url().into(),
            environment: id.into(),
            token: self.token(&self.harness_tokens, id),
            ca_file: None,
            namespace: None,
        }
    }

    /// Starts the executor of the environment `id` and waits until it can be reached.
    ///
    /// # Errors
    ///
    /// It cannot be.
    pub async fn executor(&self, cx: &Context, id: &str, end: End) -> Result<Program> {
        let token = self.token(&self.executor_tokens, id);
        let command = match end {
            End::Ours => {
                let options = executor::Options {
                    name: id.into(),
                    registry: self.registry.url().into(),
                    environment: id.into(),
                    token,
                    workspace: cx.folder().into(),
                    content: cx.folder().into(),
                    ca_file: None,
                    namespace: None,
                };
                executor::ours(cx, &options)?
            }
            // Its log of every frame would cost time that no user spends.
            End::Stock(version) => {
                stock::executor(cx, version, id, self.registry.url(), id, &token)?.env("RUST_LOG", "error")
            }
        };
        let mut executor = Program::start(cx, id, command.folder(cx.folder()))?;
        executor.close_stdin();
        let access = self.access(id);
        let what = format!("the executor {id}");
        wait::until(&what, wait::SOON, async || {
            let probe = access.command(cx, ["run", "--", "true"]).ok()?;
            let finished = Program::run(cx, "probe", probe, b"", wait::SOON).await.ok()?;
            (finished.code == 0).then_some(())
        })
        .await?;
        Ok(executor)
    }

    fn token(&self, tokens: &[String], id: &str) -> String {
        let at = ENVIRONMENTS.iter().position(|known| *known == id);
        at.map(|at| tokens[at].clone()).expect("a known environment")
    }
}
