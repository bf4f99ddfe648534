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

/// Documents around a text that is long enough to be passed by.
fn around(long: &str) -> Vec<String> {
    [
        r#"{"id":1,"method":"m","params":{"data":"L"}}"#,
        r#" {"params" : { "a":"\"\\" , "data" : "L" , "z":[1,"b"]} , "method":"m","id":"x", "trace":{} } "#,
        r#"{"method":"m","params":["x",{"y":"L"}]}"#,
        r#"{"method":"m","params":"L"}"#,
        r#"{"id":1,"method":"m","params":{"data":"L","other":"L"}}"#,
        r#"{"id":1,"method":"m","params":{"L":"L"}}"#,
        r#"{"id":1,"method":"m","params":{"data":"LL"},"more":"L"}"#,
        r#"{"id":1,"method":"m","more":"L","params":{"data":"L"}}"#,
        r#"{"id":"L","method":"m","params":{}}"#,
        r#"{"id":1,"method":"L","params":null}"#,
        r#"{"id":1,"result":"L"}"#,
        r#"{"id":1,"error":{"code":1,"message":"L"}}"#,
        r#"{"id":1,"method":"m","params":{"data":"L","data":1}}"#,
        r#"{"id":1,"method":"m","params":{"data":"L","":1,"":2}}"#,
        r#"{"id":1,"method":"m","params":{"data":"L"}"#,
        r#"{"id":1,"method":"m","params":{"data":"L"}} x"#,
        r#"{"id":1,"method":"m","params":{"data":"L"},}"#,
        r#"{"id":1,"method":"m","params":{\"data":"L"}}"#,
        r#"{"id":1,"method":"m","params":{"data" "L"}}"#,
        r#""L""#,
    ]
    .map(|document| document.replace('L', long))
    .into()
}

#[test]
fn what_is_passed_by_changes_nothing() {
    let shown = |decoded: Result<Message, EnvelopeError>| match decoded {
        Ok(message) => format!("{message:?}"),
        Err(error) => error.to_string(),
    };
    for long in ["A".repeat(long_text::LONG), "A\\n".repeat(long_text::LONG)] {
        for document in around(&long) {
            let plain = Message::decode_document(document.as_bytes(), |params| {
                Some(Params::new(Bytes::copy_from_slice(params.as_bytes())))
            });
            let shared = Message::decode_shared(&document.clone().into());
            let brief = document.replace(&long, "L");
            assert!(shown(plain) == shown(shared), "{brief}");
        }
    }
}

#[derive(Deserialize)]
struct Long<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(default)]
    a: String,
}

#[test]
fn a_long_member_is_passed_by_and_shares_the_memory_of_its_message() {
    let long = "A".repeat(long_text::LONG);
    let mut passed = 0;
    for document in around(&long) {
        let message: Bytes = document.into();
        let Ok(Message::Request(request)) = Message::decode_shared(&message) else {
            continue;
        };
        let params = request.params.as_ref();
        let Ok(decoded) = decode_params_around(params, |long: &Long<'_>| &long.data) else {
            continue;
        };
        passed += usize::from(decoded.data.is_empty());
        let data = params.unwrap().share(&decoded.data);
        assert!(data.iter().all(|byte| *byte == b'A') && data.len() >= long.len());
        let whole = message.as_ptr_range();
        assert!(whole.start <= data.as_ptr() && data.as_ptr_range().end <= whole.end);
        assert!(decoded.a.is_empty() || decoded.a == "\"\\");
    }
    assert_eq!(passed, 4);
}

#[test]
fn a_long_member_that_is_not_the_expected_one_is_there() {
    let long = "A".repeat(long_text::LONG);
    let message: Bytes = format!(r#"{{"id":1,"method":"m","params":{{"a":"{long}","data":""}}}}"#).into();
    let Ok(Message::Request(request)) = Message::decode_shared(&message) else {
        panic!("a request")
    };
    let params = request.params.as_ref();
    let decoded = decode_params_around(params, |long: &Long<'_>| &long.data).unwrap();
    assert_eq!((&*decoded.data, &*decoded.a), ("", &*long));
    assert_eq!(params.unwrap().share(&decoded.data), "");
    assert!(decode_params_around(None, |long: &Long<'_>| &long.data).is_err());
}
