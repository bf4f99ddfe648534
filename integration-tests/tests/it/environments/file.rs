//! `environments.toml` is taken or refused as the stock harness does it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use futures_util::StreamExt as _;
use rendezvous_harness::environments::{Environments, Settings};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::model::{LAST_WORDS, Model};
use rendezvous_integration_tests::stock::{self, Version};

use crate::runner::{Case, When};

/// Stock harnesses that run at once.
const AT_ONCE: usize = 3;

/// A file, and which stock releases take it.
struct Row {
    text: &'static str,
    takes: Takes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Both,
    Neither,
    /// 0.171.0 and ours.
    Newer,
}

use Takes::{Both, Neither, Newer};

macro_rules! rows {
    ($($takes:ident $text:expr,)*) => { &[$(Row { text: $text, takes: $takes }),*] };
}

macro_rules! listener {
    ($lines:literal) => {
        concat!("[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n", $lines)
    };
}

macro_rules! named {
    ($id:literal) => {
        concat!("[[environments]]\nid = \"", $id, "\"\nurl = \"ws://127.0.0.1:1\"\n")
    };
}

macro_rules! entry {
    ($lines:literal) => {
        concat!("[[environments]]\nid = \"a\"\n", $lines)
    };
}

/// What decides most.
const CORE: &[Row] = rows![
    Both "",
    Both listener!(""),
    Neither "foo = 1",
    Neither listener!("foo = 1"),
    Neither entry!("url = \"http://127.0.0.1:1\""),
    Neither listener!("program = \"x\""),
    Neither entry!(""),
    Neither named!("local"),
    Neither named!("a.b"),
    Neither "default = \"a\"",
    Neither "default = \"local\"\ninclude_local = false",
    Newer listener!("auth_bearer_token = \"t\""),
];

const MORE: &[Row] = rows![
    Both "include_local = false",
    Both "default = \" NONE \"",
    Both "default = \"local\"",
    Both concat!("default = \" a \"\n", listener!("")),
    Both "environments = []",
    Both "environments = [{ id = \"a\", url = \"ws://127.0.0.1:1\" }]",
    Both "\u{feff}default = \"local\"",
    Both named!("LOCAL"),
    Both named!("remote"),
    Both named!("A-b_9"),
    Both concat!(named!("a"), named!("A")),
    Both named!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    Both entry!("url = \" ws://127.0.0.1:1/x?y=1 \""),
    Both entry!("url = \"ws://u:p@127.0.0.1:1\""),
    Both entry!("url = \"ws://127.0.0.1:1#z\""),
    Both entry!("url = \"ws://far.example:1\""),
    Both listener!("connect_timeout_sec = 0\ninitialize_timeout_sec = 1.5"),
    Both listener!("initialize_timeout_sec = 1e19"),
    Both entry!("program = \" x \"\nargs = []\nenv = {}\ncwd = \"y\"\ninitialize_timeout_sec = 1"),
    Neither "default = ",
    Neither "default = \"\"",
    Neither "default = \"LOCAL\"",
    Neither named!(""),
    Neither named!(" a"),
    Neither named!("NoNe"),
    Neither named!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    Neither concat!(named!("a"), named!("a")),
    Neither "[[environments]]\nurl = \"ws://127.0.0.1:1\"",
    Neither entry!("url = \" \""),
    Neither entry!("url = 1"),
    Neither entry!("url = \"WS://127.0.0.1:1\""),
    Neither entry!("url = \"ws://\""),
    Neither entry!("url = \"ws://exa mple/\""),
    Neither listener!("args = []"),
    Neither listener!("env = {}"),
    Neither listener!("cwd = \"/\""),
    Neither listener!("connect_timeout_sec = -1"),
    Neither listener!("connect_timeout_sec = nan"),
    Neither listener!("connect_timeout_sec = 1e30"),
    Neither listener!("connect_timeout_sec = \"1\""),
    Neither listener!("auth_bearer_token_env_var = \"T\""),
    Neither entry!("program = \" \""),
    Neither entry!("program = \"x\"\nconnect_timeout_sec = 1"),
    Neither entry!("program = \"x\"\nenv = { A = 1 }"),
    Neither entry!("program = \"x\"\nauth_bearer_token = \"t\""),
    Neither entry!("url = \"ws://far.example:1\"\nauth_bearer_token = \"t\""),
    Neither listener!("auth_bearer_token = \"x\\ny\""),
    Neither listener!("skills = { foo = 1 }"),
    Newer listener!("skills = { required = [] }"),
    Newer listener!("auth_bearer_token = \"\""),
    Newer entry!("url = \"ws://[::1]:1\"\nauth_bearer_token = \"t\""),
    Newer entry!("url = \"wss://far.example:1\"\nauth_bearer_token = \"t\""),
];

pub(super) fn cases() -> Vec<Case> {
    let table = |name, when, version: Version, rows: &'static [Row]| {
        let name = format!("environments::file::stock-{}::{name}", version.number());
        Case::new(name, when, move |cx| compare(cx, version, rows))
    };
    vec![
        table("core", When::Always, Version::V0_171, CORE),
        table("more", When::Full, Version::V0_171, MORE),
        table("core", When::Full, Version::V0_145, CORE),
        table("more", When::Full, Version::V0_145, MORE),
    ]
}

async fn compare(cx: Context, version: Version, rows: &'static [Row]) -> Result<()> {
    let model = Arc::new(Model::play([]).await?);
    let checks: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(number, row)| check(cx.clone(), Arc::clone(&model), version, number, row))
        .collect();
    let findings: Vec<_> = futures_util::stream::iter(checks)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let findings = findings.into_iter().collect::<Result<Vec<_>>>()?;
    let findings: Vec<String> = findings.into_iter().flatten().collect();
    ensure!(findings.is_empty(), "{}", findings.join("\n---\n"));
    Ok(())
}

/// What is not as the row says.
async fn check(
    cx: Context,
    model: Arc<Model>,
    version: Version,
    number: usize,
    row: &'static Row,
) -> Result<Option<String>> {
    let name = format!("row-{number}");
    let stock = stock_takes(&cx, version, &name, row.text, &model).await?;
    let expected = row.takes == Both || (row.takes == Newer && version == Version::V0_171);
    let ours = ours_takes(&cx.subfolder(&format!("{name}-ours"))?, row.text)?;
    let is_as_told = stock == expected && ours == (row.takes != Neither);
    Ok((!is_as_told).then(|| format!("stock {stock}, ours {ours}: {}", row.text)))
}

fn ours_takes(folder: &Path, text: &str) -> Result<bool> {
    let file = folder.join("environments.toml");
    std::fs::write(&file, text)?;
    let settings = Settings {
        file: Some(file),
        ..Settings::default()
    };
    Ok(Environments::load(&settings).is_ok())
}

/// Runs the stock harness with the file: it comes to its model, or says that the file is wrong.
async fn stock_takes(cx: &Context, version: Version, name: &str, text: &str, model: &Model) -> Result<bool> {
    let workspace = cx.subfolder(&format!("{name}-workspace"))?;
    let mut harness = stock::harness(cx, version, name, &stock::Way::File(text), &workspace, model)?;
    let finished = harness
        .finish(stock::RUN_LIMIT)
        .await
        .with_context(|| text.to_owned())?;
    if finished.code == 0 && finished.text().contains(LAST_WORDS) {
        return Ok(true);
    }
    let is_about_the_file = ["environment", "exec-server"]
        .iter()
        .any(|word| finished.stderr.contains(word));
    if finished.code == 1 && is_about_the_file {
        return Ok(false);
    }
    bail!("{text}: exit code {}: {}", finished.code, finished.stderr)
}
