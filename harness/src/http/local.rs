//! Requests from this machine's place in the network.

use std::path::PathBuf;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use rendezvous_host::http::{self as host, Header, Http, Redirects};
use rendezvous_transport::tls::Trust;
use tokio::sync::OnceCell;

use super::{Body, HttpHeader, HttpRequest, HttpResponse, HttpStream, RedirectPolicy};
use crate::backend::HttpClient;
use crate::error::{HarnessError, LocalError};

/// Largest body that is given back whole, as from an executor.
const MAX_WHOLE_BODY: usize = 45 * 1024 * 1024;

/// Makes requests; its client is made when the first is asked for.
#[derive(Debug, Default)]
pub(crate) struct LocalHttp {
    ca_file: Option<PathBuf>,
    client: OnceCell<Http>,
}

impl LocalHttp {
    /// Trusts the authorities of a PEM file beside the machine's own.
    pub(crate) fn trusting(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            client: OnceCell::new(),
        }
    }
}

#[async_trait]
impl HttpClient for LocalHttp {
    async fn http(&self, request: HttpRequest) -> Result<HttpResponse, HarnessError> {
        let mut response = self.http_stream(request).await?;
        let mut body = BytesMut::new();
        while let Some(bytes) = response.next().await? {
            if body.len() + bytes.len() > MAX_WHOLE_BODY {
                let reason = format!("it exceeds {MAX_WHOLE_BODY} bytes; larger ones must be streamed");
                return Err(HarnessError::Body(reason));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(HttpResponse {
            status: response.status,
            headers: response.headers,
            body: body.freeze(),
        })
    }

    async fn http_stream(&self, request: HttpRequest) -> Result<HttpStream, HarnessError> {
        let client = self.client.get_or_try_init(|| client(self.ca_file.clone())).await?;
        let response = client.send(spec(request)).await.map_err(LocalError::from)?;
        let header = |(name, value)| HttpHeader {
            name,
            value,
            value_env_var: None,
        };
        let headers = response.headers.into_iter().map(header).collect();
        let body = Body::Local(LocalBody { body: response.body });
        Ok(HttpStream::new(response.status, headers, body))
    }
}

async fn client(ca_file: Option<PathBuf>) -> Result<Http, HarnessError> {
    let make = move || {
        let trust = Trust::new(ca_file.as_deref())?;
        Ok(Http::trusting(trust.authorities()).map_err(LocalError::from)?)
    };
    // Reading certificates takes its time.
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|_stopped| HarnessError::Shutdown)?
}

fn spec(request: HttpRequest) -> host::HttpRequest {
    let header = |header: HttpHeader| Header {
        name: header.name,
        value: header.value,
        variable: header.value_env_var,
    };
    host::HttpRequest {
        method: request.method,
        url: request.url,
        headers: request.headers.into_iter().map(header).collect(),
        body: request.body,
        timeout: request.timeout,
        redirects: match request.redirects {
            RedirectPolicy::Follow => Redirects::Follow,
            RedirectPolicy::Stop => Redirects::Stop,
        },
    }
}

/// A body as its server sends it.
#[derive(Debug)]
pub(super) struct LocalBody {
    body: host::Body,
}

impl LocalBody {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, HarnessError> {
        self.body
            .chunk()
            .await
            .map_err(|error| HarnessError::Body(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers one request with this, and keeps the connection.
    async fn server(answer: Vec<u8>) -> (String, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_u8().await.unwrap();
            // Whoever has had enough leaves.
            let _ = socket.write_all(&answer).await;
            let _ = socket.read_to_end(&mut Vec::new()).await;
        });
        (url, served)
    }

    #[tokio::test]
    async fn a_redirect_is_followed_only_where_that_is_wanted() {
        let moved = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n";
        let (url, _served) = server(moved.to_vec()).await;
        let mut request = HttpRequest::new("GET", url);
        request.redirects = RedirectPolicy::Stop;
        request.timeout = Some(Duration::from_secs(60));
        assert_eq!(LocalHttp::default().http(request).await.unwrap().status, 302);
    }

    #[tokio::test]
    async fn a_request_has_its_time() {
        let (url, _served) = server(Vec::new()).await;
        let mut request = HttpRequest::new("GET", url);
        request.timeout = Some(Duration::from_millis(200));
        let client = LocalHttp::default();
        let waited = tokio::time::timeout(Duration::from_secs(60), client.http(request)).await;
        waited.expect("it is given up").unwrap_err();
    }

    #[tokio::test]
    async fn a_whole_body_is_bounded() {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MAX_WHOLE_BODY + 1);
        let (url, _served) = server([head.as_bytes(), &vec![0; MAX_WHOLE_BODY + 1]].concat()).await;
        let error = LocalHttp::default()
            .http(HttpRequest::new("GET", url))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, HarnessError::Body(reason) if reason.contains("47185920")),
            "{error}"
        );
    }
}
