//! What every environment can do, by its three traits.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rendezvous_harness::files::FileReader;
use rendezvous_harness::http::HttpRequest;
use rendezvous_harness::{Environment, OutputStream, Process, ProcessEvent, ProcessSpec, Stdin, WalkOptions};

use super::uri;

/// Does all of it in `folder`, which is named as the environment names it.
pub(super) async fn exercise(environment: &Environment, folder: &Path) -> Result<()> {
    let info = environment.info().await?;
    ensure!(info.shell.path.starts_with('/'), "{info:?}");
    ensure!(info.cwd.is_some(), "{info:?}");
    processes(environment, folder).await.context("processes")?;
    terminals(environment).await.context("terminals")?;
    ends(environment).await.context("ends")?;
    files(environment, folder).await.context("files")?;
    blocks(environment, folder, info.capabilities.file_write_streaming)
        .await
        .context("blocks")?;
    requests(environment).await.context("requests")
}

#[derive(Debug, Default)]
struct Told {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    terminal: Vec<u8>,
    code: Option<i32>,
}

async fn to_the_end(process: &mut Process) -> Result<Told> {
    let mut told = Told::default();
    let mut events = Vec::new();
    while process.next_batch(&mut events, usize::MAX).await? > 0 {}
    ensure!(matches!(events.last(), Some(ProcessEvent::Closed)), "{events:?}");
    for event in events {
        match event {
            ProcessEvent::Output { stream, bytes } => match stream {
                OutputStream::Stdout => told.stdout.extend_from_slice(&bytes),
                OutputStream::Stderr => told.stderr.extend_from_slice(&bytes),
                OutputStream::Pty => told.terminal.extend_from_slice(&bytes),
            },
            ProcessEvent::Exited { code, .. } => told.code = Some(code),
            ProcessEvent::Dropped { .. } | ProcessEvent::Closed => {}
        }
    }
    Ok(told)
}

async fn processes(environment: &Environment, folder: &Path) -> Result<()> {
    let mut spec = ProcessSpec::new(["sh", "-c", "cat; pwd; echo $SAID >&2; exit 3"]);
    spec.cwd = Some(uri(folder)?);
    spec.stdin = Stdin::Pipe;
    spec.env.insert("SAID".into(), "yes".into());
    let mut process = environment.exec().start(spec).await?;
    let input: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let control = process.control();
    let expected = [&input[..], folder.as_os_str().as_encoded_bytes(), b"\n"].concat();
    let writing = async {
        for piece in input.chunks(32 * 1024) {
            control.write(piece).await?;
        }
        control.close_stdin().await
    };
    let (written, told) = tokio::join!(writing, to_the_end(&mut process));
    written?;
    let told = told?;
    ensure!(
        told.stdout == expected,
        "{} bytes of {}",
        told.stdout.len(),
        expected.len()
    );
    ensure!(
        told.stderr == b"yes\n" && told.code == Some(3),
        "{:?} {:?}",
        told.stderr,
        told.code
    );
    let mut silent = environment.exec().start(ProcessSpec::new(["cat"])).await?;
    ensure!(silent.write(b"x").await.is_err(), "it has no input");
    ensure!(to_the_end(&mut silent).await?.code == Some(0));
    Ok(())
}

async fn terminals(environment: &Environment) -> Result<()> {
    let mut spec = ProcessSpec::new(["sh", "-c", "stty size; read line; echo got-$line"]);
    spec.tty = true;
    let mut process = environment.exec().start(spec).await?;
    process.write(b"word\n").await?;
    let told = to_the_end(&mut process).await?;
    let text = String::from_utf8_lossy(&told.terminal).into_owned();
    ensure!(text.contains("24 80") && text.contains("got-word"), "{text}");
    ensure!(told.code == Some(0), "{:?}", told.code);

    let mut spec = ProcessSpec::new(["sh", "-c", "read line; stty size"]);
    spec.tty = true;
    let mut process = environment.exec().start(spec).await?;
    let can_resize = process.resize(7, 33).await?;
    ensure!(
        can_resize
            == environment
                .harness()
                .await?
                .is_none_or(|harness| harness.has_process_control())
    );
    process.write(b"\n").await?;
    let told = to_the_end(&mut process).await?;
    let size = if can_resize { "7 33\r\n" } else { "24 80\r\n" };
    let text = String::from_utf8_lossy(&told.terminal).into_owned();
    ensure!(text.ends_with(size), "{text}");
    if can_resize {
        let mut process = environment.exec().start(ProcessSpec::new(["true"])).await?;
        let error = process.resize(7, 33).await.err().context("it has no terminal")?;
        ensure!(error.is_refused(), "{error:?}");
        to_the_end(&mut process).await?;
    }
    Ok(())
}

async fn ends(environment: &Environment) -> Result<()> {
    let mut process = environment.exec().start(ProcessSpec::new(["sleep", "1000"])).await?;
    process.interrupt().await?;
    ensure!(to_the_end(&mut process).await?.code == Some(130));
    let mut process = environment.exec().start(ProcessSpec::new(["sleep", "1000"])).await?;
    ensure!(process.terminate().await?, "it runs");
    to_the_end(&mut process).await?;
    ensure!(!process.terminate().await?, "it has ended");
    Ok(())
}

async fn files(environment: &Environment, folder: &Path) -> Result<()> {
    let files = environment.files();
    let path = |name: &str| uri(&folder.join(name));
    files.create_directory(&path("tree/deep")?).await?;
    let content = Bytes::from_static(b"\x00content\xff");
    files.write_file(&path("tree/deep/file")?, content.clone()).await?;
    ensure!(files.read_file(&path("tree/deep/file")?).await? == content);
    let metadata = files.metadata(&path("tree/deep/file")?).await?;
    ensure!(
        metadata.is_file && metadata.size == 9 && metadata.modified_at_ms > 0,
        "{metadata:?}"
    );
    files.copy(&path("tree")?, &path("copy")?, true).await?;
    let list = files.list(&path("copy/deep")?).await?;
    ensure!(
        list.len() == 1 && list[0].file_name == "file" && list[0].is_file,
        "{list:?}"
    );
    let walk = files.walk(&path("copy")?, WalkOptions::MAX).await?;
    let found: Vec<_> = walk.entries.iter().map(|entry| entry.path.clone()).collect();
    ensure!(found == [path("copy/deep")?, path("copy/deep/file")?], "{walk:?}");
    ensure!(files.canonicalize(&path("tree/deep/../deep")?).await? == path("tree/deep")?);
    ensure!(files.remove(&path("tree")?, false).await.is_err(), "it is not empty");
    for tree in ["tree", "copy"] {
        files.remove(&path(tree)?, true).await?;
        let error = files.metadata(&path(tree)?).await.err().context("it is still there")?;
        ensure!(error.is_not_found() && error.is_refused(), "{error:?}");
    }
    Ok(())
}

async fn blocks(environment: &Environment, folder: &Path, can_write: bool) -> Result<()> {
    let files = environment.files();
    let path = uri(&folder.join("blocks"))?;
    files.write_file(&path, Bytes::from_static(b"0123456789")).await?;
    let reader = files.open(&path).await?;
    let block = reader.read_block(4, FileReader::MAX_BLOCK).await?;
    ensure!(block.bytes == "456789" && block.is_end, "{block:?}");
    reader.close().await?;
    let writer = files.replace(&path).await;
    if can_write {
        let writer = writer?;
        writer.write_block(3, Bytes::from_static(b"new")).await?;
        writer.finish().await?;
        ensure!(files.read_file(&path).await? == &b"\0\0\0new"[..]);
        let writer = files.replace(&path).await?;
        writer.write_block(0, Bytes::from_static(b"x")).await?;
        writer.discard().await?;
    } else {
        drop(writer);
    }
    files.remove(&path, false).await?;
    Ok(())
}

async fn requests(environment: &Environment) -> Result<()> {
    let (url, served) = serve_once()?;
    let request = HttpRequest::new("POST", url).header("x-asked", "yes");
    let response = environment.http().http(request).await?;
    ensure!(response.status == 418 && response.body == "answer", "{response:?}");
    let request = served.join().map_err(|_panic| anyhow::anyhow!("the server failed"))??;
    ensure!(
        request.starts_with("POST /path HTTP/1.1\r\n") && request.contains("x-asked: yes"),
        "{request}"
    );

    let (url, served) = serve_once()?;
    let mut stream = environment.http().http_stream(HttpRequest::new("GET", url)).await?;
    let mut body = Vec::new();
    while let Some(bytes) = stream.next().await? {
        body.extend_from_slice(&bytes);
    }
    ensure!(stream.status == 418 && body == b"answer", "{stream:?} {body:?}");
    ensure!(stream.next().await?.is_none());
    served.join().map_err(|_panic| anyhow::anyhow!("the server failed"))??;

    let closed = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let request = HttpRequest::new("GET", format!("http://{closed}/"));
    let error = environment.http().http(request).await.err().context("nobody listens")?;
    ensure!(error.is_refused(), "{error:?}");
    Ok(())
}

/// A server that answers one request, and then gives its head.
fn serve_once() -> Result<(String, JoinHandle<Result<String>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}/path", listener.local_addr()?);
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept()?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        socket.write_all(b"HTTP/1.1 418 No\r\nContent-Length: 6\r\nConnection: close\r\n\r\nanswer")?;
        Ok(String::from_utf8(head)?)
    });
    Ok((url, served))
}
