//! The executor as the first process of a container, and with few file descriptors.

use std::fs;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;

use crate::world::{Client, Executor, start};

/// An executor that this command starts.
fn wrapped(wrapper: &[&str]) -> Command {
    let mut command = Command::new(wrapper[0]);
    command
        .args(&wrapper[1..])
        .arg(env!("CARGO_BIN_EXE_executor"))
        .args(["--listen", "ws://127.0.0.1:0"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a script to its end: what it printed.
async fn run(client: &mut Client, id: &str, script: &str) -> String {
    client.call("process/start", start(id, script)).await;
    let mut text = String::new();
    let mut after = 0;
    loop {
        let params = json!({"processId": id, "afterSeq": after, "waitMs": 10_000});
        let read = client.call("process/read", params).await;
        for chunk in read["chunks"].as_array().expect("chunks") {
            let bytes = STANDARD
                .decode(chunk["chunk"].as_str().expect("chunk"))
                .expect("base64");
            text += std::str::from_utf8(&bytes).expect("text");
        }
        after = read["nextSeq"].as_u64().expect("nextSeq") - 1;
        if read["closed"] == true {
            return text.trim().to_owned();
        }
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().expect("a process id")).expect("a process id")
}

#[tokio::test]
async fn the_first_process_reaps_passes_signals_on_and_ends_as_the_executor_does() {
    let unshare = [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ];
    let mut command = wrapped(&unshare);
    command.env("EXECUTOR_TOKEN", "not-for-commands");
    let executor = Executor::spawn(command).await;
    let mut client = executor.client().await;
    let name = run(&mut client, "name", "tr '\\0' ' ' < /proc/1/cmdline").await;
    assert!(name.starts_with("executor-init "), "{name}");
    let environment = run(
        &mut client,
        "environment",
        "cat /proc/[0-9]*/environ | grep -c not-for-commands",
    )
    .await;
    assert_eq!(environment, "0");
    // Nobody is left to wait for it when it ends.
    let orphan = run(
        &mut client,
        "orphan",
        "setsid sleep 0.1 >/dev/null 2>&1 </dev/null & echo $!",
    )
    .await;
    let parent = format!("cut -d' ' -f3,4 /proc/{orphan}/stat 2>/dev/null || echo gone");
    let mut number = 0;
    loop {
        number += 1;
        let state = run(&mut client, &format!("look{number}"), &parent).await;
        if state == "gone" {
            break;
        }
        assert!(number < 1000, "never reaped: {state}");
    }
    let unshare = executor.child.id().expect("running");
    let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).expect("children");
    kill_process(pid(&children), Signal::TERM).expect("signal");
    assert_eq!(client.closed().await, 1000);
    assert_eq!(executor.end().await, Some(0));
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_and_commands_get_the_old_one() {
    let script = "ulimit -S -n 70; ulimit -H -n 500; exec \"$@\"";
    let executor = Executor::spawn(wrapped(&["/bin/sh", "-c", script, "sh"])).await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", executor.child.id().expect("running")));
    let limits = limits.expect("limits");
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    let files: Vec<_> = files.expect("a line").split_whitespace().skip(3).take(2).collect();
    assert_eq!(files, ["500", "500"]);
    let mut client = executor.client().await;
    assert_eq!(run(&mut client, "soft", "ulimit -S -n; ulimit -H -n").await, "70\n500");
    // The files that processes need are never all that there are.
    let mut started = 0;
    loop {
        match client
            .try_call("process/start", start(&format!("p{started}"), "exec sleep 1000"))
            .await
        {
            Ok(_) => started += 1,
            Err(error) => {
                assert!(
                    error["message"].as_str().expect("text").contains("too many processes"),
                    "{error}"
                );
                break;
            }
        }
    }
    assert!(started >= 20, "{started}");
    executor.client().await;
}
