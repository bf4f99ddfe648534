//! Sessions that are kept for harnesses that are away for long.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rendezvous_executor::server::DetachedSessions;
use rendezvous_host::process::{SpoolLimits, Spooling};
use rendezvous_host::state;
use rendezvous_wire::quantity;

/// So many times what one harness may have, all may have together.
const HARNESSES: usize = 8;
/// So many times the output of one process a session may have.
const PROCESSES: u64 = 4;

/// What is kept, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Detached sessions")]
pub(super) struct KeepingArgs {
    /// Longest time that a harness may have its session kept without a connection, such as 12h or 7d; 0: not at all
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "7d",
        value_parser = quantity::duration,
        env = "EXECUTOR_MAX_SESSION_RETENTION"
    )]
    max_session_retention: Duration,
    /// Sessions that are kept at once for one harness key; all keys together may have eight times as many
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..=128),
        env = "EXECUTOR_MAX_DETACHED_SESSIONS"
    )]
    max_detached_sessions: u16,
    /// Output of one process that is kept on disk, the oldest dropped first; a session may have four times as much
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64M",
        value_parser = quantity::bytes,
        env = "EXECUTOR_DETACHED_OUTPUT"
    )]
    detached_output: u64,
    /// Output of all kept sessions together
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "4G",
        value_parser = quantity::bytes,
        env = "EXECUTOR_DETACHED_OUTPUT_TOTAL"
    )]
    detached_output_total: u64,
    /// Where that output goes, in files without names [default: output in the state directory]
    ///
    /// The state directory is the service's own (STATE_DIRECTORY, from systemd), else `rendezvous` in XDG_STATE_HOME or in
    /// ~/.local/state.
    #[arg(long, value_name = "DIR", env = "EXECUTOR_DETACHED_OUTPUT_DIR")]
    detached_output_dir: Option<PathBuf>,
}

impl KeepingArgs {
    /// The rules; none when no session may be kept.
    pub(super) fn rules(&self) -> Option<DetachedSessions> {
        if self.max_session_retention.is_zero() {
            return None;
        }
        let Some(directory) = self.directory() else {
            tracing::info!("sessions are not kept for long: HOME is not set; use --detached-output-dir");
            return None;
        };
        let limits = SpoolLimits {
            process: self.detached_output,
            session: self.detached_output.saturating_mul(PROCESSES),
            total: self.detached_output_total,
        };
        let max_sessions_per_harness = usize::from(self.max_detached_sessions);
        Some(DetachedSessions {
            max_retention: self.max_session_retention,
            max_sessions: max_sessions_per_harness * HARNESSES,
            max_sessions_per_harness,
            spooling: Spooling::new(directory, limits),
        })
    }

    fn directory(&self) -> Option<PathBuf> {
        let found = || state::directory().map(|state| state.join("output"));
        self.detached_output_dir.clone().or_else(found)
    }
}
