//! The units for systemd and the files of variables beside them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{none, tree};

const SERVICES: [&str; 3] = ["registry", "relay", "executor"];

fn text(path: &str) -> String {
    fs::read_to_string(tree::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Values of a unit's key.
fn values<'a>(unit: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines()
        .filter_map(move |line| line.strip_prefix(key)?.strip_prefix('='))
}

/// What a unit promises and nothing keeps: documents that no step of `guide` installs, and ports that a file of variables
/// suggests and the unit's account cannot listen on.
fn broken(unit: &str, variables: &str, guide: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for document in values(unit, "Documentation").filter_map(|value| value.strip_prefix("file:")) {
        let (folder, name) = document.rsplit_once('/').unwrap_or_default();
        let installs = |line: &str| line.starts_with("install ") && line.contains(folder) && line.contains(name);
        if !guide.lines().any(installs) {
            findings.push(format!("nothing installs {document}"));
        }
    }
    let may_bind = values(unit, "AmbientCapabilities").any(|value| value.contains("CAP_NET_BIND_SERVICE"))
        && values(unit, "CapabilityBoundingSet").any(|value| value.contains("CAP_NET_BIND_SERVICE"));
    for line in variables.lines().filter(|line| line.contains("LISTEN=")) {
        let port = line.rsplit([':', '=']).next().and_then(|port| port.parse::<u16>().ok());
        if port.is_none_or(|port| port < 1024 && !may_bind) {
            findings.push(format!("the unit cannot do `{line}`"));
        }
    }
    findings
}

#[test]
fn units_can_do_what_they_and_their_variables_say() {
    let guide = text("deploy/README.md");
    let mut findings = Vec::new();
    for service in SERVICES {
        let unit = text(&format!("deploy/systemd/rendezvous-{service}.service"));
        let variables = text(&format!("deploy/env/{service}.env"));
        findings.extend(
            broken(&unit, &variables, &guide)
                .into_iter()
                .map(|finding| format!("{service}: {finding}")),
        );
    }
    none(&findings);
}

#[test]
fn a_promise_that_nothing_keeps_is_found() {
    let unit = "Documentation=file:/usr/share/doc/x/README.md\nCapabilityBoundingSet=\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n";
    assert_eq!(
        broken(
            unit,
            "#X_LISTEN=0.0.0.0:443\nY_LISTEN=8080\n",
            "cp README.md /usr/share/doc/x/\n"
        ),
        [
            "nothing installs /usr/share/doc/x/README.md",
            "the unit cannot do `#X_LISTEN=0.0.0.0:443`"
        ]
    );
}

/// As systemd itself reads them, where it is installed.
#[test]
fn systemd_understands_the_units() {
    let analyze = |unit: &Path| Command::new("systemd-analyze").arg("verify").arg(unit).output();
    let folder = tempfile::tempdir().expect("a folder");
    let verify = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        let output = analyze(&path).ok()?;
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let mut findings = Vec::new();
    for service in SERVICES {
        let name = format!("rendezvous-{service}.service");
        // The programs are not installed here.
        let unit = text(&format!("deploy/systemd/{name}")).replace(&format!("/usr/local/bin/{service}"), "/bin/true");
        match verify(&name, &unit) {
            // Containers have no systemd.
            None => return,
            Some(words) => findings.extend(words.lines().filter(|line| line.contains(&name)).map(str::to_owned)),
        }
    }
    none(&findings);
    let wrong = verify("wrong.service", "[Service]\nExecStart=/bin/true\nRestrat=always\n").unwrap_or_default();
    assert!(wrong.contains("Restrat"), "{wrong}");
}
