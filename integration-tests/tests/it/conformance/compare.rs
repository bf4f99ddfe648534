//! Compares what the servers did with the measure and with the known differences.

use rendezvous_integration_tests::exec_server::Over;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::stock::Version;
use serde_json::Value;

use super::client::Record;
use super::differences::{DIFFERENCES, Difference, OLD};

/// Everything that is not as it should be, one line each. The first of `plays` is the measure.
pub(super) fn compare(case: &str, over: Over, plays: &[(End, Vec<Record>)]) -> Vec<String> {
    let mut findings = Vec::new();
    let Some(((_, measure), others)) = plays.split_first() else {
        return findings;
    };
    for (end, records) in others {
        for known in known(case, *end) {
            if known.why.is_empty() {
                findings.push(format!(
                    "{case} ({}), step {}: a difference without a reason",
                    end.name(),
                    known.step
                ));
            }
            if !measure.iter().any(|record| record.step == known.step) {
                findings.push(format!("{case} ({}): step {} records nothing", end.name(), known.step));
            }
        }
        if measure.len() != records.len() {
            findings.push(format!("{case} ({}): not the same steps were recorded", end.name()));
        }
        for (expected, record) in measure.iter().zip(records) {
            let known = known(case, *end).find(|known| known.step == record.step);
            findings.extend(judge(case, over, *end, expected, record, known));
        }
    }
    findings
}

fn known(case: &str, end: End) -> impl Iterator<Item = &'static Difference> {
    let table = match end {
        End::Ours => DIFFERENCES,
        End::Stock(Version::V0_145) => OLD,
        End::Stock(Version::V0_171) => &[],
    };
    table.iter().filter(move |known| known.case == case)
}

fn judge(
    case: &str,
    over: Over,
    end: End,
    expected: &Record,
    record: &Record,
    known: Option<&Difference>,
) -> Option<String> {
    let (is, step, value) = (end.name(), record.step, &record.value);
    let row = || format!("Difference {{ case: \"{case}\", step: {step}, is: r#\"{value}\"#, why: \"\" }},");
    match known {
        None if record == expected => None,
        None => Some(format!(
            "{case} ({is}, {}), step {step}:\n    stock {}\n    row   {}",
            over.name(),
            expected.value,
            row()
        )),
        // Some of what the old release does otherwise, it does only sometimes.
        Some(_) if record == expected && end != End::Ours => None,
        Some(_) if record == expected => Some(format!("{case} ({is}), step {step}: the known difference is gone")),
        Some(known) => match serde_json::from_str::<Value>(known.is) {
            Ok(known) if known == *value => None,
            _ => Some(format!(
                "{case} ({is}), step {step}: another difference\n    row   {}",
                row()
            )),
        },
    }
}
