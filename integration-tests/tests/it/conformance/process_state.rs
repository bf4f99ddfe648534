//! `process/*`: reading pages, waiting, writing, signals, the end.

use super::script::Step::{
    Begin, Call, Closed, Exited, Look, Made, Many, Output, Pause, Reply, Shell, Start, WaitClosed,
};
use super::script::{Case, case};

const NEW_LINE: &str = r#"{"processId":"p","chunk":"Cg==","writeId":"n1"}"#;
const NEW_LINE_2: &str = r#"{"processId":"p","chunk":"Cg==","writeId":"n2"}"#;
const TERMINATE: &str = r#"{"processId":"p"}"#;

/// Prints two chunks, each at a line from its client, then ends.
const TWO_CHUNKS: &str = "printf abc; read line; printf defg >&2; read line; exit 3";
const PIPED: &str = r#"{"pipeStdin":true}"#;

pub(super) const CASES: &[Case] = &[
    case(
        "read_pages",
        &[
            Start("p", TWO_CHUNKS, PIPED),
            Output("p", "abc"),
            Call("process/read", r#"{"processId":"p"}"#),
            Call("process/write", NEW_LINE),
            Output("p", "defg"),
            Call("process/read", r#"{"processId":"p"}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":1}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":2}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":99}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":0}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":3}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":6}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":7}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":100}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":2,"maxBytes":100}"#),
            Call("process/write", NEW_LINE_2),
            WaitClosed("p"),
            Call("process/read", r#"{"processId":"p"}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":3}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":7}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":2}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":2,"maxBytes":1}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":3}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":4}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":5,"waitMs":60000}"#),
        ],
    ),
    case(
        "read_waits",
        &[
            Start("p", "read line; sleep 0.2; printf x; read line", PIPED),
            Call("process/read", r#"{"processId":"p","waitMs":30}"#),
            Call("process/write", NEW_LINE),
            Call("process/read", r#"{"processId":"p","waitMs":15000}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":30}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":7,"waitMs":30}"#),
        ],
    ),
    case(
        "read_waits_for_the_exit",
        &[
            Start("p", "sleep 0.2; (until [ -e go ]; do sleep 0.02; done) & exit 4", ""),
            Call("process/read", r#"{"processId":"p","waitMs":15000}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":30}"#),
            Shell("touch go"),
            Call("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":15000}"#),
        ],
    ),
    case(
        "calls_are_answered_in_order",
        &[
            Start("p", "sleep 1000", ""),
            Begin("process/read", r#"{"processId":"p","waitMs":300}"#),
            Begin("environment/status", ""),
            Begin("process/terminate", TERMINATE),
            Reply,
            Reply,
            Reply,
        ],
    ),
    case(
        "stdin_is_closed_unless_piped",
        &[
            Start("p", "cat; echo over", ""),
            Call("process/write", r#"{"processId":"p","chunk":"aGk=","writeId":"1"}"#),
            Closed("p"),
            Start(
                "q",
                "read line && echo got-$line || echo nothing",
                r#"{"pipeStdin":false}"#,
            ),
            Closed("q"),
        ],
    ),
    case(
        "write",
        &[
            Start("p", "cat", PIPED),
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Output("p", "one\n"),
            Call("process/write", r#"{"processId":"p","chunk":"","writeId":"2"}"#),
            Call("process/write", r#"{"processId":"p","chunk":"dHdvCg==","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"p","chunk":"dGhyZWUK","writeId":"3"}"#),
            Output("p", "three"),
            Call("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":1000}"#),
            Call("process/terminate", TERMINATE),
            WaitClosed("p"),
        ],
    ),
    case(
        "write_more_than_a_pipe_holds",
        &[
            Start("p", "head -c 600000 | wc -c", PIPED),
            Made(|| {
                let chunk = "A".repeat(800_000);
                let params = format!(r#"{{"processId":"p","chunk":"{chunk}","writeId":"1"}}"#);
                format!(r#"{{"id":"w","method":"process/write","params":{params}}}"#).into_bytes()
            }),
            Closed("p"),
        ],
    ),
    case(
        "write_after_the_exit",
        &[
            Start("p", "exit 0", PIPED),
            WaitClosed("p"),
            Call("process/write", r#"{"processId":"p","chunk":"aGk=","writeId":"1"}"#),
        ],
    ),
    case(
        "write_after_terminate",
        &[
            Start("p", "sleep 1000", PIPED),
            Call("process/terminate", TERMINATE),
            WaitClosed("p"),
            Call("process/write", r#"{"processId":"p","chunk":"aGk=","writeId":"1"}"#),
        ],
    ),
    case(
        "write_to_a_terminal",
        &[
            Start("p", "read line; echo got-$line", r#"{"tty":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"aGkK","writeId":"1"}"#),
            Closed("p"),
        ],
    ),
    case(
        "control_c_on_a_terminal",
        &[
            Start(
                "p",
                "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.02; done",
                r#"{"tty":true}"#,
            ),
            Output("p", "ready"),
            Call("process/write", r#"{"processId":"p","chunk":"Aw==","writeId":"1"}"#),
            Closed("p"),
        ],
    ),
    case(
        "end_of_file_on_a_terminal",
        &[
            Start("p", "cat; echo over", r#"{"tty":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"BA==","writeId":"1"}"#),
            Closed("p"),
        ],
    ),
    case(
        "interrupt",
        &[
            Start(
                "p",
                "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.02; done",
                "",
            ),
            Output("p", "ready"),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
            Closed("p"),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
        ],
    ),
    case(
        "interrupt_reaches_the_group",
        &[
            Start(
                "p",
                "trap : INT; sh -c 'trap \"echo child; exit\" INT; echo ready; while :; do sleep 0.02; done'; echo over",
                "",
            ),
            Output("p", "ready"),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
            Output("p", "over"),
        ],
    ),
    case(
        "interrupt_without_a_handler",
        &[
            Start("p", "echo ready; exec sleep 1000", ""),
            Output("p", "ready"),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
            Closed("p"),
        ],
    ),
    case(
        "interrupt_on_a_terminal",
        &[
            Start(
                "p",
                "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.02; done",
                r#"{"tty":true}"#,
            ),
            Output("p", "ready"),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
            Closed("p"),
        ],
    ),
    case(
        "terminate",
        &[
            Start("p", "echo ready; sleep 1000", ""),
            Output("p", "ready"),
            Call("process/terminate", TERMINATE),
            Closed("p"),
            Call("process/terminate", TERMINATE),
            Call("process/read", r#"{"processId":"p","afterSeq":1}"#),
        ],
    ),
    case(
        "terminate_on_a_terminal",
        &[
            Start("p", "echo ready; sleep 1000", r#"{"tty":true}"#),
            Output("p", "ready"),
            Call("process/terminate", TERMINATE),
            Closed("p"),
            Call("process/terminate", TERMINATE),
        ],
    )
    .newer(),
    case(
        "terminate_kills_the_group",
        &[
            Start(
                "p",
                "trap '' TERM INT; sleep 1000 & echo $! > child; echo ready; wait",
                "",
            ),
            Output("p", "ready"),
            Call("process/terminate", TERMINATE),
            Closed("p"),
            Look(
                "for i in $(seq 100); do grep -qs 'State:.[^Z]' /proc/$(cat child)/status || break; sleep 0.02; done; \
              grep -s 'State:.[^Z]' /proc/$(cat child)/status || echo dead",
            ),
        ],
    ),
    case(
        "terminate_after_the_exit",
        &[
            Start("p", "exit 5", ""),
            WaitClosed("p"),
            Call("process/terminate", TERMINATE),
            Call("process/read", TERMINATE),
        ],
    ),
    case(
        "a_child_in_the_background_survives_terminate_after_the_exit",
        &[
            Start("p", "sleep 1000 & echo $! > child; exit 3", ""),
            Exited("p"),
            Call("process/terminate", TERMINATE),
            Pause(50),
            Look(
                "grep -qs 'State:.[^Z]' /proc/$(cat child)/status && echo alive || echo dead; kill -9 $(cat child) || true",
            ),
            WaitClosed("p"),
        ],
    ),
    case(
        "nothing_is_left_after_80_seconds",
        &[
            Start("p", "printf x", ""),
            Closed("p"),
            Pause(76_000),
            Call("process/terminate", TERMINATE),
            Call("process/read", r#"{"processId":"p","afterSeq":9}"#),
            Pause(6_000),
            Call("process/read", TERMINATE),
            Start("p", "exit 1", ""),
            Closed("p"),
        ],
    )
    .newer()
    .slow(),
    case(
        "writes_are_remembered_to_a_limit",
        &[
            Start("p", "wc -l > count; echo over", PIPED),
            Many(
                4200,
                "process/write",
                r#"{"processId":"p","chunk":"Cg==","writeId":"$n"}"#,
            ),
            Call("process/write", r#"{"processId":"p","chunk":"Cg==","writeId":"4200"}"#),
            Call("process/terminate", TERMINATE),
        ],
    )
    .slow(),
];
