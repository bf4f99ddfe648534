//! Durations and sizes as people write and read them.

use std::time::Duration;

/// Longest duration that is read: a hundred years.
const MAX_DURATION: u64 = 100 * 365 * 86_400;
const UNITS: [(char, u64); 5] = [('w', 7 * 86_400), ('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];
const SIZES: [(char, u64); 4] = [('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// Reads a whole number and a unit: `90s`, `15m`, `12h`, `2d`, `1w`; or `0`.
///
/// # Errors
///
/// What is expected instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    let seconds = number(text, &UNITS, |number| (number == 0).then_some(0));
    seconds
        .filter(|seconds| *seconds <= MAX_DURATION)
        .map(Duration::from_secs)
        .ok_or_else(|| "expected a number and s, m, h, d or w, such as 2d; at most 100 years".to_owned())
}

/// Reads a whole number of bytes, perhaps with a unit of 1024: `65536`, `64K`, `256M`, `4G`, `1T`.
///
/// # Errors
///
/// What is expected instead.
pub fn bytes(text: &str) -> Result<u64, String> {
    number(text, &SIZES, Some)
        .ok_or_else(|| "expected a number of bytes, perhaps with K, M, G or T, such as 64M".to_owned())
}

/// A number times its unit; what a number without one is, `bare` says.
fn number(text: &str, units: &[(char, u64)], bare: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    let digits = text.trim_end_matches(|end: char| units.iter().any(|(unit, _)| *unit == end));
    // No sign, and one letter at most.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    let mut unit = text[digits.len()..].chars();
    match (unit.next(), unit.next()) {
        (None, _) => bare(number),
        (Some(unit), None) => {
            let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
            number.checked_mul(*factor)
        }
        _ => None,
    }
}

/// A duration in its largest unit and the one below, rounded to that: `45s`, `1h30m`, `2d`.
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        return format!("{seconds}s");
    }
    let [_, days, hours, minutes, second] = UNITS;
    let rounded = |to: u64| (seconds + to / 2) / to * to;
    let ((unit, factor), (below, fine)) = if seconds < hours.1 {
        (minutes, second)
    } else if rounded(minutes.1) < days.1 {
        (hours, minutes)
    } else {
        (days, hours)
    };
    let rounded = rounded(fine);
    match rounded % factor / fine {
        0 => format!("{}{unit}", rounded / factor),
        rest => format!("{}{unit}{rest}{below}", rounded / factor),
    }
}

/// A size with one decimal: `512 B`, `1.5 KiB`, `64.0 MiB`.
pub fn show_bytes(bytes: u64) -> String {
    match SIZES.iter().find(|(_, factor)| bytes >= *factor) {
        None => format!("{bytes} B"),
        Some((unit, factor)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*factor);
            format!("{}.{} {unit}iB", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("90s", 90),
            ("15m", 900),
            ("12h", 43_200),
            ("2d", 172_800),
            ("1w", 604_800),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "d",
            "7",
            "-1d",
            "+1d",
            "1.5h",
            "2 d",
            "2dd",
            "1y",
            "99999999999999999999d",
            "5215w",
            "2D",
        ] {
            duration(bad).unwrap_err();
        }
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (119, "1m59s"),
            (3599, "59m59s"),
            (7199, "2h"),
            (5400, "1h30m"),
            (86_369, "23h59m"),
            (86_370, "1d"),
            (86_400, "1d"),
            (36 * 3600, "1d12h"),
            (2 * 86_400 - 5, "2d"),
            (30 * 86_400, "30d"),
        ] {
            assert_eq!(show_duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [
            ("0", 0),
            ("65536", 65_536),
            ("64K", 65_536),
            ("256M", 1 << 28),
            ("4G", 1 << 32),
            ("1T", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for bad in [
            "",
            "M",
            "64k",
            "64KB",
            "-1",
            "1.5M",
            "64 M",
            "99999999999999999999",
            "99999999999T",
        ] {
            bytes(bad).unwrap_err();
        }
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1 << 26, "64.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(show_bytes(size), text);
        }
    }
}
