//! A model that writes programs: they run in the harness, and what they call happens on the executor.

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::{End, HOST_NAME, MARK};
use rendezvous_integration_tests::model::{Call, Model};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Mode, Version};

use super::sandbox::READ_ONLY;
use crate::check;

/// Three commands at once; `OUTSIDE` is a file beside the workspace.
const COMMANDS: &str = r#"
const commands = ['echo out-$FAR_MARK; hostname; exit 3',
                  'cat old.txt; echo made > made.txt || echo refused-$?',
                  'echo x > OUTSIDE || echo refused-$?'];
const results = await Promise.all(commands.map(cmd => tools.exec_command({cmd})));
for (const result of results) text(`code ${result.exit_code} ${result.output}`);
store('count', results.length);
"#;
const PATCH: &str = r#"
const patch = '*** Begin Patch\n*** Add File: deep/new.txt\n+added\n*** Update File: old.txt\n@@\n-old\n+new\n*** End Patch\n';
try { await tools.apply_patch(patch); text('patched'); } catch (error) { text(`denied: ${error}`); }
text(`count ${load('count')}`);
"#;
const TERMINAL: &str = r#"
const started = await tools.exec_command({cmd: 'read x; echo got-$x; echo x > OUTSIDE || echo refused-$?', tty: true, yield_time_ms: 500});
const ended = await tools.write_stdin({session_id: started.session_id, chars: 'hello\n', yield_time_ms: 5000});
text(`code ${ended.exit_code} ${ended.output}`);
"#;
const LOOP: &str = r#"
let sum = 0;
for (let number = 0; number < 8; number++) {
  const result = await tools.exec_command({cmd: `echo ${number}`});
  sum += Number(result.output);
}
text(`sum ${sum}`);
"#;

pub(crate) async fn play(cx: Context, version: Version, executor: End, mode: Mode) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    std::fs::write(site.content.join("old.txt"), "old\n")?;
    // Out of the reach of every folder that a sandbox lets write to.
    let outside = tempfile::tempdir_in("/var/tmp")?;
    let outside = outside.path().join("made");
    let script = [COMMANDS, PATCH, TERMINAL, LOOP].map(|code| Call::Code {
        text: code.replace("OUTSIDE", &outside.display().to_string()),
    });
    let model = Model::play_code(script.map(Into::into)).await?;
    let mut harness = site.stock_harness_in(mode, version, "harness", &model)?;
    stock::finish(&mut harness).await?;
    site.near_is_untouched()?;

    let commands = model.output(0, 0)?;
    check::contains(&commands, &format!("code 3 out-{}", MARK.1))?;
    check::contains(&commands, HOST_NAME)?;
    check::contains(&commands, "code 0 old")?;
    let patch = model.output(1, 0)?;
    check::contains(&patch, "count 3").context("what a program leaves for the next one")?;
    let terminal = model.output(2, 0)?;
    check::contains(&terminal, "got-hello").context("a terminal")?;
    check::contains(&model.output(3, 0)?, "sum 28")?;

    let read = |name: &str| std::fs::read_to_string(site.content.join(name)).unwrap_or_default();
    if mode == Mode::ReadOnly {
        check::contains(&patch, "denied: ")?;
        ensure!(
            read("old.txt") == "old\n" && read("deep/new.txt").is_empty(),
            "the patch was applied"
        );
        ensure!(read("made.txt").is_empty(), "a file was made");
    } else {
        check::contains(&patch, "patched")?;
        ensure!(
            read("old.txt") == "new\n" && read("deep/new.txt") == "added\n",
            "the patch was not applied"
        );
        ensure!(read("made.txt") == "made\n", "no file was made");
    }
    if mode == Mode::FullAccess {
        check::lacks(&commands, "refused-")?;
        ensure!(outside.exists(), "no file was made outside");
    } else {
        for output in [&commands, &terminal] {
            check::contains(output, READ_ONLY)?;
            check::contains(output, "refused-1")?;
        }
        ensure!(!outside.exists(), "a file was made outside");
    }
    Ok(())
}
