use http::{Request, Response};
use tokio_tungstenite::tungstenite::Error as WebSocketError;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

/// Why a request is no WebSocket upgrade.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no WebSocket upgrade: {0}")]
pub struct UpgradeError(String);

/// The answer to a WebSocket upgrade, whose connection then becomes a [`Link`](crate::link::Link). No subprotocol and no
/// extension is agreed on.
///
/// # Errors
///
/// When the request is something else.
pub fn accept<B, C: Default>(request: &Request<B>) -> Result<Response<C>, UpgradeError> {
    create_response_with_body(request, C::default).map_err(|error: WebSocketError| UpgradeError(error.to_string()))
}
