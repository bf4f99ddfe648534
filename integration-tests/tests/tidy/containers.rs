//! Container files name what there is: stages, files, binaries, and commands that the binaries take.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::{flags, none, tree};

/// A stage of the Dockerfile that somebody runs: its binary, and its arguments unless others are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Image {
    base: String,
    binary: String,
    arguments: Vec<String>,
}

/// A service of the Compose file that is built here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Service {
    target: String,
    arguments: Option<Vec<String>>,
}

fn images(dockerfile: &str) -> BTreeMap<String, Image> {
    let mut images: BTreeMap<String, Image> = BTreeMap::new();
    let mut stage = String::new();
    for line in dockerfile.lines() {
        let words = |json: &str| serde_json::from_str::<Vec<String>>(json).expect("a list of words");
        if let Some((base, name)) = line.strip_prefix("FROM ").and_then(|rest| rest.split_once(" AS ")) {
            name.clone_into(&mut stage);
            images.entry(stage.clone()).or_default().base = base.to_owned();
        } else if let Some(list) = line.strip_prefix("ENTRYPOINT ") {
            let first = words(list).remove(0);
            let binary = first.rsplit('/').next().unwrap_or_default();
            images.entry(stage.clone()).or_default().binary = binary.to_owned();
        } else if let Some(list) = line.strip_prefix("CMD ") {
            images.entry(stage.clone()).or_default().arguments = words(list);
        }
    }
    images
}

/// `${NAME:-default}` becomes the default, as if no variable were set.
fn substituted(word: &str) -> String {
    let word = word.trim().trim_matches('"');
    match word.split_once("${") {
        Some((before, rest)) => {
            let (variable, after) = rest.split_once('}').expect("a closed variable");
            let default = variable.split_once(":-").map(|(_, default)| default);
            format!("{before}{}{after}", default.unwrap_or_default())
        }
        None => word.to_owned(),
    }
}

/// The services with a `build` line; what is read here is written on one line, or as a list below `command:`.
fn services(compose: &str) -> Vec<Service> {
    let mut services: Vec<Service> = Vec::new();
    let mut is_in_command = false;
    for line in compose.lines().map(str::trim) {
        if let Some(build) = line.strip_prefix("build: ") {
            let target = build.split("target: ").nth(1).unwrap_or_default();
            services.push(Service {
                target: target.trim_end_matches('}').to_owned(),
                arguments: None,
            });
        }
        let Some(service) = services.last_mut() else { continue };
        if let Some(list) = line.strip_prefix("command: [") {
            let words = list.trim_end_matches(']').split(", ").map(substituted);
            service.arguments = Some(words.collect());
        } else if line == "command:" {
            is_in_command = true;
            service.arguments = Some(Vec::new());
        } else if let Some(word) = line.strip_prefix("- ").filter(|_| is_in_command) {
            service.arguments.get_or_insert_default().push(substituted(word));
        } else {
            is_in_command = false;
        }
    }
    services
}

/// Whether the binary takes these arguments: the help that is asked for after them comes only then.
fn takes(binary: &str, arguments: &[String]) -> bool {
    let mut command = Command::new(flags::binary_folder().join(binary));
    let output = command.args(arguments).arg("--help").env_clear().output();
    output.is_ok_and(|output| output.status.success())
}

fn findings(dockerfile: &str, compose: &str) -> Vec<String> {
    let images = images(dockerfile);
    let mut findings = Vec::new();
    let mut runs = Vec::new();
    for (name, image) in images.iter().filter(|(_, image)| !image.binary.is_empty()) {
        runs.push((format!("image {name}"), image.binary.clone(), image.arguments.clone()));
    }
    let services = services(compose);
    for service in services {
        match images.get(&service.target) {
            None => findings.push(format!("there is no image {}", service.target)),
            Some(image) => {
                let arguments = service.arguments.unwrap_or_else(|| image.arguments.clone());
                runs.push((format!("service {}", service.target), image.binary.clone(), arguments));
            }
        }
    }
    // What the recipe above the services runs in the registry's container, until it redirects.
    for line in compose.lines().filter_map(|line| line.strip_prefix("# ")) {
        let Some((_, run)) = line
            .split_once(" registry ")
            .filter(|(before, _)| before.contains("run --rm"))
        else {
            continue;
        };
        let words = run.split('>').next().unwrap_or_default().split_whitespace();
        runs.push((
            "recipe".to_owned(),
            "registry".to_owned(),
            words.map(str::to_owned).collect(),
        ));
    }
    for role in ["relay", "executor", "harness"] {
        if !compose.contains(&format!("credential create --role {role} ")) {
            findings.push(format!("the recipe makes no token for the {role}"));
        }
    }
    for (what, binary, arguments) in runs {
        if !takes(&binary, &arguments) {
            findings.push(format!("{what}: `{binary} {}` is refused", arguments.join(" ")));
        }
    }
    findings
}

#[test]
fn container_files_name_what_there_is() {
    let read = |path: &str| fs::read_to_string(tree::root().join(path)).expect(path);
    let (dockerfile, compose) = (read("deploy/Dockerfile"), read("deploy/compose.yaml"));
    none(&findings(&dockerfile, &compose));
    assert_eq!(services(&compose).len(), 3);
    let images = images(&dockerfile);
    let binaries: Vec<&str> = images.values().map(|image| image.binary.as_str()).collect();
    assert_eq!(binaries, ["", "executor", "harness", "registry", "relay"]);

    let toolchain = read("rust-toolchain.toml");
    let version = images["build"]
        .base
        .strip_prefix("rust:")
        .and_then(|tag| tag.split('-').next());
    let version = version.expect("a version");
    assert!(toolchain.contains(&format!("channel = \"{version}")), "{version}");

    let wrong = dockerfile.replace("\"serve\", \"--listen\"", "\"serve\", \"--lisen\"");
    let wrong_too = compose
        .replace("--allow-insecure", "--alow")
        .replace("--role harness", "--role agent")
        .replace("target: registry", "target: x");
    assert_eq!(findings(&wrong, &wrong_too).len(), 5);
    assert_eq!(substituted("\"--url=${A:-http://x:1}/y\""), "--url=http://x:1/y");
}
