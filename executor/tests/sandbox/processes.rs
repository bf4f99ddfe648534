//! What a program in a sandbox is and sees.

use rendezvous_host::process::{Spec, StartError, Stdio};
use rendezvous_host::sandbox::{Access, Intent, Network, Place, Profile, SandboxError};

use crate::support::{World, end, names, text, wait};

#[tokio::test]
async fn writes_in_the_workspace_and_nowhere_else() {
    let world = World::new();
    let script = format!("echo x > made; echo x > {}/made", world.outside.display());
    let outcome = world.run(&world.workspace_write(), &script).await;
    assert_eq!(names(&world.inside), ["made"], "placeholders are gone: {outcome:?}");
    assert!(names(&world.outside).is_empty());
    assert!(outcome.code != 0 && outcome.denied, "{outcome:?}");
    assert!(outcome.err.contains("Read-only file system"), "{outcome:?}");
}

#[tokio::test]
async fn codes_and_signals_pass_through() {
    let world = World::new();
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("true", 0)] {
        let outcome = world.run(&world.workspace_write(), script).await;
        assert_eq!((outcome.code, outcome.denied), (code, false), "{script}: {outcome:?}");
    }
}

#[tokio::test]
async fn keeps_its_name_arguments_environment_and_folder() {
    let world = World::new();
    std::fs::create_dir(world.inside.join("sub")).expect("made");
    let spec = Spec {
        arg0: Some("custom name".into()),
        cwd: world.inside.join("sub"),
        env: vec![
            ("PATH".into(), "/bin".into()),
            ("LD_LIBRARY_PATH".into(), "/x".into()),
            ("A".into(), "b c".into()),
        ],
        ..world.spec(&[
            "sh",
            "-c",
            "tr '\\0' '|' < /proc/$$/cmdline; pwd; env | sort",
            "",
            "\u{e4}",
        ])
    };
    let outcome = world.finish(world.confine(spec, &world.workspace_write()).await).await;
    let cwd = world.inside.join("sub");
    let expected = format!(
        "custom name|-c|tr '\\0' '|' < /proc/$$/cmdline; pwd; env | sort||\u{e4}|{0}\nA=b c\nLD_LIBRARY_PATH=/x\nPATH=/bin\nPWD={0}\n",
        cwd.display()
    );
    let out: Vec<_> = outcome.out.lines().filter(|line| !line.starts_with("_=")).collect();
    assert_eq!(out.join("\n") + "\n", expected);
}

#[tokio::test]
async fn sees_only_its_own_processes_and_no_descriptors_but_three() {
    let world = World::new();
    let outcome = world
        .run(
            &world.workspace_write(),
            "cat /proc/1/comm; echo /proc/[0-9]*; ls -l /proc/self/fd | tail -n +2 | wc -l",
        )
        .await;
    assert_eq!(
        outcome.out, "bwrap\n/proc/1 /proc/2\n4\n",
        "and the one that lists: {outcome:?}"
    );
}

#[tokio::test]
async fn a_missing_program_or_folder_fails_the_start() {
    let world = World::new();
    let intent = world.workspace_write();
    let missing = [
        world.spec(&["/no/such/program"]),
        world.spec(&["no-such-program"]),
        Spec {
            cwd: "/no/such/folder".into(),
            ..world.spec(&["true"])
        },
    ];
    for spec in missing {
        let spec = world.confine(spec, &intent).await;
        let error = world.processes.start("p", spec).await.expect_err("no such thing");
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
        assert!(world.processes.is_empty());
    }
}

#[tokio::test]
async fn a_sandbox_that_does_not_come_up_is_no_start() {
    let world = World::new();
    let intent = world.workspace_write();
    let spec = world.confine(world.spec(&["true"]), &intent).await;
    std::fs::remove_dir(&world.inside).expect("removed");
    std::fs::write(&world.inside, "").expect("written");
    let error = world
        .processes
        .start("p", spec)
        .await
        .expect_err("no place for the placeholders");
    assert!(
        matches!(error, StartError::Sandbox(SandboxError::Prepare(_))),
        "{error:?}"
    );
}

#[tokio::test]
async fn signals_reach_the_program_and_not_its_monitor() {
    for name in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "ALRM"] {
        let world = World::new();
        let script = format!("trap 'echo caught; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let spec = world
            .confine(world.spec(&["/bin/sh", "-c", &script]), &world.workspace_write())
            .await;
        let process = world.start(spec).await;
        wait(&process, |page| text(page).contains("ready")).await;
        process.signal(format!("SIG{name}").parse().expect("a signal"));
        let outcome = end(&process).await;
        assert_eq!(outcome.code, 5, "{name}: {outcome:?}");
        assert!(outcome.out.ends_with("caught\n"), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_terminal_controls_it() {
    let world = World::new();
    let script = "stty size; trap 'echo caught; exit 5' INT; echo ready > /dev/tty; while :; do sleep 0.05; done";
    let spec = Spec {
        stdio: Stdio::Terminal,
        ..world.spec(&["/bin/sh", "-c", script])
    };
    let process = world.start(world.confine(spec, &world.workspace_write()).await).await;
    wait(&process, |page| text(page).contains("ready")).await;
    process.write("w", "\u{3}".into()).await.expect("written");
    let outcome = end(&process).await;
    assert_eq!(outcome.code, 5, "{outcome:?}");
    assert!(
        outcome.out.contains("24 80") && outcome.out.contains("caught"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn restricted_reads_show_only_what_is_named() {
    let world = World::new();
    std::fs::write(world.outside.join("secret"), "secret").expect("written");
    std::fs::write(world.inside.join("open"), "open").expect("written");
    let intent = world.intent(&[
        (Place::Minimal, Access::Read),
        (Place::Path(world.inside.clone()), Access::Read),
    ]);
    let script = format!(
        "cat open; cat {}/secret; echo x > new; echo x > /new; ls /",
        world.outside.display()
    );
    let outcome = world.run(&intent, &script).await;
    assert!(outcome.out.starts_with("open"), "{outcome:?}");
    assert!(
        !outcome.out.contains("secret") && !outcome.out.contains("root"),
        "{outcome:?}"
    );
    assert_eq!(names(&world.inside), ["open"]);
}

#[tokio::test]
async fn denials_hide_and_the_most_specific_entry_wins() {
    let world = World::new();
    let path = |name: &str| Place::Path(world.inside.join(name));
    std::fs::create_dir_all(world.inside.join("hidden/shown")).expect("made");
    for file in ["hidden/a", "hidden/shown/b", "file", "x.env"] {
        std::fs::write(world.inside.join(file), file).expect("written");
    }
    let intent = world.intent(&[
        (Place::Root, Access::Read),
        (Place::ProjectRoots(None), Access::Write),
        (path("hidden"), Access::Deny),
        (path("hidden/shown"), Access::Read),
        (path("file"), Access::Deny),
        (Place::Pattern("**/*.env".into()), Access::Deny),
    ]);
    let script =
        "cat hidden/a; cat file; cat x.env; ls hidden; echo x > hidden/shown/c; cat hidden/shown/b; rm file x.env";
    let outcome = world.run(&intent, script).await;
    assert_eq!(outcome.out, "hidden/shown/b", "{outcome:?}");
    assert_eq!(names(&world.inside), ["file", "hidden", "x.env"]);
    assert_eq!(names(&world.inside.join("hidden/shown")), ["b"]);
}

#[tokio::test]
async fn roots_behind_links_work_under_both_names() {
    let world = World::new();
    let alias = world.outside.join("alias");
    std::os::unix::fs::symlink(&world.inside, &alias).expect("linked");
    for base in [Place::Root, Place::Minimal] {
        let intent = world.intent(&[(base, Access::Read), (Place::Path(alias.clone()), Access::Write)]);
        let script = format!(
            "echo x > {}/a && echo x > {}/b",
            alias.display(),
            world.inside.display()
        );
        let spec = Spec {
            cwd: alias.clone(),
            ..world.spec(&["/bin/sh", "-c", &script])
        };
        let outcome = world.finish(world.confine(spec, &intent).await).await;
        assert_eq!(
            (outcome.code, names(&world.inside)),
            (0, vec!["a".into(), "b".into()]),
            "{outcome:?}"
        );
        for name in ["a", "b"] {
            std::fs::remove_file(world.inside.join(name)).expect("removed");
        }
    }
}

#[tokio::test]
async fn nothing_to_enforce_needs_no_sandbox_and_a_network_alone_a_filter() {
    let world = World::new();
    let open = |network| Intent {
        profile: Profile::External { network },
        ..world.intent(&[])
    };
    let script = "grep Seccomp: /proc/self/status; cat /proc/1/comm";
    let outcome = world.run(&open(Network::Enabled), script).await;
    assert!(
        outcome.out.contains("Seccomp:\t0") && !outcome.out.contains("bwrap"),
        "{outcome:?}"
    );
    let outcome = world.run(&open(Network::Restricted), script).await;
    assert!(
        outcome.out.contains("Seccomp:\t2") && !outcome.out.contains("bwrap"),
        "{outcome:?}"
    );
}
