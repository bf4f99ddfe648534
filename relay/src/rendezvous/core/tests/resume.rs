//! Streams that lose their harness.

use super::*;

#[test]
fn the_same_key_takes_its_stream_up_again() {
    let mut world = World::new();
    let e = world.executor(&executor("env", 1));
    let first = world.harness(&harness("env", 1, "cred"));
    let lane = world.bind(first, "s").unwrap().lane;
    world.core.opened(first);
    world.commands();
    // Before the loss was noticed.
    let second = world.harness(&harness("env", 1, "cred"));
    let opened = world.bind(second, "s").unwrap();
    assert!(opened.resumed);
    assert_eq!(
        world.commands()[..2],
        [
            close(first, close::GOING_AWAY, "stream taken up by a newer connection"),
            unbind(e, "s", lane, None),
        ]
    );
    world.core.connection_down(first, world.now);
    assert_eq!(world.commands(), []);
    // After it.
    world.core.connection_down(second, world.now);
    assert_eq!(
        world.commands(),
        [unbind(e, "s", opened.lane, Some(reason::HARNESS_GONE))]
    );
    let thief = world.harness(&harness("env", 1, "thief"));
    assert_eq!(world.bind(thief, "s"), Err(BindError::Taken));
    let third = world.harness(&harness("env", 1, "cred"));
    assert!(world.bind(third, "s").unwrap().resumed);
    // Long after it.
    world.core.connection_down(third, world.now);
    world.now += SUSPENSION;
    let fourth = world.harness(&harness("env", 1, "cred"));
    assert!(!world.bind(fourth, "s").unwrap().resumed);
}

#[test]
fn a_revoked_harness_leaves_nothing_to_take_up() {
    let mut world = World::new();
    world.executor(&executor("env", 1));
    let first = world.harness(&harness("env", 1, "cred"));
    world.bind(first, "s").unwrap();
    world.core.opened(first);
    world.core.revoke(&harness("env", 1, "cred").sub, world.now);
    let mut same_key = harness("env", 1, "other");
    same_key.key = harness("env", 1, "cred").key;
    let second = world.harness(&same_key);
    assert!(!world.bind(second, "s").unwrap().resumed);
}

#[test]
fn handshakes_of_harnesses_that_left_count_until_the_executor_has_judged_them() {
    let mut world = World::new();
    world.executor(&executor("env", 1));
    let ask = |world: &mut World, id: &str| {
        let harness = world.harness(&harness("env", 1, "cred"));
        world.bind(harness, id).unwrap();
        let admission = world.core.ask_handshake(harness, world.now);
        world.core.connection_down(harness, world.now);
        admission
    };
    for id in ["a", "b", "c", "d"] {
        assert_eq!(ask(&mut world, id), Admission::Go, "{id}");
    }
    assert_eq!(ask(&mut world, "e"), Admission::Wait);
    world.now += VALIDATION_TIMEOUT;
    assert_eq!(ask(&mut world, "f"), Admission::Go);
}

#[test]
fn only_a_resume_takes_a_stream_up() {
    let mut world = World::new();
    world.executor(&executor("env", 1));
    let first = world.harness(&harness("env", 1, "cred"));
    world.bind(first, "s").unwrap();
    world.core.opened(first);
    let handshake = |world: &mut World| {
        let connection = world.harness(&harness("env", 1, "cred"));
        let bound = world
            .core
            .bind(connection, &stream("s"), Some(Kind::Handshake), world.now);
        world.core.connection_down(connection, world.now);
        bound
    };
    assert_eq!(handshake(&mut world), Err(BindError::Taken));
    world.core.connection_down(first, world.now);
    assert_eq!(handshake(&mut world), Err(BindError::Taken));
    let again = world.harness(&harness("env", 1, "cred"));
    assert!(world.bind(again, "s").unwrap().resumed);
}

#[test]
fn without_a_key_nobody_is_the_same() {
    let mut world = World::new();
    world.executor(&executor("env", 1));
    let mut keyless = harness("env", 1, "cred");
    keyless.key = None;
    let first = world.harness(&keyless);
    world.bind(first, "s").unwrap();
    world.core.opened(first);
    let second = world.harness(&keyless);
    assert_eq!(world.bind(second, "s"), Err(BindError::Taken));
}

#[test]
fn a_connection_whose_stream_went_on_takes_no_place() {
    let mut world = World::with(Limits {
        streams_per_executor: 2,
        ..Limits::default()
    });
    world.executor(&executor("env", 1));
    for _ in 0..3 {
        let connection = world.harness(&harness("env", 1, "cred"));
        world.bind(connection, "s").unwrap();
        world.core.opened(connection);
    }
    assert_eq!(world.core.admit(&harness("env", 1, "other"), world.now), Ok(()));
}

#[test]
fn a_stream_that_was_taken_up_is_one_of_its_keys() {
    let mut world = World::with(Limits {
        begun_per_harness_key: 1,
        ..Limits::default()
    });
    world.executor(&executor("env", 1));
    let first = world.harness(&harness("env", 1, "cred"));
    world.bind(first, "s").unwrap();
    assert_eq!(world.core.ask_handshake(first, world.now), Admission::Go);
    world.core.opened(first);
    world.core.connection_down(first, world.now);
    // It needs no handshake.
    let second = world.harness(&harness("env", 1, "cred"));
    assert!(world.bind(second, "s").unwrap().resumed);
    let third = world.harness(&harness("env", 1, "cred"));
    world.bind(third, "t").unwrap();
    assert_eq!(world.core.ask_handshake(third, world.now), Admission::Wait);
}

#[test]
fn suspended_streams_are_bounded() {
    let mut world = World::new();
    let e = world.executor(&executor("env", 1));
    for i in 0..MAX_SUSPENDED + 5 {
        let h = world.harness(&harness("env", 1, "cred"));
        world.bind(h, &format!("s{i}")).unwrap();
        world.core.opened(h);
        world.core.connection_down(h, world.now);
    }
    assert_eq!(world.core.executors[&e].suspended.len(), MAX_SUSPENDED);
}
