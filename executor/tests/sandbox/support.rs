//! What the tests share.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rendezvous_host::process::{Budget, Lookup, Outlet, Page, Process, Processes, ReadRequest, Spec, Stdio, Stream};
use rendezvous_host::proxy::Attached;
use rendezvous_host::sandbox::{Access, Entry, FileAccess, Intent, Network, Place, Policy, Profile, Sandbox, Tools};

/// Longest wait for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Names another copy of the executor.
pub(crate) const HELPER_VARIABLE: &str = "SANDBOX_TEST_HELPER";

/// Names the folder for the folders of worlds.
pub(crate) const FOLDER_VARIABLE: &str = "SANDBOX_TEST_FOLDER";

/// The executor that was built with these tests.
pub(crate) fn helper() -> PathBuf {
    std::env::var_os(HELPER_VARIABLE).map_or_else(|| env!("CARGO_BIN_EXE_executor").into(), PathBuf::from)
}

/// Sandboxes of the executor that was built with these tests.
pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(Tools {
        helper: helper(),
        ..Tools::find()
    })
}

/// A folder to work in, another one that is out of bounds, and processes.
pub(crate) struct World {
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) sandbox: Sandbox,
    pub(crate) processes: Processes,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        // Not below /tmp, which some profiles let be written.
        let parent = std::env::var_os(FOLDER_VARIABLE).unwrap_or_else(|| "/var/tmp".into());
        let folder = tempfile::tempdir_in(parent).expect("a folder");
        let base = folder.path().canonicalize().expect("real");
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o755)).expect("permitted");
        let (inside, outside) = (base.join("inside"), base.join("outside"));
        for path in [&inside, &outside] {
            std::fs::create_dir(path).expect("made");
        }
        Self {
            inside,
            outside,
            sandbox: sandbox(),
            processes: Processes::new(Outlet::default(), Arc::new(Budget::default())),
            _folder: folder,
        }
    }

    /// What stock harnesses send for `workspace-write`.
    pub(crate) fn workspace_write(&self) -> Intent {
        self.intent(&[
            (Place::Root, Access::Read),
            (Place::ProjectRoots(None), Access::Write),
            (Place::ProjectRoots(Some(".git".into())), Access::Read),
            (Place::ProjectRoots(Some(".agents".into())), Access::Read),
            (Place::ProjectRoots(Some(".codex".into())), Access::Read),
        ])
    }

    pub(crate) fn intent(&self, entries: &[(Place, Access)]) -> Intent {
        let entries = entries.iter().cloned().map(|(place, access)| Entry {
            place,
            access,
            skip_missing: false,
        });
        Intent {
            profile: Profile::Managed {
                files: FileAccess::Restricted {
                    entries: entries.collect(),
                    glob_depth: None,
                },
                network: Network::Restricted,
            },
            cwd: Some(self.inside.clone()),
            roots: vec![self.inside.clone()],
            temporary: Vec::new(),
        }
    }

    /// A program that starts in the inside folder, with an empty input.
    pub(crate) fn spec(&self, argv: &[&str]) -> Spec {
        Spec {
            argv: argv.iter().map(Into::into).collect(),
            arg0: None,
            cwd: self.inside.clone(),
            env: vec![("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into())],
            stdio: Stdio::Pipes { stdin: false },
            jail: None,
        }
    }

    pub(crate) async fn confine(&self, spec: Spec, intent: &Intent) -> Spec {
        let policy = Policy::resolve(intent).expect("a policy");
        let jail = self.sandbox.jail(policy).await.expect("a sandbox");
        Spec { jail, ..spec }
    }

    /// As [`World::confine`], with a network of its own.
    pub(crate) async fn confine_managed(&self, spec: Spec, intent: &Intent) -> Spec {
        let policy = Policy::resolve(intent).expect("a policy").managed();
        let jail = self.sandbox.jail(policy).await.expect("a sandbox");
        Spec { jail, ..spec }
    }

    /// Runs a shell script in a sandbox to its end.
    pub(crate) async fn run(&self, intent: &Intent, script: &str) -> Outcome {
        let spec = self.confine(self.spec(&["/bin/sh", "-c", script]), intent).await;
        self.finish(spec).await
    }

    pub(crate) async fn start(&self, spec: Spec) -> Process {
        self.start_with(spec, None).await
    }

    pub(crate) async fn start_with(&self, spec: Spec, proxy: Option<Attached>) -> Process {
        let id = format!("p{}", self.processes.len());
        let started = self.processes.start_with(id.as_str(), spec, proxy).await;
        started.expect("a start");
        match self.processes.get(&id) {
            Lookup::Started(process) => process,
            other => panic!("{id} is {other:?}"),
        }
    }

    pub(crate) async fn finish(&self, spec: Spec) -> Outcome {
        end(&self.start(spec).await).await
    }

    pub(crate) async fn finish_with(&self, spec: Spec, proxy: Option<Attached>) -> Outcome {
        end(&self.start_with(spec, proxy).await).await
    }
}

/// Waits for the end of a process.
pub(crate) async fn end(process: &Process) -> Outcome {
    let page = wait(process, |page| page.closed).await;
    let mut outcome = Outcome {
        code: page.exit_code.expect("an exit code"),
        denied: page.denied.expect("a verdict"),
        out: String::new(),
        err: String::new(),
    };
    for chunk in page.chunks {
        let text = String::from_utf8_lossy(&chunk.data);
        match chunk.stream {
            Stream::Stderr => outcome.err.push_str(&text),
            Stream::Stdout | Stream::Pty => outcome.out.push_str(&text),
        }
    }
    outcome
}

/// Waits until all that a process wrote and did so far satisfies `is_enough`.
pub(crate) async fn wait(process: &Process, is_enough: impl Fn(&Page) -> bool) -> Page {
    let waiting = async {
        let mut seen = 0;
        loop {
            let page = process.read(ReadRequest::default()).await;
            if is_enough(&page) {
                return page;
            }
            let news = ReadRequest {
                after: page.next_seq - 1,
                wait: PATIENCE,
                ..ReadRequest::default()
            };
            assert!(!page.closed, "the process ended too early: {page:?}");
            seen = seen.max(process.read(news).await.next_seq);
        }
    };
    match tokio::time::timeout(PATIENCE, waiting).await {
        Ok(page) => page,
        Err(_late) => panic!("not in time: {}", text(&process.read(ReadRequest::default()).await)),
    }
}

/// The text of a page.
pub(crate) fn text(page: &Page) -> String {
    page.chunks
        .iter()
        .map(|chunk| String::from_utf8_lossy(&chunk.data).into_owned())
        .collect()
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) denied: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Names of what is in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
