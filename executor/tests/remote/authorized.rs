//! `--authorized-harnesses`: whom an executor serves, whatever its registry says, by itself or in front of another one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use rendezvous_channel::Identity;
use rendezvous_transport::stream::{MessageStream, StreamEnd};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::forward;
use crate::process::{Executor, NOBODY, with_token};
use crate::world::{Seen, World, within};

/// The file, in a folder that the executor may enter.
struct List {
    _folder: TempDir,
    path: PathBuf,
}

impl List {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("chmod");
        let path = folder.path().join("harnesses");
        Self { _folder: folder, path }
    }

    fn of(harnesses: &[&Identity]) -> Self {
        let list = Self::new();
        list.hold(harnesses);
        list
    }

    fn hold(&self, harnesses: &[&Identity]) {
        let lines = harnesses
            .iter()
            .map(|harness| harness.public().fingerprint().to_string());
        self.write(&lines.collect::<Vec<_>>().join("\n"));
    }

    fn write(&self, text: &str) {
        fs::write(&self.path, text).expect("written");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&self.path, Some(NOBODY), Some(NOBODY)).expect("chown");
        }
    }

    fn option(&self) -> [&str; 2] {
        ["--authorized-harnesses", self.path.to_str().expect("UTF-8")]
    }
}

/// One that serves, or one that forwards to a listener.
async fn up(world: &mut World, list: &List, forwards: bool) -> (Executor, Option<TcpListener>) {
    let up = if forwards {
        let (executor, listener) = forward::up(world, &list.option()).await;
        (executor, Some(listener))
    } else {
        let mut command = with_token(world);
        command.args(list.option());
        let mut executor = Executor::start(command);
        executor.line().await.expect("registered");
        (executor, None)
    };
    assert!(matches!(world.next().await, Seen::Register(..)));
    assert!(matches!(world.next().await, Seen::Upgrade(..)));
    up
}

fn key() -> Identity {
    Identity::generate(&mut UnwrapErr(SysRng))
}

fn is_refused(end: &Result<MessageStream, StreamEnd>) -> bool {
    matches!(end, Err(StreamEnd::Reset(_)))
}

fn is_not_listed(end: &Result<MessageStream, StreamEnd>) -> bool {
    end.as_ref().is_err_and(StreamEnd::is_not_listed)
}

#[tokio::test]
async fn whoever_is_not_in_the_file_is_refused_and_nobody_is_asked() {
    for forwards in [false, true] {
        let mut world = World::new();
        let (known, other) = (key(), key());
        let list = List::of(&[&known]);
        let (executor, _listener) = up(&mut world, &list, forwards).await;
        let refused = world.harness_as(&other).await;
        assert!(is_not_listed(&refused), "{forwards}: {refused:?}");
        executor.says("its fingerprint is not in the file").await;
        let admitted = world.harness_as(&known).await.expect("admitted");
        // The first that the registry heard of.
        assert_eq!(world.next().await, Seen::Validate(admitted.id().to_string()));
    }
}

#[tokio::test]
async fn the_file_alone_admits_nobody() {
    for forwards in [false, true] {
        let mut world = World::new();
        let known = key();
        let list = List::of(&[&known]);
        let _up = up(&mut world, &list, forwards).await;
        for (status, body) in [(200, r#"{"valid":false}"#), (200, "{}"), (500, "")] {
            world.answer_validations(status, body);
            let refused = world.harness_as(&known).await;
            assert!(is_refused(&refused), "{forwards} {status} {body}: {refused:?}");
            assert!(matches!(world.next().await, Seen::Validate(_)));
        }
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_used_admits_nobody_until_it_can() {
    for forwards in [false, true] {
        let mut world = World::new();
        let known = key();
        let list = List::of(&[&known]);
        let (executor, _listener) = up(&mut world, &list, forwards).await;
        list.write("nobody\n");
        let refused = world.harness_as(&known).await;
        assert!(is_refused(&refused), "{forwards}: {refused:?}");
        fs::remove_file(&list.path).expect("removed");
        let refused = world.harness_as(&known).await;
        assert!(is_refused(&refused), "{forwards}: {refused:?}");
        executor.says_times("cannot be used", 2).await;
        list.hold(&[&known]);
        world.harness_as(&known).await.expect("admitted");
    }
}

#[tokio::test]
async fn whoever_is_taken_out_of_the_file_is_cut_off() {
    for forwards in [false, true] {
        let mut world = World::new();
        let (known, other) = (key(), key());
        let list = List::of(&[&known, &other]);
        let (executor, _listener) = up(&mut world, &list, forwards).await;
        let mut ends = world.harness_as(&known).await.expect("admitted");
        let mut stays = world.harness_as(&other).await.expect("admitted");
        list.hold(&[&other]);
        let end = within(ends.recv()).await.expect("an end");
        assert!(end.is_err(), "{forwards}: {end:?}");
        executor.says("harness is authorized no more").await;
        assert!(is_not_listed(&world.harness_as(&known).await));
        list.hold(&[]);
        assert!(within(stays.recv()).await.expect("an end").is_err());
        executor.says_times("harness is authorized no more", 2).await;
    }
}
