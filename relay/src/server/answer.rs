//! Answers to upgrade requests.
//!
//! Stock executors register anew on any 4xx and come back with the same URL on 5xx; stock harnesses fetch a fresh bundle on
//! 401 even on their first connect. So 401 is only for a ticket that will never be good again, and what passes with
//! time is 503.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use rendezvous_wire::reason::{self, close};

use crate::rendezvous::core::Refusal;
use crate::ticket::TicketError;
use crate::websocket::HandshakeError;

/// Header that tells a client's log why it was refused.
const REASON_HEADER: &str = "x-codex-rendezvous-rejection-reason";

/// A refused upgrade.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) status: StatusCode,
    /// The text of the header; one of few, so that it can label metrics.
    pub(super) reason: &'static str,
    retry_after: Option<Duration>,
}

impl Rejection {
    fn new(status: StatusCode, reason: &'static str) -> Self {
        Self {
            status,
            reason,
            retry_after: None,
        }
    }

    pub(super) fn bad_request(reason: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    pub(super) fn not_found(reason: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason)
    }

    pub(super) fn unavailable(reason: &'static str) -> Self {
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }

    pub(super) fn too_many(retry_after: Duration, reason: &'static str) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, reason)
        }
    }

    pub(super) fn handshake(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Method => Self::new(StatusCode::METHOD_NOT_ALLOWED, "method"),
            HandshakeError::NotAnUpgrade | HandshakeError::Version => {
                Self::new(StatusCode::UPGRADE_REQUIRED, "websocket_required")
            }
            HandshakeError::Key => Self::bad_request("malformed_key"),
        }
    }

    pub(super) fn response(&self) -> Response<Full<Bytes>> {
        let mut body = String::with_capacity(self.reason.len() + 1);
        body.push_str(self.reason);
        body.push('\n');
        let mut response = Response::new(Full::new(body.into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(REASON_HEADER, HeaderValue::from_static(self.reason));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(time) = self.retry_after {
            headers.insert(header::RETRY_AFTER, time.as_secs().max(1).into());
        }
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
            }
            StatusCode::UPGRADE_REQUIRED => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            _ => {}
        }
        response
    }
}

impl From<TicketError> for Rejection {
    fn from(error: TicketError) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, error.header())
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Revoked => Self::new(StatusCode::UNAUTHORIZED, "revoked"),
            Refusal::Superseded => Self::new(StatusCode::UNAUTHORIZED, "unexpected_executor_registration_id"),
            Refusal::LockedOut(time) => Self::too_many(time, "too_many_failed_handshakes"),
            Refusal::TooManyOfCredential => Self::too_many(Duration::from_secs(5), "too_many_connections"),
            Refusal::TooManyOfKey => Self::too_many(Duration::from_secs(1), "too_many_streams_of_key"),
            Refusal::TooManyStreams => Self::unavailable("too_many_streams"),
            Refusal::TooMany => Self::unavailable("too_many_connections"),
            Refusal::Absent => Self::unavailable("route_unavailable"),
            Refusal::Draining => Self::unavailable("pod_draining"),
        }
    }
}

/// How a connection ends that was accepted, but whose place was gone once its socket was open.
pub(super) fn close_for(refusal: Refusal) -> (u16, &'static str) {
    match refusal {
        Refusal::Revoked => (close::POLICY, reason::REVOKED),
        Refusal::Superseded => (close::GOING_AWAY, "superseded by a newer registration"),
        Refusal::Draining => (close::GOING_AWAY, reason::DRAINING),
        Refusal::Absent => (close::TRY_AGAIN, reason::EXECUTOR_GONE),
        Refusal::LockedOut(_)
        | Refusal::TooManyOfCredential
        | Refusal::TooManyOfKey
        | Refusal::TooManyStreams
        | Refusal::TooMany => (close::TRY_AGAIN, "too many connections"),
    }
}

/// The 101.
pub(super) fn switching(accept: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}
