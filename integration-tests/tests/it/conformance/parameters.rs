//! Parameters that no call takes: missing, of another type, beyond what a number holds.

use super::script::Step::{Call, Shell};
use super::script::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "write_file",
        &[
            Call("fs/writeFile", r#"{"path":5,"dataBase64":""}"#),
            Call("fs/writeFile", r#"{"path":"$path/x","dataBase64":""}"#),
            Call("fs/writeFile", r#"{"path":"file:///C:/x","dataBase64":""}"#),
            Call("fs/writeFile", r#"{"path":"$dir/x","dataBase64":null}"#),
            Call("fs/writeFile", r#"{"path":"$dir/x","dataBase64":["eA=="]}"#),
            Call("fs/writeFile", r#"{"path":"$dir/x","dataBase64":"eA==\n"}"#),
            Call("fs/writeFile", r#"{"path":"$dir/x","dataBase64":"eA==","more":5}"#),
            Call("fs/writeFile", r#"{"path":"$dir/y","dataBase64":"eA==","sandbox":5}"#),
        ],
    ),
    case(
        "directories",
        &[
            Call("fs/createDirectory", r#"{"path":null}"#),
            Call("fs/createDirectory", r#"{"path":"$path/x"}"#),
            Call("fs/createDirectory", r#"{"path":"file://server/x"}"#),
            Call("fs/createDirectory", r#"{"path":"$dir/x","recursive":"yes"}"#),
            Call("fs/createDirectory", r#"{"path":"$dir/x","sandbox":[]}"#),
            Call("fs/readDirectory", r#"{"path":5}"#),
            Call("fs/readDirectory", r#"{"path":"$path"}"#),
            Call("fs/readDirectory", r#"{"path":"file:///C:/"}"#),
            Call("fs/readDirectory", r#"{"path":"$dir","sandbox":"none"}"#),
        ],
    ),
    case(
        "metadata",
        &[
            Call("fs/getMetadata", r#"{"path":5}"#),
            Call("fs/getMetadata", r#"{"path":"$path"}"#),
            Call("fs/getMetadata", r#"{"path":"file:///C:/x"}"#),
            Call("fs/getMetadata", r#"{"path":"$dir","sandbox":{}}"#),
            Call("fs/canonicalize", "{}"),
            Call("fs/canonicalize", r#"{"path":5}"#),
            Call("fs/canonicalize", r#"{"path":"file:///C:/x"}"#),
            Call("fs/canonicalize", r#"{"path":"$dir","sandbox":5}"#),
        ],
    ),
    case(
        "links",
        &[
            Call("fs/readFile", r#"{"path":"$dir/x","followSymlinks":5}"#),
            Call(
                "fs/writeFile",
                r#"{"path":"$dir/x","dataBase64":"","followSymlinks":"no"}"#,
            ),
            Call("fs/createDirectory", r#"{"path":"$dir/x","followSymlinks":[]}"#),
            Call("fs/getMetadata", r#"{"path":"$dir/x","followSymlinks":{}}"#),
            Call("fs/remove", r#"{"path":"$dir/x","followSymlinks":0}"#),
        ],
    )
    .newer(),
    case(
        "remove",
        &[
            Call("fs/remove", r#"{"path":5}"#),
            Call("fs/remove", r#"{"path":"$path/x"}"#),
            Call("fs/remove", r#"{"path":"file:///C:/x"}"#),
            Call("fs/remove", r#"{"path":"$dir/x","recursive":5}"#),
            Call("fs/remove", r#"{"path":"$dir/x","force":"yes"}"#),
            Call("fs/remove", r#"{"path":"$dir/x","sandbox":5}"#),
        ],
    ),
    case(
        "copy",
        &[
            Shell("printf x > a"),
            Call("fs/copy", "{}"),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/a","destinationPath":"$dir/b","recursive":null}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/a","destinationPath":"$dir/b","recursive":"no"}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$path/a","destinationPath":"$dir/b","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/a","destinationPath":"$path/b","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"file:///C:/a","destinationPath":"$dir/b","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/a","destinationPath":"file:///C:/b","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/a","destinationPath":"$dir/b","recursive":false,"sandbox":5}"#,
            ),
            Call("fs/readFile", r#"{"path":"$dir/b"}"#),
        ],
    ),
    case(
        "walk",
        &[
            Call("fs/walk", "{}"),
            Call("fs/walk", r#"{"path":"$dir","options":null}"#),
            Call("fs/walk", r#"{"path":"$dir","options":5}"#),
            Call(
                "fs/walk",
                r#"{"path":"$path","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"file:///C:/x","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1.0,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":18446744073709551615,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":18446744073709551616,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false,"pruneHiddenDirectories":null}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false,"more":1}}"#,
            ),
        ],
    ),
    case(
        "handles",
        &[
            Shell("printf x > file"),
            Call("fs/open", "{}"),
            Call("fs/open", r#"{"handleId":null,"path":"$dir/file"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$path/file"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"file:///C:/file"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file","sandbox":5}"#),
            Call("fs/readBlock", "{}"),
            Call("fs/readBlock", r#"{"handleId":5,"offset":0,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":"0","len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":-1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0.5,"len":1}"#),
            Call(
                "fs/readBlock",
                r#"{"handleId":"h","offset":18446744073709551616,"len":1}"#,
            ),
            Call(
                "fs/readBlock",
                r#"{"handleId":"h","offset":18446744073709551615,"len":1}"#,
            ),
            Call("fs/close", r#"{"handleId":null}"#),
            Call("fs/close", r#"{"handleId":5}"#),
            Call("fs/close", r#"{"handleId":"123456789012345678901234567890123"}"#),
        ],
    ),
    case(
        "numbers_beyond",
        &[
            Call(
                "process/read",
                r#"{"processId":"none","afterSeq":18446744073709551616}"#,
            ),
            Call(
                "process/read",
                r#"{"processId":"none","maxBytes":18446744073709551616}"#,
            ),
            Call("process/read", r#"{"processId":"none","waitMs":18446744073709551616}"#),
            Call("process/read", r#"{"processId":"none","waitMs":"5"}"#),
            Call("process/read", r#"{"processId":5}"#),
            Call(
                "http/request",
                r#"{"method":"GET","url":"$web/echo","requestId":"r","timeoutMs":18446744073709551616}"#,
            ),
            Call(
                "http/request",
                r#"{"method":"GET","url":"$web/echo","requestId":"r","timeoutMs":18446744073709551615}"#,
            ),
        ],
    ),
    case(
        "paths_of_both_kinds",
        &[
            Call("fs/canonicalize", r#"{"path":"file:////"}"#),
            Call("fs/canonicalize", r#"{"path":"file:////etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc/%2e%2e/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc/../../../etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file://127.0.0.1/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file://LOCALHOST/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file://user@localhost/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file://localhost:80/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///C|/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///1:/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc%"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc%zz"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc\\passwd"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc/?"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc/#"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///\u0000"}"#),
            Call("fs/canonicalize", r#"{"path":"file:///etc\n"}"#),
            Call("fs/canonicalize", r#"{"path":"https://localhost/etc"}"#),
            Call("fs/canonicalize", r#"{"path":"//etc"}"#),
            Call("fs/canonicalize", r#"{"path":"C:\\etc"}"#),
            Call("fs/canonicalize", r#"{"path":"\\\\server\\share"}"#),
        ],
    ),
];
