//! `process/start` on a terminal, with everything else that a start can ask for.

use super::script::Step::{Call, Closed, Exited, Look, Output, Shell, Start, WaitClosed};
use super::script::{Case, case};

const TERMINATE: &str = r#"{"processId":"p"}"#;
const VARIABLES: &str = "env | grep -i -E 'proxy|CODEX_NETWORK' | sed 's/127.0.0.1:[0-9]*/LOOPBACK/' | LC_ALL=C sort";

/// A sandbox in which everything can be read and, if said, the case's folder be written.
macro_rules! sandbox {
    () => {
        sandbox!("read")
    };
    ($roots:literal) => {
        concat!(
            r#""sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":""#,
            $roots,
            r#""}]},"network":"restricted"},"cwd":"$dir","workspaceRoots":["$dir"],"windowsSandboxLevel":"disabled"}"#
        )
    };
}

/// A sandbox with a profile without file rules.
macro_rules! profile {
    ($profile:literal) => {
        concat!(
            r#"{"tty":true,"sandbox":{"permissions":"#,
            $profile,
            r#","cwd":"$dir","windowsSandboxLevel":"disabled"}}"#
        )
    };
}

/// A proxy without rules.
macro_rules! proxy {
    () => {
        r#""networkProxy":{"proxy":{"enabled":true,"enableSocks5":true,"enableSocks5Udp":false,"allowUpstreamProxy":false,"dangerouslyAllowAllUnixSockets":false,"mode":"full","domains":{},"unixSockets":null,"allowLocalBinding":false},"auditMetadata":{}}"#
    };
}

pub(super) const CASES: &[Case] = &[
    case(
        "plain",
        &[
            Start("p", "stty size; tty | sed 's/[0-9]*$//'; readlink /proc/$$/fd/0 | sed 's/[0-9]*$//'; exit 3", r#"{"tty":true}"#),
            Closed("p"),
            Start("q", "stty -a | tr -s '; ' '\\n' | LC_ALL=C sort | tr '\\n' ' '", r#"{"tty":true}"#),
            Closed("q"),
            Start("r", "ls /proc/self/fd | tr '\\n' ' '; umask", r#"{"tty":true}"#),
            Closed("r"),
        ],
    ),
    case(
        "piped_stdin_says_nothing",
        &[
            Start("p", "read line; echo got-$line", r#"{"tty":true,"pipeStdin":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"b25lCg==","writeId":"1"}"#),
            Closed("p"),
            Start("q", "read line; echo got-$line", r#"{"tty":true,"pipeStdin":false}"#),
            Call("process/write", r#"{"processId":"q","chunk":"b25lCg==","writeId":"1"}"#),
            Call("process/write", r#"{"processId":"q","chunk":"dHdvCg==","writeId":"1"}"#),
            Closed("q"),
        ],
    ),
    case(
        "environment",
        &[
            Start("p", "echo [$TERM] [$A] [$PATH]", r#"{"tty":true,"env":{"TERM":"dumb","A":"1","PATH":"/bin"}}"#),
            Closed("p"),
            Start(
                "q",
                "",
                r#"{"tty":true,"argv":["/usr/bin/env"],"env":{"SHELL":"/x","B":"2"},"envPolicy":
                    {"inherit":"none","ignoreDefaultExcludes":false,"exclude":["C*"],"set":{"A":"1","B":"3","C1":"4"},"includeOnly":[]}}"#,
            ),
            Closed("q"),
            Start("r", "", r#"{"tty":true,"argv":["/usr/bin/env"],"env":{}}"#),
            Closed("r"),
        ],
    ),
    case(
        "directories",
        &[
            Shell("mkdir 'a b'; touch file"),
            Start("p", "pwd", r#"{"tty":true,"cwd":"$dir/a%20b"}"#),
            Closed("p"),
            Start("q", "true", r#"{"tty":true,"cwd":"file:///C:/x"}"#),
            Start("q", "true", r#"{"tty":true,"cwd":"$path"}"#),
            Start("q", "true", r#"{"tty":true,"cwd":"$dir/none"}"#),
            Start("r", "true", r#"{"tty":true,"cwd":"$dir/file"}"#),
        ],
    ),
    case(
        "programs",
        &[
            Shell("echo 'echo hi' > plain; mkdir folder bin; printf '#!/bin/sh\\necho mine\\n' > bin/mine; chmod +x bin/mine; ln -s bin/mine link"),
            Start("p", "", r#"{"tty":true,"argv":["no-such-program"]}"#),
            Start("p", "", r#"{"tty":true,"argv":["/no/such/program"]}"#),
            Start("p", "", r#"{"tty":true,"argv":["./plain"]}"#),
            Start("p", "", r#"{"tty":true,"argv":["./folder"]}"#),
            Start("p", "", r#"{"tty":true,"argv":[""]}"#),
            Start("p", "", r#"{"tty":true,"argv":[]}"#),
            Start("p", "", r#"{"tty":true,"argv":["tr\u0000ue"]}"#),
            // A failed start leaves the id free.
            Start("p", "", r#"{"tty":true,"argv":["./link"]}"#),
            Closed("p"),
            Start("q", "", r#"{"tty":true,"argv":["mine"],"env":{"PATH":"/bin:./bin"}}"#),
            Closed("q"),
            Start("r", "", r#"{"tty":true,"argv":["true"],"env":{}}"#),
        ],
    ),
    case(
        "arg0",
        &[
            Start("p", "tr '\\0' ' ' < /proc/$$/cmdline", r#"{"tty":true,"arg0":"-other"}"#),
            Closed("p"),
            Start("q", "tr '\\0' ' ' < /proc/$$/cmdline", r#"{"tty":true,"arg0":""}"#),
            Closed("q"),
        ],
    )
    .newer(),
    case(
        "ends",
        &[
            Start("a", "kill -TERM $$", r#"{"tty":true}"#),
            Closed("a"),
            Start("b", "kill -SEGV $$", r#"{"tty":true}"#),
            Closed("b"),
            Start("c", "exit 255", r#"{"tty":true}"#),
            Closed("c"),
            Call("process/write", r#"{"processId":"c","chunk":"eA==","writeId":"1"}"#),
            Call("process/terminate", r#"{"processId":"c"}"#),
            // The terminal hangs up with its leader, and with it goes what is left of the session.
            Start("d", "sleep 1000 & exit 3", r#"{"tty":true}"#),
            Closed("d"),
        ],
    ),
    case(
        "an_id_is_taken",
        &[
            Start("p", "read line", r#"{"tty":true}"#),
            Start("p", "true", r#"{"tty":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"Cg==","writeId":"1"}"#),
            WaitClosed("p"),
            Start("p", "true", r#"{"tty":true}"#),
        ],
    ),
    case(
        "keys",
        &[
            Start("p", "stty -echo; echo ready; read a; read b; echo [$a] [$b]", r#"{"tty":true}"#),
            Output("p", "ready"),
            // Return is turned into the end of a line, and the erase key erases.
            Call("process/write", r#"{"processId":"p","chunk":"b25leA1","writeId":"bad"}"#),
            Call("process/write", r#"{"processId":"p","chunk":"b254f2UNdHdvDQ==","writeId":"1"}"#),
            Closed("p"),
        ],
    ),
    case(
        "much_output",
        &[
            Start("p", "stty -opost; head -c 300000 /dev/zero | tr '\\0' x", r#"{"tty":true}"#),
            Closed("p"),
        ],
    ),
    case(
        "read",
        &[
            Start("p", "printf abc; read line; printf defg; exit 3", r#"{"tty":true}"#),
            Output("p", "abc"),
            Call("process/read", r#"{"processId":"p"}"#),
            Call("process/read", r#"{"processId":"p","maxBytes":0}"#),
            Call("process/read", r#"{"processId":"p","afterSeq":1,"waitMs":30}"#),
            Call("process/signal", r#"{"processId":"p","signal":"interrupt"}"#),
            Exited("p"),
            WaitClosed("p"),
            Call("process/read", r#"{"processId":"p","afterSeq":9}"#),
        ],
    ),
    case(
        "sandboxed",
        &[
            Start("a", "test -t 0 && test -t 2 && stty size; echo x > new || exit 7", concat!(r#"{"tty":true,"#, sandbox!(), "}")),
            Closed("a"),
            Start("b", "echo x > new && cat new; read line; echo [$line]; exit 4", concat!(r#"{"tty":true,"#, sandbox!("write"), "}")),
            Output("b", "x"),
            Call("process/write", r#"{"processId":"b","chunk":"b25lCg==","writeId":"1"}"#),
            Closed("b"),
            Look("cat new"),
            Start("c", "kill -KILL $$", concat!(r#"{"tty":true,"#, sandbox!(), "}")),
            Closed("c"),
            Start("p", "echo ready; sleep 1000", concat!(r#"{"tty":true,"#, sandbox!(), "}")),
            Output("p", "ready"),
            Call("process/terminate", TERMINATE),
            WaitClosed("p"),
            Call("process/terminate", TERMINATE),
        ],
    ),
    case(
        "sandboxed_arg0",
        &[
            Start("a", "tr '\\0' ' ' < /proc/$$/cmdline", concat!(r#"{"tty":true,"arg0":"-other","#, sandbox!(), "}")),
            Closed("a"),
        ],
    )
    .newer(),
    case(
        "sandboxed_keys",
        &[
            Start(
                "a",
                "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.02; done",
                concat!(r#"{"tty":true,"#, sandbox!(), "}"),
            ),
            Output("a", "ready"),
            Call("process/write", r#"{"processId":"a","chunk":"Aw==","writeId":"1"}"#),
            Closed("a"),
        ],
    ),
    case(
        "other_profiles",
        &[
            Start("a", "echo x > new; cat new; exit 2", profile!(r#"{"type":"disabled"}"#)),
            Closed("a"),
            Start("b", "echo y; exit 2", profile!(r#"{"type":"external","network":"enabled"}"#)),
            Closed("b"),
            Start("c", "echo y; exit 2", profile!(r#"{"type":"external","network":"restricted"}"#)),
            Closed("c"),
            Start(
                "d",
                "echo z > new; cat new; exit 2",
                profile!(r#"{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}"#),
            ),
            Closed("d"),
            Start(
                "e",
                "echo z > new; cat new; exit 2",
                profile!(r#"{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}"#),
            ),
            Closed("e"),
            Start("f", "true", profile!(r#"{"type":"made-up"}"#)),
            Start("f", "true", r#"{"tty":true,"sandbox":{}}"#),
            Start("f", "true", r#"{"tty":true,"sandbox":5}"#),
        ],
    ),
    case(
        "proxies",
        &[
            Start("a", VARIABLES, concat!(r#"{"tty":true,"#, proxy!(), "}")),
            Closed("a"),
            Start(
                "b",
                "curl -s -m 20 -o /dev/null -w '%{http_code} %header{x-proxy-error}\\n' http://unknown.test/; exit 3",
                concat!(r#"{"tty":true,"enforceManagedNetwork":true,"#, proxy!(), ",", sandbox!(), "}"),
            ),
            Closed("b"),
        ],
    )
    .newer(),
    case(
        "snapshots",
        &[
            Shell("printf 'export FROM=profile\\ngreet() { echo greet; }\\n' > .bash_profile"),
            Start(
                "a",
                "",
                r#"{"tty":true,"argv":["/bin/bash","-lc","echo $FROM $OWN; greet; test -t 0 && echo terminal; exit 5"],"env":{"OWN":"own"},
                    "envPolicy":{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"includeOnly":[],"set":{"HOME":"$path","PATH":"/usr/bin:/bin"}},
                    "shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}}"#,
            ),
            Closed("a"),
            Start(
                "b",
                "",
                r#"{"tty":true,"argv":["/bin/bash","-lc","greet"],"env":{},
                    "envPolicy":{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"includeOnly":[],"set":{"HOME":"$path","PATH":"/usr/bin:/bin"}},
                    "shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}}"#,
            ),
            Closed("b"),
        ],
    )
    .newer(),
    case(
        "metadata",
        &[
            Start("a", "exit 6", r#"{"tty":true,"metadata":{"threadId":"019a0000-0000-7000-8000-000000000000","toolCallId":"c"}}"#),
            Closed("a"),
            Start("b", "exit 6", r#"{"tty":true,"metadata":{"threadId":"t"}}"#),
        ],
    )
    .newer(),
];
