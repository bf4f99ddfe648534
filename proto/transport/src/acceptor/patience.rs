use std::time::{Duration, Instant};

/// Longest time that a link is not read because its applications take nothing, and all of that time in half a minute; the
/// streams that hold up the others are reset then. A stream that is alone holds up nobody and has this long each time.
pub const MAX_PAUSE: Duration = Duration::from_secs(5);
/// After this long the whole of [`MAX_PAUSE`] is available again.
pub(super) const REFILL: Duration = Duration::from_secs(30);
/// A pause that costs nothing: an application that is merely slower than the link takes something sooner.
pub(super) const BRIEF: Duration = Duration::from_millis(250);

/// How long streams may hold up the others: a bucket of time.
#[derive(Debug)]
pub(super) struct Patience {
    left: Duration,
    at: Instant,
    paused_since: Option<Instant>,
}

impl Patience {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left: MAX_PAUSE,
            at: now,
            paused_since: None,
        }
    }

    /// Takes note of whether the link is held up now, and whether by its only stream.
    pub(super) fn note(&mut self, now: Instant, paused: bool, alone: bool) {
        match (self.paused_since, paused) {
            (None, true) => {
                let share = now.saturating_duration_since(self.at).as_secs_f64() / REFILL.as_secs_f64();
                self.left = (self.left + MAX_PAUSE.mul_f64(share.min(1.0))).min(MAX_PAUSE);
                self.at = now;
                self.paused_since = Some(now);
            }
            (Some(since), false) => {
                if !alone {
                    let waited = now.saturating_duration_since(since).saturating_sub(BRIEF);
                    self.left = self.left.saturating_sub(waited);
                }
                self.at = now;
                self.paused_since = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// When it is at its end, unless the link is read before.
    pub(super) fn end(&self, alone: bool) -> Option<Instant> {
        let left = if alone { MAX_PAUSE } else { self.left };
        self.paused_since.map(|since| since + BRIEF + left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pauses_use_it_up_and_time_brings_it_back() {
        let mut now = Instant::now();
        let mut patience = Patience::new(now);
        assert_eq!(patience.end(false), None);
        for pause in [MAX_PAUSE / 2, MAX_PAUSE / 2] {
            patience.note(now, true, false);
            now += pause + BRIEF;
            assert!(patience.end(false) >= Some(now));
            patience.note(now, true, false);
            patience.note(now, false, false);
        }
        patience.note(now, true, false);
        assert_eq!(patience.end(false), Some(now + BRIEF), "nothing is left");
        patience.note(now, false, false);
        now += REFILL / 5;
        patience.note(now, true, false);
        assert_eq!(patience.end(false), Some(now + BRIEF + MAX_PAUSE / 5));
        patience.note(now, false, false);
        now += REFILL * 3;
        patience.note(now, true, false);
        assert_eq!(patience.end(false), Some(now + BRIEF + MAX_PAUSE));
    }

    #[test]
    fn a_stream_that_is_alone_uses_nothing_up() {
        let mut now = Instant::now();
        let mut patience = Patience::new(now);
        for _ in 0..10 {
            patience.note(now, true, true);
            now += MAX_PAUSE;
            assert_eq!(patience.end(true), Some(now + BRIEF));
            patience.note(now, false, true);
        }
        patience.note(now, true, false);
        assert_eq!(patience.end(false), Some(now + BRIEF + MAX_PAUSE));
    }

    #[test]
    fn brief_pauses_cost_nothing() {
        let mut now = Instant::now();
        let mut patience = Patience::new(now);
        for _ in 0..1000 {
            patience.note(now, true, false);
            now += BRIEF;
            patience.note(now, false, false);
        }
        patience.note(now, true, false);
        assert_eq!(patience.end(false), Some(now + BRIEF + MAX_PAUSE));
    }
}
