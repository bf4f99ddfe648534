//! HTTP requests that this machine makes for somebody else.
//!
//! A response is read as its reader goes on: a slow reader holds up the server, never memory. Proxies are taken from the
//! environment. Bodies come as the server sent them; nothing is decompressed, and nothing is asked for compressed.

mod budget;
mod error;

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Url};
use rustls_pki_types::CertificateDer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::budget::{Buffer, MAX_BUFFERED_TOTAL};
pub use self::error::HttpError;
use crate::env::is_withheld;

/// Exchanges of all clients together: from the request until its body has been read.
pub const MAX_EXCHANGES: usize = 1024;
/// Redirects of one request.
pub const MAX_REDIRECTS: usize = 10;
/// How long a connection is kept for another request.
const IDLE: Duration = Duration::from_secs(30);
/// Connections kept for one host.
const MAX_IDLE: usize = 8;
/// How long the kernel waits before it asks whether a silent server is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// What to ask.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method, as it goes on the wire.
    pub method: String,
    /// An absolute URL of scheme `http` or `https`.
    pub url: String,
    /// Headers; those with the same name keep their order.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Option<Bytes>,
    /// The longest time for everything, the response's body included. None: for ever.
    pub timeout: Option<Duration>,
    /// What to do about redirects.
    pub redirects: Redirects,
}

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value, or the begin of it.
    pub value: String,
    /// A variable of this machine's environment whose content the value goes on with.
    pub variable: Option<String>,
}

/// What to do about redirects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// Follow up to [`MAX_REDIRECTS`]. Credentials are not sent to another host.
    #[default]
    Follow,
    /// Give them back as a response.
    Stop,
}

/// The begin of a response, and its body to be read.
#[derive(Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Headers whose values are text; those with the same name keep their order.
    pub headers: Vec<(String, String)>,
    /// How long the body will be, where the server tells.
    pub length: Option<u64>,
    /// The body.
    pub body: Body,
}

/// A body to be read.
#[derive(Debug)]
pub struct Body {
    response: reqwest::Response,
    _place: OwnedSemaphorePermit,
}

impl Body {
    /// The next bytes, as many as came at once; none at the end.
    ///
    /// # Errors
    ///
    /// When the time is over, or the server ended the body too early.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        self.response
            .chunk()
            .await
            .map_err(|error| HttpError::Body(error.without_url()))
    }
}

/// Makes requests. Cheap to clone; clones share connections and bounds.
#[derive(Clone, Debug)]
pub struct Http {
    follow: Client,
    stop: Client,
    places: Arc<Semaphore>,
    buffer: Buffer,
}

impl Http {
    /// A client of its own, with the proxies that the environment names.
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up.
    pub fn new() -> Result<Self, HttpError> {
        Self::trusting(&[])
    }

    /// As [`Http::new`], and trusts these authorities beside the machine's own.
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up, or a certificate is no authority's.
    pub fn trusting(authorities: &[CertificateDer<'_>]) -> Result<Self, HttpError> {
        Self::make(MAX_EXCHANGES, MAX_BUFFERED_TOTAL, authorities)
    }

    /// As [`Http::new`], with other bounds on exchanges, and on bytes of bodies that are collected.
    ///
    /// # Errors
    ///
    /// When TLS cannot be set up.
    pub fn with_limits(exchanges: usize, buffered: usize) -> Result<Self, HttpError> {
        Self::make(exchanges, buffered, &[])
    }

    fn make(exchanges: usize, buffered: usize, authorities: &[CertificateDer<'_>]) -> Result<Self, HttpError> {
        let authorities = authorities.iter().map(|der| Certificate::from_der(der));
        let authorities: Vec<_> = authorities.collect::<Result<_, _>>().map_err(HttpError::Setup)?;
        let client = |policy| {
            let builder = Client::builder()
                .tls_certs_merge(authorities.iter().cloned())
                .redirect(policy)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(MAX_IDLE)
                .tcp_keepalive(KEEPALIVE);
            builder.build().map_err(HttpError::Setup)
        };
        Ok(Self {
            follow: client(Policy::limited(MAX_REDIRECTS))?,
            stop: client(Policy::none())?,
            places: Arc::new(Semaphore::new(exchanges)),
            buffer: Buffer::new(buffered),
        })
    }

    /// The memory for bodies that are collected whole.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Makes a request and waits for the begin of its response.
    ///
    /// # Errors
    ///
    /// See [`HttpError`].
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let method = Method::from_bytes(request.method.as_bytes()).map_err(HttpError::Method)?;
        let url = parse(&request.url)?;
        let headers = headers(request.headers)?;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(HttpError::TooMany);
        };
        let client = match request.redirects {
            Redirects::Follow => &self.follow,
            Redirects::Stop => &self.stop,
        };
        let mut builder = client.request(method, url.clone()).headers(headers);
        if let Some(body) = request.body {
            builder = builder.body(body);
        }
        if let Some(timeout) = request.timeout {
            builder = builder.timeout(timeout);
        }
        let response = builder.send().await.map_err(|error| HttpError::send(error, url))?;
        Ok(HttpResponse {
            status: response.status().as_u16(),
            headers: texts(response.headers()),
            length: response.content_length(),
            body: Body {
                response,
                _place: place,
            },
        })
    }
}

fn parse(text: &str) -> Result<Url, HttpError> {
    let mut url = Url::parse(text).map_err(|error| HttpError::Url(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::Scheme(url.scheme().to_owned()));
    }
    url.set_fragment(None);
    Ok(url)
}

fn headers(given: Vec<Header>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::with_capacity(given.len().min(64));
    for header in given {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(HttpError::HeaderName)?;
        let mut bytes = header.value.into_bytes();
        let is_secret = header.variable.is_some();
        if let Some(variable) = header.variable {
            let Some(content) = lookup(&variable) else {
                let name = header.name;
                return Err(HttpError::Variable { name, variable });
            };
            bytes.extend_from_slice(content.as_bytes());
        }
        let mut value = HeaderValue::from_maybe_shared(Bytes::from(bytes)).map_err(|error| HttpError::HeaderValue {
            name: header.name,
            error,
        })?;
        value.set_sensitive(is_secret);
        headers
            .try_append(name, value)
            .map_err(|_too_many| HttpError::TooManyHeaders)?;
    }
    Ok(headers)
}

/// A variable of our environment, unless it is one that nobody else may have.
fn lookup(variable: &str) -> Option<OsString> {
    if is_withheld(variable.as_ref()) {
        return None;
    }
    env::var_os(variable)
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}
