//! Reading, writing and streaming much costs the executor little memory.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rendezvous_harness::http::HttpRequest;
use rendezvous_harness::{Harness, PathUri};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, Program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::runner::{Case, When};

/// What an operation may cost above idle.
pub(crate) const ALLOWED: u64 = 64 << 20;
const BLOCK: usize = 1 << 20;
/// The body of a request is part of its message, so that much is sent in many of them.
const UPLOAD: usize = 4 << 20;
/// Blocks that are on their way at once, as `harness cp` has them.
const AHEAD: usize = 4;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("memory::64_mib", When::Always, |cx| play(cx, 64 << 20)),
        Case::new("memory::1_gib", When::Full, |cx| play(cx, 1 << 30)),
    ]
}

async fn play(cx: Context, length: usize) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let harness = crate::library::connect(&site.access()).await?;
    harness.status().await?;
    let path = PathUri::from_path(&site.workspace.join("file"))?;
    let executor = site.executor.as_ref().context("the executor runs")?;
    let idle = executor.resident()?;
    let web = Web::start(TcpListener::bind("127.0.0.1:0").await?, length)?;

    let written = peak(executor, idle, write(&harness, &path, length)).await?;
    let size = std::fs::metadata(site.content.join("file"))?.len();
    ensure!(size == length as u64, "{size} bytes were written");
    let read = peak(executor, idle, read(&harness, &path, length)).await?;
    let received = peak(executor, idle, receive(&harness, &web.url(""), length)).await?;
    let sent = peak(executor, idle, send(&harness, &web.url(""), length)).await?;
    let costs = [
        ("writing blocks", written),
        ("reading blocks", read),
        ("streaming a response", received),
        ("sending bodies", sent),
    ];
    report(length, idle, &costs);
    for (what, cost) in costs {
        ensure!(cost <= ALLOWED, "{what} cost {} MiB", cost >> 20);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "figures for whoever runs the case by hand")]
pub(crate) fn report(length: usize, idle: u64, costs: &[(&str, u64)]) {
    println!("{} MiB, idle at {} MiB:", length >> 20, idle >> 20);
    for (what, cost) in costs {
        println!("  {what}: {} MiB above idle", cost >> 20);
    }
}

/// How much more memory than `idle` a program has at its peak while something runs, in bytes.
pub(crate) async fn peak(program: &Program, idle: u64, run: impl Future<Output = Result<()>>) -> Result<u64> {
    let process = format!("/proc/{}", program.id());
    // Sets the peak to what is resident now.
    std::fs::write(Path::new(&process).join("clear_refs"), "5").context("clear_refs")?;
    run.await?;
    Ok(program.peak()?.saturating_sub(idle))
}

fn block(offset: usize) -> Bytes {
    Bytes::from(vec![byte(offset); BLOCK])
}

/// What stands at an offset: another byte in each block.
fn byte(offset: usize) -> u8 {
    (offset / BLOCK % 251).to_le_bytes()[0]
}

async fn write(harness: &Harness, path: &PathUri, length: usize) -> Result<()> {
    let writer = harness.replace(path).await?;
    for start in (0..length).step_by(AHEAD * BLOCK) {
        let offsets = (0..AHEAD).map(|n| start + n * BLOCK).filter(|offset| *offset < length);
        let writes = offsets.map(|offset| writer.write_block(offset as u64, block(offset)));
        futures_util::future::try_join_all(writes).await?;
    }
    Ok(writer.finish().await?)
}

async fn read(harness: &Harness, path: &PathUri, length: usize) -> Result<()> {
    let file = harness.open(path).await?;
    for start in (0..length).step_by(AHEAD * BLOCK) {
        let offsets = (0..AHEAD).map(|n| start + n * BLOCK).filter(|offset| *offset < length);
        let reads = offsets.map(|offset| file.read_block(offset as u64, BLOCK as u64));
        for (n, got) in futures_util::future::try_join_all(reads).await?.into_iter().enumerate() {
            let offset = start + n * BLOCK;
            ensure!(got.bytes == block(offset), "the block at {offset} changed");
        }
    }
    Ok(file.close().await?)
}

/// Takes a body of this length as a stream, and looks at every byte.
pub(crate) async fn receive(harness: &Harness, url: &str, length: usize) -> Result<()> {
    let mut response = harness.http_stream(HttpRequest::new("GET", url)).await?;
    let mut got = 0;
    while let Some(bytes) = response.next().await? {
        let is_right = bytes.iter().enumerate().all(|(at, there)| *there == byte(got + at));
        ensure!(is_right, "the body changed after {got} bytes");
        got += bytes.len();
    }
    ensure!(got == length, "{got} bytes came");
    Ok(())
}

/// Sends bodies of this length together.
pub(crate) async fn send(harness: &Harness, url: &str, length: usize) -> Result<()> {
    for _ in (0..length).step_by(UPLOAD) {
        let mut request = HttpRequest::new("POST", url);
        request.body = Some(Bytes::from(vec![7; UPLOAD]));
        let response = harness.http(request).await?;
        ensure!(response.body == UPLOAD.to_string(), "{response:?}");
    }
    Ok(())
}

/// Answers GET with a body, and POST with the length of what it got. It holds neither. `/moved` leads to `/`, and `/silent` is
/// never answered.
pub(crate) struct Web {
    url: String,
    _task: AbortOnDropHandle<()>,
}

impl Web {
    /// Serves bodies of this length.
    pub(crate) fn start(listener: TcpListener, length: usize) -> Result<Self> {
        let url = format!("http://{}/", listener.local_addr()?);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // The client sees what went wrong.
                tokio::spawn(async move { drop(answer(socket, length).await) });
            }
        });
        Ok(Self {
            url,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// The URL of a path, which has no `/` before it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

async fn answer(mut socket: TcpStream, length: usize) -> Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break end + 4;
        }
        ensure!(socket.read_buf(&mut bytes).await? > 0, "no request");
    };
    let head = |length: usize| format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    if bytes.starts_with(b"GET /moved ") {
        let moved = b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: /\r\n\r\n";
        socket.write_all(moved).await?;
        return Ok(());
    }
    if bytes.starts_with(b"GET /silent ") {
        let left = socket.read(&mut [0; 1]).await?;
        ensure!(left == 0, "nothing more was to come");
        return Ok(());
    }
    if bytes.starts_with(b"GET") {
        socket.write_all(head(length).as_bytes()).await?;
        for offset in (0..length).step_by(BLOCK) {
            socket.write_all(&block(offset)).await?;
        }
        return Ok(());
    }
    let mut got = bytes.len() - end;
    let mut piece = vec![0; 64 * 1024];
    while got < UPLOAD {
        let read = socket.read(&mut piece).await?;
        ensure!(read > 0, "the body broke off after {got} bytes");
        got += read;
    }
    let text = got.to_string();
    socket.write_all((head(text.len()) + &text).as_bytes()).await?;
    Ok(())
}
