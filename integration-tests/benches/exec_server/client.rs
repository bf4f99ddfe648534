//! A JSON-RPC client that spends as little as possible on a message.

use anyhow::{Context as _, Result, bail};
use rendezvous_integration_tests::exec_server::ExecServer;
use serde::Deserialize;

use crate::socket::Socket;

/// A message from a server; of long texts only their place in it.
#[derive(Debug, Deserialize)]
struct Incoming<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<News<'a>>,
    #[serde(borrow)]
    result: Option<Answer<'a>>,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct News<'a> {
    #[serde(borrow, default)]
    chunk: Option<&'a str>,
}

/// What answers hold that is counted here.
#[derive(Debug, Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    chunk: Option<&'a str>,
    #[serde(borrow, default, rename = "dataBase64")]
    data: Option<&'a str>,
}

/// What a process told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// So many bytes of output.
    Output(usize),
    /// The process ended.
    Exited,
    /// Its output ended, too.
    Closed,
}

pub(crate) struct Client {
    socket: Socket,
    next_id: u64,
}

impl Client {
    pub(crate) async fn connect(server: &ExecServer) -> Result<Self> {
        let mut client = Self {
            socket: Socket::connect(server.address()?).await?,
            next_id: 1,
        };
        client.call("initialize", r#"{"clientName":"bench"}"#).await?;
        client.socket.send(&[br#"{"method":"initialized"}"#]).await?;
        Ok(client)
    }

    /// Sends a request and gives its id.
    pub(crate) async fn begin(&mut self, method: &str, params: &str) -> Result<u64> {
        self.begin_with(method, [params, "", ""]).await
    }

    /// The same, with parameters in parts.
    async fn begin_with(&mut self, method: &str, params: [&str; 3]) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let head = format!(r#"{{"id":{id},"method":"{method}","params":"#);
        let [one, two, three] = params.map(str::as_bytes);
        self.socket.send(&[head.as_bytes(), one, two, three, b"}"]).await?;
        Ok(id)
    }

    /// Calls and gives the bytes that the answer holds; drops what is told meanwhile.
    pub(crate) async fn call(&mut self, method: &str, params: &str) -> Result<usize> {
        let id = self.begin(method, params).await?;
        self.answer(id).await
    }

    /// Calls with parameters in parts, the long one in the middle.
    pub(crate) async fn call_with(&mut self, method: &str, params: [&str; 3]) -> Result<usize> {
        let id = self.begin_with(method, params).await?;
        self.answer(id).await
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<usize> {
        loop {
            let message = self.socket.recv().await?;
            let message: Incoming<'_> = serde_json::from_slice(message).context("a message")?;
            if let Some(error) = message.error {
                bail!("refused: {error}");
            }
            if message.id == Some(id) {
                let answer = message.result.context("a result")?;
                return Ok(answer.chunk.or(answer.data).map_or(0, decoded));
            }
        }
    }

    /// The next event of the only process; drops answers.
    pub(crate) async fn event(&mut self) -> Result<Event> {
        loop {
            let message = self.socket.recv().await?;
            let message: Incoming<'_> = serde_json::from_slice(message).context("a message")?;
            if let Some(error) = message.error {
                bail!("refused: {error}");
            }
            return Ok(match message.method {
                Some("process/output") => {
                    let chunk = message.params.and_then(|params| params.chunk).context("a chunk")?;
                    Event::Output(decoded(chunk))
                }
                Some("process/exited") => Event::Exited,
                Some("process/closed") => Event::Closed,
                Some(_) | None => continue,
            });
        }
    }
}

/// The length of what a base64 text stands for.
fn decoded(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    text.len() / 4 * 3 - padding
}
