//! Lists of byte strings, as they go from the executor to its stage inside a sandbox and back.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Writes byte strings one after the other, each behind its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn put(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn put_text(&mut self, text: impl AsRef<OsStr>) -> &mut Self {
        self.put(text.as_ref().as_bytes())
    }

    pub(super) fn put_flag(&mut self, flag: bool) -> &mut Self {
        self.put([u8::from(flag)])
    }

    pub(super) fn put_number(&mut self, number: u64) -> &mut Self {
        self.put(number.to_le_bytes())
    }

    pub(super) fn put_list<T: AsRef<OsStr>>(&mut self, list: impl ExactSizeIterator<Item = T>) -> &mut Self {
        self.put_number(list.len() as u64);
        for item in list {
            self.put_text(item);
        }
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads them back.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self) -> io::Result<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk().ok_or_else(broken)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| broken())?;
        let (bytes, rest) = rest.split_at_checked(len).ok_or_else(broken)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn take_text(&mut self) -> io::Result<OsString> {
        Ok(OsString::from_vec(self.take()?.to_vec()))
    }

    pub(super) fn take_path(&mut self) -> io::Result<PathBuf> {
        Ok(self.take_text()?.into())
    }

    pub(super) fn take_flag(&mut self) -> io::Result<bool> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(broken()),
        }
    }

    pub(super) fn take_number(&mut self) -> io::Result<u64> {
        let bytes = self.take()?.try_into().map_err(|_| broken())?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn take_list(&mut self) -> io::Result<Vec<OsString>> {
        let len = self.take_number()?;
        (0..len).map(|_| self.take_text()).collect()
    }
}

pub(super) fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "broken message between executor and sandbox",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.put_text("a").put("").put_number(7);
        writer.put_list(["x", "", "\u{e4}"].iter());
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.take_text().expect("text"), "a");
        assert_eq!(reader.take().expect("bytes"), b"");
        assert_eq!(reader.take_number().expect("number"), 7);
        assert_eq!(reader.take_list().expect("list"), ["x", "", "\u{e4}"]);
        assert!(reader.is_empty());
        for len in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..len]);
            let read = reader
                .take()
                .and_then(|_| reader.take())
                .and_then(|_| reader.take_number());
            assert!(read.and_then(|_| reader.take_list()).is_err(), "{len}");
        }
    }
}
