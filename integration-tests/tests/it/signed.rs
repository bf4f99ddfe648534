//! Executors that serve without relay, on a connection that AWS identities sign: the stock one and ours, at the same
//! registry, which checks every signature with code of its own.

mod calls;
mod identity;
mod refusals;
mod statuses;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::cloud::{Cloud, ENVIRONMENT};
use rendezvous_integration_tests::executor::{self, End, MARK};
use rendezvous_integration_tests::model::Model;
use rendezvous_integration_tests::sigv4::Account;
use rendezvous_integration_tests::stock::{self, Version, Way};
use rendezvous_integration_tests::{Command, Context, Program, binaries, wait};

use crate::agent::tools;
use crate::runner::{Case, When};

/// The stock executor that can do it.
const STOCK: End = End::Stock(Version::V0_171);
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("signed::same_requests", When::Always, calls::same_requests),
        Case::new("signed::identity", When::Always, identity::sources),
        Case::new("signed::renewed_identity", When::Always, identity::renewed),
        Case::new(
            "signed::commands_see_no_keys",
            When::Always,
            identity::commands_see_no_keys,
        ),
        Case::new(
            "signed::logs_hold_no_secret",
            When::Always,
            identity::logs_hold_no_secret,
        ),
        Case::new("signed::gone_for_good", When::Full, statuses::gone_for_good),
    ];
    for end in [End::Ours, STOCK] {
        let name = |what: &str| format!("signed::{}::{what}", end.name());
        let seldom = if end == End::Ours { When::Always } else { When::Full };
        cases.extend([
            Case::new(name("signature"), When::Always, move |cx| refusals::signature(cx, end)),
            Case::new(name("reply"), seldom, move |cx| refusals::reply(cx, end)),
            Case::new(name("statuses"), seldom, move |cx| statuses::upgrades(cx, end)),
            Case::new(name("registrations"), seldom, move |cx| {
                statuses::registrations(cx, end)
            }),
            Case::new(name("lost_connection"), When::Always, move |cx| {
                calls::lost_connection(cx, end)
            }),
            Case::new(name("large_messages"), seldom, move |cx| calls::large_messages(cx, end)),
            Case::new(name("tools"), seldom, move |cx| play(cx, end)),
        ]);
    }
    cases
}

/// The account whose signatures are taken unless a test says otherwise.
fn account() -> Account {
    Account {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: SECRET.into(),
        session_token: None,
        region: "eu-west-1".into(),
        service: "execute-api".into(),
    }
}

/// An executor's command line, which finds no keys.
fn keyless(cx: &Context, end: End, registry: &str) -> Result<Command> {
    let command = match end {
        End::Ours => {
            let home = cx.subfolder("executor-home")?;
            let temporary = cx.subfolder("executor-tmp")?;
            Command::new(binaries::ours("executor")?)
                .env("HOME", home)
                .env("TMPDIR", temporary)
        }
        End::Stock(version) => stock::exec_server(cx, version, "executor")?,
    };
    Ok(command
        .args(["--remote", registry, "--environment-id", ENVIRONMENT])
        .args(["--remote-transport", "direct", "--aws-sigv4"])
        // Nobody here answers for a machine of AWS.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env(MARK.0, MARK.1))
}

/// With the keys and the region of an account in the environment.
fn keyed(cx: &Context, end: End, registry: &str, account: &Account) -> Result<Command> {
    let command = keyless(cx, end, registry)?
        .env("AWS_REGION", &account.region)
        .env("AWS_ACCESS_KEY_ID", &account.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &account.secret_access_key);
    Ok(match &account.session_token {
        Some(token) => command.env("AWS_SESSION_TOKEN", token),
        None => command,
    })
}

fn start(cx: &Context, command: Command) -> Result<Program> {
    let mut program = Program::start(cx, "executor", command)?;
    program.close_stdin();
    Ok(program)
}

/// An executor that serves.
async fn serving(cx: &Context, end: End, cloud: &mut Cloud) -> Result<Program> {
    let program = start(cx, keyed(cx, end, &cloud.url(), &account())?)?;
    cloud.connected().await?;
    Ok(program)
}

/// Waits for the end of an executor that gave up: 1 for a stock one, `code` for ours.
async fn gives_up(mut executor: Program, end: End, code: i32) -> Result<String> {
    let finished = executor.finish(wait::SOON).await?;
    let expected = if end == End::Ours { code } else { 1 };
    ensure!(
        finished.code == expected,
        "exit code {}: {}",
        finished.code,
        finished.stderr
    );
    Ok(finished.stderr)
}

/// Every tool of a stock agent.
async fn play(cx: Context, end: End) -> Result<()> {
    let mut cloud = Cloud::start(account()).await?;
    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    tools::prepare(&content)?;
    let command = keyed(&cx, end, &cloud.url(), &account())?;
    let _executor = start(&cx, executor::machine(command, &workspace, &content))?;
    cloud.connected().await?;
    let model = Model::play(tools::script()).await?;
    let url = cloud.client_url();
    let mut harness = stock::harness(&cx, Version::V0_171, "harness", &Way::Direct(&url), &workspace, &model)?;
    stock::finish(&mut harness).await?;
    tools::judge(&model, &content)
}

/// A registry's next sight, which must be of this kind.
macro_rules! expect_seen {
    ($cloud:expr, $pattern:pat $(if $guard:expr)? => $value:expr) => {
        match $cloud.next().await? {
            $pattern $(if $guard)? => $value,
            other => anyhow::bail!("{other:?}"),
        }
    };
}
use expect_seen;
