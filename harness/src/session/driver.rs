//! Connects, moves messages, keeps time: the one task of a session.

mod stream;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_rpc::method::initialize::RELIABLE_STREAM;
use rendezvous_transport::backoff::STABLE;
use rendezvous_transport::stream::Continuity;
use rendezvous_transport::wake;
use rendezvous_wire::limits::INITIALIZE_TIMEOUT;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::stream::Stream;
use super::core::questions::Question;
use super::core::{Core, Peer};
use super::{Command, Notice};
use crate::error::{AttemptError, HarnessError};
use crate::recovery::{Decision, Policy, Recovery};

/// A connection that ends sooner counts as one more failed attempt of the recovery that made it.
const USABLE: Duration = Duration::from_secs(5);
/// Longest time for the last messages of a session that is shut down.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a connection that should be replaced may wait for a moment in which nothing is under way; then no new calls are
/// taken until there is one.
const RENEWAL_PATIENCE: Duration = Duration::from_secs(600);

/// Makes connections to the executor.
pub(crate) trait Connector: Send + 'static {
    type Link: Link;

    /// One attempt, up to a channel that carries messages.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Link, AttemptError>> + Send;

    /// Looks at what the executor told in `initialize`, before anything else is said to it.
    fn confirm(&mut self, _peer: &mut Peer) -> impl Future<Output = Result<(), AttemptError>> + Send {
        std::future::ready(Ok(()))
    }

    /// How long the executor may take to answer `initialize`.
    fn initialize_timeout(&self) -> Duration {
        INITIALIZE_TIMEOUT
    }
}

/// A connection that carries whole messages.
pub(crate) trait Link: Send {
    /// Sends from the front of `outbox` and gives the next message; with `take` false it only sends. May be dropped at any
    /// time without losing a message. Ends only with a message or an error.
    fn exchange(
        &mut self,
        outbox: &mut VecDeque<Bytes>,
        take: bool,
    ) -> impl Future<Output = Result<Bytes, AttemptError>> + Send;

    /// How its stream outlives the connection below, if it can.
    fn continuity(&self) -> Option<watch::Receiver<Continuity>> {
        None
    }

    /// Says whether both sides named the extension by which it can.
    fn settle(&self, _agreed: bool) {}

    /// Sends everything that was taken, and ends the connection.
    fn close(self, outbox: VecDeque<Bytes>) -> impl Future<Output = ()> + Send;
}

/// How the connection is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LinkState {
    /// Not connected yet.
    Connecting,
    /// Messages flow.
    Connected,
    /// It was lost, and is being made again.
    Recovering {
        /// Since when.
        since: Instant,
    },
    /// It will not come back.
    Failed(HarnessError),
}

/// What the handles and the driver share.
pub(crate) struct Shared {
    pub(crate) commands: mpsc::Receiver<Command>,
    /// At most two entries for each process, of which there are [`super::MAX_PROCESSES`].
    pub(crate) notices: mpsc::UnboundedReceiver<Notice>,
    pub(crate) state: watch::Sender<LinkState>,
    /// Counts the connections that are over.
    pub(crate) connections: watch::Sender<u64>,
    /// Takes the outcome of the first connect.
    pub(crate) connected: Option<oneshot::Sender<Result<Peer, HarnessError>>>,
}

/// How a connection's time ended.
enum End {
    /// It may be made again; when it was lost.
    Lost(AttemptError, Instant),
    /// Another one should take its place.
    Worn,
    /// Nobody holds a handle any more.
    Unused,
}

/// Runs a session until it fails for good or nobody holds a handle any more.
pub(crate) async fn run<C: Connector>(connector: C, mut core: Core, mut shared: Shared, first: Policy, lost: Policy) {
    let Err(error) = keep(connector, &mut core, &mut shared, first, lost).await else {
        return;
    };
    let error = std::sync::Arc::new(error);
    let error = match shared.connected.take() {
        Some(connected) => {
            let error = HarnessError::of_attempt(error, HarnessError::Unreachable);
            let _ = connected.send(Err(error.clone()));
            error
        }
        None => HarnessError::of_attempt(error, HarnessError::Lost),
    };
    shared.state.send_replace(LinkState::Failed(error.clone()));
    core.fail(&error);
    while let Some(command) = shared.commands.recv().await {
        core.command(command);
    }
}

/// Makes connections, one after the other, while somebody holds a handle.
async fn keep<C: Connector>(
    mut connector: C,
    core: &mut Core,
    shared: &mut Shared,
    first: Policy,
    lost: Policy,
) -> Result<(), AttemptError> {
    let mut recovery = Recovery::new(first, now());
    let mut was_lost = false;
    loop {
        let Some(mut link) = establish(&mut connector, core, shared, &mut recovery).await? else {
            return Ok(());
        };
        let up = now();
        shared.state.send_replace(LinkState::Connected);
        if let Some(connected) = shared.connected.take() {
            let _ = connected.send(Ok(core.peer().clone()));
        }
        let (reason, lost_at) = match serve(&mut link, core, shared).await {
            End::Lost(reason, lost_at) => (reason, lost_at),
            End::Worn => {
                tracing::info!("the stream is worn, another one takes its place");
                // Whatever is not out by then is said again.
                let _ = tokio::time::timeout(FAREWELL, link.close(std::mem::take(core.outbox()))).await;
                core.link_down();
                shared.connections.send_modify(|over| *over += 1);
                recovery = Recovery::new(lost, now());
                continue;
            }
            End::Unused => {
                // Whoever does not listen to the end is beyond help.
                let _ = tokio::time::timeout(FAREWELL, leave(link, core)).await;
                return Ok(());
            }
        };
        tracing::debug!(reason = crate::error::chain(&reason), "connection lost");
        core.link_down();
        shared.connections.send_modify(|over| *over += 1);
        let since = now();
        shared.state.send_replace(LinkState::Recovering { since: lost_at });
        if since - up >= STABLE || !was_lost {
            recovery = Recovery::new(lost.after(since - lost_at), since);
            was_lost = true;
            continue;
        }
        if since - up >= USABLE {
            recovery.again(lost.after(since - lost_at), since);
        }
        match recovery.failed(since, reason.verdict(), random()) {
            Decision::GiveUp => return Err(reason),
            Decision::RetryAt(at) => {
                if !wait_until(at, core, shared).await {
                    return Ok(());
                }
            }
        }
    }
}

/// Attempts until the session is ready; none when nobody wants it any more.
async fn establish<C: Connector>(
    connector: &mut C,
    core: &mut Core,
    shared: &mut Shared,
    recovery: &mut Recovery,
) -> Result<Option<C::Link>, AttemptError> {
    loop {
        let attempt = async {
            let mut link = connector.connect().await?;
            link_ready(&mut link, core, connector.initialize_timeout()).await?;
            connector.confirm(core.peer_mut()).await?;
            Ok::<_, AttemptError>(link)
        };
        let cut = tokio::time::timeout_at(recovery.deadline().into(), attempt);
        let outcome = tokio::select! {
            outcome = cut => outcome,
            () = abandoned(&mut shared.connected) => return Ok(None),
        };
        let error = match outcome {
            Ok(Ok(link)) => return Ok(Some(link)),
            Ok(Err(error)) => error,
            Err(_) => return Err(AttemptError::Timeout),
        };
        core.link_down();
        let (failed_at, reason) = (now(), crate::error::chain(&error));
        match recovery.failed(failed_at, error.verdict(), random()) {
            Decision::GiveUp => {
                tracing::info!(reason, "cannot connect, giving up");
                return Err(error);
            }
            Decision::RetryAt(at) => {
                tracing::info!(reason, wait = ?at - failed_at, "cannot connect, trying again");
                if !wait_until(at, core, shared).await {
                    return Ok(None);
                }
            }
        }
    }
}

/// Ready when nobody waits for the first connect any more.
async fn abandoned(connected: &mut Option<oneshot::Sender<Result<Peer, HarnessError>>>) {
    match connected {
        Some(connected) => connected.closed().await,
        None => std::future::pending().await,
    }
}

/// `initialize`, and its reply, within its time.
async fn link_ready<L: Link>(link: &mut L, core: &mut Core, limit: Duration) -> Result<(), AttemptError> {
    let is_offered = link
        .continuity()
        .is_some_and(|continuity| continuity.borrow().is_offered);
    core.link_up(is_offered);
    let ready = async {
        while !core.is_ready() {
            let message = link.exchange(core.outbox(), true).await?;
            core.message(&message)?;
        }
        link.settle(is_offered && core.peer().extensions.has(RELIABLE_STREAM, 1));
        Ok(())
    };
    match tokio::time::timeout(limit, ready).await {
        Ok(result) => result,
        Err(_) => Err(AttemptError::Timeout),
    }
}

/// Takes commands until `at`, or less if the machine sleeps meanwhile; false when nobody holds a handle any more.
async fn wait_until(at: Instant, core: &mut Core, shared: &mut Shared) -> bool {
    let pause = wake::sleep(at.saturating_duration_since(now()));
    tokio::pin!(pause);
    loop {
        tokio::select! {
            () = &mut pause => return true,
            Some(notice) = shared.notices.recv() => core.notice(notice),
            command = shared.commands.recv(), if core.takes_commands() => match command {
                Some(command) => core.command(command),
                None => return false,
            },
        }
    }
}

/// Moves messages until the connection or the need for it ends.
async fn serve<L: Link>(link: &mut L, core: &mut Core, shared: &mut Shared) -> End {
    // Dropped with the connection, whose end is a denial.
    let mut deciding = JoinSet::new();
    let mut stream = Stream::of(link);
    loop {
        if stream.worn_since.is_some() && core.is_movable() {
            return End::Worn;
        }
        let (is_urgent, urgent) = (stream.is_urgent(), stream.urgent());
        let takes_commands = core.takes_commands() && !is_urgent;
        for Question { id, params, network } in core.take_questions() {
            let decision = network.decide(params);
            deciding.spawn(async move { (id, decision.await) });
        }
        let room = core.blocked();
        let take = room.is_none();
        let room = async {
            match room {
                Some(room) => room.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(notice) = shared.notices.recv() => core.notice(notice),
            () = room => core.unblock(),
            Some(decided) = deciding.join_next() => {
                match decided {
                    Ok((id, decision)) => core.answer(&id, decision),
                    Err(_panicked) => core.give_up_question(),
                }
            }
            continuity = stream.changed() => {
                shared.state.send_if_modified(|state| follow(state, continuity));
            }
            () = urgent, if !is_urgent => {}
            command = shared.commands.recv(), if takes_commands => match command {
                Some(command) => core.command(command),
                None => {
                    while let Ok(notice) = shared.notices.try_recv() {
                        core.notice(notice);
                    }
                    return End::Unused;
                }
            },
            message = link.exchange(core.outbox(), take) => match message {
                Ok(message) => {
                    if let Err(error) = core.message(&message) {
                        return End::Lost(error, now());
                    }
                }
                Err(error) => return End::Lost(error, stream.lost_at().unwrap_or_else(now)),
            },
        }
    }
}

/// Tells of a stream that waits for its connection as of a connection that is lost; says whether that is news.
fn follow(state: &mut LinkState, continuity: Continuity) -> bool {
    let is_news = matches!(state, LinkState::Connected) == continuity.suspended_since.is_some();
    if is_news {
        *state = match continuity.suspended_since {
            Some(since) => LinkState::Recovering { since },
            None => LinkState::Connected,
        };
    }
    is_news
}

/// Ends a connection that nobody needs any more. Stock executors may forget what comes just before the end of a stream, and
/// then processes would go on until the session expires: so their ends are waited for.
async fn leave<L: Link>(mut link: L, core: &mut Core) {
    while core.is_terminating() {
        let Ok(message) = link.exchange(core.outbox(), true).await else {
            return;
        };
        if core.message(&message).is_err() {
            return;
        }
    }
    link.close(std::mem::take(core.outbox())).await;
}

/// The runtime's time, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn random() -> u64 {
    // Without randomness the delays only lose their jitter.
    getrandom::u64().unwrap_or(0)
}

#[cfg(test)]
mod tests;
