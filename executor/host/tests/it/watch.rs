//! Waiting for paths to appear.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rendezvous_host::files::Files;
use rendezvous_host::watch::{MAX_MISSING, MissingWatch};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::PATIENCE;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("directory");
    let root = dir.path().canonicalize().expect("path");
    (dir, root)
}

async fn watch(missing: &[PathBuf], present: Option<&Path>) -> Option<MissingWatch> {
    MissingWatch::new(&Files::default(), missing.to_vec(), present.map(Into::into)).await
}

async fn watching(missing: &[PathBuf], present: Option<&Path>) -> MissingWatch {
    watch(missing, present).await.expect("watching")
}

async fn changes(watch: &MissingWatch) {
    timeout(PATIENCE, watch.changed())
        .await
        .expect("in time")
        .expect("news");
}

/// Nothing that happened so far counts. The kernel queues its news before the call that made them returns, so that one
/// look is enough.
async fn is_quiet(watch: &MissingWatch) {
    let looked = timeout(Duration::from_millis(50), watch.changed()).await;
    assert!(looked.is_err(), "told of a change");
}

#[tokio::test]
async fn tells_when_a_path_appears() {
    let (_dir, root) = place();
    let path = root.join("a");
    let makers: [fn(&Path); 4] = [
        |path| fs::write(path, "").expect("file"),
        |path| fs::create_dir(path).expect("dir"),
        |path| symlink("/nowhere", path).expect("link"),
        |path| {
            fs::write(path.with_extension("tmp"), "").expect("file");
            fs::rename(path.with_extension("tmp"), path).expect("rename");
        },
    ];
    for (number, make) in makers.iter().enumerate() {
        let path = path.with_extension(number.to_string());
        let watch = watching(&[root.join("other"), path.clone()], None).await;
        fs::write(root.join(format!("unrelated{number}")), "").expect("file");
        is_quiet(&watch).await;
        make(&path);
        changes(&watch).await;
    }
}

#[tokio::test]
async fn tells_when_a_directory_on_the_way_changes() {
    let (_dir, root) = place();
    let deep = root.join("x/y/z");
    let watch = watching(std::slice::from_ref(&deep), None).await;
    fs::create_dir(root.join("x")).expect("dir");
    changes(&watch).await;
    let watch = watching(std::slice::from_ref(&deep), None).await;
    fs::rename(root.join("x"), root.join("w")).expect("rename");
    changes(&watch).await;
    fs::create_dir_all(root.join("x/y")).expect("dirs");
    let above = watching(std::slice::from_ref(&deep), None).await;
    // The nearest directory does not change, but another one takes the place of one above it.
    fs::rename(&root, root.with_extension("moved")).expect("rename");
    changes(&above).await;
    fs::rename(root.with_extension("moved"), &root).expect("rename");
    let watch = watching(std::slice::from_ref(&deep), None).await;
    fs::remove_dir(root.join("x/y")).expect("remove");
    changes(&watch).await;
    let watch = watching(&[deep], None).await;
    fs::set_permissions(root.join("x"), fs::Permissions::from_mode(0o700)).expect("mode");
    changes(&watch).await;
}

#[tokio::test]
async fn tells_when_what_is_there_changes() {
    let (_dir, root) = place();
    let present = root.join("present");
    let changers: [fn(&Path); 4] = [
        |path| fs::write(path, "longer").expect("write"),
        |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("mode"),
        |path| fs::remove_file(path).expect("remove"),
        |path| {
            fs::write(path.with_extension("new"), "").expect("file");
            fs::rename(path.with_extension("new"), path).expect("rename");
        },
    ];
    for change in changers {
        fs::write(&present, "").expect("file");
        let watch = watching(&[root.join("missing")], Some(&present)).await;
        fs::read(&present).expect("read");
        fs::write(root.join("sibling"), "").expect("file");
        is_quiet(&watch).await;
        change(&present);
        changes(&watch).await;
    }
}

#[tokio::test]
async fn does_not_watch_what_is_there_or_out_of_reach() {
    let (_dir, root) = place();
    fs::write(root.join("file"), "").expect("file");
    symlink("/nowhere", root.join("dangling")).expect("link");
    symlink(&root, root.join("link")).expect("link");
    let missing = root.join("missing");
    for paths in [
        vec![],
        vec![root.join("file")],
        vec![missing.clone(), root.join("file")],
        vec![root.join("dangling")],
        vec![root.join("link/missing")],
        vec![root.join("file/missing")],
        vec![PathBuf::from("relative")],
        vec![missing.clone(); MAX_MISSING + 1],
    ] {
        assert!(watch(&paths, None).await.is_none(), "{paths:?}");
    }
    assert!(watch(&vec![missing.clone(); MAX_MISSING], None).await.is_some());
    for present in ["absent", "dangling", "link"] {
        assert!(
            watch(std::slice::from_ref(&missing), Some(&root.join(present)))
                .await
                .is_none(),
            "{present}"
        );
    }
}

#[tokio::test]
async fn directories_of_a_watch_are_bounded() {
    let (_dir, root) = place();
    let mut paths = Vec::new();
    for first in 0..MAX_MISSING {
        let mut path = root.clone();
        for depth in 0..17 {
            path.push(format!("{first}-{depth}"));
        }
        fs::create_dir_all(&path).expect("dirs");
        paths.push(path.join("missing"));
    }
    assert!(watch(&paths, None).await.is_none());
    assert!(watch(&paths[..32], None).await.is_some());
}
