//! Runs a table of cases the way `cargo test` runs test functions: filters, threads and listing work as usual.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use rendezvous_integration_tests::Context;

/// Longest time for one case, whatever it waits for, unless it says so.
const CASE_LIMIT: Duration = Duration::from_secs(600);
/// Turns the long cases on.
const FULL_VARIABLE: &str = "RENDEZVOUS_FULL";

/// When a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In the normal command.
    Always,
    /// With `RENDEZVOUS_FULL=1`.
    Full,
}

type Body = Box<dyn FnOnce(Context) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send>;

/// One test.
pub(crate) struct Case {
    name: String,
    when: When,
    limit: Duration,
    body: Body,
}

impl Case {
    /// A case that runs when `when` says.
    pub(crate) fn new<F, T>(name: impl Into<String>, when: When, body: F) -> Self
    where
        F: FnOnce(Context) -> T + Send + 'static,
        T: Future<Output = Result<()>> + Send + 'static,
    {
        Self {
            name: name.into(),
            when,
            limit: CASE_LIMIT,
            body: Box::new(move |cx| Box::pin(body(cx))),
        }
    }

    /// The same case, which may take longer than others.
    pub(crate) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

/// Runs the cases that the command line and the environment ask for.
#[expect(clippy::print_stdout, reason = "a test runner speaks on stdout")]
pub(crate) fn run(cases: impl Iterator<Item = Case>) -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let full = std::env::var_os(FULL_VARIABLE).is_some_and(|value| value == "1");
    let (now, later): (Vec<Case>, Vec<Case>) = cases.partition(|case| full || case.when == When::Always);
    if !later.is_empty() && !arguments.list {
        println!("{} more cases run with {FULL_VARIABLE}=1", later.len());
    }
    let trials = now
        .into_iter()
        .map(|case| Trial::test(case.name, move || trial(case.body, case.limit)))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(body: Body, limit: Duration) -> Result<(), Failed> {
    let cx = Context::new().map_err(|error| format!("{error:#}"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(async {
        // A task of its own, so that a panic ends it with its programs stopped, and becomes a failure like any other.
        let task = tokio::spawn(tokio::time::timeout(limit, body(cx.clone())));
        match task.await {
            Ok(Ok(result)) => result.map_err(|error| format!("{error:#}")),
            Ok(Err(_)) => Err(format!("not over after {limit:?}")),
            Err(panic) => Err(panic.to_string()),
        }
    });
    outcome.map_err(|error| Failed::from(format!("{error}\n{}", cx.report())))
}
