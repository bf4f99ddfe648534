//! What an admitted harness may try: its executor answers or ends the stream, serves the others, and holds no more memory
//! than it says.

use bytes::{BufMut as _, Bytes, BytesMut};
use rendezvous_transport::stream::{MessageStream, StreamEnd};
use rendezvous_wire::frame::Body;
use rendezvous_wire::limits::{MAX_JSON_VALUES, MAX_MESSAGE, MAX_RECORD_PLAINTEXT, MAX_STREAMS, REORDER_DISTANCE};
use serde_json::{Value, json};

use crate::hostile::MEMORY;
use crate::raw::{RawStream, binary, is_reset, is_silent};
use crate::session::{Session, up};
use crate::world::{World, within};

/// Longest message before `initialize`.
const FIRST_MESSAGE: usize = 256 * 1024;

/// What cannot be read as a message: answered under the id −1, and the connection stays.
fn unreadable() -> Vec<(&'static str, Vec<u8>)> {
    let nested = |depth: usize| {
        [
            br#"{"id":7,"method":"environment/status","params":"#.to_vec(),
            vec![b'['; depth],
            vec![b']'; depth],
            b"}".to_vec(),
        ]
        .concat()
    };
    let many = |values: usize| {
        // The object, the id, the method, the array, and its members.
        let zeros = vec!["0"; values - 4].join(",");
        format!(r#"{{"id":7,"method":"environment/status","params":[{zeros}]}}"#).into_bytes()
    };
    vec![
        ("nonsense", b"nonsense".to_vec()),
        ("a cut document", br#"{"id":7,"method":"environ"#.to_vec()),
        (
            "two documents",
            br#"{"id":7,"method":"x"}{"id":8,"method":"y"}"#.to_vec(),
        ),
        ("what is not UTF-8", b"{\"id\":7,\"method\":\"\xff\xfe\"}".to_vec()),
        ("a lone surrogate", br#"{"id":7,"method":"\ud800"}"#.to_vec()),
        ("an array", br#"[{"id":7,"method":"environment/status"}]"#.to_vec()),
        ("a number", b"7".to_vec()),
        ("an empty object", b"{}".to_vec()),
        (
            "a fraction as id",
            br#"{"id":7.5,"method":"environment/status"}"#.to_vec(),
        ),
        (
            "an object as id",
            br#"{"id":{},"method":"environment/status"}"#.to_vec(),
        ),
        (
            "an id beyond 64 bits",
            br#"{"id":9223372036854775808,"method":"environment/status"}"#.to_vec(),
        ),
        (
            "a number beyond all",
            br#"{"id":7,"method":"environment/status","params":1e999999}"#.to_vec(),
        ),
        (
            "a duplicate key",
            br#"{"id":7,"id":7,"method":"environment/status"}"#.to_vec(),
        ),
        (
            "a duplicate key deep inside",
            br#"{"id":7,"method":"x","params":[{"a":{"b":1,"b":2}}]}"#.to_vec(),
        ),
        ("deep nesting", nested(200)),
        ("very deep nesting", nested(100_000)),
        ("one value too many", many(MAX_JSON_VALUES + 1)),
        ("4 MiB of values", many(2 * 1024 * 1024)),
        ("4 MiB of opening brackets", vec![b'['; 4 * 1024 * 1024]),
    ]
}

#[tokio::test]
async fn json_that_cannot_be_read() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let mut honest = Session::open(&world).await;
    let mut hostile = initialized(&world).await;
    for (what, document) in unreadable() {
        within(hostile.send(document.into())).await.expect("sent");
        let answer = answer(&mut hostile).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(-1), &json!(-32600)),
            "{what}: {answer}"
        );
        let asked = json!({"id": 1, "method": "environment/status"}).to_string();
        within(hostile.send(asked.into())).await.expect("sent");
        let answer = self::answer(&mut hostile).await;
        assert_eq!(answer["result"]["status"], "ready", "after {what}: {answer}");
    }
    assert_eq!(honest.run("echo on").await.0, "on\n");
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

/// Calls that can be read, with parameters that are not what they should be.
#[tokio::test]
async fn parameters_that_do_not_fit() {
    let mut world = World::new();
    let _executor = up(&mut world).await;
    let mut hostile = initialized(&world).await;
    let start = |changes: Value| {
        let mut params = json!({"processId": "p", "argv": ["true"], "cwd": "file:///", "env": {}, "tty": false});
        for (name, value) in changes.as_object().expect("an object") {
            params[name] = value.clone();
        }
        params
    };
    for (method, params, code) in [
        ("no/such/method", json!({}), -32601),
        ("", json!({}), -32601),
        ("process/start", json!(null), -32602),
        ("process/start", json!([1, 2]), -32602),
        ("process/start", start(json!({"argv": []})), -32602),
        ("process/start", start(json!({"argv": "true"})), -32602),
        ("process/start", start(json!({"argv": ["a\u{0}b"]})), -32603),
        ("process/start", start(json!({"processId": "x".repeat(257)})), -32602),
        ("process/start", start(json!({"cwd": "/"})), -32602),
        ("process/start", start(json!({"cwd": "https://example.org/"})), -32602),
        ("process/start", start(json!({"cwd": "file:///%00"})), -32602),
        ("process/read", json!({"processId": "unknown"}), -32600),
        ("process/read", json!({"processId": "p", "afterSeq": -1}), -32602),
        ("process/read", json!({"processId": "p", "maxBytes": 1e30}), -32602),
        (
            "process/write",
            json!({"processId": "p", "chunk": "!!!", "writeId": "w"}),
            -32602,
        ),
        ("fs/readFile", json!({"path": "file:///etc/passwd?x"}), -32602),
        ("fs/readFile", json!({"path": "file:///nonexistent"}), -32004),
        ("initialize", json!({"clientName": "again"}), -32600),
    ] {
        let asked = json!({"id": "h", "method": method, "params": params}).to_string();
        within(hostile.send(asked.clone().into())).await.expect("sent");
        let answer = answer(&mut hostile).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!("h"), &json!(code)),
            "{asked}: {answer}"
        );
    }
}

/// What ends the stream of the one who says it.
#[tokio::test]
async fn messages_that_end_the_stream() {
    let mut world = World::new();
    let _executor = up(&mut world).await;
    let mut honest = Session::open(&world).await;
    for message in [
        json!({"id": 5, "result": {}}),
        json!({"id": 5, "error": {"code": 1, "message": "x"}}),
        json!({"method": "no/such/news"}),
        json!({"method": "process/exited", "params": {}}),
    ] {
        let mut hostile = initialized(&world).await;
        within(hostile.send(message.to_string().into())).await.expect("sent");
        let end = within(hostile.recv()).await.expect("an end");
        assert!(matches!(end, Err(StreamEnd::Reset(_))), "{message}: {end:?}");
        assert_eq!(honest.run("echo on").await.0, "on\n", "after {message}");
    }
    let mut early = world.harness().await.expect("admitted");
    within(early.send(json!({"method": "initialized"}).to_string().into()))
        .await
        .expect("sent");
    let end = within(early.recv()).await.expect("an end");
    assert!(matches!(end, Err(StreamEnd::Reset(_))), "{end:?}");
    // Whoever has not said `initialize` says little.
    let mut verbose = world.harness().await.expect("admitted");
    within(verbose.send(vec![b' '; FIRST_MESSAGE + 1].into()))
        .await
        .expect("sent");
    let end = within(verbose.recv()).await.expect("an end");
    assert!(matches!(end, Err(StreamEnd::Reset(_))), "{end:?}");
    assert_eq!(honest.run("echo on").await.0, "on\n");
}

/// Records that the keys make, but the protocol does not allow, and ones that the keys did not make.
#[tokio::test]
async fn records_that_no_honest_harness_sends() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let mut honest = Session::open(&world).await;
    let too_long = u32::try_from(MAX_MESSAGE + 1).expect("a length");
    let first = u32::try_from(FIRST_MESSAGE + 1).expect("a length");
    for (initialized, claimed) in [
        (false, 0),
        (false, first),
        (false, u32::MAX),
        (true, 0),
        (true, too_long),
        (true, u32::MAX),
    ] {
        let mut raw = RawStream::open(&mut world).await.expect("admitted");
        if initialized {
            raw.initialize(&mut world).await;
        }
        world.inject(raw.record(&claimed.to_be_bytes()));
        is_reset(&mut world, &raw.id).await;
        assert_eq!(
            honest.run("echo on").await.0,
            "on\n",
            "after a message of {claimed} bytes"
        );
    }

    let mut raw = RawStream::open(&mut world).await.expect("admitted");
    raw.initialize(&mut world).await;
    // A record of zero bytes says nothing, and one that comes twice counts once.
    world.inject(raw.record(b""));
    let text = json!({"id": 9, "method": "environment/status"}).to_string();
    let length = u32::try_from(text.len()).expect("a length");
    let record = raw.record(&[&length.to_be_bytes()[..], text.as_bytes()].concat());
    world.inject(record.clone());
    world.inject(record);
    assert_eq!(raw.recv(&mut world).await["id"], 9);
    is_silent(&mut world).await;
    // Beyond the window.
    let far = Body::Data {
        seq: 5 + REORDER_DISTANCE + 1,
        payload: Bytes::from_static(&[1; 100]),
    };
    world.inject(binary(&raw.id, far));
    is_reset(&mut world, &raw.id).await;

    // Sealed by nobody.
    let mut raw = RawStream::open(&mut world).await.expect("admitted");
    raw.initialize(&mut world).await;
    let forged = Body::Data {
        seq: 3,
        payload: Bytes::from_static(&[1; 100]),
    };
    world.inject(binary(&raw.id, forged));
    is_reset(&mut world, &raw.id).await;
    assert_eq!(honest.run("echo on").await.0, "on\n");
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

/// As many harnesses as there may be claim the longest message and send its beginning.
#[tokio::test]
async fn claims_cost_no_memory() {
    let mut world = World::new();
    let executor = up(&mut world).await;
    let mut streams = Vec::new();
    for _ in 0..MAX_STREAMS {
        let mut raw = RawStream::open(&mut world).await.expect("admitted");
        raw.initialize(&mut world).await;
        let mut beginning = BytesMut::new();
        beginning.put_u32(u32::try_from(MAX_MESSAGE).expect("a length"));
        beginning.resize(MAX_RECORD_PLAINTEXT, b' ');
        world.inject(raw.record(&beginning));
        streams.push(raw);
    }
    is_silent(&mut world).await;
    assert!(executor.peak() < MEMORY, "{} bytes", executor.peak());
}

/// An open session that says whatever it likes.
async fn initialized(world: &World) -> MessageStream {
    let mut stream = world.harness().await.expect("admitted");
    let initialize = json!({"id": 1, "method": "initialize", "params": {"clientName": "hostile"}});
    within(stream.send(initialize.to_string().into())).await.expect("sent");
    let answer = answer(&mut stream).await;
    assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    within(stream.send(json!({"method": "initialized"}).to_string().into()))
        .await
        .expect("sent");
    stream
}

async fn answer(stream: &mut MessageStream) -> Value {
    let message = within(stream.recv()).await.expect("open").expect("a message");
    serde_json::from_slice(&message).expect("json")
}
