//! Networks of a test's own: namespaces, wires between them, and routers that hide what is behind them.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command as Tool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Command, binaries};

/// A network namespace; it is deleted when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
}

/// What a router does: new connections go out only, under the router's own address.
const ROUTER_RULES: &str = r#"
table ip translation {
    chain outgoing {
        type nat hook postrouting priority srcnat;
        oifname "wan" masquerade;
    }
}
table inet wall {
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established,related accept;
        iifname "lan" oifname "wan" accept;
    }
}
"#;

impl Namespace {
    /// An empty network with a working loopback.
    ///
    /// # Errors
    ///
    /// `ip` is missing or the test does not run as root.
    pub fn new(role: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        binaries::tool("ip", "iproute2")?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rdv-{}-{number}-{role}", std::process::id());
        ip(&["netns", "add", &name]).context("network namespaces need root")?;
        let namespace = Self {
            inner: Arc::new(Inner { name }),
        };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The command, to be run in this network.
    pub fn enter(&self, command: Command) -> Command {
        command.under(["ip", "netns", "exec", self.name()])
    }

    /// Runs `ip` with words in this network.
    ///
    /// # Errors
    ///
    /// `ip` failed.
    pub fn ip(&self, words: &str) -> Result<()> {
        let mut arguments = vec!["-n", self.name()];
        arguments.extend(words.split_whitespace());
        ip(&arguments)
    }

    /// Lays a wire from an interface here to one in another network; both are down.
    ///
    /// # Errors
    ///
    /// `ip` failed.
    pub fn wire(&self, name: &str, other: &Self, other_name: &str) -> Result<()> {
        let far = other.name();
        self.ip(&format!("link add {name} type veth peer name {other_name} netns {far}"))
    }

    /// Adds rules of the packet filter to this network.
    ///
    /// # Errors
    ///
    /// `nft` is missing or does not take them.
    pub fn filter(&self, rules: &str) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), rules)?;
        let path = file.path().to_string_lossy();
        self.nft(&["-f", &path])?;
        Ok(())
    }

    /// Runs `nft` in this network; gives what it says.
    ///
    /// # Errors
    ///
    /// `nft` is missing or failed.
    pub fn nft(&self, arguments: &[&str]) -> Result<String> {
        let nft = binaries::tool("nft", "nftables")?;
        let mut inside = Tool::new("ip");
        inside.args(["netns", "exec", self.name()]).arg(nft).args(arguments);
        tool(&mut inside)
    }

    /// Lets packets pass through this network.
    ///
    /// # Errors
    ///
    /// The network could not be entered.
    pub fn forward(&self) -> Result<()> {
        self.within(|| Ok(std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?))
    }

    /// Runs `action` on a thread of its own inside this network and waits for its result.
    ///
    /// # Errors
    ///
    /// The network could not be entered, or the action failed or panicked.
    pub fn within<T: Send + 'static>(&self, action: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let namespace = self.clone();
        let thread = std::thread::spawn(move || {
            namespace.enter_thread()?;
            action()
        });
        match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("the action panicked"),
        }
    }

    /// Serves what comes to an address inside this network, from a thread of its own, until the handle is dropped. What
    /// `serve` dials is inside as well.
    ///
    /// # Errors
    ///
    /// The address could not be bound.
    pub fn serve<S: Future<Output = ()>>(
        &self,
        listen: SocketAddr,
        serve: impl FnOnce(TcpListener) -> S + Send + 'static,
    ) -> Result<Server> {
        let listener = self.within(move || Ok(std::net::TcpListener::bind(listen)?))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let (namespace, stopped) = (self.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            namespace.enter_thread()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                tokio::select! {
                    () = serve(listener) => {}
                    () = stopped.cancelled() => {}
                }
                Ok(())
            })
        });
        Ok(Server {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Moves the calling thread into this network for good.
    ///
    /// # Errors
    ///
    /// The network could not be entered.
    pub fn enter_thread(&self) -> Result<()> {
        let file = std::fs::File::open(format!("/run/netns/{}", self.name()))?;
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET)?;
        Ok(())
    }
}

/// What serves inside a network, until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Server {
    /// Where clients dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // Its clients have seen why it ended, if it did.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

/// A machine behind a router that masquerades it, as at somebody's home.
#[derive(Clone, Debug)]
pub struct PrivateNetwork {
    /// Where the machine is. Its address is [`PrivateNetwork::ADDRESS`], as in many other homes.
    pub machine: Namespace,
    /// The router.
    pub router: Namespace,
    /// The router's address in the public network.
    pub public_address: Ipv4Addr,
}

impl PrivateNetwork {
    /// The address of every such machine in its own network.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

    /// Plugs a private network into `public`, as its `number`th.
    ///
    /// # Errors
    ///
    /// `ip` or `nft` is missing or failed.
    pub fn behind(public: &Namespace, number: u8, role: &str) -> Result<Self> {
        let machine = Namespace::new(role)?;
        let router = Namespace::new(&format!("{role}-nat"))?;
        let (outside, inside) = (format!("203.0.113.{}", number * 4 + 1), number * 4 + 2);
        let public_address = Ipv4Addr::new(203, 0, 113, inside);

        public.wire(&format!("to-{role}"), &router, "wan")?;
        public.ip(&format!("addr add {outside}/30 dev to-{role}"))?;
        public.ip(&format!("link set to-{role} up"))?;
        router.ip(&format!("addr add {public_address}/30 dev wan"))?;
        router.ip("link set wan up")?;
        router.ip(&format!("route add default via {outside}"))?;

        router.wire("lan", &machine, "eth0")?;
        router.ip("addr add 10.77.0.1/24 dev lan")?;
        router.ip("link set lan up")?;
        machine.ip(&format!("addr add {}/24 dev eth0", Self::ADDRESS))?;
        machine.ip("link set eth0 up")?;
        machine.ip("route add default via 10.77.0.1")?;

        router.forward()?;
        router.filter(ROUTER_RULES)?;
        Ok(Self {
            machine,
            router,
            public_address,
        })
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    tool(Tool::new("ip").args(arguments))?;
    Ok(())
}

fn tool(tool: &mut Tool) -> Result<String> {
    let output = tool.output().with_context(|| format!("{tool:?}"))?;
    if !output.status.success() {
        bail!("{tool:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
