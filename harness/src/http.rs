//! HTTP requests from an executor's place in the network, or from this machine's.

mod local;

use std::time::Duration;

use bytes::Bytes;
use rendezvous_rpc::Base64;
use rendezvous_rpc::method::http::{self, HttpRequestParams};
pub use rendezvous_rpc::method::http::{HttpHeader, RedirectPolicy};

use self::local::LocalBody;
pub(crate) use self::local::LocalHttp;
use crate::client::Harness;
use crate::error::HarnessError;
use crate::session::Class;
pub use crate::session::core::listen::MAX_BODIES;
use crate::session::core::listen::{BodyEvent, Listener};
use crate::session::delivery::{self, EventReceiver};

/// A request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// An absolute URL, `http` or `https`.
    pub url: String,
    /// Headers; those with the same name keep their order. A value may go on with a variable of the executor's
    /// environment, so that a secret need not leave that machine.
    pub headers: Vec<HttpHeader>,
    /// The body, at most about 45 MiB.
    pub body: Option<Bytes>,
    /// The longest time for everything, the response's body included. None: for ever.
    pub timeout: Option<Duration>,
    /// What to do about redirects.
    pub redirects: RedirectPolicy,
}

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout: None,
            redirects: RedirectPolicy::Follow,
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(HttpHeader {
            name: name.into(),
            value: value.into(),
            value_env_var: None,
        });
        self
    }

    fn params(self, request_id: String, stream_response: bool) -> HttpRequestParams {
        HttpRequestParams {
            method: self.method,
            url: self.url,
            headers: self.headers,
            body_base64: self.body.map(Base64),
            timeout_ms: self
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            redirect_policy: self.redirects,
            request_id,
            stream_response,
        }
    }
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Headers whose values are text; those with the same name keep their order.
    pub headers: Vec<HttpHeader>,
    /// The body.
    pub body: Bytes,
}

/// The begin of a response, and its body to be read. Dropped, the rest of the body is thrown away as it comes.
#[derive(Debug)]
pub struct HttpStream {
    /// The status.
    pub status: u16,
    /// Headers whose values are text; those with the same name keep their order.
    pub headers: Vec<HttpHeader>,
    body: Body,
    is_over: bool,
}

#[derive(Debug)]
enum Body {
    Remote(EventReceiver<BodyEvent>),
    Local(LocalBody),
}

impl Body {
    async fn next(&mut self) -> Result<Option<Bytes>, HarnessError> {
        match self {
            Self::Remote(events) => match events.recv().await {
                Some(Ok(BodyEvent::Bytes(bytes))) => Ok(Some(bytes)),
                Some(Ok(BodyEvent::End)) => Ok(None),
                Some(Err(error)) => Err(error),
                None => Err(HarnessError::Shutdown),
            },
            Self::Local(body) => body.next().await,
        }
    }
}

impl HttpStream {
    fn new(status: u16, headers: Vec<HttpHeader>, body: Body) -> Self {
        Self {
            status,
            headers,
            body,
            is_over: false,
        }
    }

    /// The next bytes of the body, at most 1 MiB; none at its end. What is not taken holds up the whole session in the end,
    /// as with [`crate::process::Process`].
    ///
    /// # Errors
    ///
    /// [`HarnessError::Body`] when the server or a lost connection ended the body too early. It is over then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HarnessError> {
        if self.is_over {
            return Ok(None);
        }
        let next = self.body.next().await;
        self.is_over = !matches!(next, Ok(Some(_)));
        next
    }
}

impl Harness {
    /// Makes a request and gives the whole response, whose body may have about 45 MiB.
    ///
    /// # Errors
    ///
    /// As any call; when the server cannot be reached, [`HarnessError::Refused`] says so.
    pub async fn http(&self, request: HttpRequest) -> Result<HttpResponse, HarnessError> {
        let params = request.params(self.request_id(), false);
        let result = self.call::<http::HttpRequest>(&params).await?;
        Ok(HttpResponse {
            status: result.status,
            headers: result.headers,
            body: result.body_base64.0,
        })
    }

    /// Makes a request and gives the response as it comes. At most [`MAX_BODIES`] may be under way.
    ///
    /// ```no_run
    /// # async fn example(harness: rendezvous_harness::Harness) -> Result<(), rendezvous_harness::HarnessError> {
    /// use rendezvous_harness::http::HttpRequest;
    ///
    /// let request = HttpRequest::new("GET", "http://intranet/large").header("accept", "*/*");
    /// let mut response = harness.http_stream(request).await?;
    /// while let Some(bytes) = response.next().await? {
    ///     println!("{} bytes", bytes.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Harness::http`].
    pub async fn http_stream(&self, request: HttpRequest) -> Result<HttpStream, HarnessError> {
        let id = self.request_id();
        let params = request.params(id.clone(), true);
        let (sender, events) = delivery::body();
        let listener = Listener::Body { id, events: sender };
        let result = self
            .call_with::<http::HttpRequest>(&params, Class::Once, Some(listener))
            .await?;
        Ok(HttpStream::new(result.status, result.headers, Body::Remote(events)))
    }

    fn request_id(&self) -> String {
        format!("r{}", self.next_number())
    }
}
