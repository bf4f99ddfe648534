//! `harness -e NAME`, with `environments.toml` and `CODEX_EXEC_SERVER_URL`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use rendezvous_integration_tests::executor::{self, End, HOST_NAME};
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::{Command, Context, Program, binaries, wait};

use crate::check;
use crate::runner::{Case, When};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("environments::command_line", When::Always, play),
        Case::new("environments::command_line::copies", When::Always, copies),
    ]
}

struct Place<'a> {
    cx: &'a Context,
    home: PathBuf,
}

impl<'a> Place<'a> {
    fn new(cx: &'a Context) -> Result<Self> {
        let home = cx.subfolder("codex-home")?;
        Ok(Self { cx, home })
    }

    fn configure(&self, text: &str) -> Result<()> {
        Ok(std::fs::write(self.home.join("environments.toml"), text)?)
    }

    async fn harness(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Finished> {
        let mut command = Command::new(binaries::ours("harness")?)
            .args(arguments.iter().copied())
            .folder(self.cx.folder())
            .env("HOME", self.cx.folder())
            .env("CODEX_HOME", &self.home);
        for (name, value) in variables {
            command = command.env(name, value);
        }
        Program::run(self.cx, "harness", command, b"input", wait::SOON).await
    }
}

fn failed(finished: &Finished, code: i32, text: &str) -> Result<()> {
    ensure!(
        finished.code == code,
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    check::contains(&finished.stderr, text)?;
    check::lacks(&finished.text(), "ran")
}

async fn play(cx: Context) -> Result<()> {
    let place = Place::new(&cx)?;
    let run = ["run", "--", "sh", "-c", "echo ran; hostname; cat"];
    let on = |name: &'static str| [&["-e", name][..], &run[..]].concat();
    let here = format!("ran\n{}input", std::fs::read_to_string("/proc/sys/kernel/hostname")?);
    let there = format!("ran\n{HOST_NAME}\ninput");
    let prints = |finished: Finished, expected: &str| {
        let finished = finished.success()?;
        ensure!(finished.text() == expected, "{}", finished.text());
        anyhow::Ok(())
    };

    // Nothing says where: this machine must be named.
    failed(
        &place.harness(&run, &[]).await?,
        64,
        "where to connect is not configured",
    )?;
    prints(place.harness(&on("local"), &[]).await?, &here)?;
    failed(
        &place.harness(&on("far"), &[]).await?,
        64,
        "there is no environment \"far\" (known: local)",
    )?;

    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    let (server, url) = executor::listen(&cx, End::Ours, &workspace, &content).await?;
    let variable = [("CODEX_EXEC_SERVER_URL", url.as_str())];
    prints(place.harness(&run, &variable).await?, &there)?;
    failed(&place.harness(&on("local"), &variable).await?, 64, "(known: remote)")?;
    let nothing = [("CODEX_EXEC_SERVER_URL", "none")];
    failed(&place.harness(&run, &nothing).await?, 64, "no default environment")?;

    let executor = binaries::ours("executor")?;
    let file = format!(
        "[[environments]]\nid = \"far\"\nurl = \"{url}\"\n\
         [[environments]]\nid = \"box\"\nprogram = {executor:?}\nargs = [\"--listen\", \"stdio\"]\nenv = {{ BOX = \"yes\" }}\n\
         [[environments]]\nid = \"look\"\nprogram = \"sh\"\nargs = [\"-c\", \"echo tokens $(env | grep -c NOISE_AUTH_TOKEN) >&2\"]\n"
    );
    place.configure(&file)?;
    failed(
        &place.harness(&run, &nothing).await?,
        64,
        "where to connect is not configured",
    )?;
    prints(place.harness(&on("far"), &nothing).await?, &there)?;
    prints(place.harness(&on("local"), &[]).await?, &here)?;
    let script = [
        "run",
        "-e",
        "box",
        "--env",
        "A=b",
        "--",
        "sh",
        "-c",
        "echo $BOX $A; exit 5",
    ];
    let finished = place.harness(&script, &[]).await?;
    ensure!(finished.code == 5 && finished.text() == "yes b\n", "{finished:?}");
    // What is ours reaches neither the program, nor what runs there or here.
    let secrets = [
        ("HARNESS_IDENTITY_PASSPHRASE", "sesame"),
        ("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", " "),
        ("CODEX_PERMISSION_PROFILE", "sesame"),
    ];
    let look = "cat /proc/self/environ /proc/$PPID/environ | tr '\\0' '\\n'";
    let finished = place
        .harness(&["run", "-e", "box", "--", "sh", "-c", look], &secrets)
        .await?;
    for (name, _) in &secrets[..2] {
        check::lacks(&finished.text(), name)?;
    }
    check::contains(&finished.success()?.text(), "BOX=yes")?;
    failed(
        &place.harness(&["run", "-e", "look", "--", "true"], &secrets).await?,
        69,
        "tokens 0",
    )?;
    let finished = place.harness(&["run", "-e", "local", "--", "env"], &secrets).await?;
    for (name, _) in secrets {
        check::lacks(&finished.text(), name)?;
    }
    check::contains(&finished.success()?.text(), "CODEX_HOME=")?;
    let confused = ["run", "-e", "A=b", "--", "true"];
    failed(&place.harness(&confused, &[]).await?, 64, "`--env` sets a variable")?;
    let info = place.harness(&["info", "-e", "local"], &[]).await?.success()?;
    check::contains(&info.text(), "stdin by call yes")?;

    for default in ["far", "local"] {
        place.configure(&format!("default = \"{default}\"\n{file}"))?;
        let expected = if default == "far" { &there } else { &here };
        prints(place.harness(&run, &[]).await?, expected)?;
    }
    // No key is proved where there is no registry.
    let accept = [
        "-e",
        "far",
        "known-executors",
        "accept",
        "4g7q-2mzt-9x0c-k1ve-88ah-t5rn-wd3b",
    ];
    failed(&place.harness(&accept, &[]).await?, 64, "environments.toml")?;
    // A part of a registry is an error, whatever else there is.
    let part = [("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", "far")];
    failed(
        &place.harness(&run, &part).await?,
        64,
        "missing: CODEX_EXEC_SERVER_NOISE_REGISTRY_URL",
    )?;

    place.configure("include_local = true\nfoo = 1\n")?;
    failed(
        &place.harness(&on("local"), &[]).await?,
        64,
        "line 2: unknown field `foo`",
    )?;

    // The executor is gone: an error, and nothing runs here.
    drop(server);
    place.configure(&format!("default = \"far\"\n{file}"))?;
    failed(
        &place.harness(&run, &[]).await?,
        69,
        "cannot reach the executor: exec-server: cannot connect",
    )?;
    place.configure("[[environments]]\nid = \"far\"\nurl = \"ws://198.51.100.1:1\"\n")?;
    failed(&place.harness(&on("far"), &[]).await?, 64, "--allow-insecure")
}

/// Files go to and from environments by their names.
async fn copies(cx: Context) -> Result<()> {
    let place = Place::new(&cx)?;
    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    let (_server, url) = executor::listen(&cx, End::Ours, &workspace, &content).await?;
    place.configure(&format!("[[environments]]\nid = \"far\"\nurl = \"{url}\"\n"))?;
    let bytes: Vec<u8> = (0..=255).cycle().take(1_500_000).collect();
    let source = cx.folder().join("source");
    std::fs::write(&source, &bytes)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let other = cx.subfolder("other")?;
    for (name, folder, seen) in [("far", &workspace, &content), ("local", &other, &other)] {
        let there = format!("{name}:{}/copy", text(folder));
        place.harness(&["cp", &text(&source), &there], &[]).await?.success()?;
        ensure!(std::fs::read(seen.join("copy"))? == bytes, "{name}");
        let back = cx.folder().join(format!("back-{name}"));
        place.harness(&["cp", &there, &text(&back)], &[]).await?.success()?;
        ensure!(std::fs::read(back)? == bytes, "{name}");
    }
    ensure!(std::fs::read_dir(&workspace)?.next().is_none(), "it happened here");
    Ok(())
}
