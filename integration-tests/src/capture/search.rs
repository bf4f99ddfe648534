//! Searches recorded bytes for markers, as they are and in the codings that hide them from the eye.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memmem::Finder;

/// Bytes that are searched at once.
const BLOCK: usize = 4 * 1024 * 1024;

/// A marker that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The marker.
    pub marker: String,
    /// How it was coded.
    pub coding: &'static str,
    /// The recorded file.
    pub file: PathBuf,
}

/// Every marker that is in any of the files; once for each file and coding.
///
/// # Errors
///
/// A file could not be read.
pub fn find(files: &[PathBuf], markers: &[&str]) -> Result<Vec<Hit>> {
    find_within(files, markers, u64::MAX)
}

/// The same, but only in the first `len` bytes of each file: for many markers that stand at the beginning if anywhere.
///
/// # Errors
///
/// A file could not be read.
pub fn find_within(files: &[PathBuf], markers: &[&str], len: u64) -> Result<Vec<Hit>> {
    let needles: Vec<(&str, &'static str, Finder<'static>)> = markers
        .iter()
        .flat_map(|marker| {
            codings(marker)
                .into_iter()
                .map(|(coding, needle)| (*marker, coding, needle))
        })
        .map(|(marker, coding, needle)| (marker, coding, Finder::new(&needle).into_owned()))
        .collect();
    let mut hits = Vec::new();
    for file in files {
        for index in search(file, &needles, len)? {
            let (marker, coding, _) = &needles[index];
            hits.push(Hit {
                marker: (*marker).to_owned(),
                coding,
                file: file.clone(),
            });
        }
    }
    Ok(hits)
}

/// The marker as it is, in hex, and in base64 at each of the three places that it can have in a longer text.
fn codings(marker: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut codings = vec![
        ("plain", marker.as_bytes().to_vec()),
        ("hex", hex::encode(marker).into_bytes()),
    ];
    for shift in 0..3 {
        let text = [&b"..."[..shift], marker.as_bytes()].concat();
        let whole = text.len() / 3 * 3;
        let coded = STANDARD_NO_PAD.encode(&text[..whole]);
        // The first characters depend on what stands before the marker.
        let skip = [0, 2, 3][shift];
        codings.push(("base64", coded.as_bytes()[skip..].to_vec()));
    }
    codings
}

/// The indexes of the needles that are in the file.
fn search(file: &Path, needles: &[(&str, &'static str, Finder<'static>)], len: u64) -> Result<Vec<usize>> {
    let overlap = needles
        .iter()
        .map(|(_, _, needle)| needle.needle().len())
        .max()
        .unwrap_or(1)
        - 1;
    let mut source = File::open(file)
        .with_context(|| format!("{}", file.display()))?
        .take(len);
    let mut found = vec![false; needles.len()];
    let mut block = Vec::with_capacity(BLOCK + overlap);
    loop {
        let kept = block.len();
        let n = source.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        if n == 0 {
            break;
        }
        for (index, (_, _, needle)) in needles.iter().enumerate() {
            found[index] = found[index] || needle.find(&block).is_some();
        }
        let whole = kept + n;
        block.drain(..whole.saturating_sub(overlap));
    }
    Ok((0..needles.len()).filter(|&index| found[index]).collect())
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn markers_are_found_in_every_coding_and_across_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let marker = "marker-7f3a9c-inside";
        let texts = [
            marker.to_owned(),
            hex::encode(marker),
            STANDARD.encode(format!("{marker} and more")),
            STANDARD.encode(format!("a{marker} and more")),
            STANDARD.encode(format!("ab{marker} and more")),
        ];
        for text in texts {
            let file = folder.path().join("file");
            let mut content = vec![b'x'; BLOCK - 5];
            content.extend_from_slice(text.as_bytes());
            std::fs::write(&file, content).unwrap();
            assert_eq!(find(std::slice::from_ref(&file), &[marker]).unwrap().len(), 1, "{text}");
            let end = u64::try_from(BLOCK - 5 + text.len()).unwrap();
            assert_eq!(
                find_within(std::slice::from_ref(&file), &[marker], end).unwrap().len(),
                1,
                "{text}"
            );
            assert_eq!(find_within(&[file], &[marker], 1000).unwrap(), []);
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "nothing").unwrap();
        assert_eq!(find(&[file], &[marker]).unwrap(), []);
    }
}
