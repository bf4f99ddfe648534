//! Reads what a client answers to a question, in the one shape that it has.
//!
//! Derived decoders of the protocol's types also take arrays, and members that they do not know. What opens the network is
//! taken in one form only, so that nothing is read as an answer that was not meant as one.

use rendezvous_host::proxy::Verdict;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer<'a> {
    #[serde(borrow)]
    decision: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    r#type: String,
    #[serde(default, deserialize_with = "text")]
    reason: Option<String>,
}

/// A text that is there; null is none.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// Reads an answer. Nothing: it is none.
pub(super) fn read(result: &RawValue) -> Option<Verdict> {
    let answer: Answer<'_> = object(result)?;
    let decision: Decision = object(answer.decision)?;
    match (decision.r#type.as_str(), decision.reason) {
        ("allow", None) => Some(Verdict::Allow),
        ("deny", Some(reason)) => Some(Verdict::Deny(reason)),
        ("ask", Some(reason)) => Some(Verdict::Ask(reason)),
        _ => None,
    }
}

fn object<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    let text = value.get();
    text.trim_start()
        .starts_with('{')
        .then(|| serde_json::from_str(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Verdict> {
        super::read(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_documented_shape_is_an_answer() {
        assert_eq!(read(r#"{"decision":{"type":"allow"}}"#), Some(Verdict::Allow));
        assert_eq!(
            read(r#" {"decision" : {"reason":"r\u00e9","type":"deny"}}"#),
            Some(Verdict::Deny("r\u{e9}".into()))
        );
        assert_eq!(
            read(r#"{"decision":{"type":"ask","reason":"r"}}"#),
            Some(Verdict::Ask("r".into()))
        );
    }

    #[test]
    fn nothing_else_is() {
        for text in [
            "null",
            "[]",
            r#"[{"type":"allow"}]"#,
            r#"{"decision":["allow"]}"#,
            r#"["allow"]"#,
            r#"[["allow"]]"#,
            r#"{"decision":"allow"}"#,
            r#"{"decision":{"allow":{}}}"#,
            r#"{"decision":{"type":"Allow"}}"#,
            r#"{"decision":{"type":["allow"]}}"#,
            r#"{"decision":{"type":"allow","reason":"r"}}"#,
            r#"{"decision":{"type":"allow","reason":null}}"#,
            r#"{"decision":{"type":"allow","more":1}}"#,
            r#"{"decision":{"type":"allow"},"more":1}"#,
            r#"{"decision":{"type":"deny","type":"allow"}}"#,
            r#"{"decision":{"type":"deny","reason":"r"},"decision":{"type":"allow"}}"#,
            r#"{"decision":{"type":"deny"}}"#,
            r#"{"decision":{"type":"ask","reason":null}}"#,
            r#"{"decision":{"type":"deny","reason":1}}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
