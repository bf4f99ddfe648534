//! What the protocol allows at most, through a real relay and executor.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::stream::Target;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{ENVIRONMENT, RelayKind, Site};
use rendezvous_integration_tests::{Context, wait};
use rendezvous_transport::connector::Connector;
use rendezvous_transport::dial::Dialer;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::registry::{Client, Options};
use rendezvous_transport::stream::{self, MessageStream};
use rendezvous_transport::tls::Trust;
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::limits::{MAX_MESSAGE, REORDER_BYTES};
use rendezvous_wire::secret::Secret;
use serde_json::{Value, json};

use crate::runner::{Case, When};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("limits::largest_message", When::Full, largest_message)]
}

/// A message of exactly 64 MiB goes to the executor, and one comes back; an answer one byte longer becomes an error.
async fn largest_message(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::StandAlone).await?;
    let mut stream = open(&site).await?;
    let path = format!("file://{}", site.workspace.join("large").display());

    // Base64 takes a multiple of four bytes; a member that means nothing fills up the rest.
    let framing = json!({"id": 2, "method": "fs/writeFile", "params": {"path": path, "dataBase64": ""}, "rest": ""});
    let free = MAX_MESSAGE - framing.to_string().len();
    let content: Vec<u8> = (0..=250).cycle().take(free / 4 * 3).collect();
    let mut write = framing;
    write["params"]["dataBase64"] = STANDARD.encode(&content).into();
    write["rest"] = "x".repeat(free % 4).into();
    let write = write.to_string();
    ensure!(write.len() == MAX_MESSAGE, "{} bytes", write.len());
    let answer = ask(&mut stream, write).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    ensure!(answer["id"] == 2 && answer["error"].is_null(), "{answer}");
    let written = std::fs::read(site.content.join("large"))?;
    ensure!(written == content, "{} bytes were written", written.len());

    // An answer repeats the id, which so sets its length. One to a file of three bytes tells how long the rest is.
    let read = |id: &str, name: &str| {
        let path = format!("file://{}", site.workspace.join(name).display());
        json!({"id": id, "method": "fs/readFile", "params": {"path": path}}).to_string()
    };
    std::fs::write(site.content.join("small"), "abc")?;
    let framing = ask(&mut stream, read("", "small")).await?.len() - 4;
    // Executors read whole files up to this length; the id takes what is left.
    let coded = (MAX_MESSAGE - 1024) / 4 * 4;
    let content: Vec<u8> = (0..=250).cycle().take(coded / 4 * 3).collect();
    std::fs::write(site.content.join("large"), &content)?;
    let id = "i".repeat(MAX_MESSAGE - framing - coded);
    let answer = ask(&mut stream, read(&id, "large")).await?;
    ensure!(
        answer.len() == MAX_MESSAGE,
        "an answer of {} bytes: {}",
        answer.len(),
        String::from_utf8_lossy(&answer[..answer.len().min(200)])
    );
    let answer: Value = serde_json::from_slice(&answer)?;
    let data = answer["result"]["dataBase64"].as_str().context("data")?;
    ensure!(STANDARD.decode(data)? == content, "the content came back changed");

    let answer = ask(&mut stream, read(&format!("{id}i"), "large")).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    ensure!(
        answer["error"]["code"].is_i64(),
        "{} bytes too many are no error",
        answer.to_string().len()
    );
    let answer = ask(&mut stream, read("again", "small")).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    ensure!(answer["result"]["dataBase64"] == "YWJj", "{answer}");
    Ok(())
}

/// An initialized stream to the site's executor.
async fn open(site: &Site) -> Result<MessageStream> {
    let access = site.access();
    let connector = Connector::direct(Trust::new(None)?);
    let client = Client::new(&Options {
        url: RegistryUrl::parse(&access.registry, ClearText::Loopback)?,
        credential: Secret::new(access.token),
        account: None,
        connector: connector.clone(),
    })?;
    let identity = Identity::generate(&mut UnwrapErr(SysRng));
    let environment = EnvironmentId::new(ENVIRONMENT)?;
    let bundle = client.connect(&environment, identity.public()).await?;
    let link = Dialer::new(connector, ClearText::Loopback).dial(&bundle.url).await?;
    let target = Target {
        environment: &environment,
        registration: &bundle.registration,
        executor_key: &bundle.executor_key,
        authorization: &bundle.authorization,
    };
    let budget = Budget::new(MAX_MESSAGE + REORDER_BYTES);
    let mut stream = stream::connect(link, &identity, &target, &budget).await?;
    let initialize = json!({"id": 1, "method": "initialize", "params": {"clientName": "limits"}});
    ask(&mut stream, initialize.to_string()).await?;
    stream.send(json!({"method": "initialized"}).to_string().into()).await?;
    Ok(stream)
}

/// Sends one message; the next one that comes.
async fn ask(stream: &mut MessageStream, message: String) -> Result<Bytes> {
    stream.send(message.into()).await?;
    let answer = tokio::time::timeout(4 * wait::SOON, stream.recv()).await;
    Ok(answer.context("no answer")?.context("no answer")??)
}
