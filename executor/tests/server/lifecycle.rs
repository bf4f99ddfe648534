//! Envelope, `initialize`, sessions.

use std::time::Duration;

use bytes::Bytes;
use rendezvous_executor::server::{Config, Server, Sink, Source};
use rendezvous_wire::key::KeyDigest;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::{Client, PATIENCE, server, start};

#[tokio::test]
async fn broken_messages_are_answered_and_the_stream_goes_on() {
    let server = server();
    let mut client = Client::raw(&server);
    for broken in [
        "{",
        "[]",
        "7",
        r#"{"id":1.5,"method":"initialize"}"#,
        r#"{"id":null,"method":"initialize"}"#,
        r#"{"id":1,"method":"initialize","params":{"clientName":"a","clientName":"b"}}"#,
    ] {
        client.send(broken).await;
        let (code, _) = client.reply((-1).into()).await.expect_err(broken);
        assert_eq!(code, -32600, "{broken}");
    }
    let bomb = format!(r#"{{"id":1,"method":"m","params":[{}0]}}"#, "0,".repeat(262_140));
    client.send(bomb).await;
    let (_, text) = client.reply((-1).into()).await.expect_err("too many values");
    assert!(text.contains("262144"), "{text}");
    client
        .send(r#"{"jsonrpc":"2.0","id":"text","method":"no/such","more":{}}"#)
        .await;
    let error = client.reply("text".into()).await.expect_err("unknown");
    assert_eq!(
        error,
        (-32601, "exec-server stub does not implement `no/such` yet".into())
    );
    client.initialize(None).await.expect("still open");
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_loses_its_stream() {
    let server = server();
    for (message, initialized) in [
        (r#"{"method":"unknown"}"#, true),
        (r#"{"method":"initialized"}"#, false),
        (r#"{"id":1,"result":{}}"#, true),
        (r#"{"id":1,"error":{"code":1,"message":""}}"#, true),
    ] {
        let mut client = if initialized {
            Client::new(&server).await
        } else {
            Client::raw(&server)
        };
        client.send(message).await;
        assert_eq!(client.message().await, None, "{message}");
    }
    let mut client = Client::new(&server).await;
    client.notify("initialized", Value::Null).await;
    client
        .call("environment/status", Value::Null)
        .await
        .expect("repeating it is harmless");
}

#[tokio::test]
async fn calls_wait_for_the_handshake() {
    let server = server();
    let mut client = Client::raw(&server);
    let families = [
        ("process/read", json!({"processId": "p"}), "exec"),
        ("process/start", start("p", "true"), "exec"),
        ("fs/readFile", json!({"path": "file:///"}), "filesystem"),
        ("fs/close", json!({"handleId": "h"}), "filesystem"),
        ("environment/info", json!({}), "environment info"),
        ("environment/status", json!({}), "environment status"),
    ];
    for (method, params, family) in &families {
        let error = client.call(method, params.clone()).await.expect_err(method);
        let text = format!("client must call initialize before using {family} methods");
        assert_eq!(error, (-32600, text));
    }
    let unfit = client.call("process/read", json!({})).await.expect_err("no process");
    assert_eq!(unfit.0, -32602, "parameters are looked at first");
    let wrong = client.call("initialize", json!({})).await.expect_err("no name");
    assert_eq!(wrong.0, -32602);
    let result = client
        .initialize(None)
        .await
        .expect("a failed initialize may be repeated");
    let id = result["sessionId"].as_str().expect("session").to_owned();
    assert_eq!(id.len(), 36);
    for (method, params, family) in &families {
        let error = client.call(method, params.clone()).await.expect_err(method);
        let text = format!("client must send initialized before using {family} methods");
        assert_eq!(error, (-32600, text));
    }
    let again = client.initialize(None).await.expect_err("twice");
    assert_eq!(
        again,
        (-32600, "initialize may only be sent once per connection".into())
    );
    client.notify("initialized", json!({})).await;
    for params in [Value::Null, json!({})] {
        assert_eq!(
            client.call("environment/status", params.clone()).await,
            Ok(json!({"status": "ready"}))
        );
        assert_eq!(
            client.call("environment/info", params).await,
            Ok(result["environmentInfo"].clone())
        );
    }
    let wrong = client
        .call("environment/info", json!({"x": 1}))
        .await
        .expect_err("not null");
    assert_eq!(wrong.0, -32602);
    let info = &result["environmentInfo"];
    assert_eq!(info["platformOs"], "linux");
    assert!(info["cwd"].as_str().expect("cwd").starts_with("file:///"));
    assert!(["bash", "zsh", "sh"].contains(&info["shell"]["name"].as_str().expect("shell")));
    let capabilities = info["capabilities"].as_object().expect("capabilities");
    let mut able: Vec<&str> = capabilities
        .iter()
        .filter(|(_, value)| **value == Value::Bool(true))
        .map(|(name, _)| name.as_str())
        .collect();
    able.sort_unstable();
    assert_eq!(
        able,
        [
            "capabilityDiscoverySandbox",
            "environmentConfigRead",
            "fileWriteStreaming",
            "fsWatchMissing",
            "httpHeaderEnvVars",
            "networkProxyLaunch",
            "sandboxedFileStreaming",
            "shellSnapshotV2"
        ]
    );
}

#[tokio::test]
async fn extensions_are_used_only_when_named() {
    let server = server();
    let mut client = Client::raw(&server);
    let result = client.initialize(None).await.expect("initialize");
    assert_eq!(result["extensions"], json!({"processControl": 1}));

    let mut stock = Client::raw(&server);
    let params = json!({"clientName": "stock", "resumeSessionId": null});
    let result = stock.call("initialize", params).await.expect("initialize");
    assert_eq!(result.get("extensions"), None);
    stock.notify("initialized", json!({})).await;
    for (method, params) in [
        ("process/closeStdin", json!({"processId": "p"})),
        ("process/resize", json!({"processId": "p", "rows": 1, "columns": 1})),
    ] {
        let error = stock.call(method, params).await.expect_err("unknown");
        assert_eq!(error.0, -32601, "{method}");
    }
}

#[tokio::test]
async fn a_call_that_waits_before_a_full_inbox_ends_with_its_stream() {
    let server = server();
    let mut first = Client::raw(&server);
    let opened = first.initialize(None).await.expect("initialize");
    let session = opened["sessionId"].as_str().expect("session").to_owned();
    first.notify("initialized", json!({})).await;
    first.call("process/start", start("p", "cat")).await.expect("start");
    first
        .begin("process/read", json!({"processId": "p", "waitMs": 600_000}))
        .await;
    let full = async {
        while timeout(
            Duration::from_millis(300),
            first.begin("environment/status", Value::Null),
        )
        .await
        .is_ok()
        {}
    };
    timeout(PATIENCE, full).await.expect("bounded");
    drop(first);
    let mut second = Client::raw(&server);
    let resumed = timeout(PATIENCE, async {
        loop {
            match second.initialize(Some(&session)).await {
                Ok(_) => return,
                Err((code, _)) => assert_eq!(code, -32010),
            }
        }
    });
    resumed.await.expect("detached in time");
}

#[tokio::test]
async fn a_session_survives_its_stream_and_is_held_by_one() {
    let server = server();
    let mut first = Client::raw(&server);
    let session = first.initialize(None).await.expect("initialize")["sessionId"]
        .as_str()
        .expect("id")
        .to_owned();
    first.notify("initialized", json!({})).await;
    first
        .call("process/start", start("p", "while read line; do echo $line; done"))
        .await
        .expect("start");
    first
        .call("fs/open", json!({"handleId": "h", "path": "file:///etc/hostname"}))
        .await
        .expect("open");

    let mut second = Client::raw(&server);
    let error = second.initialize(Some(&session)).await.expect_err("attached");
    assert_eq!(
        error,
        (
            -32010,
            format!("session {session} is already attached to another connection")
        )
    );
    let error = second.initialize(Some("nobody")).await.expect_err("unknown");
    assert_eq!(error, (-32600, "unknown session id nobody".into()));

    // A long poll is running when the stream is lost.
    first
        .begin("process/read", json!({"processId": "p", "waitMs": 600_000}))
        .await;
    drop(first);
    let resumed = timeout(PATIENCE, async {
        loop {
            match second.initialize(Some(&session)).await {
                Ok(result) => return result,
                Err((code, _)) => assert_eq!(code, -32010),
            }
        }
    })
    .await
    .expect("detached in time");
    assert_eq!(resumed["sessionId"], session.as_str());
    second.notify("initialized", json!({})).await;
    let write = json!({"processId": "p", "chunk": "aGkK", "writeId": "1"});
    assert_eq!(
        second.call("process/write", write).await,
        Ok(json!({"status": "accepted"}))
    );
    let (method, params) = second.news().await;
    assert_eq!((method.as_str(), &params["chunk"]), ("process/output", &json!("aGkK")));
    let error = second
        .call("fs/readBlock", json!({"handleId": "h", "offset": 0, "len": 1}))
        .await;
    assert_eq!(error.expect_err("files belong to the stream").0, -32004);
    assert_eq!(server.sessions(), 1);
}

#[tokio::test]
async fn a_detached_session_ends_with_its_processes() {
    let server = server();
    let mut client = Client::raw(&server);
    let session = client.initialize(None).await.expect("initialize")["sessionId"]
        .as_str()
        .expect("id")
        .to_owned();
    client.notify("initialized", json!({})).await;
    client
        .call("process/start", start("p", "echo $$; exec sleep 1000"))
        .await
        .expect("start");
    let (_, output) = client.news().await;
    let pid: i32 = {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.decode(output["chunk"].as_str().expect("chunk"));
        String::from_utf8(text.expect("base64"))
            .expect("text")
            .trim()
            .parse()
            .expect("pid")
    };
    let alive = || std::path::Path::new(&format!("/proc/{pid}")).exists();
    drop(client);
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(79)).await;
    assert!(alive());
    let mut late = Client::raw(&server);
    late.initialize(Some(&session)).await.expect("still there");
    drop(late);
    tokio::time::sleep(Duration::from_secs(79)).await;
    // The process would still be there: it is killed and reaped in the system's time.
    assert_eq!(server.sessions(), 1, "an earlier grace does not end a later one");
    assert!(alive());
    tokio::time::sleep(Duration::from_secs(2)).await;
    tokio::time::resume();
    timeout(PATIENCE, async {
        while alive() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .expect("killed in time");
    assert_eq!(server.sessions(), 0);
    let error = Client::raw(&server).initialize(Some(&session)).await.expect_err("gone");
    assert_eq!(error, (-32600, format!("unknown session id {session}")));
}

#[tokio::test]
async fn sessions_are_bounded_and_idle_detached_ones_make_room() {
    let server = Server::new(Config {
        max_sessions: 2,
        ..Config::default()
    });
    let mut busy = Client::new(&server).await;
    busy.call("process/start", start("p", "sleep 1000"))
        .await
        .expect("start");
    let idle = Client::new(&server).await;
    let error = Client::raw(&server).initialize(None).await.expect_err("full");
    assert_eq!(error.0, -32603);
    drop(busy);
    drop(idle);
    let mut next = Client::raw(&server);
    timeout(PATIENCE, async { while next.initialize(None).await.is_err() {} })
        .await
        .expect("room in time");
    let error = Client::raw(&server)
        .initialize(None)
        .await
        .expect_err("the busy one stays");
    assert_eq!(error.0, -32603);
    server.shut();
    assert_eq!(server.sessions(), 0);
    let error = Client::raw(&server).initialize(None).await.expect_err("shut");
    assert_eq!(error, (-32603, "the executor is stopping".into()));
    assert_eq!(server.sessions(), 0);
}

#[tokio::test]
async fn one_harness_cannot_take_every_place_for_a_session() {
    let server = Server::new(Config {
        max_sessions: 3,
        max_sessions_per_harness: 2,
        ..Config::default()
    });
    let (greedy, other) = (KeyDigest([1; 32]), KeyDigest([2; 32]));
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = Client::of(&server, greedy);
        client.initialize(None).await.expect("a place");
        held.push(client);
    }
    let error = Client::of(&server, greedy)
        .initialize(None)
        .await
        .expect_err("its share");
    assert_eq!(error, (-32603, "too many sessions of this harness".into()));
    let mut modest = Client::of(&server, other);
    modest.initialize(None).await.expect("the others' share");
    // Its own idle session makes room, and nobody else's.
    drop(held.pop());
    let mut next = Client::of(&server, greedy);
    timeout(PATIENCE, async { while next.initialize(None).await.is_err() {} })
        .await
        .expect("room in time");
    assert_eq!(server.sessions(), 3);
    modest.notify("initialized", json!({})).await;
    let status = modest.call("environment/status", json!(null)).await;
    assert_eq!(status.expect("still here")["status"], "ready");
}

#[tokio::test]
async fn a_client_that_sends_more_than_is_answered_is_not_read() {
    let server = server();
    let mut client = Client::new(&server).await;
    client
        .call("process/start", start("p", "sleep 1000"))
        .await
        .expect("start");
    client
        .begin("process/read", json!({"processId": "p", "waitMs": 600_000}))
        .await;
    let mut sent = 0;
    let send = async {
        loop {
            client.begin("environment/status", Value::Null).await;
            sent += 1;
            assert!(sent < 4096, "what waits is bounded");
        }
    };
    // Ends by the clock alone: nothing tells that nothing happens.
    let never: Result<(), _> = timeout(Duration::from_secs(2), send).await;
    never.expect_err("the server stops reading");
    assert!(sent >= 2048, "{sent}");
    client.assert_open();
}

#[tokio::test]
async fn a_stream_that_takes_no_news_is_over_also_while_a_call_runs() {
    struct Deaf;
    impl Sink for Deaf {
        async fn send(&self, message: Bytes) -> bool {
            !message.starts_with(br#"{"method""#)
        }
    }
    struct Messages(mpsc::Receiver<String>);
    impl Source for Messages {
        async fn recv(&mut self) -> Option<Bytes> {
            self.0.recv().await.map(Bytes::from)
        }
    }
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("go");
    let script = format!(
        "until [ -e {} ]; do sleep 0.01; done; echo news; exec sleep 1000",
        file.display()
    );
    let (sender, messages) = mpsc::channel(8);
    for message in [
        json!({"id": 1, "method": "initialize", "params": {"clientName": "test", "resumeSessionId": null}}),
        json!({"method": "initialized", "params": {}}),
        json!({"id": 2, "method": "process/start", "params": start("p", &script)}),
        json!({"id": 3, "method": "process/read", "params": {"processId": "p", "afterSeq": 99, "waitMs": 600_000}}),
    ] {
        sender.send(message.to_string()).await.expect("room");
    }
    let server = server();
    let serving = tokio::spawn(async move { server.serve_stream(Deaf, Messages(messages)).await });
    timeout(PATIENCE, async {
        while sender.capacity() < sender.max_capacity() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .expect("the call runs");
    std::fs::write(file, "").expect("write");
    timeout(PATIENCE, serving)
        .await
        .expect("an end in time")
        .expect("no panic");
}

#[tokio::test]
async fn calls_are_answered_in_order_one_at_a_time() {
    let server = server();
    let mut client = Client::new(&server).await;
    client
        .call("process/start", start("p", "read line; echo $line"))
        .await
        .expect("start");
    let poll = client
        .begin("process/read", json!({"processId": "p", "waitMs": 300}))
        .await;
    let mut behind = Vec::new();
    for _ in 0..10 {
        behind.push(client.begin("environment/status", Value::Null).await);
    }
    client.reply(poll.into()).await.expect("the poll first");
    for id in behind {
        client.reply(id.into()).await.expect("status");
    }
    client.assert_open();
}
