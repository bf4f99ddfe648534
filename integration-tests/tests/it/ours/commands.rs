//! What is left of the command line: `shell`, `info`, the status file, and the end of input.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::{End, HOST_NAME, MARK};
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::terminal::Terminal;
use rendezvous_integration_tests::{Context, Program, wait};
use serde_json::{Value, json};

use super::{far_process, harness, shell};
use crate::check;

pub(crate) async fn play(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    end_of_input(&site).await.context("end of input")?;
    archives(&site).await.context("archives")?;
    status_file(&site).await.context("status file")?;
    info(&site).await.context("info")?;
    shell_on_a_terminal(&site).await.context("shell on a terminal")?;
    ended_shell(&site).await.context("ended shell")?;
    terminal_input(&site).await.context("terminal input")?;
    piped_shell(&site).await.context("piped shell")?;
    missing_folder(&site).await.context("missing folder")?;
    waiting(&site).await.context("waiting")?;
    site.near_is_untouched()
}

/// A command that reads to the end of its input comes to that end.
async fn end_of_input(site: &Site) -> Result<()> {
    let arguments = ["run", "--", "sh", "-c", "cat; echo end"];
    let large: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    for input in [&b""[..], b"one\ntwo", &large] {
        let finished = harness(&site.cx, &site.access(), &arguments, input).await?.success()?;
        let expected = [input, b"end\n"].concat();
        ensure!(
            finished.stdout == expected,
            "{} bytes of {}: {}",
            finished.stdout.len(),
            expected.len(),
            finished.stderr
        );
    }
    // Input that comes late, and ends only after output.
    let mut program = Program::start(
        &site.cx,
        "late",
        site.access().shell(&site.cx, "echo up; cat; echo end")?,
    )?;
    program.stdout().contains("up\n", wait::SOON).await?;
    program.write(b"late\n").await?;
    program.stdout().contains("late\n", wait::SOON).await?;
    ensure!(program.is_running(), "it ended before its input");
    program.close_stdin();
    let finished = program.finish(wait::SOON).await?.success()?;
    ensure!(finished.text() == "up\nlate\nend\n", "{}", finished.text());
    Ok(())
}

/// Archives through pipes, there and back.
async fn archives(site: &Site) -> Result<()> {
    let (source, back) = (site.cx.subfolder("source")?, site.cx.subfolder("unpacked")?);
    std::fs::create_dir_all(source.join("a b/c"))?;
    let content: Vec<u8> = (0..1_500_000_u32)
        .map(|i| i.wrapping_mul(97).to_be_bytes()[2])
        .collect();
    std::fs::write(source.join("a b/c/blob"), &content)?;
    std::fs::write(source.join("empty"), "")?;
    let folder = site.workspace.to_string_lossy().into_owned();
    let pipeline = |script: &'static str, arguments: &[&str]| {
        let command = site.access().command(&site.cx, arguments)?;
        let command = command.under(["bash", "-c", &format!("set -eo pipefail; {script}"), "bash"]);
        anyhow::Ok(command)
    };
    let there = pipeline(
        "tar -C source -c . | \"$@\"",
        &["run", "--cwd", &folder, "--", "tar", "x"],
    )?;
    Program::run(&site.cx, "tar there", there, b"", wait::SOON)
        .await?
        .success()?;
    ensure!(std::fs::read(site.content.join("a b/c/blob"))? == content);
    let again = pipeline(
        "\"$@\" </dev/null | tar -C unpacked -x",
        &["run", "--cwd", &folder, "--", "tar", "c", "a b", "empty"],
    )?;
    Program::run(&site.cx, "tar back", again, b"", wait::SOON)
        .await?
        .success()?;
    ensure!(std::fs::read(back.join("a b/c/blob"))? == content);
    ensure!(back.join("empty").metadata()?.len() == 0);
    Ok(())
}

/// The end of a shell's input reaches it, whatever it does with its terminal just then.
async fn piped_shell(site: &Site) -> Result<()> {
    for round in 0..8 {
        let input = format!("echo piped-$((4000 + {round}))\n");
        let finished = harness(&site.cx, &site.access(), &["shell"], input.as_bytes()).await?;
        let finished = finished.success().with_context(|| format!("round {round}"))?;
        check::contains(&finished.text(), &format!("piped-400{round}"))?;
    }
    Ok(())
}

async fn missing_folder(site: &Site) -> Result<()> {
    let arguments = ["run", "--cwd", "/missing/folder", "--", "pwd"];
    let finished = harness(&site.cx, &site.access(), &arguments, b"").await?;
    ensure!(finished.code != 0, "{}", finished.text());
    // Where a script ends the command's input, too.
    check::contains(&finished.stderr, "/missing/folder")
}

/// Whoever waits learns for what, and why when it asks.
async fn waiting(site: &Site) -> Result<()> {
    let nowhere = Access {
        registry: "http://127.0.0.1:1".into(),
        ..site.access()
    };
    let arguments = ["--connect-timeout", "3", "-v", "info"];
    let finished = harness(&site.cx, &nowhere, &arguments, b"").await?;
    ensure!(finished.code == 69, "{}: {}", finished.code, finished.stderr);
    let waits = format!(
        "waiting for the executor of `{}` at http://127.0.0.1:1",
        nowhere.environment
    );
    for words in [&waits[..], "cannot connect, trying again", "Connection refused"] {
        check::contains(&finished.stderr, words)?;
    }
    let finished = harness(&site.cx, &site.access(), &["info"], b"").await?.success()?;
    ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
    Ok(())
}

/// The status file tells whose exit code it is.
async fn status_file(site: &Site) -> Result<()> {
    let refused = Access {
        token: "made-up-token".into(),
        ..site.access()
    };
    let told = |origin: &str, code: i32, signal: Value| json!({"origin": origin, "code": code, "signal": signal});
    // Where a script must end a command's input, the script's shell tells that there is no such program.
    let not_found = match site.end {
        End::Ours => told("harness", 1, Value::Null),
        End::Stock(_) => told("command", 127, Value::Null),
    };
    for (access, command, status) in [
        (
            site.access(),
            &["sh", "-c", "exit 3"][..],
            told("command", 3, Value::Null),
        ),
        (site.access(), &["true"], told("command", 0, Value::Null)),
        (
            site.access(),
            &["sh", "-c", "kill -KILL $$"],
            told("command", 137, 9.into()),
        ),
        (site.access(), &["/missing/program"], not_found),
        (refused, &["true"], told("harness", 77, Value::Null)),
    ] {
        let arguments = [&["run", "--status-file", "status", "--"], command].concat();
        let finished = harness(&site.cx, &access, &arguments, b"").await?;
        same_status(site, &finished, &status).with_context(|| format!("{command:?}"))?;
    }
    // It may have its name from the environment, and tells of a signal to the harness, too.
    let script = format!("cd {}; touch begun; exec sleep 100", site.workspace.display());
    let command = site.access().shell(&site.cx, &script)?;
    let mut program = Program::start(&site.cx, "status", command.env("HARNESS_STATUS_FILE", "status"))?;
    site.far_file("begun", wait::SOON).await?;
    program.signal(Signal::SIGTERM)?;
    let finished = program.finish(wait::SOON).await?;
    same_status(site, &finished, &told("harness", 143, 15.into())).context("a signal")
}

fn same_status(site: &Site, finished: &Finished, expected: &Value) -> Result<()> {
    let path = site.cx.folder().join("status");
    let status: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    std::fs::remove_file(path)?;
    ensure!(
        status == *expected,
        "{status} instead of {expected}: {}",
        finished.stderr
    );
    ensure!(status["code"] == finished.code, "the exit code is {}", finished.code);
    Ok(())
}

async fn info(site: &Site) -> Result<()> {
    let folder = site.workspace.display().to_string();
    // The oldest stock executor does not tell everything.
    let tells_all = site.end != End::Stock(Version::V0_145);

    let finished = harness(&site.cx, &site.access(), &["info", "--json"], b"")
        .await?
        .success()?;
    ensure!(finished.text().lines().count() == 1, "{}", finished.text());
    let info: Value = serde_json::from_str(&finished.text())?;
    ensure!(info["cwd"] == format!("file://{folder}"), "{info}");
    ensure!(
        info["shell"]["path"].as_str().is_some_and(|path| path.starts_with('/')),
        "{info}"
    );
    ensure!(info["roundTripMs"].as_f64().is_some_and(|time| time > 0.0), "{info}");
    ensure!(info["capabilities"].is_object(), "{info}");
    ensure!(!tells_all || info["platformOs"] == "linux", "{info}");

    let finished = harness(&site.cx, &site.access(), &["info"], b"").await?.success()?;
    ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
    let text = finished.text();
    let line = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.map(str::trim).with_context(|| format!("no {name} in: {text}"))
    };
    ensure!(line("status")? == "ready", "{text}");
    ensure!(line("directory")? == folder, "{text}");
    let round_trip = line("round trip")?.strip_suffix(" ms").context("no time")?;
    ensure!(round_trip.parse::<f64>()? > 0.0, "{text}");
    check::contains(line("shell")?, info["shell"]["path"].as_str().unwrap_or_default())?;
    ensure!(!tells_all || line("system")? == "linux", "{text}");
    let by_call = if site.end == End::Ours { "yes" } else { "no" };
    ensure!(line("stdin by call")? == by_call, "{text}");
    Ok(())
}

/// A person's session: keys, output, an interrupt, another size, the end.
async fn shell_on_a_terminal(site: &Site) -> Result<()> {
    let folder = site.workspace.to_string_lossy().into_owned();
    let command = site
        .access()
        .command(&site.cx, ["shell", "--cwd", &folder, "--env", "SAID=yes"])?;
    let mut terminal = Terminal::start(&site.cx, "shell", command.env("TERM", "vt100"))?;
    terminal.raw().await?;
    // The terminal there echoes what is typed, so what it shows must be something else.
    terminal
        .press("echo \"<$FAR_MARK $(hostname) $TERM $SAID $(pwd) $(stty size)>\"\r")
        .await?;
    let shown = format!("<{} {HOST_NAME} vt100 yes {folder} 24 80>", MARK.1);
    terminal.screen().contains(&shown, wait::SOON).await?;

    // What says so is what sleeps: a shell that is about to start it would take the interrupt for itself.
    terminal
        .press("sh -c \"echo sleep''s; exec sleep 100\"; echo over''slept\r")
        .await?;
    terminal.screen().contains("sleeps", wait::SOON).await?;
    terminal.press("\x03").await?;
    terminal.press("echo a''wake\r").await?;
    terminal.screen().contains("awake", wait::SOON).await?;
    check::lacks(&terminal.screen().text(), "overslept")?;

    terminal.resize(30, 100)?;
    let followed = if site.end == End::Ours { "30 100" } else { "24 80" };
    // The word comes by a call, which may come after keys that are pressed now.
    terminal
        .press(&format!(
            "for i in $(seq 500); do [ \"$(stty size)\" = \"{followed}\" ] && break; sleep 0.02; done; echo \"<$(stty size)>\"\r"
        ))
        .await?;
    terminal.screen().contains(&format!("<{followed}>"), wait::SOON).await?;

    terminal.press("exit 7\r").await?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 7, "exit code {}: {}", finished.code, finished.text());
    Ok(())
}

/// A signal to the harness ends the shell at the executor, and leaves the terminal as it was.
async fn ended_shell(site: &Site) -> Result<()> {
    let mut terminal = Terminal::start(&site.cx, "ended shell", site.access().command(&site.cx, ["shell"])?)?;
    terminal.raw().await?;
    let pid = site.workspace.join("shell-pid");
    terminal.press(&format!("echo $$ > {}.part\r", pid.display())).await?;
    terminal.press(&format!("mv {0}.part {0}\r", pid.display())).await?;
    let process = far_process(site, "shell-pid").await?;
    terminal.program.signal(Signal::SIGTERM)?;
    let finished = terminal.finish(wait::SOON).await?;
    ensure!(finished.code == 143, "exit code {}: {}", finished.code, finished.text());
    process.gone().await
}

/// Input that is no terminal ends a command that has one, as Ctrl-D does.
async fn terminal_input(site: &Site) -> Result<()> {
    let arguments = ["run", "--tty", "--", "sh", "-c", "cat >/dev/null; echo over"];
    let finished = harness(&site.cx, &site.access(), &arguments, b"line\n")
        .await?
        .success()?;
    check::contains(&finished.text(), "over\r\n")?;
    // An empty input is one that ends.
    let command = site.access().command(&site.cx, &arguments)?;
    let command = command.under(["sh", "-c", "\"$@\" </dev/null", "sh"]);
    let finished = Program::run(&site.cx, "no input", command, b"", wait::SOON)
        .await?
        .success()?;
    check::contains(&finished.text(), "over\r\n")?;
    let local = shell(&site.cx, &site.access(), "[ -t 0 ] || echo none").await?;
    ensure!(local.text() == "none\n", "{}", local.text());
    Ok(())
}
