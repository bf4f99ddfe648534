//! The real binary.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;

use rendezvous_wire::key::PublicKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use super::http::{self, Answer};
use super::{SOON, postgres};

/// Where a registry keeps its rows; lives as long as the last user.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    _dir: Option<Arc<TempDir>>,
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        let dir = TempDir::new().unwrap();
        Self {
            url: format!("sqlite://{}", dir.path().join("registry.db").display()),
            _dir: Some(Arc::new(dir)),
        }
    }

    pub(crate) fn postgres() -> Self {
        Self {
            url: postgres::database(),
            _dir: None,
        }
    }

    /// Runs a management command.
    pub(crate) async fn command(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_registry"))
            .args(args)
            .args(["--database", &self.url])
            .output()
            .await
            .unwrap()
    }

    /// Runs a management command that must succeed; returns its output without the last line feed.
    pub(crate) async fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) async fn environment(&self, id: &str) {
        self.run(&["environment", "create", id]).await;
    }

    /// A new credential for everything.
    pub(crate) async fn token(&self, role: &str) -> String {
        self.run(&["credential", "create", "--role", role]).await
    }

    /// A new credential: its token and its id.
    pub(crate) async fn credential(&self, args: &[&str]) -> (String, String) {
        let args = [&["credential", "create", "--json", "--role"], args].concat();
        let json: Value = serde_json::from_str(&self.run(&args).await).unwrap();
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        (text("token"), text("id"))
    }
}

/// A `registry serve` that has not said yet where it listens, killed when dropped.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) database: Database,
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Starting {
    pub(crate) fn new(database: &Database, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_registry"))
            .args(["serve", "--listen", "127.0.0.1:0", "--database", &database.url])
            .args(args)
            .env("RENDEZVOUS_LOG", "warn,rendezvous_service::admin=info")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            database: database.clone(),
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            stderr: BufReader::new(child.stderr.take().unwrap()).lines(),
            child,
        }
    }

    /// Where `--admin-listen` listens.
    pub(crate) async fn admin(&mut self) -> SocketAddr {
        let address = async {
            loop {
                let line = self.stderr.next_line().await.unwrap();
                let line = line.expect("a line that tells the address");
                if let Some((_, address)) = line.split_once("serving health and metrics address=") {
                    return address.parse().unwrap();
                }
            }
        };
        timeout(SOON, address).await.expect("the address in time")
    }

    /// The next line of stdout. Cancel-safe.
    pub(crate) async fn line(&mut self) -> String {
        self.stdout.next_line().await.unwrap().expect("a line")
    }

    pub(crate) async fn listening(mut self) -> Registry {
        let line = timeout(SOON, self.line()).await.unwrap();
        let url = line.strip_prefix("registry listening on ").expect(&line);
        // The log goes where the test's own output goes.
        let mut log = self.stderr.into_inner();
        tokio::spawn(async move { tokio::io::copy(&mut log, &mut tokio::io::stderr()).await });
        Registry {
            addr: url.rsplit_once("//").unwrap().1.parse().unwrap(),
            database: self.database,
            child: self.child,
        }
    }
}

/// A running `registry serve`, killed when dropped.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) addr: SocketAddr,
    pub(crate) database: Database,
    child: Child,
}

impl Registry {
    pub(crate) async fn start(database: &Database, args: &[&str]) -> Self {
        Starting::new(database, args).listening().await
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM, and the exit code.
    pub(crate) async fn stop(self) -> Option<i32> {
        self.terminate().await;
        self.ended().await
    }

    /// SIGTERM.
    pub(crate) async fn terminate(&self) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").arg(pid).status().await.unwrap().success());
    }

    /// The exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        timeout(SOON, self.child.wait()).await.unwrap().unwrap().code()
    }

    pub(crate) async fn call(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let headers = [format!("authorization: Bearer {token}")];
        http::send(self.addr, method, path, &headers, body).await
    }

    pub(crate) async fn register(&self, token: &str, environment: &str, key: &PublicKey) -> Answer {
        let body = json!({"security_profile": "noise_hybrid_ik_v1", "executor_public_key": key}).to_string();
        let path = format!("/cloud/environment/{environment}/register");
        self.call(token, "POST", &path, &body).await
    }

    pub(crate) async fn connect(&self, token: &str, environment: &str, key: &PublicKey) -> Answer {
        let body = json!({"harness_public_key": key}).to_string();
        let path = format!("/cloud/environment/{environment}/connect");
        self.call(token, "POST", &path, &body).await
    }

    /// `stream` is the header's value; `None` leaves the header out.
    pub(crate) async fn validate(&self, token: &str, environment: &str, body: &Value, stream: Option<&str>) -> Answer {
        let mut headers = vec![format!("authorization: Bearer {token}")];
        headers.extend(stream.map(|stream| format!("x-codex-noise-stream-id: {stream}")));
        let path = format!("/cloud/environment/{environment}/validate");
        http::send(self.addr, "POST", &path, &headers, &body.to_string()).await
    }
}

/// A file that only its owner may read.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
