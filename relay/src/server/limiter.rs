//! How many upgrades are taken.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use rendezvous_wire::id::CredentialId;

use crate::config::Limits;

/// Credentials that are told apart before those without recent upgrades are forgotten.
const MAX_CREDENTIALS: usize = 16_384;

/// Token buckets: one for everybody, one for each harness credential.
#[derive(Debug)]
pub(super) struct Limiter {
    any: DefaultDirectRateLimiter,
    credentials: DefaultKeyedRateLimiter<CredentialId>,
}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        let count = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let any = Quota::per_second(count(limits.upgrades_per_second))
            .allow_burst(count(limits.upgrades_per_second.saturating_mul(2)));
        Self {
            any: RateLimiter::direct(any),
            credentials: RateLimiter::keyed(Quota::per_minute(count(limits.upgrades_per_credential_minute))),
        }
    }

    /// Whether one more upgrade is taken at all. Only asked for valid tickets.
    pub(super) fn any(&self) -> bool {
        self.any.check().is_ok()
    }

    /// Whether one more upgrade of this credential is taken. Only asked for valid tickets, so that nobody can fill the
    /// memory with made-up credentials.
    pub(super) fn credential(&self, credential: &CredentialId) -> bool {
        if self.credentials.len() > MAX_CREDENTIALS {
            self.credentials.retain_recent();
        }
        self.credentials.check_key(credential).is_ok()
    }
}
