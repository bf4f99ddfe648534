//! The addresses of a host, tried beside each other (RFC 8305).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Most addresses of one host that are tried.
pub(crate) const MAX_ADDRESSES: usize = 16;
/// How long an address may take before the next one is tried beside it.
pub(crate) const STAGGER: Duration = Duration::from_millis(250);

/// The resolver's order, but with the two families taking turns.
pub(crate) fn interleave(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let addresses: Vec<_> = addresses.take(MAX_ADDRESSES).collect();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut same, mut other): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .rev()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut order = Vec::new();
    while let Some(address) = same.pop() {
        order.push(address);
        order.extend(other.pop());
    }
    order.extend(other.into_iter().rev());
    order
}

/// The first connection that comes up. A slow or failed address lets the next one start.
pub(crate) async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    attempts.extend(waiting.next().map(TcpStream::connect));
    loop {
        let next = tokio::select! {
            biased;
            Some(attempt) = attempts.next() => {
                match attempt {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
                waiting.next()
            }
            () = sleep(STAGGER), if waiting.len() > 0 => waiting.next(),
            else => return Err(last),
        };
        attempts.extend(next.map(TcpStream::connect));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse =
            |texts: &[&str]| -> Vec<SocketAddr> { texts.iter().map(|text| text.parse().expect("address")).collect() };
        let found = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]);
        let order = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
        assert_eq!(interleave(found.into_iter()), order);
        let found = parse(&["1.1.1.1:1", "[::1]:1", "[::2]:1"]);
        assert_eq!(interleave(found.clone().into_iter()), found);
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_good_one() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let good = listener.local_addr().expect("address");
        // Bound, so that nobody else gets the port, and not listening.
        let closed = tokio::net::TcpSocket::new_v4().expect("socket");
        closed.bind(([127, 0, 0, 1], 0).into()).expect("bind");
        let refused = closed.local_addr().expect("address");
        connect(vec![refused, good]).await.expect("the second address");
        let error = connect(vec![refused]).await.expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = connect(Vec::new()).await.expect_err("nothing");
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[tokio::test]
    async fn a_silent_address_is_not_waited_for() {
        let good = tokio::net::TcpListener::bind("[::1]:0").await.expect("bind");
        // A queue of one that is full: further connections get no answer.
        let full = tokio::net::TcpSocket::new_v4().expect("socket");
        full.bind(([127, 0, 0, 1], 0).into()).expect("bind");
        let full = full.listen(0).expect("listen");
        let silent = full.local_addr().expect("address");
        let mut filling: FuturesUnordered<_> = (0..8).map(|_| TcpStream::connect(silent)).collect();
        let mut held = Vec::new();
        while let Ok(Some(stream)) = tokio::time::timeout(STAGGER, filling.next()).await {
            held.push(stream);
        }
        assert!(!filling.is_empty(), "the kernel took them all");
        let good = good.local_addr().expect("address");
        let connected = connect(vec![silent, good]).await.expect("the other family");
        assert_eq!(connected.peer_addr().expect("address"), good);
    }
}
