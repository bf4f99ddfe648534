//! `harness cp` both ways, and what it says when it can't.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::program::Finished;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Command, Context, Program, wait};

use super::harness;
use crate::check;

/// Larger than what one call writes.
const LARGE: usize = 300_000;

pub(crate) async fn play(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    there_and_back(&site).await.context("there and back")?;
    modes(&site).await.context("modes")?;
    names(&site).await.context("names")?;
    trees(&site).await.context("trees")?;
    links(&site).await.context("links")?;
    refused(&site).await.context("refused")?;
    both_sides_are_named(&site).await.context("named")?;
    interrupted(&site).await.context("interrupted")?;
    stalled(&site).await.context("stalled")?;
    site.near_is_untouched()
}

async fn both_sides_are_named(site: &Site) -> Result<()> {
    let absent = near(site, "absent");
    file(&near(site, "present"), 10, 0o644)?;
    for (from, to) in [
        (PathBuf::from(far(site, "not-there")), near(site, "target")),
        (absent, far(site, "target").into()),
        (near(site, "present"), far(site, "no/such/folder/target").into()),
    ] {
        let finished = cp(site, &from, &to).await?;
        ensure!(finished.code != 0, "{}", finished.stderr);
        for path in [&from, &to] {
            let name = path.to_string_lossy();
            check::contains(&finished.stderr, name.trim_start_matches(':'))?;
        }
        for side in ["on the executor", "here"] {
            check::contains(&finished.stderr, side)?;
        }
    }
    Ok(())
}

/// A remote path, as the command line writes it.
fn far(site: &Site, name: &str) -> String {
    format!(":{}", site.workspace.join(name).display())
}

fn near(site: &Site, name: &str) -> PathBuf {
    site.cx.folder().join(name)
}

async fn cp(site: &Site, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Finished> {
    let (from, to) = (from.as_ref().to_string_lossy(), to.as_ref().to_string_lossy());
    harness(&site.cx, &site.access(), &["cp", "-r", &from, &to], b"").await
}

/// A file with a mode.
fn file(path: &Path, len: usize, mode: u32) -> Result<()> {
    std::fs::write(path, vec![b'x'; len])?;
    Ok(std::fs::set_permissions(path, Permissions::from_mode(mode))?)
}

fn mode(path: &Path) -> Result<u32> {
    Ok(path.metadata()?.permissions().mode() & 0o777)
}

/// Fails if a temporary file was left behind.
fn nothing_is_left(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        ensure!(
            !name.to_string_lossy().starts_with(".harness-"),
            "{name:?} was left behind"
        );
    }
    Ok(())
}

async fn there_and_back(site: &Site) -> Result<()> {
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|i| i.wrapping_mul(2_246_822_519).to_be_bytes()[1])
        .collect();
    let (sent, back) = (near(site, "near file"), near(site, "back"));
    std::fs::write(&sent, &content)?;
    cp(site, &sent, far(site, "far file")).await?.success()?;
    ensure!(
        std::fs::read(site.content.join("far file"))? == content,
        "the file arrived changed"
    );

    let arguments = ["cp", &far(site, "far file"), &back.to_string_lossy()];
    let command = site
        .access()
        .command(&site.cx, arguments)?
        .env("HARNESS_LOG", "trace,tungstenite=trace");
    let logged = Program::run(&site.cx, "harness", command, b"", wait::SOON * 4)
        .await?
        .success()?;
    ensure!(std::fs::read(&back)? == content, "the file came back changed");
    // How a ticket begins.
    check::lacks(&logged.stderr, "eyJ")?;
    check::contains(&logged.stderr, " TRACE ")
}

/// An old file keeps its mode, a new one gets one that is no looser.
async fn modes(site: &Site) -> Result<()> {
    for (name, len) in [("small", 3), ("large", LARGE)] {
        let (there, here) = (site.content.join(name), near(site, name));
        file(&here, len, 0o600)?;
        cp(site, &here, far(site, name)).await?.success()?;
        ensure!(mode(&there)? == 0o600, "{name}: a new file got {:o}", mode(&there)?);

        file(&here, len, 0o644)?;
        cp(site, &here, far(site, name)).await?.success()?;
        ensure!(mode(&there)? == 0o600, "{name}: an old file got {:o}", mode(&there)?);

        file(&there, len, 0o644)?;
        file(&here, 0, 0o600)?;
        cp(site, far(site, name), &here).await?.success()?;
        ensure!(mode(&here)? == 0o600, "{name}: a local file got {:o}", mode(&here)?);
        ensure!(
            std::fs::read(&here)?.len() == len,
            "{name} came back with another length"
        );
    }
    Ok(())
}

async fn names(site: &Site) -> Result<()> {
    let name = "n".repeat(255);
    let here = near(site, &name);
    file(&here, LARGE, 0o644)?;
    cp(site, &here, far(site, "")).await?.success()?;
    ensure!(site.content.join(&name).metadata()?.len() == LARGE as u64);
    std::fs::remove_file(&here)?;
    cp(site, far(site, &name), site.cx.folder()).await?.success()?;
    ensure!(here.metadata()?.len() == LARGE as u64);
    Ok(())
}

/// A tree goes up and comes back as it was.
async fn trees(site: &Site) -> Result<()> {
    let (here, back) = (near(site, "forest"), near(site, "forest back"));
    for folder in ["empty", "a b/ü/deep", ".hidden"] {
        std::fs::create_dir_all(here.join(folder))?;
    }
    file(&here.join("a b/ü/deep/large"), LARGE, 0o640)?;
    file(&here.join("a b/run.sh"), 20, 0o755)?;
    file(&here.join(".hidden/nothing"), 0, 0o644)?;
    for number in 0..40 {
        file(&here.join(format!("a b/{number}")), number, 0o644)?;
    }
    cp(site, &here, far(site, "forest")).await?.success()?;
    ensure!(
        tree(&site.content.join("forest"))? == tree(&here)?,
        "it arrived changed"
    );
    ensure!(mode(&site.content.join("forest/a b/run.sh"))? == 0o755);
    cp(site, far(site, "forest"), &back).await?.success()?;
    ensure!(tree(&back)? == tree(&here)?, "it came back changed");

    // Into a directory that is there already, beside what it holds; without `-r` not at all.
    std::fs::write(back.join("old"), "old")?;
    cp(site, far(site, "forest"), &back).await?.success()?;
    ensure!(tree(&back.join("forest"))? == tree(&here)? && back.join("old").exists());
    let arguments = ["cp", &here.to_string_lossy(), &far(site, "no forest")];
    let finished = harness(&site.cx, &site.access(), &arguments, b"").await?;
    ensure!(finished.code != 0, "a directory was copied without -r");
    ensure!(!site.content.join("no forest").exists());
    Ok(())
}

/// Every path below a directory, with the content of files.
fn tree(root: &Path) -> Result<BTreeMap<PathBuf, Option<Vec<u8>>>> {
    let mut tree = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
            let path = entry?.path();
            let content = match path.is_dir() {
                true => None,
                false => Some(std::fs::read(&path)?),
            };
            tree.insert(path.strip_prefix(root)?.to_owned(), content);
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(tree)
}

async fn links(site: &Site) -> Result<()> {
    let tree = site.content.join("tree");
    std::fs::create_dir_all(tree.join("inner"))?;
    std::fs::write(tree.join("inner/file"), "content")?;
    symlink("file", tree.join("inner/link"))?;
    symlink("tree", site.content.join("link-to-tree"))?;
    let copied = cp(site, far(site, "link-to-tree"), near(site, "copied"))
        .await?
        .success()?;
    ensure!(std::fs::read_to_string(near(site, "copied/inner/file"))? == "content");
    ensure!(!near(site, "copied/inner/link").exists());
    check::contains(&copied.stderr, "inner/link: neither a file nor a directory")?;

    std::fs::write(site.content.join("aim"), "old")?;
    symlink("aim", site.content.join("link-to-aim"))?;
    let here = near(site, "for the aim");
    file(&here, LARGE, 0o644)?;
    cp(site, &here, far(site, "link-to-aim")).await?.success()?;
    ensure!(site.content.join("link-to-aim").is_symlink(), "the link was replaced");
    ensure!(site.content.join("aim").metadata()?.len() == LARGE as u64);
    Ok(())
}

async fn refused(site: &Site) -> Result<()> {
    let (here, target) = (near(site, "source"), near(site, "target"));
    file(&here, LARGE, 0o644)?;
    let fifo = near(site, "fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    std::fs::create_dir_all(site.content.join("taken/source"))?;
    for (from, to, reason) in [
        (far(site, "missing").into(), target.clone(), ""),
        (far(site, "aim/").into(), target.clone(), "no directory"),
        (here.clone(), far(site, "new/").into(), "no directory"),
        (here.clone(), far(site, "taken").into(), "it is a directory"),
        // Nobody writes into it: opening it would wait for ever.
        (fifo, far(site, "from fifo").into(), "no regular file"),
    ] {
        let finished = cp(site, &from, &to).await?;
        ensure!(
            finished.code == 1,
            "{from:?}: exit code {}: {}",
            finished.code,
            finished.stderr
        );
        check::contains(&finished.stderr, reason)?;
    }
    ensure!(!target.exists(), "a failed copy left a file behind");
    ensure!(
        !site.content.join("new").exists(),
        "a file took the place of a directory"
    );
    ensure!(std::fs::read_dir(site.content.join("taken/source"))?.next().is_none());
    nothing_is_left(&site.content.join("taken"))?;

    let arguments = ["run", "--status-file", "/missing/status", "--", "touch"];
    let ran = site.workspace.join("ran").to_string_lossy().into_owned();
    let finished = harness(&site.cx, &site.access(), &[&arguments[..], &[&ran]].concat(), b"").await?;
    ensure!(finished.code == 64, "exit code {}: {}", finished.code, finished.stderr);
    ensure!(!site.content.join("ran").exists(), "the command was run");
    Ok(())
}

/// A signal ends a copy, and leaves nothing on either side.
async fn interrupted(site: &Site) -> Result<()> {
    let huge = near(site, "huge");
    std::fs::File::create(&huge)?.set_len(1 << 36)?;
    let arguments = ["cp", &huge.to_string_lossy(), &far(site, "")];
    let mut program = Program::start(&site.cx, "upload", site.access().command(&site.cx, arguments)?)?;
    wait::until_true("the upload", wait::SOON, || nothing_is_left(&site.content).is_err()).await?;
    program.signal(Signal::SIGTERM)?;
    let finished = program.finish(wait::SOON).await?;
    ensure!(finished.code == 143, "exit code {}: {}", finished.code, finished.stderr);
    ensure!(!site.content.join("huge").exists());
    nothing_is_left(&site.content)
}

/// Output that nobody takes holds up no signal, though the command has ended.
async fn stalled(site: &Site) -> Result<()> {
    let fifo = near(site, "unread");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU)?;
    let script = format!(
        "head -c 100000 /dev/zero; touch {}",
        site.workspace.join("written").display()
    );
    // The shell holds both ends open, and reads nothing.
    let holding = r#"exec 3<>"$0"; exec "$@" >&3"#;
    let wrapper = ["sh".into(), "-c".into(), holding.into(), fifo.into_os_string()];
    let command: Command = site.access().shell(&site.cx, &script)?.under(wrapper);
    let mut program = Program::start(&site.cx, "stalled", command)?;
    site.far_file("written", wait::SOON).await?;
    for _ in 0..5 {
        program.signal(Signal::SIGINT)?;
        // One that comes before the command's end is only for the command, as is another one soon after it.
        let ended = wait::until_true("the end", Duration::from_secs(3), || !program.is_running());
        if ended.await.is_ok() {
            break;
        }
    }
    let finished = program.finish(wait::SOON).await?;
    ensure!(finished.code == 130, "exit code {}: {}", finished.code, finished.stderr);
    Ok(())
}
