//! A PostgreSQL server of the test's own, and a fresh database in it for whoever asks.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static SERVER: OnceLock<Server> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

struct Server {
    bin: PathBuf,
    port: u16,
    /// Stops the server when its standard input closes, that is when this process ends, however it ends.
    _guardian: Child,
}

/// The URL of a new, empty database.
pub(crate) fn database() -> String {
    let server = SERVER.get_or_init(start);
    let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let created = server.client("createdb").arg(&name).status().unwrap();
    assert!(created.success(), "createdb failed");
    format!("postgres://postgres@127.0.0.1:{}/{name}", server.port)
}

impl Server {
    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        command.stdout(Stdio::null());
        command
    }
}

/// The newest installed version's programs.
fn binaries() -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path().join("bin"))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found
        .pop()
        .expect("PostgreSQL is missing; install it with: apt-get install postgresql")
}

/// PostgreSQL refuses to run as root.
fn unprivileged(script: &str) -> Command {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = if root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    command.current_dir("/").args(["-c", script]);
    command
}

fn start() -> Server {
    let bin = binaries();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = format!(
        "set -e
        dir=$(mktemp -d /tmp/rendezvous-postgres.XXXXXX)
        {bin}/initdb -D $dir -A trust -U postgres -N >/dev/null
        {bin}/postgres -D $dir -p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= >$dir/log 2>&1 &
        server=$!
        cat >/dev/null || true
        kill -INT $server
        wait $server || true
        rm -rf $dir",
        bin = bin.display()
    );
    let guardian = unprivileged(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server {
        bin,
        port,
        _guardian: guardian,
    };
    let begun = Instant::now();
    while !server.client("pg_isready").status().unwrap().success() {
        assert!(begun.elapsed() < Duration::from_secs(60), "PostgreSQL did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}
