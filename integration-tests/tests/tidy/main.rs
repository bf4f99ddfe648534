//! Rules of the code base that no compiler checks: who may depend on whom, where things stand, what no file may
//! contain, and that documents tell the truth about links and flags.
//!
//! A check is a function from what it reads to a list of findings. Each one is also run on a bad sample, so that a
//! check that can no longer fail is noticed.

mod containers;
mod dependencies;
mod flags;
mod layout;
mod markdown;
mod source;
mod tree;
mod units;

/// Fails with every finding at once.
#[track_caller]
fn none(findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} finding(s):\n  {}",
        findings.len(),
        findings.join("\n  ")
    );
}
