//! The managed network: a proxy that the executor runs beside a process, and what it asks and tells the client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{method, notification};

/// Longest reason of an answer, in bytes; it holds no control characters.
pub const MAX_REASON: usize = 1024;

method!(
    /// The executor asks whether a process may reach a host that no rule names. It comes only for processes that were started
    /// with [`ProxyLaunch::policy_decision_timeout_ms`].
    PolicyRequest, "network/policyRequest", PolicyRequestParams => PolicyRequestResult
);
notification!(
    /// The proxy of a process has decided. Not every decision arrives.
    PolicyDecision, "network/policyDecision", PolicyDecisionParams
);

/// A proxy to start beside a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyLaunch {
    /// What the proxy lets pass.
    pub proxy: ProxyConfig,
    /// How long the client may take to answer [`PolicyRequest`], not 0. Absent: it is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_decision_timeout_ms: Option<u64>,
}

/// What a proxy lets pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// Must be true.
    pub enabled: bool,
    /// Whether there is a SOCKS5 proxy beside the HTTP one.
    pub enable_socks5: bool,
    /// Whether SOCKS5 carries UDP.
    pub enable_socks5_udp: bool,
    /// Whether the proxy may use another one.
    pub allow_upstream_proxy: bool,
    /// Whether requests to sockets in the file system pass; executors on Linux let none pass.
    pub dangerously_allow_all_unix_sockets: bool,
    /// What kind of traffic passes.
    pub mode: ProxyMode,
    /// Which hosts, by pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<BTreeMap<String, Permission>>,
    /// Which sockets in the file system; executors on Linux let none pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_sockets: Option<BTreeMap<String, Permission>>,
    /// Whether loopback, private and other special addresses can be reached.
    pub allow_local_binding: bool,
    /// Whether connections that know of no proxy are taken up, too. Needs the capability `networkProxyTransparentTcp`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transparent_tcp: bool,
}

/// What kind of traffic passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// Plain HTTP with GET, HEAD and OPTIONS.
    Limited,
    /// Everything.
    Full,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Nothing.
    None,
    /// It passes.
    Allow,
    /// It does not.
    Deny,
}

/// How a process wants to reach a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NetworkProtocol {
    /// A plain HTTP request.
    Http,
    /// A tunnel through the HTTP proxy.
    HttpsConnect,
    /// A tunnel through the SOCKS5 proxy.
    Socks5Tcp,
    /// Datagrams through the SOCKS5 proxy.
    Socks5Udp,
}

/// Whether a process may reach a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRequestParams {
    /// Which process.
    pub process_id: String,
    /// What it wants to reach.
    pub request: NetworkRequest,
}

/// What a process wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRequest {
    /// How.
    pub protocol: NetworkProtocol,
    /// A name, lower case and in ASCII, or an address; at most 253 bytes.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The client's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRequestResult {
    /// The answer.
    pub decision: ClientDecision,
}

/// What a client says about a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ClientDecision {
    /// The process may reach it, this time.
    Allow,
    /// It may not.
    Deny {
        /// Why: a word or a text of 1 to [`MAX_REASON`] bytes.
        reason: String,
    },
    /// Somebody must be asked first, so it may not now.
    Ask {
        /// As before.
        reason: String,
    },
}

/// A decision that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDecisionParams {
    /// Which process.
    pub process_id: String,
    /// When, as RFC 3339 has it.
    pub timestamp: String,
    /// `domain` when it is about the host, `non_domain` when about the kind of traffic.
    pub scope: String,
    /// `allow`, `deny` or `ask`.
    pub decision: String,
    /// `baseline_policy` for rules, `decider` for the client, `mode_guard` for the mode.
    pub source: String,
    /// A word for why, or the client's text.
    pub reason: String,
    /// How the process wanted to reach the host.
    pub protocol: NetworkProtocol,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// From which address the proxy was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Whether the client allowed what no rule allows.
    #[serde(default)]
    pub policy_override: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_needs_its_flags_and_nothing_else() {
        let launch = r#"{"proxy":{"enabled":true,"enableSocks5":true,"enableSocks5Udp":false,"allowUpstreamProxy":false,
            "dangerouslyAllowAllUnixSockets":false,"mode":"limited","domains":{"*.x":"allow","y":"deny","z":"none"},
            "unixSockets":null,"allowLocalBinding":false},"auditMetadata":{"slug":"s"},"environmentId":null}"#;
        let launch: ProxyLaunch = serde_json::from_str(launch).unwrap();
        assert_eq!(launch.proxy.domains.as_ref().unwrap().len(), 3);
        assert_eq!(launch.policy_decision_timeout_ms, None);
        let written = serde_json::to_value(&launch).unwrap();
        for flag in ["enabled", "mode", "allowLocalBinding", "enableSocks5"] {
            let mut less = written.clone();
            less["proxy"].as_object_mut().unwrap().remove(flag);
            let error = serde_json::from_value::<ProxyLaunch>(less).unwrap_err();
            assert_eq!(error.to_string(), format!("missing field `{flag}`"));
        }
    }

    #[test]
    fn answers_are_tagged() {
        let read = |text| serde_json::from_str::<PolicyRequestResult>(text).map(|result| result.decision);
        assert_eq!(read(r#"{"decision":{"type":"allow"}}"#).unwrap(), ClientDecision::Allow);
        let reason = "r".to_owned();
        assert_eq!(
            read(r#"{"decision":{"type":"deny","reason":"r"}}"#).unwrap(),
            ClientDecision::Deny { reason }
        );
        for bad in [r#"{"decision":{"type":"deny"}}"#, r#"{"decision":"allow"}"#, "{}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
