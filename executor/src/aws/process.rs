//! A program that prints keys (`credential_process`).

use std::process::Stdio;
use std::time::Duration;

use rendezvous_wire::secret::Secret;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{AwsError, Keys};

/// Longest time that the program may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Longest answer that is read, in bytes.
pub const MAX_ANSWER: usize = 64 * 1024;

/// What the program prints; it may print more members.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    version: u32,
    access_key_id: Secret,
    secret_access_key: Secret,
    session_token: Option<Secret>,
}

/// Runs `command` with a shell, as AWS's tools do, and reads keys from what it prints. What it says on stderr goes to ours.
pub(super) async fn ask(command: &Secret) -> Result<Keys, AwsError> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command.expose()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(AwsError::Process)?;
    let printed = async {
        let mut answer = Zeroizing::new(Vec::new());
        if let Some(stdout) = child.stdout.take() {
            let mut start = stdout.take(MAX_ANSWER as u64 + 1);
            start.read_to_end(&mut answer).await?;
        }
        // Dropped by now, so that a program that prints without end ends.
        Ok((answer, child.wait().await?))
    };
    let (answer, status) = timeout(TIME_LIMIT, printed)
        .await
        .map_err(|_| AwsError::ProcessTimeout)?
        .map_err(AwsError::Process)?;
    if answer.len() > MAX_ANSWER {
        return Err(AwsError::ProcessAnswer("it is too long"));
    }
    if !status.success() {
        return Err(AwsError::ProcessFailed(status));
    }
    // The parser's own words could repeat a part of the secret.
    let answer: Answer =
        serde_json::from_slice(&answer).map_err(|_| AwsError::ProcessAnswer("it is not the JSON that it should be"))?;
    if answer.version != 1 {
        return Err(AwsError::ProcessAnswer("its version is not 1"));
    }
    Ok(Keys {
        access_key_id: answer.access_key_id,
        secret_access_key: answer.secret_access_key,
        session_token: answer.session_token.filter(|token| !token.is_blank()),
    })
}
