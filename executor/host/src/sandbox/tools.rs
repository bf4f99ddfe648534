//! What this machine can enforce.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use nix::libc::O_PATH;
use nix::unistd::{AccessFlags, access};

use super::launch::{Inner, Jail, Kind};
use super::plan::{Base, Plan};
use super::profile::Network;
use super::resolve::Policy;
use super::{SandboxError, bubblewrap, helper, landlock};
use crate::process::sys;

/// Where bubblewrap is looked for before the executor's own `PATH`.
const FOLDERS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// The programs that sandboxes are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// bubblewrap, if it is there.
    pub bubblewrap: Option<PathBuf>,
    /// An executable that calls [`helper::dispatch`] first.
    pub helper: PathBuf,
}

impl Tools {
    /// bubblewrap of this machine, and this process's own executable as the helper.
    pub fn find() -> Self {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let own = std::env::split_paths(&own).filter(|folder| folder.is_absolute());
        let bubblewrap = FOLDERS
            .map(PathBuf::from)
            .into_iter()
            .chain(own)
            .map(|folder| folder.join("bwrap"))
            .find(|program| program.is_file() && access(program, AccessFlags::X_OK).is_ok());
        Self {
            bubblewrap,
            helper: "/proc/self/exe".into(),
        }
    }
}

/// Makes sandboxes. Cheap to clone; clones share what was found out about the machine.
#[derive(Clone, Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tools: Tools,
    helper: Result<Arc<File>, String>,
    means: OnceLock<Means>,
}

#[derive(Clone, Debug)]
enum Means {
    Bubblewrap(PathBuf),
    /// And why not bubblewrap.
    Landlock(String),
    /// And why not.
    Nothing(String),
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new(Tools::find())
    }
}

impl Sandbox {
    /// Sandboxes that are made with these tools. Whether they work is tried when the first one is needed.
    pub fn new(tools: Tools) -> Self {
        // Held from now on, so that it stays the same file, whatever is put in its place.
        let helper = File::options().read(true).custom_flags(O_PATH).open(&tools.helper);
        Self {
            shared: Arc::new(Shared {
                helper: helper.map(Arc::new).map_err(|error| format!("no helper: {error}")),
                tools,
                means: OnceLock::new(),
            }),
        }
    }

    /// Works out a sandbox for a policy; nothing if there is nothing to enforce. Looks at files, on a thread for blocking
    /// work. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// When the policy cannot be enforced here in full.
    pub async fn jail(&self, policy: Policy) -> Result<Option<Jail>, SandboxError> {
        let shared = Arc::clone(&self.shared);
        let worked_out = tokio::task::spawn_blocking(move || shared.jail(&policy)).await;
        worked_out.unwrap_or_else(|_stopped| Err(SandboxError::Prepare("the executor is stopping".into())))
    }
}

impl Shared {
    fn jail(&self, policy: &Policy) -> Result<Option<Jail>, SandboxError> {
        if policy.is_open() {
            return Ok(None);
        }
        let helper = self.helper.clone().map_err(SandboxError::Unenforceable)?;
        if policy.writes_everything() && policy.network != Network::Managed {
            let kind = Kind::Guarded(helper::Guard::Offline);
            return Ok(Some(Jail { helper, kind }));
        }
        let plan = Plan::new(policy)?;
        let kind = match self.means.get_or_init(|| self.find_means(&helper)) {
            Means::Bubblewrap(program) => Kind::Bubblewrap {
                program: program.clone(),
                arguments: bubblewrap::arguments(&plan),
                network: plan.network,
                placeholders: plan.placeholders,
            },
            Means::Landlock(why) if plan.network == Network::Managed => {
                let why = format!("{why}, and nothing else makes a network of its own");
                return Err(SandboxError::Unenforceable(why));
            }
            Means::Landlock(why) => Kind::Guarded(helper::Guard::Landlock {
                writable: landlock::writable(&plan, why)?,
                network: plan.network,
            }),
            Means::Nothing(why) => return Err(SandboxError::Unenforceable(why.clone())),
        };
        Ok(Some(Jail { helper, kind }))
    }

    fn find_means(&self, helper: &Arc<File>) -> Means {
        let why = match &self.tools.bubblewrap {
            None => "bubblewrap is not installed".to_owned(),
            Some(program) => match try_out(program, helper) {
                Ok(()) => return Means::Bubblewrap(program.clone()),
                Err(why) => format!("bubblewrap does not work: {why}"),
            },
        };
        if landlock::is_available() {
            tracing::warn!(
                why,
                "sandboxes are made with Landlock, which cannot enforce every profile"
            );
            Means::Landlock(why)
        } else {
            tracing::warn!(why, "nothing on this machine can make a sandbox");
            Means::Nothing(why)
        }
    }
}

/// Makes a sandbox and runs the helper in it, once.
fn try_out(program: &Path, helper: &Arc<File>) -> Result<(), String> {
    let plan = Plan {
        base: Base::ReadOnly,
        mounts: Vec::new(),
        placeholders: Vec::new(),
        network: Network::Restricted,
    };
    let jail = Jail {
        helper: Arc::clone(helper),
        kind: Kind::Bubblewrap {
            program: program.to_owned(),
            arguments: bubblewrap::arguments(&plan),
            placeholders: Vec::new(),
            network: plan.network,
        },
    };
    let text = |error: std::io::Error| error.to_string();
    let confined = jail.confine(&Inner::Files).map_err(text)?;
    let mut command = confined.command;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    sys::install(&mut command, confined.stage.setup(false));
    let child = command.spawn().map_err(text)?;
    let up = confined.stage.wait();
    let output = child.wait_with_output().map_err(text)?;
    match up.map_err(|failure| failure.with_output(&output.stderr)) {
        Ok(_) => Ok(()),
        Err(Ok(error)) => Err(error.to_string()),
        Err(Err(error)) => Err(error.to_string()),
    }
}
