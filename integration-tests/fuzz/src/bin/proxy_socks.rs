//! What a program sends to the SOCKS5 proxy: a greeting, and a request behind it.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use rendezvous_fuzz::again;
use rendezvous_host::proxy::heads::{self, MAX_GREETING, MAX_REQUEST, Socks};

fuzz_target!(|data: &[u8]| {
    let Some((_, rest)) = whole(data, MAX_GREETING, heads::socks_greeting) else {
        return;
    };
    match whole(rest, MAX_REQUEST, heads::socks_request) {
        // A refused client is told so in a reply of its version.
        Some((Err(reply), _)) => assert!(reply.len() == 10 && reply[0] == 5 && reply[1] != 0, "{reply:?}"),
        Some((Ok(target), _)) => again(&target),
        None => {}
    }
});

/// What is whole, and what is behind it.
fn whole<T: Debug + PartialEq>(data: &[u8], most: usize, read: fn(&[u8]) -> Socks<T>) -> Option<(T, &[u8])> {
    let Socks::Whole(found, len) = read(data) else {
        // A server that has so many bytes and no whole waits no longer.
        assert!(data.len() < most || read(data) == Socks::Foreign, "{data:?}");
        return None;
    };
    // The same however the bytes arrive: not before the last of them, and whatever is behind.
    assert!(len <= most && len <= data.len());
    assert_eq!(read(&data[..len - 1]), Socks::Partial);
    match read(&data[..len]) {
        Socks::Whole(again, same) => assert_eq!((again, same), (found, len)),
        other => panic!("{other:?}"),
    }
    let Socks::Whole(found, _) = read(data) else {
        unreachable!()
    };
    Some((found, &data[len..]))
}
