//! How sandboxes end, with everything in them.

use std::io::Write as _;
use std::process::Stdio as Pipes;

use rendezvous_host::process::{Spec, Stdio};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::task::spawn_blocking;

use crate::support::{FOLDER_VARIABLE, PATIENCE, World, end, names, text, wait};

/// Living processes whose command line contains a word.
fn living(word: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line)
                .split('\0')
                .any(|argument| argument == word)
        })
        .collect()
}

/// Waits for the end of a process, whoever its parent is.
async fn ended(pid: i32) {
    // One without a number is gone.
    let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return;
    };
    let ended = spawn_blocking(move || poll(&mut [PollFd::new(&process, PollFlags::IN)], None));
    ended.await.expect("no panic").expect("watched");
}

async fn until_none_lives(word: &str) {
    let gone = async {
        while let Some(pid) = living(word).first() {
            ended(*pid).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("all are gone in time");
}

/// Many processes that leave their session, so that a signal to the group misses them.
const SWARM: &str = "i=0; while [ $i -lt 60 ]; do setsid sleep $TAG & i=$((i+1)); done; sleep 0.2; echo ready; wait";

fn swarm(world: &World, tag: &str, stdio: Stdio) -> Spec {
    let mut spec = world.spec(&["/bin/sh", "-c", SWARM]);
    spec.env.push(("TAG".into(), tag.into()));
    Spec { stdio, ..spec }
}

#[tokio::test]
async fn terminating_reaches_what_left_the_group() {
    for (number, stdio) in [Stdio::Pipes { stdin: false }, Stdio::Terminal].into_iter().enumerate() {
        let world = World::new();
        let tag = format!("{}.{}1", 4000 + number, std::process::id());
        let spec = world
            .confine(swarm(&world, &tag, stdio), &world.workspace_write())
            .await;
        let process = world.start(spec).await;
        wait(&process, |page| text(page).contains("ready")).await;
        assert!(living(&tag).len() >= 60);
        assert!(process.terminate());
        until_none_lives(&tag).await;
        end(&process).await;
        assert!(names(&world.inside).is_empty(), "no placeholder stays");
    }
}

#[tokio::test]
async fn without_a_sandbox_they_are_not_reached() {
    let world = World::new();
    let tag = format!("4002.{}1", std::process::id());
    let process = world.start(swarm(&world, &tag, Stdio::Pipes { stdin: false })).await;
    wait(&process, |page| text(page).contains("ready")).await;
    process.terminate();
    end(&process).await;
    let left = living(&tag);
    for pid in &left {
        let _gone = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
    }
    assert!(left.len() >= 60, "{left:?}");
}

#[tokio::test]
async fn all_die_with_the_program_and_the_output_closes() {
    let world = World::new();
    let tag = format!("4003.{}1", std::process::id());
    let script = format!("setsid sleep {tag} & echo started");
    let outcome = world.run(&world.workspace_write(), &script).await;
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "started\n"));
    until_none_lives(&tag).await;
}

#[tokio::test]
async fn all_die_with_the_table() {
    let world = World::new();
    let tag = format!("4004.{}1", std::process::id());
    let stdio = Stdio::Pipes { stdin: false };
    let spec = world
        .confine(swarm(&world, &tag, stdio), &world.workspace_write())
        .await;
    let process = world.start(spec).await;
    wait(&process, |page| text(page).contains("ready")).await;
    world.processes.shut();
    until_none_lives(&tag).await;
}

/// Says, in a copy of this test program, which swarm it is to start before it is killed.
const TAG_VARIABLE: &str = "SANDBOX_TEST_TAG";

#[tokio::test]
async fn all_die_with_the_executor() {
    if let Ok(tag) = std::env::var(TAG_VARIABLE) {
        let world = World::new();
        let stdio = Stdio::Pipes { stdin: false };
        let spec = world
            .confine(swarm(&world, &tag, stdio), &world.workspace_write())
            .await;
        let process = world.start(spec).await;
        wait(&process, |page| text(page).contains("ready")).await;
        // Past what the test runner keeps to itself.
        std::io::stdout().write_all(b"all live\n").expect("told");
        return std::future::pending().await;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let tag = format!("4005.{}1", std::process::id());
    let mut executor = tokio::process::Command::new(std::env::current_exe().expect("itself"))
        .args(["--exact", "lifetimes::all_die_with_the_executor"])
        .env(TAG_VARIABLE, &tag)
        .env(FOLDER_VARIABLE, folder.path())
        .stdout(Pipes::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a copy");
    let mut lines = BufReader::new(executor.stdout.take().expect("a pipe")).lines();
    let all = async {
        while let Some(line) = lines.next_line().await.expect("a line") {
            if line.ends_with("all live") {
                return;
            }
        }
        panic!("the copy has ended");
    };
    tokio::time::timeout(PATIENCE, all).await.expect("all live in time");
    assert!(living(&tag).len() >= 60);
    executor.kill().await.expect("killed and reaped");
    until_none_lives(&tag).await;
}

#[tokio::test]
async fn placeholders_last_as_long_as_one_sandbox_needs_them() {
    let world = World::new();
    let mut processes = Vec::new();
    for _ in 0..2 {
        let spec = Spec {
            stdio: Stdio::Pipes { stdin: true },
            ..world.spec(&["/bin/sh", "-c", "echo ready; read x; mkdir .git/x || echo protected"])
        };
        let process = world.start(world.confine(spec, &world.workspace_write()).await).await;
        wait(&process, |page| text(page).contains("ready")).await;
        processes.push(process);
    }
    for process in &processes {
        assert_eq!(names(&world.inside), [".agents", ".aws", ".codex", ".git"]);
        process.write("w", "go\n".into()).await.expect("written");
        let outcome = end(process).await;
        assert!(outcome.out.contains("protected"), "{outcome:?}");
    }
    assert!(names(&world.inside).is_empty());
}
