//! Patterns of hosts.

use std::net::IpAddr;

use super::host::{Host, MAX_HOST};
use crate::glob;

/// Which hosts a rule is about, as stock clients write it: `example.com`; `*.example.com` for everything below it;
/// `**.example.com` for both; `*` and `?` anywhere in a name, also across dots; `*` for everything; an address, which for
/// IPv6 may stand in brackets. A port behind it is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    shape: Shape,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Everything,
    Exact(Host),
    /// Names that match `glob` or `apex`.
    Names {
        glob: Vec<u8>,
        apex: Option<Vec<u8>>,
    },
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// There is nothing, or nothing but wildcards and dots.
    #[error("domain pattern is empty")]
    Empty,
    /// A `**` that is not at the begin of a name.
    #[error("unsupported repeated wildcard: {0}")]
    Repeated(String),
    /// Brackets around something else than an address.
    #[error("brackets are only supported for IPv6 literals or [*]: {0}")]
    Brackets(String),
    /// Something that no host has.
    #[error("unsupported domain pattern syntax: {0}")]
    Syntax(String),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// See [`PatternError`].
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let syntax = || PatternError::Syntax(text.chars().take(MAX_HOST).collect());
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(PatternError::Empty);
        }
        if trimmed.len() > MAX_HOST + 8 {
            return Err(syntax());
        }
        let (body, port) = split_port(trimmed).ok_or_else(syntax)?;
        let shape = match body {
            "*" | "[*]" => Shape::Everything,
            _ if body.starts_with('[') || body.ends_with(']') || body.parse::<IpAddr>().is_ok() => {
                let host = Host::parse(body).map_err(|_| PatternError::Brackets(text.to_owned()))?;
                Shape::Exact(host)
            }
            _ if body.contains(['[', ']']) => return Err(PatternError::Brackets(text.to_owned())),
            _ if !body.contains(['*', '?']) => Shape::Exact(Host::parse(body).map_err(|_| syntax())?),
            _ => Shape::names(body, text)?,
        };
        Ok(Self { shape, port })
    }

    /// Whether a rule that allows is about this host and port.
    pub(super) fn allows(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|own| own == port) && self.names(host)
    }

    /// Whether a rule that denies is about this host: whatever the port, as stock executors have it.
    pub(super) fn denies(&self, host: &Host) -> bool {
        self.names(host)
    }

    /// Whether a rule that denies is about this address where a name leads to it. Patterns of names are not: `*.*` would be
    /// about every address.
    pub(super) fn denies_address(&self, address: IpAddr) -> bool {
        let is_about_addresses = match &self.shape {
            Shape::Everything => true,
            Shape::Exact(host) => matches!(host, Host::Address(_)),
            Shape::Names { glob, .. } => {
                glob.iter().any(u8::is_ascii_digit)
                    && glob.iter().all(|byte| byte.is_ascii_digit() || b".*?".contains(byte))
            }
        };
        is_about_addresses && self.names(&Host::from(address))
    }

    /// Whether it names this one host and no other.
    pub(super) fn is_exactly(&self, host: &Host) -> bool {
        matches!(&self.shape, Shape::Exact(own) if own == host)
    }

    /// Whether it is about every host.
    pub(super) fn is_everything(&self) -> bool {
        self.shape == Shape::Everything
    }

    fn names(&self, host: &Host) -> bool {
        match (&self.shape, host) {
            (Shape::Everything, _) => true,
            (Shape::Exact(own), host) => own == host,
            (Shape::Names { glob, apex }, Host::Name(name)) => {
                let name = name.as_bytes();
                glob::matches(glob, name) || apex.as_ref().is_some_and(|apex| glob::matches(apex, name))
            }
            (Shape::Names { glob, .. }, Host::Address(IpAddr::V4(address))) => {
                glob::matches(glob, address.to_string().as_bytes())
            }
            (Shape::Names { .. }, Host::Address(IpAddr::V6(_))) => false,
        }
    }
}

impl Shape {
    fn names(body: &str, text: &str) -> Result<Self, PatternError> {
        let (rest, with_apex) = match body.strip_prefix("**.") {
            Some(rest) => (rest, true),
            None => (body.strip_prefix("*.").unwrap_or(body), false),
        };
        if rest.contains("**") {
            return Err(PatternError::Repeated(text.to_owned()));
        }
        let rest = rest.strip_suffix('.').unwrap_or(rest);
        if rest.is_empty() {
            return Err(PatternError::Empty);
        }
        let rest = ascii(rest).ok_or_else(|| PatternError::Syntax(text.to_owned()))?;
        let is_below = with_apex || body.starts_with("*.");
        let glob = if is_below { format!("*.{rest}") } else { rest.clone() };
        Ok(Self::Names {
            glob: glob.into_bytes(),
            apex: with_apex.then(|| rest.into_bytes()),
        })
    }
}

/// The pattern before a port, and the port.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if text.parse::<IpAddr>().is_ok() {
        return Some((text, None));
    }
    match text.rsplit_once(':') {
        Some((body, port)) if !port.ends_with(']') => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|port| is_number && *port != 0)?;
            let is_body = !body.is_empty() && (!body.contains(':') || body.starts_with('['));
            is_body.then_some((body, Some(port)))
        }
        _ => Some((text, None)),
    }
}

/// The labels in lower case and ASCII, where none is empty or holds a wildcard beside foreign letters.
fn ascii(text: &str) -> Option<String> {
    let labels: Option<Vec<String>> = text
        .split('.')
        .map(|label| {
            if label.is_empty() {
                return None;
            }
            if label.is_ascii() {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*?".contains(&byte);
                return label.bytes().all(is_plain).then(|| label.to_ascii_lowercase());
            }
            if label.contains(['*', '?']) {
                return None;
            }
            match url::Host::parse(label) {
                Ok(url::Host::Domain(label)) if !label.contains('.') => Some(label),
                _ => None,
            }
        })
        .collect();
    Some(labels?.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, host: &str) -> bool {
        let pattern = Pattern::parse(pattern).unwrap();
        let host = Host::parse(host).unwrap();
        assert_eq!(pattern.allows(&host, 80), pattern.denies(&host), "{pattern:?}");
        pattern.denies(&host)
    }

    #[test]
    fn patterns_name_hosts() {
        for (pattern, yes, no) in [
            (
                "pub.test",
                &["pub.test", "PUB.test."][..],
                &["sub.pub.test", "xpub.test", "pub.test.x"][..],
            ),
            ("Pub.Test.", &["pub.test"], &["test"]),
            (
                "*.pub.test",
                &["sub.pub.test", "a.b.pub.test"],
                &["pub.test", "xpub.test", "sub.pub.test.evil"],
            ),
            (
                "**.pub.test",
                &["pub.test", "sub.pub.test", "a.b.pub.test"],
                &["xpub.test"],
            ),
            ("*", &["pub.test", "1.2.3.4", "[::1]"], &[]),
            ("[*]", &["pub.test", "1.2.3.4"], &[]),
            ("p?b.test", &["pub.test", "pab.test"], &["pb.test"]),
            ("*ub.test", &["pub.test", "a.ub.test"], &["pub.test.x"]),
            ("pub.*", &["pub.test", "pub.a.b"], &["pub"]),
            ("p*st", &["pub.test", "pst"], &["pub.tes"]),
            ("*.*", &["a.b"], &["localhost"]),
            (
                "**.pub.*",
                &["pub.test", "a.pub.test", "pub.a.b"],
                &["xpub.test", "pub"],
            ),
            (
                "b\u{fc}cher.test",
                &["xn--bcher-kva.test", "B\u{dc}CHER.test"],
                &["bucher.test"],
            ),
            ("*.b\u{fc}cher.test", &["a.xn--bcher-kva.test"], &["xn--bcher-kva.test"]),
            ("1.2.3.4", &["1.2.3.4", "0x01020304", "[::ffff:1.2.3.4]"], &["1.2.3.40"]),
            ("1.2.*", &["1.2.3.4"], &["11.2.3.4"]),
            ("[::1]", &["::1", "[0::1]"], &["::2"]),
            ("::1", &["::1"], &["::2"]),
        ] {
            for host in yes {
                assert!(is_match(pattern, host), "{pattern} on {host}");
            }
            for host in no {
                assert!(!is_match(pattern, host), "{pattern} on {host}");
            }
        }
    }

    #[test]
    fn a_port_narrows_what_is_allowed_and_never_what_is_denied() {
        let host = Host::parse("pub.test").unwrap();
        for text in ["pub.test:81", "*.test:81", "*:81"] {
            let pattern = Pattern::parse(text).unwrap();
            assert!(pattern.allows(&host, 81) && !pattern.allows(&host, 80), "{text}");
            assert!(pattern.denies(&host), "{text}");
        }
        let pattern = Pattern::parse("[::1]:81").unwrap();
        assert!(pattern.allows(&Host::parse("::1").unwrap(), 81));
    }

    #[test]
    fn a_denied_address_is_one_under_every_name() {
        let denies = |pattern: &str, address: &str| {
            Pattern::parse(pattern)
                .unwrap()
                .denies_address(address.parse().unwrap())
        };
        for pattern in [
            "1.2.3.4",
            "1.2.3.4:80",
            "1.2.*",
            "1.2.3.?",
            "0x01020304",
            "[::ffff:1.2.3.4]",
        ] {
            assert!(denies(pattern, "1.2.3.4"), "{pattern}");
            assert!(denies(pattern, "::ffff:1.2.3.4"), "{pattern}");
            assert!(!denies(pattern, "1.3.3.4"), "{pattern}");
        }
        assert!(denies("[::2]", "::2") && !denies("[::2]", "::3"));
        for pattern in ["*.*", "*.test", "4.test"] {
            assert!(!denies(pattern, "1.2.3.4"), "{pattern}");
        }
    }

    #[test]
    fn refuses_what_is_no_pattern() {
        let long = "a".repeat(300);
        for (text, error) in [
            ("", "domain pattern is empty"),
            (" ", "domain pattern is empty"),
            ("*.", "domain pattern is empty"),
            ("**.", "domain pattern is empty"),
            ("**", "unsupported repeated wildcard: **"),
            ("a**b", "unsupported repeated wildcard: a**b"),
            (
                "[pb]ub.test",
                "brackets are only supported for IPv6 literals or [*]: [pb]ub.test",
            ),
            // They would match nothing, which a rule that denies must not.
            (".pub.test", "unsupported domain pattern syntax: .pub.test"),
            (".*.test", "unsupported domain pattern syntax: .*.test"),
            ("*..test", "unsupported domain pattern syntax: *..test"),
            ("**..test", "unsupported domain pattern syntax: **..test"),
            ("a b", "unsupported domain pattern syntax: a b"),
            ("http://x", "unsupported domain pattern syntax: http://x"),
            ("10.0.0.0/8", "unsupported domain pattern syntax: 10.0.0.0/8"),
            ("x:0", "unsupported domain pattern syntax: x:0"),
            ("x:99999", "unsupported domain pattern syntax: x:99999"),
            ("*\u{fc}.test", "unsupported domain pattern syntax: *\u{fc}.test"),
            ("a%41", "unsupported domain pattern syntax: a%41"),
        ] {
            assert_eq!(Pattern::parse(text).unwrap_err().to_string(), error, "{text}");
        }
        assert!(matches!(Pattern::parse(&long), Err(PatternError::Syntax(_))));
    }

    #[test]
    fn a_bomb_of_wildcards_does_not_go_off() {
        let pattern = Pattern::parse(&("*a".repeat(100) + "b")).unwrap();
        assert!(!pattern.denies(&Host::Name("a".repeat(MAX_HOST))));
    }
}
