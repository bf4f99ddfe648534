//! Plays the steps of a case on one server.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_integration_tests::exec_server::{Connection, ExecServer, Over};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use super::news::{Event, News};
use super::normal::normal;
use super::script::{Begin, Case, Step};
use super::told::{Body, Told};

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a server that answers would need at most.
const SILENCE: Duration = Duration::from_millis(300);
/// Time between two calls of a [`Step::Resume`].
const RETRY: Duration = Duration::from_millis(10);

/// What one step recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// The number of the step.
    pub(super) step: usize,
    pub(super) value: Value,
}

/// Plays a case.
pub(super) async fn play(server: &ExecServer, web: &str, name: &str, case: &Case) -> Result<Vec<Record>> {
    let folder = server.folder.join(name.replace('/', "-"));
    std::fs::create_dir_all(&folder)?;
    let mut client = Client {
        server,
        web,
        folder: folder.canonicalize()?,
        connection: server.connect().await?,
        first: None,
        session: String::new(),
        next_id: 1,
        news: HashMap::new(),
        told: Told::default(),
        replies: Vec::new(),
    };
    if case.begin == Begin::Initialized {
        client
            .call("initialize", r#"{"clientName":"conformance"}"#, false)
            .await?;
        client.notify("initialized", "").await;
    }
    let mut records: Vec<Record> = Vec::new();
    for (step, action) in case.steps.iter().enumerate() {
        let last = records.last().map(|record| record.value.to_string());
        let at = || {
            let last = last.map_or_else(String::new, |last| format!(", after {last}"));
            format!("step {step} {action:?} on {}{last}", server.end().name())
        };
        if let Some(value) = client.act(*action).await.with_context(at)? {
            let value = normal(value, &client.folder.to_string_lossy());
            records.push(Record { step, value });
        }
    }
    Ok(records)
}

struct Client<'a> {
    server: &'a ExecServer,
    web: &'a str,
    folder: PathBuf,
    connection: Connection,
    first: Option<Connection>,
    session: String,
    next_id: i64,
    news: HashMap<String, News>,
    /// What was told beside processes.
    told: Told,
    /// Replies that came while something else was waited for.
    replies: Vec<Value>,
}

impl Client<'_> {
    async fn act(&mut self, step: Step) -> Result<Option<Value>> {
        Ok(match step {
            Step::Call(method, params) => Some(self.call(method, params, false).await?),
            Step::Exact(method, params) => Some(self.call(method, params, true).await?),
            Step::Shape(method, params) => Some(shape(self.call(method, params, false).await?)),
            Step::Many(count, method, params) => {
                let mut reply = Value::Null;
                for n in 1..=count {
                    reply = self.call(method, &params.replace("$n", &n.to_string()), false).await?;
                }
                Some(reply)
            }
            Step::Count(method, params, list) => {
                let reply = self.call(method, params, false).await?;
                Some(match reply["result"].pointer(list) {
                    Some(Value::Array(list)) => list.len().into(),
                    _ => reply,
                })
            }
            Step::Kept(process) => Some(self.kept(process).await?),
            Step::Initialize(params) => Some(self.initialize(params).await?),
            Step::Resume(params) => {
                let deadline = Instant::now() + PATIENCE;
                loop {
                    let reply = self.initialize(params).await?;
                    if reply.get("error").is_none() || Instant::now() > deadline {
                        break Some(reply);
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
            Step::Begin(method, params) => {
                self.begin(method, params).await;
                None
            }
            Step::Flood(count, method, params) => {
                for n in 1..=count {
                    self.begin(method, &params.replace("$n", &n.to_string())).await;
                }
                None
            }
            Step::Reply => Some(self.any_reply().await?),
            Step::Replies(count) => {
                let mut codes = self.codes(count).await?;
                codes.sort_by_key(|code| code[0].as_i64());
                Some(codes.into())
            }
            Step::Codes(count) => Some(self.codes(count).await?.into()),
            Step::Notify(method, params) => {
                self.notify(method, params).await;
                None
            }
            Step::Raw(message) => {
                self.connection.send(self.fill(message)).await;
                Some(self.any_reply().await?)
            }
            Step::Made(make) => {
                self.connection.send(make()).await;
                Some(self.any_reply().await?)
            }
            Step::Send(message) => {
                self.connection.send(self.fill(message)).await;
                None
            }
            Step::MadeSend(make) => {
                self.connection.send(make()).await;
                None
            }
            Step::Start(process, script, more) => Some(self.start(process, script, more).await?),
            Step::Closed(process) => Some(self.closed(process).await?),
            Step::WaitClosed(process) => {
                self.wait_for(process, News::is_closed).await?;
                None
            }
            Step::Output(process, text) => {
                self.wait_for(process, |news| news.output().contains(text)).await?;
                None
            }
            Step::Exited(process) => {
                self.wait_for(process, |news| news.exit().is_some()).await?;
                None
            }
            Step::Body(request) => {
                self.until(|client| client.told.bodies.get(request).is_some_and(Body::is_done))
                    .await?;
                Some(self.told.bodies.remove(request).context("a body")?.summary()?)
            }
            Step::Changed(watch) => {
                self.until(|client| client.told.changed.contains(&watch)).await?;
                None
            }
            Step::Ends => Some(self.ends().await?),
            Step::Reconnect => {
                // The old one is gone before there is a new one.
                let (outgoing, _) = tokio::sync::mpsc::channel(1);
                let (_, incoming) = tokio::sync::mpsc::channel(1);
                self.connection = Connection::new(outgoing, incoming);
                self.connection = self.server.connect().await?;
                None
            }
            Step::Second => {
                ensure!(self.first.is_none(), "there is a second connection already");
                let second = self.server.connect().await?;
                self.first = Some(std::mem::replace(&mut self.connection, second));
                None
            }
            Step::First => {
                self.connection = self.first.take().context("there is no second connection")?;
                None
            }
            Step::Shell(command) => {
                shell(&self.folder, command).await?;
                None
            }
            Step::Look(command) => Some(shell(&self.folder, command).await?.into()),
            Step::Pause(milliseconds) => {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                None
            }
        })
    }

    /// Puts the case's folder and session into a text.
    fn fill(&self, text: &str) -> String {
        let path = self.folder.to_string_lossy();
        text.replace("$dir", &format!("file://{path}"))
            .replace("$path", &path)
            .replace("$web", self.web)
            .replace("$session", &self.session)
    }

    async fn begin(&mut self, method: &str, params: &str) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.connection
            .send(message(Some(id), method, &self.fill(params)))
            .await;
        id
    }

    async fn notify(&mut self, method: &str, params: &str) {
        self.connection.send(message(None, method, &self.fill(params))).await;
    }

    /// Calls and waits for the reply.
    async fn call(&mut self, method: &str, params: &str, exact: bool) -> Result<Value> {
        let id = self.begin(method, params).await;
        let reply = self.reply(|reply| reply["id"] == id).await?;
        if method == "initialize"
            && let Some(session) = reply["result"]["sessionId"].as_str()
        {
            session.clone_into(&mut self.session);
        }
        Ok(record(&reply, exact))
    }

    /// What the result holds differs between versions, and has cases of its own.
    async fn initialize(&mut self, params: &str) -> Result<Value> {
        let mut reply = self.call("initialize", params, false).await?;
        if let Some(result) = reply.get_mut("result") {
            ensure!(result["sessionId"].is_string(), "no session in {result}");
            *result = "a session".into();
        }
        Ok(reply)
    }

    /// The ids of so many replies, and the codes of those that are errors.
    async fn codes(&mut self, count: usize) -> Result<Vec<Value>> {
        let mut codes = Vec::new();
        for _ in 0..count {
            let reply = self.any_reply().await?;
            codes.push(json!([reply["id"], reply["error"]]));
        }
        Ok(codes)
    }

    async fn any_reply(&mut self) -> Result<Value> {
        let reply = self.reply(|_| true).await?;
        let mut value = record(&reply, false);
        if let (Some(value), Some(id)) = (value.as_object_mut(), reply.get("id")) {
            value.insert("id".to_owned(), id.clone());
        }
        Ok(value)
    }

    async fn start(&mut self, process: &str, script: &str, more: &str) -> Result<Value> {
        let mut params = json!({
            "processId": process, "argv": ["/bin/sh", "-c", script], "cwd": "$dir",
            "env": {"PATH": "/usr/bin:/bin"}, "tty": false,
        });
        if !more.is_empty() {
            let more: serde_json::Map<String, Value> = serde_json::from_str(more)?;
            params.as_object_mut().context("an object")?.extend(more);
        }
        let untaken = self.news.get(process).is_some_and(News::is_closed);
        let mut reply = self.call("process/start", &params.to_string(), false).await?;
        ensure!(
            !untaken || reply.get("result").is_none(),
            "the case must take what the earlier {process} told before it starts another"
        );
        if let Some(Value::Object(result)) = reply.get_mut("result") {
            result.remove("sandboxType");
        }
        Ok(reply)
    }

    /// Waits for a reply; keeps others, and what is told meanwhile. The end of the connection is a reply, too.
    async fn reply(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        if let Some(found) = self.replies.iter().position(&wanted) {
            return Ok(self.replies.remove(found));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match timeout_at(deadline, self.connection.recv()).await {
                Err(_) => bail!("no reply within {PATIENCE:?}"),
                Ok(None) => return Ok(json!({"ended": true})),
                Ok(Some(message)) => {
                    let Some(reply) = self.take(&message)? else { continue };
                    if wanted(&reply) {
                        return Ok(reply);
                    }
                    self.replies.push(reply);
                }
            }
        }
    }

    /// Keeps news; gives back replies.
    fn take(&mut self, message: &[u8]) -> Result<Option<Value>> {
        let message: Value = serde_json::from_slice(message).context("JSON from the server")?;
        let Some(method) = message["method"].as_str() else {
            return Ok(Some(message));
        };
        let params = &message["params"];
        if self.told.take(method, params)? {
            return Ok(None);
        }
        let (Some(process), Some(seq)) = (params["processId"].as_str(), params["seq"].as_u64()) else {
            // Other news have their own steps.
            return Ok(None);
        };
        let event = match method {
            "process/output" => {
                let bytes = STANDARD.decode(params["chunk"].as_str().context("chunk")?)?;
                Event::Output(params["stream"].as_str().context("stream")?.to_owned(), bytes)
            }
            "process/exited" => Event::Exited(json!([params["exitCode"], params["sandboxDenied"]])),
            "process/closed" => Event::Closed,
            other => bail!("unknown news {other}"),
        };
        let news = self.news.entry(process.to_owned()).or_default();
        ensure!(
            news.events.insert(seq, event).is_none(),
            "number {seq} of {process} came twice"
        );
        Ok(None)
    }

    async fn wait_for(&mut self, process: &str, condition: impl Fn(&News) -> bool) -> Result<()> {
        let waited = self
            .until(|client| client.news.get(process).is_some_and(&condition))
            .await;
        waited.with_context(|| format!("{process} told {:?}", self.news.get(process)))
    }

    /// Takes what comes until the condition holds.
    async fn until(&mut self, condition: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if condition(self) {
                return Ok(());
            }
            match timeout_at(deadline, self.connection.recv()).await {
                Err(_) => bail!("not within {PATIENCE:?}"),
                Ok(None) => bail!("the connection ended"),
                Ok(Some(message)) => {
                    let reply = self.take(&message)?;
                    self.replies.extend(reply);
                }
            }
        }
    }

    async fn kept(&mut self, process: &str) -> Result<Value> {
        let params = json!({ "processId": process });
        let reply = self.call("process/read", &params.to_string(), false).await?;
        let chunks = reply["result"]["chunks"].as_array().context("chunks")?;
        let mut bytes = 0;
        for chunk in chunks {
            bytes += STANDARD.decode(chunk["chunk"].as_str().context("chunk")?)?.len();
        }
        let numbers: Vec<_> = chunks.iter().filter_map(|chunk| chunk["seq"].as_u64()).collect();
        Ok(json!({
            "withinLimit": bytes <= 1 << 20,
            "nearLimit": bytes > (1 << 20) - 64 * 1024,
            "oldestDropped": numbers.first().is_some_and(|first| *first > 1),
            "inOrder": numbers.is_sorted(),
        }))
    }

    async fn closed(&mut self, process: &str) -> Result<Value> {
        self.wait_for(process, News::is_closed).await?;
        self.news.remove(process).context("news")?.summary()
    }

    async fn ends(&mut self) -> Result<Value> {
        const CALL: &str = r#"{"id":"after the end","method":"environment/status"}"#;
        self.connection.send(CALL).await;
        let rest = async {
            while let Some(message) = self.connection.recv().await {
                let message: Value = serde_json::from_slice(&message)?;
                ensure!(message["id"] != "after the end", "the connection goes on: {message}");
            }
            Ok(())
        };
        if self.server.over() == Over::Stdio {
            // Some servers wait for the end of stdin before they end themselves.
            return match timeout(SILENCE, rest).await {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) | Err(_) => Ok(json!({"ended": true})),
            };
        }
        timeout(PATIENCE, rest).await.context("the connection does not end")??;
        Ok(json!({"ended": true}))
    }
}

/// A request or notification, with parameters as they stand in the case.
fn message(id: Option<i64>, method: &str, params: &str) -> String {
    let mut message = String::from("{");
    if let Some(id) = id {
        message.push_str(&format!(r#""id":{id},"#));
    }
    message.push_str(&format!(r#""method":"{method}""#));
    if !params.is_empty() {
        message.push_str(&format!(r#","params":{params}"#));
    }
    message.push('}');
    message
}

/// What is compared of a reply.
fn record(reply: &Value, exact: bool) -> Value {
    let Some(error) = reply.get("error") else {
        return match reply.get("result") {
            Some(result) => json!({ "result": result }),
            None => reply.clone(),
        };
    };
    if exact {
        json!({"error": error["code"], "message": error["message"]})
    } else {
        json!({ "error": error["code"] })
    }
}

/// The kind of each value instead of the value.
fn shape(value: Value) -> Value {
    match value {
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, shape(value))).collect(),
        Value::Array(values) => {
            let mut kinds: Vec<Value> = values.into_iter().map(shape).collect();
            kinds.dedup();
            Value::Array(kinds)
        }
        Value::String(_) => "<text>".into(),
        Value::Number(_) => "<number>".into(),
        Value::Bool(_) => "<flag>".into(),
        Value::Null => Value::Null,
    }
}

/// Runs a command; what it prints. It must succeed.
async fn shell(folder: &Path, command: &str) -> Result<String> {
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell.args(["-ec", command]).current_dir(folder).stdin(Stdio::null());
    let output = shell.output().await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{command}` failed: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
