//! Times as files hold them and people read them.

use std::time::{SystemTime, UNIX_EPOCH};

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;

/// Seconds since 1970.
pub fn now() -> u64 {
    // A clock before 1970 is as good as one at 1970.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The time as people write it, in UTC: `2026-11-30T09:41:00Z`.
pub fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().map(OffsetDateTime::from_unix_timestamp);
    time.and_then(Result::ok)
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("@{seconds}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(super::rfc3339(1_796_031_660), "2026-11-30T09:41:00Z");
        assert_eq!(super::rfc3339(u64::MAX), format!("@{}", u64::MAX));
    }
}
