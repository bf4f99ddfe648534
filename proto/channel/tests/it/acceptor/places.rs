//! What one harness key may take of what all of them share.

use super::*;

/// As many streams of the present harness as it may have.
fn fill(world: &mut World, prefix: &str) -> Vec<Open> {
    (0..MAX_STREAMS_PER_HARNESS)
        .map(|number| world.open(&format!("{prefix}-{number}")))
        .collect()
}

#[track_caller]
fn expect_refused(world: &mut World, stream: &str) {
    let mut harness = world.connect(stream, "authorization");
    world.pump(&mut harness);
    world.expect_refusal(stream);
    assert_eq!(world.failures(), 0);
}

#[test]
fn one_harness_takes_half_of_all_places() {
    let mut world = World::new();
    let greedy = world.harness.clone();
    let mut streams = fill(&mut world, "greedy");
    expect_refused(&mut world, "one more");
    world.another_harness();
    let mut other = world.open("other");
    world.expect_alive(&mut other);

    // One ends, and one may begin.
    world.harness = greedy;
    world.expect_alive(&mut streams[1]);
    let key = streams.remove(0).key;
    world.acceptor.abort(key, reason::PROCESSOR_ENDED);
    world.expect_closed(key, Ended::Here);
    world.sent();
    world.open("one more");
    expect_refused(&mut world, "again one more");
}

#[test]
fn a_place_that_is_taken_while_the_registry_thinks_is_missing_at_the_verdict() {
    let mut world = World::new();
    for number in 1..MAX_STREAMS_PER_HARNESS {
        world.open(&number.to_string());
    }
    let (first, second) = (world.pending("first"), world.pending("second"));
    world.admit(first);
    world.verdict(second.id, Verdict::Admit);
    world.expect_refusal("second");
    assert_eq!(world.failures(), 0);
}

#[test]
fn one_harness_has_half_of_all_questions() {
    let mut world = World::new();
    let mut asked: Vec<Pending> = (0..MAX_PENDING_VALIDATIONS_PER_HARNESS)
        .map(|number| world.pending(&number.to_string()))
        .collect();
    expect_refused(&mut world, "late");
    // A cancelled one runs on and counts.
    let reason = "gone".to_owned();
    world.frame("0", Body::Reset { reason });
    expect_refused(&mut world, "late");
    let greedy = world.harness.clone();
    world.another_harness();
    let other = world.pending("other");
    world.admit(other);
    world.harness = greedy;
    world.verdict(asked.remove(0).id, Verdict::Reject);
    world.expect_nothing();
    world.pending("late");
}

#[test]
fn a_lost_connection_leaves_its_questions_counted() {
    let mut world = World::new();
    let asked: Vec<Pending> = (0..MAX_PENDING_VALIDATIONS_PER_HARNESS)
        .map(|number| world.pending(&number.to_string()))
        .collect();
    world.acceptor.disconnect(world.now);
    world.acceptor.reconnect(registration());
    expect_refused(&mut world, "late");
    world.verdict(asked[0].id, Verdict::Admit);
    world.pending("late");
}

#[test]
fn a_full_harness_gives_up_a_suspended_stream_of_its_own() {
    let mut world = World::offering();
    let greedy = world.harness.clone();
    world.another_harness();
    // It has waited longest, and is somebody else's.
    let other = world.agree("other");
    world.acceptor.disconnect(world.now);
    world.events();
    world.now += Duration::from_secs(1);
    world.harness = greedy;
    let own = world.agree("own");
    world.acceptor.disconnect(world.now);
    world.events();
    for number in 1..MAX_STREAMS_PER_HARNESS {
        world.open(&number.to_string());
    }
    let pending = world.pending("one more");
    world.verdict(pending.id, Verdict::Admit);
    let events = world.events();
    let [Event::StreamClosed { key, .. }, Event::StreamOpened { .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(*key, own.key);
    assert!(world.acceptor.is_reliable(other.key));
    world.sent();
    expect_refused(&mut world, "too many");
}

#[test]
fn a_harness_with_as_many_streams_gives_none_up() {
    let mut world = World::offering();
    let other = world.agree("other");
    world.acceptor.disconnect(world.now);
    world.events();
    for number in 1..MAX_STREAMS_PER_HARNESS {
        world.open(&format!("other-{number}"));
    }
    world.another_harness();
    fill(&mut world, "own");
    expect_refused(&mut world, "one more");
    assert!(world.acceptor.is_reliable(other.key));
}

#[test]
fn the_harness_that_has_most_streams_gives_one_up() {
    let mut world = World::offering();
    let modest = world.agree("modest");
    world.acceptor.disconnect(world.now);
    world.events();
    world.now += Duration::from_secs(1);
    world.another_harness();
    let [first, second] = ["first", "second"].map(|stream| world.agree(stream).key);
    world.acceptor.disconnect(world.now);
    world.events();
    for number in 3..=MAX_STREAMS_PER_HARNESS {
        world.open(&number.to_string());
    }
    world.another_harness();
    for number in 1..MAX_STREAMS_PER_HARNESS {
        world.open(&format!("other-{number}"));
    }
    let busy = world.harness.clone();
    assert_eq!(world.acceptor.active_streams(), MAX_STREAMS);
    world.events();
    world.another_harness();
    for round in 0..2 {
        let pending = world.pending(&format!("new-{round}"));
        world.verdict(pending.id, Verdict::Admit);
        let events = world.events();
        let [Event::StreamClosed { key, .. }, Event::StreamOpened { key: new, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert!([first, second].contains(key));
        world.sent();
        world.acceptor.abort(*new, reason::PROCESSOR_ENDED);
        world.events();
        world.sent();
        // The house is full again.
        world.open(&format!("filler-{round}"));
    }
    // Who has many takes nothing from one who has less.
    world.harness = busy;
    expect_refused(&mut world, "one more");
    assert!(world.acceptor.is_reliable(modest.key));
}

/// A message whose beginning is so long, and whose end does not come.
fn begin(world: &mut World, open: &mut Open, bytes: usize) {
    open.harness.send(vec![7; MAX_MESSAGE].into()).unwrap();
    let mut sent = 0;
    while sent < bytes {
        let frame = open.harness.poll_transmit().unwrap();
        sent += frame.len();
        world.acceptor.handle_message(world.now, frame);
    }
}

#[test]
fn unfinished_messages_of_one_harness_leave_memory_for_others() {
    let budget = Budget::new(4 << 20);
    let mut world = World::with_budget(budget.clone());
    let mut greedy: Vec<Open> = (0..4).map(|number| world.open(&format!("greedy-{number}"))).collect();
    for open in &mut greedy {
        world.acceptor.set_initialized(open.key);
        begin(&mut world, open, 1 << 20);
    }
    // What goes beyond half of the memory costs the harness its own streams.
    assert!(budget.used() <= 2 << 20, "{}", budget.used());
    assert!(budget.used() > 1 << 20, "{}", budget.used());
    let ended = world.events();
    assert!(!ended.is_empty() && ended.iter().all(|event| matches!(event, Event::StreamClosed { .. })));
    world.sent();

    world.another_harness();
    let mut other = world.open("other");
    world.acceptor.set_initialized(other.key);
    begin(&mut world, &mut other, 1 << 20);
    world.expect_nothing();
    // Streams that begin later share what their harness has.
    let before = budget.used();
    let mut again = world.open("again");
    world.acceptor.set_initialized(again.key);
    begin(&mut world, &mut again, 100_000);
    assert!(budget.used() > before && world.events().is_empty());
    world.acceptor.abort(other.key, reason::PROCESSOR_ENDED);
    world.acceptor.abort(again.key, reason::PROCESSOR_ENDED);
    assert!(budget.used() < before);
}
