//! Every option of every binary is told in that binary's README.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{none, tree};

const BINARIES: [&str; 4] = ["executor", "harness", "registry", "relay"];

/// The folder with the binaries: named by the test command, else where this test was built.
fn binary_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("RENDEZVOUS_BIN_DIR") {
        return folder.into();
    }
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().and_then(Path::parent);
    folder.expect("a build folder").to_owned()
}

/// What a command prints when asked for help.
fn help(binary: &Path, subcommand: &[String]) -> String {
    let output = Command::new(binary)
        .args(subcommand)
        .arg("--help")
        .env_clear()
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; run `cargo build --bins` first", binary.display()));
    assert!(
        output.status.success(),
        "{} {subcommand:?} --help failed",
        binary.display()
    );
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

/// Long options on the option lines of a help text; those that every command has are left out.
fn options(help: &str) -> BTreeSet<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    // Two spaces part an option from its description.
    let heads = lines.filter_map(|line| line.split("  ").next());
    heads
        .flat_map(|head| head.split([' ', ',', '=', '[', '<']))
        .filter(|word| word.len() > 2 && word.starts_with("--"))
        .map(str::to_owned)
        .filter(|word| word != "--help" && word != "--version")
        .collect()
}

/// Names below `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let mut names = Vec::new();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in lines.take_while(|line| !line.is_empty()) {
        // Continuation lines of a description are indented deeper.
        if let Some(entry) = line.strip_prefix("  ").filter(|entry| !entry.starts_with(' '))
            && let Some(name) = entry.split_whitespace().next()
            && name != "help"
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// Options and subcommands that the document does not name.
fn untold(document: &str, command: &str, help: &str) -> Vec<String> {
    let told: BTreeSet<&str> = document
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .collect();
    let mut findings = Vec::new();
    for word in options(help).into_iter().chain(subcommands(help)) {
        if !told.contains(word.as_str()) {
            findings.push(format!("{command}: {word} is not in the README"));
        }
    }
    findings
}

#[test]
fn readmes_tell_every_option() {
    let mut findings = Vec::new();
    for name in BINARIES {
        let readme = tree::root().join(name).join("README.md");
        let Ok(document) = fs::read_to_string(&readme) else {
            findings.push(format!("{} is missing", readme.display()));
            continue;
        };
        let binary = binary_folder().join(name);
        let mut pending = vec![Vec::new()];
        while let Some(subcommand) = pending.pop() {
            let help = help(&binary, &subcommand);
            let command = format!("{name} {}", subcommand.join(" "));
            findings.extend(untold(&document, command.trim_end(), &help));
            for next in subcommands(&help) {
                pending.push([subcommand.as_slice(), &[next]].concat());
            }
        }
    }
    none(&findings);
}

#[test]
fn an_untold_option_is_found() {
    let help = "Does things\n\nUsage: x [OPTIONS] <COMMAND>\n\nCommands:\n  serve   Runs\n          for long\n  \
                help    Prints\n\nOptions:\n  -l, --listen <ADDR>    Where [env: LISTEN=]\n      --drain[=<TIME>]  Stops, see --listen\n  \
                -h, --help\n";
    assert_eq!(subcommands(help), ["serve"]);
    assert_eq!(
        options(help),
        BTreeSet::from(["--listen".to_owned(), "--drain".to_owned()])
    );
    none(&untold("`serve` with `--listen ADDR` and `--drain=TIME`", "x", help));
    assert_eq!(
        untold("serving with --listen-addr and --drain", "x", help),
        ["x: --listen is not in the README", "x: serve is not in the README"]
    );
}
