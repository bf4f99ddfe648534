//! What a process may reach, kept by a proxy on the executor and by the process's sandbox.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use rendezvous_rpc::method::network::ClientDecision as HostDecision;
use rendezvous_rpc::method::network::{
    MAX_REASON, NetworkRequest, Permission, PolicyRequestParams, ProxyConfig, ProxyLaunch, ProxyMode,
};
pub use rendezvous_rpc::method::network::{NetworkProtocol, PolicyDecisionParams as NetworkDecision};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Questions of an executor that are answered at once; further ones are answered with a denial.
pub const MAX_QUESTIONS: usize = 256;
/// How long a decision may take unless something else is said.
pub const DECISION_TIMEOUT: Duration = Duration::from_secs(60);
/// The reason when nobody decided.
const NOT_ALLOWED: &str = "not_allowed";

/// A host that no rule names, and that a process wants to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostQuestion {
    /// The process's id on the wire.
    pub process: String,
    /// How it wants to reach the host.
    pub protocol: NetworkProtocol,
    /// A name, lower case and in ASCII, or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

type Decision = Pin<Box<dyn Future<Output = HostDecision> + Send>>;
type Decider = Arc<dyn Fn(HostQuestion) -> Decision + Send + Sync>;

/// What a process may reach: nothing, until something is allowed.
///
/// The executor gives the process a network of its own, in which there is nothing but a proxy, and the usual variables
/// (`HTTP_PROXY`, …) that lead to it. Its files stay as they are. Executors that cannot enforce this refuse to start it.
///
/// ```no_run
/// # async fn example(harness: rendezvous_harness::Harness) -> Result<(), rendezvous_harness::HarnessError> {
/// use rendezvous_harness::ProcessSpec;
/// use rendezvous_harness::network::{HostDecision, ManagedNetwork};
///
/// let network = ManagedNetwork::new()
///     .allow("*.crates.io")
///     .deny("telemetry.crates.io")
///     .ask(|question| async move {
///         println!("{} wants {}:{}", question.process, question.host, question.port);
///         if question.host == "example.com" { HostDecision::Allow } else { HostDecision::Deny { reason: "policy".into() } }
///     });
/// let mut spec = ProcessSpec::new(["cargo", "fetch"]);
/// spec.network = Some(network);
/// let process = harness.start(spec).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ManagedNetwork {
    rules: BTreeMap<String, Permission>,
    allow_local: bool,
    read_only: bool,
    timeout: Duration,
    decider: Option<Decider>,
    decisions: Option<mpsc::Sender<NetworkDecision>>,
}

impl Default for ManagedNetwork {
    fn default() -> Self {
        Self {
            rules: BTreeMap::new(),
            allow_local: false,
            read_only: false,
            timeout: DECISION_TIMEOUT,
            decider: None,
            decisions: None,
        }
    }
}

impl fmt::Debug for ManagedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagedNetwork")
            .field("rules", &self.rules)
            .field("allow_local", &self.allow_local)
            .field("read_only", &self.read_only)
            .field("asks", &self.decider.is_some())
            .finish_non_exhaustive()
    }
}

impl ManagedNetwork {
    /// Nothing may be reached.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets hosts be reached: `example.com`, `*.example.com` for everything below it, `**.example.com` for both, `*` for all,
    /// an address. A pattern that the executor cannot read fails the start.
    #[must_use]
    pub fn allow(mut self, pattern: impl Into<String>) -> Self {
        // What is denied stays denied.
        self.rules.entry(pattern.into()).or_insert(Permission::Allow);
        self
    }

    /// Keeps the process from hosts, whatever else allows them.
    #[must_use]
    pub fn deny(mut self, pattern: impl Into<String>) -> Self {
        self.rules.insert(pattern.into(), Permission::Deny);
        self
    }

    /// Lets names lead to loopback, private and other addresses that are not public, as seen from the executor.
    #[must_use]
    pub fn allow_local_addresses(mut self) -> Self {
        self.allow_local = true;
        self
    }

    /// Lets only plain HTTP pass, with methods that read. HTTPS does not pass then.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Has `decide` asked about each host that no rule names, each time. It runs on the runtime of the session; while it
    /// does, the process waits. An answer that takes longer than [`ManagedNetwork::decision_timeout`] is a denial, and so is
    /// a lost connection. Executors that know no questions (stock ones before 0.146) deny.
    #[must_use]
    pub fn ask<F, D>(mut self, decide: F) -> Self
    where
        F: Fn(HostQuestion) -> D + Send + Sync + 'static,
        D: Future<Output = HostDecision> + Send + 'static,
    {
        self.decider = Some(Arc::new(move |question| Box::pin(decide(question))));
        self
    }

    /// How long a decision may take: at least a millisecond; [`DECISION_TIMEOUT`] unless set.
    #[must_use]
    pub fn decision_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Tells every decision of the executor that arrives. What finds no room in the queue is dropped.
    #[must_use]
    pub fn tell(mut self, decisions: mpsc::Sender<NetworkDecision>) -> Self {
        self.decisions = Some(decisions);
        self
    }

    /// The parameters of the proxy.
    pub(crate) fn launch(&self) -> ProxyLaunch {
        let timeout = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        ProxyLaunch {
            proxy: ProxyConfig {
                enabled: true,
                enable_socks5: true,
                enable_socks5_udp: false,
                allow_upstream_proxy: false,
                dangerously_allow_all_unix_sockets: false,
                mode: if self.read_only {
                    ProxyMode::Limited
                } else {
                    ProxyMode::Full
                },
                domains: Some(self.rules.clone()),
                unix_sockets: None,
                allow_local_binding: self.allow_local,
                transparent_tcp: false,
            },
            policy_decision_timeout_ms: self.decider.is_some().then_some(timeout),
        }
    }

    /// A sandbox for the network alone.
    pub(crate) fn sandbox() -> Value {
        json!({
            "permissions": {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"},
            "windowsSandboxLevel": "disabled",
        })
    }

    /// Passes a decision of the executor on.
    pub(crate) fn decided(&self, decision: NetworkDecision) {
        if let Some(decisions) = &self.decisions {
            let _full_or_gone = decisions.try_send(decision);
        }
    }

    /// Decides about a host. Never longer than the timeout.
    pub(crate) fn decide(&self, params: PolicyRequestParams) -> impl Future<Output = HostDecision> + Send + use<> {
        let (decider, timeout) = (self.decider.clone(), self.timeout);
        async move {
            let NetworkRequest { protocol, host, port } = params.request;
            let question = HostQuestion {
                process: params.process_id,
                protocol,
                host,
                port,
            };
            let Some(decider) = decider else { return not_allowed() };
            match tokio::time::timeout(timeout, async { decider(question).await }).await {
                Ok(decision) => checked(decision),
                Err(_elapsed) => not_allowed(),
            }
        }
    }
}

/// The decision when nobody makes one.
pub(crate) fn not_allowed() -> HostDecision {
    HostDecision::Deny {
        reason: NOT_ALLOWED.to_owned(),
    }
}

/// Replaces a reason that executors would not take.
fn checked(mut decision: HostDecision) -> HostDecision {
    if let HostDecision::Deny { reason } | HostDecision::Ask { reason } = &mut decision {
        let is_good = !reason.trim().is_empty() && reason.len() <= MAX_REASON && !reason.contains(char::is_control);
        if !is_good {
            NOT_ALLOWED.clone_into(reason);
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(host: &str) -> PolicyRequestParams {
        PolicyRequestParams {
            process_id: "p".to_owned(),
            request: NetworkRequest {
                protocol: NetworkProtocol::Http,
                host: host.to_owned(),
                port: 80,
            },
        }
    }

    #[test]
    fn nothing_is_allowed_by_itself_and_a_denial_stays() {
        let launch = ManagedNetwork::new().launch();
        assert_eq!(launch.proxy.domains, Some(BTreeMap::new()));
        assert!(!launch.proxy.allow_local_binding && launch.policy_decision_timeout_ms.is_none());
        let launch = ManagedNetwork::new().deny("a").allow("a").allow("b").launch();
        let rules = [("a".to_owned(), Permission::Deny), ("b".to_owned(), Permission::Allow)];
        assert_eq!(launch.proxy.domains, Some(BTreeMap::from(rules)));
        let asking = ManagedNetwork::new()
            .ask(async |_| HostDecision::Allow)
            .decision_timeout(Duration::ZERO);
        assert_eq!(asking.launch().policy_decision_timeout_ms, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_are_in_time_and_have_reasons() {
        let deny = |reason: &str| HostDecision::Deny {
            reason: reason.to_owned(),
        };
        assert_eq!(ManagedNetwork::new().decide(question("a")).await, not_allowed());
        let network = ManagedNetwork::new().ask(move |question| async move {
            match question.host.as_str() {
                "allowed" => HostDecision::Allow,
                "slow" => {
                    tokio::time::sleep(DECISION_TIMEOUT * 2).await;
                    HostDecision::Allow
                }
                "broken" => HostDecision::Ask {
                    reason: "a\nb".to_owned(),
                },
                other => HostDecision::Deny {
                    reason: other.to_owned(),
                },
            }
        });
        assert_eq!(network.decide(question("allowed")).await, HostDecision::Allow);
        assert_eq!(network.decide(question("why")).await, deny("why"));
        assert_eq!(network.decide(question("slow")).await, not_allowed());
        let ask = HostDecision::Ask {
            reason: NOT_ALLOWED.to_owned(),
        };
        assert_eq!(network.decide(question("broken")).await, ask);
        let long = "x".repeat(MAX_REASON + 1);
        assert_eq!(network.decide(question(&long)).await, not_allowed());
    }
}
