mod keys;
mod resume;

use proptest::prelude::*;
use rendezvous_wire::id::BootId;

use super::harness::{BindError, Opened};
use super::*;
use crate::rendezvous::budget::FAILURES_PER_WINDOW;

struct World {
    core: Core,
    now: Instant,
    last: u64,
}

impl World {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self {
            core: Core::new(limits),
            now: Instant::now(),
            last: 0,
        }
    }

    fn next(&mut self) -> ConnectionId {
        self.last += 1;
        ConnectionId(self.last)
    }

    fn executor(&mut self, claims: &Claims) -> ConnectionId {
        let connection = self.next();
        self.core.executor_up(connection, claims, self.now).unwrap();
        connection
    }

    fn harness(&mut self, claims: &Claims) -> ConnectionId {
        let connection = self.next();
        self.core.harness_up(connection, claims, self.now).unwrap();
        connection
    }

    fn bind(&mut self, connection: ConnectionId, id: &str) -> Result<Opened, BindError> {
        self.core.bind(connection, &stream(id), Some(Kind::Resume), self.now)
    }

    fn commands(&mut self) -> Vec<Command> {
        self.core.take_commands()
    }
}

fn stream(id: &str) -> StreamId {
    StreamId::new(id).unwrap()
}

fn claims(role: Role, env: &str, generation: u64, sub: &str) -> Claims {
    let boot = BootId::new("boot").unwrap();
    Claims {
        aud: boot.as_str().to_owned(),
        iat: 0,
        exp: u64::MAX,
        jti: "j".into(),
        role,
        env: EnvironmentId::new(env).unwrap(),
        reg: RegistrationId::new(format!("{env}-{generation}")).unwrap(),
        generation,
        sub: CredentialId::new(sub).unwrap(),
        ends: None,
        key: (role == Role::Harness).then(|| key(sub)),
    }
}

fn key(name: &str) -> KeyDigest {
    let mut digest = [0; 32];
    digest[..name.len()].copy_from_slice(name.as_bytes());
    KeyDigest(digest)
}

fn executor(env: &str, generation: u64) -> Claims {
    claims(Role::Executor, env, generation, "exec")
}

fn harness(env: &str, generation: u64, sub: &str) -> Claims {
    claims(Role::Harness, env, generation, sub)
}

/// So that the list of a relay that runs for years does not fill up.
#[test]
fn a_revocation_is_remembered_for_as_long_as_its_tickets_may_live() {
    let mut world = World::new();
    let name = |number: usize| CredentialId::new(format!("c{number}")).unwrap();
    for number in 0..MAX_REVOKED {
        world.core.revoke(&name(number), world.now);
    }
    let refused = |world: &World, number| {
        let claims = claims(Role::Executor, "env", 1, name(number).as_str());
        world.core.admit(&claims, world.now) == Err(Refusal::Revoked)
    };
    world.now += EXECUTOR_TICKET_LIFETIME - Duration::from_secs(1);
    world.core.revoke(&name(MAX_REVOKED), world.now);
    assert!(refused(&world, 0) && refused(&world, MAX_REVOKED - 1));
    assert!(!refused(&world, MAX_REVOKED), "there was no room");
    world.now += Duration::from_secs(1);
    world.core.revoke(&name(MAX_REVOKED), world.now);
    assert!(refused(&world, MAX_REVOKED));
    assert!(!refused(&world, 0), "its last ticket has ended");
}

fn close(connection: ConnectionId, code: u16, reason: &'static str) -> Command {
    Command::Close {
        connection,
        code,
        reason,
    }
}

fn unbind(executor: ConnectionId, id: &str, lane: Lane, reset: Option<&'static str>) -> Command {
    Command::Unbind {
        executor,
        stream: stream(id),
        lane,
        reset,
    }
}

#[test]
fn a_stream_from_bind_to_reset() {
    let mut world = World::new();
    let e = world.executor(&executor("env", 1));
    let h = world.harness(&harness("env", 1, "cred"));
    world.commands();
    let opened = world.bind(h, "s").unwrap();
    assert!(!opened.resumed);
    assert_eq!(
        world.commands(),
        [Command::Bind {
            executor: e,
            harness: h,
            stream: stream("s"),
            lane: opened.lane
        }]
    );
    world.core.connection_down(h, world.now);
    assert_eq!(
        world.commands(),
        [unbind(e, "s", opened.lane, Some(reason::HARNESS_GONE))]
    );
    world.core.connection_down(h, world.now);
    assert_eq!(world.commands(), []);
}

#[test]
fn the_newest_executor_connection_wins_and_the_older_ones_harnesses_are_closed() {
    let mut world = World::new();
    let old = world.executor(&executor("env", 1));
    let other = world.executor(&executor("other", 1));
    let h = world.harness(&harness("env", 1, "cred"));
    let lane = world.bind(h, "s").unwrap().lane;
    world.commands();
    let new = world.executor(&executor("env", 1));
    let commands = world.commands();
    assert_eq!(
        commands[..3],
        [
            close(old, close::GOING_AWAY, "replaced by a newer connection"),
            close(h, close::TRY_AGAIN, reason::EXECUTOR_GONE),
            unbind(old, "s", lane, None),
        ]
    );
    assert!(matches!(&commands[3], Command::Presence(false, gone) if gone.connection == old.0));
    assert!(matches!(&commands[4], Command::Presence(true, up) if up.connection == new.0));
    // The end of the old connection's task changes nothing.
    world.core.connection_down(old, world.now);
    assert_eq!(world.commands(), []);
    let executors: Vec<_> = world
        .core
        .presences()
        .iter()
        .map(|presence| presence.connection)
        .collect();
    assert_eq!(executors.len(), 2);
    assert!(executors.contains(&new.0) && executors.contains(&other.0));
}

#[test]
fn generations_only_grow() {
    let mut world = World::new();
    let old = world.executor(&executor("env", 1));
    let new = world.executor(&executor("env", 2));
    let commands = world.commands();
    assert!(commands.contains(&close(old, close::GOING_AWAY, "replaced by a newer connection")));
    let refused = world.core.executor_up(ConnectionId(99), &executor("env", 1), world.now);
    assert_eq!(refused, Err(Refusal::Superseded));
    assert_eq!(
        world.core.admit(&harness("env", 1, "cred"), world.now),
        Err(Refusal::Superseded)
    );
    // A harness whose ticket is for a registration that has not connected yet has to wait.
    assert_eq!(
        world.core.admit(&harness("env", 3, "cred"), world.now),
        Err(Refusal::Absent)
    );
    world.core.supersede(&executor("env", 0).env, 3);
    assert_eq!(
        world.commands()[0],
        close(new, close::GOING_AWAY, "superseded by a newer registration")
    );
    world.core.supersede(&executor("env", 0).env, 2);
    assert_eq!(
        world.core.admit(&executor("env", 2), world.now),
        Err(Refusal::Superseded)
    );
    assert_eq!(world.core.admit(&executor("env", 3), world.now), Ok(()));
}

#[test]
fn a_taken_stream_id_costs_the_newcomer_only() {
    let mut world = World::new();
    world.executor(&executor("env", 1));
    let first = world.harness(&harness("env", 1, "first"));
    let second = world.harness(&harness("env", 1, "second"));
    world.bind(first, "s").unwrap();
    world.commands();
    assert_eq!(world.bind(second, "s"), Err(BindError::Taken));
    assert_eq!(world.commands(), []);
    // The same id on another executor is another stream.
    world.executor(&executor("other", 1));
    let third = world.harness(&harness("other", 1, "second"));
    assert!(world.bind(third, "s").is_ok());
}

#[test]
fn failed_handshakes_lock_out_their_credential_only() {
    let mut world = World::new();
    world.executor(&executor("env", 1));
    for i in 0..FAILURES_PER_WINDOW {
        let h = world.harness(&harness("env", 1, "bad"));
        world.bind(h, &format!("s{i}")).unwrap();
        assert_eq!(world.core.ask_handshake(h, world.now), Admission::Go);
        world.core.reset_by_executor(h, world.now);
        world.core.connection_down(h, world.now);
    }
    assert!(matches!(
        world.core.admit(&harness("env", 1, "bad"), world.now),
        Err(Refusal::LockedOut(_))
    ));
    assert_eq!(world.core.admit(&harness("env", 1, "good"), world.now), Ok(()));
}

#[test]
fn a_reset_of_an_open_stream_is_no_failure_and_needs_no_answer() {
    let mut world = World::new();
    let e = world.executor(&executor("env", 1));
    for i in 0..2 * FAILURES_PER_WINDOW {
        let h = world.harness(&harness("env", 1, "cred"));
        let id = format!("s{i}");
        let lane = world.bind(h, &id).unwrap().lane;
        assert_eq!(world.core.ask_handshake(h, world.now), Admission::Go);
        world.core.opened(h);
        world.core.reset_by_executor(h, world.now);
        world.commands();
        world.core.connection_down(h, world.now);
        assert_eq!(world.commands(), [unbind(e, &id, lane, None)]);
    }
    assert_eq!(world.core.admit(&harness("env", 1, "cred"), world.now), Ok(()));
}

#[test]
fn revocation_cuts_everything_of_the_credential() {
    let mut world = World::new();
    let e = world.executor(&executor("env", 1));
    let bad = world.harness(&harness("env", 1, "bad"));
    let good = world.harness(&harness("env", 1, "good"));
    let lane = world.bind(bad, "s").unwrap().lane;
    world.core.opened(bad);
    world.commands();
    world.core.revoke(&CredentialId::new("bad").unwrap(), world.now);
    assert_eq!(
        world.commands(),
        [
            close(bad, close::POLICY, reason::REVOKED),
            unbind(e, "s", lane, Some(reason::REVOKED))
        ]
    );
    assert_eq!(
        world.core.admit(&harness("env", 1, "bad"), world.now),
        Err(Refusal::Revoked)
    );
    world.core.set_revoked(&[CredentialId::new("exec").unwrap()], world.now);
    assert_eq!(
        world.commands()[..2],
        [
            close(e, close::POLICY, reason::REVOKED),
            close(good, close::TRY_AGAIN, reason::EXECUTOR_GONE)
        ]
    );
    assert_eq!(world.core.counts(), (0, 0));
    assert!(world.core.connections.is_empty());
}

#[test]
fn a_deleted_environment_is_out_for_good() {
    let mut world = World::new();
    let e = world.executor(&executor("env", 7));
    world.commands();
    world.core.forget(&executor("env", 7).env, 8);
    assert!(matches!(world.commands()[0], Command::Close { connection, .. } if connection == e));
    assert_eq!(
        world.core.admit(&executor("env", 8), world.now),
        Err(Refusal::Superseded)
    );
    // One that is made again under the same id is another one, also when the relay hears late of the deletion.
    world.executor(&executor("env", 9));
    world.commands();
    world.core.forget(&executor("env", 7).env, 8);
    assert!(world.commands().is_empty());
}

#[test]
fn limits() {
    let limits = Limits {
        connections: 6,
        connections_per_credential: 3,
        streams_per_executor: 4,
        ..Limits::default()
    };
    let mut world = World::with(limits);
    world.executor(&executor("env", 1));
    for _ in 0..3 {
        world.harness(&harness("env", 1, "a"));
    }
    assert_eq!(
        world.core.admit(&harness("env", 1, "a"), world.now),
        Err(Refusal::TooManyOfCredential)
    );
    world.harness(&harness("env", 1, "b"));
    assert_eq!(
        world.core.admit(&harness("env", 1, "c"), world.now),
        Err(Refusal::TooManyStreams)
    );
    let last = world.executor(&claims(Role::Executor, "other", 1, "x"));
    assert_eq!(
        world.core.admit(&harness("other", 1, "c"), world.now),
        Err(Refusal::TooMany)
    );
    world.core.connection_down(last, world.now);
    assert_eq!(
        world.core.admit(&harness("other", 1, "c"), world.now),
        Err(Refusal::Absent)
    );
    world.core.drain();
    assert_eq!(world.core.admit(&executor("env", 1), world.now), Err(Refusal::Draining));
}

#[test]
fn environments_that_are_remembered_are_bounded() {
    let mut world = World::new();
    let e = world.executor(&executor("held", 5));
    for i in 0..MAX_ENVIRONMENTS + 10 {
        let env = EnvironmentId::new(format!("e{i}")).unwrap();
        world.core.supersede(&env, 1);
    }
    assert!(world.core.environments.len() <= MAX_ENVIRONMENTS);
    assert_eq!(world.core.executor_of(&executor("held", 5).reg), Some(e));
}

#[derive(Clone, Debug)]
enum Step {
    Executor(u8, u64),
    Harness(u8, u64, u8),
    Bind(usize, u8),
    Open(usize),
    ResetByExecutor(usize),
    Down(usize),
    Revoke(u8),
    Supersede(u8, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0u8..2, 1u64..4).prop_map(|(env, generation)| Step::Executor(env, generation)),
        4 => (0u8..2, 1u64..4, 0u8..3).prop_map(|(env, generation, sub)| Step::Harness(env, generation, sub)),
        6 => (any::<usize>(), 0u8..6).prop_map(|(index, id)| Step::Bind(index, id)),
        2 => any::<usize>().prop_map(Step::Open),
        1 => any::<usize>().prop_map(Step::ResetByExecutor),
        3 => any::<usize>().prop_map(Step::Down),
        1 => (0u8..3).prop_map(Step::Revoke),
        1 => (0u8..2, 1u64..4).prop_map(|(env, generation)| Step::Supersede(env, generation)),
    ]
}

proptest! {
    /// Seen from outside, by commands only: at most one executor per environment, a stream belongs to one harness, and
    /// every bind is undone exactly once.
    #[test]
    fn commands_are_consistent(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        let mut live: Vec<ConnectionId> = Vec::new();
        let mut up: HashMap<EnvironmentId, u64> = HashMap::new();
        let mut bound: HashMap<(ConnectionId, StreamId), Lane> = HashMap::new();
        for step in steps {
            let pick = |index: usize| live.get(index % live.len().max(1)).copied();
            match step {
                Step::Executor(env, generation) => {
                    let connection = world.next();
                    if world.core.executor_up(connection, &executor(&format!("e{env}"), generation), world.now).is_ok() {
                        live.push(connection);
                    }
                }
                Step::Harness(env, generation, sub) => {
                    let connection = world.next();
                    let claims = harness(&format!("e{env}"), generation, &format!("c{sub}"));
                    if world.core.harness_up(connection, &claims, world.now).is_ok() {
                        live.push(connection);
                    }
                }
                Step::Bind(index, id) => if let Some(connection) = pick(index) {
                    // The shell binds a connection's first frame only.
                    if world.core.harnesses.get(&connection).is_some_and(|harness| harness.stream.is_none()) {
                        let _ = world.bind(connection, &format!("s{id}"));
                    }
                },
                Step::Open(index) => if let Some(connection) = pick(index) {
                    world.core.opened(connection);
                },
                Step::ResetByExecutor(index) => if let Some(connection) = pick(index) {
                    world.core.reset_by_executor(connection, world.now);
                },
                Step::Down(index) => if let Some(connection) = pick(index) {
                    world.core.connection_down(connection, world.now);
                    live.retain(|other| *other != connection);
                },
                Step::Revoke(sub) => world.core.revoke(&CredentialId::new(format!("c{sub}")).unwrap(), world.now),
                Step::Supersede(env, generation) => {
                    world.core.supersede(&EnvironmentId::new(format!("e{env}")).unwrap(), generation);
                }
            }
            for command in world.commands() {
                match command {
                    Command::Presence(true, presence) => {
                        let before = up.insert(presence.environment, presence.connection);
                        prop_assert_eq!(before, None);
                    }
                    Command::Presence(false, presence) => {
                        prop_assert_eq!(up.remove(&presence.environment), Some(presence.connection));
                    }
                    Command::Bind { executor, stream, lane, .. } => {
                        prop_assert!(bound.insert((executor, stream), lane).is_none());
                    }
                    Command::Unbind { executor, stream, lane, .. } => {
                        prop_assert_eq!(bound.remove(&(executor, stream)), Some(lane));
                    }
                    Command::Close { .. } => {}
                }
            }
            prop_assert_eq!(world.core.presences().len(), up.len());
            let streams: usize = world.core.executors.values().map(|executor| executor.streams.len()).sum();
            prop_assert_eq!(streams, bound.len());
            let held: usize = world.core.connections.values().sum();
            let (executors, harnesses) = world.core.counts();
            prop_assert_eq!(held, executors + harnesses);
        }
    }
}
