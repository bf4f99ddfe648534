//! Messages that carry bytes, written and read in one pass.

use super::OutputStream;
use crate::base64::Base64;
use crate::event::ProcessEvent;

/// Appends a whole `process/output` message to `out`: the bytes go straight from `chunk` into base64.
///
/// # Errors
///
/// When `process_id` cannot be written as JSON, which no text causes.
pub fn write_output(
    out: &mut Vec<u8>,
    process_id: &str,
    seq: u64,
    stream: OutputStream,
    chunk: &[u8],
) -> serde_json::Result<()> {
    out.reserve(chunk.len().div_ceil(3) * 4 + process_id.len() + 128);
    out.extend_from_slice(br#"{"method":"process/output","params":{"processId":"#);
    serde_json::to_writer(&mut *out, process_id)?;
    out.extend_from_slice(br#","seq":"#);
    serde_json::to_writer(&mut *out, &seq)?;
    out.extend_from_slice(br#","stream":""#);
    out.extend_from_slice(stream.as_str().as_bytes());
    out.extend_from_slice(br#"","chunk":""#);
    Base64::encode_into(chunk, out);
    out.extend_from_slice(br#""}}"#);
    Ok(())
}

/// A `process/output` message in the exact form that [`write_output`] and stock executors write.
///
/// Output is most of what a client receives. This form is read in one pass, without the general reader; any other form
/// is left to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputFrame<'a> {
    /// Which process.
    pub process_id: &'a str,
    seq: u64,
    stream: OutputStream,
    chunk: &'a [u8],
}

impl<'a> OutputFrame<'a> {
    /// Recognises the form; none when the message is anything else.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let rest = message.strip_prefix(br#"{"method":"process/output","params":{"processId":""#)?;
        let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let process_id = std::str::from_utf8(&rest[..end]).ok()?;
        let rest = rest[end..].strip_prefix(br#"","seq":"#)?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let digits = std::str::from_utf8(&rest[..end]).ok()?;
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        let seq = digits.parse().ok()?;
        let rest = rest[end..].strip_prefix(br#","stream":""#)?;
        let (stream, rest) = if let Some(rest) = rest.strip_prefix(b"stdout") {
            (OutputStream::Stdout, rest)
        } else if let Some(rest) = rest.strip_prefix(b"stderr") {
            (OutputStream::Stderr, rest)
        } else {
            (OutputStream::Pty, rest.strip_prefix(b"pty")?)
        };
        let chunk = rest.strip_prefix(br#"","chunk":""#)?.strip_suffix(br#""}}"#)?;
        Some(Self {
            process_id,
            seq,
            stream,
            chunk,
        })
    }

    /// The number and the event; none when the chunk is no base64, so that the general reader must judge the message.
    pub fn decode(&self) -> Option<(u64, ProcessEvent)> {
        let event = ProcessEvent::Output {
            stream: self.stream,
            bytes: Base64::decode(self.chunk)?.0,
        };
        Some((self.seq, event))
    }
}

#[cfg(test)]
mod tests {
    use super::super::OutputParams;
    use super::*;
    use crate::envelope::{Message, decode_params};
    use ProcessEvent;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_readers_agree_on_output(
            id in "([a-z0-9-]|\\PC){0,8}",
            seq: u64,
            kind in 0..3,
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let stream = [OutputStream::Stdout, OutputStream::Stderr, OutputStream::Pty][kind as usize];
            let mut text = Vec::new();
            write_output(&mut text, &id, seq, stream, &bytes).unwrap();
            let Message::Notification(news) = Message::decode(&text).unwrap() else { panic!("news") };
            let params: OutputParams = decode_params(news.params.as_deref()).unwrap();
            prop_assert_eq!((&params.process_id, params.seq, params.stream), (&id, seq, stream));
            prop_assert_eq!(&params.chunk.0[..], &bytes[..]);
            match OutputFrame::parse(&text) {
                Some(frame) => {
                    prop_assert_eq!(frame.process_id, id);
                    let event = ProcessEvent::Output { stream, bytes: bytes.into() };
                    prop_assert_eq!(frame.decode().unwrap(), (seq, event));
                }
                None => prop_assert!(id.contains(['"', '\\']) || id.chars().any(char::is_control)),
            }
        }
    }

    #[test]
    fn other_forms_are_left_to_the_general_reader() {
        let good = r#"{"method":"process/output","params":{"processId":"p","seq":1,"stream":"pty","chunk":"YQ=="}}"#;
        assert!(OutputFrame::parse(good.as_bytes()).is_some());
        for (from, to) in [
            ("\"seq\":1", "\"seq\":01"),
            ("\"seq\":1", "\"seq\":-1"),
            ("\"seq\":1", "\"seq\":99999999999999999999"),
            ("pty", "tty"),
            ("\"p\"", "\"\\u0070\""),
            ("}}", "} }"),
            ("\"seq\"", " \"seq\""),
            ("process/output", "process/closed"),
        ] {
            assert_eq!(OutputFrame::parse(good.replacen(from, to, 1).as_bytes()), None, "{to}");
        }
        let smuggled = good.replace("YQ==", r#"YQ==","x":"YQ=="#);
        assert_eq!(OutputFrame::parse(smuggled.as_bytes()).unwrap().decode(), None);
    }
}
