//! `process/*`: parameters, refusals, environment, exit codes.

use super::script::Step::{Call, Closed, Exact, Exited, Kept, Look, Output, Shell, Start, WaitClosed};
use super::script::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "start_parameters",
        &[
            Call("process/start", "{}"),
            Call(
                "process/start",
                r#"{"argv":["true"],"cwd":"$dir","env":{},"tty":false}"#,
            ),
            Call(
                "process/start",
                r#"{"processId":"p","cwd":"$dir","env":{},"tty":false}"#,
            ),
            Call(
                "process/start",
                r#"{"processId":"p","argv":["true"],"env":{},"tty":false}"#,
            ),
            Call(
                "process/start",
                r#"{"processId":"p","argv":["true"],"cwd":"$dir","tty":false}"#,
            ),
            Call(
                "process/start",
                r#"{"processId":"p","argv":["true"],"cwd":"$dir","env":{}}"#,
            ),
            Start("p", "", r#"{"processId":5}"#),
            Start("p", "", r#"{"argv":"true"}"#),
            Start("p", "", r#"{"argv":[5]}"#),
            Start("p", "", r#"{"argv":null}"#),
            Start("p", "", r#"{"env":null}"#),
            Start("p", "", r#"{"env":{"A":5}}"#),
            Start("p", "", r#"{"env":["A=5"]}"#),
            Start("p", "", r#"{"tty":null}"#),
            Start("p", "", r#"{"tty":"yes"}"#),
            Start("p", "", r#"{"pipeStdin":null}"#),
            Start("p", "", r#"{"pipeStdin":1}"#),
            Start("p", "", r#"{"arg0":5}"#),
            Start("p", "", r#"{"cwd":null}"#),
        ],
    ),
    case(
        "start_with_unknown_parameters",
        &[
            Start(
                "p",
                "exit 4",
                r#"{"more":{"a":1},"managedNetwork":null,"sandbox":null,"networkProxy":null}"#,
            ),
            Closed("p"),
        ],
    ),
    case(
        "start_for_a_harness_of_today",
        &[
            Start(
                "1",
                "exit 5",
                r#"{"arg0":null,"enforceManagedNetwork":false,"managedNetwork":null,"shellSnapshot":null,
                    "metadata":{"threadId":"019a0000-0000-7000-8000-000000000000","toolCallId":"c"}}"#,
            ),
            Closed("1"),
        ],
    ),
    case(
        "start_result",
        &[Call(
            "process/start",
            r#"{"processId":"p","argv":["true"],"cwd":"file:///","env":{"PATH":"/bin"},"tty":false}"#,
        )],
    )
    .newer(),
    case(
        "empty_argv",
        &[Exact(
            "process/start",
            r#"{"processId":"p","argv":[],"cwd":"$dir","env":{},"tty":false}"#,
        )],
    ),
    case(
        "cwd",
        &[
            Start("p", "", r#"{"cwd":"/tmp"}"#),
            Start("p", "", r#"{"cwd":"tmp"}"#),
            Start("p", "", r#"{"cwd":""}"#),
            Start("p", "", r#"{"cwd":"http://localhost/tmp"}"#),
            Start("p", "", r#"{"cwd":"file:///C:/x"}"#),
            Start("p", "", r#"{"cwd":"file://server/share"}"#),
            Start("p", "", r#"{"cwd":"file:///tmp?x"}"#),
            Start("p", "", r#"{"cwd":"$dir/missing"}"#),
            Shell("touch file; mkdir 'a b'; ln -s 'a b' link"),
            Start("p", "", r#"{"cwd":"$dir/file"}"#),
            Start("p", "pwd", r#"{"cwd":"$dir/a%20b"}"#),
            Closed("p"),
            Start("q", "pwd -P; pwd -L", r#"{"cwd":"$dir/link/../link/."}"#),
            Closed("q"),
            Start("r", "pwd", r#"{"cwd":"file://localhost/"}"#),
            Closed("r"),
        ],
    ),
    case(
        "program",
        &[
            Start("p", "", r#"{"argv":["no-such-program"]}"#),
            Start("p", "", r#"{"argv":["/no/such/program"]}"#),
            Shell("echo 'echo hi' > plain; mkdir folder; printf '#!/bin/sh\\nexit 6\\n' > script; chmod +x script"),
            Start("p", "", r#"{"argv":["./plain"]}"#),
            Start("p", "", r#"{"argv":["./folder"]}"#),
            Start("p", "", r#"{"argv":[""]}"#),
            Start("p", "", r#"{"argv":["/etc/passwd/x"]}"#),
            // A failed start leaves the id free.
            Start("p", "", r#"{"argv":["./script"]}"#),
            Closed("p"),
        ],
    ),
    case(
        "program_is_looked_up_in_the_path_of_the_child",
        &[
            Shell("mkdir bin; printf '#!/bin/sh\\necho mine\\n' > bin/mine; chmod +x bin/mine"),
            Start("p", "", r#"{"argv":["mine"]}"#),
            Start("q", "", r#"{"argv":["mine"],"env":{"PATH":"/bin:./bin"}}"#),
            Start("r", "", r#"{"argv":["true"],"env":{}}"#),
        ],
    ),
    case(
        "nul_bytes",
        &[
            Start("p", "", r#"{"argv":["tr\u0000ue"]}"#),
            Start("p", "", r#"{"argv":["true","\u0000"]}"#),
            Start("p", "", r#"{"env":{"A":"\u0000"}}"#),
            Start("p", "", r#"{"env":{"A\u0000":"x"}}"#),
        ],
    ),
    case(
        "ids",
        &[
            Start("", "exit 1", ""),
            Closed(""),
            Start("\u{e9} /\n", "exit 2", ""),
            Closed("\u{e9} /\n"),
        ],
    ),
    case(
        "an_id_is_taken_while_it_lives_and_after",
        &[
            Start("p", "read line", r#"{"pipeStdin":true}"#),
            Exact(
                "process/start",
                r#"{"processId":"p","argv":["true"],"cwd":"$dir","env":{},"tty":false}"#,
            ),
            Call("process/write", r#"{"processId":"p","chunk":"Cg==","writeId":"1"}"#),
            Closed("p"),
            Start("p", "true", ""),
        ],
    ),
    case(
        "exit_codes",
        &[
            Start("a", "exit 0", ""),
            Closed("a"),
            Start("b", "exit 255", ""),
            Closed("b"),
            Start("c", "kill -KILL $$", ""),
            Closed("c"),
            Start("d", "kill -TERM $$", ""),
            Closed("d"),
            Start("e", "kill -SEGV $$", ""),
            Closed("e"),
        ],
    ),
    case(
        "exit_codes_on_a_terminal",
        &[
            Start("a", "exit 0", r#"{"tty":true}"#),
            Closed("a"),
            Start("b", "exit 7", r#"{"tty":true}"#),
            Closed("b"),
            Start("c", "kill -KILL $$", r#"{"tty":true}"#),
            Closed("c"),
        ],
    ),
    case(
        "two_streams",
        &[Start("p", "printf out; printf err >&2; exit 2", ""), Closed("p")],
    ),
    case(
        "a_terminal_has_one_stream",
        &[
            Start(
                "p",
                "printf out; printf err >&2; stty size; test -t 0 && test -t 1 && echo terminal; echo [$TERM]",
                r#"{"tty":true}"#,
            ),
            Closed("p"),
        ],
    ),
    case("bytes", &[Start("p", r"printf '\000\377\303\251\n'", ""), Closed("p")]),
    case(
        "many_bytes",
        &[Start("p", "head -c 300000 /dev/zero | tr '\\0' x", ""), Closed("p")],
    ),
    case(
        "environment_is_what_was_given",
        &[
            Start(
                "p",
                "",
                r#"{"argv":["/usr/bin/env"],"env":{"B":"2","A":"1 =x","EMPTY":""}}"#,
            ),
            Closed("p"),
            Start("q", "", r#"{"argv":["/usr/bin/env"],"env":{}}"#),
            Closed("q"),
        ],
    ),
    case(
        "environment_policy",
        &[
            Start(
                "a",
                "",
                r#"{"argv":["/usr/bin/env"],"env":{"B":"2"},"envPolicy":
            {"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"A":"1","B":"3"},"includeOnly":[]}}"#,
            ),
            Closed("a"),
            Start(
                "b",
                "",
                r#"{"argv":["/usr/bin/env"],"env":{},"envPolicy":
            {"inherit":"none","ignoreDefaultExcludes":false,"exclude":[],"set":{"MY_KEY":"1","B":"3"},"includeOnly":[]}}"#,
            ),
            Closed("b"),
            Start(
                "c",
                "",
                r#"{"argv":["/usr/bin/env"],"env":{"X":"x"},"envPolicy":
            {"inherit":"none","ignoreDefaultExcludes":false,"exclude":["b*"],"set":{"A1":"1","B":"3","C":"4"},"includeOnly":["a?","B"]}}"#,
            ),
            Closed("c"),
            Start(
                "d",
                "",
                r#"{"argv":["/usr/bin/env"],"env":{},"envPolicy":
            {"inherit":"all","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":["nothing"]}}"#,
            ),
            Closed("d"),
        ],
    ),
    case(
        "incomplete_environment_policy",
        &[
            Start("p", "", r#"{"envPolicy":{}}"#),
            Start("p", "", r#"{"envPolicy":{"inherit":"none"}}"#),
            Start(
                "p",
                "",
                r#"{"envPolicy":{"inherit":"some","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":[]}}"#,
            ),
            Start(
                "p",
                "",
                r#"{"envPolicy":{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{}}}"#,
            ),
            Start("p", "exit 1", r#"{"envPolicy":null}"#),
            Closed("p"),
        ],
    ),
    case(
        "arg0",
        &[
            Start("p", "tr '\\0' ' ' < /proc/$$/cmdline", r#"{"arg0":"other"}"#),
            Closed("p"),
            Start("q", "tr '\\0' ' ' < /proc/$$/cmdline", r#"{"arg0":""}"#),
            Closed("q"),
        ],
    ),
    case(
        "arg0_on_a_terminal",
        &[
            Start("p", "tr '\\0' ' ' < /proc/$$/cmdline", r#"{"arg0":"other","tty":true}"#),
            Closed("p"),
        ],
    )
    .newer(),
    case(
        "group_and_session",
        &[
            Start(
                "p",
                "set -- $(cat /proc/$$/stat); test $1 = $5 && test $1 = $6 && echo leader of both",
                "",
            ),
            Closed("p"),
            Start(
                "q",
                "set -- $(cat /proc/$$/stat); test $1 = $5 && test $1 = $6 && echo leader of both",
                r#"{"tty":true}"#,
            ),
            Closed("q"),
        ],
    ),
    case(
        "descriptors",
        &[
            Start("p", "ls /proc/self/fd | tr '\\n' ' '; readlink /proc/$$/fd/0", ""),
            Closed("p"),
        ],
    ),
    case("umask_and_limits", &[Start("p", "umask", ""), Closed("p")]),
    case(
        "read_parameters",
        &[
            Exact("process/read", r#"{"processId":"none"}"#),
            Call("process/read", "{}"),
            Call("process/read", r#"{"processId":null}"#),
            Call("process/read", r#"{"processId":"none","afterSeq":-1}"#),
            Call("process/read", r#"{"processId":"none","maxBytes":-1}"#),
            Call("process/read", r#"{"processId":"none","waitMs":-1}"#),
            Call("process/read", r#"{"processId":"none","waitMs":1.5}"#),
            Call(
                "process/read",
                r#"{"processId":"none","afterSeq":null,"maxBytes":null,"waitMs":null}"#,
            ),
            Call(
                "process/read",
                r#"{"processId":"none","afterSeq":18446744073709551615,"waitMs":18446744073709551615}"#,
            ),
        ],
    ),
    case(
        "write_parameters",
        &[
            Call("process/write", r#"{"processId":"none","chunk":"aGk=","writeId":"1"}"#),
            Exact("process/write", r#"{"processId":"none","chunk":"aGk=","writeId":""}"#),
            Call("process/write", r#"{"processId":"none","chunk":"aGk="}"#),
            Call("process/write", r#"{"processId":"none","chunk":"aGk=","writeId":null}"#),
            Call("process/write", r#"{"processId":"none","chunk":"aGk=","writeId":5}"#),
            Call("process/write", r#"{"processId":"none","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"none","chunk":"aGk","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"none","chunk":"a-_=","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"none","chunk":"aGk= ","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"none","chunk":"aGl=","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"none","chunk":"","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"none","chunk":5,"writeId":"1"}"#),
            Call("process/write", r#"{"chunk":"aGk=","writeId":"1"}"#),
        ],
    ),
    case(
        "signal_parameters",
        &[
            Call("process/signal", r#"{"processId":"none","signal":"interrupt"}"#),
            Call("process/signal", r#"{"processId":"none"}"#),
            Call("process/signal", r#"{"signal":"interrupt"}"#),
            Call("process/signal", r#"{"processId":"none","signal":"kill"}"#),
            Call("process/signal", r#"{"processId":"none","signal":"Interrupt"}"#),
            Call("process/signal", r#"{"processId":"none","signal":2}"#),
            Call("process/signal", r#"{"processId":"none","signal":null}"#),
        ],
    ),
    case(
        "terminate_parameters",
        &[
            Call("process/terminate", r#"{"processId":"none"}"#),
            Call("process/terminate", "{}"),
            Call("process/terminate", ""),
            Call("process/terminate", r#"{"processId":5}"#),
        ],
    ),
    case(
        "what_is_kept",
        &[
            Start("p", "head -c 3000000 /dev/zero; read line", r#"{"pipeStdin":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"Cg==","writeId":"1"}"#),
            Exited("p"),
            WaitClosed("p"),
            Kept("p"),
        ],
    ),
    case(
        "a_background_child_holds_the_output",
        &[
            Start(
                "p",
                "(until [ -e go ]; do sleep 0.02; done; printf late) & echo $!; exit 3",
                "",
            ),
            Exited("p"),
            Call("process/terminate", r#"{"processId":"p"}"#),
            Shell("touch go"),
            Output("p", "late"),
            WaitClosed("p"),
            Look("echo over"),
        ],
    ),
];
