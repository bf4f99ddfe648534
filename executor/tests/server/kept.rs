//! The extension `detachedSessions`.

mod holding;
mod limits;

use std::time::Duration;

use rendezvous_executor::server::Server;
use rendezvous_rpc::base64::Base64;
use rendezvous_wire::key::KeyDigest;
use serde_json::{Value, json};

use crate::support::{Client, PATIENCE, keeping_server, server, start, with};

const MIB: u64 = 1024 * 1024;
const HOUR: u64 = 3_600_000;

fn key(byte: u8) -> KeyDigest {
    KeyDigest([byte; 32])
}

/// What a client that knows the extension says first.
fn hello(resume: Option<&str>, take_over: bool) -> Value {
    let extensions = json!({"processControl": 1, "outputWindow": 1, "detachedSessions": 1});
    json!({"clientName": "test", "resumeSessionId": resume, "extensions": extensions, "takeOver": take_over})
}

async fn open(mut client: Client, hello: Value) -> (Client, String) {
    let opened = client.call("initialize", hello).await.expect("initialize");
    assert_eq!(opened["extensions"]["detachedSessions"], 1);
    client.notify("initialized", json!({})).await;
    let session = opened["sessionId"].as_str().expect("id").to_owned();
    (client, session)
}

async fn of(server: &Server, byte: u8) -> (Client, String) {
    open(Client::of(server, key(byte)), hello(None, false)).await
}

/// A client whose session is kept.
async fn kept(server: &Server, byte: u8) -> (Client, String) {
    let (mut client, session) = of(server, byte).await;
    let granted = client
        .call("session/retain", json!({"retentionMs": HOUR, "name": "build"}))
        .await;
    assert_eq!(granted, Ok(json!({"retentionMs": HOUR})));
    (client, session)
}

/// Resumes a session, whose end of the last stream may not have been noticed yet.
async fn resume(server: &Server, byte: u8, session: &str) -> Client {
    loop {
        let mut client = Client::of(server, key(byte));
        match client.call("initialize", hello(Some(session), false)).await {
            Ok(_) => {
                client.notify("initialized", json!({})).await;
                return client;
            }
            Err((code, text)) => assert_eq!(code, -32010, "{text}"),
        }
    }
}

async fn sessions(client: &mut Client, ids: &[&str]) -> Vec<Value> {
    let listed = client
        .call("session/list", json!({"sessionIds": ids}))
        .await
        .expect("list");
    assert_eq!(listed["maxRetentionMs"], 24 * HOUR);
    listed["sessions"].as_array().expect("sessions").clone()
}

/// Waits until the only session that is seen is as it should be.
async fn until(client: &mut Client, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        let listed = sessions(client, &[id]).await;
        if listed.len() == 1 && holds(&listed[0]) {
            return listed[0].clone();
        }
    }
}

/// Reads a process from `after` to its end, page by page: its bytes, the exit code, what the first page says was dropped.
async fn read_all(client: &mut Client, after: u64) -> (Vec<u8>, Value, Value) {
    let (mut after, mut all, mut dropped) = (after, Vec::new(), None);
    loop {
        let params = json!({"processId": "p", "afterSeq": after, "waitMs": 60_000});
        let page = client.call("process/read", params).await.expect("read");
        let chunks = page["chunks"].as_array().expect("chunks");
        for chunk in chunks {
            assert!(chunk["seq"].as_u64() > Some(after));
            all.extend_from_slice(&bytes(chunk));
        }
        dropped.get_or_insert_with(|| page["dropped"].clone());
        after = page["nextSeq"].as_u64().expect("next") - 1;
        if chunks.is_empty() && page["closed"] == true {
            assert!(page["exitSeq"].as_u64().is_some_and(|exit| exit < after), "{page}");
            return (all, page["exitCode"].clone(), dropped.unwrap_or_default());
        }
    }
}

fn bytes(chunk: &Value) -> Vec<u8> {
    let bytes: Base64 = serde_json::from_value(chunk["chunk"].clone()).expect("base64");
    bytes.0.to_vec()
}

fn numbers(last: u64) -> Vec<u8> {
    let mut text = String::new();
    for number in 1..=last {
        text += &format!("{number}\n");
    }
    text.into_bytes()
}

#[tokio::test]
async fn a_command_goes_on_without_a_stream_and_all_it_wrote_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), 64 * MIB);
    let (mut client, session) = kept(&server, 1).await;
    // Ten times of what memory keeps, and more than the window.
    client
        .call("process/start", start("p", "seq 1 1500000; exit 3"))
        .await
        .expect("start");
    drop(client);
    let (mut other, _) = of(&server, 1).await;
    let info = until(&mut other, &session, |info| info["processes"][0]["state"] == "closed").await;
    assert_eq!(
        (&info["name"], &info["attached"], &info["retentionMs"]),
        (&json!("build"), &json!(false), &json!(HOUR))
    );
    assert!(
        info["expiresInMs"]
            .as_u64()
            .is_some_and(|left| left <= HOUR && left > HOUR / 2),
        "{info}"
    );
    let process = &info["processes"][0];
    assert_eq!((&process["exitCode"], &process["droppedBytes"]), (&json!(3), &json!(0)));
    assert_eq!(process["argv"], json!(["/bin/sh", "-c", "seq 1 1500000; exit 3"]));
    let expected = numbers(1_500_000);
    assert_eq!(process["retainedBytes"], expected.len());

    let mut client = resume(&server, 2, &session).await;
    let (all, code, dropped) = read_all(&mut client, 0).await;
    assert!(all == expected, "{} bytes of {}", all.len(), expected.len());
    assert_eq!((code, dropped), (json!(3), Value::Null));
    let tail = client
        .call("process/read", json!({"processId": "p", "tailBytes": 100_000}))
        .await
        .expect("read");
    let chunks = tail["chunks"].as_array().expect("chunks");
    let end: Vec<u8> = chunks.iter().flat_map(bytes).collect();
    assert!(
        expected.ends_with(&end) && (100_000..400_000).contains(&end.len()),
        "{}",
        end.len()
    );
    assert_eq!(
        std::fs::read_dir(folder.path().join("output")).expect("made").count(),
        0,
        "no name is left"
    );
}

#[tokio::test]
async fn the_oldest_output_goes_and_that_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut client, session) = kept(&server, 1).await;
    client
        .call("process/start", start("p", "seq 1 1500000; echo end"))
        .await
        .expect("start");
    drop(client);
    let (mut other, _) = of(&server, 1).await;
    let info = until(&mut other, &session, |info| info["processes"][0]["state"] == "closed").await;
    let mut expected = numbers(1_500_000);
    expected.extend_from_slice(b"end\n");
    let process = &info["processes"][0];
    let (retained, lost) = (process["retainedBytes"].as_u64(), process["droppedBytes"].as_u64());
    let (retained, lost) = (retained.expect("retained"), lost.expect("dropped"));
    assert_eq!(retained + lost, expected.len() as u64);
    assert!((MIB / 2..3 * MIB).contains(&retained), "{retained}");
    let mut client = resume(&server, 1, &session).await;
    let (bytes, _, dropped) = read_all(&mut client, 0).await;
    assert!(
        expected.ends_with(&bytes),
        "one gap at the beginning, and none behind it"
    );
    assert_eq!((bytes.len() as u64, &dropped["bytes"]), (retained, &json!(lost)));
    let through = dropped["through"].as_u64().expect("through");
    let (rest, ..) = read_all(&mut client, through).await;
    assert_eq!(rest, bytes, "everything after the gap is there");
}

/// A reader that is there loses nothing, however little is kept.
#[tokio::test]
async fn whoever_is_attached_holds_up_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), 2 * MIB);
    let (mut client, session) = kept(&server, 1).await;
    client
        .call("process/start", start("p", "seq 1 1500000"))
        .await
        .expect("start");
    let (mut other, _) = of(&server, 1).await;
    let (mut got, mut told, mut next) = (Vec::new(), 0, 1);
    while told < 4 * MIB {
        let (method, news) = client.news().await;
        assert_eq!((method.as_str(), &news["seq"]), ("process/output", &json!(next)));
        got.extend_from_slice(&bytes(&news));
        if got.len() as u64 >= told + MIB / 2 {
            let message = format!(r#"{{"method":"process/consumed","params":{{"processId":"p","seq":{next}}}}}"#);
            client.send(message).await;
            told = got.len() as u64;
        }
        next += 1;
    }
    // Nothing more is taken: the program comes to a stop, and what was not taken is there.
    let mut before = Value::Null;
    let process = loop {
        client.call("environment/status", Value::Null).await.expect("status");
        while let Some((_, news)) = client.taken_news() {
            got.extend_from_slice(&bytes(&news));
        }
        let process = sessions(&mut other, &[&session]).await[0]["processes"][0].clone();
        if process["nextSeq"] == before && got.len() as u64 > told + MIB / 2 {
            break process;
        }
        before = process["nextSeq"].clone();
    };
    assert_eq!(process["state"], "running");
    assert!(
        process["droppedBytes"].as_u64().is_some_and(|dropped| dropped <= told),
        "{process}, {told} taken"
    );
    assert!(numbers(1_500_000).starts_with(&got));
    // Without its reader, it runs to its end.
    drop(client);
    until(&mut other, &session, |info| info["processes"][0]["state"] == "closed").await;
}

#[tokio::test]
async fn sessions_are_seen_by_their_key_and_by_who_knows_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (first, session) = kept(&server, 1).await;
    let (mut same, own) = of(&server, 1).await;
    let (mut stranger, _) = of(&server, 2).await;
    let ids = |listed: Vec<Value>| -> Vec<Value> { listed.iter().map(|info| info["sessionId"].clone()).collect() };
    assert_eq!(ids(sessions(&mut same, &[]).await), [json!(session)]);
    assert_eq!(ids(sessions(&mut stranger, &[]).await), [] as [Value; 0]);
    assert_eq!(
        ids(sessions(&mut stranger, &[&session, &own, "x"]).await),
        [json!(session)],
        "others are not kept"
    );
    let (mut nobody, _) = open(Client::raw(&server), hello(None, false)).await;
    assert_eq!(
        ids(sessions(&mut nobody, &[]).await),
        [] as [Value; 0],
        "no key is no key of anybody"
    );
    let many: Vec<String> = (0..1025).map(|n| n.to_string()).collect();
    let (code, _) = nobody
        .call("session/list", json!({"sessionIds": many}))
        .await
        .expect_err("too many");
    assert_eq!(code, -32602);

    // Bound to its key, it is as if it did not exist for others.
    drop(first);
    let mut first = resume(&server, 1, &session).await;
    first
        .call("session/retain", json!({"boundToKey": true}))
        .await
        .expect("retain");
    assert_eq!(ids(sessions(&mut stranger, &[&session]).await), [] as [Value; 0]);
    for (method, params) in [
        ("session/end", json!({"sessionId": session})),
        ("session/signal", json!({"sessionId": session, "signal": "SIGTERM"})),
    ] {
        let unknown = stranger.call(method, params).await;
        assert_eq!(
            unknown,
            Err((-32600, format!("unknown session id {session}"))),
            "{method}"
        );
    }
    let refused = Client::of(&server, key(2))
        .call("initialize", hello(Some(&session), true))
        .await;
    assert_eq!(refused, Err((-32600, format!("unknown session id {session}"))));
}

#[tokio::test]
async fn a_session_may_be_taken_from_another_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut first, session) = kept(&server, 1).await;
    first.call("process/start", start("p", "cat")).await.expect("start");
    let refused = Client::of(&server, key(2))
        .call("initialize", hello(Some(&session), false))
        .await;
    assert_eq!(refused.expect_err("attached").0, -32010);
    let (mut second, same) = open(Client::of(&server, key(2)), hello(Some(&session), true)).await;
    assert_eq!(same, session);
    assert_eq!(first.message().await, None, "its stream has ended");
    let params = json!({"processId": "p", "writeId": "1", "chunk": Base64::from(b"still here".to_vec())});
    second.call("process/write", params).await.expect("write");
    assert_eq!(second.news().await.0, "process/output");
}

#[tokio::test]
async fn sessions_are_signalled_and_ended_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut first, session) = kept(&server, 1).await;
    let script = "trap 'echo told' USR1; echo up; while :; do sleep 0.02; done";
    first.call("process/start", start("p", script)).await.expect("start");
    assert_eq!(first.news().await.0, "process/output");
    let (mut other, _) = of(&server, 2).await;
    let (code, _) = other
        .call("session/signal", json!({"sessionId": session, "signal": "USR1"}))
        .await
        .expect_err("no name");
    assert_eq!(code, -32602);
    let signal = json!({"sessionId": session, "signal": "SIGUSR1"});
    assert_eq!(other.call("session/signal", signal).await, Ok(json!({})));
    assert_eq!(first.news().await.0, "process/output");
    assert_eq!(
        other.call("session/end", json!({"sessionId": session})).await,
        Ok(json!({"running": true}))
    );
    while first.message().await.is_some() {}
    assert_eq!(sessions(&mut other, &[&session]).await, [] as [Value; 0]);
    let gone = other.call("session/end", json!({"sessionId": session})).await;
    assert_eq!(gone, Err((-32600, format!("unknown session id {session}"))));
    let refused = Client::of(&server, key(1))
        .call("initialize", hello(Some(&session), false))
        .await;
    assert_eq!(refused.expect_err("gone").0, -32600);

    // Whoever ends its own session hears so.
    let (mut own, session) = kept(&server, 1).await;
    own.call("process/start", start("p", "echo $$; exec cat"))
        .await
        .expect("start");
    let (_, news) = own.news().await;
    let process = format!("/proc/{}", String::from_utf8_lossy(&bytes(&news)).trim());
    assert!(std::path::Path::new(&process).exists(), "{process}");
    assert_eq!(
        own.call("session/end", json!({"sessionId": session})).await,
        Ok(json!({"running": true}))
    );
    assert_eq!(sessions(&mut own, &[&session]).await, [] as [Value; 0]);
    // What ran ends before the stream does.
    let gone = async {
        while std::path::Path::new(&process).exists() {
            own.call("environment/status", json!({})).await.expect("still there");
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it is killed");
}

#[tokio::test]
async fn what_is_kept_has_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(kept(&server, 1).await);
    }
    let (mut fourth, _) = of(&server, 1).await;
    let (_, text) = fourth
        .call("session/retain", json!({}))
        .await
        .expect_err("three of a harness");
    assert!(text.contains("3 sessions of this harness are kept already"), "{text}");
    // To change one is not to have one more.
    let (third, _) = clients.last_mut().expect("three");
    assert_eq!(
        third.call("session/retain", json!({"retentionMs": 2 * HOUR})).await,
        Ok(json!({"retentionMs": 2 * HOUR}))
    );
    for byte in [2, 3] {
        clients.push(kept(&server, byte).await);
    }
    let (mut sixth, _) = of(&server, 4).await;
    let (_, text) = sixth.call("session/retain", json!({})).await.expect_err("five of all");
    assert!(text.contains("5 sessions are kept already"), "{text}");
    let (first, session) = clients.swap_remove(0);
    drop(first);
    sixth
        .call("session/end", json!({"sessionId": session}))
        .await
        .expect("end");
    // Without a wish it is two days, but a day is the most here.
    assert_eq!(
        sixth.call("session/retain", json!({})).await,
        Ok(json!({"retentionMs": 24 * HOUR}))
    );
    for (params, hint) in [
        (
            json!({"retentionMs": 25 * HOUR}),
            "1d at most (--max-session-retention)",
        ),
        (json!({"name": ""}), "1 to 64"),
        (json!({"name": "a b"}), "1 to 64"),
        (json!({"name": "x".repeat(65)}), "1 to 64"),
        (json!({"retentionMs": -1}), ""),
    ] {
        let (code, text) = sixth.call("session/retain", params.clone()).await.expect_err("refused");
        assert!(code == -32602 && text.contains(hint), "{params}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_session_ends_with_its_retention() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (client, session) = kept(&server, 1).await;
    let (mut other, _) = of(&server, 1).await;
    drop(client);
    let info = until(&mut other, &session, |info| info["attached"] == false).await;
    assert_eq!(info["expiresInMs"], HOUR);
    tokio::time::advance(Duration::from_millis(HOUR - 2)).await;
    let listed = sessions(&mut other, &[&session]).await;
    assert!(listed[0]["expiresInMs"].as_u64() <= Some(2), "{listed:?}");
    // Who comes back in time starts it anew.
    drop(resume(&server, 1, &session).await);
    until(&mut other, &session, |info| info["attached"] == false).await;
    tokio::time::advance(Duration::from_millis(HOUR - 2)).await;
    assert_eq!(sessions(&mut other, &[&session]).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(4)).await;
    assert_eq!(sessions(&mut other, &[&session]).await.len(), 0);
}

#[tokio::test]
async fn nothing_is_offered_where_nothing_is_kept() {
    let server = server();
    let mut client = Client::raw(&server);
    let opened = client.call("initialize", hello(None, false)).await.expect("initialize");
    assert_eq!(opened["extensions"], json!({"processControl": 1, "outputWindow": 1}));
    client.notify("initialized", json!({})).await;
    for method in ["session/retain", "session/list", "session/signal", "session/end"] {
        let (code, _) = client.call(method, json!({})).await.expect_err(method);
        assert_eq!(code, -32601);
    }
}

#[tokio::test]
async fn a_client_that_does_not_name_the_extension_sees_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let mut client = Client::stock(&server).await;
    let (code, _) = client
        .call("session/retain", json!({}))
        .await
        .expect_err("no such call");
    assert_eq!(code, -32601);
    let params = with(start("p", "echo out"), json!({}));
    client.call("process/start", params).await.expect("start");
    while client.news().await.0 != "process/closed" {}
    let params = json!({"processId": "p", "tailBytes": 0});
    let page = client.call("process/read", params).await.expect("read");
    assert_eq!(page["chunks"].as_array().map(Vec::len), Some(1), "an unknown member");
    assert_eq!((page.get("exitSeq"), page.get("dropped")), (None, None));
}

#[tokio::test]
async fn a_place_that_takes_no_output_is_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    std::fs::write(folder.path().join("output"), "").expect("a file in the way");
    let (mut client, session) = of(&server, 1).await;
    let (code, text) = client.call("session/retain", json!({})).await.expect_err("no place");
    assert!(
        code == -32603 && text.starts_with("cannot keep output on disk: "),
        "{text}"
    );
    assert_eq!(sessions(&mut client, &[&session]).await, [] as [Value; 0]);
}
