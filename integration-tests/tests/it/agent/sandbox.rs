//! The agent in a sandbox: what it may do works, and what it may not do it sees denied.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::{End, MARK};
use rendezvous_integration_tests::model::{Call, Model, Turn};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Mode, Version};

use crate::check;

/// What the system says of a file system that is read-only.
pub(crate) const READ_ONLY: &str = "Read-only file system";

pub(crate) async fn workspace_write(cx: Context, version: Version, executor: End) -> Result<()> {
    // Beside the workspace, out of the reach of every folder that may be written.
    let outside = tempfile::tempdir_in("/var/tmp")?;
    let outside = outside.path().join("made");
    let script = [
        Call::exec("echo $FAR_MARK > made.txt && cat made.txt"),
        Call::exec(format!("echo x > {} || echo refused-$?", outside.display())),
        Call::exec("mkdir .git; ls -A .git; echo x > .git/config || echo refused-$?"),
        Call::exec("(: < /dev/tcp/127.0.0.1/9) || echo refused-$?"),
        Call::exec(format!("echo x > {}; exit 7", outside.display())),
        Call::terminal("read x; echo got-$x; echo x > /usr/made || echo refused-$?"),
        Call::Write {
            chars: "hello\n".into(),
            patience: 3000,
        },
        patch(
            "*** Add File: new/deep.txt\n+added\n*** Update File: old.txt\n@@\n-old\n+new\n*** Delete File: gone.txt\n",
        ),
        patch("*** Add File: .git/hooks/post-commit\n+evil\n"),
        patch(&format!("*** Add File: {}\n+evil\n", outside.display())),
    ];
    let (site, model) = play(cx, version, executor, Mode::WorkspaceWrite, script).await?;
    let content = &site.content;

    check::contains(&model.output(0, 0)?, MARK.1).context("a file in the workspace")?;
    denied(&model, 1).context("a file outside")?;
    check::contains(&model.output(2, 0)?, "refused-").context("a repository that does not exist")?;
    check::contains(&model.output(3, 0)?, "refused-").context("the network")?;
    check::contains(&model.output(4, 0)?, READ_ONLY).context("a denial and a code")?;
    check::contains(&model.output(4, 0)?, "7").context("a denial and a code")?;
    check::contains(&model.output(6, 0)?, "got-hello").context("a terminal")?;
    check::contains(&model.output(6, 0)?, READ_ONLY).context("a terminal")?;
    check::contains(&model.output(7, 0)?, "Success").context("a patch")?;
    ensure!(
        read(content, "new/deep.txt")? == "added\n",
        "wrong content of the added file"
    );
    ensure!(
        read(content, "old.txt")? == "new\n",
        "wrong content of the changed file"
    );
    ensure!(!content.join("gone.txt").exists(), "the deleted file is still there");
    for turn in [8, 9] {
        check::lacks(&model.output(turn, 0)?, "Success").context("a patch outside")?;
    }
    ensure!(!outside.exists(), "something was written outside");
    ensure!(!content.join(".git").exists(), "a repository was made");
    Ok(())
}

pub(crate) async fn read_only(cx: Context, version: Version, executor: End) -> Result<()> {
    let script = [
        Call::exec("cat old.txt; echo x > /dev/null && echo seen-$FAR_MARK"),
        Call::exec("echo x > made.txt || echo refused-$?"),
        Call::exec("touch old.txt; chmod 777 old.txt; rm old.txt || echo refused-$?"),
        Call::exec("echo x > /tmp/rendezvous-made || echo refused-$?"),
        patch("*** Add File: made.txt\n+evil\n"),
    ];
    let (site, model) = play(cx, version, executor, Mode::ReadOnly, script).await?;
    let first = model.output(0, 0)?;
    check::contains(&first, &format!("seen-{}", MARK.1))?;
    check::contains(&first, "old")?;
    for turn in 1..=3 {
        denied(&model, turn)?;
    }
    check::lacks(&model.output(4, 0)?, "Success").context("a patch")?;
    ensure!(read(&site.content, "old.txt")? == "old\n", "the file was changed");
    ensure!(!site.content.join("made.txt").exists(), "a file was made");
    Ok(())
}

async fn play(
    cx: Context,
    version: Version,
    executor: End,
    mode: Mode,
    script: impl IntoIterator<Item = Call>,
) -> Result<(Site, Model)> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    std::fs::write(site.content.join("old.txt"), "old\n")?;
    std::fs::write(site.content.join("gone.txt"), "gone\n")?;
    let model = Model::play(script.into_iter().map(Turn::from)).await?;
    let mut harness = site.stock_harness_in(mode, version, "harness", &model)?;
    stock::finish(&mut harness).await?;
    site.near_is_untouched()?;
    Ok((site, model))
}

fn patch(changes: &str) -> Call {
    Call::Patch {
        text: format!("*** Begin Patch\n{changes}*** End Patch\n"),
    }
}

/// The model saw that the system refused, and the command could go on.
fn denied(model: &Model, turn: usize) -> Result<()> {
    let output = model.output(turn, 0)?;
    check::contains(&output, READ_ONLY)?;
    check::contains(&output, "refused-")
}

fn read(content: &Path, name: &str) -> Result<String> {
    std::fs::read_to_string(content.join(name)).context(name.to_owned())
}
