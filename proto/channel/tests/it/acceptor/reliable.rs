//! Streams that outlive the connection.

use rendezvous_channel::reliable::{Config, EXECUTOR_GRACE, HARNESS_GRACE, MAX_WINDOW, Pool};

use super::*;

fn config(grace: Duration) -> Config {
    Config {
        pool: Pool::new(64 * MAX_WINDOW),
        grace,
    }
}

impl World {
    pub(super) fn offering() -> Self {
        let mut world = Self::new();
        let acceptor = Acceptor::new(
            world.executor.clone(),
            environment(),
            registration(),
            Budget::new(usize::MAX),
        );
        world.acceptor = acceptor.offering(config(EXECUTOR_GRACE));
        world
    }

    /// A stream whose ends agreed.
    pub(super) fn agree(&mut self, stream: &str) -> Open {
        let mut pending = self.connect(stream, "authorization").offering(config(HARNESS_GRACE));
        self.pump(&mut pending);
        let mut events = self.events();
        let Some(Event::ValidationRequested { id, .. }) = events.pop() else {
            panic!("no validation");
        };
        let mut open = self.admit(Pending { id, harness: pending });
        assert!(self.acceptor.is_undecided(open.key));
        open.harness.send(Bytes::from_static(b"initialize")).unwrap();
        self.pump(&mut open.harness);
        assert_eq!(self.events().len(), 1);
        self.acceptor.settle(self.now, open.key, true);
        self.acceptor.send(open.key, Bytes::from_static(b"agreed")).unwrap();
        for frame in self.sent() {
            open.harness.handle_frame(self.now, frame);
        }
        assert_eq!(self::events(&mut open.harness).len(), 1);
        open.harness.settle(self.now, true);
        assert!(open.harness.is_reliable() && !self.acceptor.is_undecided(open.key));
        open
    }

    fn exchange(&mut self, open: &mut Open) {
        for _ in 0..4 {
            open.harness.handle_timeout(self.now);
            self.pump(&mut open.harness);
            self.acceptor.handle_timeout(self.now);
            for frame in self.sent() {
                open.harness.handle_frame(self.now, frame);
            }
        }
    }
}

#[test]
fn a_lost_connection_ends_stock_streams_and_suspends_others() {
    let mut world = World::offering();
    let mut open = world.agree("reliable");
    let stock = world.open("stock");
    world.acceptor.settle(world.now, stock.key, false);
    let pending = world.pending("pending");
    world.acceptor.disconnect(world.now);
    let closed = Event::StreamClosed {
        key: stock.key,
        ended: Ended::Disconnected,
    };
    let suspended = Event::StreamSuspended { key: open.key };
    let told = world.events();
    assert!(
        told.len() == 2 && told.contains(&closed) && told.contains(&suspended),
        "{told:?}"
    );
    assert_eq!(world.acceptor.suspended_streams(), 1);
    // The registry's answer comes too late.
    world.verdict(pending.id, Verdict::Admit);
    world.acceptor.send(open.key, Bytes::from_static(b"kept")).unwrap();
    world.expect_nothing();
    assert_eq!(world.acceptor.active_streams(), 1);

    world.acceptor.reconnect(registration());
    open.harness.suspend(world.now);
    open.harness.reconnect(world.now);
    world.exchange(&mut open);
    let kept = stream::Event::Message(Bytes::from_static(b"kept"));
    assert_eq!(
        events(&mut open.harness),
        [stream::Event::Suspended, stream::Event::Resumed, kept]
    );
    assert_eq!(world.events(), [Event::StreamResumed { key: open.key }]);
    world.expect_alive(&mut open);
}

#[test]
fn a_suspended_stream_keeps_its_name_and_ends_in_time() {
    let mut world = World::offering();
    let open = world.agree("s");
    world.acceptor.disconnect(world.now);
    assert_eq!(world.events(), [Event::StreamSuspended { key: open.key }]);
    // Nobody else gets in under its name.
    let mut other = world.connect("s", "authorization");
    world.pump(&mut other);
    world.expect_refusal("s");
    world.now += EXECUTOR_GRACE;
    world.acceptor.handle_timeout(world.now);
    let events = world.events();
    let [
        Event::StreamClosed {
            key,
            ended: Ended::Failed(error),
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(*key, open.key);
    assert!(error.is_retryable());
}

#[test]
fn streams_that_wait_give_way_to_new_ones() {
    let mut world = World::offering();
    let first = world.agree("0");
    world.acceptor.disconnect(world.now);
    world.events();
    world.now += Duration::from_secs(1);
    for stream in 1..MAX_STREAMS {
        if stream % MAX_STREAMS_PER_HARNESS == 0 {
            world.another_harness();
        }
        world.open(&stream.to_string());
    }
    world.another_harness();
    let pending = world.pending("one more");
    world.verdict(pending.id, Verdict::Admit);
    let events = world.events();
    let [
        Event::StreamClosed {
            key,
            ended: Ended::Here,
        },
        Event::StreamOpened { .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((*key, world.acceptor.active_streams()), (first.key, MAX_STREAMS));
    world.sent();
    let mut refused = world.connect("too many", "authorization");
    world.pump(&mut refused);
    world.expect_refusal("too many");
}

#[test]
fn an_end_of_the_peer_is_told() {
    let mut world = World::offering();
    let mut open = world.agree("s");
    open.harness.close("done");
    world.exchange(&mut open);
    world.expect_closed(open.key, Ended::There("done".to_owned()));
    assert!(open.harness.is_closed());
}

#[test]
fn a_slow_reader_stops_its_own_sender_only() {
    let mut world = World::offering();
    let mut slow = world.agree("slow");
    let mut quick = world.agree("quick");
    for _ in 0..20 {
        while slow.harness.has_room() {
            slow.harness.send(vec![1; 30_000].into()).unwrap();
        }
        world.exchange(&mut slow);
    }
    let held = world.events().len();
    assert!((1..=9).contains(&held), "{held}");
    for _ in 0..100 {
        quick.harness.send(vec![2; 30_000].into()).unwrap();
        world.exchange(&mut quick);
        let events = world.events();
        assert_eq!(events.len(), 1);
        world.acceptor.taken(world.now, quick.key, 30_000);
    }
    for _ in 0..held {
        world.acceptor.taken(world.now, slow.key, 30_000);
    }
    world.exchange(&mut slow);
    assert!(!world.events().is_empty());
}

#[test]
fn a_resume_of_an_unknown_stream_is_refused_and_a_stock_one_is_not() {
    let mut world = World::offering();
    let body = Body::Reattach {
        next_seq: 1,
        epoch: 1,
        proof: [1; 32],
    };
    world.frame("nobody's", body.clone());
    world.expect_refusal("nobody's");
    world.frame("nobody's", Body::Resume { next_seq: 0 });
    world.expect_nothing();
    // To a stream that is there, one that is not proved means nothing.
    let open = world.agree("s");
    world.frame("s", body);
    world.expect_nothing();
    assert!(world.acceptor.is_reliable(open.key));
}

#[test]
fn a_close_after_a_long_silence_waits_for_its_confirmation() {
    let mut world = World::offering();
    let mut open = world.agree("s");
    world.now += Duration::from_secs(60);
    world.acceptor.handle_timeout(world.now);
    world.acceptor.close(open.key, "done");
    world.exchange(&mut open);
    let ended = events(&mut open.harness);
    assert_eq!(
        ended,
        [stream::Event::Ended {
            reason: "done".to_owned()
        }]
    );
    world.expect_closed(open.key, Ended::Here);
}
