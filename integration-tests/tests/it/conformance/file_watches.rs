//! `fs/watchMissing`.

use super::script::Step::{Call, Changed, Made, Reconnect, Resume, Shell};
use super::script::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "nothing_to_wait_for",
        &[
            Shell("printf x > file; mkdir folder"),
            Call("fs/watchMissing", r#"{"watchId":1,"missing":[]}"#),
            Call("fs/watchMissing", r#"{"watchId":1,"missing":["$dir/file"]}"#),
            Call(
                "fs/watchMissing",
                r#"{"watchId":1,"missing":["$dir/none","$dir/folder"]}"#,
            ),
            Call("fs/watchMissing", r#"{"watchId":1,"missing":["file:///C:/none"]}"#),
        ],
    )
    .newer(),
    case(
        "bad_parameters",
        &[
            Call("fs/watchMissing", "{}"),
            Call("fs/watchMissing", r#"{"missing":["$dir/none"]}"#),
            Call("fs/watchMissing", r#"{"watchId":1}"#),
            Call("fs/watchMissing", r#"{"watchId":"1","missing":["$dir/none"]}"#),
            Call("fs/watchMissing", r#"{"watchId":-1,"missing":["$dir/none"]}"#),
            Call("fs/watchMissing", r#"{"watchId":1,"missing":["$path/none"]}"#),
            Call("fs/watchMissing", r#"{"watchId":1,"missing":null}"#),
            Call(
                "fs/watchMissing",
                r#"{"watchId":1,"missing":["$dir/none"],"present":5}"#,
            ),
        ],
    )
    .newer(),
    case(
        "a_file_appears",
        &[
            Call("fs/watchMissing", r#"{"watchId":1,"missing":["$dir/one","$dir/two"]}"#),
            Shell("printf x > two"),
            Changed(1),
        ],
    )
    .newer(),
    case(
        "a_folder_above_appears",
        &[
            Call(
                "fs/watchMissing",
                r#"{"watchId":7,"missing":["$dir/a/b/c"],"present":null}"#,
            ),
            Shell("mkdir -p a/b; printf x > a/b/c"),
            Changed(7),
        ],
    )
    .newer(),
    case(
        "what_is_there_changes",
        &[
            Shell("printf x > there"),
            Call(
                "fs/watchMissing",
                r#"{"watchId":3,"missing":["$dir/none"],"present":"$dir/there"}"#,
            ),
            Shell("printf y > there"),
            Changed(3),
        ],
    )
    .newer(),
    case(
        "one_takes_the_place_of_another",
        &[
            Call("fs/watchMissing", r#"{"watchId":1,"missing":["$dir/one"]}"#),
            Call("fs/watchMissing", r#"{"watchId":2,"missing":["$dir/two"]}"#),
            Shell("printf x > two"),
            Changed(2),
            Call("fs/watchMissing", r#"{"watchId":2,"missing":["$dir/three"]}"#),
        ],
    )
    .newer(),
    case(
        "many_paths",
        &[Made(|| watch(64)), Made(|| watch(65)), Made(|| watch(1000))],
    )
    .newer(),
    case(
        "watches_end_with_their_connection",
        &[
            Call("fs/watchMissing", r#"{"watchId":1,"missing":["$dir/one"]}"#),
            Reconnect,
            Resume(r#"{"clientName":"x","resumeSessionId":"$session"}"#),
        ],
    )
    .connections()
    .newer(),
];

/// A watch of so many paths.
fn watch(count: usize) -> Vec<u8> {
    let paths: Vec<String> = (0..count)
        .map(|n| format!(r#""file:///tmp/no-such-path-{n}""#))
        .collect();
    let params = format!(r#"{{"watchId":1,"missing":[{}]}}"#, paths.join(","));
    format!(r#"{{"id":{count},"method":"fs/watchMissing","params":{params}}}"#).into_bytes()
}
