//! A long text in a message, such as a block of a file, which need not be looked at by every reader of the message.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// Least length of a text that is worth the trouble, in bytes.
pub(super) const LONG: usize = 16 * 1024;

/// Where the content of the first long text of a document is, if no decoder would change it: ASCII without escapes, and no key.
/// With nothing in this place the document is valid if it is valid as it is.
pub(super) fn find(document: &[u8]) -> Option<Range<usize>> {
    if document.len() < LONG {
        return None;
    }
    let mut rest = 0;
    loop {
        let start = rest + memchr(b'"', document.get(rest..)?)? + 1;
        let mut has_escapes = false;
        let mut at = start;
        let end = loop {
            at += memchr2(b'"', b'\\', document.get(at..)?)?;
            if document[at] == b'"' {
                break at;
            }
            has_escapes = true;
            at += 2;
        };
        rest = end + 1;
        if end - start >= LONG {
            let content = &document[start..end];
            let behind = document[rest..].iter().find(|byte| !byte.is_ascii_whitespace());
            let is_plain = !has_escapes && behind != Some(&b':') && content.is_ascii() && !has_controls(content);
            return is_plain.then_some(start..end);
        }
    }
}

/// Without an early end, so that many bytes are looked at in one step.
fn has_controls(content: &[u8]) -> bool {
    content
        .chunks(1024)
        .any(|chunk| chunk.iter().fold(false, |found, byte| found | (*byte < b' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(before: &str, content: &str, behind: &str) -> bool {
        let document = [before, content, behind].concat();
        match find(document.as_bytes()) {
            None => false,
            Some(range) => {
                assert_eq!(range, before.len()..before.len() + content.len());
                true
            }
        }
    }

    #[test]
    fn a_long_text_is_found_among_others() {
        let long = "A".repeat(LONG);
        assert!(found(r#"{"a":"\\","b\"":[""#, &long, r#"","c"]}"#));
        assert!(found("\"", &long, "\""));
        assert!(!found("\"", &long[1..], "\""));
    }

    #[test]
    fn what_a_decoder_would_change_or_refuse_is_left_to_it() {
        let long = "A".repeat(LONG);
        assert!(!found("{\"", &long, "\" : 1}"), "a key");
        for odd in ["\\n", "\n", "\u{e4}", "\u{1f}", "\\\\"] {
            for content in [format!("{odd}{long}"), format!("{long}{odd}")] {
                assert!(!found("\"", &content, "\""), "{odd:?}");
            }
        }
        for broken in [
            format!("\"{long}"),
            format!("\"{long}\\"),
            format!("\"{long}\\\""),
            long,
        ] {
            assert_eq!(find(broken.as_bytes()), None);
        }
    }
}
