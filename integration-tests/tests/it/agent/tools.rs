//! Every tool of the agent, in one conversation.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::{self, End, HOST_NAME, MARK};
use rendezvous_integration_tests::model::{Call, Model, Turn};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Version, Way};

use crate::check;

/// An image of one pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC";
/// Stands in the executor's AGENTS.md.
const INSTRUCTION: &str = "instruction-that-only-the-executor-has";

/// One or more turns, and what must have come back. The check gets the number of its first turn.
struct Step {
    name: &'static str,
    turns: Vec<Turn>,
    check: fn(&Model, usize, &Path) -> Result<()>,
}

pub(crate) async fn play(cx: Context, version: Version, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    play_on(&site, version).await
}

/// The same on an installation that runs already.
pub(crate) async fn play_on(site: &Site, version: Version) -> Result<()> {
    prepare(&site.content)?;
    let model = super::play(site, version, script()).await?;
    judge(&model, &site.content)
}

/// The same without registry and relay, on an executor that listens.
pub(crate) async fn play_direct(cx: Context, version: Version, executor: End) -> Result<()> {
    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    prepare(&content)?;
    let (_executor, url) = executor::listen(&cx, executor, &workspace, &content).await?;
    let model = Model::play(script()).await?;
    let mut harness = stock::harness(&cx, version, "harness", &Way::Direct(&url), &workspace, &model)?;
    stock::finish(&mut harness).await?;
    judge(&model, &content)
}

/// What the executor's workspace holds before.
pub(crate) fn prepare(content: &Path) -> Result<()> {
    std::fs::write(content.join("AGENTS.md"), INSTRUCTION)?;
    std::fs::write(content.join("old.txt"), "first\nsecond\nthird\n")?;
    std::fs::write(content.join("gone.txt"), "gone\n")?;
    std::fs::write(content.join("pixel.png"), STANDARD.decode(IMAGE)?)?;
    Ok(())
}

pub(crate) fn script() -> Vec<Turn> {
    steps().into_iter().flat_map(|step| step.turns).collect()
}

/// Checks every step, and names each that failed.
pub(crate) fn judge(model: &Model, content: &Path) -> Result<()> {
    let mut turn = 0;
    let mut failures = Vec::new();
    for step in steps() {
        if let Err(error) = (step.check)(model, turn, content) {
            failures.push(format!("{}: {error:#}", step.name));
        }
        turn += step.turns.len();
    }
    check::contains(&model.conversation(), INSTRUCTION).context("AGENTS.md")?;
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

fn steps() -> Vec<Step> {
    vec![
        Step {
            name: "streams and exit code",
            turns: vec![Call::exec("echo out-$FAR_MARK; echo err-$((1+1)) >&2; hostname; exit 3").into()],
            check: |model, turn, _| {
                let output = model.output(turn, 0)?;
                check::once(&output, &format!("out-{}", MARK.1))?;
                check::once(&output, "err-2")?;
                check::contains(&output, HOST_NAME)?;
                check::contains(&output, "exited with code 3")
            },
        },
        Step {
            name: "folder",
            turns: vec![
                Call::Exec {
                    command: "pwd".into(),
                    folder: Some("/usr/share".into()),
                    tty: false,
                    patience: 10_000,
                }
                .into(),
            ],
            check: |model, turn, _| check::contains(&model.output(turn, 0)?, "/usr/share"),
        },
        Step {
            name: "terminal, typing and Ctrl-C",
            turns: vec![
                Call::terminal("stty size; read x; echo got-$x; sleep 60").into(),
                Call::Write {
                    chars: "hello\n".into(),
                    patience: 1500,
                }
                .into(),
                Call::write("\u{3}").into(),
            ],
            check: |model, turn, _| {
                check::contains(&model.output(turn, 0)?, "24 80")?;
                check::once(&model.output(turn + 1, 0)?, "got-hello")?;
                let end = model.output(turn + 2, 0)?;
                check::contains(&end, "^C")?;
                check::contains(&end, "exited with code 1")
            },
        },
        Step {
            name: "no terminal",
            turns: vec![Call::exec("[ -t 1 ] && echo terminal || echo pipe; cat; echo input-ended-$?").into()],
            check: |model, turn, _| {
                let output = model.output(turn, 0)?;
                check::once(&output, "pipe")?;
                check::once(&output, "input-ended-0")
            },
        },
        Step {
            name: "2 MiB of output",
            turns: vec![Call::exec("head -c 2097152 /dev/zero | tr '\\0' x; echo end").into()],
            check: |model, turn, _| {
                let output = model.output(turn, 0)?;
                // The agent counts four bytes a token: not one byte may be missing.
                check::contains(&output, "Original token count: 524289\n")?;
                check::contains(&output, "xend")
            },
        },
        Step {
            name: "binary output",
            turns: vec![
                Call::exec("printf 'a\\000b\\377\\376c'; head -c 65536 /dev/urandom; printf mark-at-the-end").into(),
            ],
            check: |model, turn, _| {
                let output = model.output(turn, 0)?;
                check::once(&output, "mark-at-the-end")?;
                check::contains(&output, "\u{fffd}")?;
                check::contains(&output, "exited with code 0")
            },
        },
        Step {
            name: "parallel calls",
            turns: vec![Turn::new([
                Call::exec("touch a-runs; until [ -e b-runs ]; do sleep 0.02; done; echo a-met-b"),
                Call::exec("touch b-runs; until [ -e a-runs ]; do sleep 0.02; done; echo b-met-a"),
            ])],
            check: |model, turn, _| {
                check::once(&model.output(turn, 0)?, "a-met-b")?;
                check::once(&model.output(turn, 1)?, "b-met-a")
            },
        },
        Step {
            name: "apply_patch",
            turns: vec![
                Call::Patch {
                    text: "*** Begin Patch\n*** Add File: new/deep.txt\n+added\n*** Update File: old.txt\n@@\n first\n\
                           -second\n+changed\n third\n*** Delete File: gone.txt\n*** End Patch\n"
                        .into(),
                }
                .into(),
            ],
            check: |model, turn, content| {
                check::contains(&model.output(turn, 0)?, "Success")?;
                let read = |name: &str| std::fs::read_to_string(content.join(name)).context(name.to_owned());
                ensure!(read("new/deep.txt")? == "added\n", "wrong content of the added file");
                ensure!(
                    read("old.txt")? == "first\nchanged\nthird\n",
                    "wrong content of the updated file"
                );
                ensure!(!content.join("gone.txt").exists(), "the deleted file is still there");
                Ok(())
            },
        },
        Step {
            name: "view_image",
            turns: vec![
                Call::View {
                    path: "pixel.png".into(),
                }
                .into(),
            ],
            check: |model, turn, _| check::contains(&model.output(turn, 0)?, IMAGE),
        },
    ]
}
