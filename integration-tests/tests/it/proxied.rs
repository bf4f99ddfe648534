//! Machines from which nothing leads out but a proxy that wants a password, towards services with certificates of a private
//! authority.

mod town;

use anyhow::{Context as _, Result, ensure};
use rendezvous_harness::endpoint::Listener;
use rendezvous_harness::environments::Environment;
use rendezvous_harness::http::HttpRequest;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::{Command, Context, Program, executor, wait};

use crate::runner::{Case, When};
use town::{LOGIN, Machine, REGISTRY, RELAY, Town};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "proxied::every_socket_goes_through_the_proxy",
            When::Always,
            every_socket,
        ),
        Case::new("proxied::requests_go_through_the_proxy", When::Always, requests),
        Case::new("proxied::a_gateway_goes_through_the_proxy", When::Always, gateway),
        Case::new(
            "proxied::a_wrong_password_is_told_without_it",
            When::Always,
            wrong_password,
        ),
        Case::new("proxied::no_proxy_is_honoured", When::Always, no_proxy),
    ]
}

/// Executor, harness and relay reach nothing but the proxy, and do all that they do elsewhere.
async fn every_socket(cx: Context) -> Result<()> {
    let town = Town::build(&cx).await?;
    let _relay = town.relay().await?;
    let _executor = town.executor(&town.far).await?;
    for (proxy, name) in [(town.proxy_url(), "clear"), (town.tls_proxy_url(), "tls")] {
        let finished = run(&cx, &town, &town.near, name, &[("HTTPS_PROXY", &proxy)]).await?;
        ensure!(
            finished.code == 0,
            "{name}: exit code {}: {}",
            finished.code,
            finished.stderr
        );
        ensure!(
            finished.text() == format!("{}\n", executor::HOST_NAME),
            "{}",
            finished.text()
        );
    }
    let both = [REGISTRY.to_owned(), RELAY.to_owned()];
    for machine in [&town.far, &town.near] {
        let tunnels = town.proxy.tunnels(machine.address);
        ensure!(tunnels == both, "tunnels of {}: {tunnels:?}", machine.name);
    }
    let tunnels = town.tls_proxy.tunnels(town.near.address);
    ensure!(
        tunnels == both,
        "tunnels through the proxy that speaks TLS: {tunnels:?}"
    );
    let tunnels = town.proxy.tunnels(town.middle.address);
    ensure!(tunnels == [REGISTRY], "tunnels of the relay: {tunnels:?}");
    for asked in [town.proxy.asked(), town.tls_proxy.asked()].concat() {
        ensure!(asked.status == 200, "refused: {asked:?}");
    }
    // Not even a name was asked for elsewhere.
    for machine in [&town.far, &town.near, &town.middle] {
        let stopped = machine.stopped()?;
        ensure!(stopped == 0, "{} tried {stopped} packets past the proxy", machine.name);
    }
    Ok(())
}

/// What harnesses have the executor ask for goes through the same proxy, and trusts the same authority.
async fn requests(cx: Context) -> Result<()> {
    let town = Town::build(&cx).await?;
    let (_executor, url) = town.listener(&town.far, &[("HTTPS_PROXY", &town.proxy_url())]).await?;
    let asked = format!("https://{REGISTRY}/nothing");
    let ask = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let executor = Environment::remote("far", Listener::new(url));
            let mut request = HttpRequest::new("GET", asked);
            request.timeout = Some(wait::SOON);
            Ok(executor.http().http(request).await?.status)
        })
    };
    let status = town.far.within(ask).await?;
    ensure!(status == 404, "status {status}");
    let tunnels = town.proxy.tunnels(town.far.address);
    ensure!(tunnels == [REGISTRY], "tunnels of the executor: {tunnels:?}");
    let stopped = town.far.stopped()?;
    ensure!(stopped == 0, "{stopped} packets past the proxy");
    Ok(())
}

/// What an executor says to its gateway stays on the machine; what the gateway says goes through the proxy.
async fn gateway(cx: Context) -> Result<()> {
    let town = Town::build(&cx).await?;
    let _relay = town.relay().await?;
    let proxy = town.proxy_url();
    let (_gateway, url) = town.gateway(&town.far, &proxy).await?;
    // The proxy is named to the executor too, and must not be used for loopback.
    let _executor = town.executor_at(&town.far, &url, &[("ALL_PROXY", &proxy)]).await?;
    let finished = run(&cx, &town, &town.near, "harness", &[("all_proxy", &proxy)]).await?;
    ensure!(finished.code == 0, "exit code {}: {}", finished.code, finished.stderr);
    let tunnels = town.proxy.tunnels(town.far.address);
    ensure!(tunnels == [REGISTRY, RELAY], "tunnels of the gateway: {tunnels:?}");
    Ok(())
}

/// Who may not use the proxy learns which proxy that is, and what to change; nobody prints the password.
async fn wrong_password(cx: Context) -> Result<()> {
    const WRONG: &str = "not-the-password";
    let town = Town::build(&cx).await?;
    let proxy = town.proxy_url().replace(LOGIN, &format!("somebody:{WRONG}"));
    let shown = town.shown_proxy();
    let judge = |who: &str, finished: &Finished| {
        ensure!(
            finished.code == 77,
            "{who}: exit code {}: {}",
            finished.code,
            finished.stderr
        );
        for word in [&shown, "407", "HTTPS_PROXY"] {
            ensure!(
                finished.stderr.contains(word),
                "{who} does not say {word}: {}",
                finished.stderr
            );
        }
        let said = finished.text() + &finished.stderr;
        ensure!(!said.contains(WRONG), "{who} tells: {said}");
        Ok(())
    };
    let finished = run(&cx, &town, &town.near, "harness", &[("HTTPS_PROXY", &proxy)]).await?;
    judge("harness", &finished)?;
    let environment = [("HTTPS_PROXY", proxy.as_str())];
    let options = town.executor_options(&town.registry_url());
    let command = executor::ours(&cx, &options)?;
    judge(
        "executor",
        &ended(&cx, "executor", &town.far, command, &environment).await?,
    )?;
    let command = town.relay_command()?;
    judge(
        "relay",
        &ended(&cx, "relay", &town.middle, command, &environment).await?,
    )?;
    for asked in town.proxy.asked() {
        ensure!(asked.status == 407, "{asked:?}");
    }
    Ok(())
}

/// A machine that reaches everything goes directly where it is told to, and only there.
async fn no_proxy(cx: Context) -> Result<()> {
    let town = Town::build(&cx).await?;
    let _relay = town.relay().await?;
    let _executor = town.executor(&town.far).await?;
    let proxy = town.proxy_url();
    let through = [("HTTPS_PROXY", proxy.as_str())];
    let finished = run(&cx, &town, &town.open, "through the proxy", &through).await?;
    ensure!(finished.code == 0, "exit code {}: {}", finished.code, finished.stderr);
    ensure!(
        !town.proxy.tunnels(town.open.address).is_empty(),
        "the proxy was not used"
    );
    let mut access = town.access();
    access.registry = town.registry_by_address();
    let before = town.proxy.asked().len();
    let environment = [
        ("HTTPS_PROXY", proxy.as_str()),
        ("no_proxy", "192.0.2.0/24, 198.51.100.0/24"),
    ];
    let command = town.open.set(access.shell(&cx, "hostname")?, &environment);
    let finished = Program::run(&cx, "harness", command, b"", wait::SOON).await?;
    ensure!(finished.code == 0, "exit code {}: {}", finished.code, finished.stderr);
    // The registry is reached directly, and the relay through the proxy, which alone knows its name.
    let mut asked = town.proxy.asked().split_off(before);
    asked.retain(|asked| asked.by == town.open.address);
    ensure!(
        asked.iter().all(|asked| asked.target == RELAY),
        "the proxy was asked for {asked:?}"
    );
    ensure!(!asked.is_empty(), "the relay was reached directly");
    Ok(())
}

async fn run(
    cx: &Context,
    town: &Town,
    machine: &Machine,
    name: &str,
    environment: &[(&str, &str)],
) -> Result<Finished> {
    let command = town.access().shell(cx, "hostname")?;
    let command = machine.set(command, environment);
    Program::run(cx, name, command, b"", wait::SOON).await
}

/// Runs what should end by itself.
async fn ended(
    cx: &Context,
    name: &str,
    machine: &Machine,
    command: Command,
    environment: &[(&str, &str)],
) -> Result<Finished> {
    let command = machine.set(command, environment);
    Program::run(cx, name, command, b"", wait::SOON)
        .await
        .context("it goes on")
}
