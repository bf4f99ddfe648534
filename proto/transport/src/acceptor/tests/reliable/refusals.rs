//! Harnesses that are led astray: to an executor that does not know their stream.

use super::*;

/// The attempts of a harness that may be refused in a row, and the one that is refused after them.
const ATTEMPTS: usize = 5;

#[derive(Default)]
struct Counts {
    redials: AtomicUsize,
    resumes: AtomicUsize,
    /// Attempts that will lead astray.
    astray: AtomicUsize,
}

/// Leads to a stranger for a while, and then back.
struct Astray {
    way: Way,
    stranger: Way,
    counts: Arc<Counts>,
}

impl Redial for Astray {
    type Socket = DuplexStream;

    async fn redial(&mut self) -> Result<WayBack<DuplexStream>, RedialError> {
        self.counts.redials.fetch_add(1, Ordering::Relaxed);
        let left = self.counts.astray.load(Ordering::Relaxed);
        match left.checked_sub(1) {
            Some(left) => {
                self.counts.astray.store(left, Ordering::Relaxed);
                self.stranger.redial().await
            }
            None => self.way.redial().await,
        }
    }

    fn resumed(&mut self) {
        self.counts.resumes.fetch_add(1, Ordering::Relaxed);
    }
}

struct Scene {
    pair: Pair,
    stranger: Pair,
    counts: Arc<Counts>,
}

impl Scene {
    async fn new() -> Self {
        Self {
            pair: Pair::new().await,
            stranger: Pair::new().await,
            counts: Arc::default(),
        }
    }

    /// Both ends of a stream, to whose executor the registry leads with another registration from now on, or not.
    async fn agree(&mut self, is_moved: bool) -> (MessageStream, MessageStream) {
        let astray = Astray {
            way: Way {
                is_moved,
                ..self.pair.way()
            },
            stranger: self.stranger.way(),
            counts: self.counts.clone(),
        };
        self.pair.agree(astray).await
    }

    /// The next attempts, which something makes necessary, lead astray.
    fn lead_astray(&self, attempts: usize) {
        self.counts.redials.store(0, Ordering::Relaxed);
        self.counts.astray.store(attempts, Ordering::Relaxed);
    }

    /// Somebody says to the harness that the stream is over.
    fn forge_reset(&self) {
        self.pair.place.lock().unwrap().forge_resets();
    }

    fn redials(&self) -> usize {
        self.counts.redials.load(Ordering::Relaxed)
    }

    fn resumes(&self) -> usize {
        self.counts.resumes.load(Ordering::Relaxed)
    }
}

/// A Reset on the connection that served refuses nothing.
#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_knows_is_given_up_after_as_many_refusals_whatever_came_before() {
    for is_reset in [false, true] {
        let mut scene = Scene::new().await;
        let (mut harness, _executor) = scene.agree(false).await;
        let start = now();
        scene.lead_astray(usize::MAX);
        if is_reset {
            scene.forge_reset();
        } else {
            scene.pair.cut();
        }
        let end = end_of(&mut harness).await;
        assert!(
            matches!(&end, StreamEnd::Reset(reason) if reason == reason::EXECUTOR_GONE),
            "{is_reset}: {end:?}"
        );
        assert_eq!((scene.redials(), scene.resumes()), (ATTEMPTS, 0), "{is_reset}");
        assert!(now() - start < HARNESS_GRACE / 2, "{is_reset}: {:?}", now() - start);
    }
}

/// Whoever is taken up in the end has been refused by nobody, and hears of it once.
#[tokio::test(start_paused = true)]
async fn refusals_in_a_row_only_are_counted() {
    let mut scene = Scene::new().await;
    let (mut harness, mut executor) = scene.agree(false).await;
    for resumes in 1..=4 {
        scene.lead_astray(ATTEMPTS - 1);
        scene.forge_reset();
        resumed(&harness, resumes).await;
        assert_eq!((scene.redials(), scene.resumes() as u64), (ATTEMPTS, resumes));
        expect_alive(&mut harness, &mut executor).await;
    }
}

/// At another registration a Reset in return is believed, but not once the executor there has proved to have the stream.
#[tokio::test(start_paused = true)]
async fn an_executor_that_moved_is_believed_until_it_has_proved_itself() {
    let mut scene = Scene::new().await;
    let (mut harness, mut executor) = scene.agree(true).await;
    for resumes in 1..=2 * ATTEMPTS as u64 {
        scene.lead_astray(0);
        scene.forge_reset();
        resumed(&harness, resumes).await;
        assert_eq!((scene.redials(), scene.resumes() as u64), (1, resumes));
        expect_alive(&mut harness, &mut executor).await;
    }
}
