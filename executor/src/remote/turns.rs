//! The life of an executor that dials out, whatever carries its messages: it registers and dials as
//! [`schedule`](super::schedule) says, serves, and begins again when the connection is lost.

use std::convert::Infallible;
use std::time::Duration;

use rendezvous_transport::dial::DialError;
use rendezvous_transport::link::Link;
use rendezvous_transport::registry::CallError;
use rendezvous_transport::wake;
use rendezvous_wire::id::EnvironmentId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::schedule::{Failure, Next, Schedule, Turn};
use super::{RemoteError, chain, is_conflict, is_registrys_fault, now, random};
use crate::aws::AwsError;

/// How one kind of executor registers, dials and serves.
pub(super) trait Way {
    /// What the registry gives.
    type Place: Clone;
    /// What signs the requests of one turn.
    type Signer;
    /// What outlives a connection.
    type Kept;
    /// Whom it dials, in words of the log.
    const PEER: &'static str;

    fn environment(&self) -> &EnvironmentId;

    async fn signer(&mut self) -> Result<Self::Signer, AwsError>;

    async fn register(&mut self, signer: &Self::Signer) -> Result<Self::Place, CallError>;

    /// How many relays a place names.
    fn relays(place: &Self::Place) -> usize;

    /// Dials the place's relay of this number.
    async fn dial(&mut self, place: &Self::Place, relay: usize, signer: &Self::Signer) -> Result<Link, DialError>;

    /// What a failed dial says of the place.
    ///
    /// # Errors
    ///
    /// Only a person can mend it.
    fn judge(error: DialError) -> Result<(Failure, DialError), RemoteError>;

    /// The first connection to a place is up.
    fn announce(&mut self, place: &Self::Place);

    /// Serves until the connection ends.
    async fn serve(&mut self, kept: &mut Self::Kept, place: &Self::Place, link: Link);

    /// Looks after what outlives a connection while there is none.
    async fn keep(kept: &mut Self::Kept) -> Infallible;
}

/// Lives until `shutdown`. Failures that may pass are retried for ever, with a line in the log each time.
///
/// # Errors
///
/// What only a person can mend.
pub(super) async fn run<W: Way>(way: W, mut kept: W::Kept, shutdown: CancellationToken) -> Result<(), RemoteError> {
    let (schedule, mut next) = Schedule::new(now());
    let mut life = Life {
        way,
        schedule,
        place: None,
    };
    loop {
        let outcome = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            outcome = life.take_turn(next) => outcome?,
            never = W::keep(&mut kept) => match never {},
        };
        next = match outcome {
            Outcome::Down(next) => next,
            Outcome::Up(place, link) => {
                let start = Instant::now();
                life.way.serve(&mut kept, &place, *link).await;
                if shutdown.is_cancelled() {
                    return Ok(());
                }
                let next = life.schedule.lost(now(), start.elapsed(), random());
                tracing::info!(delay = ?next.pause, "connecting to {} again", W::PEER);
                next
            }
        };
    }
}

struct Life<W: Way> {
    way: W,
    schedule: Schedule,
    /// The last one. Once there was one the configuration is right, so that more can be hoped to pass.
    place: Option<W::Place>,
}

/// What a turn led to.
enum Outcome<P> {
    Up(P, Box<Link>),
    Down(Next),
}

impl<W: Way> Life<W> {
    async fn take_turn(&mut self, next: Next) -> Result<Outcome<W::Place>, RemoteError> {
        wake::sleep(next.pause).await;
        let signer = match self.way.signer().await {
            Ok(signer) => signer,
            Err(error) => return self.unsigned(next.turn, error).map(Outcome::Down),
        };
        match (next.turn, self.place.clone()) {
            (Turn::Dial, Some(place)) => self.dial(place, &signer).await,
            (Turn::Dial, None) | (Turn::Register, _) => self.register(&signer).await.map(Outcome::Down),
        }
    }

    /// The identity worked before: whoever renews it may be late.
    fn unsigned(&mut self, turn: Turn, error: AwsError) -> Result<Next, RemoteError> {
        if self.place.is_none() {
            return Err(RemoteError::Aws(error));
        }
        let next = match turn {
            Turn::Register => self.schedule.register_failed(now(), Duration::ZERO, random()),
            Turn::Dial => self
                .schedule
                .dial_failed(now(), Failure::Passing, Duration::ZERO, random()),
        };
        tracing::warn!(error = %chain(&error), delay = ?next.pause, "no credentials to sign with, trying again");
        Ok(next)
    }

    async fn dial(&mut self, place: W::Place, signer: &W::Signer) -> Result<Outcome<W::Place>, RemoteError> {
        let error = match self.way.dial(&place, self.schedule.relay(), signer).await {
            Ok(link) => {
                if self.schedule.connected() {
                    self.way.announce(&place);
                }
                metrics::counter!("executor_relay_connections_total", "result" => "up").increment(1);
                return Ok(Outcome::Up(place, Box::new(link)));
            }
            Err(error) => error,
        };
        metrics::counter!("executor_relay_connections_total", "result" => "failed").increment(1);
        let (failure, error) = W::judge(error)?;
        let retry_after = error.retry_after().unwrap_or_default();
        let next = self.schedule.dial_failed(now(), failure, retry_after, random());
        let (delay, error) = (next.pause, chain(&error));
        match next.turn {
            Turn::Dial => tracing::warn!(error, ?delay, "cannot connect to {}, trying again", W::PEER),
            Turn::Register => tracing::warn!(error, ?delay, "cannot connect to {}, registering again", W::PEER),
        }
        Ok(Outcome::Down(next))
    }

    async fn register(&mut self, signer: &W::Signer) -> Result<Next, RemoteError> {
        let error = match self.way.register(signer).await {
            Ok(place) => {
                metrics::counter!("executor_registrations_total", "result" => "ok").increment(1);
                let relays = W::relays(&place);
                self.place = Some(place);
                return Ok(self.schedule.registered(now(), relays, random()));
            }
            Err(error) => error,
        };
        metrics::counter!("executor_registrations_total", "result" => "failed").increment(1);
        let passes = error.is_retryable()
            || self.place.is_some() && is_registrys_fault(&error)
            || self.schedule.has_place() && is_conflict(&error);
        if !passes {
            return Err(RemoteError::Register {
                environment: self.way.environment().clone(),
                source: error,
            });
        }
        let retry_after = error.retry_after().unwrap_or_default();
        let next = self.schedule.register_failed(now(), retry_after, random());
        tracing::warn!(error = %chain(&error), delay = ?next.pause, "cannot register, trying again");
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
