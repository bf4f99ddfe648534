//! The same for a user that is not root.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support;

/// What a user without privileges can try: everything but the comparison without a sandbox.
const FILTERS: [&str; 5] = [
    "processes::",
    "lifetimes::",
    "landlock::",
    "do_not_get_out",
    "unprivileged::the",
];

#[test]
fn another_user_is_confined_as_well() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(folder.path(), mode(0o755)).expect("permitted");
    // Where they were built, others may not come.
    let copy = |from: &std::path::Path, name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        std::fs::set_permissions(&to, mode(0o755)).expect("permitted");
        to
    };
    let tests = copy(&std::env::current_exe().expect("itself"), "tests");
    let helper = copy(&support::helper(), "executor");
    let output = Command::new("runuser")
        .args(["-u", "nobody", "--"])
        .arg(&tests)
        .args(FILTERS)
        .env(support::HELPER_VARIABLE, &helper)
        .current_dir("/")
        .output()
        .expect("runuser");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("programs_on_pipes_do_not_get_out ... ok"), "{text}");
}

#[tokio::test]
async fn the_number_of_processes_is_bounded() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let world = support::World::new();
    let outcome = world
        .run(&world.workspace_write(), "grep processes /proc/self/limits")
        .await;
    let limits: Vec<_> = outcome.out.split_whitespace().collect();
    assert_eq!(limits, ["Max", "processes", "4096", "4096", "processes"], "{outcome:?}");
}
