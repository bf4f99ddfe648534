//! What several targets and the seed writer share: fixed keys, names and draws, so that a seed made once stays valid.

pub mod ticket;

use std::convert::Infallible;
use std::net::IpAddr;

use rendezvous_channel::{Identity, Prologue};
use rendezvous_host::proxy::{Host, Target};
use rendezvous_wire::id::{BootId, EnvironmentId, RegistrationId, StreamId};

/// Key of the records of the record target.
pub const RECORD_KEY: [u8; 32] = [7; 32];
/// The time at which tickets are verified, seconds since the Unix epoch.
pub const NOW: u64 = 1_800_000_000;
/// Seed of the key that signs tickets.
pub const TICKET_SEED: [u8; 32] = [9; 32];
/// Name of that key.
pub const KEY_ID: &str = "fuzz";

/// The identity number `number`.
pub fn identity(number: u8) -> Identity {
    Identity::from_seeds(&[number; 32], &[number; 64])
}

/// The environment of every handshake and ticket.
pub fn environment() -> EnvironmentId {
    EnvironmentId::new("env-1").expect("a valid id")
}

/// The relay that harness tickets are made out to.
pub fn boot_id() -> BootId {
    BootId::new("boot-1").expect("a valid id")
}

/// The prologue of every handshake.
pub fn prologue() -> Prologue {
    Prologue::new(
        &environment(),
        &RegistrationId::new("registration-1").expect("a valid id"),
        &StreamId::new("stream-1").expect("a valid id"),
    )
}

/// Draws that look random and are always the same.
#[derive(Debug)]
pub struct Draws(pub u64);

impl rand_core::TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.try_next_u64()? as u32)
    }

    // SplitMix64.
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(z ^ (z >> 31))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for part in out.chunks_mut(8) {
            let draw = self.try_next_u64()?.to_le_bytes();
            part.copy_from_slice(&draw[..part.len()]);
        }
        Ok(())
    }
}

impl rand_core::TryCryptoRng for Draws {}

/// Cuts fuzz input into parts: two big-endian bytes of length, then the part; the last one may be short.
pub fn parts(mut data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let (part, rest) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes(*length))));
        parts.push(part);
        data = rest;
    }
    parts
}

/// The inverse of [`parts`].
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    let mut data = Vec::new();
    for part in parts {
        let length = u16::try_from(part.len()).expect("a short part");
        data.extend_from_slice(&length.to_be_bytes());
        data.extend_from_slice(part);
    }
    data
}

/// An accepted target of a proxy names the same when it is written and read again: what rules see is what is dialled.
pub fn again(target: &Target) {
    let text = match target.host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]:{}", target.port),
        _ => format!("{}:{}", target.host, target.port),
    };
    assert_eq!(Target::parse(&text, None).as_ref(), Ok(target), "{text}");
}
