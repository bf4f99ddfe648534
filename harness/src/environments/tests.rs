use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::endpoint::Program;
use crate::options::{AUTH_TOKEN, ENVIRONMENT_ID, OptionsError, REGISTRY_URL};

/// A home with this file.
fn home(file: Option<&str>) -> TempDir {
    let home = TempDir::new().unwrap();
    if let Some(text) = file {
        std::fs::write(home.path().join(FILE_NAME), text).unwrap();
    }
    home
}

/// Loads from these variables and a home with this file.
fn load(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Environments, HarnessError> {
    let home = home(file);
    let settings = Settings::from_lookup(|name| match name {
        CODEX_HOME => home.path().to_str().map(ToOwned::to_owned),
        name => {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        }
    });
    Environments::load(&settings)
}

const REGISTRY: [(&str, &str); 3] = [
    (REGISTRY_URL, "http://127.0.0.1:1"),
    (ENVIRONMENT_ID, "far"),
    (AUTH_TOKEN, "t"),
];
const FILE: &str = "[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n";
const URL: (&str, &str) = (EXEC_SERVER_URL, "ws://127.0.0.1:1");

/// The ids, the default and whether that was chosen.
fn shown(environments: &Environments) -> (Vec<String>, Option<&str>, bool) {
    (
        environments.ids(),
        environments.default_id(),
        environments.is_default_chosen(),
    )
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn the_first_source_that_is_given_counts_alone() {
    let registry_and = |more: &[(&'static str, &'static str)]| [&REGISTRY[..], more].concat();
    for (file, variables, known, default, chosen) in [
        (None, vec![], &["local"][..], Some("local"), false),
        (None, vec![URL], &["remote"], Some("remote"), true),
        (None, vec![(EXEC_SERVER_URL, " NONE ")], &[], None, true),
        (None, vec![(EXEC_SERVER_URL, "  ")], &["local"], Some("local"), false),
        (Some(FILE), vec![URL], &["a", "local"], Some("local"), false),
        (
            Some(FILE),
            vec![(EXEC_SERVER_URL, "none")],
            &["a", "local"],
            Some("local"),
            false,
        ),
        (Some(""), vec![URL], &["local"], Some("local"), false),
        (Some(FILE), registry_and(&[URL]), &["remote"], Some("remote"), true),
        (Some("no toml"), registry_and(&[]), &["remote"], Some("remote"), true),
        (
            None,
            registry_and(&[(EXEC_SERVER_URL, "none")]),
            &["remote"],
            Some("remote"),
            true,
        ),
    ] {
        let environments = load(file, &variables).unwrap();
        assert_eq!(
            shown(&environments),
            (ids(known), default, chosen),
            "{file:?} {variables:?}"
        );
    }
}

#[test]
fn a_part_of_a_registry_is_an_error_whatever_else_is_there() {
    for missing in 0..3 {
        let mut variables = REGISTRY.to_vec();
        variables.remove(missing);
        variables.push(URL);
        let error = load(Some(FILE), &variables).unwrap_err();
        assert!(
            matches!(&error, HarnessError::Options(error) if matches!(**error, OptionsError::Missing(_))),
            "{error}"
        );
    }
    let error = load(None, &[(EXEC_SERVER_URL, "http://127.0.0.1:1")]).unwrap_err();
    assert_eq!(error.exit_code(), crate::exit::USAGE);
}

#[test]
fn a_file_may_leave_this_machine_out() {
    let without = format!("include_local = false\n{FILE}");
    let environments = load(Some(&without), &[]).unwrap();
    assert_eq!(shown(&environments), (ids(&["a"]), None, false));
    let error = environments.get(LOCAL).unwrap_err().to_string();
    assert_eq!(error, "there is no environment \"local\"");
    assert!(environments.default_environment().is_err());
    let environments = load(Some(&format!("default = \"a\"\n{without}")), &[]).unwrap();
    assert_eq!(environments.default_environment().unwrap().id(), "a");
}

#[test]
fn added_environments_are_bounded_and_take_the_place_of_others() {
    let environments = load(None, &[URL]).unwrap();
    let program = || Program::new("x", ["y"]);
    for id in ["local", "none", "", "a b"] {
        assert!(environments.add(id, program()).is_err(), "{id}");
    }
    let before = environments.get(REMOTE).unwrap();
    environments.add(REMOTE, program()).unwrap();
    let after = environments.get(REMOTE).unwrap();
    assert!(matches!((&before.place, &after.place), (Place::Remote(a), Place::Remote(b)) if !Arc::ptr_eq(a, b)));
    for n in 1..MAX_ENVIRONMENTS {
        environments.add(&format!("e{n}"), program()).unwrap();
    }
    let error = environments.add("more", program()).unwrap_err();
    assert!(error.to_string().starts_with("more than 1024"), "{error}");
    environments.add("e1", program()).unwrap();
    assert_eq!(environments.default_id(), Some(REMOTE));
}

#[test]
fn the_file_lies_in_the_home_of_codex() {
    let settings = |variables: &[(&str, &str)]| {
        let file = Settings::from_lookup(|name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        });
        file.file
    };
    assert_eq!(
        settings(&[("HOME", "/h")]),
        Some(PathBuf::from("/h/.codex/environments.toml"))
    );
    assert_eq!(
        settings(&[("HOME", "/h"), (CODEX_HOME, "/c")]),
        Some(PathBuf::from("/c/environments.toml"))
    );
    assert_eq!(settings(&[]), None);
}

#[tokio::test]
async fn nobody_connects_before_somebody_needs_it() {
    let environments = load(None, &[]).unwrap();
    let marker = tempfile::tempdir().unwrap().path().join("started");
    let script = format!("echo x >> {}; echo gone >&2; exit 3", marker.display());
    std::fs::create_dir_all(marker.parent().unwrap()).unwrap();
    let environment = environments.add("p", Program::new("sh", ["-c", &script])).unwrap();
    assert!(matches!(environments.status("p").await.unwrap(), Status::Unused));
    assert!(!marker.exists());
    // All of them get the one failure of the one program.
    let calls = (0..8).map(|_| environment.info());
    for result in futures_util::future::join_all(calls).await {
        let error = result.unwrap_err();
        let expected = "cannot reach the executor: `sh` has ended (exit status: 3): gone";
        assert_eq!(
            (error.to_string().as_str(), error.exit_code()),
            (expected, crate::exit::UNAVAILABLE)
        );
    }
    assert!(matches!(environments.status("p").await.unwrap(), Status::Failed(_)));
    assert!(environment.info().await.is_err());
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "x\n", "it was started once");
}

#[tokio::test]
async fn a_program_that_could_not_be_started_may_be_there_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let environment = Environment::remote("p", Program::new(path.to_str().unwrap(), ["x"]));
    let error = environment.info().await.unwrap_err().to_string();
    assert!(
        error.contains("cannot start `") && error.contains("No such file"),
        "{error}"
    );
    std::fs::write(&path, "#!/bin/sh\necho later >&2\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = environment.info().await.unwrap_err().to_string();
    assert!(error.ends_with("has ended (exit status: 0): later"), "{error}");
}

#[tokio::test]
async fn a_silent_program_is_given_up_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // It takes no notice of the end of its input, nor of SIGTERM.
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done", pid.display());
    let mut program = Program::new("sh", ["-c", &script]);
    program.initialize_timeout = Duration::from_millis(300);
    let environment = Environment::remote("p", program);
    let error = environment.info().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot reach the executor: no answer in time; is the executor running?"
    );
    let pid = std::fs::read_to_string(&pid).unwrap();
    let alive = || std::path::Path::new(&format!("/proc/{}", pid.trim())).exists();
    let gone = async {
        while alive() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), gone).await.expect("it is killed");
}
