//! Files with keys: who may read them, and what opens them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::{Command, Context, Program, wait};

use super::{House, text};

async fn ends(house: &House, command: Command, code: i32, words: &[&str]) -> Result<()> {
    let finished = Program::run(&house.cx, "executor", command, b"", wait::SOON).await?;
    is_ended(&finished, code, words)
}

fn is_ended(finished: &Finished, code: i32, words: &[&str]) -> Result<()> {
    ensure!(finished.code == code, "{finished:?}");
    for word in words {
        ensure!(finished.stderr.contains(word), "no `{word}` in {}", finished.stderr);
    }
    Ok(())
}

fn chmod(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

pub(super) async fn permissions(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    for command in ["show", "rotate"] {
        let file = house.identity_file();
        let words = ["there is no file", text(&file)?, "`executor identity create`"];
        is_ended(&house.identity(&[command]).await?, 64, &words)?;
    }
    let mut executor = house.executor(&[]).await?;
    let file = house.identity_file();
    ensure!(file.metadata()?.mode() & 0o777 == 0o600);
    ensure!(file.parent().unwrap_or(&file).metadata()?.mode() & 0o777 == 0o700);
    executor.kill().await?;
    for mode in [0o640, 0o604, 0o660] {
        chmod(&file, mode)?;
        let words = [text(&file)?, &format!("{mode:03o}"), "chmod 600"];
        ends(&house, house.executor_command("executor", &[])?, 64, &words).await?;
        is_ended(&house.identity(&["rotate"]).await?, 64, &words)?;
    }
    chmod(&file, 0o600)?;
    let good = fs::read(&file)?;
    fs::write(&file, "not a key\n")?;
    ends(
        &house,
        house.executor_command("executor", &[])?,
        64,
        &["no file of keys"],
    )
    .await?;
    ensure!(fs::read(&file)? == b"not a key\n", "left as it is");
    fs::write(&file, good)?;
    let nowhere = ["--identity-file", "/proc/nowhere/identity"];
    let words = ["/proc/nowhere", "--ephemeral-identity"];
    ends(&house, house.executor_command("executor", &nowhere)?, 64, &words).await?;
    let _executor = house.executor(&[]).await?;
    house.works(&[]).await?;
    Ok(())
}

/// Nobody said where the key is to lie, and there is no usual place, or none that can be written.
pub(super) async fn no_place(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    for home in ["", "/proc/nowhere"] {
        let homeless =
            |more: &[&str]| -> Result<Command> { Ok(house.executor_command("executor", more)?.env("HOME", home)) };
        let mut executor = Program::start(&cx, "executor", homeless(&[])?)?;
        executor.close_stdin();
        executor.line("executor registered ", wait::SOON).await?;
        let said = executor.stderr().text();
        ensure!(said.contains("no place for this executor's key"), "{said}");
        ensure!(house.executor_key().await?["persistent"] == false, "{home}");
        executor.kill().await?;
        // Whoever has a passphrase means a file.
        let passphrase = cx.secret_file("passphrase", "correct horse\n")?;
        let means_a_file = ["--identity-passphrase-file", text(&passphrase)?];
        ends(&house, homeless(&means_a_file)?, 64, &["--ephemeral-identity"]).await?;
    }
    Ok(())
}

pub(super) async fn passphrase(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let right = cx.secret_file("right", "correct horse battery staple\n")?;
    let wrong = cx.secret_file("wrong", "correct horse battery stable\n")?;
    let with =
        |file: &Path| -> Result<[String; 2]> { Ok(["--identity-passphrase-file".to_owned(), text(file)?.to_owned()]) };
    let [option, right_file] = with(&right)?;
    let mut executor = house.executor(&[&option, &right_file]).await?;
    let fingerprint = house.fingerprint(&[&option, &right_file]).await?;
    house.works(&[]).await?;
    executor.kill().await?;
    let [_, wrong_file] = with(&wrong)?;
    let refused = ["the passphrase does not open", text(&house.identity_file())?].map(str::to_owned);
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    ends(
        &house,
        house.executor_command("executor", &[&option, &wrong_file])?,
        77,
        &refused,
    )
    .await?;
    is_ended(&house.identity(&["rotate", &option, &wrong_file]).await?, 77, &refused)?;
    let needed = ["is encrypted", "EXECUTOR_IDENTITY_PASSPHRASE"];
    ends(&house, house.executor_command("executor", &[])?, 77, &needed).await?;
    chmod(&right, 0o644)?;
    ends(
        &house,
        house.executor_command("executor", &[&option, &right_file])?,
        64,
        &["chmod 600"],
    )
    .await?;
    chmod(&right, 0o600)?;
    let twice = ["--token-file", "-", &option, "-"];
    ends(&house, bare(&house, &twice)?, 64, &["cannot be used with"]).await?;

    // The key survives a change of its passphrase, and its rotation.
    let finished = house
        .identity(&["passphrase", &option, &right_file, "--new-passphrase-file", &wrong_file])
        .await?;
    finished.success()?;
    ensure!(house.fingerprint(&[&option, &wrong_file]).await? == fingerprint);
    house.identity(&["rotate", &option, &wrong_file]).await?.success()?;
    let mut executor = house.executor(&[&option, &wrong_file]).await?;
    house.works(&["--strict-executor-keys"]).await?;
    executor.kill().await?;
    house
        .identity(&["passphrase", &option, &wrong_file, "--remove"])
        .await?
        .success()?;
    let unneeded = house.executor_command("executor", &[&option, &wrong_file])?;
    ends(&house, unneeded, 64, &["is not encrypted"]).await?;
    let _executor = house.executor(&[]).await?;
    house.works(&["--strict-executor-keys"]).await?;
    Ok(())
}

/// The executor without its token.
fn bare(house: &House, more: &[&str]) -> Result<Command> {
    let binary = rendezvous_integration_tests::binaries::ours("executor")?;
    let command = Command::new(binary).args(["--remote", house.registry.url(), "--environment-id", super::ENVIRONMENT]);
    Ok(command.args(more).env("HOME", house.cx.folder()))
}

/// What opens the file reaches no command, by inheritance or by a look at its parent.
pub(super) async fn passphrase_stays_secret(cx: Context) -> Result<()> {
    const SECRET: &str = "open-sesame-4711";
    let house = House::open(&cx).await?;
    let command = bare(&house, &[])?
        .env("EXECUTOR_IDENTITY_PASSPHRASE", SECRET)
        .env("EXECUTOR_TOKEN", &house.executor_token);
    let mut executor = Program::start(&cx, "executor", command)?;
    executor.close_stdin();
    executor.line("executor registered ", wait::SOON).await?;
    ensure!(fs::read_to_string(house.identity_file())?.contains("argon2id"));
    let look = "env; tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline";
    let finished = house.harness(&["run", "--", "sh", "-c", look]).await?;
    let text = finished.text();
    ensure!(
        text.contains("PATH=") && text.contains("--identity-passphrase-fd="),
        "{finished:?}"
    );
    ensure!(
        !text.contains(SECRET) && !finished.stderr.contains(SECRET),
        "{finished:?}"
    );
    ensure!(!executor.stderr().text().contains(SECRET));
    Ok(())
}

/// A harness has such a file, too, if it wants to be known.
pub(super) async fn harness_identity(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let file = cx.folder().join("harness-identity");
    let identity = ["--identity-file", text(&file)?];
    let none = house.harness(&["identity"]).await?;
    is_ended(&none, 64, &["--identity-file"])?;
    let shown = house
        .harness(&[&["identity"][..], &identity].concat())
        .await?
        .success()?
        .text();
    let fingerprint = shown.trim();
    ensure!(file.metadata()?.mode() & 0o777 == 0o600);
    let executor = house.executor(&[]).await?;
    for _ in 0..2 {
        house.works(&identity).await?;
    }
    let admitted = executor
        .stderr()
        .text()
        .matches(&format!("harness={fingerprint}"))
        .count();
    ensure!(admitted >= 2, "{}", executor.stderr().text());
    chmod(&file, 0o644)?;
    house.is_refused(&identity, 64, &["chmod 600"]).await?;
    chmod(&file, 0o600)?;
    let passphrase = cx.secret_file("passphrase", "open sesame")?;
    let sealed = cx.folder().join("sealed");
    let with = [
        "--identity-file",
        text(&sealed)?,
        "--identity-passphrase-file",
        text(&passphrase)?,
    ];
    house.works(&with).await?;
    house
        .is_refused(&with[..2], 77, &["is encrypted", "HARNESS_IDENTITY_PASSPHRASE"])
        .await?;
    fs::write(&passphrase, "open says me")?;
    house.is_refused(&with, 77, &["does not open"]).await
}

/// A harness that cannot remember a key says so, and goes no further if it was told where to.
pub(super) async fn nothing_remembered(cx: Context) -> Result<()> {
    const NAMED: &str = "/proc/nowhere/known_executors";
    let house = House::open(&cx).await?;
    let _executor = house.executor(&[]).await?;
    let says = |finished: &Finished| {
        finished
            .stderr
            .matches("the executor's key cannot be remembered")
            .count()
    };
    let works = async |home: &str, more: &[&str], said: usize| {
        let arguments = [more, &["run", "--", "echo", "it works"]].concat();
        let command = house.access().command(&cx, &arguments)?.env("HOME", home);
        let finished = Program::run(&cx, "harness", command, b"", wait::SOON)
            .await?
            .success()?;
        ensure!(
            finished.text() == "it works\n" && says(&finished) == said,
            "{finished:?}"
        );
        anyhow::Ok(finished)
    };
    for (home, why) in [
        ("", "HOME is not set"),
        ("/proc/nowhere", "cannot write /proc/nowhere/"),
    ] {
        let finished = works(home, &[], 1).await?;
        is_ended(
            &finished,
            0,
            &["harness: the executor's key", why, "--known-executors FILE"],
        )?;
        works(home, &["--known-executors", "none"], 0).await?;
    }

    let mark = cx.folder().join("mark");
    let run = ["run", "--", "touch", text(&mark)?];
    let named = house
        .harness(&[&["--known-executors", NAMED], &run[..]].concat())
        .await?;
    is_ended(&named, 64, &[&format!("cannot write {NAMED}"), "No such file"])?;
    let command = house.access().command(&cx, &run)?.env("HARNESS_KNOWN_EXECUTORS", NAMED);
    let named = Program::run(&cx, "harness", command, b"", wait::SOON).await?;
    is_ended(&named, 64, &[&format!("cannot write {NAMED}")])?;
    ensure!(!mark.exists(), "it ran");
    Ok(())
}
