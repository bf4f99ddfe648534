//! Starting, signals, ends, the table.

mod inheritance;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use rendezvous_host::process::{
    Budget, CLOSED_RETENTION, Change, Lookup, MAX_CLOSED, MAX_PROCESSES, ReadRequest, Signal, Spec, StartError, State,
    WriteError, WriteStatus,
};
use tokio::time::timeout;

use crate::support::{PATIENCE, World, exists, on_terminal, run, sh, until, with_stdin};

#[tokio::test]
async fn every_exit_code_and_signal_is_told() {
    let mut world = World::new();
    for code in 0..=255 {
        world.start(&code.to_string(), sh(&format!("exit {code}"))).await;
        assert_eq!(world.follow(&code.to_string()).await.code, Some(code));
    }
    for signal in [1, 2, 6, 9, 11, 15] {
        let id = format!("signal {signal}");
        world.start(&id, sh(&format!("kill -{signal} $$"))).await;
        assert_eq!(world.follow(&id).await.code, Some(128 + signal));
        let id = format!("terminal {signal}");
        world.start(&id, on_terminal(sh(&format!("kill -{signal} $$")))).await;
        assert_eq!(world.follow(&id).await.code, Some(1));
    }
    world.start("terminal", on_terminal(sh("exit 200"))).await;
    assert_eq!(world.follow("terminal").await.code, Some(200));
}

#[tokio::test]
async fn output_and_errors_come_apart_with_the_exact_environment() {
    let mut world = World::new();
    let spec = Spec {
        env: vec![("A".into(), "1".into()), ("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/usr".into(),
        arg0: Some("custom name".into()),
        ..run(&[
            "sh",
            "-c",
            "/usr/bin/env | grep -v ^_= | sort; pwd >&2; tr '\\0' '|' < /proc/$$/cmdline >&2",
        ])
    };
    world.start("p", spec).await;
    let ending = world.follow("p").await;
    assert_eq!(ending.text(), "A=1\nPATH=/usr/bin:/bin\nPWD=/usr");
    let err = String::from_utf8(ending.err).expect("text");
    assert!(err.starts_with("/usr\ncustom name|-c|"), "{err}");
}

#[tokio::test]
async fn a_child_leads_its_own_session_and_group_and_has_an_empty_input() {
    let mut world = World::new();
    let process = world.start("p", sh("cut -d' ' -f1,5,6 /proc/$$/stat; wc -c")).await;
    let pid = process.pid();
    assert_eq!(world.follow("p").await.text(), format!("{pid} {pid} {pid}\n0"));
}

#[tokio::test]
async fn a_failed_start_frees_the_id_and_tells_the_reason() {
    let mut world = World::new();
    for spec in [
        run(&["/no/such/program"]),
        run(&["no-such-program"]),
        Spec {
            cwd: "/no/such/directory".into(),
            ..run(&["true"])
        },
    ] {
        let error = world.processes.start("p", spec).await.expect_err("no such thing");
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    }
    assert!(world.processes.is_empty());
    world.start("p", run(&["true"])).await;
    assert_eq!(world.follow("p").await.code, Some(0));
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let mut world = World::new();
    for n in 0..20 {
        let id = n.to_string();
        let process = world.start(&id, run(&["true"])).await;
        world.follow(&id).await;
        assert!(!exists(process.pid()), "a zombie is left");
    }
}

#[tokio::test]
async fn terminate_kills_the_whole_group_at_once() {
    let mut world = World::new();
    let process = world.start("p", sh("sleep 1000 & sleep 1000 & echo $!; wait")).await;
    let Change::Output(chunk) = world.next().await.change else {
        panic!("the grandchild's number");
    };
    let grandchild: i32 = std::str::from_utf8(&chunk.data)
        .expect("text")
        .trim()
        .parse()
        .expect("pid");
    assert!(exists(grandchild));
    assert!(process.terminate());
    assert!(matches!(
        world.next().await.change,
        Change::Exited {
            seq: 2,
            code: 137,
            denied: false
        }
    ));
    assert!(matches!(world.next().await.change, Change::Closed { seq: 3 }));
    // Orphans are reaped by init, or by nobody in a container without one.
    until("the grandchild's end", || {
        std::fs::read_to_string(format!("/proc/{grandchild}/stat")).map_or(true, |stat| stat.contains(") Z"))
    })
    .await;
    assert!(!process.terminate());
    assert_eq!(process.write("w", Bytes::new()).await, Err(WriteError));

    let process = world.start("tty", on_terminal(sh("sleep 1000"))).await;
    assert!(process.terminate());
    assert_eq!(world.follow("tty").await.code, Some(1));
}

#[tokio::test]
async fn terminate_does_not_wait_for_a_descendant_that_left_the_group() {
    let mut world = World::new();
    let process = world.start("p", sh("setsid sleep 1000 & echo $!; wait")).await;
    let Change::Output(chunk) = world.next().await.change else {
        panic!("the descendant's number");
    };
    let escaped: i32 = std::str::from_utf8(&chunk.data)
        .expect("text")
        .trim()
        .parse()
        .expect("pid");
    until("the descendant's own session", || {
        std::fs::read_to_string(format!("/proc/{escaped}/stat"))
            .is_ok_and(|stat| stat.split(' ').nth(4) == Some(&escaped.to_string()))
    })
    .await;
    assert!(process.terminate());
    assert!(matches!(world.next().await.change, Change::Exited { code: 137, .. }));
    assert!(matches!(world.next().await.change, Change::Closed { .. }));
    kill(escaped);
}

#[tokio::test]
async fn a_background_child_delays_the_end_but_not_the_exit() {
    let mut world = World::new();
    let process = world
        .start("p", with_stdin(sh("exec 3<&0; (read line <&3; echo $line) & exit 3")))
        .await;
    assert!(matches!(
        world.next().await.change,
        Change::Exited { seq: 1, code: 3, .. }
    ));
    assert!(
        !exists(process.pid()),
        "the program is reaped though its pipes are open"
    );
    assert!(!process.terminate(), "an exited program is not terminated");
    let page = process.read(ReadRequest::default()).await;
    assert_eq!((page.exit_code, page.closed, page.next_seq), (Some(3), false, 2));
    process.write("w", "later\n".into()).await.expect("write");
    assert!(matches!(world.next().await.change, Change::Output(chunk) if chunk.data == "later\n"));
    assert!(matches!(world.next().await.change, Change::Closed { seq: 3 }));
}

/// Polls without a wait in which the future could make progress.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_start_can_be_cancelled_and_goes_on_without_its_caller() {
    let world = World::new();
    let start = world.processes.start("p", run(&["sleep", "1000"]));
    tokio::pin!(start);
    assert!(
        poll_once(start.as_mut()).is_pending(),
        "starting takes more than one poll"
    );
    assert!(matches!(world.processes.get("p"), Lookup::Starting));
    let again = world.processes.start("p", run(&["true"])).await;
    assert!(matches!(again, Err(StartError::AlreadyExists(_))));
    assert!(world.processes.terminate("p"));
    assert!(!world.processes.terminate("p"));
    assert!(matches!(start.await, Err(StartError::Cancelled(_))));
    assert!(matches!(world.processes.get("p"), Lookup::Unknown));

    assert!(poll_once(pin!(world.processes.start("q", run(&["sleep", "1000"])))).is_pending());
    until("the start without its caller", || {
        matches!(world.processes.get("q"), Lookup::Started(_))
    })
    .await;
    assert!(world.processes.terminate("q"));
}

/// Polls it once, and no more: a timeout of zero may do it twice.
fn is_pending(future: Pin<&mut impl Future>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test]
async fn a_cancelled_start_does_not_take_the_place_of_a_later_one() {
    let mut world = World::new();
    {
        let first = world.processes.start("p", sh("exit 1"));
        let second = world.processes.start("p", sh("exit 2"));
        tokio::pin!(first, second);
        assert!(is_pending(first.as_mut()));
        assert!(world.processes.terminate("p"));
        assert!(is_pending(second.as_mut()));
        let (first, second) = tokio::join!(first, second);
        assert!(matches!(first, Err(StartError::Cancelled(_))), "{first:?}");
        second.expect("start");
    }
    assert_eq!(world.follow("p").await.code, Some(2));
}

#[tokio::test]
async fn a_cancelled_start_leaves_neither_program_nor_zombie() {
    // Its own, though tests run side by side; the kernel keeps 15 bytes.
    let name = format!("cancel-{}", std::process::id());
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join(&name);
    std::os::unix::fs::symlink("/bin/sleep", &program).expect("link");
    let world = World::new();
    let start = world
        .processes
        .start("p", run(&[program.to_str().expect("text"), "1000"]));
    tokio::pin!(start);
    assert!(is_pending(start.as_mut()), "starting takes more than one poll");
    assert!(world.processes.terminate("p"));
    assert!(matches!(start.await, Err(StartError::Cancelled(_))));
    // A zombie has no command line any more, but still its name.
    let is_called = |process: std::fs::DirEntry| {
        std::fs::read_to_string(process.path().join("stat")).is_ok_and(|stat| stat.contains(&format!("({name})")))
    };
    until("the program's end", || {
        !std::fs::read_dir("/proc")
            .expect("processes")
            .filter_map(Result::ok)
            .any(is_called)
    })
    .await;
}

#[tokio::test]
async fn of_two_starts_with_one_id_one_wins() {
    let world = World::new();
    let (a, b) = tokio::join!(
        world.processes.start("p", run(&["true"])),
        world.processes.start("p", run(&["true"]))
    );
    assert!(a.is_ok() != b.is_ok());
}

/// Puts the paused clock forward, and lets whoever waited for that have their turn.
async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_closed_process_keeps_its_id_for_a_while() {
    let mut world = World::new();
    let process = world.start("p", sh("echo kept")).await;
    world.follow("p").await;
    assert!(matches!(
        world.processes.start("p", run(&["true"])).await,
        Err(StartError::AlreadyExists(_))
    ));
    assert_eq!(process.read(ReadRequest::default()).await.chunks[0].data, "kept\n");
    tokio::time::pause();
    pass(CLOSED_RETENTION - Duration::from_secs(1)).await;
    assert!(matches!(world.processes.get("p"), Lookup::Started(_)));
    pass(Duration::from_secs(2)).await;
    assert!(matches!(world.processes.get("p"), Lookup::Unknown));
    tokio::time::resume();
    world.start("p", run(&["true"])).await;
}

#[tokio::test]
async fn the_retention_of_an_evicted_process_does_not_end_a_later_one_of_its_id() {
    let mut world = World::with_budget(Budget::new(1, usize::MAX));
    for id in ["p", "q"] {
        world.start(id, run(&["true"])).await;
        world.follow(id).await;
    }
    world.start("p", run(&["sleep", "1000"])).await;
    tokio::time::pause();
    pass(CLOSED_RETENTION + Duration::from_secs(1)).await;
    assert!(matches!(world.processes.get("p"), Lookup::Started(_)));
}

#[tokio::test]
async fn closed_processes_are_bounded_and_do_not_block_new_ones() {
    let mut world = World::new();
    for n in 0..MAX_CLOSED + 5 {
        let id = n.to_string();
        world.start(&id, run(&["true"])).await;
        world.follow(&id).await;
    }
    until("the eviction of the oldest", || world.processes.len() == MAX_CLOSED).await;
    assert!(matches!(world.processes.get("4"), Lookup::Unknown));
    assert!(matches!(world.processes.get("5"), Lookup::Started(_)));
}

#[tokio::test]
async fn of_closed_processes_those_that_were_read_to_the_end_go_first() {
    let mut world = World::new();
    world.processes.set_window(true);
    for n in 0..=MAX_CLOSED + 2 {
        let id = n.to_string();
        let process = world.start(&id, run(&["true"])).await;
        world.follow(&id).await;
        if n == 3 || n == 5 {
            process.consume(u64::MAX);
        }
    }
    until("the evictions", || world.processes.len() == MAX_CLOSED).await;
    for (id, is_there) in [
        ("3", false),
        ("5", false),
        ("0", false),
        ("1", true),
        ("2", true),
        ("4", true),
    ] {
        assert_eq!(matches!(world.processes.get(id), Lookup::Started(_)), is_there, "{id}");
    }
}

#[tokio::test]
async fn running_processes_are_bounded() {
    let world = World::new();
    for n in 0..MAX_PROCESSES {
        // A reservation is enough: what starts counts too.
        let id = n.to_string();
        let _ = poll_once(pin!(world.processes.start(id, run(&["sleep", "1000"]))));
    }
    assert!(matches!(
        world.processes.start("more", run(&["true"])).await,
        Err(StartError::TooMany)
    ));
    assert!(world.processes.terminate("7"));
    // A start that is cancelled gives its place back at once, a process when it is closed.
    until("a place", || world.processes.running() < MAX_PROCESSES).await;
    world.start("more", run(&["true"])).await;
}

#[tokio::test]
async fn a_full_budget_refuses_but_evicts_closed_ones_first() {
    let mut world = World::with_budget(Budget::new(2, usize::MAX));
    world.start("a", run(&["true"])).await;
    world.follow("a").await;
    world.start("b", run(&["sleep", "1000"])).await;
    until("the place of the closed one", || {
        world.process("a").pid() > 0 && world.budget.processes() == 2
    })
    .await;
    world.start("c", run(&["sleep", "1000"])).await;
    assert!(matches!(world.processes.get("a"), Lookup::Unknown));
    assert!(matches!(
        world.processes.start("d", run(&["true"])).await,
        Err(StartError::TooMany)
    ));
}

#[tokio::test]
async fn interrupt_reaches_the_group() {
    let mut world = World::new();
    let script = "trap 'echo caught; exit 9' INT; sleep 1000 & echo ready; wait";
    let process = world.start("p", run(&["bash", "-c", script])).await;
    assert!(matches!(world.next().await.change, Change::Output(_)));
    process.signal(Signal::INTERRUPT);
    let Change::Output(chunk) = world.next().await.change else {
        panic!("the trap's word");
    };
    assert_eq!(chunk.data, "caught\n");
    assert!(matches!(world.next().await.change, Change::Exited { code: 9, .. }));
    process.signal(Signal::INTERRUPT);
}

#[tokio::test]
async fn every_signal_reaches_the_group() {
    for name in ["HUP", "TERM", "QUIT", "USR1", "ALRM", "WINCH", "URG"] {
        let mut world = World::new();
        let script = format!("trap 'exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let process = world.start("p", run(&["bash", "-c", &script])).await;
        assert!(matches!(world.next().await.change, Change::Output(_)));
        process.signal(format!("SIG{name}").parse().expect("a signal"));
        // The shell may tell that its child got the signal, too.
        let end = loop {
            match world.next().await.change {
                Change::Output(_) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Change::Exited { code: 9, .. }), "{name}: {end:?}");
    }
}

#[tokio::test]
async fn a_process_is_described_from_its_start_to_its_end() {
    let mut world = World::new();
    let process = world
        .start("p", with_stdin(run(&["sh", "-c", "printf 12345; read x; exit 3"])))
        .await;
    assert!(matches!(world.next().await.change, Change::Output(_)));
    let summary = process.summary();
    assert_eq!((summary.state, summary.exit_code), (State::Running, None));
    assert_eq!(summary.argv, ["sh", "-c", "printf 12345; read x; exit 3"]);
    assert_eq!(
        (summary.next_seq, summary.retained_bytes, summary.dropped_bytes),
        (2, 5, 0)
    );
    assert_eq!((summary.pid, summary.terminal), (process.pid(), false));
    process.close_stdin();
    while !matches!(world.next().await.change, Change::Closed { .. }) {}
    let summary = process.summary();
    assert_eq!(
        (summary.state, summary.exit_code, summary.next_seq),
        (State::Closed, Some(3), 4)
    );
    world.start("a", on_terminal(run(&["sleep", "1000"]))).await;
    let listed = world.processes.list();
    let ids: Vec<&str> = listed.iter().map(|(id, _)| &**id).collect();
    assert_eq!(ids, ["p", "a"], "in the order of their starts");
    assert!(listed[1].1.as_ref().is_some_and(|process| process.summary().terminal));
}

#[tokio::test]
async fn a_terminal_has_a_size_a_controlling_process_and_control_c() {
    let mut world = World::new();
    let process = world
        .start(
            "p",
            on_terminal(sh(
                "stty size; tty > /dev/tty; trap 'echo caught; exit 4' INT; echo ready; sleep 1000 & wait",
            )),
        )
        .await;
    let mut text = String::new();
    while !text.contains("ready") {
        let Change::Output(chunk) = world.next().await.change else {
            panic!("output");
        };
        text += std::str::from_utf8(&chunk.data).expect("text");
    }
    assert!(text.starts_with("24 80\r\n/dev/pts/"), "{text}");
    assert_eq!(
        process.write("1", Bytes::from_static(b"\x03")).await,
        Ok(WriteStatus::Accepted)
    );
    let rest = timeout(PATIENCE, async {
        loop {
            if let Change::Exited { code, .. } = world.next().await.change {
                return code;
            }
        }
    });
    assert_eq!(rest.await.expect("an end in time"), 4);
}

#[tokio::test]
async fn a_program_may_leave_its_terminal_and_come_back() {
    let mut world = World::new();
    let script = "exec </dev/null >/dev/null 2>&1; sleep 0.3; yes | head -c 20000 >/dev/tty; exit 6";
    world.start("p", on_terminal(sh(script))).await;
    let ending = world.follow("p").await;
    // The terminal makes two bytes of each line's end.
    assert_eq!((ending.out.len(), ending.code), (30_000, Some(6)));
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
}
