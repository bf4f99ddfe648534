//! Where the keys come from, and where they do not go.

use std::path::Path;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::cloud::{Cloud, Seen};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::sigv4::Account;
use rendezvous_integration_tests::{Command, Context};
use serde_json::Value;

use super::calls::Client;
use super::{SECRET, STOCK, account, expect_seen, keyed, keyless, start};

/// Changes a command line without keys.
type Give = fn(Command) -> Command;

const CONFIG: &str = "\
[default]
region = r-default
[profile two]
region = r-two
[profile printed]
region = r-printed
credential_process = printf '%s' '{\"Version\":1,\"AccessKeyId\":\"AK-PRINTED\",\"SecretAccessKey\":\"SECRET\",\"SessionToken\":\"t\"}'
";
const CREDENTIALS: &str = "\
[default]
aws_access_key_id = AK-DEFAULT
aws_secret_access_key = SECRET
[two]
aws_access_key_id = AK-TWO
aws_secret_access_key = SECRET
aws_session_token = t-two
";

fn with_keys(command: Command) -> Command {
    command
        .env("AWS_ACCESS_KEY_ID", "AK-ENV")
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
}

/// Both executors find the same identity in the same place.
pub(crate) async fn sources(cx: Context) -> Result<()> {
    let rows: [(Give, &str, Option<&str>, &str, &str); 7] = [
        (|command| command, "AK-DEFAULT", None, "r-default", "execute-api"),
        (
            |command| command.env("AWS_PROFILE", "two"),
            "AK-TWO",
            Some("t-two"),
            "r-two",
            "execute-api",
        ),
        (
            |command| command.args(["--aws-profile", "two"]),
            "AK-TWO",
            Some("t-two"),
            "r-two",
            "execute-api",
        ),
        (
            |command| command.args(["--aws-profile", "printed", "--aws-service", "other"]),
            "AK-PRINTED",
            Some("t"),
            "r-printed",
            "other",
        ),
        (
            |command| {
                with_keys(command)
                    .env("AWS_SESSION_TOKEN", "t-env")
                    .env("AWS_REGION", "r-env")
            },
            "AK-ENV",
            Some("t-env"),
            "r-env",
            "execute-api",
        ),
        (
            |command| {
                with_keys(command)
                    .env("AWS_PROFILE", "two")
                    .args(["--aws-region", "r-flag"])
            },
            "AK-ENV",
            None,
            "r-flag",
            "execute-api",
        ),
        (
            |command| {
                with_keys(command)
                    .args(["--aws-profile", "two"])
                    .env("AWS_DEFAULT_REGION", "r-env")
            },
            "AK-TWO",
            Some("t-two"),
            "r-env",
            "execute-api",
        ),
    ];
    for end in [End::Ours, STOCK] {
        for (give, key, token, region, service) in rows {
            let account = Account {
                access_key_id: key.into(),
                secret_access_key: SECRET.into(),
                session_token: token.map(str::to_owned),
                region: region.into(),
                service: service.into(),
            };
            let mut cloud = Cloud::start(account).await?;
            let command = keyless(&cx, end, &cloud.url())?;
            let command = with_files(&cx, command)?;
            let _executor = start(&cx, give(command))?;
            cloud.connected().await?;
        }
    }
    Ok(())
}

fn with_files(cx: &Context, command: Command) -> Result<Command> {
    let folder = cx.subfolder("aws")?;
    let write = |name: &str, text: &str| -> Result<_> {
        std::fs::write(
            folder.join(name),
            text.replace("SECRET\n", &format!("{SECRET}\n"))
                .replace("\"SECRET\"", &format!("\"{SECRET}\"")),
        )?;
        Ok(folder.join(name))
    };
    Ok(command
        .env("AWS_CONFIG_FILE", write("config", CONFIG)?)
        .env("AWS_SHARED_CREDENTIALS_FILE", write("credentials", CREDENTIALS)?))
}

/// Keys that were replaced in the file sign the next connection.
pub(crate) async fn renewed(cx: Context) -> Result<()> {
    let of = |key: &str| Account {
        access_key_id: key.into(),
        ..account()
    };
    let path = cx.folder().join("credentials");
    let mut cloud = Cloud::start(of("AK-OLD")).await?;
    write_keys(&path, "AK-OLD")?;
    let command = keyless(&cx, End::Ours, &cloud.url())?
        .env("AWS_REGION", account().region)
        .env("AWS_SHARED_CREDENTIALS_FILE", &path);
    let mut executor = start(&cx, command)?;
    cloud.connected().await?;

    cloud.set_account(of("AK-NEW"));
    write_keys(&path, "AK-NEW")?;
    cloud.cut();
    expect_seen!(cloud, Seen::Gone(_) => ());
    expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == 101 => ());

    // For a moment there are none.
    std::fs::remove_file(&path)?;
    cloud.cut();
    expect_seen!(cloud, Seen::Gone(_) => ());
    executor
        .stderr()
        .contains("no AWS credentials", rendezvous_integration_tests::wait::SOON)
        .await?;
    write_keys(&path, "AK-NEW")?;
    expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == 101 => ());
    ensure!(executor.is_running());
    Ok(())
}

fn write_keys(path: &Path, key: &str) -> Result<()> {
    let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n");
    Ok(std::fs::write(path, text)?)
}

fn temporary() -> Account {
    Account {
        session_token: Some("the-session-token".into()),
        ..account()
    }
}

/// Our executor's commands inherit neither the keys nor a way to them.
pub(crate) async fn commands_see_no_keys(cx: Context) -> Result<()> {
    let mut cloud = Cloud::start(temporary()).await?;
    let executor = start(&cx, keyed(&cx, End::Ours, &cloud.url(), &temporary())?)?;
    cloud.connected().await?;
    let mut client = Client::connect(&cloud).await?;
    client.initialize(Value::Null).await?;
    let script = "env; tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline; \
                  for fd in /proc/$PPID/fd/*; do timeout 1 head -c 100000 $fd; done; echo the-end";
    client.start(&cx, script).await?;
    let output = client.output_until("the-end").await?;
    ensure!(
        output.contains("AWS_REGION=eu-west-1"),
        "what is no secret is inherited: {output}"
    );
    ensure!(
        output.contains("--remote-transport"),
        "the parent is the executor: {output}"
    );
    for secret in ["AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", SECRET, "the-session-token"] {
        ensure!(!output.contains(secret), "{secret} is in {output}");
    }
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", executor.id()))?;
    ensure!(!environment.contains(SECRET), "{environment}");
    Ok(())
}

/// Not even a log that says everything holds keys or signatures.
pub(crate) async fn logs_hold_no_secret(cx: Context) -> Result<()> {
    let mut cloud = Cloud::start(temporary()).await?;
    let command = keyed(&cx, End::Ours, &cloud.url(), &temporary())?.env("RENDEZVOUS_LOG", "trace");
    let mut executor = start(&cx, command)?;
    let (register, upgrade) = cloud.connected().await?;
    cloud.cut();
    expect_seen!(cloud, Seen::Gone(_) => ());
    executor
        .stderr()
        .contains(
            "connecting to the registered server again",
            rendezvous_integration_tests::wait::SOON,
        )
        .await?;
    executor.signal(nix::sys::signal::Signal::SIGTERM)?;
    let finished = executor
        .finish(rendezvous_integration_tests::wait::SOON)
        .await?
        .success()?;
    ensure!(finished.stderr.contains("TRACE"), "{}", finished.stderr);
    let signature = |arrival: &rendezvous_integration_tests::cloud::Arrival| {
        let proof = arrival
            .request
            .headers
            .get("authorization")
            .cloned()
            .unwrap_or_default();
        proof.rsplit('=').next().unwrap_or_default().to_owned()
    };
    let (first, second) = (signature(&register), signature(&upgrade));
    ensure!(first.len() == 64 && second.len() == 64, "{first} {second}");
    // The ticket of the place, too.
    for secret in [SECRET, "the-session-token", "t~1", &first, &second] {
        ensure!(!finished.stderr.contains(secret), "{secret} is in {}", finished.stderr);
    }
    Ok(())
}
