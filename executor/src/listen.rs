//! Serving without registry and relay: clients connect to a WebSocket listener, or speak over stdin and stdout.
//!
//! Both forms give streams of messages to the same [`Server`] as the relay connection does. The rules are
//! those of stock executors (`proto/README.md`, "Direct transports").

pub mod auth;
mod http;
mod url;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rendezvous_host::own::Listening;
use rendezvous_service::listener::{self, BindError};
use rendezvous_transport::direct;
use tokio_util::sync::CancellationToken;

pub use self::http::MAX_CONNECTIONS;
pub use self::url::{ListenUrl, ListenUrlError};
use crate::server::Server;
use auth::Auth;

/// A bound WebSocket listener.
#[derive(Debug)]
pub struct Listener {
    http: listener::Server,
    /// Programs of this executor must not come here through its proxies.
    own: Listening,
}

impl Listener {
    /// Binds `addr`, port 0 for any free one. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When the address is taken or not ours.
    pub fn bind(addr: SocketAddr) -> Result<Self, BindError> {
        let http = listener::Server::bind(addr, None)?;
        let own = Listening::at(http.local_addr());
        Ok(Self { http, own })
    }

    /// The URL to connect to, with the real port.
    pub fn url(&self) -> String {
        format!("ws://{}", self.http.local_addr())
    }

    /// Serves until `stop`; then every connection is closed with a close frame.
    pub async fn serve(self, server: Server, auth: Option<Auth>, stop: CancellationToken) {
        let handler = Arc::new(http::Handler::new(server, auth, stop.clone()));
        let handle = {
            let handler = Arc::clone(&handler);
            move |request, peer| {
                let answer = handler.answer(request, peer);
                std::future::ready(answer)
            }
        };
        let _own = self.own;
        self.http.serve(handle, stop).await;
        handler.finish().await;
    }
}

/// Serves one client over stdin and stdout, until it closes stdin or `stop`. What it asked before is answered, as long as no
/// answer takes a second.
pub async fn serve_stdio(server: &Server, stop: impl Future<Output = ()>) {
    let stream = direct::over_lines(tokio::io::stdin(), tokio::io::stdout());
    let (sender, mut receiver) = stream.split();
    tokio::select! {
        () = server.serve_stream(sender, &mut receiver) => {}
        () = stop => {}
    }
    // So that the last answers are out before the program ends.
    receiver.close().await;
}

/// Cancels `stop` when stdin ends; what comes in is dropped.
///
/// # Errors
///
/// When there is no thread for it.
pub fn stop_with_stdin(stop: CancellationToken) -> io::Result<()> {
    // A thread of its own: a read of stdin cannot be interrupted, and must not keep the runtime from its end.
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        // An error ends it as well as the end does.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        tracing::info!("stopping, because stdin is closed");
        stop.cancel();
    })?;
    Ok(())
}
