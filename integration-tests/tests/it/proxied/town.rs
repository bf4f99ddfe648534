//! The networks: every machine has one wire to the proxy's, and walls let nothing else pass.
//!
//! ```text
//! executor  far     10.80.1.2 --+
//! harness   near    10.80.2.2 --+-- proxy 198.18.0.1 ------ services 198.51.100.1
//! relay     middle  10.80.3.2 --+    :3128, with TLS :3129   :8443 registry
//! harness   open    10.80.4.2 --+    and a route for `open` alone
//! ```

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::netns::Namespace;
use rendezvous_integration_tests::proxy::{self, Proxy};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::tls::{Authority, ServerFiles};
use rendezvous_integration_tests::{Command, Context, Program, binaries, executor, wait};

const ENVIRONMENT: &str = "behind-a-proxy";
const PASSWORD: &str = "s3cr%t/word";
const USER: &str = "worker@site";
/// Both, as a URL has to write them.
pub(super) const LOGIN: &str = "worker%40site:s3cr%25t%2Fword";
/// As clients call them.
pub(super) const REGISTRY: &str = "registry.test:8443";
pub(super) const RELAY: &str = "relay.test:8444";
const SERVICES: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const PROXY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const PORT: u16 = 3128;
const TLS_PORT: u16 = 3129;

/// A machine with one wire, to the proxy's.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) address: IpAddr,
    namespace: Namespace,
}

impl Machine {
    /// Plugs a machine in as the `number`th. `wall` is what may leave it.
    fn plug(hub: &Namespace, number: u8, name: &'static str, wall: &str) -> Result<Self> {
        let namespace = Namespace::new(name)?;
        hub.wire(&format!("to-{name}"), &namespace, "eth0")?;
        hub.ip(&format!("addr add 10.80.{number}.1/24 dev to-{name}"))?;
        hub.ip(&format!("link set to-{name} up"))?;
        namespace.ip(&format!("addr add 10.80.{number}.2/24 dev eth0"))?;
        namespace.ip("link set eth0 up")?;
        namespace.ip(&format!("route add default via 10.80.{number}.1"))?;
        namespace.filter(&format!(
            "table inet wall {{
                 counter stopped {{ }}
                 chain out {{
                     type filter hook output priority filter; policy accept;
                     oifname \"lo\" accept
                     ct state established accept
                     {wall}
                     meta l4proto ipv6-icmp drop
                     counter name stopped drop
                 }}
             }}"
        ))?;
        Ok(Self {
            name,
            address: IpAddr::V4(Ipv4Addr::new(10, 80, number, 2)),
            namespace,
        })
    }

    /// The command on this machine, with some variables; what [`Access::namespace`] does otherwise.
    pub(super) fn set(&self, command: Command, environment: &[(&str, &str)]) -> Command {
        let set = |command: Command, (name, value): &(&str, &str)| command.env(name, value);
        let command = environment.iter().fold(command, set);
        self.namespace.enter(command)
    }

    /// Runs `action` on this machine.
    pub(super) async fn within<T: Send + 'static>(
        &self,
        action: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let namespace = self.namespace.clone();
        tokio::task::spawn_blocking(move || namespace.within(action)).await?
    }

    /// How many packets the wall has stopped.
    pub(super) fn stopped(&self) -> Result<u64> {
        let listed = self.namespace.nft(&["list", "counter", "inet", "wall", "stopped"])?;
        let mut words = listed.split_whitespace().skip_while(|word| *word != "packets");
        let count = words.nth(1).with_context(|| format!("no counter in {listed}"))?;
        Ok(count.parse()?)
    }
}

/// Everything that runs from the begin. Fields are dropped in order: programs before the networks that they are in.
pub(super) struct Town {
    cx: Context,
    executor_token: String,
    harness_token: String,
    relay_token: String,
    workspace: PathBuf,
    content: PathBuf,
    authority: Authority,
    server: ServerFiles,
    pub(super) proxy: Proxy,
    pub(super) tls_proxy: Proxy,
    _registry: Registry,
    pub(super) far: Machine,
    pub(super) near: Machine,
    pub(super) middle: Machine,
    pub(super) open: Machine,
}

impl Town {
    pub(super) async fn build(cx: &Context) -> Result<Self> {
        let hub = Namespace::new("proxy")?;
        let services = Namespace::new("services")?;
        hub.wire("services", &services, "eth0")?;
        hub.ip("addr add 198.51.100.2/24 dev services")?;
        hub.ip("link set services up")?;
        services.ip(&format!("addr add {SERVICES}/24 dev eth0"))?;
        services.ip("link set eth0 up")?;
        services.ip("route add default via 198.51.100.2")?;
        hub.ip(&format!("addr add {PROXY}/32 dev lo"))?;
        let only_proxy = format!("ip daddr {PROXY} tcp dport {{ {PORT}, {TLS_PORT} }} accept");
        let far = Machine::plug(&hub, 1, "far", &only_proxy)?;
        let near = Machine::plug(&hub, 2, "near", &only_proxy)?;
        let middle = Machine::plug(&hub, 3, "middle", &only_proxy)?;
        let open = format!("ip daddr {{ {PROXY}, 198.51.100.0/24 }} accept");
        let open = Machine::plug(&hub, 4, "open", &open)?;
        hub.forward()?;
        hub.filter(
            "table inet wall {
                 chain forward {
                     type filter hook forward priority filter; policy drop;
                     ct state established accept
                     iifname \"to-open\" oifname \"services\" accept
                 }
             }",
        )?;

        let authority = Authority::new(cx)?;
        let names = ["registry.test", "relay.test"];
        let addresses = [IpAddr::V4(SERVICES), IpAddr::V4(PROXY)];
        let server = authority.server_named(cx, "service", &names, &addresses)?;
        let proxy = |port: u16, tls| {
            Proxy::start(
                &hub,
                proxy::Options {
                    listen: SocketAddr::new(IpAddr::V4(PROXY), port),
                    tls,
                    login: format!("{USER}:{PASSWORD}"),
                    names: HashMap::from([
                        ("registry.test".to_owned(), IpAddr::V4(SERVICES)),
                        ("relay.test".to_owned(), middle.address),
                    ]),
                },
            )
        };
        let (proxy, tls_proxy) = (proxy(PORT, None)?, proxy(TLS_PORT, Some(server.server()?))?);

        let options = registry::Options {
            listen: format!("{SERVICES}:8443"),
            public_url: Some(format!("https://{REGISTRY}")),
            tls: Some(server.clone()),
            namespace: Some(services),
            ..registry::Options::default()
        };
        let registry = Registry::start(cx, options).await?;
        registry.environment(ENVIRONMENT).await?;
        Ok(Self {
            executor_token: registry.credential(Role::Executor, Some(ENVIRONMENT)).await?,
            harness_token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
            relay_token: registry.credential(Role::Relay, None).await?,
            workspace: cx.subfolder("workspace")?,
            content: cx.subfolder("far-content")?,
            cx: cx.clone(),
            authority,
            server,
            proxy,
            tls_proxy,
            _registry: registry,
            far,
            near,
            middle,
            open,
        })
    }

    /// The proxy with user and password.
    pub(super) fn proxy_url(&self) -> String {
        format!("http://{LOGIN}@{PROXY}:{PORT}")
    }

    /// The proxy that speaks TLS.
    pub(super) fn tls_proxy_url(&self) -> String {
        format!("https://{LOGIN}@{PROXY}:{TLS_PORT}")
    }

    /// The proxy as it may be shown.
    pub(super) fn shown_proxy(&self) -> String {
        format!("http://{PROXY}:{PORT}")
    }

    pub(super) fn registry_url(&self) -> String {
        format!("https://{REGISTRY}")
    }

    pub(super) fn registry_by_address(&self) -> String {
        format!("https://{SERVICES}:8443")
    }

    /// Starts the relay, whose way to the registry is the proxy.
    pub(super) async fn relay(&self) -> Result<Relay> {
        let command = self.relay_command()?;
        let command = self.middle.set(command, &[("https_proxy", &self.proxy_url())]);
        Relay::start_as(&self.cx, "relay", command).await
    }

    pub(super) fn relay_command(&self) -> Result<Command> {
        let options = relay::Options {
            listen: "0.0.0.0:8444".into(),
            tls: Some(self.server.clone()),
            ca_file: Some(self.authority.file()),
            ..relay::Options::new(&self.registry_url(), &self.relay_token, &format!("wss://{RELAY}"))
        };
        relay::command(&self.cx, &options)
    }

    /// Starts an executor whose way out is the proxy, and waits until the relay has it.
    pub(super) async fn executor(&self, machine: &Machine) -> Result<Program> {
        let proxy = self.proxy_url();
        self.executor_at(machine, &self.registry_url(), &[("HTTPS_PROXY", &proxy)])
            .await
    }

    /// Starts an executor of the registry at this URL with some variables, and waits until the relay has it.
    pub(super) async fn executor_at(
        &self,
        machine: &Machine,
        registry: &str,
        environment: &[(&str, &str)],
    ) -> Result<Program> {
        let command = executor::ours(&self.cx, &self.executor_options(registry))?;
        let command = executor::machine(command, &self.workspace, &self.content);
        let mut program = Program::start(&self.cx, "executor", machine.set(command, environment))?;
        program.line("executor registered ", wait::SOON).await?;
        Ok(program)
    }

    pub(super) fn executor_options(&self, registry: &str) -> executor::Options {
        executor::Options {
            name: "executor".into(),
            registry: registry.to_owned(),
            environment: ENVIRONMENT.into(),
            token: self.executor_token.clone(),
            workspace: self.workspace.clone(),
            content: self.content.clone(),
            ca_file: Some(self.authority.file()),
            namespace: None,
        }
    }

    /// Starts an executor that listens on loopback, with some variables; gives its URL.
    pub(super) async fn listener(&self, machine: &Machine, environment: &[(&str, &str)]) -> Result<(Program, String)> {
        let command = Command::new(binaries::ours("executor")?)
            .args(["--listen", "ws://127.0.0.1:0", "--ca-file"])
            .arg(self.authority.file())
            .env("HOME", self.cx.folder());
        let mut program = Program::start(&self.cx, "listener", machine.set(command, environment))?;
        let rest = program.line("ws://", wait::SOON).await?;
        Ok((program, format!("ws://{}", rest.trim())))
    }

    /// Starts a gateway whose way out is `proxy`; gives its URL for executors.
    pub(super) async fn gateway(&self, machine: &Machine, proxy: &str) -> Result<(Program, String)> {
        let command = Command::new(binaries::ours("executor")?)
            .args(["gateway", "--remote", &self.registry_url(), "--ca-file"])
            .arg(self.authority.file())
            .env("HOME", self.cx.folder());
        let command = machine.set(command, &[("https_proxy", proxy)]);
        let mut gateway = Program::start(&self.cx, "gateway", command)?;
        let url = gateway.line("gateway listening on ", wait::SOON).await?;
        Ok((gateway, url.trim().to_owned()))
    }

    /// How a harness reaches the executor; where it runs is the machine's to say.
    pub(super) fn access(&self) -> Access {
        Access {
            registry: self.registry_url(),
            environment: ENVIRONMENT.into(),
            token: self.harness_token.clone(),
            ca_file: Some(self.authority.file()),
            namespace: None,
        }
    }
}
