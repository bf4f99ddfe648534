//! Assertions whose messages show what was there instead.

use anyhow::{Result, ensure};

/// Most of a text that a message shows.
const SHOWN: usize = 2000;

/// `text` holds `part`.
pub(crate) fn contains(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "`{part}` is missing in: {}", shorten(text));
    Ok(())
}

/// `text` holds `part` exactly once.
pub(crate) fn once(text: &str, part: &str) -> Result<()> {
    let count = text.matches(part).count();
    ensure!(
        count == 1,
        "`{part}` is there {count} times, not once, in: {}",
        shorten(text)
    );
    Ok(())
}

/// `text` does not hold `part`.
pub(crate) fn lacks(text: &str, part: &str) -> Result<()> {
    ensure!(!text.contains(part), "`{part}` is in: {}", shorten(text));
    Ok(())
}

/// The numbered lines `line-1`, `line-2`, … up to the number that `last-N` names: each once, in order.
pub(crate) fn complete_lines(text: &str) -> Result<()> {
    let mut expected = 1;
    let mut last = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(number) = line.strip_prefix("line-") {
            ensure!(
                number == expected.to_string(),
                "line {expected} is missing, line {number} came instead, in: {}",
                shorten(text)
            );
            expected += 1;
        } else if let Some(number) = line.strip_prefix("last-") {
            last = Some(number.to_owned());
        }
    }
    let last = last.unwrap_or_else(|| "nothing".into());
    ensure!(
        last == (expected - 1).to_string(),
        "{} lines came, the command wrote {last}, in: {}",
        expected - 1,
        shorten(text)
    );
    ensure!(expected > 2, "the command wrote less than two lines: {}", shorten(text));
    Ok(())
}

fn shorten(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
