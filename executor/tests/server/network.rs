//! The managed network of processes, as clients see it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use crate::support::{Client, server, start, with};

/// A launch with rules for hosts, and perhaps a time for the client's answers.
fn launch(domains: &Value, timeout: Option<u64>) -> Value {
    json!({
        "proxy": {
            "enabled": true, "enableSocks5": true, "enableSocks5Udp": false, "allowUpstreamProxy": false,
            "dangerouslyAllowAllUnixSockets": false, "mode": "full", "domains": domains, "unixSockets": null,
            "allowLocalBinding": true,
        },
        "auditMetadata": {}, "policyDecisionTimeoutMs": timeout,
    })
}

fn enforced() -> Value {
    json!({
        "enforceManagedNetwork": true,
        "sandbox": {
            "permissions": {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"},
            "windowsSandboxLevel": "disabled",
        },
    })
}

/// Answers everybody who connects, and tells that it was reached.
fn target() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _some = stream.read(&mut [0; 4096]);
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nREACHED");
        }
    });
    at
}

/// What a process wrote and told, to its end. Questions are answered by `answer`.
struct Told {
    out: String,
    decisions: Vec<Value>,
    questions: Vec<Value>,
}

async fn follow(client: &mut Client, mut answer: impl FnMut(&Value) -> Option<Value>) -> Told {
    let mut told = Told {
        out: String::new(),
        decisions: Vec::new(),
        questions: Vec::new(),
    };
    loop {
        let message = match client.taken_message() {
            Some(message) => message,
            None => client.message().await.expect("a message"),
        };
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "process/output" => {
                use base64::Engine as _;
                let chunk = params["chunk"].as_str().expect("base64");
                let bytes = base64::prelude::BASE64_STANDARD.decode(chunk).expect("base64");
                told.out.push_str(&String::from_utf8_lossy(&bytes));
            }
            "network/policyDecision" => told.decisions.push(params.clone()),
            "network/policyRequest" => {
                told.questions.push(message.clone());
                if let Some(mut answer) = answer(params) {
                    answer["id"] = message["id"].clone();
                    client.send(answer.to_string()).await;
                }
            }
            "process/closed" => return told,
            _ => {}
        }
    }
}

fn allow(_: &Value) -> Option<Value> {
    Some(json!({"result": {"decision": {"type": "allow"}}}))
}

#[tokio::test]
async fn rules_decide_and_decisions_are_told() {
    let server = server();
    let mut client = Client::new(&server).await;
    let target = target();
    let script = format!("curl -s -m 10 --noproxy '' http://{target}/; echo; curl -s -m 10 http://other.test/");
    let start = with(
        start("p", &script),
        json!({"networkProxy": launch(&json!({"127.0.0.1": "allow"}), None)}),
    );
    for more in [json!({}), enforced()] {
        let params = with(with(start.clone(), more), json!({"processId": format!("p{}", rand())}));
        let started = client.call("process/start", params).await.expect("started");
        let told = follow(&mut client, |_| None).await;
        let (reached, blocked) = told.out.split_once('\n').expect("two lines");
        assert_eq!(reached, "REACHED", "{started}: {}", told.out);
        assert!(blocked.contains(r#""reason":"not_allowed""#), "{blocked}");
        assert!(told.questions.is_empty());
        let decisions: Vec<_> = told
            .decisions
            .iter()
            .map(|decision| {
                (
                    decision["decision"].as_str(),
                    decision["source"].as_str(),
                    decision["host"].as_str(),
                )
            })
            .collect();
        let baseline = Some("baseline_policy");
        assert_eq!(
            decisions,
            [
                (Some("allow"), baseline, Some("127.0.0.1")),
                (Some("deny"), baseline, Some("other.test"))
            ]
        );
    }
}

fn rand() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[tokio::test]
async fn the_variables_lead_to_the_proxy_and_replace_the_clients() {
    let server = server();
    let mut client = Client::new(&server).await;
    let mut config = launch(&json!({}), None);
    config["proxy"]["allowLocalBinding"] = json!(false);
    let more = json!({"networkProxy": config, "env": {"PATH": "/usr/bin:/bin", "HTTP_PROXY": "mine", "KEPT": "1"}});
    let variables = "env | grep -E '^(HTTP_PROXY|ALL_PROXY|NO_PROXY|KEPT|CODEX_NETWORK.*)=' | sort";
    client
        .call("process/start", with(start("p", variables), more.clone()))
        .await
        .expect("started");
    let out = follow(&mut client, |_| None).await.out;
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 6, "{out}");
    assert!(lines[0].starts_with("ALL_PROXY=socks5h://127.0.0.1:"), "{out}");
    assert_eq!(
        lines[1..3],
        ["CODEX_NETWORK_ALLOW_LOCAL_BINDING=0", "CODEX_NETWORK_PROXY_ACTIVE=1"]
    );
    assert!(lines[3].starts_with("HTTP_PROXY=http://127.0.0.1:"), "{out}");
    assert_eq!(lines[4..], ["KEPT=1", "NO_PROXY="]);
    let inside = with(with(start("q", variables), more), enforced());
    client.call("process/start", inside).await.expect("started");
    let out = follow(&mut client, |_| None).await.out;
    assert!(
        out.contains("HTTP_PROXY=http://127.0.0.1:3128\n") && out.contains("=socks5h://127.0.0.1:1080\n"),
        "{out}"
    );
}

#[tokio::test]
async fn the_client_is_asked_about_the_unknown() {
    let server = server();
    let mut client = Client::new(&server).await;
    let target = target();
    let script = format!("curl -s -m 10 --noproxy '' http://{target}/; echo; curl -s -m 10 http://other.test/");
    let more = with(json!({"networkProxy": launch(&json!({}), Some(20_000))}), enforced());
    client
        .call("process/start", with(start("p", &script), more))
        .await
        .expect("started");
    let told = follow(&mut client, |params| {
        if params["request"]["host"] == "127.0.0.1" {
            allow(params)
        } else {
            Some(json!({"result": {"decision": {"type": "ask", "reason": "needs approval"}}}))
        }
    })
    .await;
    assert!(
        told.out.starts_with("REACHED\n") && told.out.contains("needs approval"),
        "{}",
        told.out
    );
    let first = json!({
        "id": 1, "method": "network/policyRequest",
        "params": {"processId": "p", "request": {"protocol": "http", "host": "127.0.0.1", "port": target.port()}},
    });
    assert_eq!(told.questions[0], first);
    assert_eq!(told.decisions[0]["policyOverride"], true);
    assert_eq!(told.decisions[1]["decision"], "ask");
}

#[tokio::test]
async fn an_answer_is_taken_while_a_call_waits() {
    let server = server();
    let mut client = Client::new(&server).await;
    let script = format!("curl -s -m 20 --noproxy '' http://{}/", target());
    let more = json!({"networkProxy": launch(&json!({}), Some(60_000))});
    client
        .call("process/start", with(start("p", &script), more))
        .await
        .expect("started");
    // With one request at a time this one is in the way until the process writes, which waits for the answer.
    let read = json!({"processId": "p", "waitMs": 60_000});
    let id = client.begin("process/read", read).await;
    let begin = std::time::Instant::now();
    let told = follow(&mut client, allow).await;
    assert_eq!(told.out, "REACHED", "{id}");
    assert!(begin.elapsed().as_secs() < 20);
}

#[tokio::test]
async fn what_is_no_answer_is_a_denial_and_costs_nothing_else() {
    for answer in [
        json!({"result": {"decision": {"type": "maybe"}}}),
        json!({"result": null}),
        json!({"error": {"code": -32601, "message": "no"}}),
        json!({"result": {"decision": {"type": "deny", "reason": "a\u{7}b"}}}),
    ] {
        let server = server();
        let mut client = Client::new(&server).await;
        let more = json!({"networkProxy": launch(&json!({}), Some(20_000))});
        let script = "curl -s -m 10 http://other.test/";
        client
            .call("process/start", with(start("p", script), more))
            .await
            .expect("started");
        let told = follow(&mut client, |_| Some(answer.clone())).await;
        assert!(
            told.out.contains(r#""reason":"not_allowed""#) && told.out.contains(r#""source":"decider""#),
            "{}",
            told.out
        );
        client
            .call("environment/status", Value::Null)
            .await
            .expect("still open");
    }
}

#[tokio::test]
async fn silence_is_a_denial() {
    let server = server();
    let mut client = Client::new(&server).await;
    let more = json!({"networkProxy": launch(&json!({}), Some(1))});
    let params = with(start("p", "curl -s -m 20 http://other.test/"), more);
    client.call("process/start", params).await.expect("started");
    let told = follow(&mut client, |_| None).await;
    assert!(told.out.contains(r#""reason":"not_allowed""#), "{}", told.out);
    // The answer that comes too late is no reply to no call.
    client
        .send(json!({"id": 1, "result": {"decision": {"type": "allow"}}}).to_string())
        .await;
    client
        .call("environment/status", Value::Null)
        .await
        .expect("still open");
    client
        .send(json!({"id": 2, "result": {"decision": {"type": "allow"}}}).to_string())
        .await;
    while client.message().await.is_some() {}
}

#[tokio::test]
async fn the_end_of_the_stream_is_a_denial() {
    let server = server();
    let mut client = Client::raw(&server);
    let session = client.initialize(None).await.expect("initialize")["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    client.notify("initialized", json!({})).await;
    let more = json!({"networkProxy": launch(&json!({}), Some(600_000))});
    let params = with(start("p", "curl -s -m 60 http://other.test/"), more);
    client.call("process/start", params).await.expect("started");
    // Until it asks.
    loop {
        let message = match client.taken_message() {
            Some(message) => message,
            None => client.message().await.expect("a message"),
        };
        if message["method"] == "network/policyRequest" {
            break;
        }
    }
    drop(client);
    let mut client = Client::raw(&server);
    while let Err((code, _)) = client.initialize(Some(&session)).await {
        assert_eq!(code, -32010);
        tokio::task::yield_now().await;
    }
    client.notify("initialized", json!({})).await;
    let read = json!({"processId": "p", "waitMs": 30_000});
    let page = client.call("process/read", read).await.expect("a page");
    use base64::Engine as _;
    let chunk = page["chunks"][0]["chunk"].as_str().unwrap_or_else(|| panic!("{page}"));
    let out = base64::prelude::BASE64_STANDARD.decode(chunk).expect("base64");
    assert!(String::from_utf8_lossy(&out).contains(r#""reason":"not_allowed""#));
}

#[tokio::test]
async fn launches_that_make_no_sense_are_refused() {
    let server = server();
    let mut client = Client::new(&server).await;
    let mut cases = vec![
        (
            launch(&json!({"a b": "allow"}), None),
            "unsupported domain pattern syntax: a b",
        ),
        (launch(&json!({"": "deny"}), None), "domain pattern is empty"),
        (launch(&json!({"*": "deny"}), None), "cannot be denied"),
        (launch(&json!({"x": "maybe"}), None), "unknown variant `maybe`"),
        (launch(&json!({}), Some(0)), "must be nonzero"),
        (json!({}), "missing field `proxy`"),
    ];
    for (member, value, text) in [
        ("enabled", json!(false), "requires an enabled proxy"),
        ("mode", json!("weird"), "unknown variant `weird`"),
        ("transparentTcp", json!(true), "transparentTcp"),
    ] {
        let mut launch = launch(&json!({}), None);
        launch["proxy"][member] = value;
        cases.push((launch, text));
    }
    for (launch, text) in cases {
        let params = with(start("p", "true"), json!({"networkProxy": launch}));
        let (code, message) = client.call("process/start", params).await.expect_err(text);
        assert!(code == -32602 && message.contains(text), "{code} {message}");
    }
    let (code, message) = client
        .call("process/start", with(start("p", "true"), enforced()))
        .await
        .expect_err("refused");
    assert!(code == -32602 && message.contains("networkProxy"), "{message}");
    // Without a sandbox there is nothing to enforce it.
    for more in [
        json!({}),
        json!({"networkProxy": launch(&json!({}), None)}),
        json!({"sandbox": null}),
    ] {
        let params = with(with(start("p", "true"), json!({"enforceManagedNetwork": true})), more);
        let (code, message) = client.call("process/start", params).await.expect_err("refused");
        assert!(code == -32602 && message.contains("needs a sandbox"), "{message}");
    }
}

#[tokio::test]
async fn no_rule_opens_what_the_executor_itself_listens_at() {
    let server = server();
    let mut client = Client::new(&server).await;
    let any = "127.0.0.1:0".parse().expect("an address");
    let listener = rendezvous_executor::listen::Listener::bind(any).expect("a port");
    let gateway = rendezvous_executor::gateway::Gateway::bind(any).expect("a port");
    let port = |url: String| url.rsplit(':').next().expect("a port").to_owned();
    let domains = json!({"127.0.0.1": "allow", "localhost": "allow", "*": "allow"});
    let own = [
        format!("127.0.0.1:{}", port(listener.url())),
        format!("localhost:{}", port(gateway.url())),
        // Also the proxies of this and of other processes.
        "${HTTP_PROXY#http://}".to_owned(),
        "${ALL_PROXY#socks5h://}".to_owned(),
        format!("0.0.0.0:{}", target().port()),
    ];
    for address in own {
        let more = json!({"networkProxy": launch(&domains, None), "processId": format!("p{}", rand())});
        let script = format!("curl -s -m 10 --noproxy '' http://{address}/");
        let params = with(start("p", &script), more);
        client.call("process/start", params).await.expect("started");
        let told = follow(&mut client, |_| None).await;
        assert!(told.out.contains("not_allowed_local"), "{address}: {}", told.out);
    }
}
