//! Commands that go on while nobody is connected: `run --detach`, `ps`, `attach`, `kill`.

mod left;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::terminal::Terminal;
use rendezvous_integration_tests::{Command, Context, Program, binaries, wait};
use serde_json::Value;

use super::harness;
use crate::check;
use crate::runner::{Case, When};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("kept::through_a_relay", When::Always, through_a_relay),
        Case::new("kept::direct", When::Always, direct),
        Case::new("kept::forwarded", When::Always, forwarded),
        Case::new("kept::outages", When::Always, outages),
        Case::new("kept::followed", When::Always, followed),
        Case::new("kept::killed_while_followed", When::Always, left::killed_while_followed),
        Case::new("kept::left_at_the_end", When::Always, left::at_the_end),
        Case::new("kept::elsewhere", When::Always, left::elsewhere),
        Case::new("kept::on_a_terminal", When::Always, on_a_terminal),
        Case::new("kept::gaps", When::Always, gaps),
        Case::new("kept::executor_restarted", When::Always, executor_restarted),
        Case::new("kept::too_long", When::Always, too_long),
        Case::new("kept::forbidden", When::Always, forbidden),
        Case::new("kept::stock", When::Always, stock),
    ]
}

/// A harness that finds its executor in some way.
struct Near<'a> {
    cx: &'a Context,
    /// Variables that say where.
    way: Vec<(&'static str, String)>,
}

impl Near<'_> {
    fn of(site: &Site) -> Near<'_> {
        let access = site.access();
        Near {
            cx: &site.cx,
            way: vec![
                ("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", access.registry),
                ("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", access.environment),
                ("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", access.token),
            ],
        }
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(binaries::ours("harness")?)
            .args(arguments.iter().copied())
            .folder(self.cx.folder())
            .env("HOME", self.cx.folder());
        for (name, value) in &self.way {
            command = command.env(name, value);
        }
        Ok(command)
    }

    async fn run(&self, arguments: &[&str]) -> Result<Finished> {
        Program::run(self.cx, "harness", self.command(arguments)?, b"", wait::SOON * 2).await
    }

    fn start(&self, name: &str, arguments: &[&str]) -> Result<Program> {
        Program::start(self.cx, name, self.command(arguments)?)
    }

    /// Starts a script that goes on alone; the name of its session.
    async fn detach(&self, options: &[&str], script: &str) -> Result<String> {
        let arguments = [&["run", "--detach"], options, &["--", "sh", "-c", script]].concat();
        let finished = self.run(&arguments).await?.success()?;
        ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
        let name = finished.text();
        ensure!(name.ends_with('\n') && name.lines().count() == 1, "{name}");
        Ok(name.trim().to_owned())
    }

    /// What `ps --json` says of a session.
    async fn ps(&self, name: &str) -> Result<Value> {
        let finished = self.run(&["ps", "--json"]).await?.success()?;
        for line in finished.text().lines() {
            let row: Value = serde_json::from_str(line)?;
            if row["name"] == name {
                return Ok(row);
            }
        }
        Ok(Value::Null)
    }

    async fn until(&self, name: &str, state: &str) -> Result<Value> {
        let what = format!("{name} is {state}");
        wait::until(&what, wait::SOON, move || async move {
            self.ps(name).await.ok().filter(|row| row["state"] == state)
        })
        .await
    }
}

async fn through_a_relay(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    play(&Near::of(&site), &site.content).await
}

async fn direct(cx: Context) -> Result<()> {
    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    let (_listener, url) = executor::listen(&cx, End::Ours, &workspace, &content).await?;
    let way = vec![("CODEX_EXEC_SERVER_URL", url)];
    play(&Near { cx: &cx, way }, &content).await
}

async fn forwarded(cx: Context) -> Result<()> {
    let mut site = Site::start_without_executor(&cx, End::Ours, RelayKind::Embedded).await?;
    let (_listener, url) = executor::listen(&cx, End::Ours, &site.workspace, &site.content).await?;
    site.executor = Some(executor::forward(&cx, &site.executor_options(), &url).await?);
    play(&Near::of(&site), &site.content).await
}

/// A build is started in one shell, and found, followed and ended in others.
async fn play(near: &Near<'_>, content: &std::path::Path) -> Result<()> {
    let script = "echo begun; until [ -e go ]; do sleep 0.02; done; echo done >&2; exit 3";
    let name = near.detach(&["--name", "build.1"], script).await?;
    ensure!(name == "build.1", "{name}");
    let twice = near.run(&["run", "-d", "--name", "build.1", "--", "true"]).await?;
    ensure!(twice.code == 64, "{}: {}", twice.code, twice.stderr);
    check::contains(&twice.stderr, "there is a session `build.1` already")?;
    let other = near.detach(&["--session-retention", "1h"], "sleep 1000").await?;
    ensure!(other.starts_with("sh-"), "{other}");

    let row = near.until(&name, "running").await?;
    ensure!(row["attached"] == false && row["exitCode"] == Value::Null, "{row}");
    ensure!(row["command"][2] == script, "{row}");
    let left = row["expiresInSeconds"].as_u64().context("no end")?;
    ensure!((86_400..=172_800).contains(&left), "{row}");
    let row = near.until(&other, "running").await?;
    ensure!(
        row["expiresInSeconds"].as_u64().is_some_and(|left| left <= 3600),
        "{row}"
    );
    let table = near.run(&["ps"]).await?.success()?.text();
    ensure!(table.lines().count() == 3 && table.starts_with("NAME "), "{table}");

    // It is followed from its beginning, by one at a time.
    let mut follower = near.start("attach", &["attach", &name])?;
    follower.stdout().contains("begun\n", wait::SOON).await?;
    near.until(&name, "running").await?;
    ensure!(near.ps(&name).await?["attached"] == true, "nobody is attached");
    let second = near.run(&["attach", &name]).await?;
    ensure!(second.code == 1, "{}: {}", second.code, second.stderr);
    check::contains(&second.stderr, "is followed already")?;
    // SIGTERM ends the follower and not the command.
    follower.signal(Signal::SIGTERM)?;
    let finished = follower.finish(wait::SOON).await?;
    ensure!(finished.code == 143, "{}: {}", finished.code, finished.stderr);
    check::contains(
        &finished.stderr,
        "the command goes on; `harness attach build.1` follows it",
    )?;
    std::fs::write(content.join("go"), "")?;
    let row = near.until(&name, "closed").await?;
    ensure!(row["exitCode"] == 3, "{row}");
    // Again and again, all of it.
    for _ in 0..2 {
        let finished = near.run(&["attach", &name]).await?;
        ensure!(finished.code == 3, "{}: {}", finished.code, finished.stderr);
        ensure!(
            (finished.text().as_str(), finished.stderr.as_str()) == ("begun\n", "done\n"),
            "{finished:?}"
        );
    }
    let finished = near.run(&["attach", "--tail", "0", &name]).await?;
    ensure!((finished.code, finished.text().as_str()) == (3, ""), "{finished:?}");

    near.run(&["kill", &name, &other]).await?.success()?;
    let table = near.run(&["ps"]).await?.success()?.text();
    ensure!(table.lines().count() == 1, "{table}");
    let unknown = near.run(&["attach", &name]).await?;
    ensure!(unknown.code == 1, "{}: {}", unknown.code, unknown.stderr);
    check::contains(&unknown.stderr, "no session `build.1`")
}

/// Registry and relay may come and go; the command does not notice, and its output is complete.
async fn outages(cx: Context) -> Result<()> {
    let mut site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let script = "i=0; until [ -e stop ]; do i=$((i+1)); echo line-$i; sleep 0.01; done; echo last";
    let name = Near::of(&site).detach(&[], script).await?;
    site.restart_relay().await?;
    site.restart_registry().await?;
    let near = Near::of(&site);
    near.until(&name, "running").await?;
    let mut follower = near.start("attach", &["attach", &name])?;
    follower.stdout().contains("line-20\n", wait::SOON).await?;
    site.restart_relay().await?;
    std::fs::write(site.content.join("stop"), "")?;
    let finished = follower.finish(wait::SOON * 2).await?.success()?;
    let text = finished.text();
    let lines: Vec<&str> = text.lines().collect();
    let (last, numbered) = lines.split_last().context("no output")?;
    ensure!(*last == "last", "{last}");
    for (at, line) in numbered.iter().enumerate() {
        ensure!(*line == format!("line-{}", at + 1), "{line} at {at}");
    }
    Ok(())
}

/// A command in the foreground that is kept survives its harness; input, signals and a take-over reach it later.
async fn followed(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let near = Near::of(&site);
    // What reads hears no signals, so that none comes between.
    let script = "trap 'echo interrupted' INT; trap 'echo user' USR1; exec 3<&0
                  (trap '' INT USR1; exec sed -u s/^/got-/) <&3 &
                  while kill -0 $! 2>/dev/null; do wait $!; done; echo end; exit 5";
    let options = [
        "run",
        "--session-retention",
        "2h",
        "--name",
        "talk",
        // Of a raw terminal, which is not here.
        "--detach-key",
        "^]",
        "--",
        "bash",
        "-c",
        script,
    ];
    let mut first = near.start("first", &options)?;
    first
        .stderr()
        .contains(
            "session `talk` is kept for 2h without a connection; Ctrl-\\ leaves it running",
            wait::SOON,
        )
        .await?;
    first.write(b"one\n").await?;
    first.stdout().contains("got-one\n", wait::SOON).await?;
    first.signal(Signal::SIGINT)?;
    first.stdout().contains("interrupted\n", wait::SOON).await?;
    // As if the machine was switched off.
    first.kill().await?;
    wait::until("nobody is attached", wait::SOON, || async {
        near.ps("talk").await.ok().filter(|row| row["attached"] == false)
    })
    .await?;
    let mut second = near.start("second", &["attach", "talk"])?;
    second.stdout().contains("got-one\ninterrupted\n", wait::SOON).await?;
    second.write(b"two\n").await?;
    second.stdout().contains("got-two\n", wait::SOON).await?;
    near.run(&["kill", "--signal", "usr1", "talk"]).await?.success()?;
    second.stdout().contains("user\n", wait::SOON).await?;
    // Another one takes it; who had it can say nothing more, and comes back when it is free again.
    let mut third = near.start("third", &["attach", "--take-over", "--tail", "0", "talk"])?;
    second.stderr().contains("connection lost", wait::SOON).await?;
    third.write(b"three\n").await?;
    third.stdout().contains("got-three\n", wait::SOON).await?;
    third.close_stdin();
    let finished = third.finish(wait::SOON).await?;
    ensure!(finished.code == 5, "{}: {}", finished.code, finished.stderr);
    check::lacks(&finished.text(), "got-one")?;
    let finished = second.finish(wait::SOON).await?;
    ensure!(finished.code == 5, "{}: {}", finished.code, finished.stderr);
    check::contains(&finished.text(), "got-three\nend\n")?;
    // Whoever sees the end in the foreground needs no session any more.
    let over = harness(
        &cx,
        &site.access(),
        &["run", "--session-retention", "1h", "--", "echo", "over"],
        b"",
    )
    .await?;
    ensure!(over.success()?.text() == "over\n", "no output");
    let table = near.run(&["ps"]).await?.success()?.text();
    ensure!(table.lines().count() == 2, "{table}");
    Ok(())
}

/// A shell is left by a key and taken up again, as in a terminal multiplexer.
async fn on_a_terminal(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let near = Near::of(&site);
    let mut terminal = Terminal::start(
        &cx,
        "shell",
        near.command(&["shell", "--session-retention", "1h", "--name", "desk"])?,
    )?;
    terminal.raw().await?;
    terminal.press("mark=he''re; echo \"<$mark>\"\r").await?;
    terminal.screen().contains("<here>", wait::SOON).await?;
    terminal.press("\x1c").await?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 0, "{}: {}", finished.code, finished.text());
    check::contains(
        &finished.text(),
        "the command goes on; `harness attach desk` follows it",
    )?;

    let command = near.command(&["attach", "--detach-key", "^]", "desk"])?;
    let mut terminal = Terminal::start(&cx, "attach", command)?;
    terminal.raw().await?;
    // What was shown before is shown again, and the new size is told.
    terminal.screen().contains("<here>", wait::SOON).await?;
    terminal.resize(30, 100)?;
    terminal
        .press("until [ \"$(stty size)\" = '30 100' ]; do sleep 0.02; done; echo \"<$mark again>\"\r")
        .await?;
    terminal.screen().contains("<here again>", wait::SOON).await?;
    terminal.press("\x1d").await?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 0, "{}: {}", finished.code, finished.text());

    let mut terminal = Terminal::start(&cx, "attach again", near.command(&["attach", "--tail", "1K", "desk"])?)?;
    terminal.raw().await?;
    terminal.press("exit 6\r").await?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 6, "{}: {}", finished.code, finished.text());
    Ok(())
}

/// What the executor had to drop is told where it is missing.
async fn gaps(cx: Context) -> Result<()> {
    let site = with_executor(&cx, ["--detached-output", "512K"]).await?;
    let near = Near::of(&site);
    let name = near.detach(&[], "seq 1 1000000; echo end").await?;
    let row = near.until(&name, "closed").await?;
    let dropped = row["droppedBytes"].as_u64().context("nothing dropped")?;
    let finished = near.run(&["attach", &name]).await?.success()?;
    let text = finished.text();
    ensure!(text.ends_with("\n1000000\nend\n"), "{} bytes", text.len());
    ensure!(
        text.len() as u64 + dropped == 6_888_896 + 4,
        "{} and {dropped}",
        text.len()
    );
    check::contains(&finished.stderr, "output is missing here")?;
    ensure!(finished.stderr.lines().count() == 1, "{}", finished.stderr);
    Ok(())
}

/// Nothing outlives the executor, and that is said.
async fn executor_restarted(cx: Context) -> Result<()> {
    let mut site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let name = Near::of(&site).detach(&[], "sleep 1000").await?;
    site.kill_executor().await?;
    site.start_executor().await?;
    let near = Near::of(&site);
    near.until(&name, "gone").await?;
    let finished = near.run(&["attach", &name]).await?;
    ensure!(finished.code == 69, "{}: {}", finished.code, finished.stderr);
    check::contains(&finished.stderr, "is gone: its retention has passed")?;
    ensure!(near.ps(&name).await? == Value::Null, "it is still remembered");
    Ok(())
}

/// The operator says how long is too long.
async fn too_long(cx: Context) -> Result<()> {
    refused(cx, "1h", "for 1h at most").await
}

/// The operator may want nothing to be kept.
async fn forbidden(cx: Context) -> Result<()> {
    refused(cx, "0", "this executor keeps no detached sessions").await
}

async fn refused(cx: Context, most: &str, refusal: &str) -> Result<()> {
    let site = with_executor(&cx, ["--max-session-retention", most]).await?;
    let near = Near::of(&site);
    let options = [
        "run",
        "--detach",
        "--session-retention",
        "2h",
        "--name",
        "x",
        "--",
        "touch",
        "ran",
    ];
    for _ in 0..2 {
        // The name is free again.
        let finished = near.run(&options).await?;
        ensure!(finished.code != 0, "{}", finished.text());
        check::contains(&finished.stderr, refusal)?;
    }
    ensure!(!site.content.join("ran").exists(), "it ran");
    Ok(())
}

/// A site whose executor, ours, has further options.
async fn with_executor(cx: &Context, further: [&str; 2]) -> Result<Site> {
    let mut site = Site::start_without_executor(cx, End::Ours, RelayKind::Embedded).await?;
    let options = site.executor_options();
    let command = executor::ours(cx, &options)?.args(further);
    let command = executor::machine(command, &options.workspace, &options.content);
    let mut program = Program::start(cx, "executor", command)?;
    program.line("executor registered ", wait::SOON).await?;
    site.executor = Some(program);
    Ok(site)
}

/// A stock executor keeps nothing, and nothing is run there in vain.
async fn stock(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Stock(Version::V0_171), RelayKind::Embedded).await?;
    let near = Near::of(&site);
    let script = format!("touch {}/ran", site.workspace.display());
    for arguments in [
        &["run", "--detach", "--", "sh", "-c", &script][..],
        &["run", "--session-retention", "1h", "--", "sh", "-c", &script],
        &["ps"],
    ] {
        let finished = near.run(arguments).await?;
        ensure!(
            finished.code == 69,
            "{arguments:?}: {}: {}",
            finished.code,
            finished.stderr
        );
        check::contains(
            &finished.stderr,
            "this executor keeps no detached sessions: it is a stock exec-server",
        )?;
        ensure!(finished.stderr.lines().count() == 1, "{}", finished.stderr);
    }
    ensure!(!site.content.join("ran").exists(), "it ran");
    let local = Near {
        cx: &cx,
        way: Vec::new(),
    };
    let finished = local.run(&["-e", "local", "run", "--detach", "--", "true"]).await?;
    ensure!(finished.code == 1, "{}: {}", finished.code, finished.stderr);
    check::contains(
        &finished.stderr,
        "detached sessions are not supported in the local environment",
    )
}
