//! The running registry behind one listener, with or without a relay in it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Uri;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use rendezvous_relay::{Config as RelayConfig, ControlChannel, Relay};
use rendezvous_service::listener::Server;
use rendezvous_service::net::Peer;
use rendezvous_wire::ticket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use url::Url;

use crate::app::App;
use crate::control::{QUEUE, session};
use crate::{api, housekeeping};

/// How often readiness looks at the database.
const READINESS: Duration = Duration::from_secs(1);
/// Longest wait until relays have been told that the registry stops.
const GOODBYE: Duration = Duration::from_secs(2);
/// Pause before an embedded relay whose control session ended gets a new one.
const REATTACH: Duration = Duration::from_millis(200);

/// A registry that is ready to serve.
#[derive(Debug)]
pub struct Registry {
    app: Arc<App>,
    relay: Option<Relay>,
    base: String,
    database: Arc<AtomicBool>,
}

/// A public URL that nobody can reach a registry by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public URL must be http:// or https:// with a host, and without user, query and fragment")]
pub struct PublicUrlError;

/// Checks a public URL. Its path is the base path of every route.
///
/// # Errors
///
/// It cannot be one.
pub fn public_url(text: &str) -> Result<Url, PublicUrlError> {
    let url = Url::parse(text).map_err(|_| PublicUrlError)?;
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.has_host();
    if plain && matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err(PublicUrlError)
    }
}

/// The public URL of a relay that shares the registry's listener.
fn relay_url(public: &Url) -> String {
    let text = public.as_str().trim_end_matches('/');
    match text.strip_prefix("https") {
        Some(rest) => format!("wss{rest}"),
        None => text.replacen("http", "ws", 1),
    }
}

impl Registry {
    /// A registry that is reached at `public`, with a relay in it if `embed` says so. Must be called inside a Tokio
    /// runtime.
    pub fn new(app: Arc<App>, public: &Url, embed: bool) -> Self {
        let relay = embed.then(|| Relay::detached(RelayConfig::new(relay_url(public))));
        Self {
            app,
            relay,
            base: public.path().trim_end_matches('/').to_owned(),
            database: Arc::new(AtomicBool::new(true)),
        }
    }

    /// What keeps it from being ready; for `/readyz`.
    pub fn readiness(&self) -> impl Fn() -> Vec<String> + Send + Sync + 'static {
        let (app, relay, database) = (self.app.clone(), self.relay.clone(), self.database.clone());
        move || {
            let mut reasons = Vec::new();
            if app.shutdown.is_cancelled() {
                reasons.push("the registry is stopping".to_owned());
            }
            if !database.load(Ordering::Relaxed) {
                reasons.push("the database does not answer".to_owned());
            }
            if relay.as_ref().is_some_and(|relay| !relay.is_ready()) {
                reasons.push("the embedded relay is not ready".to_owned());
            }
            reasons
        }
    }

    /// Ends when a relay inside, if there is one, can accept connections. Does not end if it never can.
    pub fn ready(&self) -> impl Future<Output = ()> + Send + 'static {
        let relay = self.relay.clone();
        async move {
            if let Some(relay) = relay {
                relay.ready().await;
            }
        }
    }

    /// Serves until the shutdown: then the embedded relay drains, and requests are answered as long as that takes.
    pub async fn serve(self, server: Server) {
        let app = self.app.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(housekeeping::run(app.clone()));
        tasks.spawn(watch_database(app.clone(), self.database.clone()));
        if let Some(relay) = &self.relay {
            tasks.spawn(attach(app.clone(), relay.clone()));
        }
        let routes = Routes {
            router: api::router(app.clone()),
            relay: self.relay.clone(),
            base: self.base.into(),
        };
        let handler = move |request, peer| routes.clone().answer(request, peer);
        let drained = CancellationToken::new();
        let served = server.serve(handler, drained.clone());
        let drain = async {
            app.shutdown.cancelled().await;
            // A harness that is sent away asks for another way at once. A stock one gives its session up for lost if that
            // request breaks off, and tries again if it is told that the executor is away.
            if let Some(relay) = &self.relay {
                relay.drain().await;
            }
            drained.cancel();
        };
        tokio::join!(served, drain);
        app.control_tasks.close();
        let _ = tokio::time::timeout(GOODBYE, app.control_tasks.wait()).await;
        tasks.shutdown().await;
        app.store.close().await;
    }
}

#[derive(Clone)]
struct Routes {
    router: Router,
    relay: Option<Relay>,
    base: Arc<str>,
}

impl Routes {
    async fn answer(self, mut request: http::Request<Incoming>, peer: Peer) -> Response {
        self.strip_base(&mut request);
        if let Some(relay) = &self.relay
            && is_relay(request.uri().path())
        {
            return relay.handle(request.map(drop), peer).await.map(Body::new);
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        match self.router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// A proxy in front may keep the base path or strip it: both work.
    fn strip_base<B>(&self, request: &mut http::Request<B>) {
        let Some(rest) = request
            .uri()
            .path_and_query()
            .and_then(|path| path.as_str().strip_prefix(&*self.base))
            .filter(|rest| !self.base.is_empty() && rest.starts_with('/'))
        else {
            return;
        };
        let Ok(path) = PathAndQuery::try_from(rest) else { return };
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

fn is_relay(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|path| path.strip_prefix(ticket::PATH))
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Keeps a control session between the registry and the relay in it, also while the relay drains.
async fn attach(app: Arc<App>, relay: Relay) {
    loop {
        let (to_registry, from_relay) = mpsc::channel(QUEUE);
        let (to_relay, from_registry) = mpsc::channel(QUEUE);
        let channel = ControlChannel {
            to_registry,
            from_registry,
        };
        let session = session::run(app.clone(), session::Relay::Embedded, from_relay, to_relay);
        let ended = tokio::select! {
            ended = session => ended,
            () = relay.clone().attach(channel) => Ok(()),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "the embedded relay's control session ended and is started again");
        }
        tokio::time::sleep(REATTACH).await;
    }
}

async fn watch_database(app: Arc<App>, database: Arc<AtomicBool>) {
    let mut ticks = tokio::time::interval(READINESS);
    loop {
        ticks.tick().await;
        let answers = app.store.ping().await.is_ok();
        database.store(answers, Ordering::Relaxed);
        metrics::gauge!("rendezvous_registry_database_up").set(f64::from(u8::from(answers)));
    }
}

/// The URL that a listener is printed with, and reached by on this machine.
pub fn local_url(addr: SocketAddr, tls: bool) -> String {
    format!("{}://{addr}", if tls { "https" } else { "http" })
}

#[cfg(test)]
mod tests {
    use super::{is_relay, public_url, relay_url};

    #[test]
    fn makes_relay_urls() {
        for (public, relay) in [
            ("http://127.0.0.1:8080", "ws://127.0.0.1:8080"),
            ("https://rdv.example/", "wss://rdv.example"),
            ("https://rdv.example/base/path/", "wss://rdv.example/base/path"),
            ("http://http.example/http", "ws://http.example/http"),
        ] {
            assert_eq!(relay_url(&public_url(public).unwrap()), relay);
        }
    }

    #[test]
    fn refuses_urls_that_are_no_base() {
        for text in [
            "ftp://h",
            "http://u@h",
            "http://u:p@h",
            "http://h?q",
            "http://h#f",
            "h:80",
            "",
        ] {
            assert!(public_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tells_relay_connections_apart() {
        assert!(is_relay("/relay/env"));
        assert!(!is_relay("/relays/env") && !is_relay("/v1/relay/control") && !is_relay("/relay"));
    }
}
