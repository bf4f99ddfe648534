//! Output, input, retention, back-pressure.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_host::process::{Change, MAX_RETAINED_BYTES, Outlet, Process, ReadRequest, WriteStatus};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::{LISTENER_QUEUE, PATIENCE, World, on_terminal, run, sh, until, with_stdin};

#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_arrives_whole_at_a_slow_reader_in_bounded_memory() {
    const SIZE: usize = 100 * 1024 * 1024;
    let mut world = World::new();
    let script = format!(
        "openssl enc -aes-128-ctr -pass pass:x -nosalt -pbkdf2 </dev/zero 2>/dev/null | head -c {SIZE} | tee /proc/self/fd/2 | sha256sum"
    );
    world.start("p", run(&["bash", "-c", &script])).await;
    let (mut hash, mut len, mut told) = (Sha256::new(), 0, String::new());
    let mut count = 0;
    loop {
        match world.next().await.change {
            Change::Output(chunk) if chunk.stream == rendezvous_host::process::Stream::Stderr => {
                hash.update(&chunk.data);
                len += chunk.data.len();
                count += 1;
                if count % 100 == 0 {
                    // A reader that is behind: it goes on when no more fits into its queue, or nothing comes any more.
                    let is_behind = || world.events.len() == LISTENER_QUEUE || world.processes.running() == 0;
                    until("a full queue", is_behind).await;
                }
                assert!(world.budget.retained() <= MAX_RETAINED_BYTES + 1024 * 1024);
            }
            Change::Output(chunk) => told += std::str::from_utf8(&chunk.data).expect("text"),
            Change::Exited { code, .. } => assert_eq!(code, 0),
            Change::Closed { .. } => break,
        }
    }
    assert_eq!(len, SIZE);
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(told.starts_with(&hash), "{told} is not {hash}");
}

/// So many looks without a change mean that reading has stopped.
const STOPPED_LOOKS: usize = 25;

/// Waits until output has come and no more comes.
async fn stopped(world: &World) {
    // Looks lie a few milliseconds apart, and a program that is read changes this figure in less than one. How much is
    // retained depends on the size of the reads.
    let (mut before, mut unchanged) = (0, 0);
    until("a stop", || {
        let now = world.budget.retained();
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
        unchanged >= STOPPED_LOOKS && world.events.len() == LISTENER_QUEUE
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_takes_nothing_stops_the_program() {
    let mut world = World::new();
    let process = world.start("p", sh("yes | head -c 20000000; echo end >&2")).await;
    stopped(&world).await;
    assert_eq!(
        process.read(ReadRequest::default()).await.exit_code,
        None,
        "nothing stopped it"
    );
    // The listener's queue, and what waits for it.
    assert!(
        world.budget.retained() <= (LISTENER_QUEUE + 1) * 44 * 1024 + 300 * 1024,
        "{}",
        world.budget.retained()
    );
    let ending = world.follow("p").await;
    assert_eq!((ending.out.len(), ending.err), (20_000_000, b"end\n".to_vec()));
}

#[tokio::test]
async fn without_a_listener_output_is_retained_and_events_are_not_queued() {
    let mut world = World::new();
    world.outlet.detach();
    let process = world.start("p", sh("yes | head -c 5000000; exit 7")).await;
    let closed = async {
        let mut after = 0;
        loop {
            let page = process
                .read(ReadRequest {
                    after,
                    tail: None,
                    max_bytes: None,
                    wait: PATIENCE,
                })
                .await;
            if page.closed {
                return;
            }
            after = page.next_seq - 1;
        }
    };
    timeout(PATIENCE, closed).await.expect("closed in time");
    let page = process.read(ReadRequest::default()).await;
    let retained: usize = page.chunks.iter().map(|chunk| chunk.data.len()).sum();
    assert!(
        (MAX_RETAINED_BYTES - 44 * 1024..=MAX_RETAINED_BYTES).contains(&retained),
        "{retained}"
    );
    assert!(page.chunks[0].seq > 1, "the oldest was dropped");
    assert_eq!(page.exit_code, Some(7));
    let seqs: Vec<u64> = page.chunks.iter().map(|chunk| chunk.seq).collect();
    assert!(seqs.is_sorted());
    assert!(world.events.try_recv().is_err());
}

/// Starts a process that writes more pieces than the listener's queue holds, and waits until all of them are read. Its
/// input is still open.
async fn overfull(world: &World) -> Process {
    let process = world
        .start("p", with_stdin(sh("while read line; do echo $line; done")))
        .await;
    for seq in 1..=LISTENER_QUEUE as u64 + 2 {
        process.write(&seq.to_string(), "line\n".into()).await.expect("write");
        let request = ReadRequest {
            after: seq - 1,
            tail: None,
            max_bytes: None,
            wait: PATIENCE,
        };
        assert_eq!(process.read(request).await.next_seq, seq + 1);
    }
    assert_eq!(world.events.len(), LISTENER_QUEUE);
    process
}

#[tokio::test]
async fn events_go_to_whoever_is_attached_now() {
    let mut world = World::new();
    let process = overfull(&world).await;
    // The old listener is full and never read again; it goes, and the new one gets the rest.
    let (sender, mut events) = mpsc::channel(1);
    world.events.close();
    world.outlet.attach(sender);
    process.write("last", "last\n".into()).await.expect("write");
    for seq in LISTENER_QUEUE as u64 + 1..=LISTENER_QUEUE as u64 + 3 {
        let event = timeout(PATIENCE, events.recv()).await.expect("in time").expect("event");
        assert_eq!(event.change.seq(), seq);
    }
}

#[tokio::test]
async fn the_end_of_the_table_frees_what_a_listener_has_not_taken() {
    let world = World::new();
    let process = overfull(&world).await;
    process.close_stdin();
    let end = async {
        let mut after = 0;
        loop {
            let request = ReadRequest {
                after,
                tail: None,
                max_bytes: None,
                wait: PATIENCE,
            };
            let page = process.read(request).await;
            if page.closed {
                return;
            }
            after = page.next_seq - 1;
        }
    };
    timeout(PATIENCE, end).await.expect("closed in time");
    drop(process);
    assert!(world.budget.retained() > 0);
    world.processes.shut();
    until("the memory's return", || world.budget.retained() == 0).await;
}

#[tokio::test]
async fn a_listener_that_goes_frees_the_program() {
    let outlet = Outlet::default();
    let world = World::new();
    drop(outlet);
    let process = world.start("p", sh("yes | head -c 20000000; exit 3")).await;
    stopped(&world).await;
    drop(world.events);
    timeout(PATIENCE, async {
        while !process
            .read(ReadRequest {
                after: u64::MAX,
                tail: None,
                max_bytes: None,
                wait: PATIENCE,
            })
            .await
            .closed
        {}
    })
    .await
    .expect("an end in time");
}

#[tokio::test]
async fn a_long_poll_waits_for_news_and_no_longer() {
    let world = World::new();
    let process = world.start("p", with_stdin(run(&["cat"]))).await;
    let request = |wait| ReadRequest {
        wait,
        ..ReadRequest::default()
    };
    let started = Instant::now();
    let page = process.read(request(Duration::from_millis(80))).await;
    assert!(page.chunks.is_empty() && started.elapsed() >= Duration::from_millis(80));
    assert_eq!(page.next_seq, 1);
    let (page, _) = tokio::join!(process.read(request(Duration::MAX)), process.write("1", "x".into()));
    assert_eq!(page.chunks[0].data, "x");
    assert!(process.close_stdin());
    assert!(!process.close_stdin());
    let mut after = page.next_seq - 1;
    loop {
        let page = process
            .read(ReadRequest {
                after,
                tail: None,
                max_bytes: None,
                wait: PATIENCE,
            })
            .await;
        after = page.next_seq - 1;
        if page.closed {
            assert_eq!(page.exit_code, Some(0));
            break;
        }
    }
}

#[tokio::test]
async fn writes_are_accepted_once_by_id() {
    let mut world = World::new();
    let process = world.start("p", with_stdin(run(&["cat"]))).await;
    for id in ["1", "1", "2", "1", "2"] {
        assert_eq!(
            process.write(id, format!("{id}\n").into()).await,
            Ok(WriteStatus::Accepted)
        );
    }
    process.close_stdin();
    assert_eq!(process.write("3", "3\n".into()).await, Ok(WriteStatus::StdinClosed));
    assert_eq!(world.follow("p").await.text(), "1\n2");

    let process = world.start("none", run(&["true"])).await;
    assert_eq!(process.write("1", "x".into()).await, Ok(WriteStatus::StdinClosed));
    world.follow("none").await;

    let process = world.start("ended", with_stdin(run(&["true"]))).await;
    world.follow("ended").await;
    assert_eq!(process.write("1", "x".into()).await, Ok(WriteStatus::Accepted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_input_arrives_whole() {
    const PIECE: usize = 100_000;
    let mut world = World::new();
    let process = world.start("p", with_stdin(run(&["sha256sum"]))).await;
    let mut hash = Sha256::new();
    for n in 0..200_u32 {
        let piece: Bytes = n.to_le_bytes().into_iter().cycle().take(PIECE).collect();
        hash.update(&piece);
        process.write(&n.to_string(), piece).await.expect("write");
    }
    process.close_stdin();
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(world.follow("p").await.text(), format!("{hash}  -"));
}

#[tokio::test]
async fn a_program_that_does_not_read_holds_up_its_writer() {
    let world = World::new();
    let process = world.start("p", with_stdin(run(&["sleep", "1000"]))).await;
    let mut accepted = 0;
    while timeout(
        Duration::from_millis(200),
        process.write(&accepted.to_string(), vec![0; 100_000].into()),
    )
    .await
    .is_ok()
    {
        accepted += 1;
        assert!(accepted < 64, "the queue is bounded");
    }
    let waiting = tokio::spawn({
        let process = process.clone();
        async move { process.write("waits", vec![0; 100_000].into()).await }
    });
    process.terminate();
    timeout(PATIENCE, waiting).await.expect("freed").expect("no panic").ok();
}

#[tokio::test]
async fn a_terminal_gets_another_size() {
    let mut world = World::new();
    let script = "trap 'stty size; exit' WINCH; while :; do sleep 0.02; done";
    let process = world.start("p", on_terminal(run(&["sh", "-c", script]))).await;
    // Sizes before the trap is set tell nobody; the last one is what the program sees.
    let mut columns = 100;
    let ending = {
        let following = world.follow("p");
        tokio::pin!(following);
        loop {
            columns += 1;
            assert!(process.resize(7, columns));
            if let Ok(ending) = timeout(Duration::from_millis(50), &mut following).await {
                break ending;
            }
        }
    };
    let (rows, seen) = ending.text().split_once(' ').expect("a size");
    assert_eq!((rows, ending.code), ("7", Some(0)));
    assert!((101..=columns).contains(&seen.parse().expect("columns")), "{seen}");
    let process = world.start("q", run(&["true"])).await;
    assert!(!process.resize(7, 33));
}

#[tokio::test]
async fn closing_a_terminal_types_the_end_of_file() {
    let mut world = World::new();
    let process = world.start("p", on_terminal(run(&["cat"]))).await;
    process.write("1", "line\n".into()).await.expect("write");
    assert!(process.close_stdin());
    let ending = world.follow("p").await;
    assert_eq!((ending.text(), ending.code), ("line\r\nline", Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn true_closes_within_milliseconds() {
    let mut world = World::new();
    let mut best = Duration::MAX;
    // A busy machine has its quiet moments; a delay of ours is always there.
    for n in 0..400 {
        let id = n.to_string();
        let started = Instant::now();
        world.start(&id, run(&["/bin/true"])).await;
        world.follow(&id).await;
        best = best.min(started.elapsed());
        if best < Duration::from_millis(40) {
            break;
        }
    }
    println!("start to closed: {best:?}");
    assert!(best < Duration::from_millis(40), "an artificial delay: {best:?}");
}
