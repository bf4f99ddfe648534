mod streams;

use rendezvous_rpc::RpcError;
use rendezvous_transport::stream::StreamEnd;
use serde_json::{Value, json};

use super::*;
use crate::client::Harness;
use crate::process::ProcessSpec;

/// The executor's end of a connection.
struct Executor {
    calls: mpsc::Receiver<Bytes>,
    replies: mpsc::Sender<Bytes>,
}

/// Our end.
struct Pipe {
    calls: mpsc::Sender<Bytes>,
    replies: mpsc::Receiver<Bytes>,
    continuity: Option<watch::Receiver<Continuity>>,
}

fn connection(size: usize) -> (Pipe, Executor) {
    let (calls, calls_end) = mpsc::channel(size);
    let (replies, replies_end) = mpsc::channel(size);
    let pipe = Pipe {
        calls,
        replies: replies_end,
        continuity: None,
    };
    let executor = Executor {
        calls: calls_end,
        replies,
    };
    (pipe, executor)
}

impl Link for Pipe {
    async fn exchange(&mut self, outbox: &mut VecDeque<Bytes>, take: bool) -> Result<Bytes, AttemptError> {
        let Self { calls, replies, .. } = self;
        let sending = async {
            while let Some(message) = outbox.front() {
                if calls.send(message.clone()).await.is_err() {
                    return Err(StreamEnd::Stopped);
                }
                outbox.pop_front();
            }
            std::future::pending().await
        };
        let receiving = async {
            if take {
                replies.recv().await.ok_or(StreamEnd::Stopped)
            } else {
                std::future::pending().await
            }
        };
        let result: Result<Bytes, StreamEnd> = tokio::select! {
            result = sending => result,
            result = receiving => result,
        };
        Ok(result?)
    }

    fn continuity(&self) -> Option<watch::Receiver<Continuity>> {
        self.continuity.clone()
    }

    async fn close(self, outbox: VecDeque<Bytes>) {
        for message in outbox {
            let _ = self.calls.send(message).await;
        }
    }
}

/// Gives what the test puts in, then fails for good.
struct Row(mpsc::UnboundedReceiver<Result<Pipe, AttemptError>>);

impl Connector for Row {
    type Link = Pipe;

    async fn connect(&mut self) -> Result<Pipe, AttemptError> {
        match self.0.recv().await {
            Some(result) => result,
            None => Err(AttemptError::Initialize(RpcError::invalid_request("no more"))),
        }
    }
}

fn row() -> (mpsc::UnboundedSender<Result<Pipe, AttemptError>>, Row) {
    let (attempts, taken) = mpsc::unbounded_channel();
    (attempts, Row(taken))
}

impl Executor {
    async fn next(&mut self) -> Value {
        serde_json::from_slice(&self.calls.recv().await.expect("a call")).unwrap()
    }

    async fn say(&self, message: Value) {
        self.replies.send(message.to_string().into()).await.unwrap();
    }

    async fn initialize(&mut self) -> Value {
        let call = self.next().await;
        assert_eq!(call["method"], "initialize");
        let info = json!({"shell": {"name": "sh", "path": "/bin/sh"}, "cwd": "file:///"});
        self.say(json!({"id": call["id"], "result": {"sessionId": "s", "environmentInfo": info}}))
            .await;
        assert_eq!(self.next().await["method"], "initialized");
        call
    }
}

async fn connect(row: Row) -> Result<Harness, HarnessError> {
    Harness::over(row, Core::new("test".to_owned()), Policy::FIRST, Policy::LOST).await
}

#[tokio::test(start_paused = true)]
async fn a_first_connect_is_tried_five_times_unless_it_is_hopeless() {
    let (attempts, taken) = row();
    for _ in 0..6 {
        attempts.send(Err(AttemptError::Timeout)).unwrap();
    }
    let error = connect(taken).await.unwrap_err();
    assert!(matches!(error, HarnessError::Unreachable(_)));
    assert_eq!(error.exit_code(), crate::exit::UNAVAILABLE);
    attempts.closed().await;

    let (attempts, taken) = row();
    drop(attempts);
    let started = now();
    assert!(connect(taken).await.is_err());
    assert_eq!(now(), started);
}

#[tokio::test(start_paused = true)]
async fn a_silent_executor_is_given_up_in_time() {
    let (attempts, taken) = row();
    let silent: Vec<Executor> = (0..6)
        .map(|_| {
            let (pipe, executor) = connection(8);
            attempts.send(Ok(pipe)).unwrap();
            executor
        })
        .collect();
    let started = now();
    assert!(matches!(connect(taken).await, Err(HarnessError::Unreachable(_))));
    assert_eq!(now() - started, Policy::FIRST.budget);
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn calls_wait_while_the_connection_is_made_again() {
    let (attempts, taken) = row();
    let (pipe, mut executor) = connection(8);
    attempts.send(Ok(pipe)).unwrap();
    let harness = tokio::spawn(connect(taken));
    executor.initialize().await;
    let harness = harness.await.unwrap().unwrap();
    let mut state = harness.link_state();

    drop(executor);
    state
        .wait_for(|state| matches!(state, LinkState::Recovering { .. }))
        .await
        .unwrap();
    let asked = harness.clone();
    let status = tokio::spawn(async move { asked.status().await });
    attempts.send(Err(AttemptError::Timeout)).unwrap();
    let (pipe, mut executor) = connection(8);
    attempts.send(Ok(pipe)).unwrap();
    let call = executor.initialize().await;
    assert_eq!(call["params"]["resumeSessionId"], "s");
    let call = executor.next().await;
    assert_eq!(call["method"], "environment/status");
    executor
        .say(json!({"id": call["id"], "result": {"status": "ready"}}))
        .await;
    status.await.unwrap().unwrap();
    assert!(matches!(*state.borrow(), LinkState::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_always_breaks_is_not_made_for_ever() {
    let (attempts, taken) = row();
    let breaking = tokio::spawn(async move {
        let mut made = 0;
        loop {
            let (pipe, mut executor) = connection(8);
            if attempts.send(Ok(pipe)).is_err() {
                return made;
            }
            let Some(_) = executor.calls.recv().await else {
                return made;
            };
            executor.say(json!({"id": 1, "result": {"sessionId": "s"}})).await;
            made += 1;
        }
    });
    let harness = connect(taken).await.unwrap();
    let mut state = harness.link_state();
    let lost = now();
    state
        .wait_for(|state| matches!(state, LinkState::Failed(_)))
        .await
        .unwrap();
    assert!(matches!(harness.status().await, Err(HarnessError::Lost(_))));
    assert!(now() - lost <= Policy::LOST.budget);
    let made = breaking.await.unwrap();
    assert!((3..20).contains(&made), "{made} connections");
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_everything() {
    let (attempts, taken) = row();
    let (pipe, mut executor) = connection(8);
    attempts.send(Ok(pipe)).unwrap();
    let connecting = tokio::spawn(connect(taken));
    executor.initialize().await;
    let harness = connecting.await.unwrap().unwrap();
    let starting = tokio::spawn(async move { harness.start(ProcessSpec::new(["a"])).await });
    let call = executor.next().await;
    assert_eq!(call["params"]["cwd"], "file:///");
    executor.say(json!({"id": call["id"], "result": {}})).await;
    let process = starting.await.unwrap().unwrap();
    let id = process.id().to_owned();
    drop(process);
    let call = executor.next().await;
    assert_eq!(
        (&call["method"], &call["params"]["processId"]),
        (&json!("process/terminate"), &json!(id))
    );
    let soon = tokio::time::timeout(FAREWELL / 2, executor.calls.recv()).await;
    assert!(soon.is_err(), "the connection ended before the answer");
    executor
        .say(json!({"id": call["id"], "result": {"running": true}}))
        .await;
    let soon = tokio::time::timeout(FAREWELL / 4, executor.calls.recv()).await;
    assert_eq!(soon, Ok(None), "the connection went on after the answer");
}

#[tokio::test(start_paused = true)]
async fn output_that_nobody_takes_is_left_on_the_connection() {
    let (attempts, taken) = row();
    let (pipe, mut executor) = connection(1);
    attempts.send(Ok(pipe)).unwrap();
    let connecting = tokio::spawn(connect(taken));
    executor.initialize().await;
    let harness = connecting.await.unwrap().unwrap();
    let starting = tokio::spawn(async move { harness.start(ProcessSpec::new(["a"])).await });
    let call = executor.next().await;
    executor.say(json!({"id": call["id"], "result": {}})).await;
    let mut process = starting.await.unwrap().unwrap();
    let id = process.id().to_owned();
    let chunk = "A".repeat(1 << 16);
    let mut seq = 0;
    loop {
        seq += 1;
        let news = json!({"method": "process/output", "params": {"processId": id, "seq": seq, "stream": "stdout", "chunk": chunk}});
        let sent = tokio::time::timeout(Duration::from_secs(60), executor.say(news)).await;
        if sent.is_err() {
            break;
        }
    }
    let held = usize::try_from(seq).unwrap() * (chunk.len() / 4 * 3);
    let limit = crate::MAX_EVENT_BYTES as usize;
    assert!((limit..limit + (1 << 18)).contains(&held), "{held} bytes were taken");
    for _ in 1..seq {
        assert!(process.next().await.unwrap().is_some());
    }
}
