use std::time::Duration;

use futures_util::StreamExt as _;
use rendezvous_transport::dial::{DialError, Dialer};
use rendezvous_transport::link::{Event, LinkError};
use rendezvous_transport::policy::{ClearText, UrlError};
use rendezvous_wire::secret::Secret;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::world::{Authority, answering, connector, response, serve, within};

/// A relay that echoes binary messages; the heads of its upgrades come out of the channel.
async fn relay(tls: Option<&Authority>) -> (std::net::SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let addr = serve(tls, move |stream| {
        let sender = sender.clone();
        async move {
            #[expect(clippy::result_large_err, reason = "the library's type")]
            let note = |request: &Request, response: Response| {
                let _ = sender.send(format!("{} {:?}", request.uri(), request.headers()));
                Ok(response)
            };
            let socket = tokio_tungstenite::accept_hdr_async(stream, note)
                .await
                .expect("upgrade");
            let (sink, source) = socket.split();
            let _ = source
                .filter(|m| std::future::ready(matches!(m, Ok(Message::Binary(_)))))
                .forward(sink)
                .await;
        }
    })
    .await;
    (addr, receiver)
}

fn url(text: String) -> Secret {
    Secret::new(text)
}

#[tokio::test]
async fn opens_a_link_without_telling_more_than_the_url() {
    let (addr, mut heads) = relay(None).await;
    let dialer = Dialer::new(connector(), ClearText::Loopback);
    let mut link = within(dialer.dial(&url(format!("ws://{addr}/relay/env-1?ticket=abc"))))
        .await
        .expect("link");
    link.feed("hello".into()).expect("feed");
    assert_eq!(
        within(link.next()).await.expect("event"),
        Event::Message("hello".into())
    );
    let head = heads.recv().await.expect("head");
    assert!(head.starts_with("/relay/env-1?ticket=abc "), "{head}");
    for header in [
        "authorization",
        "origin",
        "user-agent",
        "protocol",
        "extensions",
        "cookie",
    ] {
        assert!(!head.contains(header), "{header} in {head}");
    }
}

#[tokio::test]
async fn tls_needs_the_right_authority() {
    let authority = Authority::new();
    let (addr, mut heads) = relay(Some(&authority)).await;
    for host in ["localhost", "127.0.0.1"] {
        let dialer = Dialer::new(authority.connector(), ClearText::Loopback);
        let mut link = within(dialer.dial(&url(format!("wss://{host}:{}/", addr.port()))))
            .await
            .expect(host);
        link.feed("hello".into()).expect("feed");
        assert_eq!(within(link.recv()).await.expect("message"), "hello");
        heads.recv().await.expect("head");
    }
    for connector in [connector(), Authority::new().connector()] {
        let dialer = Dialer::new(connector, ClearText::Loopback);
        let error = within(dialer.dial(&url(format!("wss://localhost:{}/", addr.port()))))
            .await
            .expect_err("untrusted");
        assert!(
            matches!(&error, DialError::Connect(error) if error.is_untrusted()),
            "{error:?}"
        );
    }
    assert!(heads.try_recv().is_err(), "the ticket went to a stranger");
}

#[tokio::test]
async fn refusals_are_typed() {
    let headers = "x-codex-rendezvous-rejection-reason: expired\r\nretry-after: 4\r\n";
    let (addr, _asked) = answering(None, response("401 Unauthorized", headers, "no"), true).await;
    let dialer = Dialer::new(connector(), ClearText::Loopback);
    let target = url(format!("ws://{addr}/?ticket=secret-ticket"));
    let error = within(dialer.dial(&target)).await.expect_err("refused");
    assert!(error.is_ticket_refused());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(4)));
    assert_eq!(error.to_string(), "the upgrade was refused with status 401: expired");

    for status in [
        "200 OK",
        "302 Found",
        "503 Service Unavailable",
        "429 Too Many Requests",
    ] {
        let (addr, _asked) = answering(None, response(status, "location: ws://x/\r\n", ""), true).await;
        let error = within(dialer.dial(&url(format!("ws://{addr}/"))))
            .await
            .expect_err(status);
        assert!(matches!(error, DialError::Refused { .. }), "{error:?}");
        assert!(error.is_retryable() && !error.is_ticket_refused());
    }
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n",
        "nonsense\r\n\r\n",
        "",
    ] {
        let (addr, _asked) = answering(None, answer, true).await;
        let error = within(dialer.dial(&url(format!("ws://{addr}/?ticket=secret-ticket"))))
            .await
            .expect_err("no upgrade");
        assert!(
            matches!(error, DialError::Handshake(_) | DialError::Broken(_)),
            "{error:?}"
        );
        assert!(!format!("{error:?} {error}").contains("secret-ticket"));
    }
}

#[tokio::test]
async fn a_silent_relay_times_out() {
    let addr = serve(None, |stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    for scheme in ["ws", "wss"] {
        let dialer = Dialer::new(connector(), ClearText::Loopback).with_timeout(Duration::from_millis(200));
        let error = within(dialer.dial(&url(format!("{scheme}://{addr}/"))))
            .await
            .expect_err("silent");
        assert!(matches!(error, DialError::Timeout), "{error:?}");
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn urls_are_checked_before_anything_is_sent() {
    let dialer = Dialer::new(connector(), ClearText::Loopback);
    for (text, expected) in [
        ("ws://192.0.2.1/?ticket=x", UrlError::ClearText("wss")),
        ("http://127.0.0.1/", UrlError::Scheme("ws:// or wss://")),
        ("wss://user@127.0.0.1/", UrlError::UserInfo),
    ] {
        let error = within(dialer.dial(&Secret::new(text))).await.expect_err(text);
        assert!(
            matches!(&error, DialError::Url(error) if *error == expected),
            "{error:?}"
        );
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn a_relay_that_drops_the_socket_is_an_end() {
    let addr = serve(None, |stream| async move {
        drop(tokio_tungstenite::accept_async(stream).await.expect("upgrade"));
    })
    .await;
    let dialer = Dialer::new(connector(), ClearText::Loopback);
    let mut link = within(dialer.dial(&url(format!("ws://{addr}/")))).await.expect("link");
    let error = within(link.recv()).await.expect_err("end");
    assert!(matches!(error, LinkError::Closed { code: None, .. }), "{error:?}");
    assert_eq!(error.kind(), "peer_close");
}
