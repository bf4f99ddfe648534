//! Writes valid inputs for every target into the corpus: `cargo run --example seeds` in this folder.
//!
//! The targets' fixed keys make them reach the code behind every signature and seal.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use jsonwebtoken::{Algorithm, Header};
use rendezvous_channel::{Initiator, Responder};
use rendezvous_fuzz::{Draws, KEY_ID, NOW, identity, join, prologue, ticket};
use rendezvous_wire::frame::{Body, Frame, Trace};
use rendezvous_wire::id::StreamId;

fn main() {
    frames();
    handshakes();
    records();
    tickets();
    messages();
    paths();
    socks();
    heads();
}

fn write(target: &str, name: &str, seed: impl AsRef<[u8]>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).expect("a corpus folder");
    fs::write(folder.join(name), seed).expect("a seed");
}

fn frames() {
    let id = StreamId::new("3f0a8b7e-61d5-4a0c-9c55-6f1f3f1f0a01").expect("a valid id");
    let bodies = [
        ("resume", Body::Resume { next_seq: 0 }),
        ("ack", Body::Ack),
        ("heartbeat", Body::Heartbeat),
        (
            "reset",
            Body::Reset {
                reason: "noise_relay_protocol_error".to_owned(),
            },
        ),
        (
            "handshake",
            Body::Handshake {
                payload: Bytes::from_static(&[1; 64]),
            },
        ),
        (
            "data",
            Body::Data {
                seq: 300,
                payload: Bytes::from_static(&[2; 48]),
            },
        ),
    ];
    for (name, body) in bodies {
        let mut frame = Frame::new(id.clone(), body);
        write("frame", name, frame.clone().to_bytes());
        frame.ack = 7;
        frame.ack_bits = 0b10;
        frame.trace = Some(Trace {
            traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
            tracestate: None,
        });
        write("frame", &format!("{name}-traced"), frame.to_bytes());
    }
}

fn handshakes() {
    let (executor, harness) = (identity(1), identity(2));
    let (initiator, first) = Initiator::start(
        &harness,
        executor.public(),
        &prologue(),
        b"authorization",
        &mut Draws(1),
    )
    .expect("valid keys");
    let paused = Responder::read(&executor, &prologue(), &first).expect("message 1 is authentic");
    let (second, _) = paused.accept(&mut Draws(2)).expect("an answer");
    initiator.finish(&second).expect("message 2 is authentic");
    write("handshake_read", "message-1", [&[0], first.as_slice()].concat());
    write("handshake_read", "message-2", [&[1], second.as_slice()].concat());
    write("handshake_read", "short", [0, 1, 2]);
}

fn records() {
    let message = |text: &[u8]| {
        let length = u32::try_from(text.len()).expect("a short message").to_be_bytes();
        [length.as_slice(), text].concat()
    };
    let initialize = message(br#"{"id":1,"method":"initialize","params":{"clientName":"x"}}"#);
    let travelling = |how: u8, plaintext: &[u8]| [&[how], plaintext].concat();
    let whole = travelling(0, &initialize);
    let (begin, end) = initialize.split_at(2);
    let twice = [initialize.as_slice(), &initialize].concat();
    write("record_message", "whole", join(&[&whole, &whole]));
    write(
        "record_message",
        "split-prefix",
        join(&[&travelling(0, begin), &travelling(0, end)]),
    );
    write("record_message", "two-in-one", join(&[&travelling(0, &twice)]));
    write(
        "record_message",
        "duplicate",
        join(&[&travelling(1, &initialize), &whole]),
    );
    write(
        "record_message",
        "reordered",
        join(&[&whole, &travelling(7, begin), &travelling(11, end)]),
    );
    write("record_message", "forged", join(&[&travelling(2, &initialize)]));
    write("record_message", "empty-message", join(&[&travelling(0, &[0; 4])]));
    write("record_message", "too-long", join(&[&travelling(0, &[255; 4])]));
}

fn tickets() {
    let executor = serde_json::json!({
        "aud": "rendezvous-relay", "iat": NOW, "exp": NOW + 60, "jti": "a", "role": "executor", "env": "env-1",
        "reg": "registration-1", "gen": 1, "sub": "credential-1"
    });
    let mut harness = executor.clone();
    harness["aud"] = "boot-1".into();
    harness["role"] = "harness".into();
    harness["key"] = "ab".repeat(32).into();
    let mut expired = executor.clone();
    expired["exp"] = NOW.into();
    for (name, claims) in [("executor", executor), ("harness", harness), ("expired", expired)] {
        write("ticket", &format!("claims-{name}"), format!("\u{1}{claims}"));
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(KEY_ID.to_owned());
        let ticket = jsonwebtoken::encode(&header, &claims, &ticket::signing_key()).expect("a ticket");
        write("ticket", &format!("whole-{name}"), format!("\0{ticket}"));
    }
}

fn messages() {
    let start = r#"{"id":3,"method":"process/start","params":{"processId":"1","argv":["/bin/bash","-lc","ls"],"cwd":"file:///tmp",
        "env":{"TERM":"dumb"},"envPolicy":{"inherit":"all","ignoreDefaultExcludes":true,"exclude":["A*"],"set":{},"includeOnly":[]},
        "tty":false,"pipeStdin":true,"arg0":null,"sandbox":null},"trace":{"traceparent":"00-01-02-03"}}"#;
    for (name, text) in [
        (
            "initialize",
            r#"{"id":1,"method":"initialize","params":{"clientName":"codex-environment","resumeSessionId":null}}"#,
        ),
        ("initialized", r#"{"method":"initialized","params":{}}"#),
        ("info", r#"{"id":"a","method":"environment/info"}"#),
        ("start", start),
        (
            "write",
            r#"{"id":4,"method":"process/write","params":{"processId":"1","chunk":"AAEC","writeId":"1"}}"#,
        ),
        (
            "read",
            r#"{"id":5,"method":"process/read","params":{"processId":"1","afterSeq":7,"maxBytes":1,"waitMs":0}}"#,
        ),
        (
            "file",
            r#"{"id":6,"method":"fs/writeFile","params":{"path":"file:///a%20b","dataBase64":"","sandbox":null}}"#,
        ),
        (
            "walk",
            r#"{"id":7,"method":"fs/walk","params":{"path":"file:///","options":{"maxDepth":6,"maxDirectories":9,"maxEntries":9,"followDirectorySymlinks":true}}}"#,
        ),
        ("result", r#"{"id":9223372036854775807,"result":null}"#),
        (
            "error",
            r#"{"error":{"code":-32004,"message":"gone","data":[1.5e300]},"id":-1}"#,
        ),
        ("duplicate", r#"{"id":1,"id":2,"result":{}}"#),
    ] {
        write("rpc_envelope", name, text);
    }
}

fn paths() {
    for (name, text) in [
        ("posix", "file:///home/a%20b/%23%3F%25\n../c"),
        ("bytes", "file:///%FF%FE/x\n/y"),
        ("dots", "file:///a/./b/%2e%2e/c\n"),
        ("drive", "file:///c:/Users/x\n\\y"),
        ("share", "file://server/share/x\n.."),
        ("opaque", "file:///%00/bad/path/L0M6L3g\nx"),
        ("localhost", "file://localhost/etc\n"),
        ("native", "/C:/x/../y"),
    ] {
        write("path_uri", name, text);
    }
}

fn socks() {
    let name = |command: u8, name: &[u8]| {
        let length = u8::try_from(name.len()).expect("a short name");
        [&[5, 1, 0, 5, command, 0, 3, length][..], name, &[1, 187]].concat()
    };
    for (seed, bytes) in [
        ("name", name(1, b"pub.test")),
        ("name-of-address", name(1, b"0x7f000001")),
        ("bind", name(2, b"pub.test")),
        ("longest-name", name(1, &[b'a'; 255])),
        ("ipv4", vec![5, 2, 2, 0, 5, 1, 0, 1, 93, 184, 216, 34, 0, 80, b'x']),
        ("ipv6", [&[5, 1, 0, 5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat()),
        ("password-only", vec![5, 1, 2]),
        ("version-4", vec![4, 1, 0, 80, 1, 1, 1, 1, 0]),
    ] {
        write("proxy_socks", seed, bytes);
    }
}

fn heads() {
    for (name, head) in [
        ("connect", "CONNECT pub.test:443 HTTP/1.1\r\nHost: pub.test:443\r\n\r\n"),
        ("connect-address", "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\n\r\n"),
        (
            "forward",
            "GET http://PUB.test./x?y HTTP/1.1\r\nHost: pub.test\r\nAccept: */*\r\n\r\n",
        ),
        ("short-address", "GET http://127.1:81/ HTTP/1.0\r\n\r\n"),
        (
            "origin-form",
            "POST /x HTTP/1.1\r\nHost: pub.test:81\r\nContent-Length: 2\r\n\r\n",
        ),
        (
            "other-host",
            "GET http://pub.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
        ),
        (
            "two-hosts",
            "GET / HTTP/1.1\r\nHost: pub.test\r\nHost: other.test\r\n\r\n",
        ),
        ("user", "GET http://user:word@pub.test/ HTTP/1.1\r\n\r\n"),
        (
            "hops",
            "PUT http://pub.test/ HTTP/1.1\r\nConnection: close, X-Own , host\r\nX-Own: 1\r\nTE: trailers\r\n\
             Transfer-Encoding: chunked\r\nContent-Length: 5\r\nProxy-Authorization: Basic x\r\n\r\n",
        ),
    ] {
        write("proxy_http", name, head);
    }
}
