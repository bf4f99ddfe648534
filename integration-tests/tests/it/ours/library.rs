//! Every call of the typed client library.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rendezvous_harness::files::{FileReader, FileWriter};
use rendezvous_harness::http::HttpRequest;
use rendezvous_harness::options::ClearText;
use rendezvous_harness::watch::WatchEnd;
use rendezvous_harness::{
    Harness, HarnessError, LinkState, Options, OutputStream, PathUri, Process, ProcessEvent, ProcessSpec, Stdin,
    WalkOptions,
};
use rendezvous_integration_tests::executor::{End, HOST_NAME};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::{Context, wait};
use rendezvous_wire::secret::Secret;

pub(crate) async fn play(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let harness = connect(&site).await?;
    machine(&site, &harness).await.context("machine")?;
    processes(&site, &harness).await.context("processes")?;
    input(&harness).await.context("input")?;
    ends(&harness).await.context("ends")?;
    files(&site, &harness).await.context("files")?;
    trees(&site, &harness).await.context("trees")?;
    blocks(&site, &harness).await.context("blocks")?;
    web(&harness).await.context("web")?;
    newer_calls(&site, &harness).await.context("newer calls")?;
    let state = harness.link_state();
    ensure!(matches!(*state.borrow(), LinkState::Connected), "{:?}", *state.borrow());
    last_handle(&site, harness).await.context("last handle")?;
    site.near_is_untouched()
}

async fn connect(site: &Site) -> Result<Harness> {
    let access = site.access();
    let (registry, environment) = (Some(access.registry.as_str()), Some(access.environment.as_str()));
    let refused = Some(Secret::new("made-up-token"));
    let options = Options::new(registry, environment, refused, ClearText::Loopback)?;
    let error = Harness::connect(options)
        .await
        .err()
        .context("a refused token connects")?;
    ensure!(matches!(error, HarnessError::Unreachable(_)), "{error}");
    ensure!(!error.is_retryable() && error.exit_code() == 77, "{error}");
    let options = Options::new(
        registry,
        environment,
        Some(Secret::new(access.token)),
        ClearText::Loopback,
    )?;
    Ok(Harness::connect(options).await?)
}

/// A path in the executor's workspace.
fn far(site: &Site, name: &str) -> Result<PathUri> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = site.workspace.join(name);
    Ok(PathUri::parse("file:///")?.join(path.as_os_str().as_bytes())?)
}

async fn machine(site: &Site, harness: &Harness) -> Result<()> {
    harness.status().await?;
    let info = harness.info().await?;
    ensure!(info.shell.path.starts_with('/'), "{info:?}");
    ensure!(info.cwd == Some(far(site, "")?), "{info:?}");
    ensure!(harness.info().await? == info, "it is told differently the second time");
    ensure!(Some(harness.working_directory().await?) == info.cwd);
    let is_ours = site.end == End::Ours;
    ensure!(harness.has_process_control() == is_ours && harness.has_output_window() == is_ours);
    Ok(())
}

/// Everything that a process wrote to each stream, and its exit code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    terminal: Vec<u8>,
    code: Option<i32>,
}

impl Told {
    fn take(&mut self, event: ProcessEvent) -> Result<()> {
        match event {
            ProcessEvent::Output { stream, bytes } => match stream {
                OutputStream::Stdout => self.stdout.extend_from_slice(&bytes),
                OutputStream::Stderr => self.stderr.extend_from_slice(&bytes),
                OutputStream::Pty => self.terminal.extend_from_slice(&bytes),
            },
            ProcessEvent::Exited { code, .. } => {
                ensure!(self.code.is_none(), "two exits");
                self.code = Some(code);
            }
            ProcessEvent::Dropped { .. } | ProcessEvent::Closed => {}
        }
        Ok(())
    }
}

async fn to_the_end(process: &mut Process) -> Result<Told> {
    let mut told = Told::default();
    while let Some(event) = process.next().await? {
        told.take(event)?;
    }
    Ok(told)
}

/// Waits until stdout holds `text`.
async fn says(process: &mut Process, told: &mut Told, text: &str) -> Result<()> {
    while !String::from_utf8_lossy(&told.stdout).contains(text) {
        told.take(process.next().await?.context("it ended")?)?;
    }
    Ok(())
}

fn sh(script: &str) -> ProcessSpec {
    ProcessSpec::new(["sh", "-c", script])
}

async fn processes(site: &Site, harness: &Harness) -> Result<()> {
    let mut spec = sh("echo out; echo err >&2; hostname; echo $SAID; pwd; cat; exit 3");
    spec.env.insert("SAID".into(), "yes".into());
    spec.cwd = Some(PathUri::parse("file:///usr/share")?);
    let mut process = harness.start(spec).await?;
    let mut other = harness.start(sh("echo other")).await?;
    ensure!(process.id() != other.id());
    let told = to_the_end(&mut process).await?;
    let stdout = format!("out\n{HOST_NAME}\nyes\n/usr/share\n");
    ensure!(
        (String::from_utf8_lossy(&told.stdout), &told.stderr[..], told.code) == (stdout.into(), b"err\n", Some(3)),
        "{told:?}"
    );
    ensure!(process.next().await?.is_none(), "events after the end");
    let mut events = Vec::new();
    while other.next_batch(&mut events, 100).await? > 0 {}
    ensure!(events.last() == Some(&ProcessEvent::Closed), "{events:?}");

    let mut spec = sh("stty size; pwd; exit 4");
    spec.tty = true;
    let told = to_the_end(&mut harness.start(spec).await?).await?;
    let terminal = format!("24 80\r\n{}\r\n", site.workspace.display());
    ensure!(told.terminal == terminal.as_bytes() && told.code == Some(4), "{told:?}");

    let mut spec = sh("read line; stty size");
    spec.tty = true;
    let mut process = harness.start(spec).await?;
    let can_resize = process.resize(7, 33).await?;
    ensure!(can_resize == harness.has_process_control());
    process.write(b"\n").await?;
    let told = to_the_end(&mut process).await?;
    let size = if can_resize { "7 33\r\n" } else { "24 80\r\n" };
    ensure!(String::from_utf8_lossy(&told.terminal).ends_with(size), "{told:?}");
    let error = harness.start(ProcessSpec::new(["/missing/program"])).await.err();
    ensure!(matches!(error, Some(HarnessError::Refused(_))), "{error:?}");
    Ok(())
}

async fn input(harness: &Harness) -> Result<()> {
    let mut spec = ProcessSpec::new(["cat"]);
    spec.stdin = Stdin::Pipe;
    let mut process = harness.start(spec).await?;
    let mut told = Told::default();
    process.write(b"one,").await?;
    says(&mut process, &mut told, "one,").await?;
    let control = process.control();
    control.write(&[0, 255]).await?;
    control.close_stdin().await?;
    while let Some(event) = process.next().await? {
        told.take(event)?;
    }
    ensure!(told.stdout == b"one,\x00\xff" && told.code == Some(0), "{told:?}");
    // Once more is no error.
    control.close_stdin().await?;

    let process = harness.start(sh("true")).await?;
    let refused = process.write(b"x").await;
    ensure!(matches!(refused, Err(HarnessError::StdinClosed)), "{refused:?}");
    Ok(())
}

async fn ends(harness: &Harness) -> Result<()> {
    let waiting = "echo up; exec sleep 100";
    for kills in [false, true] {
        let mut process = harness.start(sh(waiting)).await?;
        let mut told = Told::default();
        says(&mut process, &mut told, "up").await?;
        if kills {
            ensure!(process.terminate().await?, "it was not running");
        } else {
            process.interrupt().await?;
        }
        let code = to_the_end(&mut process).await?.code;
        // Some executors have no code for what they killed themselves.
        let expected = if kills { [137, -1] } else { [130, 130] };
        ensure!(code.is_some_and(|code| expected.contains(&code)), "{code:?}");
        ensure!(!process.terminate().await?, "it still runs");
    }
    Ok(())
}

async fn files(site: &Site, harness: &Harness) -> Result<()> {
    let content = Bytes::from_iter((0..100_000_u32).map(|i| i.to_be_bytes()[3] ^ i.to_be_bytes()[2]));
    let path = far(site, "a % file")?;
    harness.write_file(&path, content.clone()).await?;
    ensure!(std::fs::read(site.content.join("a % file"))? == content);
    ensure!(harness.read_file(&path).await? == content);
    harness.write_file(&path, Bytes::from_static(b"short")).await?;
    ensure!(harness.read_file(&path).await? == "short");

    let metadata = harness.metadata(&path).await?;
    ensure!(
        metadata.is_file && !metadata.is_directory && !metadata.is_symlink && metadata.size == 5,
        "{metadata:?}"
    );
    ensure!(metadata.modified_at_ms > 0, "{metadata:?}");
    symlink("a % file", site.content.join("link"))?;
    let link = harness.metadata(&far(site, "link")?).await?;
    ensure!(link.is_symlink && link.is_file && link.size == 5, "{link:?}");
    let real = harness.canonicalize(&far(site, "link")?).await?;
    ensure!(real == path, "{real}");

    let copy = far(site, "copy")?;
    harness.copy(&path, &copy, false).await?;
    ensure!(std::fs::read(site.content.join("copy"))? == b"short");
    harness.remove(&copy, false).await?;
    ensure!(!site.content.join("copy").exists());
    for error in [
        harness.remove(&copy, false).await.err(),
        harness.read_file(&copy).await.err(),
        harness.metadata(&copy).await.err(),
        harness.canonicalize(&copy).await.err(),
        harness.copy(&copy, &path, false).await.err(),
        harness.list(&copy).await.err(),
        harness.open(&copy).await.err(),
    ] {
        ensure!(error.as_ref().is_some_and(HarnessError::is_not_found), "{error:?}");
    }
    Ok(())
}

async fn trees(site: &Site, harness: &Harness) -> Result<()> {
    harness.create_directory(&far(site, "tree/inner/deep")?).await?;
    harness.create_directory(&far(site, "tree")?).await?;
    std::fs::write(site.content.join("tree/inner/file"), "x")?;
    let mut entries = harness.list(&far(site, "tree/inner")?).await?;
    entries.sort_by(|a, b| a.file_name.cmp(&b.file_name));
    let listed: Vec<_> = entries
        .iter()
        .map(|entry| (entry.file_name.as_str(), entry.is_directory, entry.is_file))
        .collect();
    ensure!(listed == [("deep", true, false), ("file", false, true)], "{listed:?}");

    let walk = |depth| {
        let options = WalkOptions {
            max_depth: depth,
            ..WalkOptions::MAX
        };
        async move { anyhow::Ok(harness.walk(&far(site, "tree")?, options).await?) }
    };
    let whole = walk(64).await?;
    let mut paths: Vec<_> = whole
        .entries
        .iter()
        .map(|entry| entry.path.as_str().to_owned())
        .collect();
    paths.sort_unstable();
    let expected = ["tree/inner", "tree/inner/deep", "tree/inner/file"];
    let expected: Vec<_> = expected
        .iter()
        .map(|name| Ok(far(site, name)?.as_str().to_owned()))
        .collect::<Result<_>>()?;
    ensure!(
        paths == expected && whole.errors.is_empty() && !whole.truncated,
        "{whole:?}"
    );
    ensure!(walk(0).await?.entries.len() == 1, "it went too deep");

    harness.copy(&far(site, "tree")?, &far(site, "second")?, true).await?;
    ensure!(std::fs::read_to_string(site.content.join("second/inner/file"))? == "x");
    let full = harness.remove(&far(site, "second")?, false).await;
    ensure!(matches!(full, Err(HarnessError::Refused(_))), "{full:?}");
    ensure!(site.content.join("second/inner/file").exists());
    harness.remove(&far(site, "second")?, true).await?;
    ensure!(!site.content.join("second").exists());
    Ok(())
}

async fn blocks(site: &Site, harness: &Harness) -> Result<()> {
    let content: Vec<u8> = (0..=250).cycle().take(2_500_000).collect();
    std::fs::write(site.content.join("blocks"), &content)?;
    let path = far(site, "blocks")?;
    let file = harness.open(&path).await?;
    let mut read = Vec::new();
    loop {
        let offset = u64::try_from(read.len())?;
        let block = file.read_block(offset, FileReader::MAX_BLOCK).await?;
        ensure!(block.is_end || !block.bytes.is_empty(), "nothing at {offset}");
        read.extend_from_slice(&block.bytes);
        if block.is_end {
            break;
        }
    }
    ensure!(read == content, "{} bytes", read.len());
    let middle = file.read_block(1000, 10).await?;
    ensure!(middle.bytes == content[1000..1010] && !middle.is_end, "{middle:?}");
    file.close().await?;

    if !harness.info().await?.capabilities.file_write_streaming {
        return Ok(());
    }
    let writer = harness.replace(&path).await?;
    let half = usize::try_from(FileWriter::MAX_BLOCK)?;
    writer
        .write_block(FileWriter::MAX_BLOCK, Bytes::from_static(b"end"))
        .await?;
    writer.write_block(0, content[..half].to_vec().into()).await?;
    writer.finish().await?;
    let replaced = [&content[..half], b"end"].concat();
    ensure!(std::fs::read(site.content.join("blocks"))? == replaced);

    let writer = harness.replace(&path).await?;
    writer.write_block(0, Bytes::from_static(b"never")).await?;
    writer.discard().await?;
    // Stock executors write into the file itself.
    let left = std::fs::read(site.content.join("blocks"))?;
    ensure!(site.end != End::Ours || left == replaced, "{} bytes", left.len());
    Ok(())
}

/// A server that answers one request with what was asked of it.
fn serve_once(body: &'static str) -> Result<(String, std::thread::JoinHandle<std::io::Result<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/path?q", listener.local_addr()?);
    let served = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept()?;
        connection.set_read_timeout(Some(wait::SOON))?;
        let mut request = Vec::new();
        while !request.ends_with(body.as_bytes()) || !request.windows(4).any(|part| part == b"\r\n\r\n") {
            let mut piece = [0; 1024];
            match connection.read(&mut piece)? {
                0 => break,
                read => request.extend_from_slice(&piece[..read]),
            }
        }
        write!(
            connection,
            "HTTP/1.1 418 Teapot\r\nx-answer: yes\r\ncontent-length: 6\r\nconnection: close\r\n\r\nanswer"
        )?;
        Ok(String::from_utf8_lossy(&request).into_owned())
    });
    Ok((url, served))
}

async fn web(harness: &Harness) -> Result<()> {
    let (url, served) = serve_once("the body")?;
    let mut request = HttpRequest::new("PUT", url).header("x-asked", "yes");
    request.body = Some(Bytes::from_static(b"the body"));
    request.timeout = Some(Duration::from_secs(30));
    let response = harness.http(request).await?;
    ensure!(response.status == 418 && response.body == "answer", "{response:?}");
    let answered = response
        .headers
        .iter()
        .any(|header| header.name == "x-answer" && header.value == "yes");
    ensure!(answered, "{response:?}");
    let request = served.join().map_err(|_panic| anyhow::anyhow!("the server failed"))??;
    ensure!(request.starts_with("PUT /path?q HTTP/1.1\r\n"), "{request}");
    ensure!(request.contains("x-asked: yes\r\n"), "{request}");

    let (url, served) = serve_once("")?;
    let mut stream = harness.http_stream(HttpRequest::new("GET", url)).await?;
    ensure!(stream.status == 418, "{stream:?}");
    let mut body = Vec::new();
    while let Some(bytes) = stream.next().await? {
        body.extend_from_slice(&bytes);
    }
    ensure!(body == b"answer", "{body:?}");
    ensure!(stream.next().await?.is_none());
    served.join().map_err(|_panic| anyhow::anyhow!("the server failed"))??;
    Ok(())
}

/// What the oldest executors do not know; they say so.
async fn newer_calls(site: &Site, harness: &Harness) -> Result<()> {
    let capabilities = harness.info().await?.capabilities;
    let missing = far(site, "appears")?;
    let watch = harness.watch_missing(std::slice::from_ref(&missing), None).await;
    if capabilities.fs_watch_missing {
        let watch = watch?.context("nothing to wait for")?;
        std::fs::write(site.content.join("appears"), "")?;
        let end = tokio::time::timeout(wait::SOON, watch.ended()).await?;
        ensure!(end == WatchEnd::Changed, "{end:?}");
    } else {
        ensure!(watch.as_ref().is_err_and(HarnessError::is_unsupported), "{watch:?}");
    }

    let skill = site.content.join("skills/one");
    std::fs::create_dir_all(&skill)?;
    std::fs::write(skill.join("SKILL.md"), "---\nname: one\ndescription: A skill.\n---\n")?;
    let found = harness.discover(&[far(site, "skills")?, far(site, "nowhere")?]).await;
    match found {
        Ok(roots) => {
            ensure!(roots.len() == 2 && roots[0].skills.len() == 1, "{roots:?}");
            let path = &roots[0].skills[0].instructions.path;
            ensure!(*path == far(site, "skills/one/SKILL.md")?, "{roots:?}");
            ensure!(roots[1].skills.is_empty(), "{roots:?}");
        }
        Err(error) => ensure!(site.end != End::Ours && error.is_unsupported(), "{error:?}"),
    }

    let keys = vec![vec!["mcp_servers".to_owned()]];
    let configuration = harness.configuration(&far(site, "")?, keys.clone(), keys).await;
    if capabilities.environment_config_read {
        let told = configuration?;
        ensure!(told.hostname.as_deref() == Some(HOST_NAME), "{told:?}");
    } else {
        ensure!(
            configuration.as_ref().is_err_and(HarnessError::is_unsupported),
            "{configuration:?}"
        );
    }
    Ok(())
}

/// Whoever lets go of a process ends it; the session ends with its last handle.
async fn last_handle(site: &Site, harness: Harness) -> Result<()> {
    let script = format!("echo $$ > {0}.part; mv {0}.part {0}; exec sleep 100", "held");
    let abandoned = harness.start(sh(&script)).await?;
    let process = super::far_process(site, "held").await?;
    drop(abandoned);
    process.gone().await?;

    let held = harness.start(sh(&script.replace("held", "kept"))).await?;
    let process = super::far_process(site, "kept").await?;
    let mut state = harness.link_state();
    drop(harness);
    ensure!(process.is_there(), "a held process ended with the other handles");
    drop(held);
    process.gone().await?;
    // The session is over when nobody tells of its state any more.
    tokio::time::timeout(wait::SOON, async { while state.changed().await.is_ok() {} }).await?;
    Ok(())
}
