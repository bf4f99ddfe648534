//! What whoever follows a kept command says and leaves behind at the end.

use std::fs::OpenOptions;

use super::*;

/// Somebody else ends a session: its follower says so, and remembers it no more.
pub(super) async fn killed_while_followed(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let near = Near::of(&site);
    let script = "echo up; exec sleep 1000";
    let options = [
        "run",
        "--session-retention",
        "1h",
        "--name",
        "first",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut first = near.start("first", &options)?;
    first.stdout().contains("up\n", wait::SOON).await?;
    near.detach(&["--name", "second"], script).await?;
    let mut second = near.start("second", &["attach", "second"])?;
    second.stdout().contains("up\n", wait::SOON).await?;
    near.run(&["kill", "first", "second"]).await?.success()?;
    for (program, name) in [(&mut first, "first"), (&mut second, "second")] {
        let finished = program.finish(wait::SOON).await?;
        ensure!(finished.code == 69, "{}: {}", finished.code, finished.stderr);
        check::contains(&finished.stderr, &format!("session `{name}` is gone"))?;
        check::lacks(&finished.stderr, "goes on")?;
    }
    let table = near.run(&["ps", "--all"]).await?.success()?.text();
    ensure!(table.lines().count() == 1, "{table}");
    Ok(())
}

/// A command has ended, but nobody takes what it wrote: a signal leaves that to the next who attaches.
pub(super) async fn at_the_end(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let near = Near::of(&site);
    let pipe = cx.folder().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU)?;
    // Somebody is there to read, and does not.
    let _reader = OpenOptions::new().read(true).write(true).open(&pipe)?;
    let script = "seq 1 40000; exit 4";
    let into = r#"exec "$@" > pipe"#;
    let options = [
        "run",
        "--session-retention",
        "1h",
        "--name",
        "long",
        "--",
        "sh",
        "-c",
        script,
    ];
    let command = near.command(&options)?.under(["sh", "-c", into, "sh"]);
    let mut first = Program::start(&cx, "first", command)?;
    near.until("long", "closed").await?;
    first.signal(Signal::SIGTERM)?;
    let finished = first.finish(wait::SOON).await?;
    ensure!(finished.code == 143, "{}: {}", finished.code, finished.stderr);
    check::contains(&finished.stderr, "`harness attach long`")?;
    let finished = near.run(&["attach", "long"]).await?;
    ensure!(finished.code == 4, "{}: {}", finished.code, finished.stderr);
    let text = finished.text();
    ensure!(
        text.lines().count() == 40_000 && text.ends_with("\n40000\n"),
        "{} bytes",
        text.len()
    );
    Ok(())
}

/// What is remembered of other environments is shown also when the one that is asked does not answer.
pub(super) async fn elsewhere(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let near = Near::of(&site);
    let name = near.detach(&[], "sleep 1000").await?;
    let mut away = Near::of(&site);
    away.way
        .retain(|(name, _)| !name.ends_with("TOKEN") && !name.ends_with("ENVIRONMENT_ID"));
    away.way
        .push(("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", "away".to_owned()));
    away.way
        .push(("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "made-up-token".to_owned()));
    let refused = away.run(&["ps"]).await?;
    ensure!(refused.code == 77 && refused.stdout.is_empty(), "{refused:?}");
    for more in [&[][..], &["-e", "local"]] {
        let place = Near {
            cx: &cx,
            way: if more.is_empty() { away.way.clone() } else { Vec::new() },
        };
        let listed = place
            .run(&[more, &["ps", "--all", "--json"]].concat())
            .await?
            .success()?;
        let row: Value = serde_json::from_slice(&listed.stdout)?;
        ensure!(row["name"] == name.as_str() && row["state"] == "elsewhere", "{row}");
        ensure!(
            listed.stderr.starts_with("harness: ") && listed.stderr.lines().count() == 1,
            "{listed:?}"
        );
    }
    // A command line that is wrong stays wrong.
    let wrong = away.run(&["--ca-file", "/nowhere", "ps", "--all"]).await?;
    ensure!(wrong.code == 64 && wrong.stdout.is_empty(), "{wrong:?}");
    Ok(())
}
