//! `process/start` and `fs/*` in a sandbox.

use super::script::Step::{Call, Closed, Look, Output, Shell, Start};
use super::script::{Case, case};

/// A sandbox with these entries and this network, for the case's folder.
macro_rules! sandbox {
    ($entries:literal, $network:literal) => {
        concat!(
            r#""sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":["#,
            $entries,
            r#"]},"network":""#,
            $network,
            r#""},"cwd":"$dir","workspaceRoots":["$dir"],"windowsSandboxLevel":"disabled"}"#
        )
    };
}

/// Everything can be read.
macro_rules! read_only {
    () => {
        sandbox!(
            r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#,
            "restricted"
        )
    };
}

/// The workspace can be written, but not what leads agents in it.
macro_rules! workspace {
    () => {
        sandbox!(
            r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},{"path":{"type":"special","value":{"kind":"project_roots","subpath":".git"}},"access":"read"}"#,
            "restricted"
        )
    };
}

/// One folder in the workspace cannot be seen.
macro_rules! secret {
    () => {
        sandbox!(
            r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},{"path":{"type":"path","path":"$dir/secret"},"access":"deny"}"#,
            "restricted"
        )
    };
}

pub(super) const CASES: &[Case] = &[
    case(
        "reading",
        &[
            Shell("printf content > file"),
            Start(
                "a",
                "cat file; echo; echo x > new || echo denied; pwd; exit 5",
                concat!("{", read_only!(), "}"),
            ),
            Closed("a"),
            Look("ls"),
        ],
    ),
    case(
        "writing_a_workspace",
        &[
            Shell("mkdir .git; printf x > .git/config"),
            Start(
                "a",
                "echo y > new && cat new; echo z > .git/config; cat .git/config; echo; mkdir -p a/b && ls",
                concat!("{", workspace!(), "}"),
            ),
            Closed("a"),
            Look("ls; cat .git/config"),
            Start("b", "echo y > /usr/outside || exit 9", concat!("{", workspace!(), "}")),
            Closed("b"),
        ],
    ),
    case(
        "hidden_folders",
        &[
            Shell("mkdir secret; printf x > secret/file; ln -s secret/file link"),
            Start(
                "a",
                "cat secret/file || echo hidden; cat link || echo hidden; cat ../*/secret/file || echo hidden",
                concat!("{", secret!(), "}"),
            ),
            Closed("a"),
            Look("cat secret/file"),
        ],
    )
    .newer(),
    case(
        "terminals",
        &[
            Start(
                "a",
                "test -t 0 && stty size; echo x > new || exit 7",
                concat!(r#"{"tty":true,"#, read_only!(), "}"),
            ),
            Closed("a"),
            Look("ls"),
        ],
    ),
    case(
        "network",
        &[
            Start(
                "a",
                "",
                concat!(
                    r#"{"argv":["/bin/bash","--norc","-c","exec 3<>/dev/tcp/127.0.0.1/1 || echo no"],"#,
                    read_only!(),
                    "}"
                ),
            ),
            Closed("a"),
        ],
    ),
    case(
        "programs",
        &[
            Start(
                "a",
                "echo $0 $KEPT; env | grep -c KEPT",
                concat!(r#"{"env":{"PATH":"/usr/bin:/bin","KEPT":"1"},"#, read_only!(), "}"),
            ),
            Closed("a"),
            Start("b", "kill -9 $$", concat!("{", read_only!(), "}")),
            Closed("b"),
            Start("c", "cat", concat!(r#"{"pipeStdin":true,"#, read_only!(), "}")),
            Call("process/write", r#"{"processId":"c","chunk":"eA==","writeId":"1"}"#),
            Output("c", "x"),
            Call("process/terminate", r#"{"processId":"c"}"#),
        ],
    ),
    case(
        "other_profiles",
        &[
            Start(
                "a",
                "echo x > new; cat new",
                r#"{"sandbox":{"permissions":{"type":"disabled"},"cwd":"$dir","windowsSandboxLevel":"disabled"}}"#,
            ),
            Closed("a"),
            Start(
                "b",
                "echo y > new; cat new",
                r#"{"sandbox":{"permissions":{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"},"cwd":"$dir","windowsSandboxLevel":"disabled"}}"#,
            ),
            Closed("b"),
        ],
    ),
    case(
        "bad_profiles",
        &[
            Start("a", "true", r#"{"sandbox":5}"#),
            Start("a", "true", r#"{"sandbox":{}}"#),
            Start("a", "true", r#"{"sandbox":{"permissions":{"type":"disabled"}}}"#),
            Start(
                "a",
                "true",
                r#"{"sandbox":{"permissions":{"type":"made-up"},"windowsSandboxLevel":"disabled"}}"#,
            ),
            Start(
                "a",
                "true",
                r#"{"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"relative"},"access":"read"}]},"network":"restricted"},"windowsSandboxLevel":"disabled"}}"#,
            ),
            Start(
                "a",
                "true",
                r#"{"sandbox":{"permissions":{"type":"disabled"},"cwd":"file:///C:/x","windowsSandboxLevel":"disabled"}}"#,
            ),
            Call("process/read", r#"{"processId":"a"}"#),
        ],
    ),
    case(
        "files_that_can_be_read",
        &[
            Shell("printf content > file; mkdir folder; ln -s file link"),
            Call("fs/readFile", concat!(r#"{"path":"$dir/file","#, read_only!(), "}")),
            Call("fs/readFile", concat!(r#"{"path":"$dir/link","#, read_only!(), "}")),
            Call(
                "fs/getMetadata",
                concat!(r#"{"path":"$dir/folder","#, read_only!(), "}"),
            ),
            Call("fs/readDirectory", concat!(r#"{"path":"$dir","#, read_only!(), "}")),
            Call("fs/canonicalize", concat!(r#"{"path":"$dir/link","#, read_only!(), "}")),
            Call("fs/readFile", concat!(r#"{"path":"$dir/none","#, read_only!(), "}")),
            Call(
                "fs/writeFile",
                concat!(r#"{"path":"$dir/new","dataBase64":"eA==","#, read_only!(), "}"),
            ),
            Call(
                "fs/createDirectory",
                concat!(r#"{"path":"$dir/new","#, read_only!(), "}"),
            ),
            Call("fs/remove", concat!(r#"{"path":"$dir/file","#, read_only!(), "}")),
            Call(
                "fs/copy",
                concat!(
                    r#"{"sourcePath":"$dir/file","destinationPath":"$dir/new","recursive":false,"#,
                    read_only!(),
                    "}"
                ),
            ),
            Look("ls; cat file"),
        ],
    ),
    case(
        "files_of_a_workspace",
        &[
            Shell("mkdir .git; printf x > .git/config; ln -s /usr outside"),
            Call(
                "fs/writeFile",
                concat!(r#"{"path":"$dir/new","dataBase64":"eA==","#, workspace!(), "}"),
            ),
            Call(
                "fs/createDirectory",
                concat!(r#"{"path":"$dir/a/b","#, workspace!(), "}"),
            ),
            Call(
                "fs/copy",
                concat!(
                    r#"{"sourcePath":"$dir/new","destinationPath":"$dir/a/b/c","recursive":false,"#,
                    workspace!(),
                    "}"
                ),
            ),
            Call("fs/remove", concat!(r#"{"path":"$dir/new","#, workspace!(), "}")),
            Call(
                "fs/writeFile",
                concat!(r#"{"path":"$dir/.git/config","dataBase64":"eQ==","#, workspace!(), "}"),
            ),
            Call(
                "fs/writeFile",
                concat!(
                    r#"{"path":"$dir/outside/made-by-a-test","dataBase64":"eQ==","#,
                    workspace!(),
                    "}"
                ),
            ),
            Call(
                "fs/writeFile",
                concat!(
                    r#"{"path":"file:///usr/made-by-a-test","dataBase64":"eQ==","#,
                    workspace!(),
                    "}"
                ),
            ),
            Look("ls; cat .git/config a/b/c"),
        ],
    ),
    case(
        "files_that_are_hidden",
        &[
            Shell("mkdir secret; printf x > secret/file; ln -s secret/file link"),
            Call("fs/readFile", concat!(r#"{"path":"$dir/secret/file","#, secret!(), "}")),
            Call("fs/readFile", concat!(r#"{"path":"$dir/link","#, secret!(), "}")),
            Call(
                "fs/writeFile",
                concat!(r#"{"path":"$dir/secret/new","dataBase64":"eA==","#, secret!(), "}"),
            ),
            Look("ls secret"),
        ],
    )
    .newer(),
    case(
        "open_files",
        &[
            Shell("printf content > file; mkdir secret; printf x > secret/file"),
            Call(
                "fs/open",
                concat!(r#"{"handleId":"a","path":"$dir/file","#, secret!(), "}"),
            ),
            Call("fs/readBlock", r#"{"handleId":"a","offset":3,"len":100}"#),
            Call(
                "fs/open",
                concat!(r#"{"handleId":"b","path":"$dir/secret/file","#, secret!(), "}"),
            ),
            Call(
                "fs/open",
                concat!(r#"{"handleId":"c","path":"$dir/new","mode":"replace","#, secret!(), "}"),
            ),
            Call("fs/writeBlock", r#"{"handleId":"c","offset":0,"chunk":"bmV3"}"#),
            Call("fs/close", r#"{"handleId":"c"}"#),
            Call(
                "fs/open",
                concat!(
                    r#"{"handleId":"d","path":"$dir/new","mode":"replace","#,
                    read_only!(),
                    "}"
                ),
            ),
            Look("cat new"),
        ],
    )
    .newer(),
];
