//! A signal that comes while the executor starts the command: nothing may be left behind.

use anyhow::{Context as _, Result, ensure};
use futures_util::{SinkExt as _, StreamExt as _};
use nix::sys::signal::Signal;
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::{Command, Context, Program, binaries, wait};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::task::AbortOnDropHandle;

use crate::runner::{Case, When};

pub(super) fn cases() -> Vec<Case> {
    [Signal::SIGINT, Signal::SIGTERM]
        .map(|signal| {
            let name = format!("environments::interrupted::{signal}");
            Case::new(name, When::Always, move |cx| play(cx, signal))
        })
        .into()
}

async fn play(cx: Context, signal: Signal) -> Result<()> {
    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    let (_server, url) = executor::listen(&cx, End::Ours, &workspace, &content).await?;
    let proxy = Proxy::start(url).await?;
    let script = format!(
        "cd {}; echo $$ >new; mv new number; exec sleep 1000",
        workspace.display()
    );
    let command = Command::new(binaries::ours("harness")?)
        .args(["run", "--", "sh", "-c", &script])
        .env("HOME", cx.folder())
        .env("CODEX_HOME", cx.folder())
        .env("CODEX_EXEC_SERVER_URL", &proxy.url);
    let mut program = Program::start(&cx, "harness", command)?;
    let number = || std::fs::read_to_string(content.join("number")).ok();
    let number = wait::until("the number of the command", wait::SOON, || std::future::ready(number())).await?;
    let process = format!("/proc/{}", number.trim());
    ensure!(std::path::Path::new(&process).exists(), "it does not run");
    program.signal(signal)?;
    program.stderr().contains("ending the command", wait::SOON).await?;
    ensure!(proxy.release.send(()).is_ok(), "nothing is held up");
    let finished = program.finish(wait::SOON).await?;
    ensure!(
        finished.code == 128 + signal as i32,
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    wait::until_true("the end of the command", wait::SOON, || {
        !std::path::Path::new(&process).exists()
    })
    .await
}

/// Passes messages on to an exec-server; what it says behind a `process/start` waits to be released.
struct Proxy {
    url: String,
    release: oneshot::Sender<()>,
    _task: AbortOnDropHandle<Result<()>>,
}

impl Proxy {
    async fn start(server: String) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("ws://{}", listener.local_addr()?);
        let (release, released) = oneshot::channel();
        let task = tokio::spawn(async move {
            let (socket, _) = listener.accept().await?;
            pass(socket, &server, released).await
        });
        Ok(Self {
            url,
            release,
            _task: AbortOnDropHandle::new(task),
        })
    }
}

async fn pass(socket: TcpStream, server: &str, mut released: oneshot::Receiver<()>) -> Result<()> {
    let mut client = tokio_tungstenite::accept_async(socket).await?;
    let (mut server, _) = tokio_tungstenite::connect_async(server).await?;
    let (mut held, mut free) = (false, false);
    loop {
        tokio::select! {
            message = client.next() => {
                let message = message.context("the harness left")??;
                held |= says_start(&message);
                server.send(message).await?;
            }
            message = server.next(), if !held || free => {
                client.send(message.context("the executor left")??).await?;
            }
            _ = &mut released, if !free => free = true,
        }
    }
}

fn says_start(message: &Message) -> bool {
    memchr::memmem::find(&message.clone().into_data(), b"\"process/start\"").is_some()
}
