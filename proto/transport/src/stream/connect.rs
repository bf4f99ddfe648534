use std::convert::Infallible;
use std::time::Instant;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::reliable::Config;
use rendezvous_channel::stream::{Event, SendError, Stream, StreamError, Target};
use rendezvous_wire::id::StreamId;
use rendezvous_wire::reason::close;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::driver::Driver;
use super::redial::{Never, Offer, Redial, Redialler};
use super::{Backlog, MessageStream, StreamEnd, pair};
use crate::link::{self, Link, LinkError};

/// Opens a stream to the executor at the other end of a harness's link: sends the handshake, waits for the answer, and
/// starts the task that drives the link from then on. The task ends with the stream and closes the link.
///
/// `budget` bounds what unfinished messages may occupy.
///
/// # Errors
///
/// Why there is no stream. The link is closed then.
///
/// # Panics
///
/// Outside of a Tokio runtime, and if the system gives no random numbers.
pub async fn connect<S>(
    link: Link<S>,
    identity: &Identity,
    target: &Target<'_>,
    budget: &Budget,
) -> Result<MessageStream, StreamEnd>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    open(link, identity, target, budget, None, Never::new()).await
}

/// Opens a stream as [`connect`] does, that may become reliable: [`Continuity`](super::Continuity) says whether it is
/// offered. Once both ends agreed, the task dials again whenever the link is lost, and the stream goes on where it was.
///
/// # Errors
///
/// As [`connect`].
///
/// # Panics
///
/// As [`connect`].
pub async fn connect_reliable<R: Redial>(
    link: Link<R::Socket>,
    identity: &Identity,
    target: &Target<'_>,
    budget: &Budget,
    offer: Offer<R>,
) -> Result<MessageStream, StreamEnd> {
    open(link, identity, target, budget, Some(offer.config), offer.redial).await
}

async fn open<R: Redial>(
    mut link: Link<R::Socket>,
    identity: &Identity,
    target: &Target<'_>,
    budget: &Budget,
    config: Option<Config>,
    redial: R,
) -> Result<MessageStream, StreamEnd> {
    let id = StreamId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is a stream id");
    let mut rng = UnwrapErr(SysRng);
    let opened = Stream::connect(now(), id.clone(), identity, target, budget, &mut rng);
    let mut stream = opened.map_err(StreamError::from)?;
    if let Some(config) = config {
        stream = stream.offering(config);
    }
    if let Err(end) = shake_hands(&mut link, &mut stream).await {
        if !matches!(end, StreamEnd::Disconnected(_)) {
            link.close(close::NORMAL, "").await;
        }
        return Err(end);
    }
    let (commands, asked) = mpsc::unbounded_channel();
    // What the application keeps is its own affair.
    let (handle, outlet) = pair(id, None, &commands, &Backlog::unlimited(), stream.is_undecided());
    let driver = Driver {
        link: Some(link),
        stream,
        outlet,
        asked,
        redialler: Redialler::new(redial, now()),
        is_moved: false,
        is_taken_up: true,
        refusals: 0,
        end: StreamEnd::Closed,
    };
    tokio::spawn(driver.run());
    Ok(handle)
}

async fn shake_hands<S>(link: &mut Link<S>, stream: &mut Stream) -> Result<(), StreamEnd>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let event = stream.poll_event();
        send(link, stream)?;
        match event {
            Some(Event::Connected) => return Ok(()),
            Some(Event::Reset { reason }) => return Err(StreamEnd::Reset(reason)),
            Some(Event::Failed(error)) => return Err(error.into()),
            Some(_) | None => {}
        }
        tokio::select! {
            event = link.next() => match event? {
                link::Event::Message(message) => stream.handle_message(now(), message),
                link::Event::Writable => {}
            },
            () = at(stream.poll_timeout()) => stream.handle_timeout(now()),
        }
    }
}

/// Gives the link as much as it takes.
pub(super) fn send<S>(link: &mut Link<S>, stream: &mut Stream) -> Result<(), LinkError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while link.has_room() {
        match stream.poll_transmit() {
            Some(frame) => link.feed(frame)?,
            None => break,
        }
    }
    Ok(())
}

/// Tokio's clock, which tests can stop.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Waits for this time, or for ever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// The next message of a link, or only its upkeep while the application takes nothing.
pub(crate) async fn next_unless<S>(link: &mut Link<S>, paused: bool) -> Result<link::Event, LinkError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if paused {
        let never: Infallible = link.idle().await?;
        match never {}
    }
    link.next().await
}

/// Whether a stream can go on with what became of a message. A handle sends only what fits and is allowed, so all that
/// should be wrong is that the stream ended meanwhile; one that has lost a message must not go on.
pub(crate) fn is_accepted(result: Result<(), SendError>) -> bool {
    match result {
        Ok(()) => true,
        Err(SendError::Closed) => {
            tracing::debug!("message dropped, the stream is over");
            true
        }
        Err(error) => {
            tracing::error!(%error, "a message was given room and found none");
            false
        }
    }
}
