//! Makes what different servers say comparable.

use serde_json::{Map, Value};

/// Members that hold times, and whether none (0) is as good: not every file system and server knows when a file was made.
const TIMES: [(&str, bool); 2] = [("createdAtMs", true), ("modifiedAtMs", false)];

/// Replaces the case's folder, UUIDs and times by names, and sorts what has no order.
pub(super) fn normal(value: Value, folder: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text_of(&text, folder)),
        Value::Array(values) => Value::Array(values.into_iter().map(|value| normal(value, folder)).collect()),
        Value::Object(members) => {
            let mut members: Map<String, Value> = members
                .into_iter()
                .map(|(name, value)| {
                    let time = TIMES.iter().find(|(time, _)| *time == name);
                    let value = match (time, value.as_i64()) {
                        (Some(_), Some(1..)) | (Some((_, true)), Some(0)) => Value::from("<time>"),
                        _ => normal(value, folder),
                    };
                    (name, value)
                })
                .collect();
            if let Some(Value::Array(entries)) = members.get_mut("entries") {
                // The entries of a directory have no order; those of a walk do, and have no `fileName`.
                entries.sort_by(|a, b| a["fileName"].as_str().cmp(&b["fileName"].as_str()));
            }
            Value::Object(members)
        }
        other => other,
    }
}

fn text_of(text: &str, folder: &str) -> String {
    uuids(&text.replace(folder, "$path"))
}

/// Replaces each UUID.
fn uuids(text: &str) -> String {
    const LEN: usize = 36;
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..LEN) {
            Some(candidate) if candidate.matches('-').count() == 4 && uuid::Uuid::try_parse(candidate).is_ok() => {
                out.push_str("<uuid>");
                rest = &rest[LEN..];
            }
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}
