//! What travels.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use rendezvous_integration_tests::cloud::{Arrival, Cloud, PLACE, Seen};
use rendezvous_integration_tests::executor::{End, MARK};
use rendezvous_integration_tests::{Context, wait};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::{STOCK, account, expect_seen, serving};

/// Largest message.
const LARGE: usize = 64 * 1024 * 1024;

/// Headers that say nothing, or are different each time.
const FREE: [&str; 4] = ["accept-encoding", "authorization", "sec-websocket-key", "x-amz-date"];

/// What must be the same in both executors.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    method: String,
    target: String,
    body: String,
    signed: Option<String>,
    headers: BTreeMap<String, String>,
}

fn shape(cloud: &Cloud, arrival: &Arrival) -> Shape {
    let request = &arrival.request;
    let address = cloud
        .url()
        .trim_start_matches("http://")
        .trim_end_matches("/base")
        .to_owned();
    let mut headers = request.headers.clone();
    headers.retain(|name, _| !FREE.contains(&name.as_str()));
    for value in headers.values_mut() {
        *value = value.replace(&address, "ADDRESS");
    }
    Shape {
        method: request.method.clone(),
        target: request.target.clone(),
        body: String::from_utf8_lossy(&request.body).into_owned(),
        signed: request.signed_headers().map(str::to_owned),
        headers,
    }
}

/// The stock executor's requests and ours are the same but for time and chance.
pub(crate) async fn same_requests(cx: Context) -> Result<()> {
    let mut shapes = Vec::new();
    for end in [STOCK, End::Ours] {
        let mut cloud = Cloud::start(account()).await?;
        let executor = super::start(&cx, super::keyed(&cx, end, &cloud.url(), &account())?)?;
        let (register, upgrade) = cloud.connected().await?;
        ensure!(register.request.target == "/base/cloud/environment/env-1/direct/register");
        ensure!(register.request.body == br#"{"transport":"direct_jsonrpc_v1"}"#);
        ensure!(upgrade.request.target == PLACE);
        shapes.push((shape(&cloud, &register), shape(&cloud, &upgrade)));
        drop(executor);
    }
    ensure!(shapes[0] == shapes[1], "{shapes:#?}");
    Ok(())
}

/// The same place is dialled again, signed anew, and the session has gone on.
pub(crate) async fn lost_connection(cx: Context, end: End) -> Result<()> {
    let mut cloud = Cloud::start(account()).await?;
    let _executor = serving(&cx, end, &mut cloud).await?;
    let mut client = Client::connect(&cloud).await?;
    let session = client.initialize(Value::Null).await?;
    let script = format!(
        "echo before-${}; until [ -e go ]; do sleep 0.02; done; echo after",
        MARK.0
    );
    client.start(&cx, &script).await?;
    client.output_until(&format!("before-{}", MARK.1)).await?;

    cloud.cut();
    expect_seen!(cloud, Seen::Gone(_) => ());
    let again = expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == 101 => arrival);
    ensure!(again.request.target == PLACE, "{again:?}");
    std::fs::write(cx.folder().join("go"), "")?;
    let mut client = Client::connect(&cloud).await?;
    let resumed = client.initialize(json!(session)).await?;
    ensure!(resumed == session, "{resumed}");
    let output = client.read_all().await?;
    ensure!(output == format!("before-{}\nafter\n", MARK.1), "{output}");
    Ok(())
}

/// Messages of 11 MB pass both ways; stock executors take no frame above 16 MiB.
pub(crate) async fn large_messages(cx: Context, end: End) -> Result<()> {
    let mut cloud = Cloud::start(account()).await?;
    let _executor = serving(&cx, end, &mut cloud).await?;
    let mut client = Client::connect(&cloud).await?;
    client.initialize(Value::Null).await?;
    let path = format!("file://{}", cx.folder().join("large").display());
    let content = STANDARD.encode(vec![7_u8; LARGE / 8]);
    let written = json!({"path": path, "dataBase64": content});
    client.call("fs/writeFile", written).await?;
    let read = client.call("fs/readFile", json!({"path": path})).await?;
    ensure!(read["dataBase64"] == content, "another content came back");
    Ok(())
}

/// A client that knows just enough of JSON-RPC.
pub(super) struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    last_id: u64,
    output: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(cloud: &Cloud) -> Result<Self> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGE))
            .max_frame_size(Some(LARGE));
        let dial = tokio_tungstenite::connect_async_with_config(cloud.client_url(), Some(config), true);
        let (socket, _) = tokio::time::timeout(wait::SOON, dial).await??;
        Ok(Self {
            socket,
            last_id: 0,
            output: Vec::new(),
        })
    }

    /// The session.
    pub(super) async fn initialize(&mut self, resume: Value) -> Result<String> {
        let parameters = json!({"clientName": "test", "resumeSessionId": resume});
        let result = self.call("initialize", parameters).await?;
        self.send(json!({"method": "initialized", "params": {}})).await?;
        Ok(result["sessionId"].as_str().context("a session")?.to_owned())
    }

    /// Starts a shell script as the process `p`, with the executor's whole environment.
    pub(super) async fn start(&mut self, cx: &Context, script: &str) -> Result<()> {
        let policy =
            json!({"inherit": "all", "ignoreDefaultExcludes": true, "exclude": [], "set": {}, "includeOnly": []});
        let parameters = json!({"processId": "p", "argv": ["/bin/sh", "-c", script],
            "cwd": format!("file://{}", cx.folder().display()), "env": {}, "envPolicy": policy, "tty": false,
            "pipeStdin": false, "arg0": null});
        self.call("process/start", parameters).await?;
        Ok(())
    }

    /// Waits until the process has written `text`; all that it has written.
    pub(super) async fn output_until(&mut self, text: &str) -> Result<String> {
        loop {
            let output = String::from_utf8_lossy(&self.output).into_owned();
            if output.contains(text) {
                return Ok(output);
            }
            self.recv().await.with_context(|| output)?;
        }
    }

    /// What the process has written from the begin to its end, as a client asks for it that missed the notifications.
    async fn read_all(&mut self) -> Result<String> {
        let parameters = json!({"processId": "p", "afterSeq": 0, "waitMs": 0});
        let deadline = tokio::time::Instant::now() + wait::SOON;
        loop {
            let result = self.call("process/read", parameters.clone()).await?;
            if result["closed"] == true {
                let chunks = result["chunks"].as_array().context("chunks")?;
                let mut output = Vec::new();
                for chunk in chunks {
                    output.extend(STANDARD.decode(chunk["chunk"].as_str().context("a chunk")?)?);
                }
                return Ok(String::from_utf8(output)?);
            }
            ensure!(
                tokio::time::Instant::now() < deadline,
                "the process does not end: {result}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    pub(super) async fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(json!({"id": id, "method": method, "params": parameters}))
            .await?;
        loop {
            let message = self.recv().await?;
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].clone());
            }
        }
    }

    async fn send(&mut self, message: Value) -> Result<()> {
        Ok(self.socket.send(Message::Text(message.to_string().into())).await?)
    }

    async fn recv(&mut self) -> Result<Value> {
        loop {
            let next = tokio::time::timeout(wait::SOON, self.socket.next()).await?;
            if let Message::Text(text) = next.context("the connection ended")?? {
                let message: Value = serde_json::from_str(&text)?;
                if message["method"] == "process/output" {
                    let chunk = message["params"]["chunk"].as_str().context("a chunk")?;
                    self.output.extend(STANDARD.decode(chunk)?);
                }
                return Ok(message);
            }
        }
    }
}
