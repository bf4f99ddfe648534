//! Bytes through `harness run`, with the extension and without it, in turns.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::bench::quantile;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::harness::Access;
use rendezvous_integration_tests::installation::Installation;
use rendezvous_integration_tests::{Context, binaries};

/// Bytes per read and write.
const CHUNK: usize = 64 * 1024;
/// Turns of each kind at scale 1.
const TURNS: f64 = 11.0;
/// Bytes of a turn.
const BYTES: usize = 256 << 20;

#[derive(Clone, Copy, Debug)]
enum Direction {
    Output,
    Stdin,
}

/// One turn of many is shorter or longer by chance: what counts is the median of the ratios of two neighbours.
pub(crate) async fn print(scale: f64) -> Result<()> {
    let cx = Context::new()?;
    let installation = Installation::start(&cx).await?;
    let _executor = installation.executor(&cx, "ours", End::Ours).await?;
    let access = installation.access("ours");
    let turns = (TURNS * scale).ceil() as usize;
    tokio::task::block_in_place(|| {
        println!("\n| reliable streams | on MB/s | off MB/s | on / off |\n|---|--:|--:|--:|");
        for direction in [Direction::Output, Direction::Stdin] {
            let (mut on, mut off, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for turn in 0..turns {
                // Whichever is first finds another machine than the second.
                let order = if turn % 2 == 0 { [true, false] } else { [false, true] };
                let mut rates = [0.0; 2];
                for is_on in order {
                    rates[usize::from(is_on)] = rate(&access, direction, is_on)?;
                }
                off.push(rates[0]);
                on.push(rates[1]);
                ratios.push(rates[1] / rates[0]);
            }
            println!(
                "| {direction:?} | {:.0} | {:.0} | {:.3} |",
                quantile(&mut on, 0.5),
                quantile(&mut off, 0.5),
                quantile(&mut ratios, 0.5)
            );
        }
        Ok(())
    })
}

/// MB/s of one command.
fn rate(access: &Access, direction: Direction, is_on: bool) -> Result<f64> {
    let mut command = Command::new(binaries::ours("harness")?);
    command
        .args(["run", "--"])
        .env("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", &access.registry)
        .env("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", &access.environment)
        .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", &access.token)
        .env("HOME", std::env::temp_dir())
        .stdout(Stdio::piped());
    if !is_on {
        command.env("HARNESS_STREAM_GRACE", "0");
    }
    match direction {
        Direction::Output => command
            .args(["dd", "if=/dev/zero", "status=none"])
            .arg(format!("bs={CHUNK}"))
            .arg(format!("count={}", BYTES / CHUNK))
            .stdin(Stdio::null()),
        Direction::Stdin => command.args(["wc", "-c"]).stdin(Stdio::piped()),
    };
    let start = Instant::now();
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let block = vec![0; CHUNK];
        for _ in 0..BYTES / CHUNK {
            stdin.write_all(&block)?;
        }
    }
    let mut stdout = child.stdout.take().context("stdout")?;
    let (mut buffer, mut received, mut last) = (vec![0; CHUNK], 0, Vec::new());
    while let count @ 1.. = stdout.read(&mut buffer)? {
        received += count;
        last = buffer[..count].to_vec();
    }
    let status = child.wait()?;
    let time = start.elapsed().as_secs_f64();
    ensure!(status.success(), "the command failed: {status}");
    let counted = match direction {
        Direction::Output => received,
        Direction::Stdin => String::from_utf8_lossy(&last).trim().parse()?,
    };
    ensure!(counted == BYTES, "{counted} bytes arrived");
    Ok(BYTES as f64 * 1e-6 / time)
}
