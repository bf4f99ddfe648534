//! Sessions that are taken up again, and those that must not be.

use super::script::Step::{
    Begin, Body, Call, Closed, Exact, First, Initialize, Many, Notify, Output, Reconnect, Reply, Resume, Second, Shell,
    Start, WaitClosed,
};
use super::script::{Case, raw};

const NAME: &str = r#"{"clientName":"x"}"#;
const RESUME: &str = r#"{"clientName":"x","resumeSessionId":"$session"}"#;
const P: &str = r#"{"processId":"p"}"#;

pub(super) const CASES: &[Case] = &[
    raw(
        "again_and_again",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "while read line; do echo got-$line; done", r#"{"pipeStdin":true}"#),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Output("p", "got-one"),
            Reconnect,
            Resume(r#"{"clientName":"another name","resumeSessionId":"$session"}"#),
            Notify("initialized", ""),
            Call("process/write", r#"{"processId":"p","chunk":"dHdvCg==","writeId":"2"}"#),
            Output("p", "got-two"),
            Call("process/read", P),
            Call("process/terminate", P),
        ],
    )
    .connections(),
    raw(
        "an_end_that_nobody_saw",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start(
                "p",
                "until [ -e go ]; do sleep 0.02; done; printf late; sleep 0.3; exit 9",
                "",
            ),
            Reconnect,
            Shell("touch go; sleep 1"),
            Resume(RESUME),
            Notify("initialized", ""),
            Call("process/read", r#"{"processId":"p","waitMs":20000,"afterSeq":2}"#),
            Call("process/read", P),
            Call("process/terminate", P),
            Call("process/write", r#"{"processId":"p","chunk":"eA==","writeId":"1"}"#),
            Start("p", "true", ""),
        ],
    )
    .connections(),
    raw(
        "before_initialized",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start(
                "p",
                "until [ -e go ]; do sleep 0.02; done; printf x; sleep 0.3; exit 9",
                "",
            ),
            Reconnect,
            Resume(RESUME),
            Exact("process/read", P),
            Shell("touch go"),
            // The news come all the same.
            Closed("p"),
            Exact("process/read", P),
            Notify("initialized", ""),
            Call("process/read", P),
        ],
    )
    .connections(),
    raw(
        "a_lost_connection_before_initialized",
        &[
            Initialize(NAME),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            Call("environment/status", ""),
        ],
    )
    .connections(),
    raw(
        "refused_while_another_waits",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "sleep 1000", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":1500}"#),
            Second,
            Exact("initialize", RESUME),
            // A new session is no other one's business.
            Initialize(NAME),
            Notify("initialized", ""),
            Call("process/terminate", P),
            First,
            Reply,
        ],
    )
    .connections(),
    raw(
        "a_refused_client_may_begin_anew",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Second,
            Many(3, "initialize", RESUME),
            Exact("process/terminate", P),
            Initialize(NAME),
            Exact("initialize", RESUME),
            Notify("initialized", ""),
            Call("environment/status", ""),
        ],
    )
    .connections(),
    raw(
        "by_the_connection_that_holds_it",
        &[
            Initialize(NAME),
            Exact("initialize", RESUME),
            Notify("initialized", ""),
            Exact("initialize", RESUME),
            Call("environment/status", ""),
        ],
    ),
    raw(
        "names_that_are_no_sessions",
        &[
            Initialize(NAME),
            Reconnect,
            Exact("initialize", r#"{"clientName":"x","resumeSessionId":"$session "}"#),
            Exact("initialize", r#"{"clientName":"x","resumeSessionId":"x$session"}"#),
            Call("initialize", r#"{"clientName":"x","resumeSessionId":["$session"]}"#),
            Resume(RESUME),
        ],
    )
    .connections(),
    raw(
        "calls_that_a_lost_connection_left_behind",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "sleep 1000", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":600000}"#),
            Begin("fs/writeFile", r#"{"path":"$dir/behind","dataBase64":"eA=="}"#),
            Begin("process/terminate", P),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            // What waited behind the read was never done.
            Call("fs/getMetadata", r#"{"path":"$dir/behind"}"#),
            Call("process/terminate", P),
            WaitClosed("p"),
        ],
    )
    .connections(),
    raw(
        "bodies_of_a_lost_connection",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Call(
                "http/request",
                r#"{"method":"GET","url":"$web/stuck","requestId":"a","streamResponse":true}"#,
            ),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            // Its name is free again.
            Call(
                "http/request",
                r#"{"method":"GET","url":"$web/teapot","requestId":"a","streamResponse":true}"#,
            ),
            Body("a"),
        ],
    )
    .connections(),
    raw(
        "several_processes",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("a", "until [ -e go ]; do sleep 0.02; done; printf a; exit 1", ""),
            Start("b", "read line; echo got-$line; exit 2", r#"{"tty":true}"#),
            Start("c", "printf c; exit 3", ""),
            Closed("c"),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            Call("process/read", r#"{"processId":"c","afterSeq":3}"#),
            Shell("touch go"),
            Closed("a"),
            Call("process/write", r#"{"processId":"b","chunk":"eAo=","writeId":"1"}"#),
            WaitClosed("b"),
            Call("process/terminate", r#"{"processId":"a"}"#),
        ],
    )
    .connections(),
];
