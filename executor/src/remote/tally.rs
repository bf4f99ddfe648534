use rendezvous_channel::acceptor::Counters;
use rendezvous_transport::acceptor::Tally;

/// Turns tallies into metrics of the process.
pub(super) struct Metrics {
    last: Tally,
}

impl Default for Metrics {
    /// Every metric is there from now on, also those that nothing has happened to.
    fn default() -> Self {
        let metrics = Self { last: Tally::default() };
        metrics.record(&Tally::default());
        metrics
    }
}

impl Metrics {
    /// Adds what happened since the last call.
    pub(super) fn update(&mut self, tally: &Tally) {
        self.record(tally);
        self.last = *tally;
    }

    fn record(&self, tally: &Tally) {
        // Named one by one, so that no new counter is forgotten.
        let Counters {
            invalid_frames,
            failed_handshakes,
            admission_pauses,
            refused,
            replays,
            unknown_streams,
            dropped_refusals,
        } = tally.counters;
        let before = &self.last.counters;
        for (name, now, before) in [
            ("executor_invalid_frames_total", invalid_frames, before.invalid_frames),
            (
                "executor_failed_handshakes_total",
                failed_handshakes,
                before.failed_handshakes,
            ),
            (
                "executor_admission_pauses_total",
                admission_pauses,
                before.admission_pauses,
            ),
            ("executor_refusals_total", refused, before.refused),
            ("executor_replayed_handshakes_total", replays, before.replays),
            (
                "executor_unknown_stream_records_total",
                unknown_streams,
                before.unknown_streams,
            ),
            (
                "executor_dropped_refusals_total",
                dropped_refusals,
                before.dropped_refusals,
            ),
            ("executor_text_messages_total", tally.texts, self.last.texts),
            ("executor_stream_resumes_total", tally.resumes, self.last.resumes),
        ] {
            metrics::counter!(name).increment(now.saturating_sub(before));
        }
        metrics::gauge!("executor_streams").set(tally.streams as f64);
        metrics::gauge!("executor_streams_suspended").set(tally.suspended as f64);
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        metrics::gauge!("executor_streams").set(0.0);
        metrics::gauge!("executor_streams_suspended").set(0.0);
    }
}
