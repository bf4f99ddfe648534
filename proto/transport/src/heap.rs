//! What the process does with memory that it does not need for the moment.

use std::hint::black_box;

/// Bytes of a block that the allocator learns from.
const BLOCK: usize = 8 * 1024 * 1024;

/// Makes the allocator keep what is freed for what comes next, up to 16 MiB at the end of each of its heaps, which threads
/// share. For programs, at their start; what they allocate is the same.
///
/// That of glibc gives the end of its heap back as soon as 128 KiB are free there, and takes longer blocks from the system
/// each time. Frames and messages are as long as that, so that the system would clear their pages again and again. It raises
/// both limits once a longer block is freed: to the length of the block, and to twice that. Others take no notice, nor does it when the environment sets these limits.
pub fn keep_freed() {
    drop(black_box(Vec::<u8>::with_capacity(BLOCK)));
}
