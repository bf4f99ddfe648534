//! Kept sessions: the extension `detachedSessions`.

use std::time::Duration;

use rendezvous_rpc::RpcError;
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::Empty;
use rendezvous_rpc::method::session::{
    End, EndResult, List, ListResult, MAX_LISTED, Retain, RetainResult, SessionInfo, Signal,
};
use tokio::time::Instant;

use super::{Family, Reply, params, process, reply};
use crate::server::{Connection, Sink};
use crate::session::{Session, Sessions};

pub(super) async fn retain<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Retain>(request)?;
    let session = connection.require(Family::Exec)?.session();
    let retention = connection.server.sessions.retain(session, params).await?;
    let result = RetainResult {
        retention_ms: milliseconds(retention),
    };
    reply::<Retain>(request, &result)
}

pub(super) fn list<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<List>(request)?;
    connection.require(Family::Exec)?;
    if params.session_ids.len() > MAX_LISTED {
        return Err(RpcError::invalid_params(format!(
            "at most {MAX_LISTED} sessions can be asked for"
        )));
    }
    let sessions = &connection.server.sessions;
    let kept = sessions.kept(connection.harness(), &params.session_ids);
    let result = ListResult {
        sessions: kept.iter().map(|session| describe(sessions, session)).collect(),
        max_retention_ms: sessions.detached().map_or(0, |rules| milliseconds(rules.max_retention)),
    };
    reply::<List>(request, &result)
}

fn describe(sessions: &Sessions, session: &Session) -> SessionInfo {
    let retention = session.retention(sessions.config().session_retention);
    let unattended = session.unattended_since();
    let left = |at: Instant| retention.saturating_sub(at.elapsed());
    SessionInfo {
        session_id: session.id().to_owned(),
        name: session.name(),
        age_ms: milliseconds(session.opened().elapsed()),
        attached: unattended.is_none(),
        retention_ms: milliseconds(retention),
        expires_in_ms: unattended.map(|at| milliseconds(left(at))),
        processes: process::describe_all(session.processes()),
    }
}

pub(super) fn signal<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Signal>(request)?;
    connection.require(Family::Exec)?;
    let signal = process::named(&params.signal)?;
    let session = connection
        .server
        .sessions
        .find(connection.harness(), &params.session_id)?;
    for (_, process) in session.processes().list() {
        if let Some(process) = process {
            process.signal(signal);
        }
    }
    reply::<Signal>(request, &Empty {})
}

pub(super) fn end<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<End>(request)?;
    let own = connection.require(Family::Exec)?.session();
    let sessions = &connection.server.sessions;
    let session = sessions.find(connection.harness(), &params.session_id)?;
    let running = sessions.end(&session, own);
    reply::<End>(request, &EndResult { running })
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
