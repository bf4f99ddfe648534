//! What the tests share.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use rendezvous_host::files::{Fault, FileError};
use rendezvous_host::process::{Budget, Change, Chunk, Event, Lookup, Outlet, Process, Processes, Spec, Stdio, Stream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest wait for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Events that wait for the listener of a [`World`].
pub(crate) const LISTENER_QUEUE: usize = 16;

/// A table with a listener.
pub(crate) struct World {
    pub(crate) processes: Processes,
    pub(crate) outlet: Outlet,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) budget: Arc<Budget>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_budget(Budget::default())
    }

    pub(crate) fn with_budget(budget: Budget) -> Self {
        let outlet = Outlet::default();
        let (sender, events) = mpsc::channel(LISTENER_QUEUE);
        outlet.attach(sender);
        let budget = Arc::new(budget);
        Self {
            processes: Processes::new(outlet.clone(), Arc::clone(&budget)),
            outlet,
            events,
            budget,
        }
    }

    /// Starts a process that must start.
    pub(crate) async fn start(&self, id: &str, spec: Spec) -> Process {
        self.processes.start(id, spec).await.expect("start");
        self.process(id)
    }

    pub(crate) fn process(&self, id: &str) -> Process {
        match self.processes.get(id) {
            Lookup::Started(process) => process,
            other => panic!("{id} is {other:?}"),
        }
    }

    pub(crate) async fn next(&mut self) -> Event {
        timeout(PATIENCE, self.events.recv())
            .await
            .expect("an event in time")
            .expect("an event")
    }

    /// Follows one process to its end, checking that `seq` grows by one from 1.
    pub(crate) async fn follow(&mut self, id: &str) -> Ending {
        let mut ending = Ending::default();
        for seq in 1.. {
            let event = self.next().await;
            assert_eq!((event.process.as_ref(), event.change.seq()), (id, seq));
            match event.change {
                Change::Output(Chunk { stream, data, .. }) => match stream {
                    Stream::Stdout | Stream::Pty => ending.out.extend_from_slice(&data),
                    Stream::Stderr => ending.err.extend_from_slice(&data),
                },
                Change::Exited { code, .. } => ending.code = Some(code),
                Change::Closed { .. } => return ending,
            }
        }
        unreachable!("seq is unbounded")
    }
}

/// All that a process did.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    pub(crate) code: Option<i32>,
}

impl Ending {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("text").trim_end()
    }
}

pub(crate) fn run(argv: &[&str]) -> Spec {
    Spec {
        argv: argv.iter().map(OsString::from).collect(),
        arg0: None,
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        stdio: Stdio::Pipes { stdin: false },
        jail: None,
    }
}

pub(crate) fn sh(script: &str) -> Spec {
    run(&["/bin/sh", "-c", script])
}

pub(crate) fn with_stdin(spec: Spec) -> Spec {
    Spec {
        stdio: Stdio::Pipes { stdin: true },
        ..spec
    }
}

pub(crate) fn on_terminal(spec: Spec) -> Spec {
    Spec {
        stdio: Stdio::Terminal,
        ..spec
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether a process of this number exists, dead ones that nobody reaped included.
pub(crate) fn exists(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// A call on files must have failed by somebody's fault, with this in its text.
#[track_caller]
pub(crate) fn failed<T: std::fmt::Debug>(result: Result<T, FileError>, fault: Fault, text: &str) {
    let error = result.expect_err(text);
    assert_eq!(error.fault(), fault, "{error}");
    assert!(error.to_string().contains(text), "{error} lacks {text}");
}
