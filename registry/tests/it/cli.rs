//! The command line.

use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::support::http;
use crate::support::registry::{Database, Registry, Starting, mode};

async fn registry(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_registry"))
        .args(args)
        .env_remove("DATABASE_URL")
        .output()
        .await
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn exit_codes_tell_what_is_wrong() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let missing = format!("sqlite://{}-none", file.path().display());
    // A folder cannot be made below a file.
    let nowhere = "sqlite:///dev/null/dir/r.db";
    for (code, args) in [
        (0, vec!["--help"]),
        (0, vec!["--version"]),
        (64, vec![]),
        (64, vec!["nonsense"]),
        (64, vec!["serve", "--listen", "nowhere"]),
        (64, vec!["serve", "--public-url", "ftp://x"]),
        (64, vec!["serve", "--tls-cert", "x"]),
        (64, vec!["serve", "--rate-burst", "0"]),
        (64, vec!["serve", "--trusted-proxy", "x"]),
        (
            64,
            vec!["serve", "--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"],
        ),
        (64, vec!["environment", "create", "a b"]),
        (64, vec!["environment", "list", "--database", "mysql://x"]),
        (64, vec!["credential", "create"]),
        (64, vec!["credential", "create", "--role", "root"]),
        (64, vec!["credential", "create", "--role", "admin", "--expires", "1y"]),
        (64, vec!["environment", "list", "--database", &missing]),
        (64, vec!["environment", "create", "e", "--database", nowhere]),
        (69, vec!["serve", "--database", "postgres://postgres@127.0.0.1:1/x"]),
    ] {
        let output = registry(&args).await;
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        if code != 0 {
            assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output:?}");
        }
    }
    for args in [
        &["environment", "list"][..],
        &["environment", "show", "e"],
        &["environment", "delete", "e"],
        &["credential", "list"],
        &["credential", "revoke", "c"],
    ] {
        let output = registry(&[args, &["--database", &missing]].concat()).await;
        let text = stderr(&output);
        let helps = [
            "there is no such file",
            "--database",
            "DATABASE_URL",
            "registry environment create",
        ];
        assert_eq!(output.status.code(), Some(64), "{text}");
        assert!(helps.iter().all(|help| text.contains(help)), "{text}");
    }
    let output = registry(&["environment", "create", "e", "--database", nowhere]).await;
    assert!(
        stderr(&output).contains("make the folder /dev/null/dir first"),
        "{output:?}"
    );
    assert!(
        !std::path::Path::new(&missing["sqlite://".len()..]).exists(),
        "asking makes no database"
    );
}

#[tokio::test]
async fn the_folder_of_a_new_database_is_made_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("var/lib");
    let database = format!("sqlite://{}", inner.join("r.db").display());
    let listed = registry(&["environment", "list", "--database", &database]).await;
    assert_eq!(listed.status.code(), Some(64), "{listed:?}");
    assert!(!folder.path().join("var").exists(), "asking makes no folder");
    let made = registry(&["environment", "create", "lab", "--database", &database]).await;
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    for made in [folder.path().join("var"), inner] {
        assert_eq!(mode(&made) & 0o777, 0o700, "{}", made.display());
    }
}

#[tokio::test]
async fn what_is_not_there_is_an_error() {
    let database = Database::sqlite();
    database.environment("e").await;
    for args in [
        &["environment", "create", "e"][..],
        &["environment", "show", "none"],
        &["environment", "delete", "none"],
        &["credential", "revoke", "none"],
        &["credential", "create", "--role", "harness", "--environment", "none"],
    ] {
        let output = database.command(args).await;
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    }
    let scoped = database
        .command(&["credential", "create", "--role", "relay", "--environment", "e"])
        .await;
    assert_eq!(scoped.status.code(), Some(64), "{scoped:?}");
}

#[tokio::test]
async fn a_file_of_somebody_else_is_denied() {
    let database = Database::sqlite();
    database.environment("e").await;
    let path = database.url.strip_prefix("sqlite://").unwrap();
    assert_eq!(mode(path.as_ref()), 0o600);
    let binary = env!("CARGO_BIN_EXE_registry");
    let id = Command::new("id").arg("-u").output().await.unwrap();
    if id.stdout != b"0\n" {
        return;
    }
    let dir = std::path::Path::new(path).parent().unwrap();
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            binary,
            "environment",
            "list",
            "--database",
            &database.url,
        ])
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}

#[tokio::test]
async fn passwords_are_never_printed_nor_taken_from_the_command_line() {
    let url = "postgres://user:hunter2@127.0.0.1:1/x";
    for args in [
        &["environment", "list", "--database", url][..],
        &["environment", "list", &format!("--database={url}")],
    ] {
        let output = registry(args).await;
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(!stderr(&output).contains("hunter2"), "{output:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_registry"))
        .args(["environment", "list"])
        .env("DATABASE_URL", url)
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(!stderr(&output).contains("hunter2"), "{output:?}");
    assert!(stderr(&output).contains("postgres://127.0.0.1:1/x"), "{output:?}");
    let help = Command::new(env!("CARGO_BIN_EXE_registry"))
        .args(["serve", "--help"])
        .env("DATABASE_URL", url)
        .output()
        .await
        .unwrap();
    assert!(!String::from_utf8(help.stdout).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_named() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (refusing, silent) = ("127.0.0.1:1".to_owned(), silent.local_addr().unwrap().to_string());
    for (server, why) in [(&refusing, "Connection refused"), (&silent, "no answer within 3s")] {
        let start = std::time::Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_registry"))
            .args(["environment", "list"])
            .env("DATABASE_URL", format!("postgres://user:hunter2@{server}/x"))
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        let text = stderr(&output);
        assert!(
            text.contains(&format!("cannot be reached at {server}: {why}")),
            "{text}"
        );
        assert!(!text.contains("hunter2") && !text.contains("pool"), "{text}");
        if *server == refusing {
            assert!(
                start.elapsed() < Duration::from_secs(3),
                "it waited: {:?}",
                start.elapsed()
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_is_no_postgresql_is_told_as_that() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Whoever asked has gone when it understood.
            let _gone = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let url = format!("postgres://postgres@{address}/x");
    let output = registry(&["environment", "list", "--database", &url]).await;
    assert_eq!(output.status.code(), Some(69));
    let text = stderr(&output);
    let words = format!("{address}: what answers there is no PostgreSQL");
    assert!(text.contains(&words), "{text}");
}

#[tokio::test]
async fn the_first_administrator_needs_no_other() {
    let database = Database::sqlite();
    let output = database.command(&["credential", "create", "--role", "admin"]).await;
    let token = String::from_utf8(output.stdout).unwrap();
    assert!(
        token.starts_with("rdv_") && token.ends_with('\n') && token.len() == 48,
        "{token:?}"
    );
    assert!(output.stderr.is_empty());
    let registry = Registry::start(&database, &[]).await;
    assert_eq!(
        registry.call(token.trim(), "GET", "/v1/environments", "").await.status,
        200
    );
    let file = std::fs::read(database.url.strip_prefix("sqlite://").unwrap()).unwrap();
    let found = file.windows(43).any(|window| window == &token.as_bytes()[4..47]);
    assert!(!found, "the token itself is stored nowhere");
}

#[tokio::test]
async fn lists_are_tables_or_json() {
    let database = Database::sqlite();
    database
        .run(&["environment", "create", "e", "--name", "Build machine"])
        .await;
    let (_, id) = database
        .credential(&["executor", "--environment", "e", "--expires", "30d", "--name", "ci"])
        .await;
    let table = database.run(&["environment", "list"]).await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("ID") && lines[1].starts_with("e ") && lines[1].ends_with("Build machine"),
        "{table}"
    );
    let table = database.run(&["credential", "list"]).await;
    assert!(
        table.contains(&id) && table.contains("executor") && table.contains("until 2"),
        "{table}"
    );
    let json: Value = serde_json::from_str(&database.run(&["credential", "list", "--json"]).await).unwrap();
    assert_eq!((&json[0]["environment"], &json[0]["name"]), (&"e".into(), &"ci".into()));
    let json: Value = serde_json::from_str(&database.run(&["environment", "show", "e", "--json"]).await).unwrap();
    assert_eq!(json["name"], "Build machine");
    database.run(&["credential", "revoke", &id]).await;
    assert!(database.run(&["credential", "list"]).await.contains("revoked 2"));
}

#[tokio::test]
async fn health_and_metrics_have_their_own_listener() {
    let database = Database::sqlite();
    let mut starting = Starting::new(&database, &["--admin-listen", "127.0.0.1:0", "--embedded-relay"]);
    let operators = starting.admin().await;
    let registry = starting.listening().await;
    let get = async |path: &str| http::send(operators, "GET", path, &[], "").await;
    assert_eq!(get("/healthz").await.status, 200);
    assert_eq!(get("/readyz").await.status, 200);
    registry.call("x", "GET", "/v1/environments", "").await;
    let metrics = get("/metrics").await.body;
    assert!(
        metrics.contains(r#"rendezvous_registry_requests_total{route="/v1/environments",status="401"} 1"#),
        "{metrics}"
    );
    assert_eq!(http::send(registry.addr, "GET", "/metrics", &[], "").await.status, 404);
    assert_eq!(registry.stop().await, Some(0));
}
