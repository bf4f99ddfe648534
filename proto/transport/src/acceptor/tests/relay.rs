//! The least that a relay does: frames to the executor as they come, frames back by their stream id, and a reset for the
//! executor when a harness goes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rendezvous_wire::frame::Frame;
use rendezvous_wire::frame::peek::route;
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::link::{Dialect, Event, Link};
use crate::stream::next_unless;

/// Frames that wait for one harness, or for the executor.
const QUEUE: usize = 4;

/// The two ends of a connection: a client's and a server's.
pub(super) async fn link_pair() -> (Link<DuplexStream>, Link<DuplexStream>) {
    let (near, far) = duplex(256 * 1024);
    let server = WebSocketStream::from_raw_socket(far, Role::Server, Some(Dialect::Relay.config())).await;
    (Link::client(near).await, Link::new(server, Dialect::Relay))
}

pub(super) struct Relay {
    harnesses: mpsc::UnboundedSender<Link<DuplexStream>>,
    texts: mpsc::UnboundedSender<()>,
    resets: mpsc::UnboundedSender<()>,
    /// Lengths of the frames of the executor.
    pub(super) lengths: Arc<Mutex<Vec<usize>>>,
    /// Bytes that the executor's way takes in a second, if that is bounded.
    pub(super) rate: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(super) fn start(executor: Link<DuplexStream>) -> Self {
        let (harnesses, arriving) = mpsc::unbounded_channel();
        let (texts, texts_asked) = mpsc::unbounded_channel();
        let (resets, resets_asked) = mpsc::unbounded_channel();
        let (lengths, rate) = (Arc::default(), Arc::default());
        let asked = Asked {
            arriving,
            texts: texts_asked,
            resets: resets_asked,
            lengths: Arc::clone(&lengths),
            rate: Arc::clone(&rate),
        };
        Self {
            harnesses,
            texts,
            resets,
            lengths,
            rate,
            task: tokio::spawn(run(executor, asked)),
        }
    }

    /// A new harness's end of a connection.
    pub(super) async fn harness(&self) -> Link<DuplexStream> {
        let (near, far) = link_pair().await;
        self.take_harness(far).unwrap();
        near
    }

    /// Takes the far end of a harness's connection, unless the relay has stopped.
    pub(super) fn take_harness(&self, far: Link<DuplexStream>) -> Result<(), Stopped> {
        self.harnesses.send(far).map_err(|_| Stopped)
    }

    /// Sends the executor a text message.
    pub(super) fn send_text(&self) {
        self.texts.send(()).unwrap();
    }

    /// Sends every harness a reset that nobody meant.
    pub(super) fn forge_resets(&self) {
        self.resets.send(()).unwrap();
    }

    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

/// Nobody is there.
#[derive(Debug)]
pub(super) struct Stopped;

enum Upwards {
    Frame(Bytes, mpsc::Sender<Bytes>),
    Gone(StreamId, mpsc::Sender<Bytes>),
}

/// What tests want.
struct Asked {
    arriving: mpsc::UnboundedReceiver<Link<DuplexStream>>,
    texts: mpsc::UnboundedReceiver<()>,
    resets: mpsc::UnboundedReceiver<()>,
    lengths: Arc<Mutex<Vec<usize>>>,
    rate: Arc<AtomicUsize>,
}

async fn run(mut executor: Link<DuplexStream>, mut asked: Asked) {
    let (up, mut upwards) = mpsc::channel(QUEUE);
    let mut routes: HashMap<String, mpsc::Sender<Bytes>> = HashMap::new();
    loop {
        let room = executor.has_room();
        tokio::select! {
            Some(()) = asked.texts.recv() => executor.feed_text("{}").unwrap(),
            Some(()) = asked.resets.recv() => for (id, back) in &routes {
                let reset = Frame::reset(StreamId::new(id.clone()).unwrap(), "forged");
                // A harness that is gone takes no frame.
                let _ = back.send(reset.to_bytes()).await;
            },
            Some(link) = asked.arriving.recv() => drop(tokio::spawn(harness(link, up.clone()))),
            Some(message) = upwards.recv(), if room => {
                let frame = match message {
                    Upwards::Frame(frame, back) => {
                        let id = route(&frame).unwrap().stream_id.to_owned();
                        routes.insert(id, back);
                        frame
                    }
                    Upwards::Gone(id, back) => {
                        // Whoever takes its stream up again may be here before its old connection is gone.
                        if !routes.get(id.as_str()).is_some_and(|route| route.same_channel(&back)) {
                            continue;
                        }
                        routes.remove(id.as_str());
                        Frame::reset(id, reason::HARNESS_GONE).to_bytes()
                    }
                };
                if executor.feed(frame).is_err() {
                    return;
                }
            }
            event = executor.next() => match event {
                Ok(Event::Message(frame)) => {
                    asked.lengths.lock().unwrap().push(frame.len());
                    if let rate @ 1.. = asked.rate.load(Ordering::Relaxed) {
                        sleep(Duration::from_secs_f64(frame.len() as f64 / rate as f64)).await;
                    }
                    if let Some(back) = routes.get(route(&frame).unwrap().stream_id) {
                        // A harness that is gone takes no frame.
                        let _ = back.send(frame).await;
                    }
                }
                Ok(Event::Writable) => {}
                Err(_) => return,
            },
        }
    }
}

async fn harness(mut link: Link<DuplexStream>, up: mpsc::Sender<Upwards>) {
    let (back, mut downwards) = mpsc::channel(QUEUE);
    let mut id = None;
    let mut pending = None;
    loop {
        let room = link.has_room();
        tokio::select! {
            frame = downwards.recv(), if room => {
                let Some(frame) = frame else {
                    return;
                };
                // A harness that is closing takes no frame, but what it sent before is still to be read.
                let _ = link.feed(frame);
            }
            permit = up.reserve(), if pending.is_some() => match (permit, pending.take()) {
                (Ok(permit), Some(frame)) => permit.send(Upwards::Frame(frame, back.clone())),
                _ => return,
            },
            event = next_unless(&mut link, pending.is_some()) => match event {
                Ok(Event::Message(frame)) => {
                    id.get_or_insert_with(|| StreamId::new(route(&frame).unwrap().stream_id).unwrap());
                    pending = Some(frame);
                }
                Ok(Event::Writable) => {}
                Err(_) => break,
            },
            () = up.closed() => return,
        }
    }
    if let Some(id) = id {
        // A relay that is gone tells nobody.
        let _ = up.send(Upwards::Gone(id, back)).await;
    }
}
