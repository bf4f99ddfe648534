//! Bad input on every surface of real processes: each piece gets its documented answer, the others keep working, and
//! memory stays within a stated bound.

mod authorizations;
mod crowd;
mod frames;
mod handshakes;
mod hostile_relay;
mod http;
mod relays;
mod tickets;
mod yard;

use crate::runner::{Case, When};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("bad_input::http_bodies", When::Always, http::bodies),
        Case::new("bad_input::http_heads", When::Always, http::heads),
        Case::new("bad_input::http_slow", When::Always, http::slow),
        Case::new("bad_input::frames_of_a_harness", When::Always, frames::of_a_harness),
        Case::new("bad_input::frames_of_an_executor", When::Always, frames::of_an_executor),
        Case::new("bad_input::tickets", When::Always, tickets::refused),
        Case::new(
            "bad_input::tickets_of_another_time_or_place",
            When::Always,
            tickets::of_another_time_or_place,
        ),
        Case::new(
            "bad_input::tickets_of_another_relay",
            When::Always,
            tickets::of_another_relay,
        ),
        Case::new("bad_input::tickets_expire", When::Full, tickets::expire),
        Case::new(
            "bad_input::authorizations",
            When::Always,
            authorizations::bound_and_used_once,
        ),
        Case::new("bad_input::authorizations_expire", When::Full, authorizations::expire),
        Case::new("bad_input::eight_bad_handshakes::ours", When::Always, handshakes::ours),
        Case::new(
            "bad_input::eight_bad_handshakes::stock-0.145.0",
            When::Full,
            handshakes::stock_0_145,
        ),
        Case::new(
            "bad_input::eight_bad_handshakes::stock-0.171.0",
            When::Always,
            handshakes::stock_0_171,
        ),
        Case::new(
            "bad_input::one_stream_too_many",
            When::Always,
            crowd::one_stream_too_many,
        ),
        Case::new(
            "bad_input::harness_never_reads",
            When::Always,
            crowd::harness_never_reads,
        ),
        Case::new(
            "bad_input::relay::before_the_stream",
            When::Always,
            relays::before_the_stream,
        ),
        Case::new("bad_input::relay::amid_a_command", When::Always, relays::amid_a_command),
        Case::new("bad_input::relay::for_ever", When::Full, relays::for_ever),
        Case::new("bad_input::relay::swallowed_frame", When::Full, relays::swallowed_frame),
    ]
}
