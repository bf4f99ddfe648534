//! Notices that the machine slept.
//!
//! While a machine sleeps, the clock of the runtime's timers stands still: what was due in a minute is due in a minute
//! after the waking, an hour later or not. The peers have given the connections up meanwhile. So who waits for long looks
//! every [`LOOK`] at a clock that goes on in sleep as well, and compares.

use std::time::{Duration, Instant};

/// Time between two looks, and so the longest time until a waking is noticed.
pub const LOOK: Duration = Duration::from_secs(1);
/// Clocks that differ by less say nothing: one is read after the other.
pub const SHORTEST: Duration = Duration::from_secs(2);

/// Compares two clocks: one that stands still in sleep, and one that does not.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    awake: Instant,
    boot: Duration,
}

impl Watch {
    /// Starts with what the clocks show.
    pub fn new(awake: Instant, boot: Duration) -> Self {
        Self { awake, boot }
    }

    /// When the next look is due.
    pub fn next_look(&self) -> Instant {
        self.awake + LOOK
    }

    /// Looks at the clocks: how long the machine slept since the last look, unless that was too short to tell.
    pub fn look(&mut self, awake: Instant, boot: Duration) -> Option<Duration> {
        let waking = awake.saturating_duration_since(self.awake);
        let all = boot.saturating_sub(self.boot);
        *self = Self { awake, boot };
        let slept = all.saturating_sub(waking);
        (slept >= SHORTEST).then_some(slept)
    }
}

/// The clock that goes on in sleep.
///
/// On Linux the time since the machine started. Elsewhere the time of day, so that a clock which is put forward looks like
/// sleep.
pub fn boot_clock() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Ok(time) = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME) {
        return time.into();
    }
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    time.unwrap_or_default()
}

/// Waits as `tokio::time::sleep` does, and takes the time that the machine slept for waited.
pub async fn sleep(pause: Duration) {
    sleep_by(pause, boot_clock).await;
}

async fn sleep_by(pause: Duration, boot_clock: impl Fn() -> Duration) {
    let mut end = tokio::time::Instant::now() + pause;
    let mut watch = Watch::new(tokio::time::Instant::now().into_std(), boot_clock());
    loop {
        tokio::time::sleep_until(end.min(watch.next_look().into())).await;
        let now = tokio::time::Instant::now();
        if now >= end {
            return;
        }
        if let Some(slept) = watch.look(now.into_std(), boot_clock()) {
            // A clock that has not run for so long yet: then all is over anyway.
            end = end.checked_sub(slept).unwrap_or(now);
        }
    }
}

/// Waits until the machine has slept; gives for how long.
pub async fn woken() -> Duration {
    let now = || tokio::time::Instant::now().into_std();
    let mut watch = Watch::new(now(), boot_clock());
    loop {
        tokio::time::sleep_until(watch.next_look().into()).await;
        if let Some(slept) = watch.look(now(), boot_clock()) {
            return slept;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn sleep_is_what_only_one_clock_counts() {
        let (start, boot) = (Instant::now(), HOUR);
        let mut watch = Watch::new(start, boot);
        assert_eq!(watch.next_look(), start + SECOND);
        assert_eq!(watch.look(start + SECOND, boot + SECOND), None);
        let boot = boot + HOUR;
        assert_eq!(watch.look(start + 2 * SECOND, boot), Some(HOUR - 2 * SECOND));
        assert_eq!(watch.look(start + 3 * SECOND, boot + SECOND), None, "told once");
    }

    #[test]
    fn neither_a_stall_nor_a_clock_put_back_is_sleep() {
        let (start, boot) = (Instant::now(), HOUR);
        let mut watch = Watch::new(start, boot);
        assert_eq!(watch.look(start + HOUR, boot + HOUR), None, "the process was stopped");
        assert_eq!(watch.look(start + HOUR, boot), None);
        assert_eq!(watch.look(start + HOUR, boot + SECOND), None, "too short");
        assert_eq!(watch.look(start, boot + SECOND), None);
    }

    #[test]
    fn the_clock_goes_forward() {
        let first = boot_clock();
        assert!(first > Duration::ZERO && boot_clock() >= first);
    }

    #[tokio::test(start_paused = true)]
    async fn time_asleep_counts_as_waited() {
        let start = tokio::time::Instant::now();
        // Runs with the runtime's clock, and an hour ahead of it from the fifth second on.
        let clock = move || {
            let awake = start.elapsed();
            awake + if awake >= 5 * SECOND { HOUR } else { Duration::ZERO }
        };
        sleep_by(60 * SECOND, clock).await;
        assert_eq!(start.elapsed(), 5 * SECOND, "noticed with the first look");
        let start = tokio::time::Instant::now();
        sleep_by(60 * SECOND, || start.elapsed()).await;
        assert_eq!(start.elapsed(), 60 * SECOND);
        let (start, naps) = (tokio::time::Instant::now(), Mutex::new(0));
        let clock = || {
            let mut naps = naps.lock().expect("lock");
            *naps += 1;
            start.elapsed() + 10 * SECOND * u32::from(*naps > 1)
        };
        sleep_by(60 * SECOND, clock).await;
        assert_eq!(start.elapsed(), 50 * SECOND, "what is left is waited for");
        sleep_by(Duration::ZERO, boot_clock).await;
    }
}
