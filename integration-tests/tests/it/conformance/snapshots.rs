//! `process/start` with a shell snapshot.

use super::script::Step::{Call, Closed, Look, Shell, Start};
use super::script::{Case, case};

/// A start in whose parameters `$argv` is the command, and `$more` what is added to the snapshot.
macro_rules! start {
    ($process:literal, $argv:literal, $snapshot:literal) => {
        Start(
            $process,
            "",
            concat!(
                r#"{"argv":"#,
                $argv,
                r#","env":{"OWN":"own"},"envPolicy":{"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"includeOnly":[],"set":{"HOME":"$path","PATH":"/usr/bin:/bin"}},"shellSnapshot":"#,
                $snapshot,
                "}"
            ),
        )
    };
}

const BASH: &str = "printf 'echo ran >> \"$HOME/runs\"\\nexport FROM=profile\\nNOT=exported\\ngreet() { echo greet; }\\nalias hi=\"echo hi\"\\n' > .bash_profile";

pub(super) const CASES: &[Case] = &[
    case(
        "start_up_files_run_once",
        &[
            Shell(BASH),
            start!(
                "a",
                r#"["/bin/bash","-lc","echo $FROM $OWN; greet; pwd; exit 3"]"#,
                r#"{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}"#
            ),
            Closed("a"),
            start!(
                "b",
                r#"["/bin/bash","-lc","echo $FROM; greet; echo $0-$1","zero","one"]"#,
                r#"{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}"#
            ),
            Closed("b"),
            Look("wc -l < runs"),
            // Another scope is another snapshot.
            start!(
                "c",
                r#"["/bin/bash","-lc","greet"]"#,
                r#"{"scopeId":"t","shell":{"name":"bash","path":"/bin/bash"}}"#
            ),
            Closed("c"),
            Look("wc -l < runs"),
        ],
    )
    .newer(),
    case(
        "other_commands_are_left_alone",
        &[
            Shell(BASH),
            start!(
                "a",
                r#"["/bin/bash","-c","echo x$FROM"]"#,
                r#"{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}"#
            ),
            Closed("a"),
            start!(
                "b",
                r#"["/bin/echo","-lc","hello"]"#,
                r#"{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}"#
            ),
            Closed("b"),
            start!("c", r#"["/bin/bash","-lc","echo $FROM"]"#, "null"),
            Closed("c"),
            Look("wc -l < runs"),
        ],
    )
    .newer(),
    case(
        "start_up_files_that_fail",
        &[
            Shell("printf 'echo ran >> \"$HOME/runs\"\\nexport FROM=profile\\nexit 4\\n' > .bash_profile"),
            start!(
                "a",
                r#"["/bin/bash","-lc","echo $FROM"]"#,
                r#"{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}"#
            ),
            Closed("a"),
        ],
    )
    .newer(),
    case(
        "bad_parameters",
        &[
            start!(
                "a",
                r#"["/bin/sh","-lc","true"]"#,
                r#"{"scopeId":"","shell":{"name":"sh","path":"/bin/sh"}}"#
            ),
            start!(
                "a",
                r#"["/bin/sh","-lc","true"]"#,
                r#"{"shell":{"name":"sh","path":"/bin/sh"}}"#
            ),
            start!("a", r#"["/bin/sh","-lc","true"]"#, r#"{"scopeId":"s"}"#),
            start!(
                "a",
                r#"["/bin/sh","-lc","true"]"#,
                r#"{"scopeId":"s","shell":{"name":"sh"}}"#
            ),
            start!("a", r#"["/bin/sh","-lc","true"]"#, "5"),
            Call("process/read", r#"{"processId":"a"}"#),
        ],
    )
    .newer(),
];
