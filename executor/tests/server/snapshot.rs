//! `process/start` with a shell snapshot, a snapshot's limits, and why a program did not start.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Client, server, with};

/// A home directory whose start-up files leave a line each time they run.
struct Home {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

const PROFILE: &str = r#"
echo ran >> "$HOME/runs"
echo noise on stdout
export FROM_PROFILE="a
b'c"
export PATH="/from/profile:$PATH"
NOT_EXPORTED=1
"#;

const BASH_ONLY: &str = r"
greet() { echo 'greet'; }
shopt -s extglob
set -o noclobber
";

impl Home {
    fn new(bash: &str, sh: &str) -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().to_owned();
        std::fs::write(path.join(".bash_profile"), bash).expect("profile");
        std::fs::write(path.join(".profile"), sh).expect("profile");
        Self { _dir: dir, path }
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path.join("runs")).map_or(0, |runs| runs.lines().count())
    }
}

fn start(id: &str, home: &Path, shell: &str, text: &str) -> Value {
    let path = format!("/bin/{shell}");
    let policy = json!({
        "inherit": "none", "ignoreDefaultExcludes": true, "exclude": [], "includeOnly": [],
        "set": {"HOME": home.to_str().expect("text"), "PATH": "/usr/bin:/bin"},
    });
    json!({
        "processId": id, "argv": [path, "-lc", text], "cwd": "file:///tmp", "env": {"OWN": "1"}, "tty": false,
        "envPolicy": policy, "shellSnapshot": {"scopeId": "s", "shell": {"name": shell, "path": path}},
    })
}

/// Runs a command to its end: what it wrote, and its code.
async fn run(client: &mut Client, params: Value) -> (String, Value) {
    client.call("process/start", params).await.expect("start");
    let (mut text, mut code) = (Vec::new(), Value::Null);
    loop {
        let (method, params) = client.news().await;
        match method.as_str() {
            "process/output" => {
                let chunk = params["chunk"].as_str().expect("chunk");
                text.extend(STANDARD.decode(chunk).expect("base64"));
            }
            "process/exited" => code = params["exitCode"].clone(),
            _ => return (String::from_utf8(text).expect("text"), code),
        }
    }
}

#[tokio::test]
async fn start_up_files_run_once_and_leave_their_state() {
    let home = Home::new(&format!("{PROFILE}{BASH_ONLY}"), PROFILE);
    let mut client = Client::new(&server()).await;
    let text = "greet; printf '%s|' \"$FROM_PROFILE\" \"$NOT_EXPORTED\" \"$OWN\" \"${PATH%%:*}\" \"$PWD\"; \
                shopt extglob; set -o | grep noclobber; env | grep -c SNAPSHOT; exit 3";
    let expected = "greet\na\nb'c||1|/from/profile|/tmp|extglob        \ton\nnoclobber      \ton\n0\n";
    for id in ["1", "2"] {
        let (out, code) = run(&mut client, start(id, &home.path, "bash", text)).await;
        assert_eq!((out.as_str(), &code), (expected, &json!(3)));
    }
    assert_eq!(home.runs(), 1);
    // Variables of one command win, and leave the snapshot as it is.
    let own = json!({"env": {"FROM_PROFILE": "own", "PATH": "/usr/bin:/bin"}});
    let (out, _) = run(
        &mut client,
        with(start("3", &home.path, "bash", "echo $FROM_PROFILE $PATH"), own),
    )
    .await;
    assert_eq!(out, "own /usr/bin:/bin\n");
    let (out, _) = run(&mut client, start("4", &home.path, "bash", "echo $FROM_PROFILE $0 $1")).await;
    assert_eq!(out, "a b'c /bin/bash\n");
    assert_eq!(home.runs(), 1);
}

#[tokio::test]
async fn other_shells_keep_their_environment() {
    let home = Home::new("", PROFILE);
    let mut client = Client::new(&server()).await;
    for id in ["1", "2"] {
        let (out, _) = run(&mut client, start(id, &home.path, "sh", "echo $FROM_PROFILE $OWN")).await;
        assert_eq!(out, "a b'c 1\n");
    }
    assert_eq!(home.runs(), 1);
}

#[tokio::test]
async fn another_scope_directory_or_policy_has_a_snapshot_of_its_own() {
    let home = Home::new(PROFILE, "");
    let mut client = Client::new(&server()).await;
    let base = start("", &home.path, "bash", "true");
    let scope = json!({"shellSnapshot": {"scopeId": "t", "shell": {"name": "bash", "path": "/bin/bash"}}});
    let mut policy = base["envPolicy"].clone();
    policy["set"]["MORE"] = json!("1");
    let variants = [
        json!({}),
        scope,
        json!({"cwd": "file:///"}),
        json!({"envPolicy": policy}),
    ];
    for (number, variant) in variants.into_iter().enumerate() {
        let params = with(with(base.clone(), variant), json!({"processId": number.to_string()}));
        run(&mut client, params).await;
        assert_eq!(home.runs(), number + 1);
    }
}

#[tokio::test]
async fn what_cannot_be_captured_runs_as_it_was_asked_for() {
    let mut client = Client::new(&server()).await;
    // Ends early; says too much; the wrong kind of shell. Each later command finds that out without trying again.
    let large = format!("{PROFILE}f() {{ echo '{}'; }}\n", "x".repeat(600 * 1024));
    for (bash, name) in [
        (format!("{PROFILE}exit 0\n"), "bash"),
        (large, "bash"),
        (PROFILE.to_owned(), "zsh"),
    ] {
        let home = Home::new(&bash, "");
        for id in 1..=2 {
            let process = format!("{id}-{name}-{}", bash.len());
            let snapshot = json!({"scopeId": home.path, "shell": {"name": name, "path": "/bin/bash"}});
            let command = start(&process, &home.path, "bash", "echo $FROM_PROFILE");
            let params = with(command, json!({"shellSnapshot": snapshot}));
            let (out, code) = run(&mut client, params).await;
            assert!(out.starts_with("noise on stdout\n"), "{out}");
            assert_eq!(code, 0);
            assert_eq!(home.runs(), id + 1, "the capture and each command");
        }
    }
}

#[tokio::test]
async fn commands_of_another_form_are_left_alone() {
    let home = Home::new(PROFILE, "");
    let mut client = Client::new(&server()).await;
    let base = |id: &str| start(id, &home.path, "bash", "echo $0");
    let plain = with(base("1"), json!({"argv": ["/bin/bash", "-c", "echo plain"]}));
    assert_eq!(run(&mut client, plain).await.0, "plain\n");
    assert_eq!(home.runs(), 0);
    let other = with(base("2"), json!({"argv": ["/usr/bin/bash", "-lc", "echo other"]}));
    assert_eq!(run(&mut client, other).await.0, "noise on stdout\nother\n");
    let more = with(
        base("3"),
        json!({"argv": ["/bin/bash", "-lc", "echo $0 $1", "zero", "one"]}),
    );
    assert_eq!(run(&mut client, more).await.0, "zero one\n");
    let refused = |id: &str, scope: &str, name: &str| {
        let snapshot = json!({"scopeId": scope, "shell": {"name": name, "path": "/bin/bash"}});
        with(base(id), json!({"shellSnapshot": snapshot}))
    };
    for (params, text) in [
        (
            refused("4", "", "bash"),
            "shell snapshot scope must be non-empty and at most 256 bytes",
        ),
        (
            refused("4", &"x".repeat(257), "bash"),
            "shell snapshot scope must be non-empty and at most 256 bytes",
        ),
        (
            refused("4", "s", "fish"),
            "shell snapshots are unsupported for shell `fish`",
        ),
        (
            with(base("4"), json!({"shellSnapshot": {"scopeId": "s"}})),
            "missing field `shell`",
        ),
        (with(base("4"), json!({"metadata": 5})), "invalid type"),
    ] {
        let error = client.call("process/start", params).await.expect_err(text);
        assert_eq!(error.0, -32602);
        assert!(error.1.contains(text), "{}", error.1);
    }
    let known = json!({"metadata": {"threadId": "019a0000-0000-7000-8000-000000000000", "toolCallId": null, "more": 1}, "shellSnapshot": null});
    run(&mut client, with(base("5"), known)).await;
}

#[tokio::test]
async fn failed_starts_say_what_failed() {
    let mut client = Client::new(&server()).await;
    for (argv, cwd, kind) in [
        ("/no/such/program", "file:///", "spawnNotFound"),
        ("no-such-program", "file:///", "spawnNotFound"),
        ("/bin/true", "file:///no/such/directory", "spawnNotFound"),
        ("/etc/passwd", "file:///", "spawnPermissionDenied"),
        ("/bin/true", "file:///etc/passwd", "spawnFailed"),
    ] {
        let params = json!({"processId": "p", "argv": [argv], "cwd": cwd, "env": {"PATH": "/bin"}, "tty": false});
        client.begin("process/start", params).await;
        let reply = client.message().await.expect("reply");
        assert_eq!(reply["error"]["code"], -32603);
        assert_eq!(reply["error"]["data"], json!({"kind": kind}), "{argv} in {cwd}");
    }
}
