//! The executor's token, and what a command can see of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::process::{Executor, NOBODY, command};
use crate::session::Session;
use crate::world::{Seen, World, within};

const TOKENS: [&str; 3] = ["token-one-1234", "token-two-5678", "token-three-9012"];

async fn bearer(world: &mut World) -> String {
    match world.next().await {
        Seen::Register(bearer, _) => bearer,
        other => panic!("{other:?}"),
    }
}

fn with_secrets(world: &World) -> Command {
    let mut command = command(&world.url());
    command
        .env("EXECUTOR_TOKEN", TOKENS[0])
        .env("CODEX_API_KEY", TOKENS[1])
        .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", TOKENS[2]);
    command
}

#[tokio::test]
async fn a_command_sees_no_token() {
    let mut world = World::new();
    let mut executor = Executor::start(with_secrets(&world));
    executor.line().await.expect("line");
    assert_eq!(bearer(&mut world).await, format!("Bearer {}", TOKENS[0]));
    let mut session = Session::open(&world).await;
    let script = "echo parent=$PPID; env; cat /proc/$PPID/environ; cat /proc/$PPID/cmdline | tr '\\0' ' '; \
                  for fd in /proc/$PPID/fd/*; do timeout 1 cat $fd; done; \
                  head -c 1 /proc/$PPID/mem; ls /proc/self/fd; echo end";
    let (output, _) = session.run(script).await;
    assert!(
        output.contains(&format!("parent={}\n", executor.pid())),
        "the executor is the parent: {output}"
    );
    assert!(
        output.contains("HARMLESS=harmless-value"),
        "the rest is inherited: {output}"
    );
    assert!(output.ends_with("end\n"), "{output}");
    for secret in TOKENS {
        assert!(!output.contains(secret), "{output}");
    }
    if rustix::process::geteuid().is_root() {
        // The executor runs as nobody, and so does its command.
        for file in ["environ", "mem"] {
            let denied = format!("/proc/{}/{file}", executor.pid());
            let line = output.lines().find(|line| line.contains(&denied));
            assert!(
                line.is_some_and(|line| line.contains("Permission denied")),
                "{file}: {output}"
            );
        }
    }
}

#[tokio::test]
async fn not_even_root_finds_the_token_in_the_environment() {
    let mut world = World::new();
    let mut executor = Executor::start(with_secrets(&world));
    executor.line().await.expect("line");
    bearer(&mut world).await;
    let read = |file: &str| fs::read(format!("/proc/{}/{file}", executor.pid()));
    if rustix::process::geteuid().is_root() {
        let environment = String::from_utf8_lossy(&read("environ").expect("environ")).into_owned();
        assert!(environment.contains("HARMLESS=harmless-value"), "{environment}");
        for secret in TOKENS {
            assert!(!environment.contains(secret), "{environment}");
        }
        let arguments = String::from_utf8_lossy(&read("cmdline").expect("cmdline")).into_owned();
        assert!(!arguments.contains("token-"), "{arguments}");
        assert_eq!(read("comm").expect("comm"), b"executor\n");

        let cat = Command::new("cat")
            .arg(format!("/proc/{}/environ", executor.pid()))
            .uid(NOBODY)
            .gid(NOBODY)
            .output();
        let cat = within(cat).await.expect("cat");
        assert!(!cat.status.success());
        assert!(
            String::from_utf8_lossy(&cat.stderr).contains("Permission denied"),
            "{cat:?}"
        );
    } else {
        assert_eq!(
            read("environ").expect_err("protected").kind(),
            std::io::ErrorKind::PermissionDenied
        );
    }
}

#[tokio::test]
async fn the_first_source_counts() {
    let mut world = World::new();
    let mut command = with_secrets(&world);
    command.env("EXECUTOR_TOKEN", "  ");
    let _executor = Executor::start(command);
    assert_eq!(bearer(&mut world).await, format!("Bearer {}", TOKENS[1]));

    let mut world = World::new();
    let file = tempfile::NamedTempFile::new().expect("file");
    fs::write(file.path(), "from-a-file\n").expect("write");
    let mut command = with_secrets(&world);
    command.arg("--token-file").arg(file.path());
    fs::set_permissions(file.path(), Permissions::from_mode(0o604)).expect("chmod");
    let (code, log) = Executor::start(command).end().await;
    assert_eq!(code, Some(64), "{log}");
    assert!(log.contains("chmod 600"), "{log}");

    fs::set_permissions(file.path(), Permissions::from_mode(0o600)).expect("chmod");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(file.path(), Some(NOBODY), Some(NOBODY)).expect("chown");
    }
    let mut command = with_secrets(&world);
    command.arg("--token-file").arg(file.path());
    let _executor = Executor::start(command);
    assert_eq!(bearer(&mut world).await, "Bearer from-a-file");
}

#[tokio::test]
async fn stdin_is_a_source_too() {
    let mut world = World::new();
    let mut command = with_secrets(&world);
    command.args(["--token-file", "-"]).stdin(Stdio::piped());
    let mut executor = Executor::start(command);
    let mut stdin = executor.stdin();
    stdin.write_all(b"from-stdin\n").await.expect("write");
    drop(stdin);
    assert_eq!(bearer(&mut world).await, "Bearer from-stdin");
}
