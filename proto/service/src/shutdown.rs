//! Signals that end a daemon.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal as listen};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once, with 128 + its number.
///
/// Must be called inside a Tokio runtime.
///
/// # Errors
///
/// When the signals cannot be listened to.
pub fn signal() -> io::Result<CancellationToken> {
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let name = next(&mut terminate, &mut interrupt).await.0;
        tracing::info!(signal = name, "stopping; a second signal stops at once");
        stop.cancel();
        let code = next(&mut terminate, &mut interrupt).await.1;
        exit_now(code);
    });
    Ok(token)
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> (&'static str, i32) {
    tokio::select! {
        _ = terminate.recv() => ("SIGTERM", 128 + SignalKind::terminate().as_raw_value()),
        _ = interrupt.recv() => ("SIGINT", 128 + SignalKind::interrupt().as_raw_value()),
    }
}

#[expect(clippy::exit, reason = "whoever signals twice does not want to wait for a drain")]
fn exit_now(code: i32) -> ! {
    process::exit(code)
}
