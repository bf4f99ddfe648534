//! What the proxy of a process lets pass, as far as rules say.

use std::net::IpAddr;

use super::host::{Host, Target};
use super::pattern::{Pattern, PatternError};

/// Rules of one proxy.
pub const MAX_RULES: usize = 1024;

/// What kind of traffic passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Plain HTTP with methods that change nothing.
    Limited,
    /// Everything.
    #[default]
    Full,
}

/// Which hosts a program may reach. Without a rule it may reach none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    allowed: Vec<Pattern>,
    denied: Vec<Pattern>,
    allow_local: bool,
    pub(super) mode: Mode,
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// Not a pattern.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// Denying everything is what no rule at all means.
    #[error("a pattern for every host cannot be denied: {0}")]
    DeniesEverything(String),
    /// Too many.
    #[error("more than {MAX_RULES} domain patterns")]
    TooMany,
}

/// What the rules say of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It may be reached, wherever its name leads.
    Anywhere,
    /// It may be reached if its name leads to public addresses.
    Public,
    /// It is denied.
    Denied,
    /// It is local, and no rule opens it.
    Local,
    /// No rule is about it.
    Unknown,
}

impl Rules {
    /// No rule yet. `allow_local`: loopback, private and other addresses that are not public can be reached like others.
    pub fn new(mode: Mode, allow_local: bool) -> Self {
        Self {
            mode,
            allow_local,
            ..Self::default()
        }
    }

    /// Lets a program reach hosts.
    ///
    /// # Errors
    ///
    /// When it is no pattern, or one too many.
    pub fn allow(&mut self, pattern: &str) -> Result<(), RulesError> {
        self.check_room()?;
        self.allowed.push(Pattern::parse(pattern)?);
        Ok(())
    }

    /// Keeps a program from hosts, whatever else allows them.
    ///
    /// # Errors
    ///
    /// When it is no pattern, one too many, or one for every host.
    pub fn deny(&mut self, pattern: &str) -> Result<(), RulesError> {
        self.check_room()?;
        let parsed = Pattern::parse(pattern)?;
        if parsed.is_everything() {
            return Err(RulesError::DeniesEverything(pattern.to_owned()));
        }
        self.denied.push(parsed);
        Ok(())
    }

    fn check_room(&self) -> Result<(), RulesError> {
        if self.allowed.len() + self.denied.len() >= MAX_RULES {
            return Err(RulesError::TooMany);
        }
        Ok(())
    }

    /// Judges in the order of stock executors: a denial wins; a local host needs a rule for exactly it.
    pub(super) fn judge(&self, target: &Target) -> Judgement {
        let Target { host, port } = target;
        if self.denied.iter().any(|pattern| pattern.denies(host)) {
            return Judgement::Denied;
        }
        let mut allowing = self.allowed.iter().filter(|pattern| pattern.allows(host, *port));
        if !self.allow_local && host.is_local() {
            return if allowing.any(|pattern| pattern.is_exactly(host)) {
                Judgement::Anywhere
            } else {
                Judgement::Local
            };
        }
        match allowing.next() {
            None => Judgement::Unknown,
            Some(_) if self.allow_local => Judgement::Anywhere,
            Some(_) => Judgement::Public,
        }
    }

    /// Whether a rule denies an address, by whatever name it was found.
    pub(super) fn denies_address(&self, address: IpAddr) -> bool {
        self.denied.iter().any(|pattern| pattern.denies_address(address))
    }

    /// What holds for a target that no rule is about and that the client lets pass.
    pub(super) fn overridden(&self) -> Judgement {
        if self.allow_local {
            Judgement::Anywhere
        } else {
            Judgement::Public
        }
    }

    /// Whether the mode lets a request pass that may have a body. One that only reads has none.
    pub(super) fn takes_body(&self, has_body: bool) -> bool {
        self.mode == Mode::Full || !has_body
    }

    /// Whether the mode lets an HTTP method pass.
    pub(super) fn takes_method(&self, method: &str) -> bool {
        self.mode == Mode::Full || matches!(method, "GET" | "HEAD" | "OPTIONS")
    }
}

/// Whether all addresses of a host may be dialled.
pub(super) fn are_reachable(host: &Host, judgement: Judgement, addresses: &[IpAddr]) -> bool {
    match judgement {
        Judgement::Anywhere => {
            // A rule for `localhost` opens this machine, not what some resolver makes of the name.
            let is_own = |address: &IpAddr| address.to_canonical().is_loopback();
            !matches!(host, Host::Name(_)) || !host.is_local() || addresses.iter().all(is_own)
        }
        Judgement::Public => super::address::are_public(addresses),
        Judgement::Denied | Judgement::Local | Judgement::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str], allow_local: bool) -> Rules {
        let mut rules = Rules::new(Mode::Full, allow_local);
        for pattern in allow {
            rules.allow(pattern).unwrap();
        }
        for pattern in deny {
            rules.deny(pattern).unwrap();
        }
        rules
    }

    fn judge(rules: &Rules, target: &str) -> Judgement {
        rules.judge(&Target::parse(target, Some(80)).unwrap())
    }

    #[test]
    fn a_denial_wins_and_the_unknown_is_unknown() {
        let rules = rules(
            &["*.pub.test", "port.test:81", "sub.pub.test"],
            &["sub.pub.test", "**.bad.test"],
            false,
        );
        assert_eq!(judge(&rules, "a.pub.test"), Judgement::Public);
        assert_eq!(judge(&rules, "sub.pub.test"), Judgement::Denied);
        assert_eq!(judge(&rules, "bad.test:99"), Judgement::Denied);
        assert_eq!(judge(&rules, "pub.test"), Judgement::Unknown);
        assert_eq!(judge(&rules, "port.test:81"), Judgement::Public);
        assert_eq!(judge(&rules, "port.test"), Judgement::Unknown);
    }

    #[test]
    fn local_hosts_need_a_rule_of_their_own() {
        let rules = rules(&["*", "localhost", "10.1.2.3"], &[], false);
        assert_eq!(judge(&rules, "localhost"), Judgement::Anywhere);
        assert_eq!(judge(&rules, "10.1.2.3"), Judgement::Anywhere);
        for local in [
            "127.0.0.1",
            "0x7f.1",
            "10.1.2.4",
            "[::1]",
            "169.254.169.254",
            "a.localhost",
        ] {
            assert_eq!(judge(&rules, local), Judgement::Local, "{local}");
        }
        assert_eq!(judge(&rules, "93.184.216.34"), Judgement::Public);
    }

    #[test]
    fn with_local_addresses_allowed_they_are_as_others() {
        let rules = rules(&["*.test"], &["10.0.0.1"], true);
        assert_eq!(judge(&rules, "priv.test"), Judgement::Anywhere);
        assert_eq!(judge(&rules, "127.0.0.1"), Judgement::Unknown);
        assert_eq!(judge(&rules, "10.0.0.1"), Judgement::Denied);
    }

    #[test]
    fn one_address_that_is_not_public_is_one_too_many() {
        let name = Host::parse("mixed.test").unwrap();
        let (public, private) = ("93.184.216.34".parse().unwrap(), "10.1.2.3".parse().unwrap());
        assert!(are_reachable(&name, Judgement::Public, &[public]));
        assert!(!are_reachable(&name, Judgement::Public, &[public, private]));
        assert!(are_reachable(&name, Judgement::Anywhere, &[public, private]));
        for never in [Judgement::Denied, Judgement::Local, Judgement::Unknown] {
            assert!(!are_reachable(&name, never, &[public]));
        }
        let own = Host::parse("localhost").unwrap();
        assert!(are_reachable(
            &own,
            Judgement::Anywhere,
            &["127.0.0.1".parse().unwrap()]
        ));
        assert!(!are_reachable(&own, Judgement::Anywhere, &[private]));
    }

    #[test]
    fn rules_are_bounded_and_checked() {
        let mut rules = Rules::default();
        assert!(matches!(rules.deny("*"), Err(RulesError::DeniesEverything(_))));
        assert!(matches!(rules.deny("[*]:80"), Err(RulesError::DeniesEverything(_))));
        assert!(matches!(rules.allow("a b"), Err(RulesError::Pattern(_))));
        for number in 0..MAX_RULES / 2 {
            rules.allow(&format!("{number}.test")).unwrap();
            rules.deny(&format!("{number}.test")).unwrap();
        }
        assert_eq!(rules.allow("x.test"), Err(RulesError::TooMany));
        assert_eq!(rules.deny("x.test"), Err(RulesError::TooMany));
    }

    #[test]
    fn the_limited_mode_takes_what_changes_nothing() {
        let mut rules = Rules::default();
        assert!(rules.takes_method("POST"));
        rules.mode = Mode::Limited;
        assert!(
            ["GET", "HEAD", "OPTIONS"]
                .iter()
                .all(|method| rules.takes_method(method))
        );
        assert!(
            !["POST", "get", "CONNECT", "DELETE"]
                .iter()
                .any(|method| rules.takes_method(method))
        );
    }
}
