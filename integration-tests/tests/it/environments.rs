//! Environments on the harness's side: every way to an executor, and this machine, behind the same traits.

mod command_line;
mod exercise;
mod file;
mod interrupted;
mod sharing;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rendezvous_harness::endpoint::{Endpoint, Listener, Program};
use rendezvous_harness::environments::{Environments, LOCAL, REMOTE, Settings, Status};
use rendezvous_harness::{Environment, LinkState, ManagedNetwork, PathUri, ProcessEvent, ProcessSpec};
use rendezvous_integration_tests::executor::{self, End, HOST_NAME, MARK};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::{Context, binaries};
use rendezvous_wire::secret::Secret;

use self::exercise::exercise;
use crate::runner::{Case, When};

const ENDS: [End; 3] = [End::Ours, End::Stock(Version::V0_145), End::Stock(Version::V0_171)];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("environments::local", When::Always, this_machine),
        Case::new("environments::relay", When::Always, through_a_relay),
    ];
    for end in ENDS {
        let name = end.name();
        cases.push(Case::new(
            format!("environments::{name}::listener"),
            When::Always,
            move |cx| at_a_listener(cx, end),
        ));
        cases.push(Case::new(
            format!("environments::{name}::program"),
            When::Always,
            move |cx| over_a_program(cx, end),
        ));
    }
    cases.extend(sharing::cases());
    cases.extend(command_line::cases());
    cases.extend(file::cases());
    cases.extend(interrupted::cases());
    cases
}

async fn this_machine(cx: Context) -> Result<()> {
    let environments = Environments::load(&Settings::default())?;
    ensure!(environments.ids() == [LOCAL] && !environments.is_default_chosen());
    let local = environments.default_environment()?;
    ensure!(local.is_local() && local.harness().await?.is_none());
    ensure!(matches!(local.status().await, Status::Ready));
    exercise(&local, &cx.subfolder("work")?).await?;
    let spec = ProcessSpec::new(["/nowhere/program"]);
    let error = local.exec().start(spec).await.err().context("it was started")?;
    ensure!(error.to_string() == "No such file or directory (os error 2)", "{error}");
    // What it cannot keep a process from is no reason to start it without.
    let mark = cx.folder().join("started");
    let mut spec = ProcessSpec::new(["touch", &mark.to_string_lossy()]);
    spec.network = Some(ManagedNetwork::new());
    let error = local.exec().start(spec).await.err().context("it was started")?;
    let text = "managed networks are not supported in the local environment";
    ensure!(
        error.is_refused() && !error.is_retryable() && error.to_string() == text,
        "{error}"
    );
    ensure!(!mark.exists());
    Ok(())
}

async fn at_a_listener(cx: Context, end: End) -> Result<()> {
    let (workspace, content) = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    let (_server, url) = executor::listen(&cx, end, &workspace, &content).await?;
    let settings = Settings {
        exec_server_url: Some(Secret::new(url)),
        ..Settings::default()
    };
    let environments = Environments::load(&settings)?;
    let remote = environments.get(REMOTE)?;
    ensure!(matches!(environments.status(REMOTE).await?, Status::Unused));
    exercise(&remote, &workspace).await?;
    ensure!(matches!(environments.status(REMOTE).await?, Status::Ready));
    ensure!(environments.info(REMOTE).await? == remote.info().await?);
    is_far(&remote).await?;
    ensure!(std::fs::read_dir(&workspace)?.next().is_none(), "it happened here");
    Ok(())
}

async fn through_a_relay(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    let access = site.access();
    let settings = Settings {
        registry_url: Some(access.registry),
        environment_id: Some(access.environment),
        token: Some(Secret::new(access.token)),
        ..Settings::default()
    };
    let remote = Environments::load(&settings)?.default_environment()?;
    ensure!(remote.id() == REMOTE);
    exercise(&remote, &site.workspace).await?;
    is_far(&remote).await?;
    site.near_is_untouched()
}

/// Its processes run on the executor's machine.
async fn is_far(environment: &Environment) -> Result<()> {
    let output = output(environment, &["sh", "-c", &format!("hostname; echo ${}", MARK.0)]).await?;
    ensure!(output == format!("{HOST_NAME}\n{}\n", MARK.1), "{output}");
    Ok(())
}

async fn over_a_program(cx: Context, end: End) -> Result<()> {
    let folder = cx.subfolder("work")?;
    let remote = Environment::remote("program", stdio_server(&cx, end, &folder)?);
    exercise(&remote, &folder).await?;
    let told = output(&remote, &["sh", "-c", &format!("pwd; echo ${}", MARK.0)]).await?;
    ensure!(told == format!("{}\n{}\n", folder.display(), MARK.1), "{told}");
    // Its end is the end, even for what would work with another one.
    let server = output(&remote, &["sh", "-c", "echo $PPID"]).await?;
    let server = nix::unistd::Pid::from_raw(server.trim().parse()?);
    let session = remote.harness().await?.context("a session")?;
    nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGKILL)?;
    let mut state = session.link_state();
    state.wait_for(|state| matches!(state, LinkState::Failed(_))).await?;
    for _ in 0..2 {
        let error = output(&remote, &["true"])
            .await
            .err()
            .context("another one was started")?;
        let error = format!("{error:#}");
        ensure!(error.contains("has ended (signal: 9 (SIGKILL))"), "{error}");
    }
    ensure!(matches!(remote.status().await, Status::Failed(_)));
    Ok(())
}

/// An exec-server on stdin and stdout, which works in `folder` and has the mark.
fn stdio_server(cx: &Context, end: End, folder: &Path) -> Result<Endpoint> {
    let home = cx.subfolder("server-home")?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut program = match end {
        End::Ours => Program::new(text(&binaries::ours("executor")?), ["--listen", "stdio"]),
        End::Stock(version) => Program::new(text(&version.binary()?), ["exec-server", "--listen", "stdio"]),
    };
    program.env = BTreeMap::from([
        ("HOME".to_owned(), text(&home)),
        ("CODEX_HOME".to_owned(), text(&home)),
        (MARK.0.to_owned(), MARK.1.to_owned()),
    ]);
    program.cwd = Some(folder.to_owned());
    Ok(program.into())
}

/// A listener, lazily reached.
fn listener(url: &str) -> Environment {
    Environment::remote("listener", Listener::new(url))
}

/// What a command prints to stdout; it must succeed.
async fn output(environment: &Environment, argv: &[&str]) -> Result<String> {
    let mut process = environment.exec().start(ProcessSpec::new(argv.iter().copied())).await?;
    let (mut output, mut code) = (Vec::new(), None);
    while let Some(event) = process.next().await? {
        match event {
            ProcessEvent::Output { bytes, .. } => output.extend_from_slice(&bytes),
            ProcessEvent::Exited { code: exit, .. } => code = Some(exit),
            ProcessEvent::Dropped { .. } | ProcessEvent::Closed => {}
        }
    }
    ensure!(code == Some(0), "{argv:?} ended with {code:?}");
    Ok(String::from_utf8(output)?)
}

fn uri(path: &Path) -> Result<PathUri> {
    Ok(PathUri::from_path(path)?)
}
