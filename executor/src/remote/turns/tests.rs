//! Lives on a clock that runs only while everybody waits.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rendezvous_transport::connector::ConnectError;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::either::Either;

use super::*;
use crate::remote::schedule::{SPREAD, UNREACHABLE};

/// What an executor did, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Register,
    Dial(u32),
    Announce(u32),
    Lose,
}

/// A way whose dials fail unless a link is at hand. The place is the number of the registration.
struct Scripted {
    environment: EnvironmentId,
    links: VecDeque<Option<Link>>,
    registrations: u32,
    diary: Arc<Mutex<Vec<(Instant, Did)>>>,
}

impl Scripted {
    fn note(&self, did: Did) {
        let mut diary = self.diary.lock().unwrap_or_else(PoisonError::into_inner);
        diary.push((Instant::now(), did));
    }
}

impl Way for Scripted {
    type Place = u32;
    type Signer = ();
    type Kept = ();
    const PEER: &'static str = "nobody";

    fn environment(&self) -> &EnvironmentId {
        &self.environment
    }

    async fn signer(&mut self) -> Result<(), AwsError> {
        Ok(())
    }

    async fn register(&mut self, (): &()) -> Result<u32, CallError> {
        self.registrations += 1;
        self.note(Did::Register);
        Ok(self.registrations)
    }

    fn relays(_place: &u32) -> usize {
        1
    }

    async fn dial(&mut self, place: &u32, _relay: usize, (): &()) -> Result<Link, DialError> {
        self.note(Did::Dial(*place));
        match self.links.pop_front().flatten() {
            Some(link) => Ok(link),
            None => Err(DialError::Connect(ConnectError::Connect(
                io::ErrorKind::ConnectionRefused.into(),
            ))),
        }
    }

    fn judge(error: DialError) -> Result<(Failure, DialError), RemoteError> {
        Ok((Failure::Passing, error))
    }

    fn announce(&mut self, place: &u32) {
        self.note(Did::Announce(*place));
    }

    /// Every connection is lost at once.
    async fn serve(&mut self, (): &mut (), _place: &u32, _link: Link) {
        self.note(Did::Lose);
    }

    async fn keep((): &mut ()) -> Infallible {
        std::future::pending().await
    }
}

async fn link() -> Link {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    Link::client(Either::Left(Either::Left(socket))).await
}

/// Lives with these links until so many registrations were made.
async fn live(links: impl IntoIterator<Item = Option<Link>>, registrations: usize) -> Vec<(Instant, Did)> {
    let diary: Arc<Mutex<Vec<(Instant, Did)>>> = Arc::default();
    let way = Scripted {
        environment: EnvironmentId::new("lab").unwrap(),
        links: links.into_iter().collect(),
        registrations: 0,
        diary: Arc::clone(&diary),
    };
    let shutdown = CancellationToken::new();
    let life = run(way, (), shutdown.clone());
    tokio::pin!(life);
    loop {
        tokio::select! {
            biased;
            _ = &mut life => unreachable!("nothing ends it"),
            () = sleep(Duration::from_millis(100)) => {}
        }
        let diary = diary.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if diary.iter().filter(|(_, did)| *did == Did::Register).count() >= registrations {
            shutdown.cancel();
            life.await.unwrap();
            return diary;
        }
    }
}

fn find(diary: &[(Instant, Did)], did: Did) -> usize {
    let found = diary.iter().rposition(|(_, there)| *there == did);
    found.unwrap_or_else(|| panic!("no {did:?} in {diary:?}"))
}

fn expect_patience(waited: Duration) {
    assert!(waited >= UNREACHABLE - SPREAD, "{waited:?}");
    assert!(waited <= UNREACHABLE + Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_never_answers_is_given_up_for_another_one() {
    let diary = live([], 3).await;
    let registers: Vec<Instant> = diary
        .iter()
        .filter(|(_, did)| *did == Did::Register)
        .map(|(when, _)| *when)
        .collect();
    for pair in registers.windows(2) {
        expect_patience(pair[1] - pair[0]);
    }
    let dials = |place| diary.iter().filter(|(_, did)| *did == Did::Dial(place)).count();
    assert!(dials(1) >= 4, "{diary:?}");
    // The pauses go on where they were: a new place does not make the net better.
    assert!(dials(2) >= 1, "{diary:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_place_is_given_up_after_failing_dials_and_the_new_one_is_served() {
    let links = [Some(link().await), None, Some(link().await)];
    // The second dial fails, the third works: patience starts anew with the second loss.
    let diary = live(links, 2).await;
    let (lost, registered) = (find(&diary, Did::Lose), find(&diary, Did::Register));
    expect_patience(diary[registered].0 - diary[lost].0);
    let until = &diary[..registered];
    assert_eq!(
        until.iter().filter(|(_, did)| *did == Did::Lose).count(),
        2,
        "{diary:?}"
    );
    let announced = diary.iter().filter(|(_, did)| matches!(did, Did::Announce(_))).count();
    assert_eq!(announced, 1, "a registration is announced once: {diary:?}");
}
