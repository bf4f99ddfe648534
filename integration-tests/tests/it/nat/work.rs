//! Real work behind NAT, marked so that a search can tell whether anybody saw it.

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::{Program, executor, wait};
use sha2::{Digest as _, Sha256};

use super::town::Town;

/// Commands that run at the same time.
const AT_ONCE: usize = 8;
/// Bytes of output, and of input.
const BULK: usize = 100 * 1024 * 1024;

/// Random texts that stand in commands, paths, output and input, and must be seen by the two ends only.
pub(super) struct Secrets {
    pub(super) command: String,
    pub(super) path: String,
    pub(super) output: String,
    pub(super) input: String,
    pub(super) variable: String,
}

impl Secrets {
    pub(super) fn new() -> Self {
        let random = |what: &str| format!("{what}-{}", uuid::Uuid::new_v4().simple());
        Self {
            command: random("command"),
            path: random("path"),
            output: random("output"),
            input: random("input"),
            variable: random("variable"),
        }
    }

    pub(super) fn all(&self) -> [&str; 5] {
        [&self.command, &self.path, &self.output, &self.input, &self.variable]
    }
}

/// 256 commands, each with its own exit code, a few at a time.
pub(super) async fn exit_codes(town: &Town, secrets: &Secrets) -> Result<()> {
    std::fs::create_dir(town.content.join(&secrets.path))?;
    std::fs::write(town.content.join(&secrets.path).join("output"), &secrets.output)?;
    let runs = futures_util::stream::iter(0..=255).map(|code| one_exit_code(town, secrets, code));
    runs.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

async fn one_exit_code(town: &Town, secrets: &Secrets, code: i32) -> Result<()> {
    let folder = town.workspace.join(&secrets.path);
    let folder = folder.to_str().context("path is UTF-8")?;
    let variable = format!("SECRET={}", secrets.variable);
    let script = format!(
        ": {}; cat output; echo -$SECRET-{code}; hostname; exit {code}",
        secrets.command
    );
    let arguments = ["run", "--cwd", folder, "--env", &variable, "--", "sh", "-c", &script];
    let command = town.access.command(&town.cx, arguments)?;
    let finished = Program::run(&town.cx, &format!("exit {code}"), command, b"", wait::SOON).await?;
    ensure!(
        finished.code == code,
        "exit code {} instead of {code}: {}",
        finished.code,
        finished.stderr
    );
    let expected = format!(
        "{}-{}-{code}\n{}\n",
        secrets.output,
        secrets.variable,
        executor::HOST_NAME
    );
    ensure!(finished.text() == expected, "output of {code}: {}", finished.text());
    Ok(())
}

/// A command that a signal ends gives 128 + the signal's number.
pub(super) async fn signals(town: &Town) -> Result<()> {
    for signal in [1, 2, 3, 6, 9, 10, 11, 12, 13, 14, 15] {
        let command = town.access.shell(&town.cx, &format!("kill -{signal} $$"))?;
        let finished = Program::run(&town.cx, &format!("signal {signal}"), command, b"", wait::SOON).await?;
        ensure!(
            finished.code == 128 + signal,
            "exit code {} after signal {signal}",
            finished.code
        );
    }
    Ok(())
}

pub(super) async fn terminal(town: &Town, secrets: &Secrets) -> Result<()> {
    let script = "stty size; read line; echo got-$line; exit 9";
    let command = town
        .access
        .command(&town.cx, ["run", "--tty", "--", "sh", "-c", script])?;
    let mut program = Program::start(&town.cx, "terminal", command)?;
    program.stdout().contains("24 80", wait::SOON).await?;
    program.write(format!("{}\n", secrets.input).as_bytes()).await?;
    program
        .stdout()
        .contains(&format!("got-{}", secrets.input), wait::SOON)
        .await?;
    let finished = program.finish(wait::SOON).await?;
    ensure!(finished.code == 9, "exit code {}: {}", finished.code, finished.stderr);
    Ok(())
}

/// Ctrl-C at the harness reaches the command: as a signal without a terminal, as a character with one.
pub(super) async fn interrupt(town: &Town) -> Result<()> {
    let script = "trap 'echo interrupted; exit 55' INT; echo ready; while :; do sleep 0.1; done";
    let mut plain = Program::start(&town.cx, "interrupted", town.access.shell(&town.cx, script)?)?;
    plain.stdout().contains("ready\n", wait::SOON).await?;
    plain.signal(Signal::SIGINT)?;
    let finished = plain.finish(wait::SOON).await?;
    ensure!(finished.code == 55, "exit code {}: {}", finished.code, finished.stderr);
    ensure!(finished.text() == "ready\ninterrupted\n", "{}", finished.text());

    let command = town
        .access
        .command(&town.cx, ["run", "--tty", "--", "sh", "-c", script])?;
    let mut terminal = Program::start(&town.cx, "interrupted terminal", command)?;
    terminal.stdout().contains("ready", wait::SOON).await?;
    terminal.write(b"\x03").await?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 55, "exit code {}: {}", finished.code, finished.stderr);
    Ok(())
}

/// 100 MiB each way arrive as they were.
pub(super) async fn bulk(town: &Town, secrets: &Secrets) -> Result<()> {
    let blob = blob(secrets);
    let digest = hex::encode(Sha256::digest(&blob));
    std::fs::write(town.content.join("blob"), &blob)?;

    let script = format!("cat {}", town.workspace.join("blob").display());
    let command = town.access.shell(&town.cx, &script)?;
    let finished = Program::run(&town.cx, "bulk output", command, b"", wait::SOON * 6)
        .await?
        .success()?;
    ensure!(
        finished.stdout.len() == BULK,
        "{} bytes came out",
        finished.stdout.len()
    );
    ensure!(
        hex::encode(Sha256::digest(&finished.stdout)) == digest,
        "the output arrived changed"
    );
    drop(finished);

    let command = town.access.shell(&town.cx, &format!("head -c {BULK} | sha256sum"))?;
    let finished = Program::run(&town.cx, "bulk input", command, &blob, wait::SOON * 6)
        .await?
        .success()?;
    ensure!(
        finished.text().split(' ').next() == Some(&digest),
        "the input arrived changed: {}",
        finished.text()
    );
    Ok(())
}

/// Random bytes with a secret in every other kilobyte.
fn blob(secrets: &Secrets) -> Vec<u8> {
    let mut blob = Vec::with_capacity(BULK);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    while blob.len() < BULK {
        if blob.len() % 2048 == 0 {
            blob.extend_from_slice(secrets.output.as_bytes());
            blob.resize(blob.len().next_multiple_of(8), 0);
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        blob.extend_from_slice(&state.to_le_bytes());
    }
    blob.truncate(BULK);
    blob
}
