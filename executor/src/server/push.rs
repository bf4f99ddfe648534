//! Pushes what happens to processes.

use std::sync::Arc;

use bytes::Bytes;
use rendezvous_host::process::{Change, Event, Stream};
use rendezvous_rpc::envelope::write_notification;
use rendezvous_rpc::method::Notification;
use rendezvous_rpc::method::process::{Closed, ClosedParams, Exited, ExitedParams, OutputStream, write_output};
use tokio::sync::mpsc;

use super::Sink;

/// Events that wait for a stream before the processes that made them are held up; 32 pieces of output are 1.4 MB.
pub(super) const MAX_EVENTS: usize = 32;

/// Sends events as notifications until the stream or the queue ends.
pub(super) async fn push(sink: Arc<impl Sink>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        let message = match encode(&event) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, "an event could not be written");
                continue;
            }
        };
        if !sink.send(message).await {
            return;
        }
    }
}

/// Sends whole messages until the stream or the queue ends.
pub(super) async fn pass_on(sink: Arc<impl Sink>, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        if !sink.send(message).await {
            return;
        }
    }
}

/// Writes the notification for an event.
fn encode(event: &Event) -> serde_json::Result<Bytes> {
    let mut out = Vec::new();
    match &event.change {
        Change::Output(chunk) => {
            write_output(
                &mut out,
                &event.process,
                chunk.seq,
                stream_name(chunk.stream),
                &chunk.data,
            )?;
        }
        Change::Exited { seq, code, denied } => {
            let params = ExitedParams {
                process_id: event.process.as_ref().to_owned(),
                seq: *seq,
                exit_code: *code,
                sandbox_denied: Some(*denied),
            };
            write_notification(&mut out, Exited::NAME, &params)?;
        }
        Change::Closed { seq } => {
            let params = ClosedParams {
                process_id: event.process.as_ref().to_owned(),
                seq: *seq,
            };
            write_notification(&mut out, Closed::NAME, &params)?;
        }
    }
    Ok(out.into())
}

/// The name of a stream on the wire.
pub(crate) fn stream_name(stream: Stream) -> OutputStream {
    match stream {
        Stream::Stdout => OutputStream::Stdout,
        Stream::Stderr => OutputStream::Stderr,
        Stream::Pty => OutputStream::Pty,
    }
}
