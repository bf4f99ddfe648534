//! Text from outside, made fit to show.

/// At most `limit` characters, without control characters and line breaks.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control() && !is_format(*c))
        .take(limit)
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Characters that change how the text around them looks: direction marks, zero width characters, the byte order mark.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn strips_and_cuts() {
        assert_eq!(clean(" a\r\nb\u{1b}[31m\u{202e}c\u{0} ", 100), "a  b[31mc");
        assert_eq!(clean("äöü", 2), "äö");
        assert_eq!(clean(&"x".repeat(1000), 10), "xxxxxxxxxx");
    }
}
