//! Hosts that are reached without a proxy: `NO_PROXY`.

use std::net::IpAddr;

use ipnet::IpNet;
use url::Host;

/// Longest list that is looked at, in entries. Hosts beyond it go through the proxy.
pub const MAX_ENTRIES: usize = 1024;

/// What `NO_PROXY` says: entries between commas or white space.
///
/// * `*`: no host needs a proxy.
/// * `example.org`, `.example.org`, `*.example.org`: the host and all below it.
/// * `192.0.2.7`, `[2001:db8::7]`, `192.0.2.0/24`: hosts that are given by address.
///
/// Each may end with `:PORT`, and then holds for that port only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exempt {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// In lower case, without dots around it.
    Domain(String),
    Net(IpNet),
}

impl Exempt {
    /// Reads a list. An entry that is none matches nothing.
    pub(super) fn parse(text: &str) -> Self {
        let words = text.split(|c: char| c == ',' || c.is_whitespace());
        let words = words.filter(|word| !word.is_empty()).take(MAX_ENTRIES);
        Self {
            entries: words.filter_map(Entry::parse).collect(),
        }
    }

    pub(super) fn covers(&self, host: &Host<String>, port: u16) -> bool {
        self.entries.iter().any(|entry| entry.covers(host, port))
    }
}

impl Entry {
    fn parse(word: &str) -> Option<Self> {
        let (host, port) = split_port(word)?;
        let host = host.to_ascii_lowercase();
        let hosts = if host == "*" {
            Hosts::All
        } else if let Some(net) = net(&host) {
            Hosts::Net(net)
        } else {
            let name = host.strip_prefix('*').unwrap_or(&host).trim_matches('.');
            if name.is_empty() {
                return None;
            }
            Hosts::Domain(name.to_owned())
        };
        Some(Self { hosts, port })
    }

    fn covers(&self, host: &Host<String>, port: u16) -> bool {
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Domain(own), Host::Domain(name)) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let above = name.strip_suffix(own.as_str());
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
            (Hosts::Net(net), Host::Ipv4(ip)) => net.contains(&IpAddr::V4(*ip)),
            (Hosts::Net(net), Host::Ipv6(ip)) => net.contains(&ip.to_canonical()),
            (Hosts::Domain(_), Host::Ipv4(_) | Host::Ipv6(_)) | (Hosts::Net(_), Host::Domain(_)) => false,
        }
    }
}

/// The host, and the port behind it; none if that is no port. An IPv6 address without brackets has none.
fn split_port(word: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = word.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => Some((host, None)),
        };
    }
    match word.split_once(':') {
        Some((_, port)) if port.contains(':') => Some((word, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((word, None)),
    }
}

fn net(text: &str) -> Option<IpNet> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical().into());
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(list: &str, host: &str, port: u16) -> bool {
        Exempt::parse(list).covers(&Host::parse(host).expect(host), port)
    }

    #[test]
    fn names_cover_themselves_and_what_is_below() {
        for list in ["example.org", ".example.org", "*.example.org", "EXAMPLE.org."] {
            assert!(covers(list, "example.org", 443), "{list}");
            assert!(covers(list, "a.b.example.org", 443), "{list}");
            assert!(covers(list, "a.example.org.", 443), "{list}");
            assert!(!covers(list, "notexample.org", 443), "{list}");
            assert!(!covers(list, "example.org.evil", 443), "{list}");
        }
        assert!(!covers("10.0.0.1", "a.example.org", 443));
    }

    #[test]
    fn addresses_and_nets_cover_addresses() {
        assert!(covers("192.0.2.7", "192.0.2.7", 1));
        assert!(!covers("192.0.2.7", "192.0.2.70", 1));
        assert!(covers("192.0.2.0/24", "192.0.2.70", 1));
        assert!(!covers("192.0.2.0/24", "192.0.3.1", 1));
        for list in ["2001:db8::7", "[2001:db8::7]", "2001:db8::/32"] {
            assert!(covers(list, "[2001:db8::7]", 1), "{list}");
        }
        assert!(covers("192.0.2.0/24", "[::ffff:192.0.2.1]", 1));
        // Whoever writes a suffix of an address means no net.
        assert!(!covers(".0.2.7", "192.0.2.7", 1));
    }

    #[test]
    fn a_port_narrows_an_entry() {
        for list in ["example.org:8443", "192.0.2.7:8443", "[2001:db8::7]:8443", "*:8443"] {
            let host = match list {
                "192.0.2.7:8443" => "192.0.2.7",
                "[2001:db8::7]:8443" => "[2001:db8::7]",
                _ => "example.org",
            };
            assert!(covers(list, host, 8443), "{list}");
            assert!(!covers(list, host, 443), "{list}");
        }
    }

    #[test]
    fn lists_have_many_forms() {
        let list = " a.example ,b.example\tc.example,, ";
        for host in ["a.example", "b.example", "c.example"] {
            assert!(covers(list, host, 1), "{host}");
        }
        assert!(covers("*", "anything.example", 1) && covers("*", "[::2]", 1));
        for list in ["", ",", ".", "*.", "a.example:port", "[::1", "a.example:99999"] {
            assert!(!covers(list, "a.example", 1), "{list:?}");
            assert_eq!(Exempt::parse(list), Exempt::default(), "{list:?}");
        }
        let long = "x.example,".repeat(MAX_ENTRIES) + "a.example";
        assert!(!covers(&long, "a.example", 1));
    }
}
