//! Servers that answer two calls of each lane at once.

use super::script::Step::{Begin, Call, Closed, Codes, Flood, Notify, Raw, Replies, Start, WaitClosed};
use super::script::{Case, case, raw};

const LONG_READ: &str = r#"{"processId":"p","waitMs":600000}"#;
const P: &str = r#"{"processId":"p"}"#;

pub(super) const CASES: &[Case] = &[
    case(
        "control_calls_pass_long_reads",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", LONG_READ),
            Begin("process/read", LONG_READ),
            // The ordinary lane is full now.
            Begin("fs/getMetadata", r#"{"path":"$dir/none"}"#),
            Call("environment/status", ""),
            Call("fs/close", r#"{"handleId":"none"}"#),
            Call("process/signal", r#"{"processId":"none","signal":"interrupt"}"#),
            Call("process/terminate", P),
            Replies(3),
        ],
    )
    .newer(),
    case(
        "one_long_read_leaves_room_for_ordinary_calls",
        &[
            Start("p", "read line; echo got-$line; read line", r#"{"pipeStdin":true}"#),
            Begin("process/read", LONG_READ),
            Call("fs/getMetadata", r#"{"path":"$dir/none"}"#),
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Replies(1),
            Call("process/terminate", P),
        ],
    )
    .newer(),
    case(
        "a_third_ordinary_call_waits",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":1500}"#),
            Begin("process/read", r#"{"processId":"p","waitMs":4500}"#),
            Begin("fs/getMetadata", r#"{"path":"$dir/none"}"#),
            Begin("environment/status", ""),
            Codes(1),
            // The short read gives its place to the call that waits; which of the two answers first is chance.
            Replies(2),
            Codes(1),
            Call("process/terminate", P),
        ],
    )
    .newer(),
    case(
        "one_end_wakes_all_that_wait",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", LONG_READ),
            Begin("process/read", LONG_READ),
            Call("process/terminate", P),
            Replies(2),
            Call("fs/getMetadata", r#"{"path":"$dir/none"}"#),
        ],
    )
    .newer(),
    case(
        "processes_beside_a_long_read",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", LONG_READ),
            Start("q", "echo q; exit 3", ""),
            Closed("q"),
            Call("process/read", r#"{"processId":"q","afterSeq":3}"#),
            Start("q", "true", ""),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
            Replies(1),
            WaitClosed("p"),
        ],
    )
    .newer(),
    case(
        "a_request_that_waits",
        &[
            Begin(
                "http/request",
                r#"{"method":"GET","url":"$web/silent","requestId":"a","timeoutMs":1500}"#,
            ),
            Call("fs/getMetadata", r#"{"path":"$dir/none"}"#),
            Call(
                "http/request",
                r#"{"method":"GET","url":"$web/teapot","requestId":"a"}"#,
            ),
            Replies(1),
        ],
    )
    .newer(),
    case(
        "files_beside_a_long_read",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", LONG_READ),
            Call("fs/writeFile", r#"{"path":"$dir/f","dataBase64":"b25l"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/f"}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":9}"#),
            Call("fs/close", r#"{"handleId":"h"}"#),
            Call("fs/remove", r#"{"path":"$dir/f"}"#),
            Call("process/terminate", P),
            Replies(1),
        ],
    )
    .newer(),
    case(
        "a_crowd",
        &[
            Flood(300, "environment/status", ""),
            Replies(300),
            Flood(300, "fs/getMetadata", r#"{"path":"$dir/$n"}"#),
            Replies(300),
        ],
    )
    .newer(),
    case(
        "unreadable_beside_a_long_read",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", LONG_READ),
            Raw("{"),
            Call("none", ""),
            Call("process/read", "{}"),
            Call("process/terminate", P),
            Replies(1),
        ],
    )
    .newer(),
    raw(
        "the_handshake_is_in_order",
        &[
            Begin("environment/status", ""),
            Begin("initialize", r#"{"clientName":"x"}"#),
            Begin("environment/status", ""),
            Notify("initialized", ""),
            Begin("environment/status", ""),
            Codes(4),
        ],
    )
    .newer(),
];
