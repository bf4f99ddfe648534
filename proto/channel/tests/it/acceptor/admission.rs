//! Handshakes, validations and their verdicts.

use super::*;

#[test]
fn an_admitted_stream_carries_messages_both_ways() {
    let mut world = World::new();
    let mut open = world.open("s");
    world.expect_alive(&mut open);
    assert_eq!(world.acceptor.active_streams(), 1);
}

#[test]
fn authorizations_of_0_and_4096_bytes_are_asked_about() {
    let mut world = World::new();
    for (stream, authorization) in [("a", String::new()), ("b", "é".repeat(2048))] {
        let mut harness = world.connect(stream, &authorization);
        world.pump(&mut harness);
        let events = world.events();
        let [
            Event::ValidationRequested {
                authorization: asked, ..
            },
        ] = &events[..]
        else {
            panic!("no validation");
        };
        assert_eq!(asked.expose(), authorization);
        assert!(!format!("{events:?}").contains('é'));
    }
}

#[test]
fn an_authorization_of_4097_bytes_is_refused_and_counted() {
    let mut world = World::new();
    let mut harness = world.connect("s", &"x".repeat(4097));
    world.pump(&mut harness);
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
}

#[test]
fn an_earlier_key_answers_what_was_made_for_it() {
    let mut world = World::new();
    let earlier: Vec<Identity> = (0..2).map(|_| Identity::generate(&mut world.rng)).collect();
    let budget = Budget::new(usize::MAX);
    let acceptor = Acceptor::new(world.executor.clone(), environment(), registration(), budget);
    world.acceptor = acceptor.with_previous(earlier.clone());
    let newest = world.executor.clone();
    for (stream, key) in [("0", newest), ("1", earlier[0].clone()), ("2", earlier[1].clone())] {
        world.executor = key;
        let mut open = world.open(stream);
        world.expect_alive(&mut open);
    }
    // A stranger's handshake is one failure, however many keys were tried.
    world.executor = Identity::generate(&mut world.rng);
    let mut harness = world.connect("3", "authorization");
    world.pump(&mut harness);
    world.expect_refusal("3");
    assert_eq!(world.failures(), 1);
}

#[test]
fn an_authorization_that_is_not_utf_8_is_refused_and_counted() {
    use rendezvous_channel::Initiator;
    let mut world = World::new();
    let prologue = crate::support::prologue("s");
    let (_, message) = Initiator::start(
        &world.harness,
        world.executor.public(),
        &prologue,
        &[0xc3, 0x28],
        &mut world.rng,
    )
    .unwrap();
    let payload = message.into();
    world.frame("s", Body::Handshake { payload });
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
}

#[test]
fn a_handshake_that_cannot_be_read_is_refused_and_counted() {
    let mut world = World::new();
    world.bad_handshake("s");
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
    // A handshake for another stream is not authentic either.
    let mut harness = world.connect("other", "authorization");
    while let Some(frame) = harness.poll_transmit() {
        let mut frame = Frame::decode(frame).unwrap();
        frame.stream_id = stream_id("s");
        world.acceptor.handle_frame(world.now, frame);
    }
    world.expect_refusal("s");
    assert_eq!(world.failures(), 2);
}

#[test]
fn a_handshake_on_an_active_stream_is_refused_and_the_stream_survives() {
    let mut world = World::new();
    let mut open = world.open("s");
    world.bad_handshake("s");
    world.expect_refusal("s");
    let mut second = world.connect("s", "authorization");
    world.pump(&mut second);
    world.expect_refusal("s");
    assert_eq!(world.failures(), 0);
    world.expect_alive(&mut open);
}

#[test]
fn a_handshake_on_a_pending_stream_cancels_it_and_counts() {
    let mut world = World::new();
    let first = world.pending("s");
    world.bad_handshake("s");
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
    // The stream id is free at once, and the late verdict concerns nobody.
    let second = world.pending("s");
    world.verdict(first.id, Verdict::Admit);
    world.expect_nothing();
    let mut open = world.admit(second);
    world.expect_alive(&mut open);
}

#[test]
fn data_on_a_pending_stream_cancels_it_and_counts() {
    let mut world = World::new();
    let pending = world.pending("s");
    world.data("s");
    world.expect_refusal("s");
    assert_eq!(world.failures(), 1);
    world.verdict(pending.id, Verdict::Admit);
    world.expect_nothing();
}

#[test]
fn data_on_an_unknown_stream_is_refused_and_not_counted() {
    let mut world = World::new();
    world.data("s");
    world.expect_refusal("s");
    assert_eq!((world.failures(), world.acceptor.counters().unknown_streams), (0, 1));
}

#[test]
fn a_reset_is_never_answered() {
    let mut world = World::new();
    let reset = || Body::Reset {
        reason: "gone".to_owned(),
    };
    world.frame("unknown", reset());
    world.expect_nothing();

    let pending = world.pending("pending");
    world.frame("pending", reset());
    world.expect_nothing();
    world.verdict(pending.id, Verdict::Admit);
    world.expect_nothing();

    let open = world.open("active");
    world.frame("active", reset());
    world.expect_closed(open.key, Ended::Reset("gone".to_owned()));
    assert_eq!(world.sent(), []);
    assert_eq!(world.failures(), 0);
}

#[test]
fn a_rejected_harness_is_reset_and_counted() {
    let mut world = World::new();
    let mut pending = world.pending("s");
    world.verdict(pending.id, Verdict::Reject);
    assert_eq!(world.events(), []);
    for frame in world.sent() {
        pending.harness.handle_frame(world.now, frame);
    }
    let reason = reason::PROTOCOL_ERROR.to_owned();
    assert_eq!(events(&mut pending.harness), [stream::Event::Reset { reason }]);
    assert_eq!(world.failures(), 1);
}

#[test]
fn a_rejected_executor_credential_is_told_inside_the_handshake() {
    let mut world = World::new();
    let mut pending = world.pending("s");
    world.verdict(pending.id, Verdict::CredentialRejected);
    assert_eq!(world.events(), []);
    for frame in world.sent() {
        pending.harness.handle_frame(world.now, frame);
    }
    let events = events(&mut pending.harness);
    let [stream::Event::Failed(StreamError::Handshake(error @ HandshakeError::Refused(text)))] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(text.contains("credential") && !error.is_retryable());
    assert_eq!((world.failures(), world.acceptor.active_streams()), (0, 0));
    // The stream id is free again.
    world.open("s");
}

#[test]
fn a_harness_that_is_not_listed_is_told_so_inside_the_handshake_and_keeps_nothing() {
    let mut world = World::new();
    for number in 0..2 * MAX_COURTESY {
        let mut pending = world.pending("s");
        if number == MAX_COURTESY {
            // Whoever comes again and again is like any other that fails, until a while has passed.
            world.verdict(pending.id, Verdict::NotListed);
            world.expect_refusal("s");
            assert_eq!(world.failures(), 1);
            world.now += COURTESY_TIME;
            pending = world.pending("s");
        }
        world.verdict(pending.id, Verdict::NotListed);
        assert_eq!(world.events(), []);
        let sent = world.sent();
        // What the relay sees: an answer as long as any refusal, and the end of the stream.
        let [
            Frame {
                body: Body::Handshake { payload },
                ..
            },
            Frame {
                body: Body::Reset { .. },
                ..
            },
        ] = &sent[..]
        else {
            panic!("{sent:?}");
        };
        assert_eq!(payload.len(), HANDSHAKE_2_OVERHEAD + CREDENTIAL_REJECTED.len());
        for frame in sent {
            pending.harness.handle_frame(world.now, frame);
        }
        let events = events(&mut pending.harness);
        let [stream::Event::Failed(StreamError::Handshake(error @ HandshakeError::NotListed))] = &events[..] else {
            panic!("{events:?}");
        };
        assert!(!error.is_retryable());
        let failures = u64::from(number >= MAX_COURTESY);
        assert_eq!((world.failures(), world.acceptor.active_streams()), (failures, 0));
    }
    // Nobody has to wait for it.
    world.open("s");
}

#[test]
fn the_129th_stream_is_refused() {
    let mut world = World::new();
    let mut first = world.open("0");
    for stream in 1..MAX_STREAMS - 1 {
        if stream % MAX_STREAMS_PER_HARNESS == 0 {
            world.another_harness();
        }
        world.open(&stream.to_string());
    }
    // Two are judged while one place is left.
    let (a, b) = (world.pending("a"), world.pending("b"));
    let last = world.admit(a);
    world.verdict(b.id, Verdict::Admit);
    world.expect_refusal("b");
    assert_eq!(world.acceptor.active_streams(), MAX_STREAMS);
    let mut late = world.connect("late", "authorization");
    world.pump(&mut late);
    world.expect_refusal("late");
    assert_eq!(world.failures(), 0);
    world.expect_alive(&mut first);

    world.acceptor.abort(last.key, reason::PROCESSOR_ENDED);
    world.expect_closed(last.key, Ended::Here);
    world.sent();
    world.open("late");
}

#[test]
fn the_33rd_validation_is_refused_and_a_cancelled_one_keeps_its_place() {
    let mut world = World::new();
    let mut pending: Vec<_> = (0..MAX_PENDING_VALIDATIONS)
        .map(|stream| {
            // Each harness has one, so that none has too many.
            world.another_harness();
            world.pending(&stream.to_string())
        })
        .collect();
    let refused = |world: &mut World| {
        let mut late = world.connect("late", "authorization");
        world.pump(&mut late);
        world.expect_refusal("late");
    };
    refused(&mut world);
    world.frame(
        "3",
        Body::Reset {
            reason: "gone".to_owned(),
        },
    );
    refused(&mut world);
    assert_eq!(world.failures(), 0);
    let cancelled = pending.remove(3);
    world.verdict(cancelled.id, Verdict::Reject);
    world.expect_nothing();
    world.pending("late");
    // The others finish in any order.
    for one in pending.into_iter().rev() {
        world.verdict(one.id, Verdict::Admit);
        assert!(matches!(world.events()[..], [Event::StreamOpened { .. }]));
    }
}

#[test]
fn a_pending_validation_holds_up_nobody() {
    let mut world = World::new();
    let mut before = world.open("before");
    let slow = world.pending("slow");
    world.expect_alive(&mut before);
    let mut after = world.open("after");
    world.expect_alive(&mut after);
    let mut slow = world.admit(slow);
    world.expect_alive(&mut slow);
}

#[test]
fn eight_failures_pause_admission_and_nothing_else() {
    let mut world = World::new();
    let mut open = world.open("healthy");
    let judged = world.pending("judged");
    for _ in 0..MAX_FAILED_HANDSHAKES {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
    }
    let start = world.now;
    let mut harness = world.connect("late", "authorization");
    let handshake: Vec<_> = std::iter::from_fn(|| harness.poll_transmit()).collect();
    let try_late = |world: &mut World| {
        for frame in &handshake {
            world.acceptor.handle_message(world.now, frame.clone());
        }
    };
    for part in [0, 1, 5, 9] {
        world.now = start + HANDSHAKE_COOLDOWN * part / 10;
        try_late(&mut world);
        world.expect_refusal("late");
        world.bad_handshake("bad");
        world.expect_refusal("bad");
        world.expect_alive(&mut open);
    }
    // One that was read before the pause is still admitted.
    world.admit(judged);

    // The same handshake is good afterwards, and the counter begins anew.
    world.now = start + HANDSHAKE_COOLDOWN;
    try_late(&mut world);
    let events = world.events();
    let [Event::ValidationRequested { id, .. }] = events[..] else {
        panic!("{events:?}");
    };
    world.admit(Pending { id, harness });
    for _ in 1..MAX_FAILED_HANDSHAKES {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
    }
    world.open("still");
    world.bad_handshake("bad");
    world.sent();
    let mut late = world.connect("paused again", "authorization");
    world.pump(&mut late);
    world.expect_refusal("paused again");
}

#[test]
fn a_failure_during_the_pause_does_not_lengthen_it() {
    let mut world = World::new();
    let judged = world.pending("judged");
    for _ in 0..MAX_FAILED_HANDSHAKES {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
    }
    world.now += HANDSHAKE_COOLDOWN / 2;
    world.verdict(judged.id, Verdict::Reject);
    world.expect_refusal("judged");
    world.now += HANDSHAKE_COOLDOWN / 2;
    world.open("after");
}

#[test]
fn failures_far_apart_pause_nothing() {
    let mut world = World::new();
    for count in 1..=4 * u64::from(MAX_FAILED_HANDSHAKES) {
        world.bad_handshake("bad");
        world.expect_refusal("bad");
        assert_eq!(world.failures(), count);
        // Shorter than a pause, and so long that less than eight fall into a minute.
        world.now += HANDSHAKE_COOLDOWN - Duration::from_secs(1);
    }
    world.open("s");
}

#[test]
fn an_identical_handshake_costs_one_validation() {
    let mut world = World::new();
    let mut pending = world.connect("s", "authorization");
    let handshake: Vec<_> = std::iter::from_fn(|| pending.poll_transmit()).collect();
    for frame in &handshake {
        world.acceptor.handle_message(world.now, frame.clone());
    }
    let events = world.events();
    let [Event::ValidationRequested { id, .. }] = events[..] else {
        panic!("{events:?}");
    };
    world.verdict(id, Verdict::Reject);
    world.sent();
    for frame in &handshake {
        world.acceptor.handle_message(world.now, frame.clone());
    }
    world.expect_refusal("s");
    assert_eq!((world.acceptor.counters().replays, world.failures()), (1, 1));
}
