//! Much data between our two ends, past slow readers and through broken links: every byte once, in order.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program, wait};

use crate::runner::{Case, When};

/// Well above everything that may wait on the way.
const MUCH: usize = 120_000_000;
/// One piece of what is written while links break, and how many there are.
const PIECE: usize = 200_000;
const PIECES: usize = 150;

/// Passes its input on at some 8 MB/s.
const PACED: &str = "until n=$(head -c 800000 | tee /dev/fd/3 | wc -c); [ \"$n\" = 0 ]; do sleep 0.1; done 3>&1";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("bulk::paused_reader_beside_another", When::Always, |cx| {
            slow_reader(cx, "sleep 8; cat", true)
        }),
        Case::new("bulk::slow_reader_beside_another", When::Full, |cx| {
            slow_reader(cx, PACED, true)
        }),
        Case::new("bulk::reader_paused_for_long", When::Full, |cx| {
            slow_reader(cx, "sleep 100; cat", false)
        }),
        Case::new("bulk::output_through_cut_links", When::Always, output_through_cuts),
        Case::new("bulk::input_through_cut_links", When::Always, input_through_cuts),
    ]
}

/// Somebody takes a command's output slowly, or not at all for a while.
async fn slow_reader(cx: Context, reader: &'static str, has_neighbour: bool) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let mut neighbour = match has_neighbour {
        true => {
            let mut neighbour = Program::start(&cx, "neighbour", site.access().shell(&cx, "cat")?)?;
            neighbour.write(b"hello\n").await?;
            neighbour.stdout().contains("hello\n", wait::SOON).await?;
            Some(neighbour)
        }
        false => None,
    };
    let source = format!("seq 1 20000000 | head -c {MUCH}");
    let pipe = format!("set -o pipefail; \"$@\" | {{ {reader}; }} | sha256sum");
    let command = site.access().shell(&cx, &source)?.under(["bash", "-c", &pipe, "bash"]);
    let mut program = Program::start(&cx, "harness", command)?;
    if let Some(neighbour) = &mut neighbour {
        // A neighbour is served as if nobody held anything up.
        for round in 0..20 {
            neighbour.write(format!("round-{round}\n").as_bytes()).await?;
            neighbour
                .stdout()
                .contains(&format!("round-{round}\n"), wait::SOON)
                .await?;
        }
    }
    let finished = program.finish(wait::SOON * 8).await?.success()?;
    ensure!(finished.stderr.is_empty(), "{}", finished.stderr);
    let expected = Program::run(
        &cx,
        "expected",
        rendezvous_integration_tests::Command::new("bash").args(["-c", &format!("{source} | sha256sum")]),
        b"",
        wait::SOON,
    )
    .await?;
    ensure!(finished.text() == expected.text(), "another sum than at the executor");
    Ok(())
}

/// Links break while a command writes faster than what may wait.
async fn output_through_cuts(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let script = format!(
        "i=0; while [ $i -lt {PIECES} ]; do i=$((i+1)); head -c {PIECE} /dev/zero | tr '\\0' x; echo $i; sleep 0.02; done"
    );
    let mut program = Program::start(&cx, "harness", site.access().shell(&cx, &script)?)?;
    for (at, party) in [(20, Party::Harness), (60, Party::Executor), (100, Party::Harness)] {
        let much = |bytes: &[u8]| (bytes.len() >= at * PIECE).then_some(());
        program
            .stdout()
            .wait(wait::SOON * 2, much)
            .await
            .with_context(|| format!("no {at} pieces: {}", program.stderr().text()))?;
        site.link.cut(party);
    }
    let finished = program.finish(wait::SOON * 4).await?.success()?;
    let mut expected = String::new();
    for number in 1..=PIECES {
        expected.extend(std::iter::repeat_n('x', PIECE));
        let _ = writeln!(expected, "{number}");
    }
    ensure!(
        finished.text() == expected,
        "{} bytes arrived of {}",
        finished.text().len(),
        expected.len()
    );
    Ok(())
}

/// Links break while a command reads.
async fn input_through_cuts(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let mut program = Program::start(&cx, "harness", site.access().shell(&cx, "sha256sum; echo end")?)?;
    let mut sent = String::new();
    for number in 1..=PIECES {
        let mut piece: String = std::iter::repeat_n('x', PIECE).collect();
        let _ = writeln!(piece, "{number}");
        program.write(piece.as_bytes()).await?;
        sent += &piece;
        match number {
            20 | 100 => site.link.cut(Party::Harness),
            60 => site.link.cut(Party::Executor),
            _ => {}
        }
    }
    program.close_stdin();
    let finished = program.finish(wait::SOON * 4).await?.success()?;
    let expected = Program::run(
        &cx,
        "expected",
        rendezvous_integration_tests::Command::new("sha256sum"),
        sent.as_bytes(),
        wait::SOON,
    )
    .await?;
    ensure!(
        finished.text() == format!("{}end\n", expected.text()),
        "{}",
        finished.text()
    );
    Ok(())
}
