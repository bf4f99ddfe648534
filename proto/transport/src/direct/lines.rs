use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use rendezvous_wire::limits::MAX_MESSAGE;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::codec::{Decoder, FramedRead};
use tokio_util::sync::CancellationToken;

use super::{Port, open};
use crate::link::{CLOSE_TIMEOUT, LinkError};
use crate::stream::{Backlog, Command, MessageStream, StreamEnd, Tag};

/// Bytes that are gathered for one read or write.
const BUFFER: usize = 64 * 1024;

/// Uses two byte streams as a stream of messages, one in each line. Blank lines are ignored, a line ends with LF or CR LF, and
/// may have 64 MiB without that. What is sent must not hold a line end. Must be called inside a Tokio runtime.
///
/// The end of `reader` ends what is received only: more can be sent until the application closes the stream, or the peer takes
/// nothing for a second.
pub fn over_lines<R, W>(reader: R, writer: W) -> MessageStream
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    // One client, which runs as whoever started us.
    let (stream, port) = open(&Backlog::unlimited());
    tokio::spawn(run(reader, writer, port));
    stream
}

async fn run<R, W>(reader: R, writer: W, port: Port)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Port { mut asked, outlet } = port;
    let input_ended = CancellationToken::new();
    let mut lines = FramedRead::with_capacity(reader, Lines::default(), BUFFER);
    let reading = async {
        loop {
            loop {
                let relieved = outlet.relieved();
                if !outlet.is_full() {
                    break;
                }
                relieved.await;
            }
            match lines.next().await {
                Some(Ok(line)) => outlet.put(line),
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let mut writing = Box::pin(write(
        BufWriter::with_capacity(BUFFER, writer),
        &mut asked,
        &input_ended,
    ));
    let end = tokio::select! {
        read = reading => {
            match read {
                Ok(()) => {
                    outlet.end_input(StreamEnd::Disconnected(Arc::new(LinkError::Closed {
                        code: None,
                        reason: String::new(),
                    })));
                    input_ended.cancel();
                    // An error ends the stream like its close.
                    let _ = writing.await;
                    drop(outlet);
                }
                Err(error) => {
                    outlet.end(error.into());
                    // What was sent before the application knew may leave.
                    let _ = timeout(CLOSE_TIMEOUT, writing).await;
                }
            }
            return;
        }
        written = &mut writing => match written {
            Ok(()) => StreamEnd::Closed,
            Err(error) => LinkError::Write(error).into(),
        },
    };
    outlet.end(end);
}

/// Writes until the application closes the stream. Once the input has ended, nobody else notices a peer that takes nothing.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    asked: &mut mpsc::UnboundedReceiver<(Tag, Command)>,
    input_ended: &CancellationToken,
) -> io::Result<()> {
    let stuck = async || {
        input_ended.cancelled().await;
        sleep(CLOSE_TIMEOUT).await;
    };
    let mut next = asked.recv().await;
    while let Some((_, command)) = next {
        match command {
            Command::Send(message) => {
                let line = async {
                    writer.write_all(&message).await?;
                    writer.write_all(b"\n").await
                };
                tokio::select! {
                    written = line => written?,
                    () = stuck() => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
            Command::Initialized | Command::Taken(_) | Command::Settle(_) => {}
            Command::Close(_) => break,
        }
        next = match asked.try_recv() {
            Ok(command) => Some(command),
            Err(_) => {
                tokio::select! {
                    flushed = writer.flush() => flushed?,
                    () = stuck() => return Err(io::ErrorKind::TimedOut.into()),
                }
                asked.recv().await
            }
        };
    }
    writer.flush().await
}

/// Cuts bytes into lines that are not blank.
#[derive(Debug, Default)]
struct Lines {
    /// Bytes that were searched already.
    searched: usize,
}

impl Lines {
    fn next_line(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, LinkError> {
        let end = memchr::memchr(b'\n', &source[self.searched..]);
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = source.len();
            // A line end of two bytes may follow.
            return if source.len() > MAX_MESSAGE + 1 {
                Err(LinkError::TooBig)
            } else {
                Ok(None)
            };
        };
        self.searched = 0;
        let line = source.split_to(end).freeze();
        source.advance(1);
        let line = trim(line);
        if line.len() > MAX_MESSAGE {
            return Err(LinkError::TooBig);
        }
        Ok(Some(line))
    }
}

impl Decoder for Lines {
    type Item = Bytes;
    type Error = LinkError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, LinkError> {
        while let Some(line) = self.next_line(source)? {
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// A last line need not be ended.
    fn decode_eof(&mut self, source: &mut BytesMut) -> Result<Option<Bytes>, LinkError> {
        if let Some(line) = self.decode(source)? {
            return Ok(Some(line));
        }
        self.searched = 0;
        let line = trim(source.split().freeze());
        if line.len() > MAX_MESSAGE {
            return Err(LinkError::TooBig);
        }
        Ok((!line.iter().all(u8::is_ascii_whitespace)).then_some(line))
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

fn trim(mut line: Bytes) -> Bytes {
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    line
}
