//! Lifetimes as people write them.

use std::time::Duration;

/// Longest lifetime.
const MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A number and a unit: `90s`, `15m`, `12h`, `30d`, `4w`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let rule = || "expected a number and s, m, h, d or w, such as 30d; at most 100 years".to_owned();
    let unit = text.chars().last().ok_or_else(rule)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(rule()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| rule())?;
    let duration = Duration::from_secs(u64::from(number) * seconds);
    if duration.is_zero() || duration > MAX {
        return Err(rule());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_lifetimes() {
        assert_eq!(parse("30d").unwrap().as_secs(), 30 * 86_400);
        assert_eq!(parse("90s").unwrap().as_secs(), 90);
        for bad in ["", "d", "0s", "1", "1y", "-1d", "1.5h", "99999w", "1ä"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
