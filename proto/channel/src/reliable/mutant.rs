//! Rules that tests switch off one at a time, to see that they are noticed. In a build without tests there is no switch.

#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// A hint frees what it covers.
    HintFrees,
    /// A hint is believed for ever.
    HintLasts,
    /// A resume may repeat an epoch.
    EpochRepeats,
    /// A resume attaches without being the newest of ours.
    AnswerToAnyEpoch,
    /// A resume does not send again what the peer lacks.
    ResumeSendsNothing,
    /// Nothing is sent again after a timeout.
    NoTimeout,
    /// A record is confirmed though an earlier one is missing.
    ConfirmsEarly,
    /// A record that was here before is taken again.
    TakesTwice,
    /// A suspended stream goes on sending.
    SendsSuspended,
    /// A sender spends more than its credit.
    Overspends,
    /// Credit is never told.
    KeepsCredit,
    /// An old limit replaces a newer one.
    LimitShrinks,
    /// Credit is given for what the application has not taken.
    CreditsUntaken,
}

/// Which rule is off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switches(#[cfg(test)] pub(crate) Option<Mutant>);

/// Whether a rule is off: never outside of tests.
macro_rules! is_off {
    ($switches:expr, $mutant:ident) => {{
        #[cfg(test)]
        let off = $switches.0 == Some($crate::reliable::mutant::Mutant::$mutant);
        #[cfg(not(test))]
        let off = {
            let crate::reliable::mutant::Switches() = $switches;
            false
        };
        off
    }};
}
pub(crate) use is_off;
