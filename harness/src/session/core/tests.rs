use rendezvous_rpc::code;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::session::delivery::{self, EventReceiver, MAX_EVENTS};

mod bounds;
mod questions;
mod window;

type Reply = oneshot::Receiver<Result<Box<RawValue>, HarnessError>>;

/// A session and the messages that a test plays the executor's part with.
struct World {
    core: Core,
    notices: mpsc::UnboundedSender<Notice>,
    heard: mpsc::UnboundedReceiver<Notice>,
    /// What the executor names in `initialize`.
    extensions: Value,
    /// What processes are started with.
    network: Option<ManagedNetwork>,
}

impl World {
    fn ready() -> Self {
        Self::ready_with(json!({}))
    }

    fn ready_with(extensions: Value) -> Self {
        let (notices, heard) = mpsc::unbounded_channel();
        let mut world = Self {
            core: Core::new("test".to_owned()),
            notices,
            heard,
            extensions,
            network: None,
        };
        world.connect("s");
        world
    }

    fn connect(&mut self, session: &str) {
        self.core.link_up(false);
        let sent = self.sent();
        assert_eq!(sent[0]["method"], "initialize");
        self.say(
            &json!({"id": sent[0]["id"], "result": {"sessionId": session, "extensions": self.extensions.clone()}}),
        )
        .unwrap();
        assert_eq!(
            self.core.outbox().pop_front().unwrap(),
            r#"{"method":"initialized","params":{}}"#
        );
    }

    fn sent(&mut self) -> Vec<Value> {
        let outbox = std::mem::take(self.core.outbox());
        outbox
            .iter()
            .map(|message| serde_json::from_slice(message).unwrap())
            .collect()
    }

    fn one(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn say(&mut self, message: &Value) -> Result<(), AttemptError> {
        self.core.message(message.to_string().as_bytes())
    }

    fn call(&mut self, method: &'static str, class: Class) -> Reply {
        let (reply, result) = oneshot::channel();
        self.core.command(Command::Call(Call {
            method,
            params: Bytes::from_static(b"{\"x\":1}"),
            class,
            listener: None,
            reply,
        }));
        result
    }

    fn start(&mut self, id: &str) -> (oneshot::Receiver<Result<(), HarnessError>>, EventReceiver) {
        let (events, receiver) = delivery::process(id.to_owned(), self.notices.clone());
        let (reply, started) = oneshot::channel();
        let params = json!({"processId": id, "argv": ["a"], "cwd": "file:///", "env": {}, "tty": false});
        self.core.command(Command::Start {
            network: self.network.clone(),
            params: Box::new(serde_json::from_value(params).unwrap()),
            events,
            reply,
        });
        (started, receiver)
    }

    fn running(&mut self, id: &str) -> EventReceiver {
        let (mut started, events) = self.start(id);
        let call = self.one();
        self.say(&json!({"id": call["id"], "result": {"processId": id}}))
            .unwrap();
        started.try_recv().unwrap().unwrap();
        events
    }

    fn output(&mut self, id: &str, seq: u64) {
        self.say(&json!({"method": "process/output", "params": {"processId": id, "seq": seq, "stream": "stdout", "chunk": "YQ=="}}))
            .unwrap();
    }

    fn page(&mut self, call: &Value, chunks: &[u64], next: u64, exited: bool, closed: bool) {
        let chunks: Vec<Value> = chunks
            .iter()
            .map(|seq| json!({"seq": seq, "stream": "stdout", "chunk": "YQ=="}))
            .collect();
        let exit_code = exited.then_some(5);
        let result =
            json!({"chunks": chunks, "nextSeq": next, "exited": exited, "exitCode": exit_code, "closed": closed});
        self.say(&json!({"id": call["id"], "result": result})).unwrap();
    }
}

fn kinds(events: &mut EventReceiver) -> String {
    let mut kinds = String::new();
    while let Ok(event) = events.try_recv() {
        kinds.push(match event {
            Ok(ProcessEvent::Output { .. }) => 'o',
            Ok(ProcessEvent::Exited { code, .. }) => char::from_digit(u32::try_from(code).unwrap(), 10).unwrap(),
            Ok(ProcessEvent::Dropped { .. }) => 'd',
            Ok(ProcessEvent::Closed) => 'c',
            Err(_) => '!',
        });
    }
    kinds
}

#[test]
fn a_call_finds_its_reply() {
    let mut world = World::ready();
    let mut reply = world.call("fs/remove", Class::Once);
    let call = world.one();
    assert_eq!(call, json!({"id": 2, "method": "fs/remove", "params": {"x": 1}}));
    world.say(&json!({"id": 99, "result": {}})).unwrap();
    assert_eq!(reply.try_recv().unwrap_err(), TryRecvError::Empty);
    world
        .say(&json!({"id": 2, "error": {"code": -32004, "message": "gone"}}))
        .unwrap();
    assert!(reply.try_recv().unwrap().unwrap_err().is_not_found());
}

#[test]
fn a_request_of_the_executor_is_refused_and_news_are_ignored() {
    let mut world = World::ready();
    world
        .say(&json!({"id": 1, "method": "network/other", "params": {}}))
        .unwrap();
    assert_eq!(world.one()["error"]["code"], code::METHOD_NOT_FOUND);
    world
        .say(&json!({"id": 2, "method": "network/policyRequest", "params": {}}))
        .unwrap();
    assert_eq!(world.one()["error"]["code"], code::INVALID_PARAMS);
    world
        .say(&json!({"method": "fs/missingChanged", "params": {"watchId": 1}}))
        .unwrap();
    assert!(matches!(world.core.message(b"[]"), Err(AttemptError::Violation(_))));
}

#[test]
fn events_are_ordered_and_the_close_ends_them() {
    let mut world = World::ready();
    let mut events = world.running("p");
    world
        .say(&json!({"method": "process/exited", "params": {"processId": "p", "seq": 2, "exitCode": 5}}))
        .unwrap();
    world
        .say(&json!({"method": "process/closed", "params": {"processId": "p", "seq": 3}}))
        .unwrap();
    assert_eq!(kinds(&mut events), "");
    world.output("p", 1);
    assert_eq!(kinds(&mut events), "o5c");
    assert!(matches!(
        events.try_recv(),
        Err(mpsc::error::TryRecvError::Disconnected)
    ));
    world.core.abandon("p".to_owned());
    assert_eq!(world.sent(), [] as [Value; 0]);
}

#[test]
fn an_abandoned_process_is_terminated() {
    let mut world = World::ready();
    let _events = world.running("p");
    world.core.abandon("p".to_owned());
    let call = world.one();
    assert_eq!(
        (&call["method"], &call["params"]["processId"]),
        (&json!("process/terminate"), &json!("p"))
    );
    let events = world.running("q");
    drop(events);
    world.output("q", 1);
    assert_eq!(world.one()["method"], "process/terminate");
}

#[test]
fn an_abandoned_process_is_terminated_also_when_the_connection_takes_that_along() {
    let mut world = World::ready();
    let _events = world.running("p");
    world.core.abandon("p".to_owned());
    world.one();
    for _ in 0..2 {
        world.core.link_down();
        world.connect("s");
        let call = world.one();
        assert_eq!(
            (&call["method"], &call["params"]["processId"]),
            (&json!("process/terminate"), &json!("p"))
        );
    }
    world.core.link_down();
    world.core.link_up(false);
    let initialize = world.one();
    world
        .say(&json!({"id": initialize["id"], "result": {"sessionId": "s"}}))
        .unwrap();
    let call = world.sent().remove(1);
    world
        .say(&json!({"id": call["id"], "result": {"running": true}}))
        .unwrap();
    world.core.link_down();
    world.connect("s");
    assert_eq!(world.sent(), [] as [Value; 0], "once is enough");
}

#[test]
fn abandoned_processes_are_terminated_as_soon_as_there_is_room_for_a_call() {
    let mut world = World::ready();
    let _events = [world.running("p"), world.running("q")];
    let mut replies = Vec::new();
    for _ in 0..rendezvous_rpc::call_table::MAX_CALLS {
        replies.push(world.call("environment/status", Class::Once));
    }
    let calls = world.sent();
    let mut refused = world.call("environment/status", Class::Once);
    assert!(matches!(
        refused.try_recv().unwrap(),
        Err(HarnessError::TooManyCalls(_))
    ));
    world.core.abandon("p".to_owned());
    assert_eq!(world.one()["params"]["processId"], "p");
    world.core.abandon("q".to_owned());
    assert_eq!(world.sent(), [] as [Value; 0]);
    world.say(&json!({"id": calls[0]["id"], "result": {}})).unwrap();
    let call = world.one();
    assert_eq!(
        (&call["method"], &call["params"]["processId"]),
        (&json!("process/terminate"), &json!("q"))
    );
}

#[test]
fn a_lost_connection_repeats_fails_and_reads_on() {
    let mut world = World::ready();
    let mut events = world.running("p");
    world.output("p", 1);
    let mut write = world.call("process/write", Class::Repeatable);
    let mut remove = world.call("fs/remove", Class::Once);
    let mut read = world.call("process/read", Class::Repeatable);
    let (mut started, mut lost_events) = world.start("q");
    world.sent();

    world.core.link_down();
    assert!(matches!(
        remove.try_recv().unwrap(),
        Err(HarnessError::OutcomeUnknown("fs/remove"))
    ));
    assert!(matches!(
        started.try_recv().unwrap(),
        Err(HarnessError::OutcomeUnknown("process/start"))
    ));
    assert_eq!(
        lost_events.try_recv().unwrap_err(),
        mpsc::error::TryRecvError::Disconnected
    );
    assert_eq!(write.try_recv().unwrap_err(), TryRecvError::Empty);
    let mut late = world.call("environment/status", Class::Once);
    assert_eq!(world.sent(), [] as [Value; 0]);

    world.core.link_up(false);
    let initialize = world.one();
    assert_eq!(
        (&initialize["id"], &initialize["params"]["resumeSessionId"]),
        (&json!(1), &json!("s"))
    );
    // News may come before the reply.
    world.output("p", 4);
    world.say(&json!({"id": 1, "result": {"sessionId": "s"}})).unwrap();
    let sent = world.sent();
    let methods: Vec<&str> = sent.iter().map(|call| call["method"].as_str().unwrap()).collect();
    assert_eq!(
        methods,
        [
            "initialized",
            "process/terminate",
            "process/read",
            "process/write",
            "process/read",
            "environment/status"
        ]
    );
    assert_eq!(sent[1]["params"]["processId"], "q");
    assert_eq!(
        sent[2]["params"],
        json!({"processId": "p", "afterSeq": 1, "maxBytes": null, "waitMs": 0})
    );
    world.page(&sent[2], &[2, 3, 4], 5, false, false);
    assert_eq!(kinds(&mut events), "oooo");
    for call in &sent[3..] {
        world.say(&json!({"id": call["id"], "result": {}})).unwrap();
    }
    write.try_recv().unwrap().unwrap();
    read.try_recv().unwrap().unwrap();
    late.try_recv().unwrap().unwrap();
}

#[test]
fn a_process_that_ended_meanwhile_is_told_from_its_page() {
    let mut world = World::ready();
    let mut events = world.running("p");
    world.output("p", 1);
    world.core.link_down();
    world.connect("s");
    let read = world.one();
    world.page(&read, &[2], 5, true, true);
    assert_eq!(kinds(&mut events), "oo5c");
}

#[test]
fn a_read_that_is_lost_with_its_connection_is_made_again() {
    let mut world = World::ready();
    let mut events = world.running("p");
    for _ in 0..2 {
        world.core.link_down();
        world.connect("s");
        assert_eq!(world.one()["method"], "process/read");
    }
    world.core.link_down();
    world.connect("s");
    let read = world.one();
    world.page(&read, &[1], 2, false, false);
    assert_eq!(kinds(&mut events), "o");
}

#[test]
fn events_that_are_too_early_are_read_and_not_for_ever() {
    let mut world = World::ready();
    let mut events = world.running("p");
    let overflow = |world: &mut World| {
        for seq in 2..=rendezvous_rpc::event::MAX_PENDING_EVENTS as u64 + 2 {
            world.output("p", seq);
        }
        let read = world.one();
        assert_eq!(
            (&read["method"], &read["params"]["afterSeq"]),
            (&json!("process/read"), &json!(0))
        );
        read
    };
    // Pages without anything new: after a few of them the process is lost, instead of being read for ever.
    let mut reads = 0;
    while kinds(&mut events) != "!" {
        let read = overflow(&mut world);
        reads += 1;
        assert!(reads < 20, "read again and again");
        world.page(&read, &[], 1, false, false);
    }
    assert!(reads > 1, "one such page is no reason");
    assert_eq!(world.one()["method"], "process/terminate");
}

#[test]
fn output_that_is_gone_is_an_error_of_that_process_only() {
    let mut world = World::ready();
    let mut events = world.running("p");
    let mut others = world.running("q");
    world.core.link_down();
    world.connect("s");
    for read in world.sent() {
        if read["params"]["processId"] == "p" {
            world.page(&read, &[7], 8, false, false);
        } else {
            world.page(&read, &[1], 2, false, false);
        }
    }
    assert!(matches!(events.try_recv(), Ok(Err(HarnessError::Events(_)))));
    assert_eq!(world.one()["method"], "process/terminate");
    assert_eq!(kinds(&mut others), "o");
}

#[test]
fn a_process_that_the_executor_forgot_is_an_error() {
    let mut world = World::ready();
    let mut events = world.running("p");
    world.core.link_down();
    world.connect("s");
    let read = world.one();
    world
        .say(&json!({"id": read["id"], "error": {"code": -32600, "message": "unknown process id p"}}))
        .unwrap();
    assert!(matches!(events.try_recv(), Ok(Err(HarnessError::ProcessLost(_)))));
}

#[test]
fn another_session_is_refused() {
    let mut world = World::ready();
    world.core.link_down();
    world.core.link_up(false);
    let initialize = world.one();
    let error = world
        .say(&json!({"id": initialize["id"], "result": {"sessionId": "t"}}))
        .unwrap_err();
    assert_eq!(error.verdict(), crate::recovery::Verdict::Final);
    world.core.link_down();
    world.core.link_up(false);
    let initialize = world.one();
    let attached = json!({"code": -32010, "message": "session s is already attached to another connection"});
    let error = world
        .say(&json!({"id": initialize["id"], "error": attached}))
        .unwrap_err();
    assert!(matches!(error.verdict(), crate::recovery::Verdict::Retry(_)));
}

#[test]
fn the_end_fails_everything() {
    let mut world = World::ready();
    let mut events = world.running("p");
    let mut running = world.call("process/write", Class::Repeatable);
    world.core.link_down();
    let mut held = world.call("fs/remove", Class::Once);
    world.core.fail(&HarnessError::Shutdown);
    assert!(matches!(running.try_recv().unwrap(), Err(HarnessError::Shutdown)));
    assert!(matches!(held.try_recv().unwrap(), Err(HarnessError::Shutdown)));
    assert!(matches!(events.try_recv(), Ok(Err(HarnessError::Shutdown))));
    assert!(matches!(
        world.call("fs/remove", Class::Once).try_recv().unwrap(),
        Err(HarnessError::Shutdown)
    ));
    assert!(matches!(
        world.start("q").0.try_recv().unwrap(),
        Err(HarnessError::Shutdown)
    ));
}

#[tokio::test]
async fn a_reader_without_room_blocks_and_loses_nothing() {
    let mut world = World::ready();
    let mut events = world.running("p");
    let mut seq = 0;
    while world.core.blocked().is_none() {
        seq += 1;
        world.output("p", seq);
    }
    assert_eq!(seq, MAX_EVENTS as u64 + 1);
    world.core.unblock();
    assert!(world.core.blocked().is_some());
    let room = world.core.blocked().unwrap();
    events.recv().await.unwrap().unwrap();
    room.await;
    world.core.unblock();
    assert!(world.core.blocked().is_none());
    assert_eq!(kinds(&mut events).len(), MAX_EVENTS);
    while world.core.blocked().is_none() {
        seq += 1;
        world.output("p", seq);
    }
    world.core.abandon("p".to_owned());
    assert!(world.core.blocked().is_none());
}
