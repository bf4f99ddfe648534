//! Streams that outlive the connection below them.

use rendezvous_rpc::method::environment::Status;
use tokio::task::JoinHandle;

use super::*;

/// A session whose stream fares as the test says.
struct World {
    /// Connections to come.
    attempts: mpsc::UnboundedSender<Result<Pipe, AttemptError>>,
    executor: Executor,
    teller: watch::Sender<Continuity>,
    harness: Harness,
}

impl World {
    async fn open() -> Self {
        let (attempts, taken) = row();
        let (mut pipe, mut executor) = connection(8);
        let (teller, continuity) = watch::channel(Continuity::default());
        pipe.continuity = Some(continuity);
        attempts.send(Ok(pipe)).unwrap();
        let connecting = tokio::spawn(connect(taken));
        executor.initialize().await;
        Self {
            attempts,
            executor,
            teller,
            harness: connecting.await.unwrap().unwrap(),
        }
    }
}

/// A call that no other connection may repeat.
fn ask_once(harness: &Harness) -> JoinHandle<Result<(), HarnessError>> {
    let harness = harness.clone();
    tokio::spawn(async move { harness.call::<Status>(&()).await.map(drop) })
}

async fn say_ready(executor: &mut Executor, call: &Value) {
    executor
        .say(json!({"id": call["id"], "result": {"status": "ready"}}))
        .await;
}

async fn answer_status(executor: &mut Executor) {
    let call = executor.next().await;
    assert_eq!(call["method"], "environment/status");
    say_ready(executor, &call).await;
}

#[tokio::test(start_paused = true)]
async fn a_worn_stream_is_replaced_when_nothing_is_under_way() {
    let World {
        attempts,
        mut executor,
        teller,
        harness,
    } = World::open().await;
    let connections = harness.connections();
    let status = ask_once(&harness);
    let call = executor.next().await;
    teller.send_modify(|continuity| continuity.is_worn = true);
    let (pipe, mut next) = connection(8);
    attempts.send(Ok(pipe)).unwrap();
    // The call that is under way ends where it began.
    let early = tokio::time::timeout(Duration::from_secs(5), next.calls.recv()).await;
    assert!(early.is_err(), "moved amid a call");
    say_ready(&mut executor, &call).await;
    status.await.unwrap().unwrap();
    let call = next.initialize().await;
    assert_eq!(call["params"]["resumeSessionId"], "s");
    assert_eq!(executor.calls.recv().await, None);
    let (status, ()) = tokio::join!(harness.status(), answer_status(&mut next));
    status.unwrap();
    assert!(matches!(*harness.link_state().borrow(), LinkState::Connected));
    assert!(connections.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_worn_stream_that_is_never_idle_takes_no_new_calls_in_the_end() {
    let World {
        attempts,
        mut executor,
        teller,
        harness,
    } = World::open().await;
    let first = ask_once(&harness);
    let call = executor.next().await;
    teller.send_modify(|continuity| continuity.is_worn = true);
    tokio::time::sleep(RENEWAL_PATIENCE - Duration::from_secs(1)).await;
    let second = ask_once(&harness);
    let other = executor.next().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let third = ask_once(&harness);
    for call in [call, other] {
        say_ready(&mut executor, &call).await;
    }
    let (pipe, mut next) = connection(8);
    attempts.send(Ok(pipe)).unwrap();
    next.initialize().await;
    answer_status(&mut next).await;
    for status in [first, second, third] {
        status.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_waits_for_its_connection_is_told_and_loses_no_call() {
    let World {
        attempts: _attempts,
        mut executor,
        teller,
        harness,
    } = World::open().await;
    let (mut state, connections) = (harness.link_state(), harness.connections());
    let asking = harness.clone();
    let status = tokio::spawn(async move { asking.status().await });
    let call = executor.next().await;
    let lost = now();
    teller.send_modify(|continuity| continuity.suspended_since = Some(lost));
    state
        .wait_for(|state| matches!(state, LinkState::Recovering { since } if *since == lost))
        .await
        .unwrap();
    teller.send_modify(|continuity| continuity.suspended_since = None);
    state
        .wait_for(|state| matches!(state, LinkState::Connected))
        .await
        .unwrap();
    say_ready(&mut executor, &call).await;
    status.await.unwrap().unwrap();
    assert!(
        !connections.has_changed().unwrap(),
        "what the connection held was given up"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_stream_has_waited_is_taken_from_the_time_for_its_session() {
    let World {
        attempts,
        executor,
        teller,
        harness,
    } = World::open().await;
    let mut state = harness.link_state();
    tokio::time::sleep(STABLE).await;
    let lost = now();
    teller.send_modify(|continuity| continuity.suspended_since = Some(lost));
    tokio::time::sleep(Duration::from_secs(20)).await;
    drop(executor);
    for _ in 0..20 {
        attempts.send(Err(AttemptError::Timeout)).unwrap();
    }
    state
        .wait_for(|state| matches!(state, LinkState::Failed(_)))
        .await
        .unwrap();
    assert!(now() - lost <= Policy::LOST.budget, "{:?}", now() - lost);
}
