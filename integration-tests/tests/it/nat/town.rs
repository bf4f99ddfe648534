//! Three networks: a public one with registry and relay, and two private ones behind routers that masquerade them.
//!
//! ```text
//! executor 10.77.0.2 -- NAT 203.0.113.2 --+-- 198.51.100.1 :443  recorder -> relay 127.0.0.1:8081
//! harness  10.77.0.2 -- NAT 203.0.113.6 --+                :8443 registry <- recorder 127.0.0.1:9443 <- relay
//!                                         +                :8444 recorder -> registry, for the harness
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::capture::{Capture, Tls};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::netns::{Namespace, PrivateNetwork};
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::relay::{self, Relay};
use rendezvous_integration_tests::tls::Authority;
use rendezvous_integration_tests::{Command, Context, Program, binaries, executor, wait};

pub(super) const ENVIRONMENT: &str = "behind-nat";
/// The address of registry and relay.
const SERVICE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
pub(super) const RELAY_PUBLIC: SocketAddr = SocketAddr::new(IpAddr::V4(SERVICE), 443);
const RELAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);
const REGISTRY: SocketAddr = SocketAddr::new(IpAddr::V4(SERVICE), 8443);
/// Where the relay believes the registry to be.
const REGISTRY_FOR_RELAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9443);

/// Where the harness believes the registry to be.
const REGISTRY_FOR_HARNESS: SocketAddr = SocketAddr::new(IpAddr::V4(SERVICE), 8444);

/// Everything that runs. Fields are dropped in order: programs before the networks that they are in.
pub(super) struct Town {
    pub(super) cx: Context,
    pub(super) access: Access,
    pub(super) executor_token: String,
    pub(super) workspace: PathBuf,
    pub(super) content: PathBuf,
    pub(super) authority: Authority,
    pub(super) relay_capture: Capture,
    pub(super) control_capture: Capture,
    pub(super) connect_capture: Capture,
    _executor: Program,
    _relay: Relay,
    _registry: Registry,
    far: PrivateNetwork,
    pub(super) near: PrivateNetwork,
    public: Namespace,
}

impl Town {
    pub(super) async fn build(cx: &Context) -> Result<Self> {
        let public = Namespace::new("public")?;
        public.ip(&format!("addr add {SERVICE}/32 dev lo"))?;
        let far = PrivateNetwork::behind(&public, 0, "far")?;
        let near = PrivateNetwork::behind(&public, 1, "near")?;

        let authority = Authority::new(cx)?;
        let addresses = [IpAddr::V4(SERVICE), IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let server = authority.server(cx, "service", &addresses)?;
        let tls = Tls {
            server: server.server()?,
            client: authority.client()?,
        };
        let capture = |name: &str, listen, target| {
            let folder = cx.subfolder(name)?;
            Capture::start(&public, listen, target, tls.clone(), &folder)
        };
        let relay_capture = capture("seen-by-relay", RELAY_PUBLIC, RELAY)?;
        let control_capture = capture("seen-by-control", REGISTRY_FOR_RELAY, REGISTRY)?;
        let connect_capture = capture("seen-by-harness", REGISTRY_FOR_HARNESS, REGISTRY)?;

        let options = registry::Options {
            listen: REGISTRY.to_string(),
            public_url: Some(format!("https://{REGISTRY}")),
            tls: Some(server.clone()),
            namespace: Some(public.clone()),
            ..registry::Options::default()
        };
        let registry = Registry::start(cx, options).await?;
        registry.environment(ENVIRONMENT).await?;
        let relay_token = registry.credential(Role::Relay, None).await?;
        let executor_token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
        let harness_token = registry.credential(Role::Harness, Some(ENVIRONMENT)).await?;
        let options = relay::Options {
            listen: RELAY.to_string(),
            tls: Some(server),
            ca_file: Some(authority.file()),
            namespace: Some(public.clone()),
            ..relay::Options::new(
                &format!("https://{REGISTRY_FOR_RELAY}"),
                &relay_token,
                &format!("wss://{RELAY_PUBLIC}"),
            )
        };
        let relay = Relay::start(cx, options).await?;

        let workspace = cx.subfolder("workspace")?;
        let content = cx.subfolder("far-content")?;
        let options = executor::Options {
            name: "executor".into(),
            registry: format!("https://{REGISTRY}"),
            environment: ENVIRONMENT.into(),
            token: executor_token.clone(),
            workspace: workspace.clone(),
            content: content.clone(),
            ca_file: Some(authority.file()),
            namespace: Some(far.machine.clone()),
        };
        let executor = executor::start_ours(cx, &options).await?;
        let access = Access {
            registry: format!("https://{REGISTRY_FOR_HARNESS}"),
            environment: ENVIRONMENT.into(),
            token: harness_token,
            ca_file: Some(authority.file()),
            namespace: Some(near.machine.clone()),
        };
        Ok(Self {
            cx: cx.clone(),
            access,
            executor_token,
            workspace,
            content,
            authority,
            relay_capture,
            control_capture,
            connect_capture,
            _executor: executor,
            _relay: relay,
            _registry: registry,
            far,
            near,
            public,
        })
    }

    /// Nothing listens in the private networks, and nobody outside reaches them: not by the ports that the routers
    /// opened for outgoing connections, not by others, not by the private address.
    pub(super) async fn no_port_is_open(&self) -> Result<()> {
        for home in [&self.far, &self.near] {
            let listening = self.sockets(&home.machine, "-Hltun").await?;
            ensure!(listening.is_empty(), "sockets listen behind the NAT: {listening}");
        }
        let seen = self.sockets(&self.public, "-Htn").await?;
        let outside = self.far.public_address.to_string();
        ensure!(
            !seen.contains("10.77."),
            "a private address is visible in public: {seen}"
        );
        let mapped: Vec<u16> = seen
            .split_whitespace()
            .filter_map(|word| word.strip_prefix(&format!("{outside}:"))?.parse().ok())
            .collect();
        ensure!(
            !mapped.is_empty(),
            "the executor's connection does not come from its router: {seen}"
        );

        let ports: Vec<u16> = mapped.into_iter().chain(1..=1024).chain([8080, 8081, 8443]).collect();
        let targets = [self.far.public_address, self.near.public_address];
        let public = self.public.clone();
        let open = tokio::task::spawn_blocking(move || {
            public.within(move || {
                let mut open = Vec::new();
                for address in targets {
                    for port in &ports {
                        if reaches(SocketAddr::from((address, *port))) {
                            open.push((address, *port));
                        }
                    }
                }
                if reaches(SocketAddr::from((PrivateNetwork::ADDRESS, 22))) {
                    open.push((PrivateNetwork::ADDRESS, 22));
                }
                Ok(open)
            })
        });
        let open = open.await??;
        ensure!(open.is_empty(), "reached from outside: {open:?}");
        Ok(())
    }

    async fn sockets(&self, namespace: &Namespace, options: &str) -> Result<String> {
        let command = namespace.enter(Command::new(binaries::tool("ss", "iproute2")?).arg(options));
        let finished = Program::run(&self.cx, "ss", command, b"", wait::SOON)
            .await?
            .success()?;
        Ok(finished.text().trim().to_owned())
    }
}

fn reaches(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_ok()
}

/// The registry's base URL, for parties in the private networks.
pub(super) fn registry_url() -> String {
    format!("https://{REGISTRY}")
}
