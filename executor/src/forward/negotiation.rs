//! The channel ends at the forwarder, so what the extensions of the channel are about is its own affair: it takes the
//! harness's offers out of `initialize`, and puts the answers into the result, whatever is behind it.

use bytes::Bytes;
use rendezvous_rpc::RequestId;
use rendezvous_rpc::method::identity::{IDENTITY, IdentityStatement};
use rendezvous_rpc::method::initialize::RELIABLE_STREAM;
use serde_json::{Map, Value};

/// The version that we speak, of each.
const VERSION: u64 = 1;

/// What a harness offers of what ends here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offered {
    /// The call whose result has the answers.
    pub(super) call: RequestId,
    /// A stream that outlives its connection.
    pub(super) reliable: bool,
    /// To be told of our key.
    pub(super) identity: bool,
}

/// Takes the offers out of a harness's `initialize`; none if there are none, and then nothing is to be changed.
pub(super) fn take_offers(message: &[u8]) -> Option<(Bytes, Offered)> {
    let mut document = object(message)?;
    if document.get("method")? != "initialize" {
        return None;
    }
    let call = serde_json::from_value(document.get("id")?.clone()).ok()?;
    let params = document.get_mut("params")?.as_object_mut()?;
    let extensions = params.get_mut("extensions")?.as_object_mut()?;
    let mut take = |name: &str| {
        let is_offered = extensions.get(name).and_then(Value::as_u64) == Some(VERSION);
        is_offered && extensions.remove(name).is_some()
    };
    let (reliable, identity) = (take(RELIABLE_STREAM), take(IDENTITY));
    if !reliable && !identity {
        return None;
    }
    let offered = Offered {
        call,
        reliable,
        identity,
    };
    if extensions.is_empty() {
        params.remove("extensions");
    }
    Some((bytes(&document)?, offered))
}

/// Answers offers in the result of `initialize`; none if that has no place for them.
pub(super) fn put_answers(message: &[u8], reliable: bool, statement: Option<&IdentityStatement>) -> Option<Bytes> {
    let mut document = object(message)?;
    let result = document.get_mut("result")?.as_object_mut()?;
    let extensions = result.entry("extensions").or_insert(Value::Null);
    if extensions.is_null() {
        *extensions = Value::Object(Map::new());
    }
    let extensions = extensions.as_object_mut()?;
    if reliable {
        extensions.insert(RELIABLE_STREAM.to_owned(), VERSION.into());
    }
    if let Some(statement) = statement {
        extensions.insert(IDENTITY.to_owned(), serde_json::to_value(statement).ok()?);
    }
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
    use rendezvous_wire::key::PublicKey;
    use serde_json::json;

    use super::*;

    fn read(message: &[u8]) -> Value {
        serde_json::from_slice(message).unwrap()
    }

    fn offers(value: &Value) -> Option<(Value, bool, bool)> {
        let (message, offered) = take_offers(value.to_string().as_bytes())?;
        Some((read(&message), offered.reliable, offered.identity))
    }

    fn answers(value: &Value, reliable: bool, statement: Option<&IdentityStatement>) -> Option<Value> {
        put_answers(value.to_string().as_bytes(), reliable, statement).map(|message| read(&message))
    }

    fn statement() -> IdentityStatement {
        let key = PublicKey {
            x25519: [1; 32],
            mlkem768: Box::new([2; 1184]),
        };
        IdentityStatement::new(key, true)
    }

    #[test]
    fn the_offers_are_taken_out_and_the_rest_stays() {
        let with = |extensions: Value| json!({"id": 1, "method": "initialize", "params": {"clientName": "c", "extensions": extensions}});
        let rest = with(json!({"processControl": 1}));
        for (offered, reliable, identity) in [
            (json!({"reliableStream": 1, "processControl": 1}), true, false),
            (json!({"identity": 1, "processControl": 1}), false, true),
            (
                json!({"identity": 1, "reliableStream": 1, "processControl": 1}),
                true,
                true,
            ),
        ] {
            assert_eq!(offers(&with(offered)), Some((rest.clone(), reliable, identity)));
        }
        assert_eq!(offers(&rest), None);
        let alone = json!({"id": 1, "method": "initialize", "params": {"extensions": {"reliableStream": 1}}});
        let nothing = json!({"id": 1, "method": "initialize", "params": {}});
        assert_eq!(offers(&alone), Some((nothing, true, false)));
        let another_version = with(json!({"identity": 2, "processControl": 1}));
        let mixed = with(json!({"identity": 2, "reliableStream": 1, "processControl": 1}));
        assert_eq!(offers(&mixed), Some((another_version, true, false)));
    }

    #[test]
    fn what_is_no_offer_is_left_alone() {
        for other in [
            json!({"id": 1, "method": "initialize", "params": {"clientName": "c"}}),
            json!({"id": 1, "method": "initialize", "params": {"extensions": null}}),
            json!({"id": 1, "method": "initialize", "params": {"extensions": {"reliableStream": 2}}}),
            json!({"method": "initialize", "params": {"extensions": {"reliableStream": 1, "identity": 1}}}),
            json!({"id": 1, "method": "other", "params": {"extensions": {"reliableStream": 1, "identity": 1}}}),
            json!([1]),
        ] {
            assert_eq!(offers(&other), None, "{other}");
        }
        assert_eq!(take_offers(b"nonsense"), None);
    }

    #[test]
    fn the_answers_are_put_into_results_only() {
        let statement = statement();
        let named = |extensions: Value| json!({"id": 1, "result": {"sessionId": "s", "extensions": extensions}});
        for result in [
            json!({"sessionId": "s"}),
            json!({"sessionId": "s", "extensions": null}),
            json!({"sessionId": "s", "extensions": {}}),
            // Whoever is behind us has no say in who we are.
            json!({"sessionId": "s", "extensions": {"identity": {"version": 1, "persistent": false}}}),
        ] {
            let result = json!({"id": 1, "result": result});
            let both = named(json!({"reliableStream": 1, "identity": statement}));
            assert_eq!(answers(&result, true, Some(&statement)), Some(both));
            let one = named(json!({"identity": statement}));
            assert_eq!(answers(&result, false, Some(&statement)), Some(one));
        }
        let plain = json!({"id": 1, "result": {"sessionId": "s"}});
        let one = named(json!({"reliableStream": 1}));
        assert_eq!(answers(&plain, true, None), Some(one));
        for other in [
            json!({"id": 1, "error": {"code": -32600, "message": "no"}}),
            json!({"id": 1, "result": 7}),
            json!({"id": 1, "result": ["s", null, {}]}),
            json!({"id": 1, "result": {"extensions": 7}}),
        ] {
            assert_eq!(answers(&other, true, Some(&statement)), None, "{other}");
        }
    }
}
