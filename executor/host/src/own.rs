//! Where this program itself listens, and the addresses of its machine.
//!
//! A proxy must not let a confined program talk to the executor: what listens here takes orders, and gives programs
//! without confinement.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::ifaddrs::getifaddrs;

static LISTENING: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

fn listening() -> MutexGuard<'static, Vec<SocketAddr>> {
    LISTENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that a socket of this program listens, until it is dropped.
#[derive(Debug)]
pub struct Listening(SocketAddr);

impl Listening {
    /// Names the address that a socket is bound to, with its real port.
    #[must_use = "dropped, it ends"]
    pub fn at(address: SocketAddr) -> Self {
        listening().push(address);
        Self(address)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut all = listening();
        if let Some(at) = all.iter().position(|address| *address == self.0) {
            all.swap_remove(at);
        }
    }
}

/// Whether a connection to `target` would come to a socket of this program.
pub(crate) fn listens_at(target: SocketAddr) -> bool {
    let own: Vec<SocketAddr> = listening()
        .iter()
        .filter(|own| own.port() == target.port())
        .copied()
        .collect();
    if own.is_empty() {
        return false;
    }
    // Where the system cannot tell its addresses, any might be one.
    let interfaces = interfaces().ok();
    own.iter().any(|own| meets(*own, target.ip(), interfaces.as_deref()))
}

/// Whether a socket bound to `own` takes what goes to `target`, with the same port.
fn meets(own: SocketAddr, target: IpAddr, interfaces: Option<&[IpAddr]>) -> bool {
    let (own, target) = (own.ip().to_canonical(), target.to_canonical());
    if target.is_unspecified() || own == target {
        return true;
    }
    own.is_unspecified() && (target.is_loopback() || interfaces.is_none_or(|all| all.contains(&target)))
}

/// The addresses of this machine's interfaces.
///
/// # Errors
///
/// When the system does not tell.
pub(crate) fn interfaces() -> io::Result<Vec<IpAddr>> {
    let addresses = getifaddrs()?.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    Ok(addresses.map(|address| address.to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_socket_is_known_while_it_listens() {
        // Ports that no socket of a test gets by itself.
        let listening = Listening::at(at("127.0.0.1:1"));
        let twice = Listening::at(at("127.0.0.1:1"));
        for same in ["127.0.0.1:1", "0.0.0.0:1", "[::]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(listens_at(at(same)), "{same}");
        }
        for other in ["127.0.0.1:2", "127.0.0.2:1", "[::1]:1", "93.184.216.34:1"] {
            assert!(!listens_at(at(other)), "{other}");
        }
        drop(listening);
        assert!(listens_at(at("127.0.0.1:1")));
        drop(twice);
        assert!(!listens_at(at("127.0.0.1:1")));
    }

    #[test]
    fn a_socket_for_every_address_is_at_each_of_the_machine() {
        let interface: IpAddr = "192.0.2.7".parse().unwrap();
        for any in ["0.0.0.0:3", "[::]:3"] {
            let own = at(any);
            for here in [
                "127.0.0.1",
                "127.9.9.9",
                "::1",
                "::ffff:127.0.0.1",
                "0.0.0.0",
                "::",
                "192.0.2.7",
            ] {
                assert!(meets(own, here.parse().unwrap(), Some(&[interface])), "{here}");
            }
            assert!(!meets(own, "192.0.2.8".parse().unwrap(), Some(&[interface])));
            assert!(meets(own, "192.0.2.8".parse().unwrap(), None));
        }
        let _listening = Listening::at(at("0.0.0.0:4"));
        let machine = interfaces().unwrap();
        assert!(machine.iter().any(IpAddr::is_loopback));
        for address in machine {
            assert!(listens_at(SocketAddr::new(address, 4)), "{address}");
        }
    }
}
