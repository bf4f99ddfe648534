//! Exec-servers of either make, and connections to them that carry JSON-RPC messages as they are: straight to a listener, over
//! stdin and stdout, or through registry and relay.
//!
//! A [`Connection`] knows nothing of JSON-RPC: tests say what goes out, byte for byte, and see what comes back.

mod relayed;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use self::relayed::Relayed;
use crate::executor::End;
use crate::{Command, Context, Program, binaries, stock, wait};

/// Messages on their way to or from the socket.
const QUEUE: usize = 64;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A WebSocket listener, one server for many connections.
    WebSocket,
    /// Lines on stdin and stdout, one server for each connection.
    Stdio,
    /// Through our registry and relay, to an executor of ours.
    Relay,
    /// Through our registry and relay, to `executor forward`, which passes them on to a listener.
    Forward,
}

impl Over {
    /// The name in test names.
    pub fn name(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Stdio => "stdio",
            Self::Relay => "relay",
            Self::Forward => "forward",
        }
    }
}

/// An exec-server.
#[derive(Debug)]
pub struct ExecServer {
    end: End,
    over: Over,
    way: Way,
    /// What runs as long as the server does.
    _programs: Vec<Program>,
    /// A folder that the server may write to.
    pub folder: PathBuf,
}

#[derive(Debug)]
enum Way {
    /// A listener's URL.
    Listener(String),
    /// What each connection starts.
    Stdio(Command),
    /// Registry, relay and executor.
    Relay(Box<Relayed>),
}

impl ExecServer {
    /// Starts a server; `flags` come behind those that say where it serves.
    ///
    /// # Errors
    ///
    /// A binary is missing, or does not get ready.
    pub async fn start(cx: &Context, end: End, over: Over, flags: &[&str]) -> Result<Self> {
        let name = format!("{}-{}", end.name(), over.name());
        let folder = cx.subfolder(&format!("{name}-work"))?;
        let mut programs = Vec::new();
        let way = match over {
            Over::WebSocket => {
                let (program, url) = listen(cx, end, &name, &folder, flags).await?;
                programs.push(program);
                Way::Listener(url)
            }
            Over::Stdio => {
                let command = command(cx, end, &name)?.folder(&folder);
                Way::Stdio(command.args(["--listen", "stdio"]).args(flags))
            }
            Over::Relay => {
                let command = command(cx, end, &name)?.folder(&folder).args(flags);
                Way::Relay(Box::new(Relayed::start(cx, &name, command).await?))
            }
            Over::Forward => {
                let (program, url) = listen(cx, end, &name, &folder, flags).await?;
                let forwarder = command(cx, End::Ours, &format!("{name}-forwarder"))?;
                let forwarder = forwarder.args(["forward", "--connect", &url]);
                let relayed = Relayed::start(cx, &format!("{name}-forwarder"), forwarder).await?;
                programs.push(program);
                Way::Relay(Box::new(relayed))
            }
        };
        Ok(Self {
            end,
            over,
            way,
            _programs: programs,
            folder,
        })
    }

    /// Whose server it is.
    pub fn end(&self) -> End {
        self.end
    }

    /// How its connections travel.
    pub fn over(&self) -> Over {
        self.over
    }

    /// Where a listener listens: `IP:PORT`.
    ///
    /// # Errors
    ///
    /// It is no listener.
    pub fn address(&self) -> Result<&str> {
        match &self.way {
            Way::Listener(url) => Ok(url.trim_start_matches("ws://")),
            _ => bail!("no listener"),
        }
    }

    /// Sends the head of an HTTP request to a listener: its first line and header lines, without `Host`. The status of the
    /// answer.
    ///
    /// # Errors
    ///
    /// It is no listener, or gives no answer.
    pub async fn status(&self, head: &str) -> Result<u16> {
        let address = self.address()?;
        let mut socket = TcpStream::connect(address).await?;
        let request = format!("{}\r\nHost: {address}\r\n\r\n", head.trim_end().replace('\n', "\r\n"));
        socket.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let mut lines = BufReader::new(socket);
        let read = lines.read_until(b'\n', &mut answer);
        tokio::time::timeout(wait::SOON, read).await.context("an answer")??;
        let line = String::from_utf8_lossy(&answer).into_owned();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.with_context(|| format!("the answer `{line}`"))
    }

    /// Opens a connection; nothing is sent on it yet.
    ///
    /// # Errors
    ///
    /// The server does not take it.
    pub async fn connect(&self) -> Result<Connection> {
        match &self.way {
            Way::Listener(url) => websocket(url).await,
            Way::Stdio(command) => stdio(command.clone()),
            Way::Relay(relayed) => relayed.connect().await,
        }
    }
}

/// An exec-server's command line up to its flags.
fn command(cx: &Context, end: End, name: &str) -> Result<Command> {
    match end {
        End::Ours => {
            let temporary = cx.subfolder(&format!("{name}-tmp"))?;
            let command = Command::new(binaries::ours("executor")?);
            Ok(command.env("HOME", cx.folder()).env("TMPDIR", temporary))
        }
        End::Stock(version) => Ok(stock::listener(cx, version, name)?.arg("exec-server")),
    }
}

/// Starts a listener; gives its URL.
async fn listen(cx: &Context, end: End, name: &str, folder: &Path, flags: &[&str]) -> Result<(Program, String)> {
    let command = command(cx, end, name)?.folder(folder);
    let command = command.args(["--listen", "ws://127.0.0.1:0"]).args(flags);
    let mut program = Program::start(cx, name, command)?;
    let rest = program.line("ws://", wait::SOON).await?;
    Ok((program, format!("ws://{}", rest.trim())))
}

/// A connection. Dropping it is a lost connection.
#[derive(Debug)]
pub struct Connection {
    outgoing: mpsc::Sender<Vec<u8>>,
    incoming: mpsc::Receiver<Vec<u8>>,
    /// With stdio, the server itself.
    _server: Option<Child>,
}

impl Connection {
    /// A connection whose messages go through these queues.
    pub fn new(outgoing: mpsc::Sender<Vec<u8>>, incoming: mpsc::Receiver<Vec<u8>>) -> Self {
        Self {
            outgoing,
            incoming,
            _server: None,
        }
    }

    /// Sends one message. A connection that has ended takes it, too.
    pub async fn send(&self, message: impl Into<Vec<u8>>) {
        // The end shows when the answer is read.
        let _ = self.outgoing.send(message.into()).await;
    }

    /// The next message; nothing once the server has ended the connection.
    pub async fn recv(&mut self) -> Option<Vec<u8>> {
        self.incoming.recv().await
    }
}

async fn websocket(url: &str) -> Result<Connection> {
    let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
    let connected = tokio_tungstenite::connect_async_with_config(url, Some(config), true);
    let (socket, _) = connected.await.context("WebSocket upgrade")?;
    let (outgoing, mut to_send) = mpsc::channel::<Vec<u8>>(QUEUE);
    let (received, incoming) = mpsc::channel(QUEUE);
    let (mut sink, mut stream) = socket.split();
    let writer = tokio::spawn(async move {
        while let Some(message) = to_send.recv().await {
            let message = match String::from_utf8(message) {
                Ok(text) => Message::text(text),
                Err(error) => Message::binary(error.into_bytes()),
            };
            if sink.send(message).await.is_err() {
                // The reader sees the end.
                std::future::pending::<()>().await;
            }
        }
    });
    tokio::spawn(async move {
        tokio::select! {
            () = async {
                while let Some(Ok(message)) = stream.next().await {
                    match message {
                        Message::Text(text) if received.send(text.as_bytes().to_vec()).await.is_ok() => {}
                        Message::Ping(_) | Message::Pong(_) => {}
                        _ => break,
                    }
                }
            } => {}
            // The test let go of the connection.
            _ = writer => {}
        }
    });
    Ok(Connection::new(outgoing, incoming))
}

fn stdio(command: Command) -> Result<Connection> {
    let mut child = command.build().stderr(std::process::Stdio::null()).spawn()?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("no pipes");
    };
    let (outgoing, mut to_send) = mpsc::channel::<Vec<u8>>(QUEUE);
    let (received, incoming) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while let Some(mut message) = to_send.recv().await {
            message.push(b'\n');
            if stdin.write_all(&message).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    });
    tokio::spawn(async move {
        let mut lines = BufReader::new(stdout).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            if received.send(line).await.is_err() {
                break;
            }
        }
    });
    Ok(Connection {
        _server: Some(child),
        ..Connection::new(outgoing, incoming)
    })
}
