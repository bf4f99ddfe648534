//! A scripted model behind the Responses API, for the stock harness.
//!
//! The script is a list of turns; each turn is a set of tool calls that the model makes at once. The provider keeps no
//! conversation: a request carries the outputs of earlier calls, and their ids tell which turn comes next. A gated
//! turn waits for the test, so that a test can cut a link exactly between two turns.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Largest request that the provider takes: a conversation with images in it.
const MAX_REQUEST: usize = 64 * 1024 * 1024;
/// A model that calls tools one by one, and one that writes programs; both are in the catalogues of all releases.
const TOOLS: &str = "gpt-5.5";
const CODE: &str = "gpt-5.6-sol";
/// What the model says when its script is over.
pub const LAST_WORDS: &str = "The script is over.";

/// One tool call.
#[derive(Clone, Debug)]
pub enum Call {
    /// Runs a shell command.
    Exec {
        /// The command line.
        command: String,
        /// Its folder, else the workspace.
        folder: Option<String>,
        /// Whether it gets a terminal.
        tty: bool,
        /// Milliseconds after which the tool answers although the command still runs.
        patience: u64,
    },
    /// Writes to the most recent command that still runs.
    Write {
        /// The characters.
        chars: String,
        /// Milliseconds to collect output.
        patience: u64,
    },
    /// Looks at an image file.
    View {
        /// Its path.
        path: String,
    },
    /// Applies a patch.
    Patch {
        /// The patch, from `*** Begin Patch` on.
        text: String,
    },
    /// Runs a program in JavaScript, whose calls are the other tools.
    Code {
        /// The program.
        text: String,
    },
}

impl Call {
    /// A command without a terminal that is waited for until it ends.
    pub fn exec(command: impl Into<String>) -> Self {
        Self::Exec {
            command: command.into(),
            folder: None,
            tty: false,
            patience: 30_000,
        }
    }

    /// A command with a terminal, which the tool leaves running after a moment.
    pub fn terminal(command: impl Into<String>) -> Self {
        Self::Exec {
            command: command.into(),
            folder: None,
            tty: true,
            patience: 1_000,
        }
    }

    /// Characters for the running command.
    pub fn write(chars: impl Into<String>) -> Self {
        Self::Write {
            chars: chars.into(),
            patience: 5_000,
        }
    }

    fn item(&self, id: &str, session: Option<u64>) -> Value {
        let (name, arguments) = match self {
            Self::Exec {
                command,
                folder,
                tty,
                patience,
            } => {
                let mut arguments = json!({"cmd": command, "tty": tty, "yield_time_ms": patience});
                if let Some(folder) = folder {
                    arguments["workdir"] = json!(folder);
                }
                ("exec_command", arguments)
            }
            Self::Write { chars, patience } => {
                let arguments = json!({"session_id": session, "chars": chars, "yield_time_ms": patience});
                ("write_stdin", arguments)
            }
            Self::View { path } => ("view_image", json!({"path": path})),
            Self::Patch { text } => return free(id, "apply_patch", text),
            Self::Code { text } => return free(id, "exec", text),
        };
        json!({"type": "function_call", "id": format!("item_{id}"), "call_id": id, "name": name,
            "arguments": arguments.to_string(), "status": "completed"})
    }
}

/// A call of a tool whose input is a text.
fn free(id: &str, name: &str, text: &str) -> Value {
    json!({"type": "custom_tool_call", "id": format!("item_{id}"), "call_id": id, "name": name, "input": text,
        "status": "completed"})
}

/// The calls of one turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    calls: Vec<Call>,
    gated: bool,
}

impl Turn {
    /// A turn of calls that are made in parallel.
    pub fn new(calls: impl IntoIterator<Item = Call>) -> Self {
        Self {
            calls: calls.into_iter().collect(),
            gated: false,
        }
    }

    /// The turn begins only when the test says so.
    #[must_use]
    pub fn gated(self) -> Self {
        Self { gated: true, ..self }
    }
}

impl From<Call> for Turn {
    fn from(call: Call) -> Self {
        Self::new([call])
    }
}

/// The provider, on a free port of loopback until it is dropped.
#[derive(Debug)]
pub struct Model {
    name: &'static str,
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    script: Vec<Turn>,
    /// The longest `input` of a request so far: the whole conversation.
    input: Mutex<Vec<Value>>,
    /// How many turns were asked for.
    reached: watch::Sender<usize>,
    /// How many turns may begin.
    released: watch::Sender<usize>,
}

impl Model {
    /// A model that plays the script.
    ///
    /// # Errors
    ///
    /// No port could be bound.
    pub async fn play(script: impl IntoIterator<Item = Turn>) -> Result<Self> {
        Self::play_as(TOOLS, script).await
    }

    /// A model that calls tools by programs only: [`Call::Code`].
    ///
    /// # Errors
    ///
    /// No port could be bound.
    pub async fn play_code(script: impl IntoIterator<Item = Turn>) -> Result<Self> {
        Self::play_as(CODE, script).await
    }

    async fn play_as(name: &'static str, script: impl IntoIterator<Item = Turn>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: script.into_iter().collect(),
            input: Mutex::default(),
            reached: watch::channel(0).0,
            released: watch::channel(0).0,
        });
        let routes = axum::Router::new()
            .route("/v1/responses", post(respond))
            .layer(axum::extract::DefaultBodyLimit::max(MAX_REQUEST))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            name,
            address,
            shared,
            _server: AbortOnDropHandle::new(server),
        })
    }

    /// What the harness must call the model: its catalogue says by the name how a model calls tools.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The provider's base URL.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Waits until the harness has finished all turns before `turn` (counted from 0) and asks for it.
    ///
    /// # Errors
    ///
    /// It was not asked for within the time.
    pub async fn reached(&self, turn: usize, within: Duration) -> Result<()> {
        let mut reached = self.shared.reached.subscribe();
        let wait = reached.wait_for(|count| *count > turn);
        tokio::time::timeout(within, wait)
            .await
            .with_context(|| format!("turn {turn} was not reached within {within:?}"))??;
        Ok(())
    }

    /// Lets the gated turn `turn` and all before it begin.
    pub fn release(&self, turn: usize) {
        self.shared
            .released
            .send_if_modified(|count| std::mem::replace(count, turn + 1) != turn + 1);
    }

    /// What the harness answered to call `call` of turn `turn`, as the model saw it.
    ///
    /// # Errors
    ///
    /// The harness never answered that call.
    pub fn output(&self, turn: usize, call: usize) -> Result<String> {
        let id = call_id(turn, call);
        let input = self.shared.input();
        let found = outputs(&input).find(|(name, _)| *name == id);
        let (_, output) = found.with_context(|| format!("call {id} was never answered"))?;
        Ok(match output {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// The whole conversation as JSON text: instructions, prompts, calls and outputs.
    pub fn conversation(&self) -> String {
        Value::Array(self.shared.input().clone()).to_string()
    }
}

impl Shared {
    fn input(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn call_id(turn: usize, call: usize) -> String {
    format!("call_{turn}_{call}")
}

/// The answered calls of a conversation: id and output.
fn outputs(input: &[Value]) -> impl Iterator<Item = (&str, &Value)> {
    input.iter().filter_map(|item| {
        let kind = item["type"].as_str()?;
        let answered = matches!(kind, "function_call_output" | "custom_tool_call_output");
        answered.then_some((item["call_id"].as_str()?, &item["output"]))
    })
}

/// The number of the session that was left running most recently.
fn running_session(input: &[Value]) -> Option<u64> {
    let mark = "session ID ";
    outputs(input)
        .filter_map(|(_, output)| {
            let text = output.to_string();
            let digits = text.split(mark).nth(1)?.to_owned();
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        })
        .last()
}

async fn respond(State(shared): State<Arc<Shared>>, body: axum::Json<Value>) -> impl IntoResponse {
    let input = body["input"].as_array().cloned().unwrap_or_default();
    let answered = outputs(&input).count();
    let (turn, missing) = next_turn(&shared.script, answered);
    {
        let mut longest = shared.input();
        if input.len() >= longest.len() {
            longest.clone_from(&input);
        }
    }
    shared.reached.send_if_modified(|count| {
        let more = *count < turn + 1;
        *count = (*count).max(turn + 1);
        more
    });
    let gated = shared.script.get(turn).is_some_and(|turn| turn.gated);
    if gated {
        let mut released = shared.released.subscribe();
        let _ = released.wait_for(|count| *count > turn).await;
    }
    let items = if missing {
        vec![message("Some call was not answered.")]
    } else {
        match shared.script.get(turn) {
            Some(calls) => calls
                .calls
                .iter()
                .enumerate()
                .map(|(number, call)| call.item(&call_id(turn, number), running_session(&input)))
                .collect(),
            None => vec![message(LAST_WORDS)],
        }
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], events(turn, &items))
}

/// The turn that follows `answered` calls, and whether some call of the turn before is unanswered.
fn next_turn(script: &[Turn], answered: usize) -> (usize, bool) {
    let mut left = answered;
    for (number, turn) in script.iter().enumerate() {
        if left == 0 {
            return (number, false);
        }
        if left < turn.calls.len() {
            return (number, true);
        }
        left -= turn.calls.len();
    }
    (script.len(), false)
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "item_last", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

/// The server-sent events of one response.
fn events(turn: usize, items: &[Value]) -> String {
    let id = format!("response_{turn}");
    let mut events = vec![json!({"type": "response.created", "response": {"id": id}})];
    for (index, item) in items.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(json!({"type": kind, "output_index": index, "item": item}));
        }
    }
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}});
    events.push(json!({"type": "response.completed", "response": {"id": id, "output": items, "usage": usage}}));
    events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            format!("event: {kind}\ndata: {event}\n\n")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_calls_tell_the_turn() {
        let script = [Turn::new([Call::exec("a"), Call::exec("b")]), Call::exec("c").into()];
        assert_eq!(next_turn(&script, 0), (0, false));
        assert_eq!(next_turn(&script, 1), (0, true));
        assert_eq!(next_turn(&script, 2), (1, false));
        assert_eq!(next_turn(&script, 3), (2, false));
    }

    #[test]
    fn the_last_running_session_is_found() {
        let output = |text: &str| json!({"type": "function_call_output", "call_id": "c", "output": text});
        let input = [
            output("Process running with session ID 12\n"),
            output("done"),
            output("with session ID 7 x"),
        ];
        assert_eq!(running_session(&input), Some(7));
        assert_eq!(running_session(&input[1..2]), None);
    }
}
