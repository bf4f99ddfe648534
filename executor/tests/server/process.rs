//! `process/*`.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Client, server, start, with};

/// Follows a process to its end: its output, and its exit code.
async fn follow(client: &mut Client, id: &str) -> (Vec<u8>, i64) {
    let (mut out, mut code) = (Vec::new(), None);
    for seq in 1.. {
        let (method, params) = client.news().await;
        assert_eq!(
            (&params["processId"], &params["seq"]),
            (&json!(id), &json!(seq)),
            "{method} {params}"
        );
        match method.as_str() {
            "process/output" => out.extend(
                STANDARD
                    .decode(params["chunk"].as_str().expect("chunk"))
                    .expect("base64"),
            ),
            "process/exited" => {
                assert_eq!(params["sandboxDenied"], json!(false));
                code = params["exitCode"].as_i64();
            }
            "process/closed" => break,
            other => panic!("{other}"),
        }
    }
    (out, code.expect("exited before closed"))
}

#[tokio::test]
async fn a_command_runs_from_start_to_closed() {
    let mut client = Client::new(&server()).await;
    let result = client
        .call("process/start", start("p", "echo out; echo err >&2; exit 5"))
        .await;
    assert_eq!(result, Ok(json!({"processId": "p", "sandboxType": "none"})));
    let (out, code) = follow(&mut client, "p").await;
    assert_eq!((String::from_utf8(out).expect("text").len(), code), (8, 5));
    let page = client
        .call("process/read", json!({"processId": "p"}))
        .await
        .expect("read");
    let chunks = page["chunks"].as_array().expect("chunks");
    let mut streams: Vec<_> = chunks
        .iter()
        .map(|chunk| (chunk["stream"].clone(), chunk["chunk"].clone()))
        .collect();
    streams.sort_by_key(|(stream, _)| stream.to_string());
    assert_eq!(
        streams,
        [
            (json!("stderr"), json!("ZXJyCg==")),
            (json!("stdout"), json!("b3V0Cg=="))
        ]
    );
    let state = with(page, json!({"chunks": []}));
    assert_eq!(
        state,
        json!({"chunks": [], "nextSeq": 5, "exited": true, "exitCode": 5, "closed": true, "failure": null,
               "sandboxDenied": false})
    );
    let one = client
        .call("process/read", json!({"processId": "p", "maxBytes": 0}))
        .await
        .expect("read");
    assert_eq!(
        (one["chunks"].as_array().expect("chunks").len(), &one["nextSeq"]),
        (1, &json!(2))
    );
    for (after, left) in [(0, 2), (1, 1), (2, 0)] {
        let rest = client
            .call("process/read", json!({"processId": "p", "afterSeq": after}))
            .await
            .expect("read");
        let seqs: Vec<u64> = rest["chunks"]
            .as_array()
            .expect("chunks")
            .iter()
            .map(|chunk| chunk["seq"].as_u64().expect("number"))
            .collect();
        assert!(
            seqs.len() == left && seqs.iter().all(|seq| *seq > after),
            "{after}: {seqs:?}"
        );
    }
}

#[tokio::test]
async fn the_table_of_refusals() {
    let mut client = Client::new(&server()).await;
    client.call("process/start", start("p", "cat")).await.expect("start");
    let sandbox = json!({"permissions": {"type": "unknown"}, "windowsSandboxLevel": "disabled"});
    let refusals = [
        (
            "process/start",
            with(start("x", ""), json!({"argv": []})),
            -32602,
            "argv must not be empty",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"cwd": "file:///C:/x"})),
            -32602,
            "file:///C:/x",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"cwd": "/tmp"})),
            -32602,
            "",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"argv": ["/no/such"]})),
            -32603,
            "No such file or directory (os error 2)",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"cwd": "file:///no/such"})),
            -32603,
            "(os error 2)",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"env": {"A": "a\u{0}b"}})),
            -32603,
            "",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"sandbox": sandbox})),
            -32602,
            "failed to prepare process sandbox",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"networkProxy": {}})),
            -32602,
            "missing field `proxy`",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"processId": "x".repeat(257)})),
            -32602,
            "256",
        ),
        (
            "process/start",
            with(start("x", ""), json!({"envPolicy": {"inherit": "all"}})),
            -32602,
            "missing field",
        ),
        ("process/start", start("p", "true"), -32600, "process p already exists"),
        ("process/start", json!({}), -32602, "missing field"),
        (
            "process/read",
            json!({"processId": "x"}),
            -32600,
            "unknown process id x",
        ),
        ("process/read", json!({"processId": "p", "waitMs": -1}), -32602, ""),
        (
            "process/write",
            json!({"processId": "x", "chunk": "", "writeId": ""}),
            -32602,
            "writeId must not be empty",
        ),
        (
            "process/write",
            json!({"processId": "p", "chunk": "!", "writeId": "1"}),
            -32602,
            "",
        ),
        (
            "process/write",
            json!({"processId": "p", "chunk": "", "writeId": "w".repeat(257)}),
            -32602,
            "256",
        ),
        (
            "process/signal",
            json!({"processId": "p", "signal": "kill"}),
            -32602,
            "unknown signal",
        ),
        (
            "process/closeStdin",
            json!({"processId": "x"}),
            -32600,
            "unknown process id x",
        ),
        (
            "process/resize",
            json!({"processId": "p", "rows": 1}),
            -32602,
            "columns",
        ),
        (
            "process/resize",
            json!({"processId": "p", "rows": 65536, "columns": 1}),
            -32602,
            "",
        ),
        (
            "process/resize",
            json!({"processId": "p", "rows": 1, "columns": 1}),
            -32600,
            "process p has no terminal",
        ),
        (
            "process/resize",
            json!({"processId": "x", "rows": 1, "columns": 1}),
            -32600,
            "unknown process id x",
        ),
        ("fs/watch", json!({}), -32601, ""),
    ];
    for (method, params, code, text) in refusals {
        let error = client.call(method, params.clone()).await.expect_err(method);
        assert!(
            error.0 == code && error.1.contains(text),
            "{method} {params}: {error:?}"
        );
    }
    let answers = [
        (
            "process/write",
            json!({"processId": "x", "chunk": "", "writeId": "1"}),
            json!({"status": "unknownProcess"}),
        ),
        (
            "process/signal",
            json!({"processId": "x", "signal": "interrupt"}),
            json!({}),
        ),
        (
            "process/terminate",
            json!({"processId": "x"}),
            json!({"running": false}),
        ),
        ("process/terminate", json!({"processId": "p"}), json!({"running": true})),
    ];
    for (method, params, expected) in answers {
        assert_eq!(client.call(method, params).await, Ok(expected), "{method}");
    }
    assert_eq!(follow(&mut client, "p").await.1, 137);
    let error = client
        .call("process/write", json!({"processId": "p", "chunk": "", "writeId": "9"}))
        .await;
    assert_eq!(error, Err((-32603, "failed to write to process stdin".into())));
    assert_eq!(
        client.call("process/terminate", json!({"processId": "p"})).await,
        Ok(json!({"running": false}))
    );
}

#[tokio::test]
async fn input_is_written_once_and_can_be_closed() {
    let mut client = Client::new(&server()).await;
    client.call("process/start", start("p", "cat")).await.expect("start");
    for id in ["1", "1", "2"] {
        let params = json!({"processId": "p", "chunk": STANDARD.encode(id), "writeId": id});
        assert_eq!(
            client.call("process/write", params).await,
            Ok(json!({"status": "accepted"}))
        );
    }
    assert_eq!(
        client.call("process/closeStdin", json!({"processId": "p"})).await,
        Ok(json!({}))
    );
    let params = json!({"processId": "p", "chunk": "", "writeId": "3"});
    assert_eq!(
        client.call("process/write", params).await,
        Ok(json!({"status": "stdinClosed"}))
    );
    assert_eq!(follow(&mut client, "p").await, (b"12".to_vec(), 0));

    let without = with(start("q", "cat"), json!({"pipeStdin": false}));
    client.call("process/start", without).await.expect("start");
    assert_eq!(follow(&mut client, "q").await, (vec![], 0));
}

#[tokio::test]
async fn a_process_is_interrupted_and_ended_past_a_write_that_waits_for_it() {
    let mut client = Client::new(&server()).await;
    let script = "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.02; done";
    client.call("process/start", start("p", script)).await.expect("start");
    assert_eq!(client.news().await.0, "process/output");
    let write =
        |id: u32| json!({"processId": "p", "chunk": STANDARD.encode(vec![0; 1 << 20]), "writeId": id.to_string()});
    client
        .call("process/write", write(1))
        .await
        .expect("the queue takes it");
    let waiting = client.begin("process/write", write(2)).await;
    client
        .call("process/signal", json!({"processId": "p", "signal": "interrupt"}))
        .await
        .expect("signal");
    let (method, news) = client.news().await;
    assert_eq!(
        (method.as_str(), &news["chunk"]),
        ("process/output", &json!(STANDARD.encode("interrupted\n")))
    );
    let ended = client.call("process/terminate", json!({"processId": "p"})).await;
    assert_eq!(ended, Ok(json!({"running": true})));
    let _ = client.reply(waiting.into()).await;
}

#[tokio::test]
async fn a_terminal_is_one_stream_and_takes_control_c() {
    let mut client = Client::new(&server()).await;
    let params = with(
        start("p", "stty size; trap 'exit 4' INT; echo ready; sleep 1000 & wait"),
        json!({"tty": true}),
    );
    client.call("process/start", params).await.expect("start");
    let mut text = String::new();
    while !text.contains("ready") {
        let (_, params) = client.news().await;
        assert_eq!(params["stream"], "pty");
        let chunk = STANDARD
            .decode(params["chunk"].as_str().expect("chunk"))
            .expect("base64");
        text += std::str::from_utf8(&chunk).expect("text");
    }
    assert!(text.starts_with("24 80\r\n"), "{text}");
    let params = json!({"processId": "p", "chunk": STANDARD.encode("\x03"), "writeId": "c"});
    client.call("process/write", params).await.expect("write");
    loop {
        let (method, params) = client.news().await;
        if method == "process/exited" {
            assert_eq!(params["exitCode"], 4);
            break;
        }
    }
}

#[tokio::test]
async fn children_get_the_environment_that_was_asked_for() {
    let mut client = Client::new(&server()).await;
    let policy =
        json!({"inherit": "core", "ignoreDefaultExcludes": true, "exclude": [], "set": {"S": "1"}, "includeOnly": []});
    for (id, params, expected) in [
        ("none", json!({}), vec!["PATH=/usr/bin:/bin"]),
        ("core", json!({"envPolicy": policy}), vec!["PATH=/usr/bin:/bin", "S=1"]),
    ] {
        let script = "/usr/bin/env | grep -E '^(PATH|S|EXECUTOR_TOKEN|CARGO_PKG_NAME)=' | sort";
        client
            .call("process/start", with(start(id, script), params))
            .await
            .expect("start");
        let (out, _) = follow(&mut client, id).await;
        assert_eq!(
            String::from_utf8(out).expect("text").lines().collect::<Vec<_>>(),
            expected,
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn true_is_closed_within_milliseconds() {
    let mut client = Client::new(&server()).await;
    let mut best = Duration::MAX;
    // A busy machine has its quiet moments; a delay of ours is always there.
    for n in 0..400 {
        let id = n.to_string();
        let started = Instant::now();
        let params = with(start(&id, ""), json!({"argv": ["/bin/true"]}));
        client.call("process/start", params).await.expect("start");
        follow(&mut client, &id).await;
        best = best.min(started.elapsed());
        if best < Duration::from_millis(40) {
            break;
        }
    }
    println!("start to closed: {best:?}");
    assert!(best < Duration::from_millis(40), "an artificial delay: {best:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_streams_whole() {
    const SIZE: usize = 200 * 1024 * 1024;
    let mut client = Client::new(&server()).await;
    let started = Instant::now();
    let script = format!("head -c {SIZE} /dev/zero");
    client.begin("process/start", start("p", &script)).await;
    let mut len = 0;
    let mut seq = 0;
    loop {
        let message = client.incoming.recv().await.expect("message");
        if message.starts_with(br#"{"id""#) {
            // The reply, which output may overtake.
            continue;
        }
        seq += 1;
        if message.starts_with(br#"{"method":"process/output""#) {
            let text = &message[message.len() - 2 - 4..message.len() - 2];
            let padding = text.iter().filter(|byte| **byte == b'=').count();
            let start = message
                .windows(9)
                .position(|window| window == br#""chunk":""#)
                .expect("chunk")
                + 9;
            len += (message.len() - start - 3) / 4 * 3 - padding;
        } else {
            let value: Value = serde_json::from_slice(&message).expect("JSON");
            assert_eq!(value["params"]["seq"], json!(seq));
            if value["method"] == "process/closed" {
                break;
            }
        }
    }
    assert_eq!(len, SIZE);
    let seconds = started.elapsed().as_secs_f64();
    println!("{:.0} MB/s of raw output", SIZE as f64 / 1e6 / seconds);
}
