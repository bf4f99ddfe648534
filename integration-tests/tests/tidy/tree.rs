//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that builds and version control make.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("integration-tests stands in the repository")
        .to_owned()
}

/// One text file: its path from the root, with `/`, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// Every file of the repository that is UTF-8 text, sorted by path.
pub(crate) fn files() -> Vec<File> {
    let root = root();
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let entry = entry.expect("a readable entry");
            let path = entry.path();
            let name = entry.file_name();
            let kind = entry.file_type().expect("a file type");
            if kind.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    folders.push(path);
                }
            } else if kind.is_file()
                && name != ".git"
                && let Ok(text) = fs::read_to_string(&path)
            {
                let path = path.strip_prefix(&root).expect("a path below the root");
                files.push(File::new(path.to_str().expect("a UTF-8 path"), &text));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The Rust sources of the main workspace and of the fuzz targets.
pub(crate) fn rust_files() -> Vec<File> {
    let mut files = files();
    files.retain(|file| file.path.ends_with(".rs"));
    files
}
