//! Refusals, as clients see them.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rendezvous_wire::registry::{ErrorDetail, ErrorResponse, code};

use crate::store::StoreError;

/// How long a client should wait before it tries again what failed for a moment.
const RETRY: Duration = Duration::from_secs(1);

/// A refused call: a status, a code for programs, a text for people.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry_after: Option<Duration>,
}

impl ApiError {
    /// Any refusal.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Tells the client when to come again.
    #[must_use]
    pub const fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// 400.
    #[expect(clippy::needless_pass_by_value, reason = "stands in map_err")]
    pub fn invalid(message: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, message.to_string())
    }

    /// 401.
    pub fn unauthenticated() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            code::UNAUTHENTICATED,
            "the credential is missing, unknown, expired or revoked",
        )
    }

    /// 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code::FORBIDDEN, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code::NOT_FOUND, message)
    }

    /// 404 for an environment, with the way out.
    pub fn no_environment(id: &impl std::fmt::Display) -> Self {
        Self::not_found(format!(
            "there is no environment {id}; make it with: registry environment create {id}"
        ))
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            code::INVALID_REQUEST,
            "this route does not take this method",
        )
    }

    /// 409 for what exists already.
    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "already_exists", message)
    }

    /// 413.
    pub fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            code::TOO_LARGE,
            format!("the body exceeds {limit} bytes"),
        )
    }

    /// 429.
    pub fn rate_limited(wait: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code::RATE_LIMITED, "too many requests").retry_after(wait)
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code::UNAVAILABLE, message).retry_after(RETRY)
    }

    /// 500. The cause goes to the log only.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            code::INTERNAL,
            "the registry failed; its log says why",
        )
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if error.is_retryable() {
            tracing::warn!(%error, "a request failed");
            return Self::unavailable("the registry's database is not available");
        }
        Self::internal(&error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorResponse {
            error: ErrorDetail {
                code: self.code.to_owned(),
                message: self.message,
            },
        };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
