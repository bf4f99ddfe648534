//! A network of our own, in which an executor's way to its relay is as narrow as an uplink.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, unshare};

/// What a router holds before it drops packets.
const BUFFER: &str = "1mb";

/// Moves this process, while it has one thread, into a network that has nothing but loopback.
///
/// # Errors
///
/// It does not run as root, or `ip` is missing.
pub(crate) fn own_network() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).context("a network of its own needs root")?;
    run("ip", "link set lo up").map(drop)
}

/// Makes packets as long as other networks have them, or as long as loopback takes them.
///
/// # Errors
///
/// The kernel refuses it.
pub(crate) fn packets(are_short: bool) -> Result<()> {
    let mtu = if are_short { 1500 } else { 65536 };
    run("ip", &format!("link set lo mtu {mtu}")).map(drop)
}

/// Sends what the process writes to connections with `server` at `rate`, from now on.
///
/// # Errors
///
/// There is no connection, or the kernel cannot do it.
pub(crate) fn narrow(process: i32, server: SocketAddr, rate: &str) -> Result<()> {
    let connections = run("ss", &format!("-tnHp dport = :{}", server.port()))?;
    let own = format!("pid={process},");
    let line = connections.lines().find(|line| line.contains(&own));
    let local = line.and_then(|line| line.split_whitespace().nth(3));
    let port = local.and_then(|address| address.rsplit(':').next());
    let port = port.with_context(|| format!("no connection of {process} in\n{connections}"))?;
    // There may be one from before.
    let _ = run("tc", "qdisc del dev lo root");
    let commands = [
        "qdisc add dev lo root handle 1: htb default 10".to_owned(),
        "class add dev lo parent 1: classid 1:10 htb rate 100gbit".to_owned(),
        format!("class add dev lo parent 1: classid 1:20 htb rate {rate} burst 16kb cburst 16kb"),
        format!("qdisc add dev lo parent 1:20 handle 20: bfifo limit {BUFFER}"),
        format!("filter add dev lo parent 1: protocol ip u32 match ip sport {port} 0xffff flowid 1:20"),
    ];
    for command in commands {
        run("tc", &command)?;
    }
    Ok(())
}

fn run(program: &str, words: &str) -> Result<String> {
    let output = Command::new(program).args(words.split_whitespace()).output();
    let output = output.with_context(|| format!("{program} (iproute2)"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {words}: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
