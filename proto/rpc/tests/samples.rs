//! Messages of stock peers, recorded, through the types.

use rendezvous_rpc::Message;
use rendezvous_rpc::envelope::{decode_params, write_error, write_notification, write_request, write_response};
use rendezvous_rpc::method::initialize::{Initialize, Initialized};
use rendezvous_rpc::method::{Method, Notification, environment, fs, process};
use serde_json::Value;

const SAMPLES: [&str; 2] = [
    include_str!("samples/stock-0.145.0.jsonl"),
    include_str!("samples/stock-0.171.0.jsonl"),
];

/// Members that the types leave to newer peers.
const UNKNOWN: [&str; 8] = [
    "providerId",
    "networkProxyReviewDomains",
    "networkProxyTransparentTcp",
    "credentialMasking",
    "credentialMaskingCustomProviders",
    "capabilityDiscoveryV2",
    "linuxRootWritePreservesDevices",
    "linuxApprovedRootWritePreservesRestrictions",
];

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Params,
    Result,
    News,
}

/// Decodes and encodes a part of a message; none for a method outside the contract.
fn through_type(method: &str, part: Part, raw: &str) -> Option<Value> {
    macro_rules! calls {
        ($($call:ty),*) => {
            $(if part != Part::News && method == <$call as Method>::NAME {
                return Some(match part {
                    Part::Result => {
                        let result: <$call as Method>::Result = serde_json::from_str(raw).expect(method);
                        serde_json::to_value(result).expect("encodes")
                    }
                    _ => {
                        let params: <$call as Method>::Params = decode_params(Some(raw)).expect(method);
                        serde_json::to_value(params).expect("encodes")
                    }
                });
            })*
        };
    }
    macro_rules! news {
        ($($news:ty),*) => {
            $(if part == Part::News && method == <$news as Notification>::NAME {
                let params: <$news as Notification>::Params = decode_params(Some(raw)).expect(method);
                return Some(serde_json::to_value(params).expect("encodes"));
            })*
        };
    }
    calls!(
        Initialize,
        environment::Info,
        environment::Status,
        process::Start,
        process::Read,
        process::Write,
        process::SignalProcess,
        process::Terminate,
        fs::ReadFile,
        fs::WriteFile,
        fs::CreateDirectory,
        fs::GetMetadata,
        fs::Canonicalize,
        fs::Walk,
        fs::Remove,
        fs::WatchMissing
    );
    news!(
        Initialized,
        process::Output,
        process::Exited,
        process::Closed,
        fs::MissingChanged
    );
    None
}

/// Drops what may be absent: nulls, false flags, members that the types do not know.
fn essence(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(key, value)| !value.is_null() && *value != Value::Bool(false) && !UNKNOWN.contains(&key.as_str()))
            .map(|(key, value)| (key, essence(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(essence).collect(),
        // The recording cut a path in the middle of its authority.
        Value::String(text) if text.starts_with("file:/C") => Value::String(text.replace("file:/C", "file:///C")),
        other => other,
    }
}

#[test]
fn recorded_messages_survive_the_types() {
    let mut typed = 0;
    for line in SAMPLES.iter().flat_map(|sample| sample.lines()) {
        let sample: Value = serde_json::from_str(line).expect(line);
        let text = sample["msg"].to_string();
        let method_of_reply = sample["of"].as_str().unwrap_or_default();
        let mut again = Vec::new();
        let checked = match Message::decode(text.as_bytes()).expect(line) {
            Message::Request(request) => {
                let params = request.params.as_ref().expect(line);
                write_request(&mut again, &request.id, &request.method, params, None).expect("encodes");
                Some((
                    through_type(&request.method, Part::Params, params),
                    request.method,
                    "params",
                ))
            }
            Message::Notification(news) => {
                let params = news.params.as_ref().expect(line);
                write_notification(&mut again, &news.method, params).expect("encodes");
                Some((through_type(&news.method, Part::News, params), news.method, "params"))
            }
            Message::Response(response) => {
                write_response(&mut again, &response.id, &response.result).expect("encodes");
                let typed = through_type(method_of_reply, Part::Result, response.result.get());
                Some((typed, method_of_reply.to_owned(), "result"))
            }
            Message::Error(error) => {
                write_error(&mut again, &error.id, &error.error).expect("encodes");
                None
            }
        };
        let again: Value = serde_json::from_slice(&again).expect("JSON");
        assert_eq!(again, sample["msg"], "{line}");
        match checked {
            Some((Some(value), _, member)) => {
                assert_eq!(essence(value), essence(sample["msg"][member].clone()), "{line}");
                typed += 1;
            }
            Some((None, method, _)) => assert_eq!(method, "environmentConfig/read", "{line}"),
            None => {}
        }
    }
    assert!(typed > 60, "only {typed} messages went through a type");
}
