//! What an executor asks about the network, and is told.

use super::*;
use crate::network::{HostDecision, MAX_QUESTIONS, ManagedNetwork, NetworkDecision};

fn question(id: i64, process: &str) -> Value {
    json!({
        "id": id, "method": "network/policyRequest",
        "params": {"processId": process, "request": {"protocol": "https_connect", "host": "a.test", "port": 443}},
    })
}

fn answer(id: i64, decision: &Value) -> Value {
    json!({"id": id, "result": {"decision": decision}})
}

fn denied(id: i64) -> Value {
    answer(id, &json!({"type": "deny", "reason": "not_allowed"}))
}

fn asking() -> World {
    let mut world = World::ready();
    world.network = Some(ManagedNetwork::new().ask(async |_| HostDecision::Allow));
    world
}

#[test]
fn a_question_is_decided_by_its_process() {
    let mut world = asking();
    let _events = world.running("p");
    world.sent();
    world.say(&question(7, "p")).unwrap();
    assert!(world.sent().is_empty());
    let [asked] = <[_; 1]>::try_from(world.core.take_questions()).unwrap();
    assert_eq!(
        (asked.params.process_id.as_str(), asked.params.request.port),
        ("p", 443)
    );
    world.core.answer(&asked.id, HostDecision::Allow);
    assert_eq!(world.one(), answer(7, &json!({"type": "allow"})));
    assert!(world.core.take_questions().is_empty());
}

#[test]
fn nobody_decides_for_processes_without_a_managed_network() {
    let mut world = World::ready();
    let _events = world.running("p");
    world.sent();
    for (id, process) in [(1, "p"), (2, "unknown")] {
        world.say(&question(id, process)).unwrap();
        assert_eq!(world.one(), denied(id));
    }
    assert!(world.core.take_questions().is_empty());
}

#[test]
fn questions_are_bounded_and_end_with_the_connection() {
    let mut world = asking();
    let _events = world.running("p");
    world.sent();
    let most = i64::try_from(MAX_QUESTIONS).unwrap();
    for id in 1..=most {
        world.say(&question(id, "p")).unwrap();
    }
    // Also those that are being decided count.
    let first = world.core.take_questions().remove(0);
    world.say(&question(most + 1, "p")).unwrap();
    assert_eq!(world.one(), denied(most + 1));
    world.core.answer(&first.id, HostDecision::Allow);
    world.core.give_up_question();
    world.sent();
    for id in [most + 2, most + 3] {
        world.say(&question(id, "p")).unwrap();
    }
    assert!(world.sent().is_empty());
    world.say(&question(most + 4, "p")).unwrap();
    assert_eq!(world.one(), denied(most + 4));
    world.core.link_down();
    assert!(world.core.take_questions().is_empty());
    world.connect("s");
    world.sent();
    world.say(&question(1, "p")).unwrap();
    assert_eq!(world.core.take_questions().len(), 1);
}

#[test]
fn decisions_reach_whoever_listens_and_others_cost_nothing() {
    let mut world = World::ready();
    let (decisions, mut heard) = mpsc::channel::<NetworkDecision>(1);
    world.network = Some(ManagedNetwork::new().tell(decisions));
    let _events = world.running("p");
    let mut news = json!({"method": "network/policyDecision", "params": {
        "processId": "p", "timestamp": "2026-11-30T00:53:20.042Z", "scope": "domain", "decision": "deny",
        "source": "baseline_policy", "reason": "denied", "protocol": "socks5_tcp", "host": "a.test", "port": 443,
    }});
    for _ in 0..3 {
        world.say(&news).unwrap();
    }
    let decision = heard.try_recv().unwrap();
    assert_eq!((decision.reason.as_str(), decision.policy_override), ("denied", false));
    assert!(heard.try_recv().is_err());
    news["params"]["processId"] = json!("unknown");
    world.say(&news).unwrap();
    world
        .say(&json!({"method": "network/policyDecision", "params": {}}))
        .unwrap();
    assert!(heard.try_recv().is_err());
}
