//! Which addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::own;

/// Ranges of IPv4 that are not for the public Internet: address and length of the prefix.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Whether packets to all these addresses leave for the public Internet, which they do not for one of this machine.
pub(super) fn are_public(addresses: &[IpAddr]) -> bool {
    addresses.iter().all(|address| is_global(*address)) && {
        let interfaces = own::interfaces().unwrap_or_default();
        addresses.iter().all(|address| is_another(*address, &interfaces))
    }
}

fn is_another(address: IpAddr, interfaces: &[IpAddr]) -> bool {
    !interfaces.contains(&address.to_canonical())
}

/// Whether an address is one of the public Internet.
///
/// What is translated or tunnelled to an address of IPv4 (NAT64, 6to4, Teredo) is not, whatever address that is.
fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !SPECIAL_V4.iter().any(|(range, bits)| {
            let mask = u32::MAX << (u32::BITS - bits);
            address.to_bits() & mask == range.to_bits()
        }),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether nothing may be dialled there, whatever rules say: the system takes such an address for this machine.
pub(super) fn is_no_target(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets()[0] == 0,
        IpAddr::V6(address) => address.is_unspecified(),
    }
}

/// Only 2000::/3 is given out at all.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Protocol assignments, Teredo among them.
        [0x2001, second, ..] if second < 0x200 => false,
        // Documentation.
        [0x2001, 0xdb8, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // 6to4.
        [0x2002, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        are_public(&[text.parse().unwrap()])
    }

    #[test]
    fn special_addresses_are_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.255.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:a00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!public(text), "{text}");
        }
    }

    #[test]
    fn an_address_of_this_machine_is_local() {
        let own: IpAddr = "93.184.216.34".parse().unwrap();
        for same in ["93.184.216.34", "::ffff:93.184.216.34"] {
            assert!(!is_another(same.parse().unwrap(), &[own]), "{same}");
        }
        assert!(is_another("93.184.216.35".parse().unwrap(), &[own]));
    }

    #[test]
    fn this_network_is_no_target() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "0.255.255.255",
            "::",
            "::ffff:0.0.0.0",
            "::ffff:0.0.0.1",
        ] {
            assert!(is_no_target(text.parse().unwrap()), "{text}");
        }
        for text in ["1.0.0.0", "127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(!is_no_target(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn their_neighbours_are() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
            "2003::1",
        ] {
            assert!(public(text), "{text}");
        }
    }
}
