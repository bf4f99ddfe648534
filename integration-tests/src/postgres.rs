//! A PostgreSQL server of the test's own, on loopback, gone with the test.

use std::path::PathBuf;
use std::process::Command as Tool;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

/// The user that runs the server: `initdb` refuses root.
const USER: &str = "postgres";

/// A running server with one superuser `postgres` that needs no password from loopback.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    data: TempDir,
    port: u16,
}

impl Postgres {
    /// Makes a cluster and starts its server.
    ///
    /// # Errors
    ///
    /// PostgreSQL is not installed, or does not start.
    pub async fn start() -> Result<Self> {
        let started = tokio::task::spawn_blocking(Self::start_blocking);
        started.await?
    }

    fn start_blocking() -> Result<Self> {
        let programs = programs()?;
        let data = tempfile::Builder::new().prefix("rendezvous-postgres-").tempdir()?;
        let mut postgres = Self {
            programs,
            data,
            port: 0,
        };
        let owner = format!("{USER}:");
        run(Tool::new("chown").arg(owner).arg(postgres.data.path()))?;
        postgres.run(
            "initdb",
            &["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"],
        )?;
        // The server can't choose a free port itself; a port that was free a moment ago may be lost to somebody else.
        for _ in 0..5 {
            postgres.port = free_port()?;
            let options = format!(
                "-c port={} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=50",
                postgres.port
            );
            let log = postgres.data.path().join("log");
            let log = log.to_str().context("path is UTF-8")?;
            if postgres
                .run("pg_ctl", &["start", "-w", "-t", "30", "-l", log, "-o", &options, "-D"])
                .is_ok()
            {
                return Ok(postgres);
            }
        }
        let log = std::fs::read_to_string(postgres.data.path().join("log")).unwrap_or_default();
        bail!("PostgreSQL does not start: {log}")
    }

    /// The URL of the database `postgres`.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs one of PostgreSQL's programs as its user; the data folder is the last argument.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        run(Tool::new("runuser")
            .args(["-u", USER, "--"])
            .arg(self.programs.join(program))
            .args(arguments)
            .arg(self.data.path())
            .current_dir("/"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.run("pg_ctl", &["stop", "-m", "immediate", "-D"]);
    }
}

/// The folder of the newest installed version's programs.
fn programs() -> Result<PathBuf> {
    let missing = "PostgreSQL is missing: apt-get install -y postgresql";
    let versions = std::fs::read_dir("/usr/lib/postgresql").context(missing)?;
    let mut folders: Vec<PathBuf> = versions
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").is_file())
        .collect();
    folders.sort();
    folders.pop().context(missing)
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn run(tool: &mut Tool) -> Result<()> {
    // pg_ctl's server inherits its streams: a pipe would never end.
    let log = tempfile::tempfile()?;
    let status = tool
        .stdin(std::process::Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .with_context(|| format!("{tool:?}"))?;
    if !status.success() {
        bail!("{tool:?}: {status}");
    }
    Ok(())
}
