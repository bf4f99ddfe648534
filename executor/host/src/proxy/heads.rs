//! What the first bytes of a program's connection ask its proxies for, as the servers read them, without IO: for whoever
//! wants to try bytes on the decoders.

use http::{HeaderMap, Method, Uri};

use super::host::Target;
use super::socks::{self, Foreign, Parsed};
use super::target::{self, Request};

pub use super::socks::{MAX_GREETING, MAX_REQUEST};

/// What a SOCKS5 client's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socks<T> {
    /// So many bytes of them are a whole.
    Whole(T, usize),
    /// The begin of a whole.
    Partial,
    /// Not of this protocol.
    Foreign,
}

impl<T> Socks<T> {
    fn new<U>(parsed: Result<Parsed<U>, Foreign>, map: impl FnOnce(U) -> T) -> Self {
        match parsed {
            Ok(Parsed::Whole(whole, len)) => Self::Whole(map(whole), len),
            Ok(Parsed::Partial) => Self::Partial,
            Err(Foreign) => Self::Foreign,
        }
    }
}

/// Reads a greeting of at most [`MAX_GREETING`] bytes: whether the client can do without authentication.
pub fn socks_greeting(bytes: &[u8]) -> Socks<bool> {
    Socks::new(socks::greeting(bytes), |accepted| accepted)
}

/// Reads a request of at most [`MAX_REQUEST`] bytes: its target, or the answer that refuses it.
pub fn socks_request(bytes: &[u8]) -> Socks<Result<Target, Vec<u8>>> {
    Socks::new(socks::request(bytes), |target| {
        target.map_err(|reply| reply.bytes(None))
    })
}

/// Reads the head of an HTTP request: its target.
///
/// # Errors
///
/// Why it is refused.
pub fn http_request(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Target, &'static str> {
    match target::read(method, uri, headers)? {
        Request::Tunnel(target) | Request::Forward(target) => Ok(target),
    }
}

/// Leaves of a message's headers those that are for who is behind the proxy.
pub fn pass_on(headers: &mut HeaderMap) {
    target::remove_hop_by_hop(headers);
}
