//! `fs/open` with a mode, `fs/writeBlock`, and links that are not followed.

use super::script::Step::{Call, Exact, Look, Made, Many, Reconnect, Resume, Shell};
use super::script::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "modes",
        &[
            Shell("printf x > file"),
            Call("fs/open", r#"{"handleId":"a","path":"$dir/file","mode":"read"}"#),
            Call("fs/open", r#"{"handleId":"b","path":"$dir/file","mode":{"read":null}}"#),
            Call("fs/open", r#"{"handleId":"c","path":"$dir/file","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"d","path":"$dir/new","mode":{"replace":null}}"#),
            Call("fs/open", r#"{"handleId":"e","path":"$dir/file","mode":"append"}"#),
            Call("fs/open", r#"{"handleId":"e","path":"$dir/file","mode":null}"#),
            Call("fs/open", r#"{"handleId":"e","path":"$dir/file","mode":5}"#),
            Call("fs/open", r#"{"handleId":"e","path":"$dir/file","mode":{"replace":{}}}"#),
            Exact("fs/open", r#"{"handleId":"c","path":"$dir/file","mode":"replace"}"#),
            Exact("fs/open", r#"{"handleId":"123456789012345678901234567890123","path":"$dir/file","mode":"replace"}"#),
        ],
    )
    .newer(),
    case(
        "blocks",
        &[
            Shell("printf 'old content' > file"),
            Call("fs/open", r#"{"handleId":"a","path":"$dir/file","mode":"replace"}"#),
            Call("fs/writeBlock", r#"{"handleId":"a","offset":6,"chunk":"c2Vjb25k"}"#),
            Call("fs/writeBlock", r#"{"handleId":"a","offset":0,"chunk":"Zmlyc3Q="}"#),
            Call("fs/writeBlock", r#"{"handleId":"a","offset":1,"chunk":"SQ=="}"#),
            Call("fs/close", r#"{"handleId":"a"}"#),
            Look("od -An -c file"),
            Call("fs/close", r#"{"handleId":"a"}"#),
            Exact("fs/writeBlock", r#"{"handleId":"a","offset":0,"chunk":"eA=="}"#),
            Call("fs/open", r#"{"handleId":"a","path":"$dir/file","mode":"replace"}"#),
            Call("fs/close", r#"{"handleId":"a"}"#),
            Look("wc -c < file"),
        ],
    )
    .newer(),
    case(
        "many_blocks",
        &[
            Call("fs/open", r#"{"handleId":"a","path":"$dir/file","mode":"replace"}"#),
            Many(9, "fs/writeBlock", r#"{"handleId":"a","offset":$n,"chunk":"eA=="}"#),
            Call("fs/close", r#"{"handleId":"a"}"#),
            Look("od -An -c file"),
        ],
    )
    .newer(),
    case(
        "bad_blocks",
        &[
            Shell("printf old > file; printf r > other"),
            Call("fs/open", r#"{"handleId":"w","path":"$dir/file","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"r","path":"$dir/other"}"#),
            Exact("fs/writeBlock", r#"{"handleId":"w","offset":0,"chunk":""}"#),
            Made(|| {
                let chunk = "A".repeat(4 * (1024 * 1024 / 3 + 1));
                let params = format!(r#"{{"handleId":"w","offset":0,"chunk":"{chunk}"}}"#);
                format!(r#"{{"id":"large","method":"fs/writeBlock","params":{params}}}"#).into_bytes()
            }),
            Call("fs/writeBlock", r#"{"handleId":"w","offset":0,"chunk":"*"}"#),
            Call("fs/writeBlock", r#"{"handleId":"w","offset":0}"#),
            Call("fs/writeBlock", r#"{"handleId":"w","chunk":"eA=="}"#),
            Call("fs/writeBlock", r#"{"offset":0,"chunk":"eA=="}"#),
            Call("fs/writeBlock", r#"{"handleId":"w","offset":-1,"chunk":"eA=="}"#),
            Call("fs/writeBlock", r#"{"handleId":"w","offset":1.5,"chunk":"eA=="}"#),
            Exact("fs/writeBlock", r#"{"handleId":"w","offset":9223372036854775807,"chunk":"eA=="}"#),
            Exact("fs/writeBlock", r#"{"handleId":"none","offset":0,"chunk":"eA=="}"#),
            // Whatever was wrong with a block, the handle is still there.
            Call("fs/writeBlock", r#"{"handleId":"w","offset":0,"chunk":"eA=="}"#),
            // What it was not opened for closes it.
            Call("fs/writeBlock", r#"{"handleId":"r","offset":0,"chunk":"eA=="}"#),
            Call("fs/readBlock", r#"{"handleId":"r","offset":0,"len":1}"#),
            Call("fs/readBlock", r#"{"handleId":"w","offset":0,"len":1}"#),
            Call("fs/writeBlock", r#"{"handleId":"w","offset":0,"chunk":"eA=="}"#),
        ],
    )
    .newer(),
    case(
        "targets",
        &[
            Shell(
                "printf x > file; chmod 640 file; ln file hard; mkdir folder; mkfifo fifo; ln -s file link; ln -s made dangling; printf y > read-only; chmod 400 read-only",
            ),
            Call("fs/open", r#"{"handleId":"1","path":"$dir/folder","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"2","path":"$dir/fifo","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"3","path":"$dir/none/file","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"4","path":"$dir/file/file","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"5","path":"file:///dev/null","mode":"replace"}"#),
            Call("fs/open", r#"{"handleId":"6","path":"$dir/link","mode":"replace"}"#),
            Call("fs/writeBlock", r#"{"handleId":"6","offset":0,"chunk":"bGluaw=="}"#),
            Call("fs/close", r#"{"handleId":"6"}"#),
            Call("fs/open", r#"{"handleId":"7","path":"$dir/dangling","mode":"replace"}"#),
            Call("fs/writeBlock", r#"{"handleId":"7","offset":0,"chunk":"bWFkZQ=="}"#),
            Call("fs/close", r#"{"handleId":"7"}"#),
            Look("cat link hard made; stat -c '%n %F %a %h' file link dangling made"),
        ],
    )
    .newer(),
    case(
        "content_before_the_close",
        &[
            Shell("printf old > file"),
            Call("fs/open", r#"{"handleId":"a","path":"$dir/file","mode":"replace"}"#),
            Call("fs/writeBlock", r#"{"handleId":"a","offset":0,"chunk":"bmV3IQ=="}"#),
            Look("cat file"),
            Call("fs/close", r#"{"handleId":"a"}"#),
            Look("cat file"),
        ],
    )
    .newer(),
    case(
        "handles_of_a_lost_connection",
        &[
            Call("fs/open", r#"{"handleId":"a","path":"$dir/file","mode":"replace"}"#),
            Reconnect,
            Resume(r#"{"clientName":"x","resumeSessionId":"$session"}"#),
            Call("fs/writeBlock", r#"{"handleId":"a","offset":0,"chunk":"eA=="}"#),
        ],
    )
    .connections()
    .newer(),
    case(
        "links_that_are_not_followed",
        &[
            Shell(
                "printf x > file; ln -s file link; mkdir folder; ln -s folder door; printf y > folder/inner; ln -s none dangling",
            ),
            Call("fs/readFile", r#"{"path":"$dir/link","followSymlinks":false}"#),
            Call("fs/readFile", r#"{"path":"$dir/door/inner","followSymlinks":false}"#),
            Call("fs/readFile", r#"{"path":"$dir/none","followSymlinks":false}"#),
            Call("fs/readFile", r#"{"path":"$dir/folder","followSymlinks":false}"#),
            Call("fs/writeFile", r#"{"path":"$dir/link","dataBase64":"eHg=","followSymlinks":false}"#),
            Call("fs/writeFile", r#"{"path":"$dir/door/new","dataBase64":"eHg=","followSymlinks":false}"#),
            Call("fs/writeFile", r#"{"path":"$dir/folder/new","dataBase64":"eHg=","followSymlinks":false}"#),
            Call("fs/getMetadata", r#"{"path":"$dir/file","followSymlinks":false}"#),
            Call("fs/getMetadata", r#"{"path":"$dir/door/inner","followSymlinks":false}"#),
            Call("fs/getMetadata", r#"{"path":"$dir/none","followSymlinks":false}"#),
            Call("fs/createDirectory", r#"{"path":"$dir/door/made","followSymlinks":false}"#),
            Call("fs/createDirectory", r#"{"path":"$dir/door","followSymlinks":false}"#),
            Call("fs/createDirectory", r#"{"path":"$dir/a/b/c","followSymlinks":false}"#),
            Call("fs/createDirectory", r#"{"path":"$dir/folder","recursive":false,"followSymlinks":false}"#),
            Call("fs/remove", r#"{"path":"$dir/door/inner","followSymlinks":false}"#),
            Call("fs/remove", r#"{"path":"$dir/none","followSymlinks":false}"#),
            Call("fs/remove", r#"{"path":"$dir/a","followSymlinks":false}"#),
            Look("cat file folder/inner folder/new; ls"),
        ],
    )
    .newer(),
    case(
        "links_in_calls_that_list_or_open",
        &[
            Shell("printf x > file; ln -s file link; mkdir folder; ln -s folder door"),
            Call("fs/open", r#"{"handleId":"a","path":"$dir/link","followSymlinks":false}"#),
            Call("fs/readDirectory", r#"{"path":"$dir/door","followSymlinks":false}"#),
            Call("fs/canonicalize", r#"{"path":"$dir/link","followSymlinks":false}"#),
        ],
    )
    .newer(),
];
