//! Decisions of a proxy, and who takes part in them.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::SystemTime;

use super::host::Target;

/// Longest reason that a client gives, in bytes.
pub const MAX_REASON: usize = 1024;
/// What is said of a host that nobody allowed.
pub(super) const NOT_ALLOWED: &str = "not_allowed";

/// How a program wants to reach a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// A plain HTTP request.
    Http,
    /// A tunnel through the HTTP proxy.
    Connect,
    /// A tunnel through the SOCKS5 proxy.
    Socks5,
}

/// What a client says about a host that no rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program may reach it, this time.
    Allow,
    /// It may not, and why.
    Deny(String),
    /// Somebody must be asked first, so it may not now.
    Ask(String),
}

impl Verdict {
    /// The verdict when nobody gives a valid one.
    pub fn not_allowed() -> Self {
        Self::Deny(NOT_ALLOWED.to_owned())
    }

    /// Replaces a verdict whose reason cannot be passed on: empty, over [`MAX_REASON`] bytes, or with control characters.
    pub(super) fn checked(self) -> Self {
        match &self {
            Self::Deny(reason) | Self::Ask(reason)
                if reason.trim().is_empty() || reason.len() > MAX_REASON || reason.contains(char::is_control) =>
            {
                Self::not_allowed()
            }
            _ => self,
        }
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// When.
    pub at: SystemTime,
    /// The decision.
    pub outcome: Outcome,
    /// How the program wanted to reach the host.
    pub protocol: Protocol,
    /// What it wanted to reach.
    pub target: Target,
    /// The HTTP method.
    pub method: Option<String>,
    /// From which address the proxy was asked.
    pub client: SocketAddr,
}

/// A decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A rule allows it.
    Allowed,
    /// The client allows what no rule does.
    AllowedByClient,
    /// A rule denies it.
    Denied,
    /// No rule allows it, and no client was there to ask.
    NotAllowed,
    /// It is, or leads to, an address that is not public; or to none.
    Local,
    /// The client denies it, or its answer does not count.
    DeniedByClient(String),
    /// The client must ask first.
    AskedByClient(String),
    /// The mode does not take the HTTP method, or SOCKS at all.
    Method,
    /// The mode does not take tunnels through the HTTP proxy.
    Tunnel,
}

impl Outcome {
    /// Whether the program may go on.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed | Self::AllowedByClient)
    }

    /// `allow`, `deny` or `ask`.
    pub fn decision(&self) -> &'static str {
        match self {
            Self::Allowed | Self::AllowedByClient => "allow",
            Self::AskedByClient(_) => "ask",
            _ => "deny",
        }
    }

    /// Who decided: `baseline_policy` for rules, `decider` for the client, `mode_guard` for the mode.
    pub fn source(&self) -> &'static str {
        match self {
            Self::Allowed | Self::Denied | Self::NotAllowed | Self::Local => "baseline_policy",
            Self::AllowedByClient | Self::DeniedByClient(_) | Self::AskedByClient(_) => "decider",
            Self::Method | Self::Tunnel => "mode_guard",
        }
    }

    /// `domain` when it is about the host, else `non_domain`.
    pub fn scope(&self) -> &'static str {
        match self {
            Self::Method | Self::Tunnel => "non_domain",
            _ => "domain",
        }
    }

    /// A word for why, or the client's text.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allowed => "allow",
            Self::AllowedByClient | Self::NotAllowed => NOT_ALLOWED,
            Self::Denied => "denied",
            Self::Local => "not_allowed_local",
            Self::DeniedByClient(reason) | Self::AskedByClient(reason) => reason,
            Self::Method => "method_not_allowed",
            Self::Tunnel => "mitm_required",
        }
    }

    /// For people.
    pub fn message(&self) -> &'static str {
        match self {
            Self::Allowed | Self::AllowedByClient => "Allowed.",
            Self::Denied => "Domain denied by the sandbox policy.",
            Self::NotAllowed => "Domain not in allowlist.",
            Self::Local => "Sandbox policy blocks local/private network addresses.",
            Self::DeniedByClient(reason) if reason == NOT_ALLOWED => "Domain not in allowlist.",
            Self::DeniedByClient(_) | Self::AskedByClient(_) => "Request blocked by network policy.",
            Self::Method => "Method not allowed in limited mode.",
            Self::Tunnel => "Tunnels not allowed in limited mode.",
        }
    }

    /// The value of the header `x-proxy-error`, which stock harnesses look for.
    pub(super) fn header(&self) -> &'static str {
        match self {
            Self::Denied => "blocked-by-denylist",
            Self::NotAllowed | Self::Local => "blocked-by-allowlist",
            Self::DeniedByClient(reason) if reason == NOT_ALLOWED => "blocked-by-allowlist",
            Self::Method => "blocked-by-method-policy",
            Self::Tunnel => "blocked-by-mitm-required",
            _ => "blocked-by-policy",
        }
    }
}

/// An answer on its way.
pub type Answer = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// Decides about hosts that no rule is about, and hears of all decisions.
pub trait Referee: fmt::Debug + Send + Sync + 'static {
    /// Asks about a target. Nothing: nobody is there to ask. It must answer within a bounded time.
    fn ask(&self, protocol: Protocol, target: &Target) -> Option<Answer>;

    /// Hears of a decision. Must not block.
    fn notice(&self, notice: Notice);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_cannot_be_passed_on_does_not_count() {
        let long = "x".repeat(MAX_REASON);
        for good in ["r", long.as_str(), "two words", "gr\u{fc}nde"] {
            assert_eq!(Verdict::Deny(good.into()).checked(), Verdict::Deny(good.into()));
            assert_eq!(Verdict::Ask(good.into()).checked(), Verdict::Ask(good.into()));
        }
        let longer = "x".repeat(MAX_REASON + 1);
        for bad in ["", "  ", longer.as_str(), "a\nb", "a\0", "\u{7f}", "\u{85}"] {
            assert_eq!(Verdict::Ask(bad.into()).checked(), Verdict::not_allowed(), "{bad:?}");
        }
        assert_eq!(Verdict::Allow.checked(), Verdict::Allow);
    }
}
