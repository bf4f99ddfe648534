//! What fits, and what is just too much.

use super::script::Step::{Call, Count, Ends, Exact, Look, Made, MadeSend, Many, Shape, Shell, Start, WaitClosed};
use super::script::{Case, case};

const LIST: &str = r#"{"path":"$dir"}"#;
const DISCOVER: &str = "capabilityRoots/discoverV1";
const ROOT: &str = r#"{"roots":[{"id":"x","path":"$dir"}]}"#;
const WALK: &str = r#"{"path":"$dir","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#;
/// Makes so many empty files.
macro_rules! files {
    ($count:literal) => {
        concat!("seq -f %06.0f ", $count, " | xargs touch")
    };
}

pub(super) const CASES: &[Case] = &[
    case(
        "largest_blocks",
        &[
            Shell("head -c 1048577 /dev/zero > file"),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Shape("fs/readBlock", r#"{"handleId":"h","offset":0,"len":1048576}"#),
            Exact("fs/readBlock", r#"{"handleId":"h","offset":0,"len":1048577}"#),
            Exact("fs/readBlock", r#"{"handleId":"h","offset":0,"len":18446744073709551615}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":1048576,"len":1048576}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":1048577,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":9223372036854775807,"len":1}"#),
        ],
    ),
    case(
        "offsets_beyond",
        &[
            Shell("printf x > file"),
            Call("fs/open", r#"{"handleId":"h","path":"$dir/file"}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":9223372036854775808,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"h","offset":0,"len":1}"#),
        ],
    ),
    case(
        "names",
        &[
            Made(|| write(&"n".repeat(255))),
            Made(|| write(&"n".repeat(256))),
            Made(|| write(&"\u{e4}".repeat(127))),
            Made(|| write(&"\u{e4}".repeat(128))),
            Made(|| write(&["d"; 2100].join("/"))),
        ],
    ),
    case(
        "handles_of_both_kinds",
        &[
            Shell("printf x > file"),
            Many(127, "fs/open", r#"{"handleId":"$n","path":"$dir/file"}"#),
            Call("fs/open", r#"{"handleId":"w","path":"$dir/new","mode":"replace"}"#),
            Exact("fs/open", r#"{"handleId":"v","path":"$dir/newer","mode":"replace"}"#),
            Exact("fs/open", r#"{"handleId":"r","path":"$dir/file"}"#),
            // A name that is taken and one that is too long are told before.
            Exact("fs/open", r#"{"handleId":"1","path":"$dir/file"}"#),
            Exact("fs/open", r#"{"handleId":"123456789012345678901234567890123","path":"$dir/file"}"#),
            Call("fs/open", r#"{"handleId":"r","path":"$dir/none"}"#),
            Call("fs/close", r#"{"handleId":"w"}"#),
            Call("fs/open", r#"{"handleId":"r","path":"$dir/file"}"#),
            Look("test -e newer || echo nothing"),
        ],
    )
    .newer(),
    case(
        "failed_opens_take_no_place",
        &[
            Shell("printf x > file"),
            Many(200, "fs/open", r#"{"handleId":"$n","path":"$dir/none"}"#),
            Many(128, "fs/open", r#"{"handleId":"$n","path":"$dir/file"}"#),
            Many(128, "fs/close", r#"{"handleId":"$n"}"#),
            Many(128, "fs/open", r#"{"handleId":"$n","path":"$dir/file"}"#),
        ],
    ),
    case(
        "reads_of_a_process",
        &[
            Start("p", "head -c 200000 /dev/zero; read line", r#"{"pipeStdin":true}"#),
            Call("process/write", r#"{"processId":"p","chunk":"Cg==","writeId":"1"}"#),
            WaitClosed("p"),
            Count("process/read", r#"{"processId":"p","maxBytes":0}"#, "/chunks"),
            Count("process/read", r#"{"processId":"p","maxBytes":1}"#, "/chunks"),
        ],
    ),
    case(
        "entries_of_a_directory",
        &[
            Shell(files!("50000")),
            Count("fs/readDirectory", LIST, "/entries"),
            Shell("touch one-more"),
            Call("fs/readDirectory", LIST),
        ],
    )
    .slow(),
    case(
        "directories_of_a_walk",
        &[
            Shell("seq -f %06.0f 10001 | xargs mkdir; touch 009999/in 010000/in 010001/in"),
            Count("fs/walk", WALK, "/entries"),
            Call(
                "fs/walk",
                r#"{"path":"$dir/010001","options":{"maxDepth":64,"maxDirectories":10000,"maxEntries":50000,"followDirectorySymlinks":false}}"#,
            ),
        ],
    )
    .slow(),
    case(
        "bytes_of_a_walk",
        &[
            // 300 bytes and more in each entry.
            Shell("n=$(printf '%0200d' 0); mkdir $n; cd $n; seq -f $n%06.0f 20000 | xargs touch"),
            Shape("fs/walk", WALK),
        ],
    )
    .slow(),
    case(
        "entries_of_a_capability_root",
        &[
            // With the folder and the file in it, 20 000.
            Shell(concat!(files!("19998"), "; mkdir z; printf s > z/SKILL.md")),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Count(DISCOVER, ROOT, "/roots/0/warnings"),
            Shell("touch one-more"),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Shape(DISCOVER, ROOT),
        ],
    )
    .slow(),
    case(
        "directories_of_a_capability_root",
        &[
            // With the root, 2 000.
            Shell("seq -f %06.0f 1999 | xargs mkdir; printf s > 001999/SKILL.md"),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Count(DISCOVER, ROOT, "/roots/0/warnings"),
            Shell("mkdir 000000"),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Shape(DISCOVER, ROOT),
        ],
    ),
    case(
        "bytes_of_a_capability_root",
        &[
            Shell("for n in $(seq -w 17); do mkdir $n; head -c 1048576 /dev/zero | tr '\\0' x > $n/SKILL.md; done"),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Count(DISCOVER, ROOT, "/roots/0/warnings"),
            Shell("mkdir .codex-plugin; cp 01/SKILL.md .codex-plugin/plugin.json"),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Count(DISCOVER, ROOT, "/roots/0/namespaceManifests"),
            Shell("rm -r 0* 10; printf '\\303\\244' >> 11/SKILL.md"),
            Count(DISCOVER, ROOT, "/roots/0/skills"),
            Count(DISCOVER, ROOT, "/roots/0/warnings"),
        ],
    ),
    case("longest_line", &[Made(|| line(64 << 20))]).stdio().slow(),
    case("line_that_is_too_long", &[MadeSend(|| line((64 << 20) + 1)), Ends]).stdio().slow(),
];

/// A call that writes a file in a temporary folder with such a name.
fn write(name: &str) -> Vec<u8> {
    let params = format!(r#"{{"path":"file:///no-such-folder/{name}","dataBase64":""}}"#);
    format!(r#"{{"id":{},"method":"fs/writeFile","params":{params}}}"#, name.len()).into_bytes()
}

/// A call in so many bytes.
fn line(len: usize) -> Vec<u8> {
    let (head, tail) = (r#"{"id":1,"method":"none","params":""#, r#""}"#);
    let text = "x".repeat(len - head.len() - tail.len());
    format!("{head}{text}{tail}").into_bytes()
}
