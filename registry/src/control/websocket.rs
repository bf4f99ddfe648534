//! The control connection of a stand-alone relay.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use rendezvous_wire::control::{FromRelay, MAX_CONTROL_MESSAGE};
use rendezvous_wire::json::{Bounds, decode};
use rendezvous_wire::reason::close;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::QUEUE;
use super::session::{self, Relay, SessionError};
use crate::api::{ApiError, authorize};
use crate::app::App;
use crate::store::Role;

/// A relay that says nothing for this long is gone: it renews its lease every five seconds.
const SILENCE: Duration = Duration::from_secs(20);
/// Longest time for one write.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// What one message may cost.
const BOUNDS: Bounds = Bounds {
    len: MAX_CONTROL_MESSAGE,
    depth: 8,
    values: 64,
};

/// Takes a relay's control connection.
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    websocket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    parts: Parts,
) -> Result<Response, ApiError> {
    let credential = authorize(&app, &parts, Role::Relay, None).await?;
    let websocket = websocket.map_err(ApiError::invalid)?;
    if app.control_connections.available_permits() == 0 {
        return Err(ApiError::unavailable("too many relays are connected"));
    }
    let upgraded = websocket
        .max_message_size(MAX_CONTROL_MESSAGE)
        .max_frame_size(MAX_CONTROL_MESSAGE)
        .on_upgrade(move |socket| {
            let tasks = app.control_tasks.clone();
            tasks.track_future(async move {
                let Ok(_slot) = app.control_connections.try_acquire() else {
                    return;
                };
                serve(&app, Relay::Standalone(credential.id), socket).await;
            })
        });
    Ok(upgraded.into_response())
}

async fn serve(app: &Arc<App>, relay: Relay, mut socket: WebSocket) {
    let (to_session, from_relay) = mpsc::channel(QUEUE);
    let (to_relay, from_session) = mpsc::channel(QUEUE);
    let session = session::run(app.clone(), relay, from_relay, to_relay);
    let ended = tokio::select! {
        ended = session => ended.map_err(|error| {
            tracing::warn!(%error, "a relay's control connection was ended");
            match error {
                SessionError::Stuck => (close::TRY_AGAIN, error.to_string()),
                other => (close::POLICY, other.to_string()),
            }
        }),
        ended = carry(&mut socket, to_session, from_session) => ended,
        () = app.shutdown.cancelled() => Err((close::GOING_AWAY, "the registry stops".to_owned())),
    };
    if let Err((code, reason)) = ended {
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from(reason),
        };
        // The relay may be gone already; it needs no reason then.
        let _ = timeout(WRITE_WAIT, socket.send(Message::Close(Some(frame)))).await;
    }
}

/// Moves messages both ways until the relay goes, or breaks a rule; then says what to close with.
async fn carry(
    socket: &mut WebSocket,
    to_session: mpsc::Sender<FromRelay>,
    mut from_session: mpsc::Receiver<rendezvous_wire::control::ToRelay>,
) -> Result<(), (u16, String)> {
    let mut silent_until = Instant::now() + SILENCE;
    loop {
        // Read only what the session has room for: it may be waiting for its own messages to be written.
        let receive = async {
            let slot = to_session.reserve().await.ok()?;
            Some((socket.recv().await, slot))
        };
        tokio::select! {
            received = timeout_at(silent_until, receive) => match received {
                Err(_) => return Err((close::POLICY, "no message in time".to_owned())),
                Ok(None | Some((None | Some(Err(_) | Ok(Message::Close(_))), _))) => return Ok(()),
                Ok(Some((Some(Ok(Message::Text(text))), slot))) => {
                    let message = decode(text.as_bytes(), BOUNDS).map_err(|error| {
                        tracing::warn!(%error, "a control message was refused");
                        (close::PROTOCOL, "not a control message".to_owned())
                    })?;
                    slot.send(message);
                    silent_until = Instant::now() + SILENCE;
                }
                Ok(Some((Some(Ok(Message::Binary(_))), _))) => {
                    return Err((close::UNSUPPORTED, "control messages are text".to_owned()));
                }
                Ok(Some((Some(Ok(Message::Ping(_) | Message::Pong(_))), _))) => {}
            },
            Some(message) = from_session.recv() => {
                let text = serde_json::to_string(&message).map_err(|error| (close::POLICY, error.to_string()))?;
                match timeout(WRITE_WAIT, socket.send(Message::Text(text.into()))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => return Err((close::TRY_AGAIN, "messages are not taken".to_owned())),
                }
            }
        }
    }
}
