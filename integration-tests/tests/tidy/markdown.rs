//! Links in Markdown lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::none;
use crate::tree::{self, File};

/// The text of a document outside code blocks and code spans.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fence = !fence;
        } else if !fence {
            for (index, part) in line.split('`').enumerate() {
                if index % 2 == 0 {
                    prose.push_str(part);
                }
            }
            prose.push('\n');
        }
    }
    prose
}

/// Targets of inline links, without titles.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.split_whitespace().next().unwrap_or_default().to_owned())
        .collect()
}

/// The anchors that hosting sites give to the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fence = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fence = !fence;
        }
        let heading = line.trim_start_matches('#');
        if fence || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        anchors.insert(slug);
    }
    anchors
}

/// `folder/../x` as `x`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

fn findings(documents: &[File], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for document in documents {
        for link in links(&document.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                PathBuf::from(&document.path)
            } else {
                let folder = Path::new(&document.path).parent().unwrap_or_else(|| Path::new(""));
                normal(&folder.join(path))
            };
            if !exists(&target) {
                findings.push(format!("{}: {link} leads nowhere", document.path));
            } else if !anchor.is_empty() {
                let found = documents.iter().find(|other| Path::new(&other.path) == target);
                if !found.is_some_and(|other| anchors(&other.text).contains(anchor)) {
                    findings.push(format!("{}: {link} names no heading", document.path));
                }
            }
        }
    }
    findings
}

/// Decisions that the index does not list.
fn unlisted(documents: &[File]) -> Vec<String> {
    let index = documents.iter().find(|file| file.path == "proto/adr/README.md");
    let listed = index.map(|index| links(&index.text)).unwrap_or_default();
    documents
        .iter()
        .filter_map(|file| file.path.strip_prefix("proto/adr/"))
        .filter(|name| *name != "README.md" && !listed.iter().any(|link| link == name))
        .map(|name| format!("proto/adr/{name} is not in the index"))
        .collect()
}

/// Sections of the protocol document that sources name in quotes behind its path, and that it does not have.
fn dangling_sections(protocol: &str, sources: &[File]) -> Vec<String> {
    let titles: BTreeSet<&str> = protocol
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim())
        .collect();
    let mut findings = Vec::new();
    for source in sources {
        // A reference may run over the end of a line.
        let text: Vec<&str> = source
            .text
            .lines()
            .map(|line| line.trim_start_matches([' ', '/', '!', '*']))
            .collect();
        let text = text.join(" ");
        for reference in text.split("proto/README.md").skip(1) {
            // Only quotes of the same sentence belong to it.
            let sentence = reference.strip_prefix('`').unwrap_or(reference);
            let sentence = sentence.split(['.', ';', ')']).next().unwrap_or_default();
            for title in sentence.split('"').skip(1).step_by(2) {
                if !titles.contains(title) {
                    findings.push(format!(
                        "{}: the protocol document has no section \"{title}\"",
                        source.path
                    ));
                }
            }
        }
    }
    findings
}

fn documents() -> Vec<File> {
    let mut files = tree::files();
    files.retain(|file| file.path.ends_with(".md"));
    files
}

#[test]
fn links_lead_somewhere() {
    let root = tree::root();
    let documents = documents();
    assert!(documents.iter().any(|file| !links(&file.text).is_empty()));
    none(&findings(&documents, |path| root.join(path).exists()));
}

#[test]
fn sections_named_in_sources_exist() {
    let documents = documents();
    let protocol = documents.iter().find(|file| file.path == "proto/README.md");
    let mut sources = tree::files();
    sources.retain(|file| {
        (file.path.ends_with(".rs") || file.path.ends_with(".md")) && !file.path.contains("/tests/tidy/")
    });
    none(&dangling_sections(
        &protocol.expect("the protocol document").text,
        &sources,
    ));

    let text =
        "//! See `proto/README.md`, sections \"Frames\" and\n//! \"Long title\", or \"Gone\". The \"other\" thing.\n";
    let found = dangling_sections("# Frames\n## Long title\n", &[File::new("a.rs", text)]);
    assert_eq!(found, ["a.rs: the protocol document has no section \"Gone\""]);
}

#[test]
fn every_decision_is_listed() {
    none(&unlisted(&documents()));
    let index = File::new("proto/adr/README.md", "[one](0001-one.md)");
    let documents = [
        index,
        File::new("proto/adr/0001-one.md", ""),
        File::new("proto/adr/0002-two.md", ""),
    ];
    assert_eq!(unlisted(&documents), ["proto/adr/0002-two.md is not in the index"]);
}

#[test]
fn bad_links_are_found() {
    let documents = [
        File::new(
            "a/x.md",
            "# One, two\n[up](../b.md#the-end) [self](#one-two) `[code](no.md)`\n```\n[no](no.md)\n```",
        ),
        File::new(
            "b.md",
            "## The end\n[gone](c.md) [far](https://example.com/x) [wrong](a/x.md#two \"title\")",
        ),
    ];
    let exists = |path: &Path| documents.iter().any(|file| Path::new(&file.path) == path);
    assert_eq!(
        findings(&documents, exists),
        ["b.md: c.md leads nowhere", "b.md: a/x.md#two names no heading"]
    );
}
