//! Registries and relays that stop, die, share a database, or take rights away.

mod durability;
mod exits;
mod outage;
mod replicas;
mod revocation;
mod tls;

use crate::runner::{Case, When};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("services::registry_outage", When::Always, outage::registry),
        Case::new("services::relay_drains", When::Always, outage::drain),
        Case::new("services::two_replicas", When::Always, replicas::serve_one_environment),
        Case::new("services::relay_dies_for_good", When::Always, replicas::outlive_a_relay),
        Case::new(
            "services::another_relay_is_tried",
            When::Always,
            replicas::go_to_another_relay,
        ),
        Case::new("services::revoked_harness", When::Always, revocation::harness),
        Case::new("services::revoked_executor", When::Always, revocation::executor),
        Case::new(
            "services::killed_registry_keeps_its_word::sqlite",
            When::Always,
            durability::sqlite,
        ),
        Case::new(
            "services::killed_registry_keeps_its_word::postgres",
            When::Always,
            durability::postgres,
        ),
        Case::new(
            "services::renewed_certificates::embedded",
            When::Always,
            tls::renewed_at_the_registry,
        ),
        Case::new(
            "services::renewed_certificates::stand_alone",
            When::Always,
            tls::renewed_at_both,
        ),
        Case::new("services::exit_codes", When::Always, exits::are_the_same),
        Case::new("services::unknown_authority", When::Always, tls::unknown_to_clients),
        Case::new(
            "services::unknown_authority::of_the_relay",
            When::Always,
            tls::relay_unknown_to_a_harness,
        ),
        Case::new(
            "services::unknown_authority::to_the_relay",
            When::Always,
            tls::unknown_to_a_relay,
        ),
    ]
}
