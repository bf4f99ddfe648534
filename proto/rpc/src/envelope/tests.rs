use proptest::prelude::*;
use rendezvous_wire::limits::MAX_JSON_VALUES;
use serde_json::json;

use super::*;
use crate::code;

fn decode(text: &str) -> Message {
    Message::decode(text.as_bytes()).expect(text)
}

fn refused(text: &str) -> String {
    Message::decode(text.as_bytes()).expect_err(text).to_string()
}

#[test]
fn tells_the_four_shapes_apart() {
    let Message::Request(request) = decode(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":[1],"more":{}}"#) else {
        panic!("a request");
    };
    assert_eq!(request.id, RequestId::Text("a".into()));
    assert_eq!(request.params.unwrap().get(), "[1]");
    let Message::Notification(news) = decode(r#" {"method":"m\u0041"}"#) else {
        panic!("a notification");
    };
    assert_eq!((news.method.as_str(), news.params.is_none()), ("mA", true));
    let Message::Response(response) =
        decode(r#"{"id":-9223372036854775808,"result":null,"error":{"code":1,"message":""}}"#)
    else {
        panic!("a response");
    };
    assert_eq!(
        (response.id, response.result.get(), response.has_error),
        (RequestId::Integer(i64::MIN), "null", true)
    );
    let Message::Error(error) = decode(r#"{"id":3,"error":{"code":-32004,"message":"gone","data":{"a":1}}}"#) else {
        panic!("an error");
    };
    assert_eq!(error.error.code, code::NOT_FOUND);
    assert_eq!(error.error.data, Some(json!({"a": 1})));
}

#[test]
fn refuses_what_has_no_shape() {
    assert_eq!(refused("[]"), "expected a JSON-RPC object");
    assert_eq!(refused("7"), "expected a JSON-RPC object");
    assert_eq!(refused(r#"{"id":1}"#), "missing field `error`");
    assert_eq!(refused(r#"{"result":1}"#), "missing field `id`");
    assert!(refused(r#"{"id":1,"method":"m","method":"n"}"#).contains("duplicate JSON object key `method`"));
    assert!(refused(r#"{"id":1,"method":"m","params":{"a":{"b":1,"b":2}}}"#).contains("duplicate JSON object key `b`"));
    for id in ["null", "1.5", "{}", "9223372036854775808", "true"] {
        refused(&format!(r#"{{"id":{id},"method":"m"}}"#));
    }
    refused(r#"{"id":1,"method":null}"#);
    refused(r#"{"id":1,"error":{"code":"x","message":""}}"#);
    refused(r#"{"id":1,"method":"m"} {}"#);
    refused("");
}

#[test]
fn counts_values_as_stock_peers_do() {
    let message = |elements: usize| {
        format!(
            r#"{{"id":1,"method":"m","params":[{}0],"jsonrpc":"2.0"}}"#,
            "0,".repeat(elements - 1)
        )
    };
    decode(&message(MAX_JSON_VALUES - 5));
    assert_eq!(
        refused(&message(MAX_JSON_VALUES - 4)),
        "JSON-RPC message exceeds the limit of 262144 JSON values"
    );
}

#[test]
fn a_trace_has_its_shape_whatever_it_says() {
    for broken in ["5", r#"{"traceparent":5}"#, r#""00-a""#] {
        let text = format!(r#"{{"id":1,"method":"m","trace":{broken}}}"#);
        assert!(
            matches!(Message::decode(text.as_bytes()), Err(EnvelopeError::Json(_))),
            "{text}"
        );
    }
    for empty in ["null", "{}"] {
        let Message::Request(request) = decode(&format!(r#"{{"id":1,"method":"m","trace":{empty}}}"#)) else {
            panic!("no request");
        };
        assert_eq!(request.trace.unwrap_or_default(), Trace::default());
    }
    let Message::Request(request) = decode(r#"{"id":1,"method":"m","trace":{"traceparent":"00-a","tracestate":null}}"#)
    else {
        panic!("a request");
    };
    assert_eq!(request.trace.unwrap().traceparent.as_deref(), Some("00-a"));
}

#[test]
fn no_parameters_may_be_written_in_three_ways() {
    for params in ["null", "{}", "{ }"] {
        decode_params::<()>(Some(params)).expect(params);
    }
    decode_params::<()>(None).unwrap();
    let error = decode_params::<()>(Some(r#"{"x":1}"#)).unwrap_err();
    assert_eq!(error.code, code::INVALID_PARAMS);
    assert_eq!(error.message, "invalid type: map, expected unit");
}

#[test]
fn writes_compactly() {
    let mut out = Vec::new();
    write_request(&mut out, &1.into(), "m", &json!({"a": null}), None).unwrap();
    assert_eq!(out, br#"{"id":1,"method":"m","params":{"a":null}}"#);
    out.clear();
    write_notification(&mut out, "m", &()).unwrap();
    assert_eq!(out, br#"{"method":"m","params":null}"#);
    out.clear();
    write_response(&mut out, &RequestId::Text("\"".into()), &json!({})).unwrap();
    assert_eq!(out, br#"{"id":"\"","result":{}}"#);
    out.clear();
    write_error(&mut out, &UNREADABLE_ID, &RpcError::internal("no")).unwrap();
    assert_eq!(out, br#"{"error":{"code":-32603,"message":"no"},"id":-1}"#);
}

proptest! {
    #[test]
    fn never_panics(bytes: Vec<u8>) {
        let _ = Message::decode(&bytes);
    }

    #[test]
    fn requests_round_trip(id: i64, method: String, text: String, parent: Option<String>) {
        let trace = parent.map(|parent| Trace { traceparent: Some(parent), tracestate: None });
        let mut out = Vec::new();
        write_request(&mut out, &id.into(), &method, &text, trace.as_ref()).unwrap();
        let Message::Request(request) = Message::decode(&out).unwrap() else { panic!("a request") };
        prop_assert_eq!(request.id, RequestId::Integer(id));
        prop_assert_eq!(request.method, method);
        prop_assert_eq!(request.trace, trace);
        prop_assert_eq!(decode_params::<String>(request.params.as_deref()).unwrap(), text);
    }
}

#[test]
fn parameters_share_the_memory_of_their_message() {
    let message = Bytes::from_static(br#"{"id":1,"method":"m","params": {"a":"text","b":"esc\u0061ped"}}"#);
    let Message::Request(request) = Message::decode_shared(&message).unwrap() else {
        panic!("a call")
    };
    let params = request.params.unwrap();
    assert_eq!(params.get(), r#"{"a":"text","b":"esc\u0061ped"}"#);
    let part = &params.get()[6..10];
    let shared = params.share(part);
    assert_eq!((&shared[..], shared.as_ptr()), (&b"text"[..], part.as_ptr()));
    assert_eq!(&params.share("other")[..], b"other");
}
