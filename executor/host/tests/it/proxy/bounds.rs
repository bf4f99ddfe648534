//! How many connections there may be, and what ends them.

use super::*;

#[tokio::test]
async fn connections_over_the_bound_wait_for_one_that_ends() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let server = world.server;
    let http = world.at.http;
    let mut held: Vec<TcpStream> = (0..MAX_CONNECTIONS_PROXY).map(|_| connect(http)).collect();
    // All are served: each answers.
    for stream in &mut held {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    }
    let held = spawn_blocking(move || {
        for stream in &mut held {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
        }
        held
    });
    let mut held = held.await.expect("answers");
    let get = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    let mut waiting = tokio::spawn(ask(http, get));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    assert!(world.outcomes().is_empty());
    held.pop();
    assert!(waiting.await.expect("an answer").starts_with("HTTP/1.1 200"));
}

/// Tells when its question is given up.
#[derive(Debug)]
struct Patient {
    asked: tokio::sync::mpsc::UnboundedSender<&'static str>,
}

impl Referee for Patient {
    fn ask(&self, _: Protocol, _: &Target) -> Option<Answer> {
        struct Open(tokio::sync::mpsc::UnboundedSender<&'static str>);
        impl Drop for Open {
            fn drop(&mut self) {
                let _gone = self.0.send("given up");
            }
        }
        let _gone = self.asked.send("asked");
        let open = Open(self.asked.clone());
        Some(Box::pin(async move {
            let _open = open;
            std::future::pending().await
        }))
    }

    fn notice(&self, _: Notice) {}
}

#[tokio::test]
async fn a_question_ends_with_the_connection_that_it_is_for() {
    let (asked, mut told) = tokio::sync::mpsc::unbounded_channel();
    let listeners = Listeners::bind(true).expect("ports");
    let at = listeners.addresses().expect("addresses");
    let proxy = Proxy::new(Rules::default(), Arc::new(Patient { asked }), &Slots::default());
    let _serving = proxy.serve(listeners).expect("served");
    let socks = at.socks.expect("an address");
    // With bytes behind the request, which nobody reads and which hide the end from readers.
    let get = "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\nGET";
    let tunnel = "CONNECT x.test:1 HTTP/1.1\r\nHost: x.test\r\n\r\nmore";
    let greeting = "\x05\x01\0\x05\x01\0\x03\x06x.test\0\x50more";
    for (at, bytes) in [(at.http, get), (at.http, tunnel), (socks, greeting)] {
        let mut stream = connect(at);
        stream.write_all(bytes.as_bytes()).expect("written");
        let next = tokio::time::timeout(PATIENCE, told.recv());
        assert_eq!(next.await.expect("in time"), Some("asked"));
        drop(stream);
        let next = tokio::time::timeout(PATIENCE, told.recv());
        assert_eq!(next.await.expect("in time"), Some("given up"));
    }
}

#[tokio::test]
async fn all_ends_with_the_proxy() {
    let mut world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = silent.local_addr().expect("an address");
    let http = world.at.http;
    let mut tunnel = connect(http);
    tunnel
        .write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
        .expect("written");
    let (mut tunnel, mut far) = spawn_blocking(move || {
        let far = silent.accept().expect("a connection").0;
        let mut head = [0; 12];
        tunnel.read_exact(&mut head).expect("an answer");
        (tunnel, far)
    })
    .await
    .expect("a tunnel");
    drop(world.serving.take());
    spawn_blocking(move || {
        let mut rest = Vec::new();
        let _reset = tunnel.read_to_end(&mut rest);
        far.set_read_timeout(Some(PATIENCE)).expect("set");
        assert_eq!(far.read(&mut [0]).unwrap_or(0), 0);
        let deadline = std::time::Instant::now() + PATIENCE;
        while TcpStream::connect(http).is_ok() {
            assert!(std::time::Instant::now() < deadline, "the proxy still listens");
            std::thread::yield_now();
        }
    })
    .await
    .expect("an end");
}
