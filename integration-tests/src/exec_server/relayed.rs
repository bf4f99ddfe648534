use anyhow::{Context as _, Result};
use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::stream::Target;
use rendezvous_transport::connector::Connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::registry::{Client, Options};
use rendezvous_transport::stream;
use rendezvous_transport::tls::Trust;
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::limits::MAX_MESSAGE;
use rendezvous_wire::secret::Secret;
use tokio::sync::mpsc;

use super::{Connection, QUEUE};
use crate::registry::{self, Registry, Role};
use crate::{Command, Context, Program, wait};

const ENVIRONMENT: &str = "exec-server";

/// An executor of ours behind a registry with an embedded relay, and a key to reach it with.
#[derive(Debug)]
pub(super) struct Relayed {
    _registry: Registry,
    _executor: Program,
    client: Client,
    dialer: Dialer,
    environment: EnvironmentId,
    identity: Identity,
    budget: Budget,
}

impl Relayed {
    /// Starts registry and relay, then the executor: `command` with the flags that say where to register.
    pub(super) async fn start(cx: &Context, name: &str, command: Command) -> Result<Self> {
        let options = registry::Options {
            embedded_relay: true,
            ..registry::Options::default()
        };
        let registry = Registry::start(cx, options).await?;
        registry.environment(ENVIRONMENT).await?;
        let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
        let token = cx.secret_file(&format!("{name}.token"), &token)?;
        let command = command
            .args([
                "--remote",
                registry.url(),
                "--environment-id",
                ENVIRONMENT,
                "--token-file",
            ])
            .arg(token);
        let mut executor = Program::start(cx, name, command)?;
        executor.line("executor registered ", wait::SOON).await?;
        let connector = Connector::direct(Trust::new(None)?);
        let client = Client::new(&Options {
            url: RegistryUrl::parse(registry.url(), ClearText::Loopback)?,
            credential: Secret::new(registry.credential(Role::Harness, Some(ENVIRONMENT)).await?),
            account: None,
            connector: connector.clone(),
        })?;
        Ok(Self {
            _registry: registry,
            _executor: executor,
            client,
            dialer: Dialer::new(connector, ClearText::Loopback),
            environment: EnvironmentId::new(ENVIRONMENT)?,
            identity: Identity::generate(&mut UnwrapErr(SysRng)),
            budget: Budget::new(2 * MAX_MESSAGE),
        })
    }

    /// Opens an end-to-end stream.
    pub(super) async fn connect(&self) -> Result<Connection> {
        let bundle = self.client.connect(&self.environment, self.identity.public()).await?;
        let link = self.dialer.dial(&bundle.url).await?;
        let target = Target {
            environment: &self.environment,
            registration: &bundle.registration,
            executor_key: &bundle.executor_key,
            authorization: &bundle.authorization,
        };
        let stream = stream::connect(link, &self.identity, &target, &self.budget).await;
        let stream = stream.context("end-to-end stream")?;
        // Tests send what an executor should refuse, and look at its answer.
        stream.set_initialized();
        let (sender, mut receiver) = stream.split();
        let (outgoing, mut to_send) = mpsc::channel::<Vec<u8>>(QUEUE);
        let (received, incoming) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let sending = async {
                while let Some(message) = to_send.recv().await {
                    if sender.send(message.into()).await.is_err() {
                        // The receiver sees the end.
                        std::future::pending::<()>().await;
                    }
                }
            };
            let receiving = async {
                while let Some(Ok(message)) = receiver.recv().await {
                    if received.send(message.to_vec()).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                // The test let go of the connection.
                () = sending => {}
                () = receiving => {}
            }
        });
        Ok(Connection::new(outgoing, incoming))
    }
}
