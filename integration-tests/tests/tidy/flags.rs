//! Every option of every binary is told in that binary's README, and documents use only options that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::none;
use crate::tree::{self, File};

const BINARIES: [&str; 4] = ["executor", "harness", "registry", "relay"];

/// Options without a variable, because they say what one call is to do: they are no configuration.
const OF_ONE_CALL: &[(&str, &[&str])] = &[
    (
        "harness run",
        &[
            "--allow-host",
            "--deny-host",
            "--detach",
            "--env",
            "--interactive",
            "--name",
            "--tty",
        ],
    ),
    ("harness shell", &["--detach", "--env", "--name"]),
    ("harness ps", &["--all", "--json"]),
    ("harness attach", &["--no-stdin", "--tail", "--take-over"]),
    ("harness kill", &["--signal"]),
    ("harness info", &["--json"]),
    ("harness cp", &["--recursive"]),
    ("harness identity", &["--json"]),
    ("harness known-executors list", &["--json"]),
    ("executor identity show", &["--json"]),
    ("executor identity rotate", &["--keep"]),
    ("executor identity forget", &["--all"]),
    ("executor identity passphrase", &["--new-passphrase-file", "--remove"]),
    ("registry environment create", &["--name"]),
    ("registry environment list", &["--json"]),
    ("registry environment show", &["--json"]),
    (
        "registry credential create",
        &["--environment", "--expires", "--json", "--name", "--role"],
    ),
    ("registry credential list", &["--json"]),
];

/// The folder with the binaries: named by the test command, else where this test was built.
pub(crate) fn binary_folder() -> PathBuf {
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
        .flat_map(|head| head.split([' ', ',', '=', '[', '<', '.']))
        .filter(|word| word.len() > 2 && word.starts_with("--"))
        .map(str::to_owned)
        .filter(|word| word != "--help" && word != "--version")
        .collect()
}

/// Options whose entry in a help text names no variable.
fn without_variable(help: &str) -> BTreeSet<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in help.lines().skip_while(|line| *line != "Options:") {
        // Descriptions, which may begin with a dash too, are indented deeper.
        let text = line.trim_start();
        if text.starts_with('-') && line.len() - text.len() <= 6 {
            entries.push(line.to_owned());
        } else if let Some(entry) = entries.last_mut() {
            entry.push_str("\n  ");
            entry.push_str(line.trim());
        }
    }
    let entries = entries.iter().filter(|entry| !entry.contains("[env:"));
    // Only the first line: the description may speak of other options.
    entries
        .flat_map(|entry| options(entry.lines().next().unwrap_or_default()))
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

/// The help texts of a binary and all its subcommands, with the command that each belongs to.
fn helps(name: &str) -> Vec<(String, String)> {
    let binary = binary_folder().join(name);
    let mut helps = Vec::new();
    let mut pending = vec![Vec::new()];
    while let Some(subcommand) = pending.pop() {
        let help = help(&binary, &subcommand);
        for next in subcommands(&help) {
            pending.push([subcommand.as_slice(), &[next]].concat());
        }
        helps.push(([&[name.to_owned()], subcommand.as_slice()].concat().join(" "), help));
    }
    helps
}

/// Commands of ours in a document, a script or a unit: the binary and the long options that it is given.
fn uses(text: &str) -> Vec<(&'static str, Vec<String>)> {
    let mut uses = Vec::new();
    let text = text.replace("\\\n", " ");
    for command in text.split(['\n', '|', ';', '(', ')', '`', '&']) {
        let mut words = command.split_whitespace();
        let first = words.next().unwrap_or_default();
        let program = first
            .trim_start_matches("ExecStart=")
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let Some(binary) = BINARIES.iter().find(|binary| **binary == program) else {
            continue;
        };
        let options = words
            .take_while(|word| *word != "--" && !word.starts_with('#'))
            .filter(|word| {
                word.strip_prefix("--")
                    .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
            })
            .map(|word| {
                word.split('=')
                    .next()
                    .unwrap_or_default()
                    .trim_matches(['[', ']', ',', '.'])
                    .to_owned()
            });
        uses.push((*binary, options.collect()));
    }
    uses
}

/// Options that a document gives to a binary which does not have them.
fn unknown(file: &File, known: &BTreeMap<&str, BTreeSet<String>>) -> Vec<String> {
    let mut findings = Vec::new();
    for (binary, options) in uses(&file.text) {
        for option in options.iter().filter(|option| !known[binary].contains(*option)) {
            findings.push(format!("{}: {binary} has no {option}", file.path));
        }
    }
    findings
}

/// Variables of an environment file, commented out or not.
fn variables(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim_start_matches('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .filter(|name| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        })
        .collect()
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
        for (command, help) in helps(name) {
            findings.extend(untold(&document, &command, &help));
        }
    }
    none(&findings);
}

#[test]
fn options_that_configure_have_a_variable() {
    let mut findings = Vec::new();
    for (command, help) in BINARIES.into_iter().flat_map(helps) {
        let excepted = OF_ONE_CALL.iter().find(|(excepted, _)| *excepted == command);
        let excepted: BTreeSet<String> = excepted
            .into_iter()
            .flat_map(|(_, options)| *options)
            .map(|option| (*option).to_owned())
            .collect();
        // Its variable is a filter, which says more than a number of letters.
        let verbose = "--verbose".to_owned();
        let missing: BTreeSet<String> = without_variable(&help)
            .into_iter()
            .filter(|option| *option != verbose)
            .collect();
        for option in missing.symmetric_difference(&excepted) {
            findings.push(format!(
                "{command} {option}: a variable, or an exception in this test, but not both"
            ));
        }
    }
    none(&findings);
}

#[test]
fn documents_use_only_options_that_exist() {
    let helps: BTreeMap<&str, Vec<(String, String)>> = BINARIES.into_iter().map(|name| (name, helps(name))).collect();
    let known = helps.iter().map(|(name, helps)| {
        let options = helps.iter().flat_map(|(_, help)| options(help));
        (
            *name,
            options.chain(["--help".to_owned(), "--version".to_owned()]).collect(),
        )
    });
    let known = known.collect();
    let mut files = tree::files();
    files.retain(|file| file.path.ends_with(".md") || file.path.starts_with("deploy/"));
    assert!(files.iter().any(|file| !uses(&file.text).is_empty()));
    let mut findings: Vec<String> = files.iter().flat_map(|file| unknown(file, &known)).collect();
    for (name, helps) in &helps {
        let text = |path: String| fs::read_to_string(tree::root().join(path)).unwrap_or_default();
        let unit = text(format!("deploy/systemd/rendezvous-{name}.service"));
        for variable in variables(&text(format!("deploy/env/{name}.env"))) {
            // Without `=` where the value is secret.
            let shown = ["=", "]"].map(|end| format!("[env: {variable}{end}"));
            let in_help = helps
                .iter()
                .any(|(_, help)| shown.iter().any(|shown| help.contains(shown)));
            if !in_help && !unit.contains(&format!("${{{variable}}}")) {
                findings.push(format!("deploy/env/{name}.env: nothing reads {variable}"));
            }
        }
    }
    none(&findings);
}

#[test]
fn a_wrong_option_is_found() {
    let text = "Run `relay serve --public-url X`, or:\n```\n/usr/bin/relay serve \\\n  --bogus=1 | harness run --tty -- ls --all # --x\n```\n";
    assert_eq!(
        uses(text),
        [
            ("relay", vec!["--public-url".to_owned()]),
            ("relay", vec!["--bogus".to_owned()]),
            ("harness", vec!["--tty".to_owned()])
        ]
    );
    let known = BINARIES.map(|name| (name, BTreeSet::from(["--public-url".to_owned(), "--tty".to_owned()])));
    let findings = unknown(&File::new("a.md", text), &BTreeMap::from(known));
    assert_eq!(findings, ["a.md: relay has no --bogus"]);
    assert_eq!(variables("# Text = no\nA_B=1\n#C2=x\n"), ["A_B", "C2"]);
}

#[test]
fn an_untold_option_is_found() {
    let help = "Does things\n\nUsage: x [OPTIONS] <COMMAND>\n\nCommands:\n  serve   Runs\n          for long\n  \
                help    Prints\n\nOptions:\n  -l, --listen <ADDR>    Where [env: LISTEN=]\n      --drain[=<TIME>]  Stops, see --listen\n  \
                -v, --verbose...\n  -h, --help\n";
    assert_eq!(subcommands(help), ["serve"]);
    assert_eq!(
        options(help),
        BTreeSet::from(["--drain", "--listen", "--verbose"].map(str::to_owned))
    );
    assert_eq!(
        without_variable(help),
        BTreeSet::from(["--drain", "--verbose"].map(str::to_owned))
    );
    let long = "Options:\n  -t, --tty\n          Like --listen\n\n      --cwd <DIR>\n          Where:\n          - here\n\n          [env:\n          CWD=]\n";
    assert_eq!(without_variable(long), BTreeSet::from(["--tty".to_owned()]));
    none(&untold(
        "`serve` with `--listen ADDR`, `--verbose` and `--drain=TIME`",
        "x",
        help,
    ));
    assert_eq!(
        untold("serving with --listen-addr, --verbose and --drain", "x", help),
        ["x: --listen is not in the README", "x: serve is not in the README"]
    );
}
