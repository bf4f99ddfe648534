//! Sandboxes by what their profiles say: kinds of entries, shapes of older and newer clients, and calls that they refuse.

use super::script::Step::{Call, Closed, Look, Shell, Start};
use super::script::{Case, case};

/// A profile with these entries, and more members of the sandbox.
macro_rules! sandbox {
    ($entries:literal) => {
        sandbox!($entries, r#""cwd":"$dir","workspaceRoots":["$dir"],"#)
    };
    ($entries:literal, $more:literal) => {
        concat!(
            r#"{"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":["#,
            $entries,
            r#"]},"network":"restricted"},"#,
            $more,
            r#""windowsSandboxLevel":"disabled"}}"#
        )
    };
}

/// The same, behind the parameters of a call on files.
macro_rules! file {
    ($params:literal, $entries:literal) => {
        file!($params, $entries, r#""cwd":"$dir","workspaceRoots":["$dir"],"#)
    };
    ($params:literal, $entries:literal, $more:literal) => {
        concat!(
            "{",
            $params,
            r#","sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":["#,
            $entries,
            r#"]},"network":"restricted"},"#,
            $more,
            r#""windowsSandboxLevel":"disabled"}}"#
        )
    };
}

const LOOK: &str = "cat a/file || echo no; echo x > a/new && echo written || echo no; cat b/file || echo no; echo x > b/new && echo written || echo no";

pub(super) const CASES: &[Case] = &[
    case(
        "the_longest_prefix_counts",
        &[
            Shell("mkdir a b; printf 'A\\n' > a/file; printf 'B\\n' > b/file"),
            Start(
                "p",
                LOOK,
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"$dir/a"},"access":"write"}"#
                ),
            ),
            Closed("p"),
            Start(
                "q",
                LOOK,
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"$dir"},"access":"write"},{"path":{"type":"path","path":"$dir/b"},"access":"read"}"#
                ),
            ),
            Closed("q"),
            Look("ls a b"),
        ],
    ),
    case(
        "minimal",
        &[
            Shell("printf x > file"),
            Start(
                "p",
                "cat file || echo no; ls /usr/bin/env; cat /etc/hostname > /dev/null && echo etc",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},{"path":{"type":"path","path":"$dir"},"access":"read"}"#
                ),
            ),
            Closed("p"),
        ],
    ),
    case(
        "older_names",
        &[
            Shell("mkdir a; printf x > a/file"),
            Start(
                "p",
                "echo x > a/new && echo written || echo no; cat a/file || echo hidden",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"current_working_directory"}},"access":"write"},{"path":{"type":"path","path":"$dir/none"},"access":"none"}"#
                ),
            ),
            Closed("p"),
        ],
    ),
    case(
        "newer_shape",
        &[
            Start(
                "p",
                "echo x > new && echo written || echo no",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}"#,
                    r#""policyContext":{"cwd":"$dir","workspaceRoots":["$dir"]},"#
                ),
            ),
            Closed("p"),
            Start(
                "q",
                "echo x > newer && echo written || echo no",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write","missing_path_behavior":"skip"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":".aws"}},"access":"read","missing_path_behavior":"skip"}"#,
                    r#""cwd":"file:///usr","workspaceRoots":["file:///usr"],"policyContext":{"cwd":"$dir","workspaceRoots":["$dir"]},"userHomeDir":"$dir","windowsSandboxProxySettingsMode":"reconcile","#
                ),
            ),
            Closed("q"),
        ],
    )
    .newer(),
    case(
        "no_workspace",
        &[
            Start(
                "p",
                "echo x > new && echo written || echo no",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}"#,
                    r#""cwd":"$dir","workspaceRoots":[],"#
                ),
            ),
            Closed("p"),
        ],
    ),
    case(
        "no_working_directory",
        &[
            Shell("printf x > file"),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"read"}"#,
                    ""
                ),
            ),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"glob_pattern","pattern":"*.env"},"access":"deny"}"#,
                    ""
                ),
            ),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    ""
                ),
            ),
        ],
    ),
    case(
        "patterns",
        &[
            Shell("mkdir -p a/b; for f in x.env a/x.env a/b/x.env a/b/plain; do echo $f > $f; done"),
            Start(
                "p",
                "for f in x.env a/x.env a/b/x.env a/b/plain; do cat $f || echo no; done",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"deny"}"#
                ),
            ),
            Closed("p"),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/a/b/plain""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"deny"}"#
                ),
            ),
        ],
    )
    .newer(),
    case(
        "refused",
        &[
            Start(
                "p",
                "true",
                sandbox!(r#"{"path":{"type":"special","value":{"kind":"made-up"}},"access":"read"}"#),
            ),
            Start(
                "p",
                "true",
                sandbox!(r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"all"}"#),
            ),
            Start("p", "true", sandbox!(r#"{"path":{"type":"made-up"},"access":"read"}"#)),
            Start("p", "true", sandbox!(r#"{"access":"read"}"#)),
            Start("p", "true", sandbox!("5")),
            Start(
                "p",
                "true",
                sandbox!(r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#, r#""cwd":"$path","#),
            ),
            Start(
                "p",
                "true",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"$dir","workspaceRoots":["$path"],"#
                ),
            ),
            Start(
                "p",
                "true",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"$dir","workspaceRoots":"$dir","#
                ),
            ),
            Call("process/read", r#"{"processId":"p"}"#),
        ],
    ),
    case(
        "places_of_later_clients",
        &[
            Shell("printf x > file"),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"unknown","path":":later","subpath":"x"}},"access":"deny"}"#
                ),
            ),
            Start(
                "p",
                "cat file || echo no",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"unknown","path":":later","subpath":"x"}},"access":"deny"}"#
                ),
            ),
        ],
    )
    .newer(),
    case(
        "folders_that_are_none",
        &[
            Shell("printf x > file"),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"file:///C:/x","#
                ),
            ),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"$dir/none","#
                ),
            ),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"$path","#
                ),
            ),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"$dir","workspaceRoots":["file:///C:/x"],"#
                ),
            ),
            Call(
                "fs/writeFile",
                file!(
                    r#""path":"$dir/file","dataBase64":"eA==""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"$dir"},"access":"write"}"#,
                    r#""cwd":"file:///C:/x","#
                ),
            ),
            Start(
                "p",
                "cat file || echo no",
                sandbox!(
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
                    r#""cwd":"file:///C:/x","#
                ),
            ),
        ],
    ),
    case(
        "refused_for_files",
        &[
            Shell("printf x > file"),
            Call(
                "fs/readFile",
                file!(
                    r#""path":"$dir/file""#,
                    r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"all"}"#
                ),
            ),
            Call("fs/readFile", file!(r#""path":"$dir/file""#, r#"{"access":"read"}"#)),
            Call(
                "fs/readFile",
                r#"{"path":"$dir/file","sandbox":{"permissions":{"type":"disabled"}}}"#,
            ),
            Call(
                "fs/readFile",
                r#"{"path":"$dir/file","sandbox":{"permissions":{"type":"made-up"},"windowsSandboxLevel":"disabled"}}"#,
            ),
            Call(
                "fs/readFile",
                r#"{"path":"$dir/file","sandbox":{"permissions":{"type":"disabled"},"windowsSandboxLevel":"off"}}"#,
            ),
            Call(
                "fs/readFile",
                r#"{"path":"$dir/file","sandbox":{"permissions":{"type":"disabled"},"windowsSandboxLevel":"elevated"}}"#,
            ),
            Call(
                "fs/readFile",
                r#"{"path":"$dir/file","sandbox":{"permissions":{"type":"external","network":"restricted"},"windowsSandboxLevel":"disabled"}}"#,
            ),
            Call(
                "fs/readFile",
                r#"{"path":"$dir/file","sandbox":{"permissions":{"type":"external"},"windowsSandboxLevel":"disabled"}}"#,
            ),
        ],
    ),
    case(
        "calls_on_what_is_not_allowed",
        &[
            Shell("mkdir in; printf x > in/file; printf x > out; mkdir folder; printf x > folder/file"),
            Call(
                "fs/walk",
                file!(
                    r#""path":"$dir/in","options":{"maxDepth":9,"maxDirectories":9,"maxEntries":9,"followDirectorySymlinks":false}"#,
                    r#"{"path":{"type":"path","path":"$dir/in"},"access":"read"}"#
                ),
            ),
            Call(
                "fs/readFile",
                file!(r#""path":"$dir/in/file""#, r#"{"path":{"type":"path","path":"$dir/in"},"access":"read"}"#),
            ),
            Call(
                "fs/readFile",
                file!(r#""path":"$dir/out""#, r#"{"path":{"type":"path","path":"$dir/in"},"access":"read"}"#),
            ),
            Call(
                "fs/getMetadata",
                file!(r#""path":"$dir/out""#, r#"{"path":{"type":"path","path":"$dir/in"},"access":"read"}"#),
            ),
            Call(
                "fs/canonicalize",
                file!(r#""path":"$dir/folder/file""#, r#"{"path":{"type":"path","path":"$dir/in"},"access":"read"}"#),
            ),
            Call(
                "fs/readDirectory",
                file!(r#""path":"$dir/folder""#, r#"{"path":{"type":"path","path":"$dir/in"},"access":"read"}"#),
            ),
            Call(
                "fs/remove",
                file!(
                    r#""path":"$dir/out","force":false"#,
                    r#"{"path":{"type":"path","path":"$dir/in"},"access":"write"}"#
                ),
            ),
            Call(
                "fs/writeFile",
                file!(
                    r#""path":"$dir/in/new","dataBase64":"eA==""#,
                    r#"{"path":{"type":"path","path":"$dir/in"},"access":"write"}"#
                ),
            ),
            Call(
                "fs/copy",
                file!(
                    r#""sourcePath":"$dir/out","destinationPath":"$dir/in/copy","recursive":false"#,
                    r#"{"path":{"type":"path","path":"$dir/in"},"access":"write"}"#
                ),
            ),
            Look("ls . in"),
        ],
    ),
    case(
        "missing_programs",
        &[Start(
            "p",
            "",
            r#"{"argv":["/no/such/program"],"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"$dir","windowsSandboxLevel":"disabled"}}"#,
        )],
    ),
];
