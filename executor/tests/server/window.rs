//! The extension `outputWindow`: output waits for its reader, on whatever stream that comes back.

use rendezvous_host::process::{WINDOW_BYTES, WINDOW_CHUNKS};
use rendezvous_rpc::base64::Base64;
use serde_json::{Value, json};

use crate::support::{Client, server, start};

/// A client that says how far it has come.
async fn client(server: &rendezvous_executor::server::Server, resume: Option<&str>) -> (Client, String) {
    let mut client = Client::raw(server);
    let params = json!({"clientName": "test", "resumeSessionId": resume, "extensions": {"outputWindow": 1}});
    let result = client.call("initialize", params).await.expect("initialize");
    assert_eq!(result["extensions"], json!({"outputWindow": 1}));
    client.notify("initialized", json!({})).await;
    (client, result["sessionId"].as_str().expect("session").to_owned())
}

async fn consumed(client: &Client, seq: u64) {
    // As our harness writes it, so that it passes calls that are being answered.
    let message = format!(r#"{{"method":"process/consumed","params":{{"processId":"p","seq":{seq}}}}}"#);
    client.send(message).await;
}

fn bytes(chunk: &Value) -> Vec<u8> {
    serde_json::from_value::<Base64>(chunk["chunk"].clone())
        .expect("base64")
        .0
        .to_vec()
}

/// Takes news until nothing more comes; the last number, and the bytes.
async fn take_until_stop(client: &mut Client) -> (u64, Vec<u8>) {
    let (mut last, mut got) = (0, Vec::new());
    // The program is stopped when calls are answered and no news lies between two of them.
    loop {
        let before = last;
        client.call("environment/status", Value::Null).await.expect("status");
        while let Some((method, news)) = client.taken_news() {
            assert_eq!(method, "process/output");
            last = news["seq"].as_u64().expect("seq");
            got.extend(bytes(&news));
        }
        if last == before && (got.len() >= WINDOW_BYTES || last >= WINDOW_CHUNKS) {
            return (last, got);
        }
    }
}

#[tokio::test]
async fn a_program_waits_for_its_reader_and_nothing_is_lost_with_a_stream() {
    const SIZE: usize = 20_000_000;
    let server = server();
    let (mut first, session) = client(&server, None).await;
    let script = format!("seq 1 10000000 | head -c {SIZE}");
    first.call("process/start", start("p", &script)).await.expect("start");
    let (last, mut got) = take_until_stop(&mut first).await;
    assert!(
        got.len() < WINDOW_BYTES + 64 * 1024,
        "{} bytes without a word",
        got.len()
    );
    drop(first);

    // Half of what was sent arrived. The rest is still there, and with the window open comes everything else.
    got.truncate(got.len() / 2);
    let (mut second, _) = resume(&server, &session).await;
    let page = second
        .call("process/read", json!({"processId": "p", "afterSeq": 0}))
        .await
        .expect("read");
    let chunks = page["chunks"].as_array().expect("chunks");
    assert_eq!(chunks[0]["seq"], 1, "nothing was dropped");
    let all: Vec<u8> = chunks.iter().flat_map(bytes).collect();
    assert!(all.starts_with(&got) && all.len() >= got.len() * 2 - 1);
    assert_eq!(chunks.last().expect("a chunk")["seq"], last);
    got = all;
    consumed(&second, last).await;
    let mut next = last + 1;
    loop {
        let (method, news) = second.news().await;
        match method.as_str() {
            "process/output" => {
                assert_eq!(news["seq"], next);
                got.extend(bytes(&news));
                next += 1;
                consumed(&second, next - 1).await;
            }
            "process/exited" => next += 1,
            _ => break,
        }
    }
    let mut expected = String::new();
    for number in 1.. {
        if expected.len() >= SIZE {
            break;
        }
        expected += &format!("{number}\n");
    }
    assert!(got == expected.as_bytes()[..SIZE], "{} bytes of {SIZE}", got.len());
}

async fn resume(server: &rendezvous_executor::server::Server, session: &str) -> (Client, String) {
    loop {
        let mut client = Client::raw(server);
        let params = json!({"clientName": "test", "resumeSessionId": session, "extensions": {"outputWindow": 1}});
        match client.call("initialize", params).await {
            Ok(_) => {
                client.notify("initialized", json!({})).await;
                return (client, session.to_owned());
            }
            // The end of the other stream has not been noticed yet.
            Err((code, _)) => assert_eq!(code, -32010),
        }
    }
}

#[tokio::test]
async fn a_reader_is_heard_while_a_write_waits_for_the_program() {
    let server = server();
    let (mut client, _) = client(&server, None).await;
    client.call("process/start", start("p", "cat")).await.expect("start");
    // `cat` takes no input while nobody takes its output, so one of these calls waits.
    let piece = Base64::from(vec![b'x'; 256 * 1024]);
    let piece = serde_json::to_value(&piece).expect("base64");
    let (mut begun, mut answered, mut got, mut last) = (0_u64, 0_u64, 0_usize, 0);
    while got < 4 * WINDOW_BYTES {
        while begun < answered + 8 {
            begun += 1;
            client
                .begin(
                    "process/write",
                    json!({"processId": "p", "writeId": begun.to_string(), "chunk": piece}),
                )
                .await;
        }
        let message = client.message().await.expect("a message");
        if message.get("method").is_none() {
            assert_eq!(message["result"]["status"], "accepted");
            answered += 1;
            continue;
        }
        got += bytes(&message["params"]).len();
        let seq = message["params"]["seq"].as_u64().expect("seq");
        // Late enough that the window is shut now and then.
        if seq >= last + 60 {
            last = seq;
            consumed(&client, seq).await;
        }
    }
}

#[tokio::test]
async fn without_the_extension_the_notification_ends_the_stream() {
    let server = server();
    let mut client = Client::new(&server).await;
    consumed(&client, 1).await;
    assert_eq!(client.message().await, None);
}

#[tokio::test]
async fn a_notification_that_cannot_be_read_ends_the_stream() {
    let server = server();
    let (mut client, _) = client(&server, None).await;
    consumed(&client, 7).await;
    client
        .call("environment/status", Value::Null)
        .await
        .expect("an unknown process is no offence");
    client.notify("process/consumed", json!({"processId": 1})).await;
    assert_eq!(client.message().await, None);
}
