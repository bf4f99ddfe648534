//! Questions and their answers, without a stream.

use rendezvous_host::proxy::Host;
use serde_json::{Value, json};

use super::*;

fn client(desk: &Arc<Desk>, patience: Option<Duration>) -> Client {
    Client {
        desk: Arc::clone(desk),
        process: "p".to_owned(),
        patience,
    }
}

fn target(host: &str) -> Target {
    Target {
        host: Host::parse(host).unwrap(),
        port: 443,
    }
}

fn attached(room: usize) -> (Arc<Desk>, mpsc::Receiver<Bytes>) {
    let desk = Arc::new(Desk::default());
    let (stream, messages) = mpsc::channel(room);
    desk.attach(stream);
    (desk, messages)
}

async fn next(messages: &mut mpsc::Receiver<Bytes>) -> Value {
    serde_json::from_slice(&messages.recv().await.unwrap()).unwrap()
}

fn answer(desk: &Desk, answer: &Value) -> Option<Known> {
    desk.take(&Message::decode(answer.to_string().as_bytes()).unwrap())
}

const PATIENCE: Option<Duration> = Some(Duration::from_secs(2));

#[tokio::test(start_paused = true)]
async fn an_answer_finds_its_question() {
    let (desk, mut messages) = attached(8);
    let client = client(&desk, PATIENCE);
    let one = client.ask(Protocol::Connect, &target("one.test")).unwrap();
    let two = client.ask(Protocol::Socks5, &target("two.test")).unwrap();
    assert!(desk.is_waiting());
    let question = json!({
        "id": 1, "method": "network/policyRequest",
        "params": {"processId": "p", "request": {"protocol": "https_connect", "host": "one.test", "port": 443}},
    });
    assert_eq!(next(&mut messages).await, question);
    assert_eq!(next(&mut messages).await["id"], 2);
    let allow = json!({"id": 2, "result": {"decision": {"type": "allow"}}});
    let ask = json!({"id": 1, "result": {"decision": {"type": "ask", "reason": "r"}}});
    assert_eq!(answer(&desk, &allow), Some(Known::Asked));
    assert_eq!(answer(&desk, &ask), Some(Known::Asked));
    assert_eq!(one.await, Verdict::Ask("r".to_owned()));
    assert_eq!(two.await, Verdict::Allow);
    assert!(!desk.is_waiting());
    // Once more, or for what was never asked.
    assert_eq!(answer(&desk, &allow), Some(Known::Asked));
    for id in [json!(3), json!(0), json!(-1), json!("1")] {
        assert_eq!(answer(&desk, &json!({"id": id, "result": null})), Some(Known::Never));
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_else_comes_is_a_denial() {
    for reply in [
        json!({"error": {"code": -32601, "message": "no"}}),
        json!({"result": null}),
        json!({"result": {"decision": "allow"}}),
        json!({"result": {"decision": {"type": "maybe"}}}),
        json!({"result": {"decision": {"type": "deny"}}}),
        json!({"result": {"decision": ["allow"]}}),
        json!({"result": [{"type": "allow"}]}),
        json!({"result": {"decision": {"type": "allow"}}, "error": {"code": 1, "message": "no"}}),
    ] {
        let (desk, _messages) = attached(8);
        let waiting = client(&desk, PATIENCE).ask(Protocol::Http, &target("x.test")).unwrap();
        let mut reply = reply;
        reply["id"] = json!(1);
        answer(&desk, &reply);
        assert_eq!(waiting.await, Verdict::not_allowed(), "{reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_denial_after_its_time_and_a_late_answer_is_ignored() {
    let (desk, _messages) = attached(8);
    let begin = Instant::now();
    let waiting = client(&desk, PATIENCE).ask(Protocol::Http, &target("x.test")).unwrap();
    assert_eq!(waiting.await, Verdict::not_allowed());
    assert_eq!(begin.elapsed().as_secs(), 2 + GRACE.as_secs());
    assert!(!desk.is_waiting());
    let late = json!({"id": 1, "result": {"decision": {"type": "allow"}}});
    assert_eq!(answer(&desk, &late), Some(Known::Asked));
    let begin = Instant::now();
    let for_ever = client(&desk, Some(Duration::MAX))
        .ask(Protocol::Http, &target("x.test"))
        .unwrap();
    assert_eq!(for_ever.await, Verdict::not_allowed());
    assert!(begin.elapsed() <= MAX_PATIENCE + GRACE + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn after_its_time_a_client_denies_but_allows_nothing() {
    let deny = json!({"type": "deny", "reason": "late"});
    let allow = json!({"type": "allow"});
    for (late, decision, expected) in [
        (false, &allow, Verdict::Allow),
        (true, &allow, Verdict::not_allowed()),
        (true, &deny, Verdict::Deny("late".to_owned())),
    ] {
        let (desk, _messages) = attached(8);
        let waiting = client(&desk, PATIENCE).ask(Protocol::Http, &target("x.test")).unwrap();
        let waiting = tokio::spawn(waiting);
        let after = Duration::from_millis(if late { 2_001 } else { 1_999 });
        tokio::time::sleep(after).await;
        answer(&desk, &json!({"id": 1, "result": {"decision": decision}}));
        assert_eq!(waiting.await.unwrap(), expected, "{late} {decision}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_a_denial_and_so_is_its_absence() {
    let (desk, _messages) = attached(8);
    let client = client(&desk, PATIENCE);
    let begin = Instant::now();
    let waiting = client.ask(Protocol::Http, &target("x.test")).unwrap();
    desk.detach();
    assert_eq!(waiting.await, Verdict::not_allowed());
    let detached = client.ask(Protocol::Http, &target("x.test")).unwrap();
    assert_eq!(detached.await, Verdict::not_allowed());
    assert_eq!(begin.elapsed(), Duration::ZERO);
    // A question of a new stream has a new number.
    let (stream, mut messages) = mpsc::channel(8);
    desk.attach(stream);
    let _waiting = client.ask(Protocol::Http, &target("x.test")).unwrap();
    assert_eq!(next(&mut messages).await["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn open_questions_are_bounded() {
    let (desk, _messages) = attached(MAX_QUESTIONS * 2);
    let client = client(&desk, PATIENCE);
    let mut waiting: Vec<Answer> = (0..MAX_QUESTIONS)
        .map(|_| client.ask(Protocol::Http, &target("x.test")).unwrap())
        .collect();
    let begin = Instant::now();
    let one_too_many = client.ask(Protocol::Http, &target("x.test")).unwrap();
    assert_eq!(one_too_many.await, Verdict::not_allowed());
    assert_eq!(begin.elapsed(), Duration::ZERO);
    // Whoever no longer waits makes room.
    waiting.pop();
    let last = client.ask(Protocol::Http, &target("x.test")).unwrap();
    let id = i64::try_from(MAX_QUESTIONS).unwrap() + 1;
    answer(&desk, &json!({"id": id, "result": {"decision": {"type": "allow"}}}));
    assert_eq!(last.await, Verdict::Allow);
}

#[tokio::test]
async fn a_stream_that_takes_nothing_costs_no_memory() {
    let (desk, mut messages) = attached(2);
    let client = client(&desk, PATIENCE);
    let notice = || Notice {
        at: std::time::UNIX_EPOCH + Duration::from_millis(1_796_000_000_042),
        outcome: rendezvous_host::proxy::Outcome::AllowedByClient,
        protocol: Protocol::Http,
        target: target("x.test"),
        method: Some("GET".to_owned()),
        client: "127.0.0.1:9".parse().unwrap(),
    };
    for _ in 0..5 {
        client.notice(notice());
    }
    let full = client.ask(Protocol::Http, &target("x.test")).unwrap();
    assert_eq!(full.await, Verdict::not_allowed());
    let told = json!({
        "method": "network/policyDecision",
        "params": {
            "processId": "p", "timestamp": "2026-11-30T00:53:20.042Z", "scope": "domain", "decision": "allow", "source": "decider",
            "reason": "not_allowed", "protocol": "http", "host": "x.test", "port": 443, "method": "GET", "client": "127.0.0.1:9",
            "policyOverride": true,
        },
    });
    assert_eq!(next(&mut messages).await, told);
    next(&mut messages).await;
    assert!(messages.try_recv().is_err());
}

#[tokio::test]
async fn what_waits_for_a_stream_is_bounded_in_bytes() {
    let (desk, mut messages) = attached(8);
    let mut client = client(&desk, PATIENCE);
    let notice = |method: usize, reason: usize| Notice {
        at: std::time::UNIX_EPOCH,
        outcome: rendezvous_host::proxy::Outcome::DeniedByClient("\"".repeat(reason)),
        protocol: Protocol::Http,
        target: Target {
            host: Host::Name("a".repeat(rendezvous_host::proxy::MAX_HOST)),
            port: 65_535,
        },
        method: Some("M".repeat(method)),
        client: "[2001:db8:1111:1111:1111:1111:1111:1111]:65535".parse().unwrap(),
    };
    // The longest that there can be, and one that there cannot.
    client.process = "\"".repeat(256);
    client.notice(notice(
        rendezvous_host::proxy::MAX_METHOD,
        rendezvous_host::proxy::MAX_REASON,
    ));
    assert!(messages.try_recv().unwrap().len() > MAX_MESSAGE / 2);
    client.notice(notice(MAX_MESSAGE, 1));
    assert!(messages.try_recv().is_err());
    client.process = "p".repeat(MAX_MESSAGE);
    let too_long = client.ask(Protocol::Http, &target("x.test")).unwrap();
    assert_eq!(too_long.await, Verdict::not_allowed());
    assert!(messages.try_recv().is_err());
}

#[test]
fn without_a_time_nobody_is_asked() {
    let (desk, _messages) = attached(2);
    assert!(client(&desk, None).ask(Protocol::Http, &target("x.test")).is_none());
}
