//! `fs/*`: copies, walks, and files that are read in blocks.

use super::script::Step::{Call, Exact, Look, Many, Shell};
use super::script::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "copy",
        &[
            Shell(
                "printf one > file; chmod 741 file; printf longer > old; mkdir -p tree/inner; printf x > tree/inner/leaf; ln -s leaf tree/inner/link; ln -s none tree/dangling; mkfifo fifo tree/fifo; ln -s file link; ln -s tree door",
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/file","destinationPath":"$dir/new","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/file","destinationPath":"$dir/old","recursive":true}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/file","destinationPath":"$dir/none/new","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/none","destinationPath":"$dir/x","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/tree","destinationPath":"$dir/copy","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/tree","destinationPath":"$dir/copy","recursive":true}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/tree","destinationPath":"$dir/tree","recursive":true}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/tree","destinationPath":"$dir/tree/inner/deeper","recursive":true}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/link","destinationPath":"$dir/link2","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/door","destinationPath":"$dir/door2","recursive":true}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/fifo","destinationPath":"$dir/fifo2","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"file:///dev/null","destinationPath":"$dir/null","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/file","destinationPath":"$dir/tree","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/file","destinationPath":"$dir/file","recursive":false}"#,
            ),
            Call("fs/copy", r#"{"sourcePath":"$dir/file","destinationPath":"$dir/x"}"#),
            Call("fs/copy", r#"{"sourcePath":"$dir/file","recursive":false}"#),
            Look("cat new old file; stat -c %a new old; find copy link2 door2 -printf '%P %y %l\\n' | sort"),
        ],
    ),
    case(
        "copy_onto_what_exists",
        &[
            Shell(
                "printf one > file; mkdir -p tree/a into/a; printf t > tree/a/leaf; printf i > into/a/other; printf x > target; ln -s target link; ln -s file source",
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/tree","destinationPath":"$dir/into","recursive":true}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/file","destinationPath":"$dir/link","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/source","destinationPath":"$dir/target","recursive":false}"#,
            ),
            Call(
                "fs/copy",
                r#"{"sourcePath":"$dir/tree","destinationPath":"$dir/file","recursive":true}"#,
            ),
            Look("find . -printf '%P %y %l\\n' | sort; cat target"),
        ],
    ),
    case(
        "walk",
        &[
            Shell(
                "mkdir -p b/c/d .hidden; printf x > b/z; printf x > b/c/y; printf x > b/c/d/x; printf x > a; printf x > .hidden/secret; ln -s b door; ln -s .. b/up; ln -s none dangling; mkfifo fifo",
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":true}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false,"pruneHiddenDirectories":true}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":0,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":1,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":2,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":5,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir/a","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir/door","options":{"maxDepth":0,"maxDirectories":1,"maxEntries":9,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir/door","options":{"maxDepth":0,"maxDirectories":1,"maxEntries":9,"followDirectorySymlinks":true}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir/none","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
        ],
    ),
    case(
        "walk_past_links",
        &[
            Shell("mkdir a; printf x > f; ln -s loop loop; ln -s f/x through; ln -s a door; ln -s ../a a/self"),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":true}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir/loop","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":true}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir/through","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
        ],
    ),
    case(
        "walk_limits",
        &[
            Exact(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":0,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Exact(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":0,"followDirectorySymlinks":false}}"#,
            ),
            Exact(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":65,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Exact(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":10001,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Exact(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":50001,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":-1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"followDirectorySymlinks":false}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1}}"#,
            ),
            Call(
                "fs/walk",
                r#"{"path":"$dir","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":1,"followDirectorySymlinks":null}}"#,
            ),
            Call("fs/walk", r#"{"path":"$dir"}"#),
            Call(
                "fs/walk",
                r#"{"path":"$dir/none","options":{"maxDepth":1,"maxDirectories":0,"maxEntries":1,"followDirectorySymlinks":false}}"#,
            ),
        ],
    ),
    case(
        "blocks",
        &[
            Shell("printf 0123456789 > file; mkdir folder; mkfifo fifo; ln -s file link"),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":4}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":8,"len":4}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":6,"len":4}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":10,"len":4}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":1000,"len":1048576}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":2,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":0}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":1048577}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":-1,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0}"#),
            Call("fs/readBlock", r#"{"handleId":"none","offset":0,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"none","offset":0,"len":0}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Call("fs/close", r#"{"handleId":"h"}"#),
            Call("fs/close", r#"{"handleId":"h"}"#),
            Call("fs/close", r#"{"handleId":"none"}"#),
            Call("fs/close", "{}"),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":1}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/link"}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":9,"len":9}"#),
        ],
    ),
    case(
        "open",
        &[
            Shell("printf x > file; mkdir folder; mkfifo fifo; ln -s none dangling"),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/folder"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/fifo"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/none"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/dangling"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file/x"}"#),
            Call("fs/open", r#"{"handleId":"h","path":"file:///dev/zero"}"#),
            Call("fs/open", r#"{"handleId":"","path":"$dir/file"}"#),
            Call(
                "fs/open",
                r#"{"handleId":"12345678901234567890123456789012","path":"$dir/file"}"#,
            ),
            Call(
                "fs/open",
                r#"{"handleId":"123456789012345678901234567890123","path":"$dir/file"}"#,
            ),
            Call(
                "fs/open",
                r#"{"handleId":"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9","path":"$dir/file"}"#,
            ),
            Call("fs/open", r#"{"handleId":5,"path":"$dir/file"}"#),
            Call("fs/open", r#"{"path":"$dir/file"}"#),
            Call("fs/open", r#"{"handleId":"h"}"#),
        ],
    ),
    case(
        "handles_are_bounded",
        &[
            Shell("printf x > file"),
            Many(128, "fs/open", r#"{"handleId":"$n","path":"$dir/file"}"#),
            Call("fs/open", r#"{"handleId":"129","path":"$dir/file"}"#),
            Call("fs/close", r#"{"handleId":"5"}"#),
            Call("fs/open", r#"{"handleId":"129","path":"$dir/file"}"#),
            Call("fs/readBlock", r#"{"handleId":"128","offset":0,"len":9}"#),
        ],
    ),
    case(
        "an_open_file_survives_its_name",
        &[
            Shell("printf old > file"),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Shell("printf newer > other; mv other file"),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":9}"#),
            Shell("rm file"),
            Call("fs/readBlock", r#"{"handleId":"h","offset":1,"len":9}"#),
        ],
    ),
];
