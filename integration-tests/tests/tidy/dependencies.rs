//! Which crate may reach which, by the resolved graph of `cargo metadata`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::Command;

use serde_json::Value;

use crate::{none, tree};

/// Crates that no path of normal dependencies may lead to.
const UNREACHABLE: &[(&[&str], &[&str], &str)] = &[
    (
        &["rendezvous-relay", "rendezvous-registry"],
        &["rendezvous-channel", "rendezvous-rpc", "snow", "clatter", "ml-kem"],
        "relay and registry contain no code of the channel",
    ),
    (
        &["rendezvous-wire", "rendezvous-channel", "rendezvous-rpc"],
        &["tokio", "axum", "hyper", "sqlx", "tungstenite", "tokio-tungstenite"],
        "wire, channel and rpc do no IO",
    ),
    (
        &["rendezvous-executor"],
        &["rendezvous-harness", "rendezvous-relay", "rendezvous-registry"],
        "executor and harness meet only in proto and executor/host",
    ),
    (
        &["rendezvous-harness"],
        &["rendezvous-executor", "rendezvous-relay", "rendezvous-registry"],
        "executor and harness meet only in proto and executor/host",
    ),
    (
        &["rendezvous-connect"],
        &["rendezvous-channel", "hyper", "tungstenite"],
        "what opens sockets does not care what goes over them",
    ),
    (
        &["rendezvous-transport"],
        &["rendezvous-rpc"],
        "transport carries messages without reading them",
    ),
    (
        &["rendezvous-host"],
        &[
            "rendezvous-channel",
            "rendezvous-transport",
            "rendezvous-rpc",
            "tungstenite",
        ],
        "the host part knows no network protocol",
    ),
    (
        &["rendezvous-relay"],
        &["rendezvous-registry", "sqlx"],
        "a relay holds no database",
    ),
];

/// Crates that only these packages may name in their manifests.
const DIRECT: &[(&[&str], &[&str])] = &[
    (&["sqlx"], &["rendezvous-registry"]),
    (
        &["tungstenite", "tokio-tungstenite"],
        &[
            "rendezvous-transport",
            "rendezvous-relay",
            // Test peers speak WebSocket by hand.
            "rendezvous-integration-tests",
        ],
    ),
];

/// The normal dependencies of every package, by name; packages of one name in two versions are one node.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    normal: BTreeMap<String, Vec<String>>,
    members: Vec<String>,
}

impl Graph {
    /// Reads the output of `cargo metadata --format-version 1`.
    pub(crate) fn new(metadata: &Value) -> Self {
        let packages = metadata["packages"].as_array().expect("packages");
        let names: HashMap<&str, &str> = packages
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let mut graph = Self::default();
        for node in metadata["resolve"]["nodes"].as_array().expect("nodes") {
            let normal = node["deps"].as_array().expect("deps").iter().filter(|dependency| {
                let kinds = dependency["dep_kinds"].as_array().expect("dep_kinds");
                kinds.iter().any(|kind| kind["kind"].is_null())
            });
            let normal = normal.map(|dependency| names[text(&dependency["pkg"])].to_owned());
            let name = names[text(&node["id"])].to_owned();
            graph.normal.entry(name).or_default().extend(normal);
        }
        let members = metadata["workspace_members"].as_array().expect("members");
        graph.members = members.iter().map(|id| names[text(id)].to_owned()).collect();
        graph
    }

    /// The shortest path of normal dependencies from one package to another.
    fn path(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        let (start, _) = self.normal.get_key_value(from)?;
        let mut came_from: BTreeMap<&str, Option<&str>> = BTreeMap::from([(start.as_str(), None)]);
        let mut queue = VecDeque::from([start.as_str()]);
        while let Some(package) = queue.pop_front() {
            if package == to {
                let mut path = vec![package];
                while let Some(Some(previous)) = path.last().and_then(|last| came_from.get(last)) {
                    path.push(previous);
                }
                path.reverse();
                return Some(path);
            }
            for next in self.normal.get(package).into_iter().flatten() {
                if !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, Some(package));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (from, to, rule) in UNREACHABLE {
            for from in *from {
                if !self.normal.contains_key(*from) {
                    findings.push(format!(
                        "{from} is not in the workspace; the rule for it checks nothing"
                    ));
                }
                for path in to.iter().filter_map(|to| self.path(from, to)) {
                    findings.push(format!("{}: {rule}", path.join(" -> ")));
                }
            }
        }
        for (crates, users) in DIRECT {
            for member in self.members.iter().filter(|member| !users.contains(&member.as_str())) {
                let direct = self.normal.get(member).into_iter().flatten();
                for name in direct.filter(|name| crates.contains(&name.as_str())) {
                    findings.push(format!("{member} depends on {name}; only {} may", users.join(", ")));
                }
            }
        }
        findings
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// What cargo knows of the workspace, without the network.
pub(crate) fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

#[test]
fn crates_reach_only_what_they_may() {
    let graph = Graph::new(&metadata());
    assert!(
        graph.path("rendezvous-harness", "rendezvous-channel").is_some(),
        "the graph lacks an edge that is there"
    );
    none(&graph.findings());
}

/// A workspace that satisfies every rule, plus the given edges.
fn sample(edges: &[(&str, &str)]) -> Graph {
    let mut graph = Graph::default();
    let members = UNREACHABLE.iter().flat_map(|(from, ..)| *from);
    for member in members {
        graph.normal.entry((*member).to_owned()).or_default();
        graph.members.push((*member).to_owned());
    }
    for (from, to) in edges {
        graph
            .normal
            .entry((*from).to_owned())
            .or_default()
            .push((*to).to_owned());
    }
    graph
}

#[test]
fn a_forbidden_edge_is_found_however_far_away() {
    none(&sample(&[("rendezvous-relay", "rendezvous-wire")]).findings());
    for (edges, expected) in [
        (
            vec![("rendezvous-relay", "a"), ("a", "b"), ("b", "ml-kem")],
            "rendezvous-relay -> a -> b -> ml-kem",
        ),
        (
            vec![("rendezvous-registry", "rendezvous-channel")],
            "rendezvous-registry -> rendezvous-channel",
        ),
        (
            vec![("rendezvous-wire", "x"), ("x", "tokio")],
            "rendezvous-wire -> x -> tokio",
        ),
        (
            vec![("rendezvous-harness", "rendezvous-executor")],
            "rendezvous-harness -> rendezvous-executor",
        ),
        (
            vec![("rendezvous-executor", "sqlx")],
            "rendezvous-executor depends on sqlx",
        ),
        (
            vec![("rendezvous-harness", "tokio-tungstenite")],
            "only rendezvous-transport",
        ),
    ] {
        let findings = sample(&edges).findings();
        assert!(
            findings.iter().any(|finding| finding.contains(expected)),
            "{expected}: {findings:?}"
        );
    }
    let findings = Graph::default().findings();
    assert!(findings.iter().any(|finding| finding.contains("checks nothing")));
}

#[test]
fn only_normal_dependencies_count() {
    let metadata = serde_json::json!({
        "packages": [
            {"id": "1", "name": "rendezvous-channel"},
            {"id": "2", "name": "tokio"},
            {"id": "3", "name": "clatter"}
        ],
        "workspace_members": ["1"],
        "resolve": {"nodes": [
            {"id": "1", "deps": [
                {"pkg": "2", "dep_kinds": [{"kind": "dev"}, {"kind": null}]},
                {"pkg": "3", "dep_kinds": [{"kind": "dev"}]}
            ]},
            {"id": "2", "deps": []},
            {"id": "3", "deps": []}
        ]}
    });
    let graph = Graph::new(&metadata);
    assert_eq!(
        graph.path("rendezvous-channel", "tokio"),
        Some(vec!["rendezvous-channel", "tokio"])
    );
    assert_eq!(graph.path("rendezvous-channel", "clatter"), None);
}
