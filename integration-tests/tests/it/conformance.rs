//! The same JSON-RPC exchanges with the stock exec-servers and with ours, compared.
//!
//! A [`Case`] is a row of a table: a name and the steps of a client. It is played on each server, in a connection and a folder
//! of its own; what the steps record is made comparable ([`normal`]) and compared step by step. The newer stock release is
//! the measure. Whatever another server does differently must stand in [`differences::DIFFERENCES`], with its value and its
//! reason, and a difference that is gone must leave that table.
//!
//! To add a case, add a row to one of the tables (`envelope`, `lifecycle`, `process`, `files`, …), or a new table to [`GROUPS`]:
//!
//! ```text
//! case("read_of_nobody", &[Call("process/read", r#"{"processId":"x"}"#)]),
//! ```
//!
//! * [`case`] begins after `initialize` and `initialized`, [`raw`] with a bare connection. `.newer()` is not played on
//!   0.145.0, `.slow()` only with `RENDEZVOUS_FULL=1`, for cases of more than a second, `.connections()` not over stdio.
//! * [`Step`] lists what a client can do. In its texts `$dir` is the URI of the case's folder, `$path` its path, `$session`
//!   the session of the last `initialize`.
//! * Replies are recorded as `{"result": …}` or `{"error": CODE}`; wording is compared by `Exact` only. Times, UUIDs and the
//!   case's folder are replaced by names, and what has no order is sorted.
//! * Then run `cargo test -p rendezvous-integration-tests --test it -- conformance::`. A new difference is printed the way the
//!   table wants it; mend our executor or, if it is wanted, add it with its reason.

mod client;
mod compare;
mod concurrency;
mod differences;
mod discovery;
mod envelope;
mod file_trees;
mod file_watches;
mod file_writes;
mod files;
mod http;
mod lifecycle;
mod limits;
mod managed_network;
mod news;
mod normal;
mod order;
mod parameters;
mod process;
mod process_state;
mod profiles;
mod requests;
mod resumes;
mod sandboxes;
mod script;
mod snapshots;
mod starts;
mod terminals;
mod told;
mod web;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::exec_server::{ExecServer, Over};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::stock::Version;

use self::script::{Case, Since};
use crate::runner;

/// A table, played on servers that are started with the same flags.
struct Group {
    name: &'static str,
    cases: &'static [Case],
    flags: &'static [&'static str],
}

/// Every table. A group is one test for each way of transport, so that groups run beside each other.
const GROUPS: &[Group] = &[
    group("envelope", envelope::CASES),
    group("lifecycle", lifecycle::CASES),
    group("resumes", resumes::CASES),
    group("order", order::CASES),
    group("parameters", parameters::CASES),
    group("limits", limits::CASES),
    group("process", process::CASES),
    group("process_state", process_state::CASES),
    group("starts", starts::CASES),
    group("terminals", terminals::CASES),
    group("files", files::CASES),
    group("managed_network", managed_network::CASES),
    group("file_trees", file_trees::CASES),
    group("file_writes", file_writes::CASES),
    group("file_watches", file_watches::CASES),
    group("requests", requests::CASES),
    group("discovery", discovery::CASES),
    group("snapshots", snapshots::CASES),
    group("sandboxes", sandboxes::CASES),
    group("profiles", profiles::CASES),
    Group {
        flags: &["--concurrent-requests", "2"],
        ..group("concurrency", concurrency::CASES)
    },
];

const fn group(name: &'static str, cases: &'static [Case]) -> Group {
    Group {
        name,
        cases,
        flags: &[],
    }
}

/// The measure.
const MEASURE: End = End::Stock(Version::V0_171);
const OLD: End = End::Stock(Version::V0_145);

/// Ways of transport, and whose servers are compared with the measure over them.
const WAYS: &[(Over, &[End])] = &[
    (Over::WebSocket, &[OLD, End::Ours]),
    (Over::Stdio, &[OLD, End::Ours]),
    (Over::Relay, &[End::Ours]),
    (Over::Forward, &[MEASURE]),
];

/// Fewest exchanges that each way is to have with each server, the slow ones counted in.
const ENOUGH: usize = 1000;

/// Whether a server knows what a case is about.
fn knows(end: End, case: &Case) -> bool {
    case.since == Since::Always || end != OLD
}

pub(crate) fn cases() -> Vec<runner::Case> {
    let mut cases = http::cases();
    cases.push(runner::Case::new(
        "conformance::count",
        runner::When::Always,
        |_| async { count() },
    ));
    for group in GROUPS {
        for (over, others) in WAYS {
            let name = format!("conformance::{}::{}", group.name, over.name());
            let has = |slow: bool| {
                let mut cases = group.cases.iter();
                cases.any(|case| case.is_slow == slow && case.suits(*over))
            };
            if has(false) {
                let quick = move |cx| async move { play(cx, group, *over, others, false).await };
                cases.push(runner::Case::new(name.clone(), runner::When::Always, quick));
            }
            if has(true) {
                let slow = move |cx| async move { play(cx, group, *over, others, true).await };
                cases.push(runner::Case::new(format!("{name}::slow"), runner::When::Full, slow));
            }
        }
    }
    cases
}

/// Tells how much is compared, and sees that it is much.
#[expect(clippy::print_stdout, reason = "figures for whoever reads the output of the tests")]
fn count() -> Result<()> {
    for (over, others) in WAYS {
        for end in std::iter::once(&MEASURE).chain(*others) {
            let played = || {
                let all = GROUPS.iter().flat_map(|group| group.cases);
                all.filter(|case| case.suits(*over) && knows(*end, case))
            };
            let exchanges = played()
                .flat_map(|case| case.steps)
                .filter(|step| step.is_exchange())
                .count();
            println!(
                "{} over {}: {} cases, {exchanges} exchanges",
                end.name(),
                over.name(),
                played().count()
            );
            ensure!(exchanges >= ENOUGH, "{} over {}", end.name(), over.name());
        }
    }
    let rows = differences::DIFFERENCES.len() + http::DIFFERENCES.len();
    println!(
        "{rows} known differences of ours, {} of stock 0.145.0",
        differences::OLD.len()
    );
    Ok(())
}

/// Plays the quick or the slow cases of a group, and compares.
async fn play(cx: Context, group: &Group, over: Over, others: &[End], slow: bool) -> Result<()> {
    // Through relay and forwarder, the measure is the stock listener.
    let measured_over = match over {
        Over::WebSocket | Over::Stdio => over,
        Over::Relay | Over::Forward => Over::WebSocket,
    };
    let cases = || {
        group
            .cases
            .iter()
            .filter(move |case| case.is_slow == slow && case.suits(over))
    };
    let mut servers = vec![ExecServer::start(&cx, MEASURE, measured_over, group.flags).await?];
    for end in others.iter().filter(|end| cases().any(|case| knows(**end, case))) {
        servers.push(ExecServer::start(&cx, *end, over, group.flags).await?);
    }
    let web = web::Server::start().await?;
    let mut findings = Vec::new();
    for case in cases() {
        let name = format!("{}/{}", group.name, case.name);
        let plays = servers
            .iter()
            .filter(|server| knows(server.end(), case))
            .map(|server| async { Ok((server.end(), client::play(server, web.url(), &name, case).await?)) });
        let records = futures_util::future::try_join_all(plays).await;
        match records {
            Ok(records) => findings.extend(compare::compare(&name, over, &records)),
            Err(error) => {
                let error: anyhow::Error = error;
                findings.push(format!("{name}: {error:#}"));
            }
        }
    }
    ensure!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
    Ok(())
}
