//! What the benchmarks share: how they are told what to measure, and how figures become one.

use anyhow::{Context as _, Result, ensure};

/// Whether `BENCH_ONLY`, a list of rows, leaves this one in. Without it, all are measured.
pub fn wants(row: &str) -> bool {
    std::env::var("BENCH_ONLY").map_or(true, |only| only.split(',').any(|wanted| wanted == row))
}

/// How much is measured, from `BENCH_SCALE`: 1 unless it says otherwise.
///
/// # Errors
///
/// It is no positive number.
pub fn scale() -> Result<f64> {
    let Ok(text) = std::env::var("BENCH_SCALE") else {
        return Ok(1.0);
    };
    let scale: f64 = text
        .parse()
        .with_context(|| format!("BENCH_SCALE is `{text}`, no number"))?;
    ensure!(scale > 0.0 && scale.is_finite(), "BENCH_SCALE is {scale}, not above 0");
    Ok(scale)
}

/// The value below which this part of them lies: 0.5 gives the median. There must be one value at least.
#[expect(clippy::cast_possible_truncation, reason = "an index into the values")]
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
