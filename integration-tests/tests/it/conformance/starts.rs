//! `process/start`: the environment, who asks, what a start may not be, and calls that cross it.

use super::script::Step::{Begin, Call, Closed, Codes, Look, Made, Output, Shell, Start, WaitClosed};
use super::script::{Case, case};

/// Sorted names of variables.
const NAMES: &str = "env | sed 's/=.*//' | LC_ALL=C sort | tr '\\n' ' '";
const START: &str = r#"{"processId":"p","argv":["/bin/sleep","1000"],"cwd":"$dir","env":{},"tty":false}"#;

/// A start with an environment policy.
macro_rules! policy {
    ($process:literal, $env:literal, $policy:literal) => {
        Start(
            $process,
            NAMES,
            concat!(r#"{"env":"#, $env, r#","envPolicy":"#, $policy, "}"),
        )
    };
}

pub(super) const CASES: &[Case] = &[
    case(
        "core_variables",
        &[
            policy!(
                "a",
                "{}",
                r#"{"inherit":"core","ignoreDefaultExcludes":true,"exclude":["TMP*","LANG","LC_*"],"set":{},"includeOnly":[]}"#
            ),
            Closed("a"),
            policy!(
                "b",
                "{}",
                r#"{"inherit":"core","ignoreDefaultExcludes":true,"exclude":[],"set":{"X":"1"},"includeOnly":["h?me","pat*","X"]}"#
            ),
            Closed("b"),
            policy!(
                "c",
                "{}",
                r#"{"inherit":"all","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":["HOME","PATH"]}"#
            ),
            Closed("c"),
        ],
    ),
    case(
        "default_excludes",
        &[
            // They apply to what is inherited, before anything is set.
            policy!(
                "a",
                r#"{"OVER_TOKEN":"1"}"#,
                r#"{"inherit":"none","ignoreDefaultExcludes":false,"exclude":[],"set":{"MY_KEY":"1","my_secret":"2","TOKENS":"3","MONKEY":"4","B":"5"},"includeOnly":[]}"#
            ),
            Closed("a"),
            policy!(
                "b",
                "{}",
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":["*key*","B"],"set":{"MY_KEY":"1","MONKEY":"4","B":"5"},"includeOnly":[]}"#
            ),
            Closed("b"),
            policy!(
                "c",
                r#"{"EXCLUDED":"1","PATH":"/bin"}"#,
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":["EXCLUDED"],"set":{},"includeOnly":["nothing"]}"#
            ),
            Closed("c"),
        ],
    ),
    case(
        "patterns",
        &[
            policy!(
                "a",
                "{}",
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"AB":"","ABC":"","a1":"","A.B":"","[A]":""},"includeOnly":["a?"]}"#
            ),
            Closed("a"),
            policy!(
                "b",
                "{}",
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"AB":"","ABC":"","A_B":""},"includeOnly":["*b*"]}"#
            ),
            Closed("b"),
            policy!(
                "c",
                "{}",
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"AB":"","A":""},"includeOnly":["**","?"]}"#
            ),
            Closed("c"),
            policy!(
                "d",
                "{}",
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"AB":""},"includeOnly":[""]}"#
            ),
            Closed("d"),
        ],
    ),
    case(
        "names_that_nobody_inherits",
        &[
            policy!(
                "a",
                r#"{"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN":"1","NODE_REPL_AUTH_TOKEN":"1","OPENAI_FEDERATION_RULE_ID":"1","OPENAI_IDENTITY_TOKEN_FILE":"1","OPENAI_WORKLOAD_IDENTITY_CONTEXT":"1","CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE":"1","KEPT":"1","PATH":"/usr/bin:/bin"}"#,
                r#"{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"codex_exec_server_noise_auth_token":"2","NODE_REPL_AUTH_TOKEN":"2","ALSO":"2"},"includeOnly":[]}"#
            ),
            Closed("a"),
            Start(
                "b",
                NAMES,
                r#"{"env":{"Node_Repl_Auth_Token":"1","CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN":"1","KEPT":"1","PATH":"/usr/bin:/bin"}}"#,
            ),
            Closed("b"),
        ],
    )
    .newer(),
    case(
        "odd_variables",
        &[
            Start("a", "", r#"{"argv":["/usr/bin/env"],"env":{"":"x"}}"#),
            Start("b", "", r#"{"argv":["/usr/bin/env"],"env":{"A=B":"x"}}"#),
            Start("c", "", r#"{"argv":["/usr/bin/env"],"env":{"A B":"x","\u00e4":"\u00f6\n"}}"#),
            Closed("c"),
        ],
    ),
    case(
        "threads",
        &[
            Start("a", "exit 1", r#"{"metadata":{}}"#),
            WaitClosed("a"),
            Start("b", "exit 1", r#"{"metadata":null}"#),
            Start("c", "exit 1", r#"{"metadata":{"threadId":null,"toolCallId":null}}"#),
            Start("d", "exit 1", r#"{"metadata":{"threadId":"019A0000-0000-7000-8000-000000000000"}}"#),
            Start("e", "exit 1", r#"{"metadata":{"threadId":"019a0000000070008000000000000000","toolCallId":""}}"#),
            Start("f", "exit 1", r#"{"metadata":{"threadId":"00000000-0000-0000-0000-000000000000","more":1}}"#),
            Start("g", "exit 1", r#"{"metadata":{"threadId":""}}"#),
            Start("g", "exit 1", r#"{"metadata":{"threadId":"t"}}"#),
            Start("g", "exit 1", r#"{"metadata":{"threadId":"019a0000-0000-7000-8000-00000000000"}}"#),
            Start("g", "exit 1", r#"{"metadata":{"threadId":"019a0000-0000-7000-8000-000000000000 "}}"#),
            Start("g", "exit 1", r#"{"metadata":{"threadId":5}}"#),
            Start("g", "exit 1", r#"{"metadata":{"toolCallId":5}}"#),
            Start("g", "exit 1", r#"{"metadata":5}"#),
            Start("g", "exit 1", r#"{"metadata":"x"}"#),
            Call("process/read", r#"{"processId":"g"}"#),
        ],
    )
    .newer(),
    case(
        "long_arguments",
        &[
            Made(|| argument(100_000)),
            WaitClosed("argument"),
            // The system takes none of more than 128 KiB.
            Made(|| argument(200_000)),
        ],
    )
    .newer(),
    case(
        "long_names_of_processes",
        &[
            Made(|| {
                let id = "i".repeat(100_000);
                format!(r#"{{"id":"t","method":"process/terminate","params":{{"processId":"{id}"}}}}"#).into_bytes()
            }),
            Made(|| {
                let id = "i".repeat(100_000);
                let params = format!(r#"{{"processId":"p","chunk":"","writeId":"{id}"}}"#);
                format!(r#"{{"id":"w","method":"process/write","params":{params}}}"#).into_bytes()
            }),
        ],
    ),
    case(
        "one_of_two_starts_at_once",
        &[
            Begin("process/start", START),
            Begin("process/start", START),
            Begin("process/start", START),
            Codes(3),
            Call("process/terminate", r#"{"processId":"p"}"#),
            WaitClosed("p"),
        ],
    ),
    case(
        "terminate_behind_a_start",
        &[
            Begin("process/start", START),
            Begin("process/terminate", r#"{"processId":"p"}"#),
            Begin("process/terminate", r#"{"processId":"q"}"#),
            Codes(3),
            WaitClosed("p"),
        ],
    ),
    case(
        "write_behind_a_start",
        &[
            Begin(
                "process/start",
                r#"{"processId":"p","argv":["/bin/cat"],"cwd":"$dir","env":{},"tty":false,"pipeStdin":true}"#,
            ),
            Begin("process/write", r#"{"processId":"p","chunk":"b25l","writeId":"1"}"#),
            Begin("process/write", r#"{"processId":"p","chunk":"dHdv","writeId":"2"}"#),
            Begin("process/write", r#"{"processId":"p","chunk":"b25l","writeId":"1"}"#),
            Codes(4),
            Output("p", "onetwo"),
            Call("process/terminate", r#"{"processId":"p"}"#),
        ],
    ),
    case(
        "many_at_once",
        &[
            Start("a", "until [ -e go ]; do sleep 0.02; done; echo a; exit 1", ""),
            Start("b", "until [ -e go ]; do sleep 0.02; done; echo b; exit 2", ""),
            Start("c", "until [ -e go ]; do sleep 0.02; done; echo c; exit 3", r#"{"tty":true}"#),
            Start("d", "until [ -e go ]; do sleep 0.02; done; echo d >&2; exit 4", ""),
            Shell("touch go"),
            Closed("d"),
            Closed("c"),
            Closed("b"),
            Closed("a"),
        ],
    ),
    case(
        "files_a_process_makes",
        &[
            Start("p", "umask 022; mkdir d; echo x > f; ln -s f l; exit 2", ""),
            Closed("p"),
            Look("stat -c '%n %F %a' d f l"),
        ],
    ),
];

/// A start with an argument of so many bytes.
fn argument(len: usize) -> Vec<u8> {
    let argument = "x".repeat(len);
    let params = format!(
        r#"{{"processId":"argument","argv":["/bin/true","{argument}"],"cwd":"file:///","env":{{}},"tty":false}}"#
    );
    format!(r#"{{"id":"a","method":"process/start","params":{params}}}"#).into_bytes()
}
