//! What no source file may contain, and how long it may get.

use crate::none;
use crate::tree::{self, File};

/// Longest file that needs no reason.
const MAX_LINES: usize = 500;
/// Longest `main.rs`: it parses, builds and runs.
const MAX_MAIN_LINES: usize = 150;
/// Files that are longer, and why that reads better than two files.
const LONG: &[(&str, &str)] = &[];
/// Where `allow` stands, and why `expect` cannot.
const ALLOWED: &[(&str, &str)] = &[(
    "proto/wire/src/frame.rs",
    "whether generated code trips a lint depends on the schema",
)];
/// The only place for `unsafe`.
const UNSAFE: &str = "executor/host/src/process/sys.rs";

/// Words that stand for unfinished work or for tests that do not run. Split, so that this file passes its own check.
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("#[ig", "nore"),
    concat!("/wo", "rk/"),
];

/// Words by which a crate would read a clock, the environment or the system's randomness.
const AMBIENT: [&str; 10] = [
    "Instant::now",
    "SystemTime",
    "env::var",
    "env::args",
    "env::current",
    "OsRng",
    "SysRng",
    "getrandom",
    "thread_rng",
    "rand::rng(",
];
/// Crates that get time and randomness as arguments.
const SANS_IO: [&str; 3] = ["proto/channel/src/", "proto/rpc/src/", "proto/wire/src/"];

/// The lines of a file with their numbers, without comments and without the tests at its end.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let tests = ["mod tests", "mod test_", "pub(crate) mod tests"];
    let lines: Vec<&str> = file.text.lines().collect();
    let end = lines.windows(2).position(|pair| {
        pair[0].trim() == "#[cfg(test)]" && tests.iter().any(|tests| pair[1].trim_start().starts_with(tests))
    });
    lines
        .into_iter()
        .take(end.unwrap_or(usize::MAX))
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
}

fn is_test(path: &str) -> bool {
    path.starts_with("integration-tests/")
        || path.ends_with("/tests.rs")
        || ["/tests/", "/benches/", "/examples/"]
            .iter()
            .any(|folder| path.contains(folder))
}

fn lengths(files: &[File], long: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let lines = file.text.lines().count();
        let reason = long.iter().find(|(path, _)| *path == file.path);
        let is_main = file.path.ends_with("src/main.rs");
        match (lines > MAX_LINES, reason) {
            (true, None) => findings.push(format!("{}: {lines} lines, give a reason or split it", file.path)),
            // Well below the limit, so that one line more or less changes nothing.
            (false, Some(_)) if lines < MAX_LINES * 4 / 5 => {
                findings.push(format!("{}: short again, drop its reason", file.path))
            }
            _ if is_main && lines > MAX_MAIN_LINES => {
                findings.push(format!(
                    "{}: {lines} lines, main only parses, builds and runs",
                    file.path
                ));
            }
            _ => {}
        }
    }
    for (path, _) in long {
        if !files.iter().any(|file| file.path == *path) {
            findings.push(format!("{path} is gone, drop its reason"));
        }
    }
    findings
}

fn allows(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files
        .iter()
        .filter(|file| !ALLOWED.iter().any(|(path, _)| *path == file.path))
    {
        for (number, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let attribute = line.strip_prefix("#![").or_else(|| line.strip_prefix("#["));
            if attribute.is_some_and(|attribute| attribute.starts_with("allow(") || attribute.contains(", allow(")) {
                findings.push(format!("{}:{}: use expect with a reason", file.path, number + 1));
            }
        }
    }
    findings
}

fn unfinished(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{}: {word}", file.path, number + 1));
            }
        }
    }
    findings
}

fn ambient(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    let sans_io = |path: &str| SANS_IO.iter().any(|folder| path.starts_with(folder));
    for file in files.iter().filter(|file| sans_io(&file.path) && !is_test(&file.path)) {
        for (number, line) in code(file) {
            for word in AMBIENT.iter().filter(|word| line.contains(**word)) {
                findings.push(format!("{}:{number}: {word}, make it an argument", file.path));
            }
        }
    }
    findings
}

fn databases(files: &[File]) -> Vec<String> {
    let outside = |path: &str| {
        path.starts_with("registry/src/") && !path.starts_with("registry/src/store/") && path != "registry/src/store.rs"
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| outside(&file.path)) {
        for (number, line) in code(file).filter(|(_, line)| line.contains("sqlx")) {
            findings.push(format!(
                "{}:{number}: only the store knows the database: {}",
                file.path,
                line.trim()
            ));
        }
    }
    findings
}

fn unsafety(files: &[File]) -> Vec<String> {
    let words = [
        concat!("uns", "afe {"),
        concat!("uns", "afe fn"),
        concat!("uns", "afe impl"),
    ];
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path != UNSAFE) {
        for (number, line) in code(file).filter(|(_, line)| words.iter().any(|word| line.contains(word))) {
            findings.push(format!("{}:{number}: {}", file.path, line.trim()));
        }
    }
    findings
}

#[test]
fn files_can_be_read_in_one_sitting() {
    none(&lengths(&tree::rust_files(), LONG));
    let long = File::new("relay/src/long.rs", &"x\n".repeat(MAX_LINES + 1));
    let main = File::new("relay/src/main.rs", &"x\n".repeat(MAX_MAIN_LINES + 1));
    let short = File::new("relay/src/short.rs", "x\n");
    let files = [long, main, short];
    assert_eq!(lengths(&files, &[]).len(), 2);
    let reasons = [
        ("relay/src/long.rs", ""),
        ("relay/src/short.rs", ""),
        ("relay/src/gone.rs", ""),
    ];
    assert_eq!(lengths(&files, &reasons).len(), 3);
}

#[test]
fn lints_are_expected_not_allowed() {
    none(&allows(&tree::rust_files()));
    let bad = concat!(
        "#[al",
        "low(dead_code)]\n#![al",
        "low(x)]\n#[cfg_attr(test, al",
        "low(x))]\n#[expect(x)]\n"
    );
    assert_eq!(allows(&[File::new("relay/src/a.rs", bad)]).len(), 3);
}

#[test]
fn nothing_is_left_unfinished() {
    none(&unfinished(&tree::files()));
    let bad = UNFINISHED.join("\n");
    assert_eq!(
        unfinished(&[File::new("relay/README.md", &bad)]).len(),
        UNFINISHED.len()
    );
}

#[test]
fn sans_io_crates_read_no_clock_environment_or_randomness() {
    let files = tree::rust_files();
    assert!(
        SANS_IO
            .iter()
            .all(|folder| files.iter().any(|file| file.path.starts_with(folder)))
    );
    none(&ambient(&files));
    let text =
        "// Instant::now is the caller's\nlet now = Instant::now();\n#[cfg(test)]\nmod tests {\nInstant::now();\n}\n";
    for (path, expected) in [
        ("proto/channel/src/stream.rs", 1),
        ("proto/channel/src/stream/tests.rs", 0),
        ("proto/transport/src/dial.rs", 0),
    ] {
        assert_eq!(ambient(&[File::new(path, text)]).len(), expected, "{path}");
    }
    for word in AMBIENT {
        assert_eq!(ambient(&[File::new("proto/rpc/src/a.rs", word)]).len(), 1, "{word}");
    }
}

#[test]
fn only_the_store_knows_the_database() {
    let files = tree::rust_files();
    assert!(
        files
            .iter()
            .any(|file| file.path.starts_with("registry/src/store") && file.text.contains("sqlx")),
        "the store no longer stands where this check believes"
    );
    none(&databases(&files));
    let text = "use sqlx::Row;\n";
    assert_eq!(databases(&[File::new("registry/src/api.rs", text)]).len(), 1);
    none(&databases(&[File::new("registry/src/store/sqlite.rs", text)]));
}

#[test]
fn unsafe_code_stands_in_one_place() {
    none(&unsafety(&tree::rust_files()));
    let text = concat!("uns", "afe { call() }\n");
    assert_eq!(unsafety(&[File::new("relay/src/a.rs", text)]).len(), 1);
    none(&unsafety(&[File::new(UNSAFE, text)]));
}
