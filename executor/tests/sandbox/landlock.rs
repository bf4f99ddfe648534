//! Machines on which bubblewrap does not work.

use rendezvous_host::sandbox::{Access, Place, Policy, Sandbox, SandboxError, Tools};

use crate::support::{World, names};

fn without_bubblewrap() -> World {
    let mut world = World::new();
    world.sandbox = Sandbox::new(Tools {
        bubblewrap: None,
        helper: crate::support::helper(),
    });
    world
}

#[tokio::test]
async fn reading_alone_is_enforced() {
    let world = without_bubblewrap();
    std::fs::write(world.inside.join("file"), "content").expect("written");
    let intent = world.intent(&[(Place::Root, Access::Read)]);
    let script = "cat file; echo x > /dev/null && echo sink; echo x > file; echo x > new; chmod 777 file; touch file; \
                  mkdir d; ln file h; mv file g; rm file; kill -9 $VICTIM; grep -q VICTIM /proc/$VICTIM/environ && echo saw";
    let mut victim = std::process::Command::new("sleep")
        .arg("600")
        .env("VICTIM", "1")
        .spawn()
        .expect("a victim");
    let mut spec = world.spec(&["/bin/sh", "-c", script]);
    spec.env.push(("VICTIM".into(), victim.id().to_string().into()));
    let outcome = world.finish(world.confine(spec, &intent).await).await;
    let is_alive = victim.try_wait().expect("looked at").is_none();
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    assert!(is_alive, "{outcome:?}");
    assert_eq!(outcome.out, "contentsink\n", "{outcome:?}");
    assert_eq!(names(&world.inside), ["file"]);
    assert_eq!(
        std::fs::read_to_string(world.inside.join("file")).expect("read"),
        "content"
    );
    let outcome = world
        .run(
            &intent,
            r#"perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) and print "out"'; id -u"#,
        )
        .await;
    assert!(!outcome.out.contains("out"), "{outcome:?}");
}

/// Neither by the call whose flags can be seen nor by the one that hides them.
#[tokio::test]
async fn no_namespace_is_made() {
    let world = without_bubblewrap();
    let intent = world.intent(&[(Place::Root, Access::Read)]);
    let script = r#"unshare -Ur echo out; perl -e '$a = pack("Q8", 0x10000000, 0, 0, 0, 17, 0, 0, 0); $p = syscall(435, $a, 64);
        exit if !$p; print $p > 0 ? "out" : $!{ENOSYS} ? "no such call" : "$!"'"#;
    let outcome = world.run(&intent, script).await;
    assert_eq!(outcome.out, "no such call", "{outcome:?}");
}

#[tokio::test]
async fn a_file_can_be_opened_for_writing() {
    let world = without_bubblewrap();
    let file = world.outside.join("file");
    std::fs::write(&file, "").expect("written");
    let intent = world.intent(&[(Place::Root, Access::Read), (Place::Path(file.clone()), Access::Write)]);
    let script = format!(
        "echo x > {}; echo x > {}/other",
        file.display(),
        world.outside.display()
    );
    world.run(&intent, &script).await;
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "x\n");
    assert_eq!(names(&world.outside), ["file"]);
}

#[tokio::test]
async fn what_landlock_cannot_do_is_refused() {
    let world = without_bubblewrap();
    let secret = world.outside.join("secret");
    std::fs::write(&secret, "").expect("written");
    for entries in [
        vec![(Place::Root, Access::Read), (Place::ProjectRoots(None), Access::Write)],
        vec![(Place::Root, Access::Read), (Place::Path(secret), Access::Deny)],
        vec![(Place::Minimal, Access::Read)],
        vec![],
    ] {
        let policy = Policy::resolve(&world.intent(&entries)).expect("a policy");
        let refused = world.sandbox.jail(policy).await;
        assert!(
            matches!(refused, Err(SandboxError::Unenforceable(_))),
            "{entries:?}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_bubblewrap_that_fails_is_none() {
    let mut world = World::new();
    world.sandbox = Sandbox::new(Tools {
        bubblewrap: Some("/bin/false".into()),
        helper: crate::support::helper(),
    });
    let policy = Policy::resolve(&world.workspace_write()).expect("a policy");
    let refused = world.sandbox.jail(policy).await;
    assert!(matches!(refused, Err(SandboxError::Unenforceable(_))), "{refused:?}");
    world.sandbox = Sandbox::new(Tools {
        bubblewrap: None,
        helper: "/no/such/file".into(),
    });
    let policy = Policy::resolve(&world.intent(&[(Place::Root, Access::Read)])).expect("a policy");
    assert!(matches!(
        world.sandbox.jail(policy).await,
        Err(SandboxError::Unenforceable(_))
    ));
}
