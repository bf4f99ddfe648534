//! The workloads.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_integration_tests::bench::quantile;
use rendezvous_integration_tests::exec_server::ExecServer;
use serde_json::json;

use crate::client::{Client, Event};

const MIB: usize = 1 << 20;
/// Rounds before the clock counts.
const WARM: usize = 10;
/// How often a whole file is read, and written.
const WHOLE_ROUNDS: usize = 5;

/// How much is asked for in one turn.
pub(crate) struct Workload {
    round_trips: usize,
    commands: usize,
    /// Bytes of output, and of a file that is read or written in blocks.
    bulk: usize,
    /// Bytes of a file that is read and written in one call.
    whole: usize,
}

impl Workload {
    /// 2 000 round trips, 100 commands, 256 MiB and 8 MiB at scale 1: stock cuts a connection for a frame of more than 16 MiB.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small positive numbers"
    )]
    pub(crate) fn scaled(scale: f64) -> Self {
        let scaled = |count: f64, least: usize| ((count * scale) as usize).max(least);
        Self {
            round_trips: scaled(2000.0, 50),
            commands: scaled(100.0, 10),
            bulk: scaled(256.0, 1) * MIB,
            whole: scaled(8.0, 1) * MIB,
        }
    }
}

/// What one server reached: medians of milliseconds, and 10⁶ bytes a second.
#[derive(Clone, Debug)]
pub(crate) struct Figures(pub(crate) [f64; Self::NAMES.len()]);

impl Figures {
    /// What the figures are, and whether less is better.
    pub(crate) const NAMES: [(&str, bool); 8] = [
        ("`environment/info`, ms", true),
        ("`true`, start → exited, ms", true),
        ("`true`, start → closed, ms", true),
        ("output, MB/s", false),
        ("`fs/readBlock` of 1 MiB, MB/s", false),
        ("`fs/writeBlock` of 1 MiB, MB/s", false),
        ("`fs/readFile`, MB/s", false),
        ("`fs/writeFile`, MB/s", false),
    ];

    /// The median of each figure.
    pub(crate) fn median(turns: &[Self]) -> Self {
        Self(std::array::from_fn(|figure| {
            median(turns.iter().map(|turn| turn.0[figure]).collect())
        }))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(|figure| format!("{figure:.2}")).collect();
        f.write_str(&texts.join(", "))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// All workloads, on a new connection.
pub(crate) async fn all(server: &ExecServer, workload: &Workload) -> Result<Figures> {
    let mut client = Client::connect(server).await?;
    let info = info(&mut client, workload.round_trips).await?;
    let (exited, closed) = commands(&mut client, workload.commands).await?;
    let output = output(&mut client, workload.bulk).await?;
    let folder = server.folder.canonicalize()?;
    let read = folder.join("read");
    std::fs::write(&read, vec![0x5a; workload.bulk])?;
    let read_blocks = read_blocks(&mut client, &url(&read), workload.bulk).await?;
    // New files: to replace one, a file system does more, at a time that it chooses.
    let written = folder.join("written");
    let write_blocks = write_blocks(&mut client, &url(&written), workload.bulk).await?;
    ensure!(
        std::fs::metadata(&written)?.len() == workload.bulk as u64,
        "not all was written"
    );
    std::fs::remove_file(&written)?;
    std::fs::write(&read, vec![0x5a; workload.whole])?;
    let read_file = read_file(&mut client, &url(&read), workload.whole).await?;
    let whole = folder.join("whole");
    let write_file = write_file(&mut client, &whole, workload.whole).await?;
    Ok(Figures([
        info,
        exited,
        closed,
        output,
        read_blocks,
        write_blocks,
        read_file,
        write_file,
    ]))
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn rate(bytes: usize, start: Instant) -> f64 {
    bytes as f64 * 1e-6 / start.elapsed().as_secs_f64()
}

async fn info(client: &mut Client, count: usize) -> Result<f64> {
    let mut times = Vec::with_capacity(count);
    for round in 0..WARM + count {
        let start = Instant::now();
        client.call("environment/info", "null").await?;
        if round >= WARM {
            times.push(milliseconds(start));
        }
    }
    Ok(median(times))
}

fn start(process: &str, argv: &[&str]) -> String {
    json!({"processId": process, "argv": argv, "cwd": "file:///", "env": {"PATH": "/usr/bin:/bin"}, "tty": false})
        .to_string()
}

/// From the call to the event that the process ended, and to the event that its output did.
async fn commands(client: &mut Client, count: usize) -> Result<(f64, f64)> {
    let (mut exited, mut closed) = (Vec::new(), Vec::new());
    for round in 0..WARM + count {
        let begin = Instant::now();
        client
            .begin("process/start", &start(&format!("true-{round}"), &["true"]))
            .await?;
        let mut exit = None;
        loop {
            match client.event().await? {
                Event::Output(_) => {}
                Event::Exited => exit = Some(milliseconds(begin)),
                Event::Closed => break,
            }
        }
        if round >= WARM {
            closed.push(milliseconds(begin));
            // Stock may tell the end of the output first.
            exited.extend(exit);
        }
    }
    Ok((median(exited), median(closed)))
}

async fn output(client: &mut Client, bytes: usize) -> Result<f64> {
    let count = format!("count={}", bytes / 65536);
    let begin = Instant::now();
    let argv = ["dd", "if=/dev/zero", "bs=65536", &count, "status=none"];
    client.begin("process/start", &start("output", &argv)).await?;
    let mut received = 0;
    loop {
        match client.event().await? {
            Event::Output(length) => received += length,
            Event::Exited => {}
            Event::Closed => break,
        }
    }
    ensure!(received == bytes, "{received} bytes of output instead of {bytes}");
    Ok(rate(bytes, begin))
}

async fn read_blocks(client: &mut Client, url: &str, bytes: usize) -> Result<f64> {
    let begin = Instant::now();
    client
        .call("fs/open", &json!({"handleId": "r", "path": url}).to_string())
        .await?;
    let mut offset = 0;
    while offset < bytes {
        let params = format!(r#"{{"handleId":"r","offset":{offset},"len":{MIB}}}"#);
        let length = client.call("fs/readBlock", &params).await?;
        ensure!(length > 0, "the file ended at {offset} of {bytes} bytes");
        offset += length;
    }
    client.call("fs/close", r#"{"handleId":"r"}"#).await?;
    Ok(rate(bytes, begin))
}

async fn write_blocks(client: &mut Client, url: &str, bytes: usize) -> Result<f64> {
    let chunk = STANDARD.encode(vec![0xa5; MIB]);
    let begin = Instant::now();
    let open = json!({"handleId": "w", "path": url, "mode": "replace"});
    client.call("fs/open", &open.to_string()).await?;
    for offset in (0..bytes).step_by(MIB) {
        let head = format!(r#"{{"handleId":"w","offset":{offset},"chunk":""#);
        client.call_with("fs/writeBlock", [&head, &chunk, "\"}"]).await?;
    }
    client.call("fs/close", r#"{"handleId":"w"}"#).await?;
    Ok(rate(bytes, begin))
}

/// The median of a few rounds, as of every file that moves in one call.
async fn read_file(client: &mut Client, url: &str, bytes: usize) -> Result<f64> {
    let params = json!({ "path": url }).to_string();
    let mut rates = Vec::new();
    for _ in 0..WHOLE_ROUNDS {
        let begin = Instant::now();
        let length = client.call("fs/readFile", &params).await?;
        ensure!(length == bytes, "{length} bytes were read instead of {bytes}");
        rates.push(rate(bytes, begin));
    }
    Ok(median(rates))
}

async fn write_file(client: &mut Client, path: &Path, bytes: usize) -> Result<f64> {
    let url = url(path);
    let data = STANDARD.encode(vec![0xa5; bytes]);
    let head = format!(r#"{{"path":"{url}","dataBase64":""#);
    let mut rates = Vec::new();
    for _ in 0..WHOLE_ROUNDS {
        let begin = Instant::now();
        client.call_with("fs/writeFile", [&head, &data, "\"}"]).await?;
        rates.push(rate(bytes, begin));
        ensure!(std::fs::metadata(path)?.len() == bytes as u64, "not all was written");
        std::fs::remove_file(path)?;
    }
    Ok(median(rates))
}
