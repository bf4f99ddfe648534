use std::path::PathBuf;

use rendezvous_wire::limits::{INITIALIZE_TIMEOUT, RELAY_CONNECT_TIMEOUT};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use super::*;
use crate::endpoint::Program;
use crate::options::{ACCOUNT_ID, AUTH_TOKEN, ClearText, ENVIRONMENT_ID, OptionsError, REGISTRY_URL};
use crate::trust::{KeyPolicy, Keyring};

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
    for variable in REGISTRY {
        let error = load(Some(FILE), &[variable, URL]).unwrap_err();
        assert!(matches!(error, HarnessError::Options(_)), "{variable:?}: {error}");
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
    // This machine is not counted.
    let environments = load(None, &[]).unwrap();
    for n in 0..MAX_ENVIRONMENTS {
        environments.add(&format!("e{n}"), program()).unwrap();
    }
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
async fn a_missing_folder_is_told_from_a_missing_program() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let mut program = Program::new("sh", ["-c", "exit 3"]);
    program.cwd = Some(missing.clone());
    let error = Environment::remote("p", program.clone()).info().await.unwrap_err();
    let expected = format!("cannot start `sh` in the folder {}: No such file", missing.display());
    assert!(error.to_string().contains(&expected), "{error}");

    program.cwd = Some(folder.path().to_owned());
    program.program = "/nowhere".to_owned();
    let error = Environment::remote("p", program).info().await.unwrap_err();
    assert!(
        error.to_string().contains("cannot start `/nowhere`: No such file"),
        "{error}"
    );
}

#[tokio::test]
async fn a_silent_program_is_given_up_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (pid, told) = (folder.path().join("pid"), folder.path().join("told"));
    // It takes no notice of the end of its input, nor of SIGTERM, and what it has started neither.
    let script = format!(
        "(trap '' TERM; exec sleep 1000 >/dev/null 2>&1) & echo $! > {}; trap 'echo > {}' TERM; while :; do sleep 0.1; done",
        pid.display(),
        told.display()
    );
    let mut program = Program::new("sh", ["-c", &script]);
    program.initialize_timeout = Duration::from_millis(300);
    let environment = Environment::remote("p", program);
    let start = Instant::now();
    let error = environment.info().await.unwrap_err().to_string();
    assert!(start.elapsed() < INITIALIZE_TIMEOUT, "{:?}", start.elapsed());
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
    timeout(Duration::from_secs(20), gone).await.expect("it is killed");
    assert!(told.exists(), "it was asked before");
}

#[tokio::test]
async fn the_last_words_of_a_program_are_told() {
    let script = "i=0; while [ $i -lt 3000 ]; do echo word-$i >&2; i=$((i + 1)); done; exit 3";
    let environment = Environment::remote("p", Program::new("sh", ["-c", script]));
    let error = environment.info().await.unwrap_err().to_string();
    assert!(error.ends_with("word-2998\nword-2999") && error.len() < 1200, "{error}");
}

/// A server that takes connections and says nothing, as a listener which is given up after this time.
async fn silent(connect_timeout: Duration) -> (tokio::net::TcpListener, Listener) {
    let server = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut listener = Listener::new(format!("ws://{}", server.local_addr().unwrap()));
    listener.connect_timeout = connect_timeout;
    (server, listener)
}

#[tokio::test]
async fn a_silent_listener_is_told_the_token_and_given_up_in_time() {
    let (server, mut listener) = silent(Duration::from_millis(300)).await;
    listener.bearer = Some(Secret::new("sesame"));
    let environment = Environment::remote("l", listener);
    let asked = async {
        let (mut socket, _) = server.accept().await.unwrap();
        let mut head = String::new();
        // Until the harness gives up.
        socket.read_to_string(&mut head).await.unwrap();
        head.to_lowercase()
    };
    let start = Instant::now();
    let (failed, head) = tokio::join!(environment.info(), asked);
    assert!(matches!(failed, Err(HarnessError::Unreachable(_))), "{failed:?}");
    assert!(start.elapsed() < RELAY_CONNECT_TIMEOUT, "{:?}", start.elapsed());
    assert!(head.contains("authorization: bearer sesame\r\n"), "{head}");
}

#[tokio::test]
async fn an_attempt_ends_with_its_environment() {
    let (server, listener) = silent(Duration::from_secs(1000)).await;
    let environment = Environment::remote("l", listener);
    let mut socket = tokio::select! {
        failed = environment.info() => panic!("{failed:?}"),
        accepted = server.accept() => accepted.unwrap().0,
    };
    drop(environment);
    let mut rest = Vec::new();
    let ended = timeout(Duration::from_secs(60), socket.read_to_end(&mut rest)).await;
    ended.expect("it is given up").unwrap();
}

/// The runtime of the first caller may end under an attempt that others need.
#[test]
fn an_attempt_that_ended_with_its_runtime_is_made_anew() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let first = runtime();
    let environment = first.block_on(async {
        let (server, listener) = silent(Duration::from_secs(1000)).await;
        let environment = Environment::remote("l", listener);
        tokio::select! {
            failed = environment.info() => panic!("{failed:?}"),
            accepted = server.accept() => drop(accepted.unwrap()),
        }
        environment
    });
    drop(first);
    let failed = runtime().block_on(environment.info());
    assert!(matches!(failed, Err(HarnessError::Unreachable(_))), "{failed:?}");
}

#[tokio::test]
async fn the_longest_times_are_no_fault() {
    let server = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut listener = Listener::new(format!("ws://{}", server.local_addr().unwrap()));
    drop(server);
    (listener.connect_timeout, listener.initialize_timeout) = (Duration::MAX, Duration::MAX);
    let mut program = Program::new("sh", ["-c", "exit 3"]);
    program.initialize_timeout = Duration::MAX;
    for environment in [Environment::remote("l", listener), Environment::remote("p", program)] {
        let failed = environment.info().await;
        assert!(matches!(failed, Err(HarnessError::Unreachable(_))), "{failed:?}");
    }
}

/// Each environment looks for the given certificates, which are missing here.
#[tokio::test]
async fn certificates_count_everywhere() {
    let settings = |file: Option<PathBuf>, url: Option<&str>| Settings {
        file,
        exec_server_url: url.map(Secret::new),
        ca_file: Some(PathBuf::from("/nowhere/ca.pem")),
        ..Settings::default()
    };
    let home = home(Some(FILE));
    let configured = Environments::load(&settings(Some(home.path().join(FILE_NAME)), None)).unwrap();
    let named = Environments::load(&settings(None, Some("wss://127.0.0.1:1"))).unwrap();
    for remote in [configured.get("a").unwrap(), named.get(REMOTE).unwrap()] {
        let error = crate::error::chain(&remote.info().await.unwrap_err()).to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{}: {error}", remote.id());
    }
    let alone = Environments::load(&settings(None, None)).unwrap();
    for environments in [configured, alone] {
        let request = crate::http::HttpRequest::new("GET", "http://127.0.0.1:1/");
        let local = environments.get(LOCAL).unwrap();
        let error = crate::error::chain(&local.http().http(request).await.unwrap_err()).to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
    }
}

#[test]
fn clear_text_may_go_where_the_settings_say() {
    let settings = |clear_text| Settings {
        exec_server_url: Some(Secret::new("ws://far.example:1")),
        clear_text,
        ..Settings::default()
    };
    for clear_text in [ClearText::Loopback, ClearText::Anywhere] {
        let environments = Environments::load(&settings(clear_text)).unwrap();
        let Place::Remote(remote) = environments.get(REMOTE).unwrap().place else {
            panic!("this machine");
        };
        assert!(matches!(remote.endpoint(), Endpoint::Listener(listener) if listener.clear_text == clear_text));
    }
}

#[test]
fn an_address_holds_no_secret() {
    let listener = Environment::remote("l", Listener::new("wss://far.example:7000/secret?token=secret"));
    assert_eq!(listener.address().as_deref(), Some("wss://far.example:7000"));
    assert_eq!(Environment::local().address(), None);
    assert_eq!(Environment::remote("p", Program::new("x", ["y"])).address(), None);
}

#[test]
fn a_registry_gets_all_that_the_settings_say() {
    let identity = Keyring::ephemeral();
    let mut settings = Settings::from_lookup(|name| match name {
        ACCOUNT_ID => Some("account".to_owned()),
        name => REGISTRY
            .iter()
            .find(|(known, _)| *known == name)
            .map(|found| found.1.to_owned()),
    });
    settings.ca_file = Some(PathBuf::from("/ca.pem"));
    settings.identity = Some(identity.clone());
    settings.executors = KeyPolicy {
        strict: true,
        ..KeyPolicy::known_in("/known")
    };
    settings.connect_timeout = Some(Duration::from_secs(7));
    settings.stream_grace = Some(Duration::MAX);
    let environment = Environments::load(&settings).unwrap().default_environment().unwrap();
    let Place::Remote(remote) = environment.place else {
        panic!("this machine");
    };
    let Endpoint::Relay(options) = remote.endpoint() else {
        panic!("no relay");
    };
    assert_eq!(options.account.as_deref(), Some("account"));
    assert_eq!(options.ca_file, settings.ca_file);
    assert_eq!(
        options.identity.as_ref().map(Keyring::fingerprint),
        Some(identity.fingerprint())
    );
    assert!(options.executors.strict && options.executors.known.is_some());
    assert_eq!(options.first.budget, Duration::from_secs(7));
    assert_eq!(options.stream_grace, crate::options::MAX_STREAM_GRACE);
}
