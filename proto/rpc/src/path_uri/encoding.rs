//! Percent-encoding of path bytes.

/// Appends one name. Bytes that a URI parser leaves alone in a path stay as they are.
pub(super) fn encode_segment(name: &[u8], out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in name {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(char::from(*byte)),
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
            | b':' | b'@' | b'[' | b']' => out.push(char::from(*byte)),
            _ => {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

/// Undoes percent-encoding; a `%` without two digits stands for itself.
pub(super) fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let encoded = if *byte == b'%' {
            digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2)))
        } else {
            None
        };
        let value = encoded.and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        out.push(value.unwrap_or(*byte));
        at += if value.is_some() { 3 } else { 1 };
    }
    out
}

/// Whether the decoded text has a NUL.
pub(super) fn has_encoded_nul(text: &str) -> bool {
    text.contains("%00")
}
