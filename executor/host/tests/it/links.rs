//! Calls that follow no link.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rendezvous_host::files::{Access, Fault, Files, Handles, Links, MAX_FILE, Target};
use tempfile::TempDir;

use crate::support::failed;

struct Tree {
    _dir: TempDir,
    root: PathBuf,
    files: Files,
}

/// `dir/file`, `link` to `dir/file`, `dirlink` to `dir`, `dangling`.
fn tree() -> Tree {
    let dir = tempfile::tempdir().expect("directory");
    let root = dir.path().canonicalize().expect("path");
    fs::create_dir(root.join("dir")).expect("dir");
    fs::write(root.join("dir/file"), "content").expect("file");
    symlink("dir/file", root.join("link")).expect("link");
    symlink("dir", root.join("dirlink")).expect("link");
    symlink("nowhere", root.join("dangling")).expect("link");
    Tree {
        _dir: dir,
        root,
        files: Files::default(),
    }
}

impl Tree {
    fn at(&self, name: &str) -> Target {
        Target::new(self.root.join(name), Links::Refuse)
    }
}

const LOOP: &str = "(os error 40)";
const MISSING: &str = "(os error 2)";

#[tokio::test]
async fn reads_refuse_links_anywhere() {
    let tree = tree();
    let read = async |name: &str| tree.files.read(tree.at(name), MAX_FILE).await;
    assert_eq!(read("dir/file").await.expect("file"), b"content");
    for name in ["link", "dirlink/file", "dangling", "dirlink"] {
        failed(read(name).await, Fault::Host, LOOP);
    }
    failed(read("missing").await, Fault::NotFound, MISSING);
    failed(read("dir").await, Fault::Request, "is not a file");
    // A magic link of /proc is a link too.
    let magic = Target::new("/proc/self/exe", Links::Refuse);
    failed(tree.files.read(magic, MAX_FILE).await, Fault::Host, LOOP);

    let handles = Handles::new(tree.files.clone());
    handles
        .open("h", tree.at("dir/file"), Access::Read)
        .await
        .expect("open");
    for name in ["link", "dirlink/file"] {
        failed(handles.open("l", tree.at(name), Access::Read).await, Fault::Host, LOOP);
    }

    let list = async |name: &str| tree.files.read_directory(tree.at(name)).await;
    assert_eq!(list("dir").await.expect("list").len(), 1);
    assert_eq!(list("").await.expect("list").len(), 3, "links to nothing are omitted");
    failed(list("dirlink").await, Fault::Host, LOOP);

    let metadata = async |name: &str| tree.files.metadata(tree.at(name)).await;
    assert!(metadata("dir/file").await.expect("file").is_file);
    for name in ["link", "dirlink", "dangling"] {
        failed(metadata(name).await, Fault::Request, "path contains a symbolic link");
    }
    failed(metadata("dirlink/file").await, Fault::Host, LOOP);
    failed(metadata("missing").await, Fault::NotFound, MISSING);
    assert!(
        tree.files
            .metadata(Target::new("/", Links::Refuse))
            .await
            .expect("root")
            .is_directory
    );
}

#[tokio::test]
async fn changes_refuse_links_anywhere() {
    let tree = tree();
    let write = async |name: &str| tree.files.write(tree.at(name), "new".into()).await;
    write("dir/file").await.expect("replace");
    write("dir/created").await.expect("create");
    for name in ["link", "dirlink/file", "dirlink/created", "dangling"] {
        failed(write(name).await, Fault::Host, LOOP);
    }
    assert!(!tree.root.join("nowhere").exists());

    let create = async |name: &str, recursive| tree.files.create_directory(tree.at(name), recursive).await;
    create("dir/a/b", true).await.expect("parents");
    create("dir/a/b", true).await.expect("exists");
    create("dir/c", false).await.expect("one");
    failed(create("dir/c", false).await, Fault::Host, "(os error 17)");
    failed(create("dir/x/y", false).await, Fault::NotFound, MISSING);
    for name in ["dirlink", "dirlink/d", "link/d", "dangling/d"] {
        failed(create(name, true).await, Fault::Host, "(os error 20)");
    }
    failed(create("dirlink/d", false).await, Fault::Host, LOOP);
    failed(
        tree.files
            .create_directory(Target::new("/", Links::Refuse), false)
            .await,
        Fault::Host,
        "(os error 16)",
    );

    let remove = async |name: &str, recursive, force| tree.files.remove(tree.at(name), recursive, force).await;
    for name in ["link", "dirlink", "dangling"] {
        failed(
            remove(name, true, true).await,
            Fault::Request,
            "path contains a symbolic link",
        );
    }
    failed(remove("dirlink/file", false, true).await, Fault::Host, LOOP);
    failed(remove("dir", false, true).await, Fault::Host, "(os error 39)");
    failed(remove("missing", false, false).await, Fault::NotFound, MISSING);
    remove("missing/x", false, true).await.expect("nothing to do");
    remove("dir/created", false, false).await.expect("file");
    remove("dir/c", false, false).await.expect("empty directory");
    fs::create_dir(tree.root.join("outside")).expect("dir");
    fs::write(tree.root.join("outside/kept"), "").expect("file");
    symlink("../outside", tree.root.join("dir/escape")).expect("link");
    remove("dir", true, false).await.expect("tree");
    assert!(!tree.root.join("dir").exists());
    assert!(tree.root.join("outside/kept").exists());
}
