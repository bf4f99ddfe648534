//! A command behind its proxy, in a network of the test's own: registry, relay, executor and harness, and hosts with names.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rendezvous_harness::network::{HostDecision, ManagedNetwork};
use rendezvous_harness::{ProcessEvent, ProcessSpec};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::netns::Namespace;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::{Context, Program, executor, wait};

use crate::runner::{Case, When};

const ENVIRONMENT: &str = "managed";
/// An address of the public Internet, which leads nowhere else here.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
/// One that is the machine's own.
const OWN: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 35);
/// One that is not of the public Internet.
const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
/// Asks for every host once through the HTTP proxy, then goes by itself.
const SCRIPT: &str = r#"
    for host in allowed.test denied.test asked.test other.test private.test; do
        echo "$host $(curl -sS -m 20 http://$host/ | head -c 60)"
    done
    echo "socks $(curl -sS -m 20 --proxy $ALL_PROXY http://allowed.test/)"
    echo "past $(curl -sS -m 5 --noproxy '*' http://93.184.216.34/ 2>&1)"
"#;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "managed_network::hosts_allowed_denied_and_asked",
        When::Always,
        play,
    )]
}

/// What `ip netns exec` puts over `/etc/hosts`; it is removed when dropped.
struct Names(PathBuf);

impl Names {
    fn new(namespace: &Namespace) -> Result<Self> {
        let folder = PathBuf::from("/etc/netns").join(namespace.name());
        std::fs::create_dir_all(&folder)?;
        let names = Self(folder);
        let hosts = format!(
            "127.0.0.1 localhost\n{PUBLIC} allowed.test denied.test asked.test other.test\n{OWN} own.test\n{PRIVATE} private.test\n"
        );
        std::fs::write(names.0.join("hosts"), hosts)?;
        Ok(names)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn play(cx: Context) -> Result<()> {
    let namespace = Namespace::new("managed")?;
    let _names = Names::new(&namespace)?;
    // Answered here, but no address of the machine.
    namespace.ip(&format!("route add local {PUBLIC}/32 dev lo"))?;
    for address in [OWN, PRIVATE] {
        namespace.ip(&format!("addr add {address}/32 dev lo"))?;
    }
    let server = namespace.within(|| Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 80))?))?;
    std::thread::spawn(move || serve(&server));
    let options = registry::Options {
        embedded_relay: true,
        listen: "127.0.0.1:8080".into(),
        namespace: Some(namespace.clone()),
        ..registry::Options::default()
    };
    let registry = Registry::start(&cx, options).await?;
    registry.environment(ENVIRONMENT).await?;
    let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let options = executor::Options {
        namespace: Some(namespace.clone()),
        ..executor::Options::new(&cx, registry.url(), ENVIRONMENT, token)?
    };
    let _executor = executor::start_ours(&cx, &options).await?;
    let access = Access {
        registry: registry.url().to_owned(),
        environment: ENVIRONMENT.to_owned(),
        token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
        ca_file: None,
        namespace: Some(namespace.clone()),
    };
    command_line(&cx, &access).await.context("command line")?;
    let library = tokio::task::spawn_blocking(move || namespace.within(move || library(&access)));
    library.await?.context("library")
}

/// Answers every request.
fn serve(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        let _some = stream.read(&mut [0; 4096]);
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nREACHED");
    }
}

/// The lines of what the script wrote, by their first word.
fn line<'a>(out: &'a str, word: &str) -> Result<&'a str> {
    let mut lines = out.lines();
    let found = lines.find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    found.with_context(|| format!("no line of {word}: {out}"))
}

async fn command_line(cx: &Context, access: &Access) -> Result<()> {
    let script = format!("{SCRIPT}\necho \"own.test $(curl -sS -m 20 http://own.test/)\"");
    let arguments = [
        "run",
        "--allow-host",
        "*.test",
        "--deny-host",
        "denied.test",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let command = access.command(cx, arguments)?;
    let finished = Program::run(cx, "behind a proxy", command, b"", wait::SOON).await?;
    let out = finished.text();
    for word in ["allowed.test", "asked.test", "socks"] {
        ensure!(line(&out, word)? == "REACHED", "{word}: {out} {}", finished.stderr);
    }
    for word in ["denied.test", "private.test", "own.test"] {
        ensure!(line(&out, word)?.contains(r#""decision":"deny""#), "{word}: {out}");
    }
    ensure!(!line(&out, "past")?.contains("REACHED"), "{out}");
    let without = access.shell(cx, "curl -sS -m 5 http://93.184.216.34/")?;
    let finished = Program::run(cx, "without a proxy", without, b"", wait::SOON).await?;
    ensure!(
        finished.text() == "REACHED",
        "the host is not there at all: {}",
        finished.stderr
    );
    Ok(())
}

/// Runs on a thread inside the network.
fn library(access: &Access) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let harness = crate::library::connect(access).await?;
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let (decisions, mut told) = tokio::sync::mpsc::channel(64);
        let network = ManagedNetwork::new()
            .allow("allowed.test")
            .deny("denied.test")
            .tell(decisions)
            .ask(move |question| {
                heard
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(question.host.clone());
                async move {
                    match question.host.as_str() {
                        "asked.test" | "private.test" => HostDecision::Allow,
                        _ => HostDecision::Deny {
                            reason: "not today".to_owned(),
                        },
                    }
                }
            });
        let mut spec = ProcessSpec::new(["sh", "-c", SCRIPT]);
        spec.network = Some(network);
        let mut process = harness.start(spec).await?;
        let mut out = Vec::new();
        while let Some(event) = process.next().await? {
            if let ProcessEvent::Output { bytes, .. } = event {
                out.extend_from_slice(&bytes);
            }
        }
        let out = String::from_utf8_lossy(&out);
        for word in ["allowed.test", "asked.test", "socks"] {
            ensure!(line(&out, word)? == "REACHED", "{word}: {out}");
        }
        for word in ["denied.test", "other.test", "private.test"] {
            ensure!(line(&out, word)?.contains(r#""decision":"deny""#), "{word}: {out}");
        }
        ensure!(!line(&out, "past")?.contains("REACHED"), "{out}");
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ensure!(
            asked == ["asked.test", "other.test", "private.test"],
            "asked about {asked:?}"
        );
        let mut reasons = Vec::new();
        while let Ok(decision) = told.try_recv() {
            reasons.push(format!("{} {}", decision.host, decision.reason));
        }
        let expected = [
            "allowed.test allow",
            "denied.test denied",
            "asked.test not_allowed",
            "other.test not today",
            "private.test not_allowed_local",
            "allowed.test allow",
        ];
        ensure!(reasons == expected, "told {reasons:?}");
        Ok(())
    })
}
