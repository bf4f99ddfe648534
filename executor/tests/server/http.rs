//! `http/request`.

use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Client, PATIENCE, server, with};
use crate::web::{Web, byte_at};

fn get(url: impl Into<String>) -> Value {
    let url: String = url.into();
    json!({"method": "GET", "url": url, "requestId": "r"})
}

fn streamed(url: impl Into<String>, id: &str) -> Value {
    with(get(url), json!({"requestId": id, "streamResponse": true}))
}

fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().expect("text")).expect("base64")
}

fn body(result: &Value) -> String {
    String::from_utf8(decode(&result["bodyBase64"])).expect("text")
}

/// Takes a streamed body to its end; checks the numbers.
async fn drain(client: &mut Client, id: &str) -> (Vec<u8>, Value) {
    let mut bytes = Vec::new();
    for seq in 1.. {
        let (method, params) = client.news().await;
        assert_eq!(method, "http/request/bodyDelta");
        assert_eq!((&params["requestId"], &params["seq"]), (&json!(id), &json!(seq)));
        let delta = decode(&params["deltaBase64"]);
        assert!(delta.len() <= 1024 * 1024);
        if params["done"] == true {
            assert_eq!(delta, b"");
            return (bytes, params["error"].clone());
        }
        assert_eq!(params["error"], Value::Null);
        assert!(!delta.is_empty());
        bytes.extend(delta);
    }
    unreachable!("seq is unbounded")
}

#[tokio::test]
async fn requests_and_responses_keep_their_parts() {
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    let headers = json!([
        {"name": "X-Two", "value": "b"}, {"name": "x-one", "value": "1"}, {"name": "x-two", "value": "a"},
        {"name": "host", "value": "elsewhere"}, {"name": "x-path", "value": "is ", "valueEnvVar": "PATH"},
    ]);
    let request = with(
        get(web.url("/echo/a?b=c#fragment")),
        json!({"method": "PUT", "headers": headers, "bodyBase64": STANDARD.encode("content")}),
    );
    let result = client.call("http/request", request).await.expect("response");
    assert_eq!(result["status"], 200);
    let path = std::env::var("PATH").expect("PATH");
    let echo = body(&result);
    assert!(echo.starts_with("PUT /echo/a?b=c HTTP/1.1\r\n"), "{echo}");
    for line in [
        "x-two: b\r\nx-two: a\r\n".to_owned(),
        "x-one: 1\r\n".to_owned(),
        "host: elsewhere\r\n".to_owned(),
        format!("x-path: is {path}\r\n"),
        "content-length: 7\r\n".to_owned(),
    ] {
        assert!(echo.contains(&line), "{line} is not in {echo}");
    }
    assert!(echo.ends_with("\r\n\r\ncontent"), "{echo}");
    assert!(!echo.contains("accept-encoding"), "bodies come as they are");
    let two: Vec<&Value> = result["headers"]
        .as_array()
        .expect("headers")
        .iter()
        .filter(|header| header["name"] == "x-two")
        .map(|header| &header["value"])
        .collect();
    assert_eq!(two, ["1", "2"]);
    let names = result["headers"].to_string();
    assert!(names.contains("x-one") && !names.contains("x-bytes"), "{names}");
}

#[tokio::test]
async fn redirects_are_followed_or_given_back() {
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    let asked = get(web.url("/redirect/redirect/echo"));
    let result = client.call("http/request", asked.clone()).await.expect("followed");
    assert!(body(&result).starts_with("GET /echo "));
    let stop = with(asked, json!({"redirectPolicy": "stop"}));
    let result = client.call("http/request", stop).await.expect("given back");
    assert_eq!(result["status"], 302);
    let location = json!({"name": "location", "value": "/redirect/echo"});
    assert!(result["headers"].as_array().expect("headers").contains(&location));
    let round = client
        .call("http/request", get(web.url("/loop")))
        .await
        .expect_err("loop");
    assert_eq!(round.0, -32603, "{round:?}");
}

#[tokio::test]
async fn time_is_up_wherever_the_exchange_stands() {
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    for (path, text) in [
        ("/silent", "http/request failed: error sending request for url"),
        ("/begun", "failed to read http/request response body: "),
    ] {
        let request = with(get(web.url(path)), json!({"timeoutMs": 200}));
        let error = client.call("http/request", request).await.expect_err(path);
        assert_eq!(error.0, -32603);
        assert!(error.1.starts_with(text), "{}", error.1);
    }
    let request = with(streamed(web.url("/begun"), "s"), json!({"timeoutMs": 200}));
    client.call("http/request", request).await.expect("response");
    let (bytes, error) = drain(&mut client, "s").await;
    assert_eq!(bytes, b"abc");
    assert!(error.is_string());
}

#[tokio::test]
async fn the_table_of_refusals() {
    let web = Web::start().await;
    let mut client = Client::raw(&server());
    let echo = || get(web.url("/echo"));
    let early = client.call("http/request", echo()).await.expect_err("early");
    assert_eq!(
        early,
        (-32600, "client must call initialize before using http methods".into())
    );
    client.initialize(None).await.expect("initialize");
    client.notify("initialized", json!({})).await;
    let header = |name: &str, value: &str| json!({"headers": [{"name": name, "value": value}]});
    let variable = |name: &str| json!({"headers": [{"name": "a", "value": "p", "valueEnvVar": name}]});
    let absent = |name: &str| format!("http/request header a requires executor environment variable {name}");
    let refusals = [
        (
            with(echo(), json!({"method": "b ad"})),
            -32602,
            "http/request method is invalid: ".to_owned(),
        ),
        (
            with(echo(), json!({"method": ""})),
            -32602,
            "http/request method is invalid: ".to_owned(),
        ),
        (
            get("here"),
            -32602,
            "http/request url is invalid: relative URL without a base".to_owned(),
        ),
        (
            get("http://"),
            -32602,
            "http/request url is invalid: empty host".to_owned(),
        ),
        (
            get("ftp://a/"),
            -32602,
            "http/request only supports http and https URLs, got ftp".to_owned(),
        ),
        (
            get("file:///etc/passwd"),
            -32602,
            "http/request only supports http and https URLs, got file".to_owned(),
        ),
        (
            with(echo(), header("b ad", "x")),
            -32602,
            "http/request header name is invalid: ".to_owned(),
        ),
        (
            with(echo(), header("", "x")),
            -32602,
            "http/request header name is invalid: ".to_owned(),
        ),
        (
            with(echo(), header("a", "x\ny")),
            -32602,
            "http/request header value is invalid for a: ".to_owned(),
        ),
        (
            with(echo(), variable("NO_SUCH_VARIABLE")),
            -32602,
            absent("NO_SUCH_VARIABLE"),
        ),
        (with(echo(), variable("CODEX_API_KEY")), -32602, absent("CODEX_API_KEY")),
        (with(echo(), variable("")), -32602, absent("")),
        (
            with(echo(), json!({"requestId": "r".repeat(1025)})),
            -32602,
            "requestId must not exceed 1024 bytes".to_owned(),
        ),
        (with(echo(), json!({"requestId": null})), -32602, String::new()),
        (
            with(echo(), json!({"redirectPolicy": "x"})),
            -32602,
            "unknown variant `x`".to_owned(),
        ),
        (with(echo(), json!({"bodyBase64": "!"})), -32602, String::new()),
        (
            json!({"method": "GET", "url": web.url("/echo")}),
            -32602,
            "missing field `requestId`".to_owned(),
        ),
        (
            get("http://name:word@127.0.0.1:1/x"),
            -32603,
            "http/request failed: error sending request for url (http://127.0.0.1:1/x)".to_owned(),
        ),
        (
            get(web.url("/cut")),
            -32603,
            "failed to read http/request response body: ".to_owned(),
        ),
        (
            get(web.url("/bytes/60000000")),
            -32603,
            "http/request response body exceeds ".to_owned(),
        ),
    ];
    for (params, code, text) in refusals {
        let error = client.call("http/request", params.clone()).await.expect_err("refused");
        assert_eq!(error.0, code, "{params}: {}", error.1);
        assert!(error.1.starts_with(&text), "{params}: {}", error.1);
    }
}

#[tokio::test]
async fn a_body_without_length_is_bounded_too() {
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    let request = get(web.url("/unannounced/3000000"));
    let result = client.call("http/request", request).await.expect("fits");
    assert!(
        decode(&result["bodyBase64"])
            .into_iter()
            .eq((0..3_000_000).map(byte_at))
    );
    let request = get(web.url("/unannounced/60000000"));
    let error = client.call("http/request", request).await.expect_err("too large");
    assert!(
        error.1.starts_with("http/request response body exceeds "),
        "{}",
        error.1
    );
}

#[tokio::test]
async fn bodies_are_streamed_behind_the_reply() {
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    for length in [0, 1, 3_000_000] {
        let request = streamed(web.url(&format!("/bytes/{length}")), "s");
        let result = client.call("http/request", request).await.expect("response");
        assert_eq!((&result["status"], &result["bodyBase64"]), (&json!(200), &json!("")));
        let (bytes, error) = drain(&mut client, "s").await;
        assert_eq!(error, Value::Null);
        assert!(bytes.into_iter().eq((0..length).map(byte_at)));
    }
    let request = streamed(web.url("/cut"), "s");
    client.call("http/request", request).await.expect("response");
    let (bytes, error) = drain(&mut client, "s").await;
    assert_eq!(bytes, b"abc");
    assert!(error.is_string(), "a body that broke off is no whole body");
}

#[tokio::test]
async fn names_of_streams_are_used_once_at_a_time_and_streams_are_bounded() {
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    let begun = |id: &str| streamed(web.url("/begun"), id);
    client.call("http/request", begun("s0")).await.expect("response");
    assert_eq!(client.news().await.1["seq"], 1);
    let twice = client.call("http/request", begun("s0")).await.expect_err("twice");
    assert_eq!(
        twice,
        (
            -32602,
            "http/request streamResponse requestId `s0` is already active".into()
        )
    );
    let whole = with(get(web.url("/echo")), json!({"requestId": "s0"}));
    client.call("http/request", whole).await.expect("not a stream");
    let failed = streamed("http://127.0.0.1:1/", "f");
    for _ in 0..2 {
        let error = client
            .call("http/request", failed.clone())
            .await
            .expect_err("no server");
        assert_eq!(error.0, -32603, "a failed request keeps no name");
    }
    for n in 1..256 {
        client
            .call("http/request", begun(&format!("s{n}")))
            .await
            .expect("response");
    }
    let full = client.call("http/request", begun("one more")).await.expect_err("full");
    assert_eq!(
        full,
        (
            -32600,
            "at most 256 http/request bodies may be streamed per connection".into()
        )
    );
    let status = client.call("environment/status", Value::Null).await;
    assert!(status.is_ok());
}

/// The most bytes that TCP holds between two programs of this machine: in the sender's buffer and in the receiver's, as large
/// as the kernel ever makes them.
fn in_the_kernel() -> usize {
    ["tcp_wmem", "tcp_rmem"]
        .map(|name| {
            let sizes = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).expect("sizes");
            let most = sizes.split_whitespace().next_back().expect("the most");
            most.parse::<usize>().expect("a number")
        })
        .iter()
        .sum()
}

/// What is read of a server is what its client takes, and what is on its way.
#[tokio::test]
async fn a_slow_client_holds_up_the_server() {
    // Beside the kernel's: what hyper reads ahead and one piece that it has handed over, 0.4 MiB each, one message that waits
    // for room, and the client's queue. Each message has one such piece.
    const PIECE: usize = 416 * 1024;
    const QUEUE: usize = 4;
    let most = in_the_kernel() + (2 + 1 + QUEUE) * PIECE;
    let length = 4 * most;
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    let request = streamed(web.url(&format!("/bytes/{length}")), "s");
    client.call("http/request", request).await.expect("response");
    let mut got = 0;
    while got < length {
        let (_, params) = client.news().await;
        got += decode(&params["deltaBase64"]).len();
        let ahead = web.written.load(Ordering::Relaxed).saturating_sub(got);
        assert!(ahead <= most, "{ahead} bytes of at most {most} are on their way");
    }
}

#[tokio::test]
async fn a_lost_client_ends_its_requests() {
    let web = Web::start().await;
    let server = server();
    let mut client = Client::new(&server).await;
    client
        .call(
            "http/request",
            streamed(web.url(&format!("/bytes/{}", 1_u64 << 40)), "s"),
        )
        .await
        .expect("response");
    drop(client);
    // The server, which never comes to the end of its bytes, is told that nobody takes them any more.
    timeout(PATIENCE, web.ended.notified()).await.expect("the request ends");
}

/// 64 MiB, and 1 GiB with `RENDEZVOUS_FULL=1`.
#[tokio::test]
async fn a_large_body_streams_whole() {
    let length: usize = if std::env::var_os("RENDEZVOUS_FULL").is_some() {
        1 << 30
    } else {
        64 << 20
    };
    let web = Web::start().await;
    let mut client = Client::new(&server()).await;
    let request = streamed(web.url(&format!("/bytes/{length}")), "s");
    client.call("http/request", request).await.expect("response");
    let mut got = 0;
    loop {
        let (_, params) = client.news().await;
        let delta = decode(&params["deltaBase64"]);
        assert!(
            delta
                .iter()
                .enumerate()
                .all(|(index, byte)| *byte == byte_at(got + index))
        );
        got += delta.len();
        if params["done"] == true {
            assert_eq!(params["error"], Value::Null);
            break;
        }
    }
    assert_eq!(got, length);
}
