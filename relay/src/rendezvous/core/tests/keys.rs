//! What one harness key may have.

use super::*;

#[test]
fn one_key_does_not_take_every_place() {
    let limits = Limits {
        streams_per_executor: 4,
        streams_per_harness_key: 2,
        ..Limits::default()
    };
    let mut world = World::with(limits);
    world.executor(&executor("env", 1));
    world.executor(&executor("other", 1));
    let first = world.harness(&harness("env", 1, "a"));
    world.harness(&harness("env", 1, "a"));
    let admit = |world: &World, env, name| world.core.admit(&harness(env, 1, name), world.now);
    assert_eq!(admit(&world, "env", "a"), Err(Refusal::TooManyOfKey));
    // Another executor's places are others, and so is another key.
    assert_eq!(admit(&world, "other", "a"), Ok(()));
    world.harness(&harness("env", 1, "b"));
    assert_eq!(admit(&world, "env", "b"), Ok(()));
    world.core.connection_down(first, world.now);
    assert_eq!(admit(&world, "env", "a"), Ok(()));
}

#[test]
fn a_key_that_has_all_that_an_executor_gives_it_waits_and_has_not_failed() {
    let limits = Limits {
        begun_per_harness_key: 2,
        ..Limits::default()
    };
    let mut world = World::with(limits);
    world.executor(&executor("env", 1));
    let streams: Vec<_> = (0..3).map(|_| world.harness(&harness("env", 1, "a"))).collect();
    for (number, connection) in streams.iter().enumerate() {
        world.bind(*connection, &format!("s{number}")).unwrap();
    }
    assert_eq!(world.core.ask_handshake(streams[0], world.now), Admission::Go);
    world.core.opened(streams[0]);
    assert_eq!(world.core.ask_handshake(streams[1], world.now), Admission::Go);
    for _ in 0..2 * FAILURES_PER_WINDOW {
        assert_eq!(world.core.ask_handshake(streams[2], world.now), Admission::Wait);
    }
    let other = world.harness(&harness("env", 1, "b"));
    world.bind(other, "other").unwrap();
    assert_eq!(world.core.ask_handshake(other, world.now), Admission::Go);
    // One of its streams ends, by itself or with its connection.
    world.core.reset_by_harness(streams[1], world.now);
    assert_eq!(world.core.ask_handshake(streams[2], world.now), Admission::Go);
    world.core.connection_down(streams[0], world.now);
    let next = world.harness(&harness("env", 1, "a"));
    world.bind(next, "next").unwrap();
    assert_eq!(world.core.ask_handshake(next, world.now), Admission::Go);
}
