//! What a login shell makes of its start-up files, kept so that later shells need not run them again.
//!
//! A shell runs its start-up files once and then prints what they left: its environment, functions, options and aliases.
//! A later command gets the environment at its start, and the rest as text that its shell evaluates first. Where anything
//! goes wrong, the command runs as it was asked for, start-up files and all.

mod script;

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::process::{Budget, Lookup, Outlet, Processes, ReadRequest, Spec, Stdio, Stream};

pub use self::script::Kind;
use self::script::{Captured, END, VARIABLE};

/// Snapshots of one set; the oldest goes first.
pub const MAX_SNAPSHOTS: usize = 16;
/// Largest snapshot, environment included.
pub const MAX_SNAPSHOT: usize = 512 * 1024;
/// Bytes of all snapshots that share a [`SnapshotBudget`].
pub const MAX_TOTAL: usize = 64 * 1024 * 1024;
/// How long start-up files may take.
pub const CAPTURE_TIMEOUT: Duration = Duration::from_secs(10);
/// Variables that a shell sets because it is started.
const OF_THE_START: [&str; 4] = ["_", "SHLVL", "PWD", "OLDPWD"];
/// Longest piece of text in one variable; the kernel takes 128 KiB.
const MAX_PIECE: usize = 96 * 1024;

/// The memory that all sets of snapshots may use together.
#[derive(Clone, Debug)]
pub struct SnapshotBudget(Arc<Semaphore>);

impl Default for SnapshotBudget {
    fn default() -> Self {
        Self::new(MAX_TOTAL)
    }
}

impl SnapshotBudget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }
}

/// The snapshots of one client, by a text that says what they depend on.
#[derive(Debug)]
pub struct Snapshots {
    processes: Arc<Budget>,
    memory: SnapshotBudget,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<String, Arc<OnceCell<Option<Snapshot>>>>,
    /// Oldest first.
    order: VecDeque<String>,
}

/// What start-up files left.
#[derive(Debug)]
pub struct Snapshot {
    kind: Kind,
    environment: Vec<(OsString, OsString)>,
    /// Functions, options and aliases, as the shell reads them.
    state: Vec<u8>,
    _memory: OwnedSemaphorePermit,
}

/// A snapshot that may be of no use.
#[derive(Clone, Debug)]
pub struct Kept(Arc<OnceCell<Option<Snapshot>>>);

impl Kept {
    /// The snapshot, if there is one.
    pub fn get(&self) -> Option<&Snapshot> {
        self.0.get()?.as_ref()
    }
}

impl Snapshots {
    /// An empty set. Shells that run start-up files count among the processes of `processes`.
    pub fn new(processes: Arc<Budget>, memory: SnapshotBudget) -> Self {
        Self {
            processes,
            memory,
            table: Mutex::default(),
        }
    }

    /// The snapshot under `key`. If there is none, lets `shell` run its start-up files with `base`'s environment and
    /// directory; callers that come meanwhile wait for the same one. That it failed is kept too.
    pub async fn get(&self, key: String, kind: Kind, shell: &OsStr, base: &Spec) -> Kept {
        let cell = self.place(key);
        cell.get_or_init(|| self.capture(kind, shell, base)).await;
        Kept(cell)
    }

    fn place(&self, key: String) -> Arc<OnceCell<Option<Snapshot>>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = table.by_key.get(&key) {
            return Arc::clone(cell);
        }
        if table.order.len() >= MAX_SNAPSHOTS
            && let Some(oldest) = table.order.pop_front()
        {
            table.by_key.remove(&oldest);
        }
        let cell = Arc::new(OnceCell::new());
        table.by_key.insert(key.clone(), Arc::clone(&cell));
        table.order.push_back(key);
        cell
    }

    async fn capture(&self, kind: Kind, shell: &OsStr, base: &Spec) -> Option<Snapshot> {
        let spec = Spec {
            argv: vec![shell.to_owned(), "-lc".into(), kind.capture().into()],
            arg0: None,
            cwd: base.cwd.clone(),
            env: base.env.clone(),
            stdio: Stdio::Pipes { stdin: false },
            jail: base.jail.clone(),
        };
        let output = self.run(spec).await?;
        let Captured { environment, state } = Captured::parse(&output)?;
        let size: usize = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = u32::try_from(size + state.len()).ok()?;
        let memory = Arc::clone(&self.memory.0).try_acquire_many_owned(size).ok()?;
        Some(Snapshot {
            kind,
            environment,
            state,
            _memory: memory,
        })
    }

    /// What a program writes up to the mark of its end, within bounds. Whatever it leaves running is killed.
    async fn run(&self, spec: Spec) -> Option<Vec<u8>> {
        const ID: &str = "snapshot";
        let deadline = Instant::now() + CAPTURE_TIMEOUT;
        let processes = Processes::new(Outlet::default(), Arc::clone(&self.processes));
        processes.start(ID, spec).await.ok()?;
        let Lookup::Started(process) = processes.get(ID) else {
            return None;
        };
        let (mut output, mut after) = (Vec::new(), 0);
        loop {
            let request = ReadRequest {
                after,
                tail: None,
                max_bytes: None,
                wait: CAPTURE_TIMEOUT,
            };
            let page = timeout_at(deadline, process.read(request)).await.ok()?;
            after = page.next_seq - 1;
            for chunk in &page.chunks {
                if chunk.stream == Stream::Stdout {
                    output.extend_from_slice(&chunk.data);
                }
            }
            if output.len() > MAX_SNAPSHOT {
                return None;
            }
            if output.ends_with(END.as_bytes()) {
                return Some(output);
            }
            if page.closed {
                return None;
            }
        }
    }
}

impl Snapshot {
    /// Changes a command that would run start-up files, `SHELL -lc TEXT …`, into one that begins with what they left.
    /// The variables with the names of `overlay` are what the command's environment has, not what the files left.
    pub fn apply(&self, spec: &mut Spec, overlay: &[OsString]) {
        let Some(text) = spec.argv.get(2).cloned() else { return };
        let mut environment: HashMap<OsString, OsString> = self.environment.iter().cloned().collect();
        // These follow from how a shell is started, not from its files.
        for name in OF_THE_START {
            environment.remove(OsStr::new(name));
        }
        let is_own = |name: &OsString| overlay.contains(name) || OF_THE_START.iter().any(|own| name == own);
        environment.extend(spec.env.drain(..).filter(|(name, _)| is_own(name)));
        let mut names = Vec::new();
        for (number, piece) in self.state.chunks(MAX_PIECE).enumerate() {
            let name = format!("{VARIABLE}{number}");
            environment.insert(name.clone().into(), OsString::from_vec(piece.to_vec()));
            names.push(name);
        }
        let mut command = self.kind.restore(&names).into_bytes();
        command.extend_from_slice(text.as_bytes());
        spec.argv[1] = self.kind.flags().into();
        spec.argv[2] = OsString::from_vec(command);
        spec.env = environment.into_iter().collect();
        spec.env.sort_unstable();
    }
}
