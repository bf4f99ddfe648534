use std::time::{Duration, Instant};

use rendezvous_service::listener::Limits;
use rendezvous_service::tls::{MAX_FILE, TlsError};
use tokio::io::AsyncWriteExt as _;

use crate::certificate::Files;
use crate::world::{Running, hello, rest, within};

#[tokio::test]
async fn serves_tls_and_nothing_else() {
    let files = Files::new();
    let server = Running::start(Limits::default(), Some(files.loader()), hello);
    let mut client = files.connect(server.addr).await.expect("handshake");
    client
        .write_all(b"GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .expect("write");
    assert!(rest(&mut client).await.ends_with("/x tls=true"));

    let mut clear = server.connect().await;
    clear
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("write");
    let mut answer = Vec::new();
    let _ = within(tokio::io::AsyncReadExt::read_to_end(&mut clear, &mut answer)).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    server.finish().await;
}

#[tokio::test]
async fn a_stalled_handshake_is_closed() {
    let files = Files::new();
    let limits = Limits {
        tls_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let server = Running::start(limits, Some(files.loader()), hello);
    let mut client = server.connect().await;
    let before = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert!(before.elapsed() >= Duration::from_millis(190));
    server.finish().await;
}

#[tokio::test]
async fn changed_files_are_taken_and_broken_pairs_are_not() {
    let files = Files::new();
    let server = Running::start(Limits::default(), Some(files.loader()), hello);
    let (first, second) = (files.shown(server.addr).await, files.leaf());

    // Another certificate with the old key is no pair: the old one stays.
    let other = files.loader();
    files.write("cert", &second.cert);
    assert!(matches!(other.reload(), Err(TlsError::Pair { .. })));
    assert!(!other.reload().expect("the same broken files are reported once"));
    assert_eq!(files.shown(server.addr).await, first);

    files.write("key", &second.key);
    within(async {
        while files.shown(server.addr).await != second.der {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(other.reload().expect("a pair again"));
    server.finish().await;
}

#[test]
fn unusable_files_are_named() {
    let files = Files::new();
    let leaf = files.leaf();
    files.write("cert", "no PEM");
    let error = files.load().expect_err("no certificate");
    assert!(
        matches!(
            error,
            TlsError::Pem {
                what: "certificate",
                ..
            }
        ),
        "{error:?}"
    );
    files.write("cert", &"x".repeat(usize::try_from(MAX_FILE).expect("small") + 1));
    assert!(matches!(files.load(), Err(TlsError::TooLarge(_))));
    files.write("cert", &leaf.cert);
    files.write("key", &leaf.cert);
    let error = files.load().expect_err("no key");
    assert!(
        matches!(
            error,
            TlsError::Pem {
                what: "private key",
                ..
            }
        ),
        "{error:?}"
    );
    files.write("key", &files.leaf().key);
    let error = files.load().expect_err("another key");
    assert!(matches!(error, TlsError::Pair { .. }), "{error:?}");
}
