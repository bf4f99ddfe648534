//! The figures as a table in Markdown.

use crate::measure::Figures;

/// A row for each figure; the last column says how many times better the first server is than the second.
pub(crate) fn render(columns: &[(String, Figures)]) -> String {
    let mut text = String::from("|");
    for (name, _) in columns {
        text += &format!(" | {name}");
    }
    text += " | ratio |\n|---";
    text += &"|--:".repeat(columns.len() + 1);
    text += "|\n";
    for (figure, (name, less)) in Figures::NAMES.into_iter().enumerate() {
        text += &format!("| {name}");
        for (_, figures) in columns {
            text += &format!(" | {:.2}", figures.0[figure]);
        }
        let ratio = match columns {
            [(_, first), (_, second)] if less => format!("{:.1}", second.0[figure] / first.0[figure]),
            [(_, first), (_, second)] => format!("{:.1}", first.0[figure] / second.0[figure]),
            _ => "–".to_owned(),
        };
        text += &format!(" | {ratio} |\n");
    }
    text
}
