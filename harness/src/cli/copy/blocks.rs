//! What a block of a remote file means for those behind it.

use rendezvous_harness::files::{Block, FileReader};

/// What to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// What comes behind a full block.
    Continue,
    /// What comes behind these bytes; blocks that were asked for ahead begin elsewhere.
    From(u64),
    /// Nothing.
    End,
}

impl Next {
    /// What follows from a block that was asked for at `offset` with [`FileReader::MAX_BLOCK`] bytes.
    ///
    /// # Errors
    ///
    /// Executors may not send more than was asked for, and not nothing before the end of the file.
    pub(super) fn after(block: &Block, offset: u64) -> Result<Self, &'static str> {
        match (block.bytes.len() as u64, block.is_end) {
            (len, _) if len > FileReader::MAX_BLOCK => Err("more was sent than was asked for"),
            (_, true) => Ok(Self::End),
            (0, false) => Err("nothing was sent, though the file goes on"),
            (FileReader::MAX_BLOCK, false) => Ok(Self::Continue),
            (len, false) => Ok(Self::From(offset + len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_executor_says_where_the_end_is() {
        let after = |len: u64, is_end| {
            let bytes = vec![0; usize::try_from(len).unwrap()].into();
            Next::after(&Block { bytes, is_end }, 10)
        };
        const MAX: u64 = FileReader::MAX_BLOCK;
        assert_eq!(after(MAX, false), Ok(Next::Continue));
        assert_eq!(after(5, false), Ok(Next::From(15)));
        assert_eq!(after(5, true), Ok(Next::End));
        assert_eq!(after(0, true), Ok(Next::End));
        assert_eq!(after(MAX, true), Ok(Next::End));
        assert!(after(0, false).is_err());
        assert!(after(MAX + 1, false).is_err());
        assert!(after(MAX + 1, true).is_err());
    }
}
