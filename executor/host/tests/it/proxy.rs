//! The proxy of a program, asked over this machine's loopback.

mod bounds;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rendezvous_host::proxy::{
    Addresses, Answer, Listeners, MAX_CONNECTIONS_PROXY, MAX_HEAD, MAX_METHOD, Mode, Notice, Outcome, Protocol, Proxy,
    Referee, Rules, Serving, Slots, Target, Verdict,
};
use tokio::task::spawn_blocking;

const PATIENCE: Duration = Duration::from_secs(20);

/// Gives one verdict, or none, and keeps what it hears.
#[derive(Debug, Default)]
struct Judge {
    verdict: Option<Verdict>,
    asked: Mutex<Vec<String>>,
    heard: Mutex<Vec<Notice>>,
}

impl Referee for Judge {
    fn ask(&self, protocol: Protocol, target: &Target) -> Option<Answer> {
        let verdict = self.verdict.clone()?;
        let asked = format!("{protocol:?} {}:{}", target.host, target.port);
        self.asked.lock().expect("ours").push(asked);
        Some(Box::pin(async { verdict }))
    }

    fn notice(&self, notice: Notice) {
        self.heard.lock().expect("ours").push(notice);
    }
}

struct World {
    at: Addresses,
    server: SocketAddr,
    judge: Arc<Judge>,
    serving: Option<Serving>,
}

impl World {
    /// A proxy that may reach local addresses as its rules say, and a server that tells what it was asked.
    fn new(verdict: Option<Verdict>, mode: Mode, allowed: &[&str]) -> Self {
        let mut rules = Rules::new(mode, true);
        for pattern in allowed {
            rules.allow(pattern).expect("a pattern");
        }
        rules.deny("denied.test").expect("a pattern");
        let judge = Arc::new(Judge {
            verdict,
            ..Judge::default()
        });
        let listeners = Listeners::bind(true).expect("ports");
        let at = listeners.addresses().expect("addresses");
        let proxy = Proxy::new(rules, Arc::clone(&judge) as _, &Slots::default());
        Self {
            at,
            server: echo_server(),
            judge,
            serving: Some(proxy.serve(listeners).expect("served")),
        }
    }

    /// Sends bytes to the HTTP proxy and reads to the end.
    async fn http(&self, request: impl Into<Vec<u8>>) -> String {
        ask(self.at.http, request).await
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.judge
            .heard
            .lock()
            .expect("ours")
            .drain(..)
            .map(|notice| notice.outcome)
            .collect()
    }
}

async fn ask(at: SocketAddr, request: impl Into<Vec<u8>>) -> String {
    let request = request.into();
    let asked = spawn_blocking(move || {
        let mut stream = connect(at);
        stream.write_all(&request).expect("written");
        let mut reply = Vec::new();
        let _reset = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    });
    asked.await.expect("an answer")
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Answers each connection with the head and the body that it got, and closes.
fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            std::thread::spawn(move || echo(stream));
        }
    });
    at
}

fn echo(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut seen = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        seen.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    seen.push_str(&String::from_utf8_lossy(&body));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nX-Seen: yes\r\nkeep-alive: timeout=5\r\nproxy-authenticate: Basic\r\n\r\n",
        seen.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(seen.as_bytes()).ok()
}

#[tokio::test]
async fn forwards_a_request_without_what_is_between_neighbours() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let server = world.server;
    let request = format!(
        "POST http://{server}/a?b=c HTTP/1.1\r\nHost: {server}\r\nConnection: close, x-own\r\nX-Own: 1\r\n\
         Proxy-Authorization: Basic secret\r\nX-Kept: 2\r\nContent-Length: 4\r\n\r\nbody"
    );
    let reply = world.http(request).await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    assert!(
        reply.contains("\r\nX-Kept: 2\r\n") && reply.contains("\r\nX-Seen: yes\r\n"),
        "{reply}"
    );
    let seen = reply.to_ascii_lowercase();
    assert!(
        seen.contains("x-seen: yes") && seen.contains("post /a?b=c http/1.1"),
        "{reply}"
    );
    assert!(
        seen.contains(&format!("host: {server}")) && seen.contains("x-kept: 2") && seen.ends_with("body"),
        "{reply}"
    );
    for hidden in ["secret", "x-own", "keep-alive", "proxy-authenticate"] {
        assert!(!seen.contains(hidden), "{hidden}: {reply}");
    }
    assert_eq!(world.outcomes(), [Outcome::Allowed]);
}

#[tokio::test]
async fn a_connection_can_be_used_again_and_each_request_is_judged() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let server = world.server;
    let request = format!(
        "GET http://{server}/one HTTP/1.1\r\nHost: {server}\r\n\r\nGET http://denied.test/two HTTP/1.1\r\nHost: denied.test\r\n\r\n\
         GET http://{server}/three HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"
    );
    let reply = world.http(request).await;
    assert!(
        reply.contains("GET /one") && reply.contains("403 Forbidden") && reply.contains("GET /three"),
        "{reply}"
    );
    assert_eq!(world.outcomes(), [Outcome::Allowed, Outcome::Denied, Outcome::Allowed]);
}

#[tokio::test]
async fn opens_tunnels_and_tells_of_servers_that_are_not_there() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let server = world.server;
    let reply = world
        .http(format!(
            "CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\nGET /in HTTP/1.1\r\nHost: x\r\n\r\n"
        ))
        .await;
    assert!(
        reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.contains("GET /in HTTP/1.1"),
        "{reply}"
    );
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    for request in [
        format!("CONNECT {closed} HTTP/1.1\r\nHost: {closed}\r\nConnection: close\r\n\r\n"),
        format!("GET http://{closed}/ HTTP/1.1\r\nHost: {closed}\r\nConnection: close\r\n\r\n"),
    ] {
        let reply = world.http(request).await;
        assert!(reply.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{reply}");
    }
}

#[tokio::test]
async fn speaks_socks5_and_refuses_its_other_commands() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let (socks, server) = (world.at.socks.expect("SOCKS"), world.server);
    let conversation = move |request: Vec<u8>, more: &'static [u8]| {
        let talk = spawn_blocking(move || {
            let mut stream = connect(socks);
            // Whoever knows the answers may send all at once.
            stream
                .write_all(&[&[5, 1, 0], &request[..], more].concat())
                .expect("written");
            let mut reply = Vec::new();
            let _reset = stream.read_to_end(&mut reply);
            reply
        });
        async { talk.await.expect("a reply") }
    };
    let port = server.port().to_be_bytes();
    let ask = b"GET /socks HTTP/1.1\r\nHost: x\r\n\r\n";
    let reply = conversation([&[5, 1, 0, 1, 127, 0, 0, 1][..], &port].concat(), ask).await;
    assert_eq!(&reply[..8], [5, 0, 5, 0, 0, 1, 127, 0]);
    assert!(String::from_utf8_lossy(&reply).contains("GET /socks"));
    let name = [&[5, 1, 0, 3, 11][..], b"denied.test", &port].concat();
    assert_eq!(conversation(name, b"").await[2..4], [5, 2]);
    for (command, code) in [(2, 7), (3, 7)] {
        let reply = conversation([&[5, command, 0, 1, 127, 0, 0, 1][..], &port].concat(), b"").await;
        assert_eq!(reply[2..4], [5, code]);
    }
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let refused = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &closed.port().to_be_bytes()].concat();
    assert_eq!(conversation(refused, b"").await[2..4], [5, 5]);
    assert!(ask_bytes(socks, b"GET / HTTP/1.1\r\n\r\n").await.is_empty());
    assert_eq!(ask_bytes(socks, &[5, 1, 2]).await, [5, 0xff]);
}

async fn ask_bytes(at: SocketAddr, bytes: &'static [u8]) -> Vec<u8> {
    let asked = spawn_blocking(move || {
        let mut stream = connect(at);
        stream.write_all(bytes).expect("written");
        let mut reply = Vec::new();
        let _reset = stream.read_to_end(&mut reply);
        reply
    });
    asked.await.expect("an answer")
}

#[tokio::test]
async fn tells_why_something_is_blocked() {
    let world = World::new(None, Mode::Full, &[]);
    let get = |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let reply = world.http(get("unknown.test:81")).await;
    assert!(reply.starts_with("HTTP/1.1 403 Forbidden\r\n") && reply.contains("x-proxy-error: blocked-by-allowlist"));
    let body = reply.split("\r\n\r\n").nth(1).expect("a body");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let expected = serde_json::json!({
        "status": "blocked", "host": "unknown.test", "reason": "not_allowed", "decision": "deny", "source": "baseline_policy",
        "protocol": "http", "port": 81, "message": "Domain not in allowlist.",
    });
    assert_eq!(body, expected);
    assert!(
        world
            .http(get("denied.test"))
            .await
            .contains("x-proxy-error: blocked-by-denylist")
    );
    let reply = world
        .http("CONNECT unknown.test:443 HTTP/1.1\r\nHost: unknown.test\r\nConnection: close\r\n\r\n")
        .await;
    assert!(
        reply.contains("403 Forbidden") && reply.ends_with("Domain not in allowlist."),
        "{reply}"
    );
}

#[tokio::test]
async fn the_client_is_asked_each_time() {
    let world = World::new(Some(Verdict::Allow), Mode::Full, &[]);
    let server = world.server;
    for _ in 0..2 {
        let get = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
        assert!(world.http(get).await.starts_with("HTTP/1.1 200"));
    }
    assert_eq!(
        *world.judge.asked.lock().expect("ours"),
        [format!("Http {server}"), format!("Http {server}")]
    );
    let world = World::new(Some(Verdict::Ask("who \"are\" you".into())), Mode::Full, &[]);
    let reply = world
        .http("GET http://asked.test/ HTTP/1.1\r\nHost: asked.test\r\nConnection: close\r\n\r\n")
        .await;
    assert!(
        reply.contains("blocked-by-policy") && reply.contains(r#""reason":"who \"are\" you""#),
        "{reply}"
    );
    assert!(
        reply.contains(r#""decision":"ask""#) && reply.contains(r#""source":"decider""#),
        "{reply}"
    );
}

#[tokio::test]
async fn a_request_is_one_for_its_server_too() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let server = world.server;
    let query = format!("GET http://{server}?x=1 HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    let reply = world.http(query).await;
    assert!(reply.contains("GET /?x=1 HTTP/1.1"), "{reply}");
}

#[tokio::test]
async fn the_limited_mode_takes_plain_reads() {
    let world = World::new(None, Mode::Limited, &["127.0.0.1"]);
    let server = world.server;
    for body in [
        "Content-Length: 1\r\n\r\nx",
        "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ] {
        let get = format!("GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{body}");
        let reply = world.http(get).await;
        assert!(reply.contains("x-proxy-error: blocked-by-method-policy"), "{reply}");
    }
    let send =
        |method: &str| format!("{method} http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    assert!(world.http(send("GET")).await.starts_with("HTTP/1.1 200"));
    assert!(
        world
            .http(send("DELETE"))
            .await
            .contains("x-proxy-error: blocked-by-method-policy")
    );
    let tunnel = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    assert!(
        world
            .http(tunnel)
            .await
            .contains("x-proxy-error: blocked-by-mitm-required")
    );
}

#[tokio::test]
async fn heads_are_bounded_and_broken_ones_refused() {
    let world = World::new(None, Mode::Full, &["127.0.0.1"]);
    let server = world.server;
    let long = format!(
        "GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nX: {}\r\n\r\n",
        "a".repeat(2 * MAX_HEAD)
    );
    let many = format!(
        "GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\n{}\r\n",
        "X: 1\r\n".repeat(200)
    );
    for (request, status) in [
        (long, "431"),
        (many, "431"),
        ("BLAH\r\n\r\n".to_owned(), "400"),
        (
            format!(
                "{} http://{server}/ HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n",
                "M".repeat(MAX_METHOD + 1)
            ),
            "400",
        ),
        (
            format!("GET http://{server}/ HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n"),
            "400",
        ),
        (
            format!(
                "GET http://{server}/ HTTP/1.1\r\nHost: {server}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
            ),
            "400",
        ),
        (
            "GET ftp://x.test/ HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n".to_owned(),
            "400",
        ),
    ] {
        let reply = world.http(request.clone()).await;
        assert!(
            reply.starts_with(&format!("HTTP/1.1 {status}")),
            "{}: {reply}",
            &request[..request.len().min(60)]
        );
    }
    assert!(world.outcomes().is_empty());
}
