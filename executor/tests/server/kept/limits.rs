//! What is kept, for whom, and how many at once.

use super::*;
use crate::support::{crowded_server, keeping_server_with};

/// The places of those whose output could not be kept are free again.
#[tokio::test]
async fn a_place_that_was_not_used_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let output = folder.path().join("output");
    std::fs::write(&output, "").expect("a file in the way");
    let mut clients = Vec::new();
    for _ in 0..3 {
        let (mut client, _) = of(&server, 1).await;
        client.call("session/retain", json!({})).await.expect_err("no place");
        clients.push(client);
    }
    std::fs::remove_file(&output).expect("nothing in the way");
    kept(&server, 1).await;
}

/// Those that are about to be kept have their places already.
#[tokio::test]
async fn many_that_ask_at_once_do_not_get_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let mut asking = Vec::new();
    for _ in 0..6 {
        let (client, _) = of(&server, 1).await;
        let id = client.begin("session/retain", json!({})).await;
        asking.push((client, id));
    }
    let mut granted = 0;
    for (client, id) in &mut asking {
        granted += usize::from(client.reply(json!(*id)).await.is_ok());
    }
    assert_eq!(granted, 3);
}

#[tokio::test]
async fn without_a_key_a_session_is_for_whoever_knows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut first, session) = open(Client::raw(&server), hello(None, false)).await;
    let bound = json!({"boundToKey": true});
    first.call("session/retain", bound).await.expect("retain");
    let (mut other, _) = open(Client::raw(&server), hello(None, false)).await;
    assert_eq!(sessions(&mut other, &[]).await, [] as [Value; 0]);
    assert_eq!(sessions(&mut other, &[&session]).await.len(), 1);
    let (_, taken) = open(Client::raw(&server), hello(Some(&session), true)).await;
    assert_eq!(taken, session);
}

#[tokio::test]
async fn what_is_not_kept_is_neither_signalled_nor_ended_by_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (mut first, session) = of(&server, 1).await;
    let (mut other, _) = of(&server, 1).await;
    for (method, params) in [
        ("session/end", json!({"sessionId": session})),
        ("session/signal", json!({"sessionId": session, "signal": "SIGTERM"})),
    ] {
        let unknown = Err((-32600, format!("unknown session id {session}")));
        assert_eq!(other.call(method, params).await, unknown, "{method}");
    }
    first.call("environment/status", json!({})).await.expect("still there");
}

#[tokio::test]
async fn the_oldest_is_told_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server(folder.path(), MIB);
    let (_first, one) = kept(&server, 1).await;
    let (_second, two) = kept(&server, 1).await;
    let (mut third, three) = kept(&server, 1).await;
    let listed = sessions(&mut third, &[]).await;
    let ids: Vec<&Value> = listed.iter().map(|info| &info["sessionId"]).collect();
    assert_eq!(ids, [&json!(one), &json!(two), &json!(three)]);
}

#[tokio::test]
async fn a_wish_is_granted_from_the_usual_time_to_the_longest() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server_with(folder.path(), Duration::from_secs(30), Duration::from_secs(86_400));
    let (mut client, _) = of(&server, 1).await;
    for (wish, granted) in [(0, 30_000), (30_001, 30_001), (24 * HOUR, 24 * HOUR)] {
        let answer = client.call("session/retain", json!({"retentionMs": wish})).await;
        assert_eq!(answer, Ok(json!({"retentionMs": granted})));
    }
    let beyond = json!({"retentionMs": 24 * HOUR + 1});
    assert_eq!(
        client.call("session/retain", beyond).await.expect_err("too long").0,
        -32602
    );
}

/// Of those that are left, the one that was left first makes room, and of a harness one of its own.
#[tokio::test]
async fn what_makes_room_is_ones_own_oldest_that_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = crowded_server(folder.path(), 3);
    let (other, others) = of(&server, 2).await;
    let (first, is_kept) = kept(&server, 1).await;
    let (second, older) = of(&server, 1).await;
    let (third, newer) = of(&server, 1).await;
    let (mut watcher, _) = of(&server, 3).await;
    for client in [other, first, second, third] {
        drop(client);
        // Streams end in their turns.
        for _ in 0..10 {
            watcher.call("environment/status", json!({})).await.expect("status");
        }
    }
    let _next = of(&server, 1).await;
    let gone = Client::of(&server, key(1))
        .call("initialize", hello(Some(&older), false))
        .await;
    assert_eq!(gone.expect_err("it made room").0, -32600);
    for (byte, session) in [(2, others), (1, is_kept), (1, newer)] {
        resume(&server, byte, &session).await;
    }
}

#[tokio::test]
async fn nothing_is_kept_for_no_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping_server_with(folder.path(), Duration::ZERO, Duration::ZERO);
    let mut client = Client::raw(&server);
    let opened = client.call("initialize", hello(None, false)).await.expect("initialize");
    assert_eq!(opened["extensions"], json!({"processControl": 1, "outputWindow": 1}));
}

/// Whoever does not say for how long gets two days, where that is not too much.
#[tokio::test]
async fn without_a_wish_it_is_two_days() {
    let folder = tempfile::tempdir().expect("a folder");
    for (longest, granted) in [(72, 48), (48, 48), (47, 47)] {
        let longest = Duration::from_millis(longest * HOUR);
        let server = keeping_server_with(folder.path(), Duration::from_secs(30), longest);
        let (mut client, _) = of(&server, 1).await;
        let answer = client.call("session/retain", json!({})).await;
        assert_eq!(answer, Ok(json!({"retentionMs": granted * HOUR})));
    }
}
