//! The address of a client, also behind proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderMap;
use ipnet::IpNet;

/// Most proxies that one request may have passed.
const MAX_HOPS: usize = 16;

/// Which proxies may say whom they speak for.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Trusts every address in these networks.
    pub const fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// The client of a request that came over a socket from `peer`: the last address in `Forwarded` or
    /// `X-Forwarded-For` that no trusted proxy has.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        let mut client = peer;
        for hop in hops(headers) {
            let Some(address) = parse(&hop) else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// What failed authentications are counted by: the address, or the /64 network of an IPv6 address.
pub fn bucket(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
    }
}

/// The hops that the headers name, nearest first. `Forwarded` wins: mixing both would let a client add to one of them.
fn hops(headers: &HeaderMap) -> Vec<String> {
    let list = |name: &str| -> Vec<String> {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|part| part.trim().to_owned())
            .collect()
    };
    let forwarded = list("forwarded");
    let mut hops: Vec<String> = if forwarded.is_empty() {
        list("x-forwarded-for")
    } else {
        forwarded.iter().map(|element| for_parameter(element)).collect()
    };
    hops.reverse();
    hops.truncate(MAX_HOPS);
    hops
}

fn for_parameter(element: &str) -> String {
    element
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| name.eq_ignore_ascii_case("for"))
        .map_or_else(String::new, |(_, value)| value.trim_matches('"').to_owned())
}

/// An address with or without a port, an IPv6 address with or without brackets.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &str)]) -> String {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        trusted.client(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn believes_only_trusted_proxies() {
        assert_eq!(client("192.0.2.1", &[("x-forwarded-for", "198.51.100.1")]), "192.0.2.1");
        assert_eq!(
            client("10.0.0.1", &[("x-forwarded-for", "198.51.100.1")]),
            "198.51.100.1"
        );
        assert_eq!(
            client("::ffff:10.0.0.1", &[("x-forwarded-for", "198.51.100.1")]),
            "198.51.100.1"
        );
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn a_client_cannot_choose_its_address() {
        let lie = "203.0.113.9, 198.51.100.1, 10.2.2.2";
        assert_eq!(client("10.0.0.1", &[("x-forwarded-for", lie)]), "198.51.100.1");
        assert_eq!(
            client("10.0.0.1", &[("x-forwarded-for", "nonsense, 10.2.2.2")]),
            "10.2.2.2"
        );
        let both = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=198.51.100.1")];
        assert_eq!(client("10.0.0.1", &both), "198.51.100.1");
    }

    #[test]
    fn reads_every_form() {
        for (value, expected) in [
            ("for=198.51.100.1:4711;proto=https", "198.51.100.1"),
            ("proto=https;For=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=\"[2001:db8::2]\"", "2001:db8::2"),
            ("for=_hidden", "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", &[("forwarded", value)]), expected, "{value}");
        }
    }

    #[test]
    fn counts_ipv6_by_network() {
        let of = |text: &str| bucket(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
