//! The listener for operators: `/healthz`, `/readyz` and `/metrics`.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::listener::{BindError, Limits, Server};

/// Connections at once; scrapers and probes need few.
const MAX_CONNECTIONS: usize = 64;
/// Time between two rounds in which histograms are condensed.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

static METRICS: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Starts recording metrics for the whole process, once; later calls give the same handle.
///
/// # Errors
///
/// When another recorder was installed.
pub fn metrics() -> Result<PrometheusHandle, Failure> {
    let mut metrics = METRICS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*metrics {
        return Ok(handle.clone());
    }
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| Failure::new(crate::exit::Exit::Runtime, error))?;
    *metrics = Some(handle.clone());
    Ok(handle)
}

/// Reasons why a service is not ready; none when it is. Called for each `/readyz`, so it must be quick.
pub type Readiness = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// The bound listener for operators.
#[derive(Debug)]
pub struct Admin {
    server: Server,
    metrics: PrometheusHandle,
}

impl Admin {
    /// Binds `addr` and starts recording metrics. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, or another recorder was installed.
    pub fn bind(addr: SocketAddr) -> Result<Self, AdminError> {
        let server = Server::bind(addr, None)?.with_limits(Limits {
            max_connections: MAX_CONNECTIONS,
            grace: Duration::from_secs(1),
            ..Limits::default()
        });
        let metrics = metrics()?;
        tracing::info!(address = %server.local_addr(), "serving health and metrics");
        Ok(Self { server, metrics })
    }

    /// The bound address, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Answers until `stop`. `readiness` feeds `/readyz`.
    pub async fn serve(self, readiness: Readiness, stop: CancellationToken) {
        let metrics = self.metrics.clone();
        let handler = move |request: http::Request<_>, _| {
            ready(answer(request.method(), request.uri().path(), &readiness, &metrics))
        };
        tokio::select! {
            () = self.server.serve(handler, stop) => {}
            () = upkeep(self.metrics) => {}
        }
    }
}

/// Why there is no listener for operators.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The address could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Metrics could not be recorded.
    #[error(transparent)]
    Metrics(#[from] Failure),
}

async fn upkeep(metrics: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}

fn answer(method: &Method, path: &str, readiness: &Readiness, metrics: &PrometheusHandle) -> Response<Full<Bytes>> {
    let known = matches!(path, "/healthz" | "/readyz" | "/metrics");
    if known && !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => {
            let reasons = readiness();
            if reasons.is_empty() {
                text(StatusCode::OK, "ready\n")
            } else {
                text(StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
            }
        }
        "/metrics" => {
            let mut response = text(StatusCode::OK, metrics.render());
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
            );
            response
        }
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
