//! `harness ps`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use rendezvous_harness::detached::{KeptSession, MAX_LISTED};
use rendezvous_harness::{Environment, HarnessError, ProcessInfo, ProcessState};
use rendezvous_wire::quantity::{show_bytes, show_duration};
use serde::Serialize;

use crate::cli::status::Outcome;
use crate::cli::store::{MAX_RECORDS, Record, Store};
use crate::cli::{Failure, say, text};

const _: () = assert!(MAX_RECORDS <= MAX_LISTED, "all that are looked at can be asked for");
/// Longest command in the table, in characters.
const MAX_COMMAND: usize = 60;

/// List kept sessions, and how their commands are
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Also those that are remembered of other environments, which are not asked
    #[arg(short, long)]
    all: bool,
}

/// One line.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Of a session that has one.
    name: Option<String>,
    /// `starting`, `running`, `exited` (its output is still held open), `closed`, `empty`: nothing runs; `gone`, or
    /// `elsewhere`: not asked.
    state: &'static str,
    attached: bool,
    exit_code: Option<i32>,
    age_seconds: Option<u64>,
    expires_in_seconds: Option<u64>,
    output_bytes: Option<u64>,
    dropped_bytes: Option<u64>,
    address: String,
    command: Vec<String>,
}

/// `met`: how the environment was met.
pub(crate) async fn ps(
    environment: &Environment,
    met: Result<(), Failure>,
    store: &Store,
    args: &PsArgs,
) -> Result<Outcome, Failure> {
    let here = environment.address();
    let found = store.all().map_err(Failure::usage)?;
    if found.is_cut {
        say(format_args!(
            "more than {MAX_RECORDS} sessions are remembered, and only so many are looked at; `harness kill` forgets them"
        ));
    }
    let is_mine = |record: &Record| Some(&record.address) == here.as_ref();
    let (mine, others): (Vec<Record>, Vec<Record>) = found.records.into_iter().partition(is_mine);
    let asked = match met {
        Ok(()) => ask(environment, store, mine).await,
        Err(failure) => Err(failure),
    };
    let mut rows = match asked {
        Err(failure) if args.all && failure.is_of_environment() => {
            say(format_args!("{:#}", failure.error));
            Vec::new()
        }
        asked => asked?,
    };
    if args.all {
        rows.extend(others.into_iter().map(|record| remembered(record, "elsewhere")));
    }
    let text = if args.json { lines(&rows)? } else { table(&rows) };
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::runtime)?;
    Ok(Outcome::command(0))
}

/// The sessions of the environment, of which `mine` are remembered.
async fn ask(environment: &Environment, store: &Store, mut mine: Vec<Record>) -> Result<Vec<Row>, Failure> {
    let here = super::address(environment)?;
    let known: Vec<_> = mine.iter().filter_map(|record| record.session.clone()).collect();
    let harness = environment.harness().await?.ok_or(HarnessError::NoDetachedSessions)?;
    let kept = harness.kept_sessions(&known).await?;
    forget_long_over(store, &mut mine, &kept);
    Ok(rows(&here, &mine, &kept))
}

/// Forgets sessions whose time was over long ago, unless the executor has them still: somebody may be attached all the time.
fn forget_long_over(store: &Store, records: &mut Vec<Record>, kept: &[KeptSession]) {
    records.retain(|record| {
        let is_over = record.is_long_over() && !kept.iter().any(|session| is_of(session, record));
        if is_over {
            store.forget(record);
        }
        !is_over
    });
}

fn rows(here: &str, records: &[Record], kept: &[KeptSession]) -> Vec<Row> {
    let mut rows = Vec::new();
    for session in kept {
        let record = records.iter().find(|record| is_of(session, record));
        let name = record
            .map(|record| record.name.clone())
            .or_else(|| session.name.clone());
        let empty = Row {
            name,
            state: "empty",
            attached: session.is_attached,
            exit_code: None,
            age_seconds: Some(session.age.as_secs()),
            expires_in_seconds: session.expires_in.map(|left| left.as_secs()),
            output_bytes: None,
            dropped_bytes: None,
            address: here.to_owned(),
            command: record.map(|record| record.command.clone()).unwrap_or_default(),
        };
        if session.processes.is_empty() {
            rows.push(empty);
            continue;
        }
        for process in &session.processes {
            rows.push(with_process(&empty, process));
        }
    }
    for record in records {
        if !kept.iter().any(|session| is_of(session, record)) {
            rows.push(remembered(record.clone(), "gone"));
        }
    }
    rows
}

fn is_of(session: &KeptSession, record: &Record) -> bool {
    record.session.as_ref() == Some(&session.session)
}

fn with_process(row: &Row, process: &ProcessInfo) -> Row {
    Row {
        name: row.name.clone(),
        state: process.state.as_str(),
        attached: row.attached,
        exit_code: process.exit_code,
        age_seconds: Some(process.age_ms / 1000),
        expires_in_seconds: row.expires_in_seconds,
        output_bytes: Some(process.retained_bytes),
        dropped_bytes: Some(process.dropped_bytes),
        address: row.address.clone(),
        command: if process.state == ProcessState::Starting {
            row.command.clone()
        } else {
            process.argv.clone()
        },
    }
}

fn remembered(record: Record, state: &'static str) -> Row {
    Row {
        name: Some(record.name),
        state,
        attached: false,
        exit_code: None,
        age_seconds: None,
        expires_in_seconds: None,
        output_bytes: None,
        dropped_bytes: None,
        address: record.address,
        command: record.command,
    }
}

fn lines(rows: &[Row]) -> Result<String, Failure> {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::to_string(row).map_err(Failure::runtime)?;
        text.push_str(&text::json_line(&line));
        text.push('\n');
    }
    Ok(text)
}

/// A table for people, whose columns are as wide as they must be.
fn table(rows: &[Row]) -> String {
    let head = ["NAME", "STATE", "CODE", "AGE", "EXPIRES", "OUTPUT", "COMMAND"].map(str::to_owned);
    let time = |seconds: Option<u64>| match seconds {
        Some(seconds) => show_duration(Duration::from_secs(seconds)),
        None => "-".to_owned(),
    };
    let cells = rows.iter().map(|row| {
        let attached = if row.attached { ", attached" } else { "" };
        let dropped = if row.dropped_bytes.is_some_and(|bytes| bytes > 0) {
            "+"
        } else {
            ""
        };
        let command: String = text::one_line(&row.command.join(" "))
            .chars()
            .take(MAX_COMMAND)
            .collect();
        [
            text::one_line(row.name.as_deref().unwrap_or("-")),
            format!("{}{attached}", row.state),
            row.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string()),
            time(row.age_seconds),
            time(row.expires_in_seconds),
            row.output_bytes
                .map_or_else(|| "-".to_owned(), |bytes| format!("{}{dropped}", show_bytes(bytes))),
            command,
        ]
    });
    let cells: Vec<[String; 7]> = std::iter::once(head).chain(cells).collect();
    let widths: Vec<usize> = (0..6)
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths.iter().copied()) {
            // Text can always be written to.
            let _ = write!(line, "{cell:width$}  ");
        }
        line.push_str(&row[6]);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use rendezvous_wire::secret::Secret;

    use super::*;

    fn row(name: &str, state: &'static str, command: &[&str]) -> Row {
        let mut record = Record::new(name.to_owned(), "r lab".to_owned(), Vec::new());
        record.command = command.iter().map(|word| (*word).to_owned()).collect();
        remembered(record, state)
    }

    #[test]
    fn what_the_executor_has_is_never_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let of_old = |name: &str| -> Record {
            let record = serde_json::json!({
                "name": name, "session": name, "address": "r lab", "command": [], "usedAt": 1, "retention": 60,
            });
            serde_json::from_value(record).unwrap()
        };
        let new = Record::new("new".to_owned(), "r lab".to_owned(), Vec::new());
        let mut records = vec![of_old("followed"), of_old("ended"), new];
        for record in &records {
            assert!(store.add(record).unwrap());
        }
        let kept = KeptSession {
            session: Secret::new("followed"),
            name: None,
            age: Duration::from_secs(1_000_000),
            is_attached: true,
            retention: Duration::from_secs(60),
            expires_in: None,
            processes: Vec::new(),
        };
        forget_long_over(&store, &mut records, &[kept]);
        let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["followed", "new"]);
        assert!(store.get("ended").unwrap().is_none());
        assert!(store.get("followed").unwrap().is_some() && store.get("new").unwrap().is_some());
    }

    #[test]
    fn the_table_has_straight_columns_and_no_control_characters() {
        let running = Row {
            attached: true,
            age_seconds: Some(7200),
            expires_in_seconds: None,
            output_bytes: Some(1536),
            dropped_bytes: Some(3),
            ..row("build", "running", &["make", "-j8", "\u{1b}[31m"])
        };
        let gone = row("a-longer-name", "gone", &[]);
        let text = table(&[running, gone]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with("build          running, attached  -     2h   -        1.5 KiB+  make -j8 "),
            "{text}"
        );
        assert!(lines[2].starts_with("a-longer-name  gone "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
