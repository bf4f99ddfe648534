use std::error::Error;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rendezvous_channel::reliable::Config;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::backoff::jitter;
use crate::link::Link;
use crate::wake;

/// Base of the delay after the first attempt that failed.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Longest base of a delay.
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// A connection that ends sooner does not start the row of delays again.
const STABLE: Duration = Duration::from_secs(5);

/// Finds a way back to the executor of a stream whose connection is gone.
pub trait Redial: Send + 'static {
    /// What carries the connection.
    type Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// One attempt, with a fresh ticket.
    fn redial(&mut self) -> impl Future<Output = Result<WayBack<Self::Socket>, RedialError>> + Send;

    /// The stream was taken up, with proof, over the way that the last attempt found.
    fn resumed(&mut self) {}
}

/// A connection on which a stream may be taken up.
#[derive(Debug)]
pub struct WayBack<S> {
    /// The connection.
    pub link: Link<S>,
    /// The executor has another registration than the stream was opened with. It may be the same program elsewhere, or one
    /// that knows nothing of the stream: then a reset is believed, and ends the stream.
    pub is_moved: bool,
}

/// What lets a stream outlive its connection.
#[derive(Debug)]
pub struct Offer<R> {
    /// How it behaves.
    pub config: Config,
    /// Who dials again.
    pub redial: R,
}

/// Why an attempt failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", if *is_final { "the stream cannot be taken up again" } else { "no way back yet" })]
pub struct RedialError {
    /// The stream is lost, whatever is tried.
    pub is_final: bool,
    /// How long the next attempt has to wait at least.
    pub after: Duration,
    /// What happened.
    #[source]
    pub source: Arc<dyn Error + Send + Sync>,
}

/// Never dials: for streams that end with their connection.
pub(super) struct Never<S>(PhantomData<fn() -> S>);

impl<S> Never<S> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Redial for Never<S> {
    type Socket = S;

    async fn redial(&mut self) -> Result<WayBack<S>, RedialError> {
        std::future::pending().await
    }
}

type Attempt<R> = Pin<Box<dyn Future<Output = (R, Result<WayBack<<R as Redial>::Socket>, RedialError>)> + Send>>;

/// Attempts, one after the other, with growing pauses.
pub(super) struct Redialler<R: Redial> {
    /// None while it works.
    redial: Option<R>,
    attempt: Option<Attempt<R>>,
    failures: u32,
    connected_at: Option<Instant>,
}

impl<R: Redial> Redialler<R> {
    pub(super) fn new(redial: R, now: Instant) -> Self {
        Self {
            redial: Some(redial),
            attempt: None,
            failures: 0,
            connected_at: Some(now),
        }
    }

    /// The connection is gone: dials, at once if it has lasted. `random` is 64 uniformly random bits, here and below.
    pub(super) fn start(&mut self, now: Instant, random: u64) {
        let lasted = self.connected_at.take().map(|at| now.saturating_duration_since(at));
        if lasted.is_some_and(|lasted| lasted >= STABLE) {
            self.failures = 0;
        }
        self.begin(Duration::ZERO, random);
    }

    /// The attempt failed: there will be another one.
    fn failed(&mut self, after: Duration, random: u64) {
        self.failures = self.failures.saturating_add(1);
        self.begin(after, random);
    }

    /// The stream was taken up over the last way.
    pub(super) fn resumed(&mut self) {
        if let Some(redial) = &mut self.redial {
            redial.resumed();
        }
    }

    fn begin(&mut self, after: Duration, random: u64) {
        let Some(mut redial) = self.redial.take() else { return };
        let pause = self.pause(random).max(after);
        self.attempt = Some(Box::pin(async move {
            wake::sleep(pause).await;
            let result = redial.redial().await;
            (redial, result)
        }));
    }

    fn pause(&self, random: u64) -> Duration {
        let Some(exponent) = self.failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = FIRST_DELAY.saturating_mul(1 << exponent.min(8)).min(LONGEST_DELAY);
        jitter(full, random)
    }

    /// The next connection, while one is looked for. May be dropped at any time.
    ///
    /// # Errors
    ///
    /// No further attempt is worth it.
    pub(super) async fn next(&mut self, random: impl Fn() -> u64) -> Result<WayBack<R::Socket>, RedialError> {
        loop {
            let Some(attempt) = &mut self.attempt else {
                return std::future::pending().await;
            };
            let (redial, result) = attempt.await;
            self.attempt = None;
            self.redial = Some(redial);
            match result {
                Ok(way) => {
                    // One that dies at once is no better than none.
                    self.failures = self.failures.saturating_add(1);
                    self.connected_at = Some(super::now());
                    return Ok(way);
                }
                Err(error) if error.is_final => return Err(error),
                Err(error) => {
                    tracing::debug!(error = %error.source, failures = self.failures, "no way back yet");
                    self.failed(error.after, random());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use tokio::io::DuplexStream;

    use super::*;

    /// Gives what is prepared, and notes when it was asked.
    struct Prepared {
        results: VecDeque<Result<WayBack<DuplexStream>, RedialError>>,
        asked: Arc<Mutex<Vec<Duration>>>,
        start: Instant,
    }

    impl Redial for Prepared {
        type Socket = DuplexStream;

        async fn redial(&mut self) -> Result<WayBack<DuplexStream>, RedialError> {
            self.asked.lock().unwrap().push(super::super::now() - self.start);
            self.results.pop_front().unwrap()
        }
    }

    async fn way() -> Result<WayBack<DuplexStream>, RedialError> {
        let link = Link::client(tokio::io::duplex(64).0).await;
        Ok(WayBack { link, is_moved: false })
    }

    fn error(is_final: bool, after: u64) -> Result<WayBack<DuplexStream>, RedialError> {
        Err(RedialError {
            is_final,
            after: Duration::from_secs(after),
            source: Arc::new(std::io::Error::other("test")),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_a_lasting_connection_starts_them_again() {
        let start = super::super::now();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let results = [
            error(false, 0),
            error(false, 0),
            error(false, 7),
            way().await,
            way().await,
            error(true, 0),
        ];
        let prepared = Prepared {
            results: results.into(),
            asked: asked.clone(),
            start,
        };
        let most = || u64::MAX;
        let mut redialler = Redialler::new(prepared, start);
        tokio::time::advance(STABLE).await;
        redialler.start(super::super::now(), most());
        redialler.next(most).await.unwrap();
        // It dies at once.
        redialler.start(super::super::now(), most());
        redialler.next(most).await.unwrap();
        tokio::time::advance(STABLE).await;
        redialler.start(super::super::now(), most());
        assert!(redialler.next(most).await.is_err());
        let asked: Vec<u128> = asked.lock().unwrap().iter().map(Duration::as_millis).collect();
        // From the loss on: at once, after half a second, one second, seven as asked for, four; and at once.
        assert_eq!(asked, [5000, 5500, 6500, 13_500, 17_500, 22_500]);
    }
}
