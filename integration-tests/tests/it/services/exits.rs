//! What every program ends with when it cannot do its work.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::{Context, binaries, wait};
use tokio::time::timeout;

/// Ends a command line whose file `{FILE}` cannot be used.
const UNUSABLE: [(&str, &str); 13] = [
    (
        "registry",
        "serve --listen 127.0.0.1:0 --tls-cert {FILE} --tls-key {FILE}",
    ),
    ("registry", "environment list --database sqlite://{FILE}"),
    ("registry", "environment create lab --database sqlite://{FILE}"),
    (
        "relay",
        "serve --registry http://127.0.0.1:1 --public-url ws://x --credential-file {FILE}",
    ),
    (
        "relay",
        "serve --registry https://127.0.0.1:1 --public-url ws://x --credential-file {TOKEN} --ca-file {FILE}",
    ),
    (
        "relay",
        "serve --registry http://127.0.0.1:1 --public-url ws://x --credential-file {TOKEN} --tls-cert {FILE} --tls-key {FILE}",
    ),
    (
        "executor",
        "--remote https://127.0.0.1:1 --environment-id e --token-file {FILE}",
    ),
    (
        "executor",
        "--remote https://127.0.0.1:1 --environment-id e --token-file {TOKEN} --ca-file {FILE}",
    ),
    ("executor", "gateway --remote https://127.0.0.1:1 --ca-file {FILE}"),
    (
        "executor",
        "--listen ws://127.0.0.1:0 --ws-auth capability-token --ws-token-file {FILE}",
    ),
    (
        "harness",
        "--registry-url https://127.0.0.1:1 --environment e --token-file {FILE} info",
    ),
    (
        "harness",
        "--registry-url https://127.0.0.1:1 --environment e --token-file {TOKEN} --ca-file {FILE} info",
    ),
    (
        "harness",
        "--registry-url https://127.0.0.1:1 --environment e --token-file {TOKEN} run --status-file {FILE}/x/y -- true",
    ),
];
/// Command lines that need a service which is not there.
const ABSENT: [(&str, &str); 4] = [
    (
        "registry",
        "serve --listen 127.0.0.1:0 --database postgres://127.0.0.1:1/x",
    ),
    ("registry", "credential list --database postgres://127.0.0.1:1/x"),
    (
        "executor",
        "forward --connect ws://127.0.0.1:1 --remote http://127.0.0.1:1 --environment-id e --token-file {TOKEN}",
    ),
    (
        "harness",
        "--connect-timeout 1 --registry-url http://127.0.0.1:1 --environment e --token-file {TOKEN} info",
    ),
];

/// The code that a program ends with, and what it says on stderr.
async fn end(program: &str, line: &str) -> Result<(Option<i32>, String)> {
    let mut command = tokio::process::Command::new(binaries::ours(program)?);
    command
        .args(line.split(' '))
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(wait::SOON, command.output())
        .await
        .with_context(|| format!("{program} {line} does not end"))??;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

pub(crate) async fn are_the_same(cx: Context) -> Result<()> {
    let token = cx.secret_file("token", "token-1")?;
    let folder = cx.subfolder("folder")?;
    // A folder is no file, and nothing can be made below a file.
    for file in [cx.folder().join("missing"), folder, token.join("below")] {
        for (program, line) in UNUSABLE {
            if line.contains(" create ") && !file.is_dir() && !file.starts_with(&token) {
                // Makes a missing database.
                continue;
            }
            let line = line
                .replace("{FILE}", &file.to_string_lossy())
                .replace("{TOKEN}", &token.to_string_lossy());
            let (code, words) = end(program, &line).await?;
            ensure!(code == Some(64), "{program} {line}: {code:?}, {words}");
            let named = words.contains(&*file.to_string_lossy());
            ensure!(named, "{program} {line}: what it cannot use is not named: {words}");
        }
    }
    for (program, line) in ABSENT {
        let line = line.replace("{TOKEN}", &token.to_string_lossy());
        let (code, words) = end(program, &line).await?;
        ensure!(code == Some(69), "{program} {line}: {code:?}, {words}");
    }
    Ok(())
}
