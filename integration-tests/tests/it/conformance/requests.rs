//! `http/request`.

use super::script::Step::{Begin, Body, Call, Exact, Reconnect, Replies, Resume};
use super::script::{Case, case, raw};

const METHOD: &str = "http/request";

pub(super) const CASES: &[Case] = &[
    raw(
        "before_initialize",
        &[Exact(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r"}"#)],
    ),
    case(
        "whole",
        &[
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo?a=b&c#fragment","requestId":"r","headers":[]}"#),
            Call(
                METHOD,
                r#"{"method":"POST","url":"$web/echo","requestId":"r","headers":[{"name":"X-A","value":"1"},{"name":"x-b","value":""},{"name":"X-a","value":"2"}],"bodyBase64":"Ym9keQ=="}"#,
            ),
            Call(METHOD, r#"{"method":"PUT","url":"$web/echo","requestId":"r","bodyBase64":""}"#),
            Call(METHOD, r#"{"method":"DELETE","url":"$web/echo","requestId":"","bodyBase64":null,"timeoutMs":null}"#),
            Call(METHOD, r#"{"method":"HEAD","url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"get","url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"MADE-UP","url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/binary","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/empty","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/error","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/chunked","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","more":1}"#),
        ],
    ),
    case(
        "packed",
        &[Call(METHOD, r#"{"method":"GET","url":"$web/packed","requestId":"r"}"#)],
    ),
    case(
        "refused",
        &[
            Call(METHOD, "{}"),
            Call(METHOD, r#"{"url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":5}"#),
            Call(METHOD, r#"{"method":"","url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"G T","url":"$web/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"/echo","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"http://","requestId":"r"}"#),
            Exact(METHOD, r#"{"method":"GET","url":"ftp://127.0.0.1/","requestId":"r"}"#),
            Exact(METHOD, r#"{"method":"GET","url":"file:///etc/hostname","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":{}}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"a b","value":"x"}]}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"","value":"x"}]}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"a","value":"x\ny"}]}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"a"}]}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","bodyBase64":"*"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","timeoutMs":-1}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","timeoutMs":1.5}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","redirectPolicy":"none"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/echo","requestId":"r","streamResponse":"yes"}"#),
            Call("environment/status", ""),
        ],
    ),
    case(
        "redirects",
        &[
            Call(METHOD, r#"{"method":"POST","url":"$web/found","requestId":"r","bodyBase64":"Ym9keQ=="}"#),
            Call(METHOD, r#"{"method":"POST","url":"$web/kept","requestId":"r","bodyBase64":"Ym9keQ=="}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/found","requestId":"r","redirectPolicy":"follow"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/found","requestId":"r","redirectPolicy":"stop"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/circle","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/circle","requestId":"r","redirectPolicy":"stop"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/elsewhere","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/nowhere","requestId":"r"}"#),
        ],
    ),
    case(
        "failures",
        &[
            Call(METHOD, r#"{"method":"GET","url":"http://127.0.0.1:1/","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"http://name.invalid/","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/short","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/garbage","requestId":"r"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/silent","requestId":"r","timeoutMs":50}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/stuck","requestId":"r","timeoutMs":50}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/silent","requestId":"r","timeoutMs":0}"#),
            Call("environment/status", ""),
        ],
    ),
    // No name twice: a stock executor may still hold one when it has told the end of its stream.
    case(
        "streamed",
        &[
            Call(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"a","streamResponse":true}"#),
            Body("a"),
            Call(METHOD, r#"{"method":"GET","url":"$web/large","requestId":"b","streamResponse":true}"#),
            Body("b"),
            Call(METHOD, r#"{"method":"GET","url":"$web/empty","requestId":"c","streamResponse":true}"#),
            Body("c"),
            Call(METHOD, r#"{"method":"GET","url":"$web/chunked","requestId":"","streamResponse":true}"#),
            Body(""),
            Call(METHOD, r#"{"method":"GET","url":"$web/found","requestId":"d","streamResponse":true}"#),
            Body("d"),
            Call(
                METHOD,
                r#"{"method":"GET","url":"$web/found","requestId":"e","streamResponse":true,"redirectPolicy":"stop"}"#,
            ),
            Body("e"),
            Call(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"f","streamResponse":false}"#),
        ],
    ),
    case(
        "streams_that_break_off",
        &[
            Call(METHOD, r#"{"method":"GET","url":"$web/short","requestId":"a","streamResponse":true}"#),
            Body("a"),
            Call(
                METHOD,
                r#"{"method":"GET","url":"$web/stuck","requestId":"b","streamResponse":true,"timeoutMs":100}"#,
            ),
            Body("b"),
            Call(METHOD, r#"{"method":"GET","url":"http://127.0.0.1:1/","requestId":"c","streamResponse":true}"#),
            Call(
                METHOD,
                r#"{"method":"GET","url":"$web/silent","requestId":"d","streamResponse":true,"timeoutMs":50}"#,
            ),
            Call(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"e","streamResponse":true}"#),
            Body("e"),
        ],
    ),
    case(
        "names_of_streams",
        &[
            Call(METHOD, r#"{"method":"GET","url":"$web/stuck","requestId":"a","streamResponse":true}"#),
            Exact(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"a","streamResponse":true}"#),
            // A response that is given whole has no name.
            Call(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"a"}"#),
            Call(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"b","streamResponse":true}"#),
            Body("b"),
            Begin(METHOD, r#"{"method":"GET","url":"$web/teapot","requestId":"c"}"#),
            Begin("environment/status", ""),
            Replies(2),
        ],
    ),
    case(
        "streams_end_with_their_connection",
        &[
            Call(METHOD, r#"{"method":"GET","url":"$web/stuck","requestId":"a","streamResponse":true}"#),
            Reconnect,
            Resume(r#"{"clientName":"x","resumeSessionId":"$session"}"#),
        ],
    )
    .connections(),
    case(
        "variables",
        &[
            Exact(
                METHOD,
                r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"x-a","value":"v","valueEnvVar":"NO_SUCH_VARIABLE"}]}"#,
            ),
            Call(
                METHOD,
                r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"x-a","value":"v","valueEnvVar":null}]}"#,
            ),
            Call(
                METHOD,
                r#"{"method":"GET","url":"$web/echo","requestId":"r","headers":[{"name":"x-a","value":"v","valueEnvVar":5}]}"#,
            ),
        ],
    )
    .newer(),
];
