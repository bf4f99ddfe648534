//! Where things stand, and what every manifest says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::tree::root;
use crate::{dependencies, none};

/// What may stand at the top, hidden tool files aside.
const TOP: [&str; 13] = [
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "deploy",
    "executor",
    "harness",
    "integration-tests",
    "proto",
    "registry",
    "relay",
    "rust-toolchain.toml",
];
const HIDDEN: [&str; 9] = [
    ".cargo",
    ".ci",
    ".clippy.toml",
    ".config",
    ".deny.toml",
    ".dockerignore",
    ".git",
    ".gitignore",
    ".rustfmt.toml",
];
/// Package, folder.
const CRATES: [(&str, &str); 13] = [
    ("rendezvous-channel", "proto/channel"),
    ("rendezvous-connect", "proto/connect"),
    ("rendezvous-executor", "executor"),
    ("rendezvous-harness", "harness"),
    ("rendezvous-host", "executor/host"),
    ("rendezvous-identity", "proto/identity"),
    ("rendezvous-integration-tests", "integration-tests"),
    ("rendezvous-registry", "registry"),
    ("rendezvous-relay", "relay"),
    ("rendezvous-rpc", "proto/rpc"),
    ("rendezvous-service", "proto/service"),
    ("rendezvous-transport", "proto/transport"),
    ("rendezvous-wire", "proto/wire"),
];

fn top_findings<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names
        .filter(|name| *name != "target" && !TOP.contains(name) && !HIDDEN.contains(name))
        .map(|name| format!("{name} has no place at the top of the repository"))
        .collect()
}

fn crate_findings(metadata: &Value, root: &Path) -> Vec<String> {
    let mut findings = Vec::new();
    let members = metadata["workspace_members"].as_array().expect("members");
    let packages = metadata["packages"].as_array().expect("packages");
    for package in packages.iter().filter(|package| members.contains(&package["id"])) {
        let name = package["name"].as_str().expect("a name");
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let expected = CRATES.iter().find(|(known, _)| *known == name);
        if expected.map(|(_, folder)| Path::new(folder)) != folder {
            findings.push(format!("{name} stands in {folder:?}, expected {expected:?}"));
        }
        if package["description"].as_str().is_none_or(str::is_empty) {
            findings.push(format!("{name} has no description"));
        }
        if package["license"] != "Apache-2.0" || package["publish"] != serde_json::json!([]) {
            findings.push(format!("{name} does not take licence and publish from the workspace"));
        }
    }
    for (name, _) in CRATES {
        if !packages.iter().any(|package| package["name"] == name) {
            findings.push(format!("{name} is gone from the workspace"));
        }
    }
    findings
}

/// The crate that needs unsafe code in one file. A manifest cannot change one lint of the workspace's, so it repeats
/// them.
const UNSAFE_CRATE: &str = "rendezvous-host";

/// Whether the manifest takes its lints from the workspace.
fn takes_shared_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

/// The lints that tables with this name and tool set, as sorted lines.
fn lints(manifest: &str, table: &str) -> BTreeSet<String> {
    let mut lints = BTreeSet::new();
    for tool in ["rust", "clippy"] {
        let heading = format!("[{table}.{tool}]");
        let lines = manifest.lines().skip_while(|line| *line != heading).skip(1);
        let lines = lines
            .take_while(|line| !line.starts_with('['))
            .filter(|line| line.contains('='));
        lints.extend(lines.map(|line| format!("{tool}: {line}")));
    }
    lints
}

/// Whether the crate's lints are the workspace's, with unsafe code denied instead of forbidden.
fn repeats_lints(manifest: &str, workspace: &str) -> bool {
    let workspace = lints(
        &workspace.replace("unsafe_code = \"forbid\"", "unsafe_code = \"deny\""),
        "workspace.lints",
    );
    !workspace.is_empty() && lints(manifest, "lints") == workspace
}

#[test]
fn top_level_holds_what_it_should() {
    let entries = fs::read_dir(root()).expect("a readable root");
    let names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    none(&top_findings(names.iter().map(String::as_str)));
    for name in TOP {
        assert!(names.iter().any(|found| found == name), "{name} is missing");
    }
    assert_eq!(top_findings(["relay", "scratch.txt", ".secret"].into_iter()).len(), 2);
}

#[test]
fn crates_stand_in_their_folders() {
    let root = root();
    let mut metadata = dependencies::metadata();
    none(&crate_findings(&metadata, &root));
    for package in metadata["packages"].as_array_mut().expect("packages") {
        if package["name"] == "rendezvous-relay" {
            package["name"] = "rendezvous-router".into();
            package["description"] = Value::Null;
        }
    }
    // A wrong place, no description, and the old name gone.
    assert_eq!(crate_findings(&metadata, &root).len(), 3);
}

#[test]
fn every_crate_takes_the_shared_lints() {
    let read = |folder: &str| fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
    let workspace = read("");
    for (name, folder) in CRATES {
        let manifest = read(folder);
        if name == UNSAFE_CRATE {
            assert!(
                repeats_lints(&manifest, &workspace),
                "{name} and the workspace differ in their lints"
            );
        } else {
            assert!(takes_shared_lints(&manifest), "{name} lacks [lints] workspace = true");
        }
    }
    assert!(!takes_shared_lints("[package]\nname = \"x\"\n"));
    assert!(!takes_shared_lints("[lints]\nworkspace = false\n"));
    assert!(!takes_shared_lints("[features]\nworkspace = true\n[lints]\n"));
    let weaker = read("executor/host").replace("unwrap_used = \"warn\"\n", "");
    assert!(!repeats_lints(&weaker, &workspace));
    let unsafer = read("executor/host").replace("unsafe_code = \"deny\"\n", "unsafe_code = \"warn\"\n");
    assert!(!repeats_lints(&unsafer, &workspace));
}
