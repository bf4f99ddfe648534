//! The channel ends at the forwarder, so the extension of the stream is its own affair: it takes the harness's offer out of
//! `initialize`, and puts the answer into the result, whatever is behind it.

use bytes::Bytes;
use rendezvous_rpc::method::initialize::RELIABLE_STREAM;
use serde_json::{Map, Value};

/// The version that we speak.
const VERSION: u64 = 1;

/// Takes the offer out of a harness's `initialize`; none if there is none, and then nothing is to be changed.
pub(super) fn take_offer(message: &[u8]) -> Option<Bytes> {
    let mut document = object(message)?;
    if document.get("method")? != "initialize" {
        return None;
    }
    let params = document.get_mut("params")?.as_object_mut()?;
    let extensions = params.get_mut("extensions")?.as_object_mut()?;
    if extensions.get(RELIABLE_STREAM)?.as_u64() != Some(VERSION) {
        return None;
    }
    extensions.remove(RELIABLE_STREAM);
    if extensions.is_empty() {
        params.remove("extensions");
    }
    bytes(&document)
}

/// Names the extension in the result of `initialize`; none if the message is no such result.
pub(super) fn put_answer(message: &[u8]) -> Option<Bytes> {
    let mut document = object(message)?;
    let result = document.get_mut("result")?.as_object_mut()?;
    let extensions = result.entry("extensions").or_insert(Value::Null);
    if extensions.is_null() {
        *extensions = Value::Object(Map::new());
    }
    extensions
        .as_object_mut()?
        .insert(RELIABLE_STREAM.to_owned(), VERSION.into());
    bytes(&document)
}

fn object(message: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(message).ok()
}

fn bytes(document: &Map<String, Value>) -> Option<Bytes> {
    serde_json::to_vec(document).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(message: Option<Bytes>) -> Option<Value> {
        Some(serde_json::from_slice(&message?).unwrap())
    }

    fn offer(value: &Value) -> Option<Value> {
        read(take_offer(value.to_string().as_bytes()))
    }

    fn answer(value: &Value) -> Option<Value> {
        read(put_answer(value.to_string().as_bytes()))
    }

    #[test]
    fn the_offer_is_taken_out_and_the_rest_stays() {
        let with = json!({"id": 1, "method": "initialize", "params":
            {"clientName": "c", "extensions": {"reliableStream": 1, "processControl": 1}}});
        let without = json!({"id": 1, "method": "initialize", "params":
            {"clientName": "c", "extensions": {"processControl": 1}}});
        assert_eq!(offer(&with), Some(without.clone()));
        assert_eq!(offer(&without), None);
        let alone = json!({"id": 1, "method": "initialize", "params": {"extensions": {"reliableStream": 1}}});
        assert_eq!(
            offer(&alone),
            Some(json!({"id": 1, "method": "initialize", "params": {}}))
        );
    }

    #[test]
    fn what_is_no_offer_is_left_alone() {
        for other in [
            json!({"id": 1, "method": "initialize", "params": {"clientName": "c"}}),
            json!({"id": 1, "method": "initialize", "params": {"extensions": null}}),
            json!({"id": 1, "method": "initialize", "params": {"extensions": {"reliableStream": 2}}}),
            json!({"id": 1, "method": "other", "params": {"extensions": {"reliableStream": 1}}}),
            json!([1]),
        ] {
            assert_eq!(offer(&other), None, "{other}");
        }
        assert_eq!(take_offer(b"nonsense"), None);
    }

    #[test]
    fn the_answer_is_put_into_results_only() {
        let named = json!({"id": 1, "result": {"sessionId": "s", "extensions": {"reliableStream": 1}}});
        for result in [
            json!({"sessionId": "s"}),
            json!({"sessionId": "s", "extensions": null}),
            json!({"sessionId": "s", "extensions": {}}),
        ] {
            assert_eq!(answer(&json!({"id": 1, "result": result})), Some(named.clone()));
        }
        for other in [
            json!({"id": 1, "error": {"code": -32600, "message": "no"}}),
            json!({"id": 1, "result": 7}),
            json!({"id": 1, "result": {"extensions": 7}}),
        ] {
            assert_eq!(answer(&other), None, "{other}");
        }
    }
}
