//! What is a message, and what an unreadable one leads to.

use super::script::Step::{Call, Ends, Made, Raw, Send};
use super::script::{Case, case, raw};

pub(super) const CASES: &[Case] = &[
    raw("unfinished", &[Raw("{"), Raw(r#"{"id":1,"method":"#)]),
    raw(
        "other_top_levels",
        &[
            Raw("[]"),
            Raw("7"),
            Raw("null"),
            Raw("true"),
            Raw(r#""text""#),
            Raw("[{}]"),
        ],
    ),
    raw("trailing_data", &[Raw("{} {}"), Raw(r#"{"id":1,"method":"none"} x"#)]),
    raw("white_space_around", &[Raw(" \t{\"id\":1,\"method\":\"none\"} \r")]),
    raw(
        "no_json",
        &[
            Raw("{'id':1}"),
            Raw("{id:1}"),
            Raw(r#"{"id":01,"method":"none"}"#),
            Raw("\u{feff}{}"),
        ],
    ),
    raw(
        "ids",
        &[
            Raw(r#"{"id":0,"method":"none"}"#),
            Raw(r#"{"id":-5,"method":"none"}"#),
            Raw(r#"{"id":9223372036854775807,"method":"none"}"#),
            Raw(r#"{"id":-9223372036854775808,"method":"none"}"#),
            Raw(r#"{"id":"text","method":"none"}"#),
            Raw(r#"{"id":"","method":"none"}"#),
            Raw(r#"{"id":"\u00e9\n","method":"none"}"#),
        ],
    ),
    raw(
        "refused_ids",
        &[
            Raw(r#"{"id":9223372036854775808,"method":"none"}"#),
            Raw(r#"{"id":1.5,"method":"none"}"#),
            Raw(r#"{"id":1.0,"method":"none"}"#),
            Raw(r#"{"id":1e0,"method":"none"}"#),
            Raw(r#"{"id":null,"method":"none"}"#),
            Raw(r#"{"id":true,"method":"none"}"#),
            Raw(r#"{"id":[1],"method":"none"}"#),
            Raw(r#"{"id":{},"method":"none"}"#),
        ],
    ),
    raw(
        "duplicate_keys",
        &[
            Raw(r#"{"id":1,"id":1,"method":"none"}"#),
            Raw(r#"{"id":1,"method":"none","method":"none"}"#),
            Raw(r#"{"id":1,"method":"none","params":{"a":1,"a":1}}"#),
            Raw(r#"{"id":1,"method":"none","params":[{"a":{"b":1,"\u0062":2}}]}"#),
            Raw(r#"{"id":1,"method":"none","x":1,"x":2}"#),
            Raw(r#"{"id":1,"method":"none","x":{"y":1,"y":2}}"#),
        ],
    ),
    raw(
        "no_message",
        &[
            Raw("{}"),
            Raw(r#"{"id":1}"#),
            Raw(r#"{"id":1,"params":{}}"#),
            Raw(r#"{"id":1,"error":{}}"#),
            Raw(r#"{"id":1,"error":null}"#),
            Raw(r#"{"id":1,"error":{"code":1}}"#),
            Raw(r#"{"id":1,"error":{"code":"x","message":"m"}}"#),
            Raw(r#"{"result":1}"#),
            Raw(r#"{"error":{"code":1,"message":"m"}}"#),
        ],
    ),
    raw(
        "methods",
        &[
            Raw(r#"{"id":1,"method":""}"#),
            Raw(r#"{"id":1,"method":5}"#),
            Raw(r#"{"id":1,"method":null}"#),
            Raw(r#"{"id":1,"method":["none"]}"#),
            Raw(r#"{"id":1,"method":"Initialize","params":{"clientName":"x"}}"#),
            Raw(r#"{"id":1,"method":"initialized"}"#),
        ],
    ),
    raw(
        "unknown_members",
        &[Raw(r#"{"jsonrpc":"2.0","id":1,"method":"none","more":{"a":[1]}}"#)],
    ),
    raw("method_and_result", &[Raw(r#"{"id":1,"method":"none","result":{}}"#)]),
    raw(
        "trace",
        &[
            Raw(
                r#"{"id":1,"method":"none","trace":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}"#,
            ),
            Raw(r#"{"id":2,"method":"none","trace":{"traceparent":"nonsense","tracestate":"x"}}"#),
            Raw(r#"{"id":3,"method":"none","trace":{}}"#),
            Raw(r#"{"id":4,"method":"none","trace":null}"#),
        ],
    ),
    raw(
        "odd_trace",
        &[
            Raw(r#"{"id":1,"method":"none","trace":5}"#),
            Raw(r#"{"id":2,"method":"none","trace":{"traceparent":5}}"#),
            Raw(r#"{"id":3,"method":"none","trace":{"traceparent":null,"tracestate":null}}"#),
        ],
    ),
    case("values_at_the_limit", &[Made(|| numbers(262_140))]),
    case("values_beyond_the_limit", &[Made(|| numbers(262_141))]),
    case("long_text", &[Made(|| text(8 << 20))]),
    case("frame_of_20_mib", &[Made(|| text(20 << 20))]).websocket(),
    case("deep", &[Made(|| nested(100)), Made(|| nested(126))]),
    case(
        "too_deep",
        &[Made(|| nested(127)), Made(|| nested(200)), Made(|| nested(100_000))],
    ),
    raw(
        "numbers",
        &[
            Raw(r#"{"id":1,"method":"none","params":[1e400,-1e400,123456789012345678901234567890,0.1e-400]}"#),
            Raw(r#"{"id":1,"method":"none","params":[-0,1E5,0.5]}"#),
            Raw(r#"{"id":1,"method":"none","params":[NaN]}"#),
        ],
    ),
    raw(
        "texts",
        &[
            Raw(r#"{"id":1,"method":"none","params":"\u0000\ud83d\ude00"}"#),
            Raw(r#"{"id":1,"method":"none","params":"\ud800"}"#),
            Raw("{\"id\":1,\"method\":\"none\",\"params\":\"\u{1}\"}"),
        ],
    ),
    raw(
        "names_that_decoders_use",
        &[
            Raw(r#"{"id":1,"method":"none","params":{"$serde_json::private::RawValue":"[1"}}"#),
            Raw(r#"{"id":1,"method":"none","params":{"$serde_json::private::Number":"1x"}}"#),
            Raw(r#"{"$serde_json::private::RawValue":"{\"id\":1,\"method\":\"none\"}"}"#),
        ],
    ),
    raw("answers_nobody_asked_for", &[Send(r#"{"id":1,"result":null}"#), Ends]),
    raw(
        "errors_nobody_asked_for",
        &[Send(r#"{"id":1,"error":{"code":1,"message":"m"}}"#), Ends],
    ),
    case("answer_after_the_handshake", &[Send(r#"{"id":1,"result":{}}"#), Ends]),
    case("unknown_notification", &[Send(r#"{"method":"unknown"}"#), Ends]),
    raw("unknown_notification_first", &[Send(r#"{"method":"unknown"}"#), Ends]),
    case(
        "a_call_as_a_notification",
        &[Send(r#"{"method":"environment/status"}"#), Ends],
    ),
    case(
        "news_from_the_client",
        &[Send(r#"{"method":"process/closed","params":{}}"#), Ends],
    ),
    case(
        "what_follows_an_unreadable_message",
        &[Raw("{"), Call("environment/status", "")],
    ),
    case(
        "unknown_methods",
        &[
            Raw(r#"{"id":1,"method":"none"}"#),
            Raw(r#"{"id":2,"method":"process/resize","params":{"processId":"p","rows":1,"cols":1}}"#),
            Raw(r#"{"id":3,"method":"process/closeStdin","params":{"processId":"p"}}"#),
            Raw(r#"{"id":4,"method":"fs/rename","params":{}}"#),
            Raw(r#"{"id":5,"method":"fs/watch","params":{}}"#),
            Raw(r#"{"id":6,"method":"environment","params":{}}"#),
            Raw(r#"{"id":7,"method":"capabilityRoots/discoverV2","params":{"roots":[]}}"#),
        ],
    ),
    case(
        "no_parameters",
        &[
            Call("environment/status", ""),
            Call("environment/status", "null"),
            Call("environment/status", "{}"),
            Call("environment/status", "{ }"),
            Call("environment/status", r#"{"x":1}"#),
            Call("environment/status", "[]"),
            Call("environment/status", "[1]"),
            Call("environment/status", "5"),
            Call("environment/status", "false"),
            Call("environment/status", r#""text""#),
        ],
    ),
    case(
        "parameters_as_a_list",
        &[
            Call("process/terminate", r#"["p"]"#),
            Call("process/signal", r#"["p","interrupt"]"#),
            Call("fs/canonicalize", r#"["file:///etc"]"#),
            Call("fs/close", r#"["h"]"#),
        ],
    ),
];

/// A call whose parameters are a list of so many numbers, 4 values beside them.
fn numbers(count: usize) -> Vec<u8> {
    let mut message = br#"{"id":1,"method":"none","params":["#.to_vec();
    message.extend_from_slice("0,".repeat(count - 1).as_bytes());
    message.extend_from_slice(b"0]}");
    message
}

/// A call with one long text.
fn text(len: usize) -> Vec<u8> {
    format!(r#"{{"id":1,"method":"none","params":"{}"}}"#, "x".repeat(len)).into_bytes()
}

/// A call whose parameters are lists in lists, so deep.
fn nested(depth: usize) -> Vec<u8> {
    format!(
        r#"{{"id":1,"method":"none","params":{}{}}}"#,
        "[".repeat(depth),
        "]".repeat(depth)
    )
    .into_bytes()
}
