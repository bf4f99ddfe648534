//! The forwarders that are written here, each in a process of its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::accept_async;

/// What a child of ourselves does.
pub(crate) fn serve(role: &str, mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let result = match role {
        "copy" => arguments
            .next()
            .context("a target")
            .and_then(|target| copy(target.parse()?)),
        "naive" => naive(),
        _ => Err(anyhow::anyhow!("unknown role {role}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn copy(target: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    for inbound in listener.incoming() {
        let inbound = inbound?;
        let outbound = TcpStream::connect(target)?;
        inbound.set_nodelay(true)?;
        outbound.set_nodelay(true)?;
        for (mut from, mut to) in [(inbound.try_clone()?, outbound.try_clone()?), (outbound, inbound)] {
            std::thread::spawn(move || {
                let mut buffer = vec![0; 256 * 1024];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    if to.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    }
    Ok(())
}

/// Connections are paired in the order in which they come: executor, harness, executor, harness.
#[tokio::main]
async fn naive() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let waiting = Arc::new(tokio::sync::Mutex::new(None));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let waiting = waiting.clone();
        tokio::spawn(async move {
            let Ok(socket) = accept_async(stream).await else { return };
            let (mut sink, mut source) = socket.split();
            let (own, mut queue) = tokio::sync::mpsc::channel(64);
            let (meet, met) = tokio::sync::oneshot::channel();
            let mut waiting = waiting.lock().await;
            let other = match waiting.take() {
                None => {
                    *waiting = Some((own, meet));
                    None
                }
                Some((other, meet)) => {
                    let _: Result<(), _> = tokio::sync::oneshot::Sender::send(meet, own);
                    Some(other)
                }
            };
            drop(waiting);
            let writing = tokio::spawn(async move {
                while let Some(message) = queue.recv().await {
                    if sink.feed(message).await.is_err() {
                        return;
                    }
                    while let Ok(message) = queue.try_recv() {
                        if sink.feed(message).await.is_err() {
                            return;
                        }
                    }
                    if sink.flush().await.is_err() {
                        return;
                    }
                }
            });
            let other = match other {
                Some(other) => other,
                None => match met.await {
                    Ok(other) => other,
                    Err(_) => return,
                },
            };
            while let Some(Ok(message)) = source.next().await {
                if message.is_binary() && other.send(message).await.is_err() {
                    break;
                }
            }
            drop(other);
            writing.abort();
        });
    }
}
