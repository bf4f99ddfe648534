//! Text from elsewhere, made safe to show.

/// Most characters of one line that are shown.
const MAX_SHOWN: usize = 4096;

/// Text as one line that a terminal only shows: whatever would control it is escaped. Long text is cut.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MAX_SHOWN {
            line.push('…');
            break;
        }
        if is_control(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// JSON text that a terminal only shows: the same document, as control characters stand only inside its strings.
pub(crate) fn json_line(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control(c) {
            // All of them have four digits.
            line.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            line.push(c);
        }
    }
    line
}

/// Also what changes the order or the lines of the text around it.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped() {
        assert_eq!(one_line("a\u{1b}[2Jb\r\nharness: ok"), r"a\u{1b}[2Jb\r\nharness: ok");
        assert_eq!(one_line("\u{9b}31m \u{7f} \u{202e}x"), r"\u{9b}31m \u{7f} \u{202e}x");
        assert_eq!(one_line("grün 日本 …"), "grün 日本 …");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(one_line(&"ü".repeat(MAX_SHOWN)), "ü".repeat(MAX_SHOWN));
        assert_eq!(one_line(&"\n".repeat(1_000_000)), "\\n".repeat(MAX_SHOWN) + "…");
    }

    #[test]
    fn json_stays_the_same_document() {
        let value = serde_json::json!({"a\u{9b}": "\u{202e}\u{1b}\n\u{7f}"});
        let line = json_line(&value.to_string());
        assert!(!line.contains(is_control), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }
}
