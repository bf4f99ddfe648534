//! What the relay received and sent holds nothing of what the two ends said.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::capture::{Capture, search};
use rendezvous_integration_tests::peer::{self, Event, Peer, made_up_key};
use rendezvous_wire::frame::Body;
use rendezvous_wire::registry::ConnectResponse;
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio_rustls::TlsConnector;

use super::town::{ENVIRONMENT, RELAY_PUBLIC, Town, registry_url};
use super::work::Secrets;

/// Each of the commands with their own exit codes connects.
const LEAST_AUTHORIZATIONS: usize = 256;
/// A handshake, which alone carries an authorization, is in the first bytes of a connection.
const BEGINNING: u64 = 128 * 1024;
/// The bulk data alone crosses the relay four times: in and out, each way.
const LEAST_SEEN: u64 = 4 * 100 * 1024 * 1024;

pub(super) async fn relay_saw_nothing(town: Town, secrets: &Secrets) -> Result<()> {
    let planted = format!("planted-{}", uuid::Uuid::new_v4().simple());
    plant(&town, &planted).await.context("plant a marker")?;

    let (access, executor_token) = (town.access.clone(), town.executor_token.clone());
    let seen_by_relay = town.relay_capture.finish()?;
    let seen_by_control = town.control_capture.finish()?;
    let mut bytes = 0;
    for file in &seen_by_relay {
        bytes += std::fs::metadata(file)?.len();
    }
    ensure!(bytes >= LEAST_SEEN, "only {bytes} bytes were recorded");

    // The search finds what is there: on the way in, where the bytes were masked, and on the way out.
    let hits = search::find(&seen_by_relay, &[&planted])?;
    let found = |end: &str| hits.iter().any(|hit| hit.file.to_string_lossy().ends_with(end));
    ensure!(
        found("-up") && found("-down"),
        "the planted marker was not found: {hits:?}"
    );
    let hits = search::find(&seen_by_control, &[ENVIRONMENT])?;
    ensure!(!hits.is_empty(), "the control connection was not recorded");

    let mut markers = secrets.all().to_vec();
    markers.extend([
        access.token.as_str(),
        &executor_token,
        rendezvous_integration_tests::executor::HOST_NAME,
    ]);
    let files = [seen_by_relay, seen_by_control].concat();
    let hits = search::find(&files, &markers)?;
    ensure!(hits.is_empty(), "the relay saw: {hits:?}");

    let authorizations = authorizations(town.connect_capture)?;
    let authorizations: Vec<&str> = authorizations.iter().map(String::as_str).collect();
    let hits = search::find_within(&files, &authorizations, BEGINNING)?;
    ensure!(hits.is_empty(), "the relay saw authorizations: {hits:?}");
    Ok(())
}

/// What the registry gave the harness to present to the executor, once for each connection.
fn authorizations(registry: Capture) -> Result<Vec<String>> {
    const MEMBER: &str = r#""harness_key_authorization":""#;
    let mut found = Vec::new();
    for file in registry.finish()? {
        let answer = String::from_utf8_lossy(&std::fs::read(file)?).into_owned();
        let authorization = answer.split_once(MEMBER).and_then(|(_, rest)| rest.split_once('"'));
        found.extend(authorization.map(|(authorization, _)| authorization.to_owned()));
    }
    ensure!(
        found.len() >= LEAST_AUTHORIZATIONS && found.iter().all(|text| text.len() >= 32),
        "{} authorizations were recorded: {found:?}",
        found.len()
    );
    Ok(found)
}

/// A harness that sends a marker in clear, as no honest one does. The executor does not understand and resets.
async fn plant(town: &Town, marker: &str) -> Result<()> {
    let client = town.authority.client()?;
    let authority = std::fs::read(town.authority.file())?;
    let (token, marker) = (town.access.token.clone(), marker.to_owned());
    let near = town.near.machine.clone();
    let planted = tokio::task::spawn_blocking(move || {
        near.within(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let bundle = connect(&authority, &token).await?;
                let socket = tokio::net::TcpStream::connect(RELAY_PUBLIC).await?;
                let name = ServerName::from(RELAY_PUBLIC.ip());
                let socket = TlsConnector::from(Arc::clone(&client)).connect(name, socket).await?;
                let mut peer = Peer::over(socket, bundle.url.expose()).await?;
                let stream = peer::stream_id()?;
                let mut payload = marker.into_bytes();
                payload.resize(3604, b'.');
                peer.send(peer::resume(&stream)).await?;
                peer.send(peer::handshake(&stream, payload)).await?;
                match peer.next(rendezvous_integration_tests::wait::SOON).await? {
                    Event::Frame(frame) if matches!(frame.body, Body::Reset { .. }) => Ok(()),
                    other => anyhow::bail!("unexpected: {other:?}"),
                }
            })
        })
    });
    planted.await?
}

async fn connect(authority: &[u8], token: &str) -> Result<ConnectResponse> {
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(authority)?])
        .build()?;
    let response = client
        .post(format!("{}/cloud/environment/{ENVIRONMENT}/connect", registry_url()))
        .bearer_auth(token)
        .json(&json!({"harness_public_key": made_up_key(9)}))
        .send()
        .await?
        .error_for_status()?;
    Ok(response.json().await?)
}
