//! HTTP requests from this machine's place in the network.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rendezvous_host::http::{self as host, Buffer, Header, Http, HttpError, HttpResponse, Redirects};
use rendezvous_rpc::base64::Encoder;
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::http::{
    BodyDelta, BodyDeltaParams, HttpHeader, HttpRequest, HttpRequestParams, HttpRequestResult, MAX_DELTA,
    RedirectPolicy, write_delta,
};
use rendezvous_rpc::{Base64, RequestId, RpcError};
use rendezvous_wire::limits::MAX_MESSAGE;
use rustls_pki_types::CertificateDer;
use tokio::sync::OnceCell;

use super::background::{StreamPlace, notify};
use super::{Family, Reply, params, unwritable};
use crate::server::{Connection, Sink};

/// Longest name of a stream.
const MAX_REQUEST_ID: usize = 1024;
/// Largest body that is given back whole. Its text and the response's headers share a message.
const MAX_WHOLE_BODY: usize = (MAX_MESSAGE - 1024 * 1024) / 4 * 3;

pub(super) async fn request<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<HttpRequest>(request)?;
    connection.require(Family::Http)?;
    if params.request_id.len() > MAX_REQUEST_ID {
        return Err(RpcError::invalid_params(format!(
            "requestId must not exceed {MAX_REQUEST_ID} bytes"
        )));
    }
    let place = match params.stream_response {
        true => Some(connection.background.reserve_stream(&params.request_id)?),
        false => None,
    };
    let http = connection.server.http().await?;
    let response = http.send(spec(params)).await.map_err(|error| failed(&error))?;
    match place {
        None => Ok(Reply::Message(whole(&request.id, response, http.buffer()).await?)),
        Some(place) => streamed(connection, &request.id, response, place).await,
    }
}

fn spec(params: HttpRequestParams) -> host::HttpRequest {
    let header = |header: HttpHeader| Header {
        name: header.name,
        value: header.value,
        variable: header.value_env_var,
    };
    host::HttpRequest {
        method: params.method,
        url: params.url,
        headers: params.headers.into_iter().map(header).collect(),
        body: params.body_base64.map(|body| body.0),
        timeout: params.timeout_ms.map(Duration::from_millis),
        redirects: match params.redirect_policy {
            RedirectPolicy::Follow => Redirects::Follow,
            RedirectPolicy::Stop => Redirects::Stop,
        },
    }
}

/// Collects the body, straight into the text of the reply.
async fn whole(id: &RequestId, response: HttpResponse, buffer: &Buffer) -> Result<Bytes, RpcError> {
    let too_large = || {
        RpcError::internal(format!(
            "http/request response body exceeds {MAX_WHOLE_BODY} bytes; larger ones must be streamed"
        ))
    };
    let expected = response.length.unwrap_or(0);
    if expected > MAX_WHOLE_BODY as u64 {
        return Err(too_large());
    }
    let (head, mut body) = begin(response);
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(br#"{"id":"#);
    serde_json::to_writer(&mut out, id).map_err(unwritable)?;
    out.extend_from_slice(br#","result":"#);
    serde_json::to_writer(&mut out, &head).map_err(unwritable)?;
    // The body is the last member, and empty so far.
    out.truncate(out.len() - br#""}"#.len());
    let (mut encoder, mut held, mut len) = (Encoder::default(), None, 0);
    while let Some(chunk) = body.chunk().await.map_err(|error| broken(&error))? {
        len += chunk.len();
        if len > MAX_WHOLE_BODY {
            return Err(too_large());
        }
        if !buffer.take(chunk.len().div_ceil(3) * 4, &mut held) {
            return Err(RpcError::internal("too many response bodies at once on this executor"));
        }
        if len == chunk.len() {
            let expected = usize::try_from(expected).unwrap_or(0).max(len);
            out.reserve_exact(expected.div_ceil(3) * 4 + 16);
        }
        encoder.update(&chunk, &mut out);
    }
    encoder.finish(&mut out);
    out.extend_from_slice(br#""}}"#);
    match Reply::checked(out)? {
        Reply::Message(message) => Ok(message),
        Reply::Sent => Ok(Bytes::new()),
    }
}

/// Sends the reply, so that no news overtake it, and goes on with the body behind the call.
async fn streamed<S: Sink>(
    connection: &Connection<S>,
    id: &RequestId,
    response: HttpResponse,
    place: StreamPlace,
) -> Result<Reply, RpcError> {
    let (head, body) = begin(response);
    let reply = Reply::new(id, &head)?;
    let background = &connection.background;
    if let Reply::Message(message) = reply
        && background.sink().send(message).await
    {
        let sink = Arc::clone(background.sink());
        background.spawn(async move { stream(sink.as_ref(), body, place).await });
    }
    Ok(Reply::Sent)
}

async fn stream(sink: &impl Sink, mut body: host::Body, place: StreamPlace) {
    let mut seq = 0;
    let error = loop {
        let chunk = match body.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        };
        for delta in chunk.chunks(MAX_DELTA) {
            seq += 1;
            let mut out = Vec::new();
            if let Err(error) = write_delta(&mut out, place.id(), seq, delta) {
                tracing::warn!(%error, "a part of a body could not be written");
            }
            if !sink.send(out.into()).await {
                return;
            }
        }
    };
    let last = BodyDeltaParams {
        request_id: place.id().to_owned(),
        seq: seq + 1,
        delta_base64: Base64::default(),
        done: true,
        error,
    };
    // Whoever has read the last one may use the name again.
    drop((body, place));
    notify::<BodyDelta>(sink, &last).await;
}

fn begin(response: HttpResponse) -> (HttpRequestResult, host::Body) {
    let header = |(name, value)| HttpHeader {
        name,
        value,
        value_env_var: None,
    };
    let head = HttpRequestResult {
        status: response.status,
        headers: response.headers.into_iter().map(header).collect(),
        body_base64: Base64::default(),
    };
    (head, response.body)
}

fn failed(error: &HttpError) -> RpcError {
    if error.is_invalid() {
        RpcError::invalid_params(error.to_string())
    } else {
        RpcError::internal(error.to_string())
    }
}

fn broken(error: &HttpError) -> RpcError {
    RpcError::internal(format!("failed to read http/request response body: {error}"))
}

/// The client of all connections, made when the first asks.
pub(crate) async fn client<'a>(
    cell: &'a OnceCell<Http>,
    authorities: &Arc<[CertificateDer<'static>]>,
) -> Result<&'a Http, RpcError> {
    let make = || async {
        let authorities = Arc::clone(authorities);
        // Reading the machine's certificates takes its time.
        let made = tokio::task::spawn_blocking(move || Http::trusting(&authorities)).await;
        made.map_err(|_stopped| RpcError::internal("the executor is stopping"))?
            .map_err(|error| RpcError::internal(error.to_string()))
    };
    cell.get_or_try_init(make).await
}
