//! A PostgreSQL server of the test's own, and a fresh database in it for whoever asks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
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

/// Keeps everybody else from a table while it lives.
pub(crate) struct Lock(Child);

impl Lock {
    pub(crate) fn table(url: &str, table: &str) -> Self {
        let server = SERVER.get().expect("a server");
        let mut client = Command::new(server.bin.join("psql"))
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let script = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;\n\\echo locked\n");
        client.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(client.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Self(client)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The client ends at the end of its input, and with it the transaction.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
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
    let script = format!(
        "dir=$(mktemp -d /tmp/rendezvous-postgres.XXXXXX) && {}/initdb -D $dir -A trust -U postgres -N >&2 && echo $dir",
        bin.display()
    );
    let made = unprivileged(&script).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let dir = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim_end());
    // The server cannot choose a free port itself; one that was free a moment ago may be lost to somebody else.
    let mut last = String::new();
    for _ in 0..5 {
        match serve(&bin, &dir) {
            ControlFlow::Break(server) => return server,
            ControlFlow::Continue(log) => last = log,
        }
    }
    panic!("PostgreSQL did not start: {last}");
}

/// A server on the folder, or its log when it could not have its port.
fn serve(bin: &Path, dir: &Path) -> ControlFlow<Server, String> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (log, again) = (dir.join("log"), dir.join("again"));
    let script = format!(
        "{bin}/postgres -D {dir} -p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= >{dir}/log 2>&1 &
        server=$!
        cat >/dev/null || true
        kill -INT $server
        wait $server || true
        [ -e {dir}/again ] || rm -rf {dir}",
        bin = bin.display(),
        dir = dir.display()
    );
    let mut guardian = unprivileged(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let holds = |file: &Path, word: &str| std::fs::read_to_string(file).is_ok_and(|text| text.contains(word));
    // Its own word: whoever answers at the port may be another one.
    while !holds(&dir.join("postmaster.pid"), "ready") {
        assert!(begun.elapsed() < Duration::from_secs(120), "PostgreSQL did not start");
        if holds(&log, "FATAL") {
            std::fs::write(&again, "").unwrap();
            drop(guardian.stdin.take());
            guardian.wait().unwrap();
            std::fs::remove_file(&again).unwrap();
            let text = std::fs::read_to_string(&log).unwrap();
            std::fs::remove_file(&log).unwrap();
            return ControlFlow::Continue(text);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ControlFlow::Break(Server {
        bin: bin.to_owned(),
        port,
        _guardian: guardian,
    })
}
