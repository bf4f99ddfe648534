//! What a program wants to reach, in the one form that rules are compared with.

use std::fmt;
use std::net::IpAddr;

use super::address;

/// Longest name of a host, in bytes.
pub const MAX_HOST: usize = 253;

/// A host: an address, or a name in lower case and ASCII without a dot at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address; one of IPv4 inside of IPv6 is that of IPv4.
    Address(IpAddr),
    /// A name.
    Name(String),
}

/// The text names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid host")]
pub struct HostError;

impl Host {
    /// Reads a host as it stands in a request. All that a resolver would take for an address is one, such as `127.1`,
    /// so that no rule on addresses is passed by in the dress of a name.
    ///
    /// # Errors
    ///
    /// When it is no host, or longer than [`MAX_HOST`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() || text.len() > MAX_HOST + 2 {
            return Err(HostError);
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Ok(Self::from(address));
        }
        // The parser would decode what resolvers take as it is.
        if text.contains('%') {
            return Err(HostError);
        }
        match url::Host::parse(text).map_err(|_| HostError)? {
            url::Host::Ipv4(address) => Ok(Self::from(IpAddr::V4(address))),
            url::Host::Ipv6(address) => Ok(Self::from(IpAddr::V6(address))),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let is_name = !name.is_empty() && name.len() <= MAX_HOST && name.split('.').all(is_label);
                if is_name {
                    Ok(Self::Name(name.to_owned()))
                } else {
                    Err(HostError)
                }
            }
        }
    }

    /// Whether it names this machine or a place that is not public, without asking a resolver.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Address(address) => !address::are_public(&[*address]),
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && label.len() <= 63 && label.bytes().all(|byte| byte.is_ascii_graphic())
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A host and a port of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Target {
    /// Reads `HOST` or `HOST:PORT`; an address of IPv6 stands in brackets.
    ///
    /// # Errors
    ///
    /// When it is neither, or there is no port but 0.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(parse_port(port)?)),
            _ => (text, default_port),
        };
        // Otherwise nobody could tell its last group from a port.
        if host.contains(':') && !host.starts_with('[') {
            return Err(HostError);
        }
        Ok(Self {
            host: Host::parse(host)?,
            port: port.filter(|port| *port != 0).ok_or(HostError)?,
        })
    }
}

fn parse_port(text: &str) -> Result<u16, HostError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HostError);
    }
    text.parse().map_err(|_| HostError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<String> {
        Host::parse(text).ok().map(|host| host.to_string())
    }

    #[test]
    fn every_spelling_of_a_host_is_one() {
        for (text, expected) in [
            ("Example.TEST", "example.test"),
            ("example.test.", "example.test"),
            ("b\u{fc}cher.test", "xn--bcher-kva.test"),
            ("XN--BCHER-KVA.test", "xn--bcher-kva.test"),
            ("ex\u{ff41}mple\u{3002}test", "example.test"),
            ("a_b.test", "a_b.test"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[0:0:0:0:0:0:7f00:1]", "::7f00:1"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_host() {
        let long = "a.".repeat(130);
        let label = "a".repeat(64) + ".test";
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "a@b",
            "a%41",
            "%00",
            "[::1",
            "::1]",
            "[fe80::1%25eth0]",
            "fe80::1%eth0",
            "1.2.3.4.5",
            "256.1.1.1",
            "a\0b",
            "a\r\nb",
            "[]",
            "[a]",
            &long,
            &label,
        ] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_target_has_a_port() {
        let read = |text, default| {
            Target::parse(text, default)
                .ok()
                .map(|target| (target.host.to_string(), target.port))
        };
        assert_eq!(read("a.test:81", None), Some(("a.test".into(), 81)));
        assert_eq!(read("a.test", Some(80)), Some(("a.test".into(), 80)));
        assert_eq!(read("[::1]:81", None), Some(("::1".into(), 81)));
        assert_eq!(read("[::1]", Some(80)), Some(("::1".into(), 80)));
        for text in [
            "a.test",
            "a.test:",
            "a.test:0",
            "a.test:65536",
            "a.test:+1",
            "a.test:1 ",
            ":80",
            "::1",
            "::1:80",
            "a:b:80",
        ] {
            assert_eq!(read(text, None), None, "{text}");
        }
    }

    #[test]
    fn some_names_are_local_by_themselves() {
        for (text, expected) in [
            ("localhost", true),
            ("x.LocalHost.", true),
            ("localhost.test", false),
            ("10.0.0.1", true),
            ("93.184.216.34", false),
        ] {
            assert_eq!(Host::parse(text).unwrap().is_local(), expected, "{text}");
        }
    }
}
