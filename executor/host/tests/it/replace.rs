//! Files that are replaced in blocks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rendezvous_host::files::{Access, Fault, Files, Handles, Links, MAX_BLOCK, Target};
use tempfile::TempDir;

use crate::support::failed;

fn place() -> (TempDir, Handles) {
    let dir = tempfile::tempdir().expect("directory");
    fs::write(dir.path().join("file"), "old content").expect("file");
    (dir, Handles::new(Files::default()))
}

async fn open(handles: &Handles, id: &str, path: &Path) {
    handles.open(id, path, Access::Replace).await.expect("open");
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).expect("list");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_new_content_comes_at_once_and_keeps_permissions() {
    let (dir, handles) = place();
    let file = dir.path().join("file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("mode");
    open(&handles, "h", &file).await;
    handles.write("h", 6, "world".into()).await.expect("end first");
    handles.write("h", 0, "hello".into()).await.expect("begin");
    handles.write("h", 13, "!".into()).await.expect("a hole");
    assert_eq!(fs::read(&file).expect("read"), b"old content");
    assert_eq!(names(&dir), ["file"], "nothing lies about");
    handles.close("h").await.expect("close");
    assert_eq!(fs::read(&file).expect("read"), b"hello\0world\0\0!");
    assert_eq!(fs::metadata(&file).expect("metadata").mode() & 0o7777, 0o640);
    assert_eq!(names(&dir), ["file"]);
    failed(
        handles.write("h", 0, "x".into()).await,
        Fault::NotFound,
        "unknown file handle `h`",
    );
}

#[tokio::test]
async fn a_writer_that_goes_away_leaves_the_old_content() {
    let (dir, handles) = place();
    let (file, new) = (dir.path().join("file"), dir.path().join("new"));
    for (id, path) in [("old", &file), ("new", &new)] {
        open(&handles, id, path).await;
        handles.write(id, 0, "half".into()).await.expect("write");
    }
    drop(handles);
    assert_eq!(fs::read(&file).expect("read"), b"old content");
    assert_eq!(names(&dir), ["file"]);
}

#[tokio::test]
async fn new_files_appear_at_the_close() {
    let (dir, handles) = place();
    let new = dir.path().join("new");
    open(&handles, "h", &new).await;
    handles.close("h").await.expect("close");
    assert_eq!(fs::read(&new).expect("read"), b"");
    open(&handles, "h", &dir.path().join("late")).await;
    handles.write("h", 0, "mine".into()).await.expect("write");
    fs::write(dir.path().join("late"), "theirs").expect("somebody else");
    handles.close("h").await.expect("close");
    assert_eq!(fs::read(dir.path().join("late")).expect("read"), b"mine");
    assert_eq!(names(&dir), ["file", "late", "new"]);
}

#[tokio::test]
async fn links_stay_and_lead_to_the_new_content() {
    let (dir, handles) = place();
    let file = dir.path().join("file");
    symlink(&file, dir.path().join("link")).expect("link");
    symlink(dir.path().join("nowhere"), dir.path().join("dangling")).expect("link");
    for name in ["link", "dangling"] {
        open(&handles, name, &dir.path().join(name)).await;
        handles.write(name, 0, "new".into()).await.expect("write");
        handles.close(name).await.expect("close");
        assert!(dir.path().join(name).is_symlink());
        assert_eq!(fs::read(dir.path().join(name)).expect("read"), b"new");
    }
    assert_eq!(fs::read(&file).expect("read"), b"new");
    let refused = Target::new(dir.path().join("link"), Links::Refuse);
    failed(
        handles.open("r", refused, Access::Replace).await,
        Fault::Host,
        "(os error 40)",
    );
    let allowed = Target::new(dir.path().canonicalize().expect("path").join("file"), Links::Refuse);
    handles.open("r", allowed, Access::Replace).await.expect("open");
    handles.write("r", 0, "newer".into()).await.expect("write");
    handles.close("r").await.expect("close");
    assert_eq!(fs::read(&file).expect("read"), b"newer");
}

#[tokio::test]
async fn other_names_of_the_file_get_the_new_content_too() {
    let (dir, handles) = place();
    let (file, other) = (dir.path().join("file"), dir.path().join("other"));
    fs::hard_link(&file, &other).expect("hard link");
    open(&handles, "h", &file).await;
    handles.write("h", 0, "new".into()).await.expect("write");
    handles.close("h").await.expect("close");
    assert_eq!(fs::read(&other).expect("read"), b"new");
    let inode = |path| fs::metadata(path).expect("metadata").ino();
    assert_eq!(inode(&file), inode(&other));
}

#[tokio::test]
async fn what_cannot_be_replaced_is_refused() {
    let (dir, handles) = place();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("dir")).expect("dir");
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("fifo");
    let refused = async |path: &Path, fault, text| {
        failed(handles.open("h", path, Access::Replace).await, fault, text);
    };
    refused(&path("dir"), Fault::Host, "Is a directory (os error 21)").await;
    refused(&path("fifo"), Fault::Request, "is not a file").await;
    refused(Path::new("/dev/null"), Fault::Request, "is not a file").await;
    refused(&path("missing/file"), Fault::NotFound, "(os error 2)").await;
    refused(&path("file/x"), Fault::Host, "(os error 20)").await;
    open(&handles, "h", &path("file")).await;
    failed(
        handles.write("h", 0, "".into()).await,
        Fault::Request,
        "between 1 and 1048576",
    );
    let block = vec![b'x'; MAX_BLOCK];
    handles.write("h", 0, block.into()).await.expect("the largest block");
    let block = vec![b'x'; MAX_BLOCK + 1];
    failed(
        handles.write("h", 0, block.into()).await,
        Fault::Request,
        "between 1 and 1048576",
    );
    failed(
        handles.write("h", i64::MAX as u64, "x".into()).await,
        Fault::Request,
        "signed 64-bit",
    );
    failed(
        handles.write("h", u64::MAX, "x".into()).await,
        Fault::Request,
        "signed 64-bit",
    );
    // Reading what is open for replacing closes it, and the other way round, as for every failure of the system.
    failed(handles.read("h", 0, 1).await, Fault::Host, "(os error 9)");
    failed(handles.read("h", 0, 1).await, Fault::NotFound, "unknown");
    handles.open("r", path("file"), Access::Read).await.expect("open");
    failed(handles.write("r", 0, "x".into()).await, Fault::Host, "(os error 9)");
    failed(handles.write("r", 0, "x".into()).await, Fault::NotFound, "unknown");
    assert_eq!(fs::read(path("file")).expect("read"), b"old content");
}

#[tokio::test]
async fn owners_stay_and_directories_need_not_take_new_files() {
    let (dir, handles) = place();
    let file = dir.path().join("file");
    if nix::unistd::geteuid().is_root() {
        nix::unistd::chown(&file, Some(12_345.into()), Some(12_345.into())).expect("owner");
    } else {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).expect("mode");
    }
    let owner = |path| fs::metadata(path).map(|metadata| (metadata.uid(), metadata.gid()));
    let before = owner(&file).expect("metadata");
    open(&handles, "h", &file).await;
    handles.write("h", 0, "new".into()).await.expect("write");
    handles.close("h").await.expect("close");
    assert_eq!(owner(&file).expect("metadata"), before);
    assert_eq!(fs::read(&file).expect("read"), b"new");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("mode");
}

#[tokio::test]
async fn a_place_that_is_gone_is_an_error() {
    let (dir, handles) = place();
    fs::create_dir(dir.path().join("sub")).expect("dir");
    for name in ["old", "new"] {
        let file = dir.path().join("sub").join(name);
        if name == "old" {
            fs::write(&file, "old").expect("file");
        }
        open(&handles, name, &file).await;
        handles.write(name, 0, "new".into()).await.expect("write");
    }
    fs::remove_dir_all(dir.path().join("sub")).expect("remove");
    for name in ["old", "new"] {
        failed(handles.close(name).await, Fault::NotFound, "(os error 2)");
        failed(handles.write(name, 0, "x".into()).await, Fault::NotFound, "unknown");
    }
}

#[tokio::test]
async fn open_files_of_all_sets_together_are_bounded() {
    let (dir, _) = place();
    let files = Files::with_handles(3);
    let (one, two) = (Handles::new(files.clone()), Handles::new(files));
    let file = dir.path().join("file");
    open(&one, "a", &file).await;
    open(&one, "b", &file).await;
    open(&two, "a", &file).await;
    failed(two.open("b", &*file, Access::Read).await, Fault::Request, "at most");
    drop(one);
    two.open("b", &*file, Access::Read).await.expect("places come back");
}
