//! `initialize`, `initialized`, sessions and their connections, and what the environment tells.

use super::script::Step::{
    Begin, Call, Closed, Ends, Exact, First, Initialize, Look, Notify, Output, Pause, Reconnect, Resume, Second, Send,
    Shape, Shell, Start, WaitClosed,
};
use super::script::{Case, case, raw};

const NAME: &str = r#"{"clientName":"x"}"#;
const RESUME: &str = r#"{"clientName":"x","resumeSessionId":"$session"}"#;

pub(super) const CASES: &[Case] = &[
    raw("result", &[Shape("initialize", NAME)]).newer(),
    raw(
        "initialize_parameters",
        &[
            Call("initialize", ""),
            Call("initialize", "{}"),
            Call("initialize", "null"),
            Call("initialize", r#"{"clientName":5}"#),
            Call("initialize", r#"{"clientName":null}"#),
            Call("initialize", r#"{"client_name":"x"}"#),
            Call("initialize", r#"{"clientName":"x","resumeSessionId":5}"#),
            // A failed one may be repeated.
            Initialize(r#"{"clientName":"","resumeSessionId":null,"more":{}}"#),
        ],
    ),
    raw(
        "twice",
        &[Initialize(NAME), Exact("initialize", NAME), Exact("initialize", "{}")],
    ),
    case(
        "twice_after_the_handshake",
        &[Exact("initialize", NAME), Call("environment/status", "")],
    ),
    raw(
        "before_initialize",
        &[
            Exact("process/start", "{}"),
            Exact("process/read", "{}"),
            Exact("process/write", "{}"),
            Exact("process/signal", "{}"),
            Exact("process/terminate", "{}"),
            Exact("fs/readFile", "{}"),
            Exact("fs/open", "{}"),
            Exact("fs/readBlock", "{}"),
            Exact("fs/close", "{}"),
            Exact("fs/writeFile", "{}"),
            Exact("fs/createDirectory", "{}"),
            Exact("fs/getMetadata", "{}"),
            Exact("fs/canonicalize", "{}"),
            Exact("fs/readDirectory", "{}"),
            Exact("fs/walk", "{}"),
            Exact("fs/remove", "{}"),
            Exact("fs/copy", "{}"),
            Exact("environment/info", ""),
            Exact("environment/status", ""),
        ],
    ),
    raw(
        "before_initialize_with_good_parameters",
        &[
            Exact("process/terminate", r#"{"processId":"p"}"#),
            Exact("fs/canonicalize", r#"{"path":"file:///"}"#),
            Exact("none", "{}"),
        ],
    ),
    raw(
        "before_initialized",
        &[
            Initialize(NAME),
            Exact("process/terminate", r#"{"processId":"p"}"#),
            Exact("fs/canonicalize", r#"{"path":"file:///"}"#),
            Exact("environment/info", ""),
            Exact("environment/status", ""),
            Exact("none", ""),
            Notify("initialized", ""),
            Call("environment/status", ""),
        ],
    ),
    raw("initialized_first", &[Send(r#"{"method":"initialized"}"#), Ends]),
    raw(
        "initialized_after_a_failed_initialize",
        &[Call("initialize", "{}"), Send(r#"{"method":"initialized"}"#), Ends],
    ),
    case(
        "initialized_again",
        &[
            Notify("initialized", ""),
            Notify("initialized", "null"),
            Notify("initialized", "{}"),
            Notify("initialized", r#"{"x":1}"#),
            Notify("initialized", "[1]"),
            Call("environment/status", ""),
        ],
    ),
    raw(
        "initialized_with_any_parameters",
        &[
            Initialize(NAME),
            Notify("initialized", r#""text""#),
            Call("environment/status", ""),
        ],
    ),
    raw(
        "resume_of_nobody",
        &[
            Exact(
                "initialize",
                r#"{"clientName":"x","resumeSessionId":"00000000-0000-0000-0000-000000000000"}"#,
            ),
            Exact("initialize", r#"{"clientName":"x","resumeSessionId":"no-uuid"}"#),
            Exact("initialize", r#"{"clientName":"x","resumeSessionId":""}"#),
            Initialize(NAME),
        ],
    ),
    raw(
        "no_take_over",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Second,
            Exact("initialize", RESUME),
            Exact("initialize", RESUME),
            First,
            Call("environment/status", ""),
        ],
    )
    .connections(),
    raw(
        "no_take_over_before_initialized",
        &[
            Initialize(NAME),
            Second,
            Exact("initialize", RESUME),
            First,
            Notify("initialized", ""),
            Call("environment/status", ""),
        ],
    )
    .connections(),
    raw(
        "resume",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start(
                "p",
                "echo ready; while read line; do echo got-$line; done",
                r#"{"pipeStdin":true}"#,
            ),
            Output("p", "ready"),
            Reconnect,
            Resume(RESUME),
            Call("process/terminate", r#"{"processId":"p"}"#),
            Notify("initialized", ""),
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Output("p", "got-one"),
            Call("process/read", r#"{"processId":"p"}"#),
        ],
    )
    .connections(),
    raw(
        "resume_keeps_ids_and_writes",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "while read line; do echo got-$line; done", r#"{"pipeStdin":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Output("p", "got-one"),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            // Repeated after a lost connection, it is not written again.
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"p","chunk":"dHdvCg==","writeId":"2"}"#),
            Output("p", "got-two"),
            Start("p", "true", ""),
            Call("process/read", r#"{"processId":"p"}"#),
        ],
    )
    .connections(),
    raw(
        "what_was_missed_can_be_read",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start(
                "p",
                "until [ -e go ]; do sleep 0.01; done; printf missed; read line",
                r#"{"pipeStdin":true}"#,
            ),
            Reconnect,
            Shell("touch go; sleep 0.3"),
            Resume(RESUME),
            Notify("initialized", ""),
            Call("process/read", r#"{"processId":"p","afterSeq":0,"waitMs":10000}"#),
        ],
    )
    .connections(),
    raw(
        "files_belong_to_the_connection",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Call("fs/open", r#"{"handleId":"h","path":"file:///etc/passwd"}"#),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":1}"#),
        ],
    )
    .connections(),
    raw(
        "a_long_poll_does_not_hold_the_session",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "sleep 1000", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":600000}"#),
            Reconnect,
            Resume(RESUME),
            Notify("initialized", ""),
            Call("process/terminate", r#"{"processId":"p"}"#),
            WaitClosed("p"),
        ],
    )
    .connections(),
    raw(
        "sessions_are_apart",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "sleep 1000", ""),
            Second,
            Initialize(NAME),
            Notify("initialized", ""),
            Call("process/read", r#"{"processId":"p"}"#),
            Start("p", "exit 3", ""),
            Closed("p"),
            First,
            Call("process/terminate", r#"{"processId":"p"}"#),
        ],
    )
    .connections(),
    raw(
        "a_detached_session_is_kept",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "sleep 1000", ""),
            Reconnect,
            Pause(25_000),
            Resume(RESUME),
            Notify("initialized", ""),
            Call("process/terminate", r#"{"processId":"p"}"#),
        ],
    )
    .connections()
    .slow(),
    raw(
        "a_detached_session_ends",
        &[
            Initialize(NAME),
            Notify("initialized", ""),
            Start("p", "trap '' TERM; echo $$ > pid; sleep 1000", ""),
            Reconnect,
            Pause(85_000),
            Initialize(RESUME),
            Look("test -e /proc/$(cat pid) && echo alive || echo dead"),
        ],
    )
    .connections()
    .slow(),
    case("status", &[Exact("environment/status", "")]),
    case("info", &[Shape("environment/info", "")]).newer(),
    case(
        "info_parameters",
        &[Call("environment/info", r#"{"x":1}"#), Call("environment/info", "[]")],
    ),
];
