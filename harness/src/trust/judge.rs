//! What follows from what is known, what the registry says and what the executor says. No IO.

use rendezvous_identity::Pin;
use rendezvous_rpc::method::identity::IdentityStatement;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::identity::IdentityClaim;
use rendezvous_wire::key::PublicKey;

use super::{KeyError, KeyPolicy, Place, Standing};

/// What the registry says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) key: &'a PublicKey,
    pub(super) claim: &'a IdentityClaim,
}

/// How to go on.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Shake hands with the key that the registry names.
    Plain {
        key: PublicKey,
        claims_persistence: bool,
        /// Since when it is known, if it is.
        since: Option<String>,
    },
    /// Shake hands with the key that is known; its holder must confirm the one that the registry names.
    Prove { known: PublicKey, shown: PublicKey },
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) key: PublicKey,
    pub(super) persistent: bool,
    /// How the key is taken, if it can be noted where that is needed.
    pub(super) standing: Standing,
    /// The key to be noted, and the one in whose place.
    pub(super) note: Option<(PublicKey, Option<PublicKey>)>,
}

/// Why not; [`KeyError`] without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Changed {
        known: Fingerprint,
        shown: Fingerprint,
        persistent: bool,
    },
    NotProven {
        known: Fingerprint,
        shown: Fingerprint,
    },
    Unexpected {
        expected: Fingerprint,
        shown: Fingerprint,
    },
    Unknown {
        shown: Fingerprint,
    },
    Contradicted {
        stated: Fingerprint,
        shown: Fingerprint,
    },
}

impl Refusal {
    pub(super) fn at(self, place: &Place) -> KeyError {
        let place = place.clone();
        match self {
            Self::Changed {
                known,
                shown,
                persistent,
            } => KeyError::Changed {
                place,
                known,
                shown,
                persistent,
            },
            Self::NotProven { known, shown } => KeyError::NotProven { place, known, shown },
            Self::Unexpected { expected, shown } => KeyError::Unexpected { place, expected, shown },
            Self::Unknown { shown } => KeyError::Unknown { place, shown },
            Self::Contradicted { stated, shown } => KeyError::Contradicted { place, stated, shown },
        }
    }
}

/// Decides before anything is sent to the executor.
pub(super) fn judge(policy: &KeyPolicy, known: Option<Pin>, shown: &Shown<'_>) -> Result<Way, Refusal> {
    let fingerprint = shown.key.fingerprint();
    let unexpected = policy.fingerprint.filter(|expected| *expected != fingerprint);
    let plain = |since| Way::Plain {
        key: shown.key.clone(),
        claims_persistence: shown.claim.persistent,
        since,
    };
    let Some(pin) = known else {
        return match (unexpected, policy.fingerprint) {
            (Some(expected), _) => Err(Refusal::Unexpected {
                expected,
                shown: fingerprint,
            }),
            (None, None) if policy.strict => Err(Refusal::Unknown { shown: fingerprint }),
            (None, _) => Ok(plain(None)),
        };
    };
    // A given fingerprint may be that of the key before, if that is the one which is known.
    if let Some(expected) = unexpected.filter(|expected| *expected != pin.fingerprint()) {
        return Err(Refusal::Unexpected {
            expected,
            shown: fingerprint,
        });
    }
    if pin.key == *shown.key {
        return Ok(plain(Some(pin.since)));
    }
    if shown.claim.previous.contains(&pin.key.digest()) {
        return Ok(Way::Prove {
            known: pin.key,
            shown: shown.key.clone(),
        });
    }
    Err(Refusal::Changed {
        known: pin.fingerprint(),
        shown: fingerprint,
        persistent: shown.claim.persistent,
    })
}

impl Way {
    /// The key that the other end must hold.
    pub(super) fn key(&self) -> &PublicKey {
        match self {
            Self::Plain { key, .. } | Self::Prove { known: key, .. } => key,
        }
    }

    /// Decides once the other end has proved that it holds [`Self::key`], by what it says of its key.
    pub(super) fn conclude(self, statement: Option<&IdentityStatement>) -> Result<Verdict, Refusal> {
        match self {
            Self::Prove { known, shown } => {
                if statement.map(|statement| &statement.key) != Some(&shown) {
                    return Err(Refusal::NotProven {
                        known: known.fingerprint(),
                        shown: shown.fingerprint(),
                    });
                }
                let standing = Standing::Successor {
                    of: known.fingerprint(),
                };
                Ok(Verdict {
                    note: Some((shown.clone(), Some(known))),
                    key: shown,
                    persistent: true,
                    standing,
                })
            }
            Self::Plain {
                key,
                claims_persistence,
                since,
            } => {
                if let Some(statement) = statement.filter(|statement| statement.key != key) {
                    return Err(Refusal::Contradicted {
                        stated: statement.key.fingerprint(),
                        shown: key.fingerprint(),
                    });
                }
                let persistent = claims_persistence || statement.is_some_and(|statement| statement.persistent);
                let (standing, note) = match since {
                    Some(since) => (Standing::Known { since }, None),
                    None if persistent => (Standing::New, Some((key.clone(), None))),
                    None => (Standing::NotRemembered, None),
                };
                Ok(Verdict {
                    key,
                    persistent,
                    standing,
                    note,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
