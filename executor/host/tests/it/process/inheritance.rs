//! What children get from the executor, and when they die.

use std::os::fd::AsRawFd;

use super::*;

#[tokio::test]
async fn no_open_file_reaches_a_child() {
    let mut world = World::new();
    // A file without the close-on-exec flag, as one that the executor itself inherited.
    let (read, _write) = rustix::pipe::pipe().expect("a pipe");
    let inheritable = read.as_raw_fd();
    assert!(inheritable > 2);
    for (id, spec) in [
        ("pipes", sh("ls /proc/$$/fd")),
        ("terminal", on_terminal(sh("ls /proc/$$/fd"))),
    ] {
        world.start(id, spec).await;
        let ending = world.follow(id).await;
        let fds: Vec<&str> = ending.text().split_whitespace().collect();
        // dash keeps descriptor 10 on a terminal for job control, never here: it is not interactive.
        assert_eq!(fds, ["0", "1", "2"], "{id}");
    }
}

#[test]
fn inherited_ignored_signals_are_restored() {
    // A shell that ignores SIGINT and SIGHUP starts the helper, as a background job or nohup would.
    let script = "trap '' INT HUP; exec \"$0\" process::inheritance::helper_with_a_child --exact --nocapture";
    let helper = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this test"))
        .env("RENDEZVOUS_HELPER", "report")
        .output()
        .expect("helper");
    let text = String::from_utf8(helper.stdout).expect("text");
    let ignored = |of: &str| {
        let at = text.split(of).nth(1).expect(of);
        u64::from_str_radix(at.split_whitespace().next().expect("mask"), 16).expect("mask") & 0x7fff_ffff
    };
    assert_eq!(ignored("own=") & 0b11, 0b11, "the helper ignores them itself");
    assert_eq!(ignored("child="), 0, "its child does not");
}

#[tokio::test]
async fn children_survive_the_end_of_a_thread_of_ours() {
    let world = World::new();
    let processes = Arc::new(world.processes);
    let starter = Arc::clone(&processes);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtime");
        runtime.block_on(async { starter.start("p", run(&["sleep", "1000"])).await.expect("start") });
        let Lookup::Started(process) = starter.get("p") else {
            panic!("started")
        };
        // Without the driver nobody reaps it, so it would be seen as a zombie had the signal come.
        process.pid()
    })
    .join()
    .map(|pid| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("alive");
        assert!(!state.contains(") Z"), "{state}");
        kill(pid);
    })
    .expect("thread");
}

/// Not a test by itself: others run it in a process of its own.
#[test]
fn helper_with_a_child() {
    let Some(task) = std::env::var_os("RENDEZVOUS_HELPER") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    runtime.block_on(async {
        let mut world = World::new();
        if task == "report" {
            world.start("p", sh("grep SigIgn /proc/$$/status")).await;
            let report = |status: &str| status.split("SigIgn:").nth(1).expect("mask").trim().to_owned();
            println!("child={}", report(world.follow("p").await.text()));
            let own = std::fs::read_to_string("/proc/self/status").expect("status");
            println!("own={}", report(&own));
        } else {
            let process = world.start("p", run(&["sleep", "1000"])).await;
            println!("child={}", process.pid());
            std::future::pending::<()>().await;
        }
    });
}

#[tokio::test]
async fn children_die_with_the_executor() {
    use std::io::{BufRead, BufReader};
    let mut helper = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["process::inheritance::helper_with_a_child", "--exact", "--nocapture"])
        .env("RENDEZVOUS_HELPER", "wait")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("helper");
    let child: i32 = BufReader::new(helper.stdout.take().expect("stdout"))
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split("child=").nth(1).and_then(|pid| pid.trim().parse().ok()))
        .expect("the child's number");
    assert!(exists(child));
    helper.kill().expect("kill");
    helper.wait().expect("reap");
    until("the child's end", || {
        std::fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z"))
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_table_kills_also_what_outlived_its_program() {
    let mut world = World::new();
    world.start("p", sh("sleep 1000 & echo $!; exit 0")).await;
    let Change::Output(chunk) = world.next().await.change else {
        panic!("the child's number");
    };
    let child: i32 = std::str::from_utf8(&chunk.data)
        .expect("text")
        .trim()
        .parse()
        .expect("pid");
    assert!(matches!(world.next().await.change, Change::Exited { .. }));
    let running = world.start("q", run(&["sleep", "1000"])).await;
    world.processes.shut();
    for pid in [child, running.pid()] {
        until("the end of what was left", || {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z"))
        })
        .await;
    }
    let pid = running.pid();
    until("reaping", || !exists(pid)).await;
    assert!(matches!(
        world.processes.start("r", run(&["true"])).await,
        Err(StartError::Cancelled(_))
    ));
    drop((running, world.processes));
    let budget = Arc::clone(&world.budget);
    until("the budget's return", || {
        budget.processes() == 0 && budget.retained() == 0
    })
    .await;
}
