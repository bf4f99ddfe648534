//! Who plays with whom, and what: the one table of stock interoperation.

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::link::Party;
use rendezvous_integration_tests::stock::{Mode, Version};

use crate::agent::links::RelayEnd;
use crate::runner::{Case, When};
use crate::{agent, ours};

/// A harness and an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The harness.
    pub(crate) harness: End,
    /// The executor.
    pub(crate) executor: End,
}

type Future_ = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// What is played, in which pairs it belongs to the normal command, and by which function for each harness.
struct Scenario {
    name: &'static str,
    core: Core,
    stock: Option<fn(Context, Version, End) -> Future_>,
    ours: Option<fn(Context, End) -> Future_>,
}

/// The pairs that play a scenario in the normal command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Core {
    /// All of them.
    All,
    /// Those with a stock end of the newer version, and ours with ours.
    Newer,
    /// Ours with ours, and ours with the newer stock ends.
    Mixed,
}

/// A pointer to an async function, as the table wants it.
macro_rules! play {
    ($function:path $(, $argument:expr)*) => {
        Some(|cx, version, executor| Box::pin($function(cx, version, executor $(, $argument)*)))
    };
}
macro_rules! play_ours {
    ($function:path $(, $argument:expr)*) => {
        Some(|cx, executor| Box::pin($function(cx, executor $(, $argument)*)))
    };
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "tools",
        core: Core::All,
        stock: play!(agent::tools::play),
        ours: play_ours!(ours::tools::play),
    },
    Scenario {
        name: "workspace_write",
        core: Core::Mixed,
        stock: play!(agent::sandbox::workspace_write),
        ours: None,
    },
    Scenario {
        name: "read_only",
        core: Core::Mixed,
        stock: play!(agent::sandbox::read_only),
        ours: None,
    },
    Scenario {
        name: "code",
        core: Core::Mixed,
        stock: play!(agent::code::play, Mode::FullAccess),
        ours: None,
    },
    Scenario {
        name: "code_workspace_write",
        core: Core::Mixed,
        stock: play!(agent::code::play, Mode::WorkspaceWrite),
        ours: None,
    },
    Scenario {
        name: "code_read_only",
        core: Core::Mixed,
        stock: play!(agent::code::play, Mode::ReadOnly),
        ours: None,
    },
    Scenario {
        name: "files",
        core: Core::All,
        stock: None,
        ours: play_ours!(ours::files::play),
    },
    Scenario {
        name: "commands",
        core: Core::All,
        stock: None,
        ours: play_ours!(ours::commands::play),
    },
    Scenario {
        name: "control",
        core: Core::Mixed,
        stock: None,
        ours: play_ours!(ours::control::play),
    },
    Scenario {
        name: "library",
        core: Core::All,
        stock: None,
        ours: play_ours!(ours::library::play),
    },
    Scenario {
        name: "harness_cut_idle",
        core: Core::Mixed,
        stock: play!(agent::links::idle, Party::Harness),
        ours: play_ours!(ours::links::idle, Party::Harness),
    },
    Scenario {
        name: "harness_cut_mid_command",
        core: Core::Newer,
        stock: play!(agent::links::mid_command, Party::Harness),
        ours: play_ours!(ours::links::mid_command, Party::Harness),
    },
    Scenario {
        name: "executor_cut_idle",
        core: Core::Mixed,
        stock: play!(agent::links::idle, Party::Executor),
        ours: play_ours!(ours::links::idle, Party::Executor),
    },
    Scenario {
        name: "executor_cut_mid_command",
        core: Core::Newer,
        stock: play!(agent::links::mid_command, Party::Executor),
        ours: play_ours!(ours::links::mid_command, Party::Executor),
    },
    Scenario {
        name: "executor_restarted",
        core: Core::Mixed,
        stock: play!(agent::life::executor_restarted),
        ours: play_ours!(ours::life::executor_restarted),
    },
    Scenario {
        name: "three_harnesses",
        core: Core::Mixed,
        stock: play!(agent::life::three_harnesses),
        ours: play_ours!(ours::life::three_harnesses),
    },
    Scenario {
        name: "refused_token",
        core: Core::Mixed,
        stock: play!(agent::life::refused_token),
        ours: play_ours!(ours::life::refused_token),
    },
    Scenario {
        name: "executor_comes_late",
        core: Core::Mixed,
        stock: play!(agent::life::executor_comes_late),
        ours: play_ours!(ours::life::executor_comes_late),
    },
    Scenario {
        name: "relay_restarted_mid_command",
        core: Core::Newer,
        stock: play!(agent::links::relay_gone, RelayEnd::Killed),
        ours: play_ours!(ours::links::relay_gone, RelayEnd::Killed),
    },
    Scenario {
        name: "relay_drained_mid_command",
        core: Core::Newer,
        stock: play!(agent::links::relay_gone, RelayEnd::Drained),
        ours: play_ours!(ours::links::relay_gone, RelayEnd::Drained),
    },
    Scenario {
        name: "registry_drained_mid_command",
        core: Core::Mixed,
        stock: play!(agent::links::relay_gone, RelayEnd::DrainedWithRegistry),
        ours: play_ours!(ours::links::relay_gone, RelayEnd::DrainedWithRegistry),
    },
];

/// Every pair that has at most one version of the stock binary in it.
fn pairs() -> Vec<Pair> {
    let mut pairs = vec![Pair {
        harness: End::Ours,
        executor: End::Ours,
    }];
    for stock in Version::ALL.map(End::Stock) {
        for (harness, executor) in [(stock, stock), (stock, End::Ours), (End::Ours, stock)] {
            pairs.push(Pair { harness, executor });
        }
    }
    pairs
}

/// Every scenario in every pair that can play it.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for pair in pairs() {
        for scenario in SCENARIOS {
            let name = format!(
                "interop::{}::{}::{}",
                pair.harness.name(),
                pair.executor.name(),
                scenario.name
            );
            let when = scenario.core.when(pair);
            let executor = pair.executor;
            match (pair.harness, scenario.stock, scenario.ours) {
                (End::Stock(version), Some(play), _) => {
                    cases.push(Case::new(name, when, move |cx| play(cx, version, executor)));
                }
                (End::Ours, _, Some(play)) => cases.push(Case::new(name, when, move |cx| play(cx, executor))),
                (End::Stock(_), None, _) | (End::Ours, _, None) => {}
            }
        }
    }
    cases
}

/// The agent's tools without registry and relay: between the stock ends alone, the measure for everything else, and on our
/// listener.
pub(crate) fn direct_cases() -> Vec<Case> {
    let case = |version: Version, executor: End, when| {
        let name = format!("direct::{}::{}::tools", End::Stock(version).name(), executor.name());
        Case::new(name, when, move |cx| agent::tools::play_direct(cx, version, executor))
    };
    let stock = Version::ALL.map(|version| case(version, End::Stock(version), When::Full));
    let ours = Version::ALL.map(|version| case(version, End::Ours, When::Always));
    stock.into_iter().chain(ours).collect()
}

/// The newer stock harness, which can give its commands a network of their own, with the two executors.
pub(crate) fn network_cases() -> Vec<Case> {
    const NEWER: Version = Version::V0_171;
    let case = |executor: End, when| {
        let name = format!(
            "interop::{}::{}::managed_network",
            End::Stock(NEWER).name(),
            executor.name()
        );
        Case::new(name, when, move |cx| agent::network::rules(cx, NEWER, executor))
    };
    vec![case(End::Ours, When::Always), case(End::Stock(NEWER), When::Full)]
}

/// A stock harness on an exec-server of either make that our forwarder makes remote.
pub(crate) fn forward_cases() -> Vec<Case> {
    const NEWER: Version = Version::V0_171;
    let mut cases = Vec::new();
    for backend in [End::Stock(NEWER), End::Ours] {
        let when = if backend == End::Ours { When::Full } else { When::Always };
        let name = |what: &str| format!("forward::{}::{}::{what}", End::Stock(NEWER).name(), backend.name());
        let tools = move |cx| agent::forward::tools(cx, NEWER, backend);
        cases.push(Case::new(name("tools"), when, tools));
        for (what, party) in [("harness_cut", Party::Harness), ("executor_cut", Party::Executor)] {
            let cut = move |cx| agent::forward::mid_command(cx, NEWER, backend, party);
            cases.push(Case::new(name(what), when, cut));
        }
    }
    cases
}

impl Core {
    fn when(self, pair: Pair) -> When {
        let ends = [pair.harness, pair.executor];
        let older = ends.contains(&End::Stock(Version::V0_145));
        let core = match self {
            Self::All => true,
            Self::Newer => !older,
            Self::Mixed => !older && ends.contains(&End::Ours),
        };
        if core { When::Always } else { When::Full }
    }
}
