//! A small HTTP/1.1 client that also sends what no good client would.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error code, with the shape of the body checked.
    pub(crate) fn code(&self) -> String {
        let json = self.json();
        assert!(json["error"]["message"].is_string(), "{self:?}");
        json["error"]["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// Sends bytes as they are and reads until the server closes.
pub(crate) async fn raw(addr: SocketAddr, request: &[u8]) -> Option<Answer> {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    // The server may answer and close before it read everything.
    let _ = socket.write_all(request).await;
    read(&mut socket).await
}

/// Reads an answer until the server closes.
pub(crate) async fn read(socket: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = timeout(Duration::from_secs(60), socket.read_to_end(&mut bytes))
        .await
        .unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Sends a request. `headers` are whole lines.
pub(crate) async fn send(addr: SocketAddr, method: &str, path: &str, headers: &[String], body: &str) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    raw(addr, request.as_bytes()).await.expect("an answer")
}
