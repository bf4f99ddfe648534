//! A stock executor with an API key, which goes to loopback only, at a registry that speaks TLS with an own authority.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::executor::{self, End, HOST_NAME, MARK};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::registry::{self, Registry, Role};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::tls::Authority;
use rendezvous_integration_tests::{Command, Context, Program, binaries, wait};

use crate::ours;
use crate::runner::{Case, When};

const ENVIRONMENT: &str = "lab";

pub(crate) fn cases() -> Vec<Case> {
    let case = |version: Version| {
        let name = format!("gateway::{}::commands", End::Stock(version).name());
        Case::new(name, When::Always, move |cx| commands(cx, version))
    };
    let mut cases: Vec<Case> = Version::ALL.map(case).into();
    cases.push(Case::new("gateway::ours::identity", When::Always, identity));
    cases
}

/// What our executor says of its key reaches the registry.
async fn identity(cx: Context) -> Result<()> {
    let options = registry::Options {
        embedded_relay: true,
        ..registry::Options::default()
    };
    let registry = Registry::start(&cx, options).await?;
    registry.environment(ENVIRONMENT).await?;
    let command = Command::new(binaries::ours("executor")?).args(["gateway", "--remote", registry.url()]);
    let mut gateway = Program::start(&cx, "gateway", command)?;
    let url = gateway.line("gateway listening on ", wait::SOON).await?;
    let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let options = executor::Options::new(&cx, url.trim(), ENVIRONMENT, token)?;
    let _executor = executor::start_ours(&cx, &options).await?;
    let shown = registry
        .manage(&["environment", "show", ENVIRONMENT, "--json"])
        .await?
        .success()?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    ensure!(shown["registration"]["executor_key_persistent"] == true, "{shown}");
    Ok(())
}

async fn commands(cx: Context, version: Version) -> Result<()> {
    let authority = Authority::new(&cx)?;
    let options = registry::Options {
        embedded_relay: true,
        tls: Some(authority.server(&cx, "service", &[IpAddr::V4(Ipv4Addr::LOCALHOST)])?),
        ..registry::Options::default()
    };
    let registry = Registry::start(&cx, options).await?;
    ensure!(registry.url().starts_with("https://"), "{}", registry.url());
    registry.environment(ENVIRONMENT).await?;

    let command = Command::new(binaries::ours("executor")?)
        .args(["gateway", "--remote", registry.url(), "--ca-file"])
        .arg(authority.file());
    let mut gateway = Program::start(&cx, "gateway", command)?;
    let url = gateway.line("gateway listening on ", wait::SOON).await?;

    let token = registry.credential(Role::Executor, Some(ENVIRONMENT)).await?;
    let options = executor::Options::new(&cx, url.trim(), ENVIRONMENT, token)?;
    let executor = executor::start(&cx, End::Stock(version), &options)?;
    gateway.stderr().contains("relay connection is up", wait::SOON).await?;

    let access = Access {
        registry: registry.url().to_owned(),
        environment: ENVIRONMENT.into(),
        token: registry.credential(Role::Harness, Some(ENVIRONMENT)).await?,
        ca_file: Some(authority.file()),
        namespace: None,
    };
    // Much more than the buffers of all that is between.
    let script = format!(
        "hostname; echo ${}; head -c 3000000 /dev/zero | tr '\\0' x; exit 7",
        MARK.0
    );
    let finished = ours::shell(&cx, &access, &script).await?;
    ensure!(finished.code == 7, "exit code {}: {}", finished.code, finished.stderr);
    let text = finished.text();
    let rest = text.strip_prefix(&format!("{HOST_NAME}\n{}\n", MARK.1));
    let rest = rest.with_context(|| text.chars().take(200).collect::<String>())?;
    ensure!(rest == "x".repeat(3_000_000), "{} bytes came", rest.len());

    // A wrong key is refused by the registry, and the gateway says so.
    drop(executor);
    let options = executor::Options {
        name: "stranger".into(),
        token: "wrong".into(),
        ..options
    };
    let mut stranger = executor::start(&cx, End::Stock(version), &options)?;
    let finished = stranger.finish(wait::SOON).await?;
    ensure!(finished.code == 1, "exit code {}", finished.code);
    gateway.stderr().contains("401", wait::SOON).await
}
