//! Servers that answer two calls of each lane at once.

use super::script::Step::{Begin, Call, Codes, Notify, Replies, Start};
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
