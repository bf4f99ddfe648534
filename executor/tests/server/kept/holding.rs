//! Who holds a session, and what is kept for whom.

use super::*;

async fn is_refused(server: &Server, byte: u8, session: &str) {
    let refused = Client::of(server, key(byte))
        .call("initialize", hello(Some(session), false))
        .await;
    let text = format!("session {session} is already attached to another connection");
    assert_eq!(refused, Err((-32010, text)));
}

/// Of two that want one session, neither takes it from the other again and again.
#[tokio::test]
async fn a_client_that_is_there_keeps_its_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut first, session) = kept(&server, 1).await;
    for byte in [1, 2, 1, 2] {
        is_refused(&server, byte, &session).await;
        first.call("environment/status", json!({})).await.expect("still there");
    }
    let (mut second, _) = open(Client::of(&server, key(1)), hello(Some(&session), true)).await;
    assert_eq!(first.message().await, None, "its stream has ended");
    for _ in 0..4 {
        is_refused(&server, 1, &session).await;
        second.call("environment/status", json!({})).await.expect("still there");
    }
}

#[tokio::test]
async fn a_client_that_is_away_gives_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut first, session) = kept(&server, 1).await;
    let (mut other, _) = of(&server, 1).await;
    let info = &sessions(&mut other, &[]).await[0];
    assert_eq!((&info["attached"], &info["expiresInMs"]), (&json!(true), &Value::Null));
    first.go_away();
    let info = &sessions(&mut other, &[]).await[0];
    assert!(
        info["attached"] == false && info["expiresInMs"].as_u64().is_some_and(|left| left <= HOUR),
        "{info}"
    );
    // To ask is what makes it go, whoever asks; to ask again is to have it.
    is_refused(&server, 2, &session).await;
    assert_eq!(first.message().await, None, "its stream has ended");
    let mut second = resume(&server, 2, &session).await;
    second.call("environment/status", json!({})).await.expect("there");
}

/// The time of a session begins when its client is lost, and not when the stream has given up waiting for it.
#[tokio::test(start_paused = true)]
async fn a_session_ends_its_time_after_its_client_was_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (first, session) = kept(&server, 1).await;
    let (mut other, _) = of(&server, 1).await;
    first.go_away();
    tokio::time::advance(Duration::from_millis(HOUR / 2)).await;
    drop(first);
    // Streams end in their turns.
    for _ in 0..10 {
        other.call("environment/status", json!({})).await.expect("status");
    }
    let left = |info: &Value| info["expiresInMs"].as_u64().expect("detached");
    let info = sessions(&mut other, &[]).await[0].clone();
    // The clock that says since when it is away goes on by itself.
    assert!(left(&info) < HOUR * 3 / 4, "{info}");
    tokio::time::advance(Duration::from_millis(left(&info) - 2)).await;
    assert_eq!(sessions(&mut other, &[&session]).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(4)).await;
    assert_eq!(sessions(&mut other, &[&session]).await.len(), 0);
}

/// A stream that ends while its session is being kept leaves one that is kept with its output, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_kept_by_half() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut other, _) = of(&server, 1).await;
    for _ in 0..100 {
        let (client, session) = of(&server, 1).await;
        client.begin("session/retain", json!({"retentionMs": HOUR})).await;
        drop(client);
        let mut left = Client::of(&server, key(1));
        let opened = loop {
            match left.call("initialize", hello(Some(&session), false)).await {
                Err((-32010, _)) => {}
                opened => break opened,
            }
        };
        let Ok(_) = opened else { continue };
        left.notify("initialized", json!({})).await;
        if sessions(&mut other, &[&session]).await.is_empty() {
            // It was found before it ended.
            continue;
        }
        left.call("process/start", start("p", "true")).await.expect("start");
        let (.., dropped) = read_all(&mut left, 0).await;
        assert_eq!(dropped, Value::Null);
        let end = json!({"sessionId": session});
        other.call("session/end", end).await.expect("end");
    }
}

/// Whoever attaches anew has taken nothing, whatever the one before took.
#[tokio::test]
async fn what_one_reader_took_is_kept_for_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), 2 * MIB);
    let (mut client, session) = kept(&server, 1).await;
    let script = "seq 1 100000; read line; seq 1 1500000";
    client.call("process/start", start("p", script)).await.expect("start");
    let (mut taken, mut last) = (Vec::new(), 0);
    while taken.len() < numbers(100_000).len() {
        let (_, news) = client.news().await;
        taken.extend_from_slice(&bytes(&news));
        last = news["seq"].as_u64().expect("a number");
    }
    client
        .send(format!(
            r#"{{"method":"process/consumed","params":{{"processId":"p","seq":{last}}}}}"#
        ))
        .await;
    client.call("environment/status", Value::Null).await.expect("status");
    drop(client);
    let mut client = resume(&server, 1, &session).await;
    let go = json!({"processId": "p", "writeId": "1", "chunk": Base64::from(b"\n".to_vec())});
    client.call("process/write", go).await.expect("write");
    // The program comes to a stop, because this reader takes nothing.
    let (mut other, _) = of(&server, 1).await;
    let (mut before, mut looks) = (Value::Null, 0);
    let process = loop {
        client.call("environment/status", Value::Null).await.expect("status");
        while client.taken_news().is_some() {}
        let process = sessions(&mut other, &[&session]).await[0]["processes"][0].clone();
        let is_full = process["retainedBytes"].as_u64() > Some(MIB * 3 / 4);
        looks = if is_full && process["nextSeq"] == before {
            looks + 1
        } else {
            0
        };
        if looks == 20 {
            break process;
        }
        before = process["nextSeq"].clone();
    };
    assert_eq!(
        (&process["state"], &process["droppedBytes"]),
        (&json!("running"), &json!(0))
    );
    let begun = json!({"processId": "p", "afterSeq": 0, "waitMs": 0});
    let page = client.call("process/read", begun).await.expect("read");
    let chunks = page["chunks"].as_array().expect("chunks");
    let all: Vec<u8> = chunks.iter().flat_map(bytes).collect();
    assert!(all.starts_with(&taken), "{} bytes", all.len());
}
