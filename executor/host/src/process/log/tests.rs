use super::*;

fn log() -> Log {
    Log::new(Arc::new(Budget::default()), false, Arc::default())
}

fn with_window(budget: &Arc<Budget>) -> Log {
    Log::new(Arc::clone(budget), false, Arc::new(AtomicBool::new(true)))
}

fn write(log: &mut Log, len: usize) {
    log.output(Stream::Stdout, Bytes::from(vec![b'x'; len]));
}

fn read(log: &Log, after: u64, max_bytes: Option<usize>) -> Page {
    log.page_now(ReadRequest {
        after,
        max_bytes,
        tail: None,
        wait: Duration::ZERO,
    })
}

fn seqs(page: &Page) -> Vec<u64> {
    page.chunks.iter().map(|chunk| chunk.seq).collect()
}

#[test]
fn numbers_output_exit_and_end_together() {
    let mut log = log();
    write(&mut log, 3);
    log.exited(7);
    write(&mut log, 2);
    log.close();
    let pushed: Vec<_> = std::iter::from_fn(|| log.next_unsent()).collect();
    assert_eq!(pushed.iter().map(Change::seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(
        pushed[1],
        Change::Exited {
            seq: 2,
            code: 7,
            denied: false
        }
    );
    assert_eq!(pushed[3], Change::Closed { seq: 4 });
    let page = read(&log, 0, None);
    assert_eq!(seqs(&page), [1, 3]);
    assert_eq!((page.next_seq, page.exit_code, page.closed), (5, Some(7), true));
}

#[test]
fn pages_by_bytes_but_gives_at_least_one_piece() {
    let mut log = log();
    for _ in 0..4 {
        write(&mut log, 10);
    }
    for (max, expected, next) in [
        (0, vec![1], 2),
        (10, vec![1], 2),
        (19, vec![1], 2),
        (20, vec![1, 2], 3),
        (99, vec![1, 2, 3, 4], 5),
    ] {
        let page = read(&log, 0, Some(max));
        assert_eq!((seqs(&page), page.next_seq), (expected, next), "{max} bytes");
    }
    assert_eq!(read(&log, 4, Some(1)).next_seq, 5);
    assert_eq!(seqs(&read(&log, 2, None)), [3, 4]);
    assert!(read(&log, u64::MAX, None).chunks.is_empty());
}

#[test]
fn retains_a_bounded_tail_with_a_visible_gap() {
    let mut log = log();
    for _ in 0..300 {
        write(&mut log, 8192);
        log.skip_unsent();
    }
    let page = read(&log, 0, None);
    assert_eq!(page.chunks.len(), MAX_RETAINED_BYTES / 8192);
    assert_eq!(page.chunks[0].seq, 300 - 128 + 1);
    assert_eq!(page.next_seq, 301);

    let mut log = self::log();
    for _ in 0..MAX_RETAINED_CHUNKS + 10 {
        write(&mut log, 1);
        log.skip_unsent();
    }
    let page = read(&log, 0, None);
    assert_eq!((page.chunks.len(), page.chunks[0].seq), (MAX_RETAINED_CHUNKS, 11));
}

#[test]
fn stops_reading_when_pushing_falls_behind() {
    let mut log = log();
    while log.has_room(true) {
        write(&mut log, 44 * 1024);
    }
    assert!(log.bytes <= MAX_UNSENT_BYTES + 44 * 1024);
    while log.next_unsent().is_some() {}
    assert!(log.has_room(true) && !log.has_unsent());
    for _ in 0..MAX_UNSENT_CHUNKS {
        assert!(log.has_room(true));
        write(&mut log, 1);
    }
    assert!(!log.has_room(true));
    log.skip_unsent();
    assert!(log.has_room(true));
}

#[test]
fn never_drops_what_is_still_to_be_pushed() {
    let budget = Arc::new(Budget::new(1, 0));
    let mut log = Log::new(Arc::clone(&budget), false, Arc::default());
    for _ in 0..8 {
        write(&mut log, RETAINED_FLOOR);
    }
    assert_eq!(log.chunks.len(), 8);
    log.skip_unsent();
    assert_eq!(log.chunks.len(), 1, "a full budget leaves the floor");
    assert_eq!(budget.retained(), RETAINED_FLOOR);
    drop(log);
    assert_eq!(budget.retained(), 0);
}

#[test]
fn keeps_what_its_reader_has_not_taken() {
    let budget = Arc::new(Budget::default());
    let mut log = with_window(&budget);
    let mut written = 0;
    while log.has_room(true) {
        write(&mut log, 8192);
        // Detached or not, what was sent may not have arrived.
        log.skip_unsent();
        written += 1;
    }
    assert_eq!(written, WINDOW_BYTES / 8192);
    assert_eq!(seqs(&read(&log, 0, None)).len(), written, "nothing was dropped");
    log.consume(0);
    assert!(!log.has_room(true));
    log.consume(1);
    assert!(log.has_room(true));
    assert!(log.bytes <= WINDOW_BYTES, "what was taken goes first");
    log.consume(u64::MAX);
    assert_eq!(log.unconsumed_bytes, 0);
    log.consume(3);
    assert_eq!(log.consumed, written as u64, "it never goes back");
    write(&mut log, 8192);
    log.skip_unsent();
    assert!(log.bytes <= MAX_RETAINED_BYTES && log.is_awaited());
    log.close();
    log.consume(u64::MAX);
    assert!(!log.is_awaited());

    let mut log = with_window(&budget);
    while log.has_room(true) {
        write(&mut log, 1);
        log.skip_unsent();
    }
    assert_eq!(log.next_seq - 1, WINDOW_CHUNKS);
}

#[test]
fn a_window_closes_early_when_the_budget_is_full_but_never_wholly() {
    let budget = Arc::new(Budget::new(1, 0));
    let mut log = with_window(&budget);
    write(&mut log, RETAINED_FLOOR - 1);
    log.skip_unsent();
    assert!(log.has_room(true));
    write(&mut log, 1);
    log.skip_unsent();
    assert!(!log.has_room(true) && log.is_starved());
    assert_eq!(read(&log, 0, None).chunks.len(), 2);
    log.consume(1);
    assert!(log.has_room(true));
}

#[test]
fn a_reader_without_a_window_frees_what_one_with_it_held() {
    let mut log = with_window(&Arc::new(Budget::default()));
    while log.has_room(true) {
        write(&mut log, 8192);
        log.skip_unsent();
    }
    log.has_window.store(false, Ordering::Relaxed);
    assert!(log.has_room(true));
    write(&mut log, 8192);
    log.skip_unsent();
    assert!(log.bytes <= MAX_RETAINED_BYTES);
    log.consume(u64::MAX);
    assert_eq!(log.unconsumed_bytes, 0);
}

#[test]
fn answers_a_long_poll_only_with_news() {
    let mut log = log();
    let after = |after| ReadRequest {
        after,
        ..ReadRequest::default()
    };
    assert_eq!(log.page(after(0)), None);
    write(&mut log, 1);
    assert!(log.page(after(0)).is_some());
    assert_eq!(log.page(after(1)), None);
    log.exited(0);
    assert!(log.page(after(1)).is_some());
    assert_eq!(log.page(after(2)), None, "the exit is known already");
    log.close();
    assert!(log.page(after(3)).is_some());
}

#[test]
fn a_new_reader_has_taken_nothing_of_what_is_kept() {
    let budget = Arc::new(Budget::default());
    let mut log = with_window(&budget);
    for _ in 0..4 {
        write(&mut log, 10);
    }
    log.consume(3);
    log.read_anew();
    assert_eq!(
        (log.consumed, log.unconsumed_bytes),
        (3, 10),
        "it goes on where nothing is kept"
    );
    log.keep();
    log.read_anew();
    assert_eq!((log.consumed, log.unconsumed_bytes), (0, 40));
    // What goes then counts as taken by nobody.
    log.skip_unsent();
    log.is_on_disk(&read(&log, 0, None).chunks, Contents::default());
    while log.bytes <= MAX_RETAINED_BYTES {
        write(&mut log, 8192);
    }
    log.skip_unsent();
    assert_eq!(log.unconsumed_bytes, log.bytes);
}
