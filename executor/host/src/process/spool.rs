//! Output on disk: of processes whose session is kept while nobody is attached, up to limits. The oldest goes first.
//!
//! Each process has one file without a name, so that nothing is left behind however the program ends, and nobody else can
//! open it. The file is cut into slots; each holds some pieces of output in order, and is given to newer ones as a whole.

mod quota;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use self::quota::Quota;
use super::{Chunk, MAX_CHUNK, Stream};

/// Bytes of a slot.
pub const SLOT: u64 = 256 * 1024;
/// In front of each piece: its number, its stream, its length.
const HEADER: usize = 8 + 1 + 4;

/// How much output may be on disk, in bytes. Each limit is rounded up to whole slots ([`SLOT`]); a process has one slot in any
/// case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Of one process.
    pub process: u64,
    /// Of all processes of one session.
    pub session: u64,
    /// Of all sessions.
    pub total: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            process: 64 * 1024 * 1024,
            session: 256 * 1024 * 1024,
            total: 4 * 1024 * 1024 * 1024,
        }
    }
}

/// Where output goes. Clones share the limit for all sessions.
#[derive(Clone, Debug)]
pub struct Spooling {
    directory: PathBuf,
    limits: SpoolLimits,
    total: Arc<Quota>,
}

impl Spooling {
    /// Files go to this directory, which is made with the first one.
    pub fn new(directory: PathBuf, limits: SpoolLimits) -> Self {
        Self {
            directory,
            limits,
            total: Arc::new(Quota::new(limits.total, None)),
        }
    }

    /// Room for the processes of one session.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made or does not take a file.
    pub fn session(&self) -> io::Result<SessionSpool> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let session = SessionSpool {
            directory: self.directory.clone(),
            process: self.limits.process,
            quota: Arc::new(Quota::new(self.limits.session, Some(Arc::clone(&self.total)))),
        };
        // Better now than when the first process has begun.
        session.open().map(drop)?;
        Ok(session)
    }

    /// Bytes that all sessions may occupy now, whole slots.
    pub fn used(&self) -> u64 {
        self.total.used()
    }
}

/// Room for the processes of one session. Clones share it.
#[derive(Clone, Debug)]
pub struct SessionSpool {
    directory: PathBuf,
    process: u64,
    quota: Arc<Quota>,
}

impl SessionSpool {
    /// Room for one process.
    pub(super) fn open(&self) -> io::Result<Spool> {
        Ok(Spool {
            file: tempfile::tempfile_in(&self.directory)?,
            slots: VecDeque::new(),
            in_file: 0,
            most: u32::try_from(self.process.div_ceil(SLOT)).unwrap_or(u32::MAX).max(1),
            quota: Arc::clone(&self.quota),
        })
    }
}

/// The output of one process on disk. Its calls block.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    /// Oldest first.
    slots: VecDeque<Slot>,
    /// Slots that the file has.
    in_file: u32,
    /// Slots that it may have.
    most: u32,
    quota: Arc<Quota>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Its place in the file, counted in slots.
    place: u32,
    /// Numbers of its first and last piece.
    first: u64,
    last: u64,
    /// Bytes that are used, headers included.
    len: usize,
    /// Bytes of output.
    data: u64,
}

/// What is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// The number of the first piece; nothing when there is none.
    pub(super) first: Option<u64>,
    /// The last number in the slots that would go if all came that may be on its way; zero while there is room for that.
    pub(super) next_to_go: u64,
    /// Bytes of output.
    pub(super) data: u64,
}

/// Bytes that may be on their way to the disk.
pub(super) const MAX_WAITING: usize = 512 * 1024;
/// Slots that they may need.
const RESERVE: u32 = 4;

impl Spool {
    /// Adds pieces in order. The oldest slots go where there is no room.
    pub(super) fn append(&mut self, chunks: &[Chunk]) -> io::Result<()> {
        let mut rest = chunks;
        while !rest.is_empty() {
            let mut slot = match self.slots.pop_back() {
                Some(slot) if fits(slot.len, &rest[0]) => slot,
                full => {
                    self.slots.extend(full);
                    self.new_slot(rest[0].seq)
                }
            };
            let mut bytes = BytesMut::new();
            let mut data = 0;
            while let Some((chunk, others)) = rest.split_first()
                && fits(slot.len + bytes.len(), chunk)
            {
                bytes.put_u64_le(chunk.seq);
                bytes.put_u8(code(chunk.stream));
                bytes.put_u32_le(u32::try_from(chunk.data.len()).unwrap_or(u32::MAX));
                bytes.put_slice(&chunk.data);
                data += chunk.data.len() as u64;
                slot.last = chunk.seq;
                rest = others;
            }
            let written = self
                .file
                .write_all_at(&bytes, u64::from(slot.place) * SLOT + slot.len as u64);
            slot.len += bytes.len();
            slot.data += data;
            self.slots.push_back(slot);
            written?;
        }
        Ok(())
    }

    /// A slot for pieces from `first` on: a new one, or the oldest.
    fn new_slot(&mut self, first: u64) -> Slot {
        let place = match self.slots.front() {
            Some(oldest) if self.in_file >= self.most || !self.quota.take(SLOT) => {
                let place = oldest.place;
                self.slots.pop_front();
                place
            }
            Some(_) => self.in_file,
            None => {
                self.quota.insist(SLOT);
                0
            }
        };
        self.in_file = self.in_file.max(place + 1);
        Slot {
            place,
            first,
            last: first,
            len: 0,
            data: 0,
        }
    }

    pub(super) fn contents(&self) -> Contents {
        let left = u32::try_from(self.quota.left() / SLOT).unwrap_or(u32::MAX);
        let free = (self.most - self.in_file).min(left);
        let missing = RESERVE.min(self.most / 2).saturating_sub(free);
        let mut threatened = self.slots.iter().take(missing as usize);
        Contents {
            first: self.slots.front().map(|slot| slot.first),
            next_to_go: threatened.next_back().map_or(0, |slot| slot.last),
            data: self.slots.iter().map(|slot| slot.data).sum(),
        }
    }

    /// Pieces after a number, in order, up to so many bytes, but one at least if there is one.
    pub(super) fn read(&self, after: u64, max_bytes: usize) -> io::Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        let mut total = 0_usize;
        let begin = self.slots.partition_point(|slot| slot.last <= after);
        for slot in self.slots.range(begin..) {
            let mut bytes = BytesMut::zeroed(slot.len);
            self.file.read_exact_at(&mut bytes, u64::from(slot.place) * SLOT)?;
            let mut bytes = bytes.freeze();
            while bytes.has_remaining() {
                let chunk = parse(&mut bytes)?;
                if chunk.seq <= after {
                    continue;
                }
                total = total.saturating_add(chunk.data.len());
                if total > max_bytes && !chunks.is_empty() {
                    return Ok(chunks);
                }
                chunks.push(chunk);
            }
        }
        Ok(chunks)
    }

    /// The number after which there are so many bytes, or some more: as many as make a slot full.
    pub(super) fn tail(&self, bytes: u64) -> u64 {
        let mut left = bytes;
        for slot in self.slots.iter().rev() {
            if left == 0 {
                return slot.last;
            }
            left = left.saturating_sub(slot.data);
        }
        self.slots.front().map_or(0, |slot| slot.first - 1)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.quota.give_back(u64::from(self.in_file) * SLOT);
    }
}

fn fits(len: usize, chunk: &Chunk) -> bool {
    const { assert!((MAX_CHUNK + HEADER) as u64 <= SLOT) };
    (len + HEADER + chunk.data.len()) as u64 <= SLOT
}

fn parse(bytes: &mut Bytes) -> io::Result<Chunk> {
    let broken = || io::Error::other("output on disk is damaged");
    if bytes.len() < HEADER {
        return Err(broken());
    }
    let seq = bytes.get_u64_le();
    let stream = stream(bytes.get_u8()).ok_or_else(broken)?;
    let len = usize::try_from(bytes.get_u32_le()).unwrap_or(usize::MAX);
    if bytes.len() < len {
        return Err(broken());
    }
    let data = bytes.split_to(len);
    Ok(Chunk { seq, stream, data })
}

fn code(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Pty => 2,
    }
}

fn stream(code: u8) -> Option<Stream> {
    [Stream::Stdout, Stream::Stderr, Stream::Pty]
        .into_iter()
        .nth(code.into())
}

#[cfg(test)]
mod tests;
