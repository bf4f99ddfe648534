//! SOCKS5 (RFC 1928) without IO: what a client's bytes mean, and the answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::host::{Host, Target};

/// Most bytes of a greeting: version, count, 255 methods.
pub const MAX_GREETING: usize = 2 + 255;
/// Most bytes of a request: its head, a name of 255 bytes behind its length, the port.
pub const MAX_REQUEST: usize = 4 + 1 + 255 + 2;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What was read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed<T> {
    /// So many bytes of it are a whole.
    Whole(T, usize),
    /// More bytes are needed.
    Partial,
}

/// Bytes that no client of this protocol sends: it gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign;

/// Reads a greeting: whether one of its methods is none.
pub(super) fn greeting(bytes: &[u8]) -> Result<Parsed<bool>, Foreign> {
    let &[version, ref rest @ ..] = bytes else {
        return Ok(Parsed::Partial);
    };
    if version != VERSION {
        return Err(Foreign);
    }
    let &[count, ref rest @ ..] = rest else {
        return Ok(Parsed::Partial);
    };
    let count = usize::from(count);
    match rest.get(..count) {
        None => Ok(Parsed::Partial),
        Some(methods) => Ok(Parsed::Whole(methods.contains(&NO_AUTHENTICATION), 2 + count)),
    }
}

/// The answer to a greeting.
pub(super) fn method(accepted: bool) -> [u8; 2] {
    [VERSION, if accepted { NO_AUTHENTICATION } else { NO_METHOD }]
}

/// Reads a request: its target, or the reply that refuses it.
pub(super) fn request(bytes: &[u8]) -> Result<Parsed<Result<Target, Reply>>, Foreign> {
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(Foreign);
    }
    let &[_, command, _, kind, ref rest @ ..] = bytes else {
        return Ok(Parsed::Partial);
    };
    let len = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => match rest.first() {
            Some(len) => 1 + usize::from(*len),
            None => return Ok(Parsed::Partial),
        },
        _ => return Ok(Parsed::Whole(Err(Reply::AddressNotSupported), 4)),
    };
    let Some(address) = rest.get(..len + 2) else {
        return Ok(Parsed::Partial);
    };
    let whole = |target| Ok(Parsed::Whole(target, 4 + len + 2));
    if command != CONNECT {
        return whole(Err(Reply::CommandNotSupported));
    }
    let (address, port) = address.split_at(len);
    let port = port.try_into().map_or(0, u16::from_be_bytes);
    whole(
        host(kind, address)
            .filter(|_| port != 0)
            .map(|host| Target { host, port })
            .ok_or(Reply::Failed),
    )
}

fn host(kind: u8, bytes: &[u8]) -> Option<Host> {
    match kind {
        IPV4 => Some(Host::from(IpAddr::from(Ipv4Addr::from(
            <[u8; 4]>::try_from(bytes).ok()?,
        )))),
        IPV6 => Some(Host::from(IpAddr::from(Ipv6Addr::from(
            <[u8; 16]>::try_from(bytes).ok()?,
        )))),
        _ => Host::parse(str::from_utf8(bytes.get(1..)?).ok()?).ok(),
    }
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    Unreachable = 4,
    Refused = 5,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

impl Reply {
    /// The bytes; `bound` is our end of the connection that was made.
    pub(super) fn bytes(self, bound: Option<SocketAddr>) -> Vec<u8> {
        let bound = bound.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into());
        let mut bytes = vec![VERSION, self as u8, 0];
        match bound.ip() {
            IpAddr::V4(address) => {
                bytes.push(IPV4);
                bytes.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                bytes.push(IPV6);
                bytes.extend_from_slice(&address.octets());
            }
        }
        bytes.extend_from_slice(&bound.port().to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Parsed<Result<Target, Reply>> {
        Parsed::Whole(Ok(Target::parse(text, None).unwrap()), 0)
    }

    fn read(bytes: &[u8]) -> Result<Parsed<Result<Target, Reply>>, Foreign> {
        Ok(match request(bytes)? {
            Parsed::Whole(result, len) => {
                assert_eq!(len, bytes.len());
                Parsed::Whole(result, 0)
            }
            Parsed::Partial => Parsed::Partial,
        })
    }

    #[test]
    fn greetings() {
        assert_eq!(greeting(&[5, 1, 0]), Ok(Parsed::Whole(true, 3)));
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Ok(Parsed::Whole(true, 4)));
        assert_eq!(greeting(&[5, 1, 2]), Ok(Parsed::Whole(false, 3)));
        assert_eq!(greeting(&[5, 0]), Ok(Parsed::Whole(false, 2)));
        for partial in [&[][..], &[5], &[5, 2], &[5, 2, 0]] {
            assert_eq!(greeting(partial), Ok(Parsed::Partial));
        }
        for foreign in [&[4, 1, 0, 80][..], b"GET / HTTP/1.1\r\n", &[0]] {
            assert_eq!(greeting(foreign), Err(Foreign));
        }
        let longest = [&[5, 255][..], &[1; 255]].concat();
        assert_eq!(longest.len(), MAX_GREETING);
        assert_eq!(greeting(&longest), Ok(Parsed::Whole(false, MAX_GREETING)));
    }

    #[test]
    fn requests_of_every_kind_of_address() {
        assert_eq!(
            read(&[5, 1, 0, 1, 93, 184, 216, 34, 0, 80]),
            Ok(target("93.184.216.34:80"))
        );
        let name = [&[5, 1, 0, 3, 8][..], b"Pub.test", &[1, 187]].concat();
        assert_eq!(read(&name), Ok(target("pub.test:443")));
        let six = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(read(&six), Ok(target("[::1]:80")));
        for whole in [&name, &six] {
            for len in 0..whole.len() {
                assert_eq!(request(&whole[..len]), Ok(Parsed::Partial), "{len}");
            }
        }
    }

    #[test]
    fn an_address_in_the_dress_of_a_name_is_an_address() {
        for (text, expected) in [
            ("127.1", "127.0.0.1:80"),
            ("0x7f000001", "127.0.0.1:80"),
            ("::1", "[::1]:80"),
        ] {
            let name = [
                &[5, 1, 0, 3, u8::try_from(text.len()).unwrap()][..],
                text.as_bytes(),
                &[0, 80],
            ]
            .concat();
            assert_eq!(read(&name), Ok(target(expected)));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let refusal = |reply| Ok(Parsed::Whole(Err(reply), 0));
        assert_eq!(
            read(&[5, 2, 0, 1, 1, 1, 1, 1, 0, 80]),
            refusal(Reply::CommandNotSupported)
        );
        assert_eq!(
            read(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]),
            refusal(Reply::CommandNotSupported)
        );
        assert_eq!(read(&[5, 1, 0, 9]), refusal(Reply::AddressNotSupported));
        assert_eq!(read(&[5, 1, 0, 1, 1, 1, 1, 1, 0, 0]), refusal(Reply::Failed));
        assert_eq!(read(&[5, 1, 0, 3, 0, 0, 80]), refusal(Reply::Failed));
        for name in [&b"a b"[..], b"\xff\xfe", b"a\0b", b"pub.test:80", b"a\r\nb"] {
            let bytes = [&[5, 1, 0, 3, u8::try_from(name.len()).unwrap()][..], name, &[0, 80]].concat();
            assert_eq!(read(&bytes), refusal(Reply::Failed), "{name:?}");
        }
        assert_eq!(request(&[4, 1, 0, 80]), Err(Foreign));
        let longest = [&[5, 1, 0, 3, 255][..], &[b'a'; 255], &[0, 80]].concat();
        assert_eq!(longest.len(), MAX_REQUEST);
        assert_eq!(read(&longest), refusal(Reply::Failed));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000 {
            let mut bytes = [0; 24];
            for byte in &mut bytes {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                *byte = state.to_be_bytes()[0];
            }
            bytes[0] = 5;
            bytes[1] %= 4;
            bytes[3] %= 6;
            let _any = (greeting(&bytes[..round % 24]), request(&bytes[..round % 24]));
        }
    }

    #[test]
    fn replies_name_our_end() {
        assert_eq!(Reply::Refused.bytes(None), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
        let bound = Some("[::1]:258".parse().unwrap());
        let bytes = Reply::Succeeded.bytes(bound);
        assert_eq!((&bytes[..4], &bytes[18..]), (&[5, 0, 0, 4][..], &[0, 1, 1, 2][..]));
    }
}
