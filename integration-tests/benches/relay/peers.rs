//! The forwarders: how each is started, and how two peers meet through it.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rendezvous_wire::frame::Body;
use rendezvous_wire::limits::{HANDSHAKE_1_OVERHEAD, HANDSHAKE_2_OVERHEAD};
use rendezvous_wire::ticket::Role;
use tempfile::TempDir;

use crate::client::{Peer, connect, frame, masked, read_frame, upgrade};
use crate::iroh;
use crate::registry::Registry;

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `recv` and `send` with one buffer of 256 KiB: the floor for whoever must touch the bytes.
    Copy,
    /// haproxy in TCP mode, with splicing.
    Haproxy,
    /// tokio-tungstenite: one channel of 64 messages per peer, feed all, then flush.
    Naive,
    /// `iroh-relay`, without TLS.
    Iroh,
    /// Ours.
    Relay,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Haproxy => "haproxy",
            Self::Naive => "naive",
            Self::Iroh => "iroh-relay",
            Self::Relay => "relay",
        }
    }
}

/// A running forwarder.
pub(crate) struct Forwarder {
    pub(crate) kind: Kind,
    child: Child,
    address: SocketAddr,
    /// Where a TCP forwarder connects to.
    target: Option<TcpListener>,
    pub(crate) registry: Option<Registry>,
    tls: Option<Arc<rustls::ClientConfig>>,
    streams: u32,
    _files: TempDir,
}

/// Two sockets that are connected through a forwarder.
pub(crate) struct Pair {
    /// What the harness sends to.
    pub(crate) to_executor: Peer,
    /// What the executor sends to.
    pub(crate) to_harness: Peer,
    pub(crate) harness: TcpStream,
    pub(crate) executor: TcpStream,
}

/// What opens one connection.
pub(crate) enum Opening {
    /// Path and query of a WebSocket, with the ticket if there is one.
    Target(String),
    /// Who proves to be who it is, by iroh's handshake.
    Key(iroh::Key),
}

impl Opening {
    /// Opens the connection over `stream`.
    pub(crate) fn over<S: Read + Write>(&self, stream: S) -> anyhow::Result<S> {
        match self {
            Self::Target(target) => upgrade(stream, target, None),
            Self::Key(key) => iroh::open(stream, key),
        }
    }
}

impl Forwarder {
    pub(crate) fn start(kind: Kind, tls: bool) -> anyhow::Result<Self> {
        let files = TempDir::new()?;
        let forwarder = match kind {
            Kind::Copy | Kind::Haproxy => Self::tcp(kind, files)?,
            Kind::Naive => {
                let mut child = ourselves("naive", None)?;
                let address = announced(&mut child)?;
                Self::new(kind, child, address, files)
            }
            Kind::Iroh => {
                let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
                let child = iroh::serve(files.path(), address)?;
                Self::new(kind, child, address, files)
            }
            Kind::Relay => Self::relay(files, tls)?,
        };
        forwarder.wait_until_it_answers()?;
        Ok(forwarder)
    }

    fn new(kind: Kind, child: Child, address: SocketAddr, files: TempDir) -> Self {
        Self {
            kind,
            child,
            address,
            target: None,
            registry: None,
            tls: None,
            streams: 0,
            _files: files,
        }
    }

    fn tcp(kind: Kind, files: TempDir) -> anyhow::Result<Self> {
        let target = TcpListener::bind("127.0.0.1:0")?;
        let to = target.local_addr()?;
        let (child, address) = if kind == Kind::Copy {
            let mut child = ourselves("copy", Some(to))?;
            let address = announced(&mut child)?;
            (child, address)
        } else {
            let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            let path = files.path().join("haproxy.cfg");
            let config = format!(
                "global\n maxconn 5000\ndefaults\n mode tcp\n option splice-auto\n timeout connect 5s\n \
                 timeout client 300s\n timeout server 300s\nlisten all\n bind {address}\n server target {to}\n"
            );
            std::fs::write(&path, config)?;
            let child = Command::new("haproxy").arg("-db").arg("-f").arg(path).spawn()?;
            (child, address)
        };
        let mut forwarder = Self::new(kind, child, address, files);
        forwarder.target = Some(target);
        Ok(forwarder)
    }

    fn relay(files: TempDir, tls: bool) -> anyhow::Result<Self> {
        let registry = Registry::start()?;
        let credential = files.path().join("credential");
        std::fs::write(&credential, "bench")?;
        std::fs::set_permissions(&credential, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let mut command = Command::new(relay_binary()?);
        command
            .args(["--log-filter", "warn", "serve", "--public-url", "ws://127.0.0.1"])
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--upgrades-per-second", "1000000"])
            .arg("--registry")
            .arg(format!("http://{}", registry.address))
            .arg("--credential-file")
            .arg(credential);
        let mut client = None;
        if tls {
            let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
            let (cert, private) = (files.path().join("cert.pem"), files.path().join("key.pem"));
            std::fs::write(&cert, key.cert.pem())?;
            std::fs::write(&private, key.signing_key.serialize_pem())?;
            std::fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            command.arg("--tls-cert").arg(cert).arg("--tls-key").arg(private);
            let mut roots = rustls::RootCertStore::empty();
            roots.add(key.cert.der().clone())?;
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
            client = Some(Arc::new(config));
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let address = announced(&mut child)?;
        let mut forwarder = Self::new(Kind::Relay, child, address, files);
        forwarder.registry = Some(registry);
        forwarder.tls = client;
        Ok(forwarder)
    }

    fn wait_until_it_answers(&self) -> anyhow::Result<()> {
        for _ in 0..200 {
            if let Ok(stream) = TcpStream::connect(self.address) {
                drop(stream);
                if let Some(target) = &self.target {
                    // The forwarder's own connection for it.
                    drop(target.accept()?);
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!("{:?} does not listen", self.kind)
    }

    /// One executor and `count` harnesses on it; the same executor socket stands in each pair.
    pub(crate) fn pairs(&mut self, count: usize) -> anyhow::Result<(TcpStream, Vec<(String, TcpStream)>)> {
        let env = format!("env{}", self.streams);
        let mut executor = self.open(Role::Executor, &env)?;
        let mut harnesses = Vec::new();
        for _ in 0..count {
            self.streams += 1;
            let stream = format!("{:08}-0000-4000-8000-000000000000", self.streams);
            let mut harness = self.open(Role::Harness, &env)?;
            let hello = frame(&stream, Body::Resume { next_seq: 0 });
            let message = vec![1; HANDSHAKE_1_OVERHEAD + 36].into();
            let message = frame(&stream, Body::Handshake { payload: message });
            harness.write_all(&masked(&hello, 1))?;
            harness.write_all(&masked(&message, 2))?;
            read_frame(&mut executor)?;
            read_frame(&mut executor)?;
            let answer = vec![1; HANDSHAKE_2_OVERHEAD].into();
            executor.write_all(&masked(&frame(&stream, Body::Handshake { payload: answer }), 3))?;
            read_frame(&mut harness)?;
            harnesses.push((stream, harness));
        }
        Ok((executor, harnesses))
    }

    /// One executor and one harness.
    pub(crate) fn pair(&mut self) -> anyhow::Result<Pair> {
        if let Some(target) = &self.target {
            let harness = connect(self.address)?;
            let (executor, _) = target.accept()?;
            executor.set_nodelay(true)?;
            let peer = Peer::Stream("00000000-0000-4000-8000-000000000000".into());
            return Ok(Pair {
                to_executor: peer.clone(),
                to_harness: peer,
                harness,
                executor,
            });
        }
        if self.kind == Kind::Iroh {
            let (executor, harness) = (iroh::Key::generate()?, iroh::Key::generate()?);
            return Ok(Pair {
                to_executor: Peer::Endpoint(executor.public()),
                to_harness: Peer::Endpoint(harness.public()),
                harness: iroh::open(connect(self.address)?, &harness)?,
                executor: iroh::open(connect(self.address)?, &executor)?,
            });
        }
        let (executor, mut harnesses) = self.pairs(1)?;
        let (stream, harness) = harnesses.pop().context("a harness")?;
        let peer = Peer::Stream(stream);
        Ok(Pair {
            to_executor: peer.clone(),
            to_harness: peer,
            harness,
            executor,
        })
    }

    /// What opens the next connection.
    pub(crate) fn opening(&mut self, role: Role, env: &str) -> anyhow::Result<Opening> {
        Ok(match &mut self.registry {
            Some(registry) => Opening::Target(registry.target(role, env)?),
            None if self.kind == Kind::Iroh => Opening::Key(iroh::Key::generate()?),
            None => Opening::Target("/".into()),
        })
    }

    fn open(&mut self, role: Role, env: &str) -> anyhow::Result<TcpStream> {
        self.opening(role, env)?.over(connect(self.address)?)
    }

    /// An executor connection that does nothing, encrypted if the forwarder is.
    pub(crate) fn idle(&self, opening: &Opening) -> anyhow::Result<Box<dyn Read>> {
        let stream = connect(self.address)?;
        match &self.tls {
            None => Ok(Box::new(opening.over(stream)?)),
            Some(config) => {
                let name = "localhost".try_into()?;
                let session = rustls::ClientConnection::new(config.clone(), name)?;
                Ok(Box::new(opening.over(rustls::StreamOwned::new(session, stream))?))
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// CPU seconds so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(") ").context("stat")?.1.split(' ').collect();
        // utime and stime, in ticks of 10 ms.
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
    }

    /// Resident memory in kB.
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS")).context("VmRSS")?;
        Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ourselves(role: &str, target: Option<SocketAddr>) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).args(target.map(|target| target.to_string()));
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

/// The address at the end of the line that a forwarder prints.
fn announced(child: &mut Child) -> anyhow::Result<SocketAddr> {
    let stdout = child.stdout.take().context("stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().rsplit('/').next().unwrap_or_default();
    address.parse().with_context(|| format!("no address in {line:?}"))
}

/// Built by `run` beside this program.
fn relay_binary() -> anyhow::Result<PathBuf> {
    let folder =
        std::env::var_os("RENDEZVOUS_BIN_DIR").context("RENDEZVOUS_BIN_DIR: use integration-tests/benches/run")?;
    Ok(PathBuf::from(folder).join("relay"))
}

pub(crate) fn has_haproxy() -> bool {
    Command::new("haproxy")
        .arg("-v")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Thousands of sockets need thousands of descriptors.
pub(crate) fn raise_file_limit() -> anyhow::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(())
}
