//! Many calls at once: their order, and reads that wait.

use super::script::Step::{
    Begin, Call, Closed, Codes, Exited, Flood, Notify, Output, Raw, Reply, Send, Shell, Start, WaitClosed,
};
use super::script::{Case, case, raw};

const TERMINATE: &str = r#"{"processId":"p"}"#;
const PIPED: &str = r#"{"pipeStdin":true}"#;
const NEW_LINE: &str = r#"{"processId":"p","chunk":"Cg==","writeId":"1"}"#;

pub(super) const CASES: &[Case] = &[
    case("a_crowd", &[Flood(300, "environment/status", ""), Codes(300)]),
    case(
        "good_and_bad",
        &[
            Begin("environment/status", ""),
            Begin("none", ""),
            Begin("fs/getMetadata", r#"{"path":"$dir"}"#),
            Begin("fs/getMetadata", r#"{"path":"$dir/none"}"#),
            Begin("fs/getMetadata", "{}"),
            Begin("process/terminate", TERMINATE),
            Begin("fs/readDirectory", r#"{"path":"$dir"}"#),
            Begin("environment/status", r#"{"x":1}"#),
            Codes(8),
        ],
    ),
    case(
        "unreadable_between",
        &[
            Begin("environment/status", ""),
            Send("{"),
            Begin("environment/status", ""),
            Send("[]"),
            Begin("environment/status", ""),
            Codes(5),
        ],
    ),
    case(
        "one_id_twice",
        &[
            Send(r#"{"id":7,"method":"environment/status"}"#),
            Send(r#"{"id":7,"method":"none"}"#),
            Send(r#"{"id":"7","method":"environment/status"}"#),
            Codes(3),
            Raw(r#"{"id":7,"method":"environment/status"}"#),
        ],
    ),
    raw(
        "a_whole_handshake_ahead",
        &[
            Begin("initialize", r#"{"clientName":"x"}"#),
            Notify("initialized", ""),
            Begin("environment/status", ""),
            Begin("initialize", r#"{"clientName":"x"}"#),
            Begin("process/terminate", TERMINATE),
            Codes(4),
        ],
    ),
    raw(
        "calls_ahead_of_initialized",
        &[
            Begin("environment/status", ""),
            Begin("initialize", r#"{"clientName":"x"}"#),
            Begin("fs/canonicalize", r#"{"path":"file:///"}"#),
            Notify("initialized", ""),
            Begin("fs/canonicalize", r#"{"path":"file:///"}"#),
            Codes(4),
        ],
    ),
    case(
        "files_in_order",
        &[
            Begin("fs/writeFile", r#"{"path":"$dir/f","dataBase64":"b25l"}"#),
            Begin(
                "fs/copy",
                r#"{"sourcePath":"$dir/f","destinationPath":"$dir/g","recursive":false}"#,
            ),
            Begin("fs/writeFile", r#"{"path":"$dir/f","dataBase64":"dHdv"}"#),
            Begin("fs/remove", r#"{"path":"$dir/g"}"#),
            Begin("fs/getMetadata", r#"{"path":"$dir/g"}"#),
            Begin("fs/createDirectory", r#"{"path":"$dir/g/h"}"#),
            Begin("fs/getMetadata", r#"{"path":"$dir/g/h"}"#),
            Codes(7),
            Call("fs/readFile", r#"{"path":"$dir/f"}"#),
        ],
    ),
    case(
        "blocks_in_order",
        &[
            Shell("printf 0123456789 > file"),
            Begin("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Begin("fs/readBlock", r#"{"handleId":"h","offset":0,"len":4}"#),
            Begin("fs/close", r#"{"handleId":"h"}"#),
            Begin("fs/readBlock", r#"{"handleId":"h","offset":0,"len":4}"#),
            Begin("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Reply,
            Reply,
            Reply,
            Reply,
            Reply,
        ],
    ),
    case(
        "a_wait_holds_up_what_follows",
        &[
            Start("p", "read line; printf x; read line", PIPED),
            Begin("process/read", r#"{"processId":"p","waitMs":200}"#),
            Begin("process/write", NEW_LINE),
            Begin("process/read", r#"{"processId":"p","waitMs":20000}"#),
            Reply,
            Reply,
            Reply,
        ],
    ),
    case(
        "a_wait_ends_with_output_of_either_stream",
        &[
            Start(
                "p",
                "until [ -e 1 ]; do sleep 0.02; done; printf err >&2; until [ -e 2 ]; do sleep 0.02; done; printf out; read line",
                PIPED,
            ),
            Begin("process/read", r#"{"processId":"p","waitMs":20000}"#),
            Shell("touch 1"),
            Reply,
            Begin(
                "process/read",
                r#"{"processId":"p","afterSeq":1,"waitMs":20000,"maxBytes":0}"#,
            ),
            Shell("touch 2"),
            Reply,
            Call("process/terminate", TERMINATE),
        ],
    ),
    case(
        "a_wait_ends_with_the_close",
        &[
            Start("p", "until [ -e go ]; do sleep 0.02; done; exit 7", ""),
            Begin("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":20000}"#),
            Shell("touch go"),
            WaitClosed("p"),
            Reply,
            Call("process/read", r#"{"processId":"p","waitMs":18446744073709551615}"#),
            Call(
                "process/read",
                r#"{"processId":"p","afterSeq":99,"waitMs":18446744073709551615}"#,
            ),
        ],
    ),
    case(
        "a_wait_is_not_ended_by_others",
        &[
            Start("p", "sleep 1000", ""),
            Start("q", "until [ -e go ]; do sleep 0.02; done; printf q; exit 1", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":300}"#),
            Shell("touch go"),
            Closed("q"),
            Reply,
            Call("process/read", r#"{"processId":"q","afterSeq":3,"waitMs":20000}"#),
            Call("process/terminate", TERMINATE),
        ],
    ),
    case(
        "waits_after_the_exit",
        &[
            Start(
                "p",
                "(until [ -e go ]; do sleep 0.02; done; printf late; until [ -e end ]; do sleep 0.02; done) & exit 3",
                "",
            ),
            Exited("p"),
            Call("process/read", r#"{"processId":"p","waitMs":20000}"#),
            Call(
                "process/read",
                r#"{"processId":"p","afterSeq":0,"maxBytes":5,"waitMs":20000}"#,
            ),
            Begin("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":20000}"#),
            Shell("touch go"),
            Output("p", "late"),
            Reply,
            Shell("touch end"),
            WaitClosed("p"),
            Call("process/read", r#"{"processId":"p","afterSeq":2}"#),
        ],
    ),
    case(
        "news_pass_a_wait",
        &[
            Start("p", "sleep 1000", ""),
            Start("q", "until [ -e go ]; do sleep 0.02; done; printf q; exit 1", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":1000}"#),
            Shell("touch go"),
            // While the read waits.
            Closed("q"),
            Begin("process/terminate", TERMINATE),
            Codes(2),
        ],
    ),
];
