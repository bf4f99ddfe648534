use super::*;

const KIB: usize = 1024;

fn chunk(seq: u64, len: usize) -> Chunk {
    let byte = u8::try_from(seq % 251).unwrap();
    Chunk {
        seq,
        stream: [Stream::Stdout, Stream::Stderr, Stream::Pty][usize::try_from(seq % 3).unwrap()],
        data: vec![byte; len].into(),
    }
}

fn limits(process: u64, session: u64, total: u64) -> SpoolLimits {
    SpoolLimits {
        process: process * SLOT,
        session: session * SLOT,
        total: total * SLOT,
    }
}

fn spooling(limits: SpoolLimits) -> (tempfile::TempDir, Spooling) {
    let folder = tempfile::tempdir().unwrap();
    let spooling = Spooling::new(folder.path().join("state/output"), limits);
    (folder, spooling)
}

fn seqs(chunks: &[Chunk]) -> Vec<u64> {
    chunks.iter().map(|chunk| chunk.seq).collect()
}

#[test]
fn gives_back_what_was_added() {
    let (_folder, spooling) = spooling(limits(8, 8, 8));
    let mut spool = spooling.session().unwrap().open().unwrap();
    assert_eq!(spool.contents(), Contents::default());
    // Exits and ends have numbers, too, that no piece has.
    let chunks: Vec<Chunk> = [(1, 1), (2, MAX_CHUNK), (5, 7), (6, 100), (9, MAX_CHUNK)]
        .map(|(seq, len)| chunk(seq, len))
        .into();
    spool.append(&chunks[..2]).unwrap();
    spool.append(&[]).unwrap();
    spool.append(&chunks[2..]).unwrap();
    assert_eq!(spool.read(0, usize::MAX).unwrap(), chunks);
    for (after, expected) in [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (8, 4), (9, 5), (u64::MAX, 5)] {
        assert_eq!(
            spool.read(after, usize::MAX).unwrap(),
            chunks[expected..],
            "after {after}"
        );
    }
    assert_eq!(seqs(&spool.read(4, 0).unwrap()), [5], "one at least");
    assert_eq!(seqs(&spool.read(4, 107).unwrap()), [5, 6]);
    assert_eq!(seqs(&spool.read(4, 106).unwrap()), [5]);
    let data: usize = chunks.iter().map(|chunk| chunk.data.len()).sum();
    assert_eq!((spool.contents().first, spool.contents().data), (Some(1), data as u64));
}

#[test]
fn the_oldest_goes_when_a_process_has_its_share() {
    let (_folder, spooling) = spooling(limits(4, 8, 8));
    let mut spool = spooling.session().unwrap().open().unwrap();
    let mut known = Vec::new();
    for seq in 1..=100 {
        let chunk = chunk(seq, 40 * KIB);
        spool.append(std::slice::from_ref(&chunk)).unwrap();
        known.push(chunk);
        let read = spool.read(0, usize::MAX).unwrap();
        assert!(known.ends_with(&read), "after {seq}");
        // Six pieces fill a slot.
        assert!(
            read.len() >= 18.min(known.len()) && read.len() <= 24,
            "{} after {seq}",
            read.len()
        );
        assert_eq!(spool.contents().first, read.first().map(|chunk| chunk.seq));
        assert_eq!(spool.contents().data, read.len() as u64 * 40 * KIB as u64);
    }
    assert_eq!(
        spool.file.metadata().unwrap().len().div_ceil(SLOT),
        4,
        "the file does not grow"
    );
}

#[test]
fn sessions_and_all_of_them_have_limits_and_everybody_has_one_slot() {
    let (_folder, spooling) = spooling(limits(9, 3, 4));
    let (first, second) = (spooling.session().unwrap(), spooling.session().unwrap());
    let fill = |spool: &mut Spool| {
        for seq in 1..=60 {
            spool.append(&[chunk(seq, 40 * KIB)]).unwrap();
        }
        spool.in_file
    };
    let mut greedy = first.open().unwrap();
    assert_eq!(fill(&mut greedy), 3, "a session has three");
    let mut late = first.open().unwrap();
    assert_eq!(fill(&mut late), 1);
    assert_eq!(spooling.used(), 4 * SLOT);
    let mut other = second.open().unwrap();
    assert_eq!(fill(&mut other), 1, "nothing is left of the total");
    assert_eq!(spooling.used(), 5 * SLOT);
    drop((greedy, late));
    assert_eq!(fill(&mut other), 3);
    drop(other);
    assert_eq!(spooling.used(), 0);
}

#[test]
fn it_is_said_when_room_becomes_scarce() {
    let (_folder, spooling) = spooling(limits(8, 8, 8));
    let mut spool = spooling.session().unwrap().open().unwrap();
    let scarce = (1..=48).find(|seq| {
        spool.append(&[chunk(*seq, 40 * KIB)]).unwrap();
        spool.contents().next_to_go > 0
    });
    assert_eq!(scarce, Some(25), "with the fifth of eight slots");
    assert_eq!(spool.contents().next_to_go, 6);
    for seq in 26..=48 {
        spool.append(&[chunk(seq, 40 * KIB)]).unwrap();
    }
    assert_eq!(spool.contents().next_to_go, 24, "four slots may go at once");
}

#[test]
fn a_tail_begins_with_a_slot() {
    let (_folder, spooling) = spooling(limits(8, 8, 8));
    let mut spool = spooling.session().unwrap().open().unwrap();
    assert_eq!(spool.tail(100), 0);
    for seq in 1..=13 {
        spool.append(&[chunk(seq, 40 * KIB)]).unwrap();
    }
    for (bytes, after) in [(0, 13), (1, 12), (40 * 1024, 12), (40 * 1024 + 1, 6), (u64::MAX, 0)] {
        assert_eq!(spool.tail(bytes), after, "{bytes} bytes");
    }
}

#[test]
fn files_have_no_names_and_the_directory_is_its_owners() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, spooling) = spooling(limits(1, 1, 1));
    let mut spool = spooling.session().unwrap().open().unwrap();
    spool.append(&[chunk(1, 10)]).unwrap();
    let directory = folder.path().join("state/output");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let taken = folder.path().join("file");
    std::fs::write(&taken, "").unwrap();
    Spooling::new(taken, SpoolLimits::default()).session().unwrap_err();
}
