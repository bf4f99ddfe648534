//! Deletes what has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;

/// How often.
const PERIOD: Duration = Duration::from_secs(10);

/// Sweeps until the registry stops.
pub async fn run(app: Arc<App>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        app.calls.clean();
        app.failures.clean();
        match app.store.sweep(app.clock.now()).await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "swept"),
            Err(error) => tracing::warn!(%error, "ended rows were not deleted"),
        }
    }
}
