//! A WebSocket that costs its client next to nothing, so that the server is what is measured: messages go to the kernel from
//! where they are, and are read into one buffer. Not for use against anybody: it checks little.

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const TEXT: u8 = 0x1;
const CONTINUATION: u8 = 0x0;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

pub(crate) struct Socket {
    stream: BufReader<TcpStream>,
    message: Vec<u8>,
}

impl Socket {
    /// Opens a WebSocket to `IP:PORT`.
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(128 * 1024, stream);
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        ensure!(line.contains(" 101 "), "the upgrade was answered with {line}");
        while line.trim() != "" {
            line.clear();
            stream.read_line(&mut line).await?;
        }
        let message = Vec::new();
        Ok(Self { stream, message })
    }

    /// Sends a text, given in parts, in one frame. Its mask is zero: the text need not be touched, and the server unmasks it
    /// nevertheless.
    pub(crate) async fn send(&mut self, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = vec![FIN | TEXT];
        match (u8::try_from(len), u16::try_from(len)) {
            (Ok(len @ ..126), _) => head.push(MASKED | len),
            (_, Ok(len)) => {
                head.push(MASKED | 126);
                head.extend(len.to_be_bytes());
            }
            _ => {
                head.push(MASKED | 127);
                head.extend((len as u64).to_be_bytes());
            }
        }
        head.extend([0; 4]);
        // Short parts leave with the head.
        for part in parts {
            if part.len() < 1024 {
                head.extend_from_slice(part);
            } else {
                self.stream.write_all(&head).await?;
                head.clear();
                self.stream.write_all(part).await?;
            }
        }
        self.stream.write_all(&head).await?;
        Ok(())
    }

    /// The next message.
    pub(crate) async fn recv(&mut self) -> Result<&[u8]> {
        self.message.clear();
        loop {
            let mut head = [0; 2];
            self.stream
                .read_exact(&mut head)
                .await
                .context("the connection ended")?;
            let [first, len] = head;
            let len = match len {
                126 => u64::from(self.stream.read_u16().await?),
                127 => self.stream.read_u64().await?,
                len => u64::from(len),
            };
            let len = usize::try_from(len)?;
            match first & 0xf {
                TEXT | BINARY | CONTINUATION => {
                    let start = self.message.len();
                    self.message.resize(start + len, 0);
                    self.stream.read_exact(&mut self.message[start..]).await?;
                    if first & FIN != 0 {
                        return Ok(&self.message);
                    }
                }
                CLOSE => bail!("the server closed the connection"),
                // Pings: neither server wants an answer that soon.
                _ => {
                    self.stream.read_exact(&mut vec![0; len]).await?;
                }
            }
        }
    }
}
