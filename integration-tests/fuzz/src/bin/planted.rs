//! A decoder with a bug on purpose: it panics on four bytes that no seed contains.
//!
//! The run script fails when the fuzzer does *not* find it: coverage feedback would be broken then, and the silence of
//! the other targets would mean nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if parse(data) == Some(4) {
        panic!("planted bug found");
    }
});

/// The length of the magic number that `data` starts with.
fn parse(data: &[u8]) -> Option<usize> {
    let mut matched = 0;
    for (got, want) in data.iter().zip(b"RDV!") {
        if got != want {
            return Some(matched);
        }
        matched += 1;
    }
    Some(matched)
}
