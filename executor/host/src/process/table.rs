//! The processes of one session, by the ids that its client chose.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::drive::{Driver, Process, push_rest};
use super::outlet::Outlet;
use super::spawn::{self, Spawned};
use super::spool::{SessionSpool, Spool};
use super::{Admission, Budget, CLOSED_RETENTION, MAX_CLOSED, MAX_CLOSED_PERIODS, MAX_PROCESSES, Spec};
use crate::proxy::Attached;
use crate::sandbox::SandboxError;

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The id is in use: by a process that is starting, running, or was closed a short while ago.
    #[error("process {0} already exists")]
    AlreadyExists(Arc<str>),
    /// It was terminated while it started.
    #[error("process {0} start was cancelled")]
    Cancelled(Arc<str>),
    /// A limit on processes is reached.
    #[error("too many processes")]
    TooMany,
    /// Its sandbox did not come up.
    #[error("{0}")]
    Sandbox(#[from] SandboxError),
    /// The operating system refused.
    #[error("{0}")]
    Spawn(#[from] io::Error),
}

impl StartError {
    /// Whether the same start may succeed later without a change.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TooMany => true,
            Self::Sandbox(error) => error.is_retryable(),
            Self::AlreadyExists(_) | Self::Cancelled(_) | Self::Spawn(_) => false,
        }
    }
}

/// What is known under an id.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// Nothing, or nothing any more.
    Unknown,
    /// A process that is starting.
    Starting,
    /// A process, perhaps closed.
    Started(Process),
}

/// The processes of one session. Dropped, it kills them all.
#[derive(Debug)]
pub struct Processes {
    table: Arc<Table>,
}

#[derive(Debug)]
struct Table {
    budget: Arc<Budget>,
    outlet: Outlet,
    has_window: Arc<AtomicBool>,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_id: HashMap<Arc<str>, Slot>,
    /// Closed ones, oldest first.
    closed: VecDeque<(Arc<str>, u64)>,
    /// Where output goes once it is kept; then every process has its place there.
    kept: Option<SessionSpool>,
    last_instance: u64,
    is_shut: bool,
}

#[derive(Debug)]
struct Slot {
    /// Tells a process from an earlier one with the same id.
    instance: u64,
    process: Option<Process>,
    _admission: Admission,
}

/// A process that is not in its table yet.
struct Started {
    process: Process,
    driver: Driver,
    /// For its output on disk.
    place: Option<Spool>,
}

impl Processes {
    /// An empty table whose processes push to `outlet` and share `budget` with other tables.
    pub fn new(outlet: Outlet, budget: Arc<Budget>) -> Self {
        Self {
            table: Arc::new(Table {
                budget,
                outlet,
                has_window: Arc::default(),
                slots: Mutex::default(),
            }),
        }
    }

    /// Whether the reader says how far it has come, by [`Process::consume`]. Then nothing that it has not taken is
    /// dropped, and a program is held up when [`super::WINDOW_BYTES`] or [`super::WINDOW_CHUNKS`] wait, whether anybody
    /// listens or not. At first it does not.
    pub fn set_window(&self, has_window: bool) {
        if self.table.has_window.swap(has_window, Ordering::Relaxed) != has_window {
            self.look_again();
        }
    }

    /// Somebody was attached to the outlet or detached from it, which matters to programs whose output is kept.
    pub fn look_again(&self) {
        for process in self.table.slots().processes() {
            process.look_again();
        }
    }

    /// A new reader is there, which has taken nothing yet of what is kept.
    pub fn read_anew(&self) {
        for process in self.table.slots().processes() {
            process.read_anew();
        }
    }

    /// Keeps output on disk from now on, also that of processes which run already, beginning with what of it is retained; and
    /// keeps closed processes until the table is shut. Nobody who is not attached holds up a program then: the oldest output
    /// goes when there is no room. Whoever is attached, and says how far it has come, holds it up before that. Once it has
    /// succeeded, further calls change nothing.
    ///
    /// Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// When the directory takes no file; then nothing is kept.
    pub async fn keep(&self, spool: SessionSpool) -> io::Result<()> {
        let mut places = Vec::new();
        loop {
            let missing = {
                let mut slots = self.table.slots();
                if slots.kept.is_some() {
                    return Ok(());
                }
                let missing = slots.processes().count().saturating_sub(places.len());
                if missing == 0 {
                    for (process, place) in slots.processes().zip(places) {
                        process.keep(place);
                    }
                    slots.kept = Some(spool);
                    return Ok(());
                }
                missing
            };
            let spool = spool.clone();
            places.extend(blocking(move || (0..missing).map(|_| spool.open()).collect::<io::Result<Vec<_>>>()).await?);
        }
    }

    /// Starts a process. It goes on starting when the caller no longer waits.
    ///
    /// Must be called inside a tokio runtime with IO and time.
    ///
    /// # Errors
    ///
    /// See [`StartError`]. A failed start frees the id.
    pub async fn start(&self, id: impl Into<Arc<str>>, spec: Spec) -> Result<(), StartError> {
        self.start_with(id, spec, None).await
    }

    /// Starts a process with a proxy, which lives until the process is closed.
    ///
    /// Must be called inside a tokio runtime with IO and time.
    ///
    /// # Errors
    ///
    /// As [`Processes::start`]; also when the proxy is to be inside of a sandbox and there is none with a network of its own.
    pub async fn start_with(
        &self,
        id: impl Into<Arc<str>>,
        spec: Spec,
        proxy: Option<Attached>,
    ) -> Result<(), StartError> {
        let id = id.into();
        let instance = self.table.reserve(&id)?;
        let table = Arc::clone(&self.table);
        let starting = tokio::spawn(async move {
            let spawned = spawn::spawn(spec, matches!(proxy, Some(Attached::Inside { .. }))).await;
            let mut started = match spawned {
                Ok(spawned) => table.take_over(&id, spawned, proxy).await,
                Err(error) => Err(error),
            };
            while let Some(unkept) = Table::install(&table, &id, instance, started)? {
                started = table.with_place(unkept).await;
            }
            Ok(())
        });
        match starting.await {
            Ok(result) => result,
            Err(_stopped) => Err(io::Error::other("the executor is stopping").into()),
        }
    }

    /// What is known under an id.
    pub fn get(&self, id: &str) -> Lookup {
        match self.table.slots().by_id.get(id) {
            None => Lookup::Unknown,
            Some(Slot { process: None, .. }) => Lookup::Starting,
            Some(Slot {
                process: Some(process), ..
            }) => Lookup::Started(process.clone()),
        }
    }

    /// All processes, closed ones included, in the order of their starts; nothing beside the id for one that is starting.
    pub fn list(&self) -> Vec<(Arc<str>, Option<Process>)> {
        let slots = self.table.slots();
        let mut all: Vec<_> = slots.by_id.iter().collect();
        all.sort_unstable_by_key(|(_, slot)| slot.instance);
        all.into_iter()
            .map(|(id, slot)| (Arc::clone(id), slot.process.clone()))
            .collect()
    }

    /// Kills a process, or cancels its start. Returns whether there was something to end.
    pub fn terminate(&self, id: &str) -> bool {
        let process = {
            let mut slots = self.table.slots();
            match slots.by_id.get(id) {
                None => return false,
                Some(Slot {
                    process: Some(process), ..
                }) => process.clone(),
                Some(Slot { process: None, .. }) => {
                    slots.by_id.remove(id);
                    return true;
                }
            }
        };
        process.terminate()
    }

    /// Kills every process with its group and refuses new ones.
    pub fn shut(&self) {
        self.table.shut();
    }

    /// Processes in the table, closed ones included.
    pub fn len(&self) -> usize {
        self.table.slots().by_id.len()
    }

    /// Processes that are starting or not yet closed.
    pub fn running(&self) -> usize {
        self.table.slots().open()
    }

    /// Whether the table has no process.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Table {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, id: &Arc<str>) -> Result<u64, StartError> {
        let mut slots = self.slots();
        if slots.is_shut {
            return Err(StartError::Cancelled(Arc::clone(id)));
        }
        if slots.by_id.contains_key(id) {
            return Err(StartError::AlreadyExists(Arc::clone(id)));
        }
        if slots.open() >= MAX_PROCESSES {
            return Err(StartError::TooMany);
        }
        let admission = loop {
            if let Some(admission) = self.budget.admit() {
                break admission;
            }
            if !slots.evict_closed() {
                return Err(StartError::TooMany);
            }
        };
        slots.last_instance += 1;
        let instance = slots.last_instance;
        let slot = Slot {
            instance,
            process: None,
            _admission: admission,
        };
        slots.by_id.insert(Arc::clone(id), slot);
        Ok(instance)
    }

    /// Makes a process of a program that was started.
    async fn take_over(
        &self,
        id: &Arc<str>,
        mut spawned: Spawned,
        proxy: Option<Attached>,
    ) -> Result<Started, StartError> {
        let serving = proxy.map(|proxy| proxy.begin(spawned.listeners.take())).transpose()?;
        let (budget, has_window) = (Arc::clone(&self.budget), Arc::clone(&self.has_window));
        let (process, driver) = Process::new(Arc::clone(id), spawned, budget, has_window, serving)?;
        let place = None;
        self.with_place(Started { process, driver, place }).await
    }

    /// Gives a process its place on disk, if output is kept.
    async fn with_place(&self, started: Started) -> Result<Started, StartError> {
        let kept = self.slots().kept.clone();
        let place = match kept {
            Some(kept) => Some(blocking(move || kept.open()).await?),
            None => None,
        };
        Ok(Started { place, ..started })
    }

    /// Puts a started process in its reserved place, if that is still there. Gives it back when its output is to be kept and
    /// it has no place on disk: that was decided meanwhile.
    fn install(
        table: &Arc<Self>,
        id: &Arc<str>,
        instance: u64,
        started: Result<Started, StartError>,
    ) -> Result<Option<Started>, StartError> {
        let mut slots = table.slots();
        let is_kept = slots.kept.is_some();
        let Some(slot) = slots.by_id.get_mut(id).filter(|slot| slot.instance == instance) else {
            return Err(StartError::Cancelled(Arc::clone(id)));
        };
        let Started { process, driver, place } = match started {
            Ok(started) if is_kept && started.place.is_none() => return Ok(Some(started)),
            Ok(started) => started,
            Err(error) => {
                slots.by_id.remove(id);
                return Err(error);
            }
        };
        if let Some(place) = place {
            process.keep(place);
        }
        slot.process = Some(process.clone());
        drop(slots);
        let outlet = table.outlet.clone();
        tokio::spawn(serve(Arc::downgrade(table), outlet, process, driver, instance));
        Ok(None)
    }

    fn closed(&self, id: &Arc<str>, instance: u64) {
        let mut slots = self.slots();
        if slots.holds(id, instance) {
            slots.closed.push_back((Arc::clone(id), instance));
            if slots.closed.len() > MAX_CLOSED {
                slots.evict_closed();
            }
        }
    }

    /// Forgets a closed process, unless its reader still has to take something. Returns whether it is gone.
    fn expire(&self, id: &Arc<str>, instance: u64, is_last_chance: bool) -> bool {
        let mut slots = self.slots();
        if !slots.holds(id, instance) {
            return true;
        }
        let process = slots.by_id.get(id).and_then(|slot| slot.process.as_ref());
        if !is_last_chance && process.is_some_and(Process::is_awaited) {
            return false;
        }
        slots.by_id.remove(id);
        slots.closed.retain(|(_, closed)| *closed != instance);
        true
    }

    fn shut(&self) {
        let slots = {
            let mut slots = self.slots();
            slots.is_shut = true;
            slots.closed.clear();
            std::mem::take(&mut slots.by_id)
        };
        for process in slots.into_values().filter_map(|slot| slot.process) {
            process.abandon();
        }
    }
}

impl Slots {
    /// Those that were started, closed ones included.
    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.by_id.values().filter_map(|slot| slot.process.as_ref())
    }

    fn open(&self) -> usize {
        self.by_id.len() - self.closed.len()
    }

    fn holds(&self, id: &Arc<str>, instance: u64) -> bool {
        self.by_id.get(id).is_some_and(|slot| slot.instance == instance)
    }

    /// Forgets the oldest closed process from which its reader has taken everything; where there is none, the oldest.
    fn evict_closed(&mut self) -> bool {
        let is_awaited = |id: &Arc<str>| {
            let process = self.by_id.get(id).and_then(|slot| slot.process.as_ref());
            process.is_some_and(Process::is_awaited)
        };
        let done = self.closed.iter().position(|(id, _)| !is_awaited(id));
        match self.closed.remove(done.unwrap_or(0)) {
            None => false,
            Some((id, _)) => {
                self.by_id.remove(&id);
                true
            }
        }
    }
}

/// Does what may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(_stopped) => Err(io::Error::other("the executor is stopping")),
    }
}

/// Runs one process to its end, keeps it readable for a while, and forgets it.
async fn serve(table: Weak<Table>, outlet: Outlet, process: Process, driver: Driver, instance: u64) {
    driver.run(&outlet).await;
    let id = Arc::clone(process.id());
    if let Some(table) = table.upgrade() {
        table.closed(&id, instance);
    }
    push_rest(&process, &outlet).await;
    drop(process);
    let mut period = 0;
    while period < MAX_CLOSED_PERIODS {
        sleep(CLOSED_RETENTION).await;
        let Some(table) = table.upgrade() else { return };
        if table.slots().kept.is_some() {
            continue;
        }
        period += 1;
        if table.expire(&id, instance, period == MAX_CLOSED_PERIODS) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
