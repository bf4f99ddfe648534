//! Both messages of the handshake, as the side that reads them meets them. The first byte chooses the message.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rendezvous_channel::{Identity, Initiator, Prologue, Responder};
use rendezvous_fuzz::{Draws, identity, prologue};

static EXECUTOR: LazyLock<Identity> = LazyLock::new(|| identity(1));
static HARNESS: LazyLock<Identity> = LazyLock::new(|| identity(2));
static PROLOGUE: LazyLock<Prologue> = LazyLock::new(prologue);

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, message)) => {
            if let Ok(paused) = Responder::read(&EXECUTOR, &PROLOGUE, message) {
                // Only seeds get here: nobody else knows the secrets of a harness.
                assert_eq!(paused.initiator_key(), HARNESS.public());
                paused.accept(&mut Draws(2)).expect("message 1 was authentic");
            }
        }
        Some((1, message)) => {
            let (initiator, _) =
                Initiator::start(&HARNESS, EXECUTOR.public(), &PROLOGUE, b"authorization", &mut Draws(1))
                    .expect("valid keys");
            let _ = initiator.finish(message);
        }
        _ => {}
    }
});
