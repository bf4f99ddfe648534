//! Every call on files, on a real file system.

mod walk;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rendezvous_host::files::{Access, Fault, Files, Handles, MAX_BLOCK, MAX_ENTRIES, MAX_FILE, MAX_HANDLES};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::{PATIENCE, failed};

fn fifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
}

fn tree() -> TempDir {
    let dir = tempfile::tempdir().expect("directory");
    fs::create_dir(dir.path().join("dir")).expect("dir");
    fs::write(dir.path().join("file"), "content").expect("file");
    symlink("file", dir.path().join("link")).expect("link");
    symlink("dir", dir.path().join("dirlink")).expect("link");
    symlink("nowhere", dir.path().join("dangling")).expect("link");
    fifo(&dir.path().join("fifo"));
    dir
}

#[tokio::test]
async fn reads_regular_files_only_and_never_blocks() {
    let dir = tree();
    let files = Files::default();
    let read = async |name: &str| {
        timeout(PATIENCE, files.read(dir.path().join(name), MAX_FILE))
            .await
            .expect("does not block")
    };
    assert_eq!(read("file").await.expect("file"), b"content");
    assert_eq!(read("link").await.expect("link"), b"content");
    failed(read("fifo").await, Fault::Request, "is not a file");
    failed(read("dir").await, Fault::Request, "is not a file");
    failed(
        read("missing").await,
        Fault::NotFound,
        "No such file or directory (os error 2)",
    );
    failed(read("dangling").await, Fault::NotFound, "(os error 2)");
    failed(read("file/x").await, Fault::Host, "Not a directory (os error 20)");
    let limited = files.read(dir.path().join("file"), 6).await;
    failed(limited, Fault::Request, "file is too large to read: limit is 6 bytes");
    assert_eq!(files.read(dir.path().join("file"), 7).await.expect("fits").len(), 7);
    assert!(
        !files
            .read("/proc/self/status", MAX_FILE)
            .await
            .expect("no size")
            .is_empty()
    );
    failed(files.read("/proc/self/status", 3).await, Fault::Request, "too large");
    let large = fs::File::create(dir.path().join("large")).expect("large");
    large.set_len(MAX_FILE + 1).expect("sparse");
    failed(
        files.read(dir.path().join("large"), u64::MAX).await,
        Fault::Request,
        "536870912",
    );
}

#[tokio::test]
async fn writes_replace_or_create() {
    let dir = tree();
    let files = Files::default();
    let write = async |name: &str, data: &'static str| {
        timeout(PATIENCE, files.write(dir.path().join(name), data.into()))
            .await
            .expect("does not block")
    };
    write("file", "new").await.expect("replace");
    assert_eq!(fs::read(dir.path().join("link")).expect("read"), b"new");
    write("created", "").await.expect("create");
    assert_eq!(fs::read(dir.path().join("created")).expect("read"), b"");
    failed(write("missing/file", "x").await, Fault::NotFound, "(os error 2)");
    failed(write("dir", "x").await, Fault::Host, "Is a directory (os error 21)");
    failed(write("fifo", "x").await, Fault::Request, "is not a file");
    files.write("/dev/null", "x".into()).await.expect("a device");
}

#[tokio::test]
async fn creates_and_removes() {
    let dir = tree();
    let files = Files::default();
    let path = |name: &str| dir.path().join(name);
    files.create_directory(path("a/b/c"), true).await.expect("parents");
    files.create_directory(path("a/b/c"), true).await.expect("exists");
    failed(
        files.create_directory(path("a"), false).await,
        Fault::Host,
        "File exists (os error 17)",
    );
    failed(
        files.create_directory(path("x/y"), false).await,
        Fault::NotFound,
        "(os error 2)",
    );
    failed(
        files.create_directory(path("file"), true).await,
        Fault::Host,
        "(os error 17)",
    );

    failed(
        files.remove(path("a"), false, true).await,
        Fault::Host,
        "Directory not empty (os error 39)",
    );
    files.remove(path("a"), true, false).await.expect("tree");
    assert!(!path("a").exists());
    files.remove(path("dirlink"), true, false).await.expect("link");
    assert!(path("dir").exists() && !path("dirlink").exists());
    files
        .remove(path("dangling"), true, false)
        .await
        .expect("dangling link");
    files.remove(path("fifo"), false, false).await.expect("fifo");
    files.remove(path("dir"), false, false).await.expect("empty directory");
    files.remove(path("missing"), true, true).await.expect("forced");
    failed(
        files.remove(path("missing"), true, false).await,
        Fault::NotFound,
        "(os error 2)",
    );
}

#[tokio::test]
async fn metadata_follows_links_and_has_real_times() {
    let dir = tree();
    let files = Files::default();
    let look = async |name: &str| files.metadata(dir.path().join(name)).await;
    let file = look("file").await.expect("file");
    assert!(file.is_file && !file.is_directory && !file.is_symlink);
    assert_eq!(file.size, 7);
    let now = SystemTime::now();
    for time in [file.created.expect("birth"), file.modified.expect("change")] {
        assert!(now.duration_since(time).expect("past") < Duration::from_secs(600));
    }
    let link = look("link").await.expect("link");
    assert!(link.is_file && link.is_symlink && link.size == 7);
    let link = look("dirlink").await.expect("link");
    assert!(link.is_directory && link.is_symlink && !link.is_file);
    let special = look("fifo").await.expect("fifo");
    assert!(!special.is_file && !special.is_directory);
    failed(look("dangling").await, Fault::NotFound, "(os error 2)");
    failed(look("missing").await, Fault::NotFound, "(os error 2)");
    let real = files
        .canonicalize(dir.path().join("dirlink/../link"))
        .await
        .expect("real path");
    assert_eq!(real, dir.path().canonicalize().expect("root").join("file"));
    failed(
        files.canonicalize(dir.path().join("dangling")).await,
        Fault::NotFound,
        "(os error 2)",
    );
}

#[tokio::test]
async fn lists_without_dangling_links_but_with_any_name() {
    let dir = tree();
    let odd = OsStr::from_bytes(b"odd\xff");
    fs::write(dir.path().join(odd), "").expect("odd name");
    let files = Files::default();
    let mut entries = files.read_directory(dir.path()).await.expect("list");
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_bytes(), entry.is_directory, entry.is_file))
        .collect();
    let expected: [(&[u8], bool, bool); 6] = [
        (b"dir", true, false),
        (b"dirlink", true, false),
        (b"fifo", false, false),
        (b"file", false, true),
        (b"link", false, true),
        (b"odd\xff", false, true),
    ];
    assert_eq!(seen, expected);
    failed(
        files.read_directory(dir.path().join("file")).await,
        Fault::Host,
        "(os error 20)",
    );
    let many = dir.path().join("many");
    fs::create_dir(&many).expect("directory");
    for n in 0..=MAX_ENTRIES {
        fs::hard_link(dir.path().join("file"), many.join(n.to_string()))
            .or_else(|_too_many_links| fs::write(many.join(n.to_string()), ""))
            .expect("entry");
    }
    failed(files.read_directory(many.clone()).await, Fault::Host, "50000");
    fs::remove_file(many.join("0")).expect("one less");
    assert_eq!(files.read_directory(many).await.expect("fits").len(), MAX_ENTRIES);
}

#[tokio::test]
async fn copies_files_links_and_trees() {
    let dir = tree();
    let files = Files::default();
    let path = |name: &str| dir.path().join(name);
    fs::set_permissions(path("file"), fs::Permissions::from_mode(0o750)).expect("mode");
    files.copy(path("file"), path("copy"), false).await.expect("file");
    assert_eq!(fs::read(path("copy")).expect("copy"), b"content");
    assert_eq!(
        path("copy").metadata().expect("copy").permissions().mode() & 0o777,
        0o750
    );
    files
        .copy(path("file"), path("link"), false)
        .await
        .expect("onto itself");
    assert_eq!(fs::read(path("file")).expect("kept"), b"content");
    fs::hard_link(path("file"), path("second name")).expect("link");
    files
        .copy(path("file"), path("second name"), false)
        .await
        .expect("onto itself by another name");
    assert_eq!(fs::read(path("file")).expect("kept"), b"content");
    files
        .copy(path("dangling"), path("dangling2"), false)
        .await
        .expect("link");
    assert_eq!(path("dangling2").read_link().expect("link"), Path::new("nowhere"));
    failed(
        files.copy(path("file"), path("x/y"), false).await,
        Fault::NotFound,
        "(os error 2)",
    );
    failed(
        files.copy(path("missing"), path("y"), false).await,
        Fault::NotFound,
        "(os error 2)",
    );
    failed(
        files.copy(path("fifo"), path("y"), false).await,
        Fault::Request,
        "only supports",
    );
    failed(
        files.copy(path("dir"), path("y"), false).await,
        Fault::Request,
        "recursive: true",
    );

    for (name, content) in [("dir/a", "1"), ("dir/sub/b", "2")] {
        fs::create_dir_all(path(name).parent().expect("parent")).expect("directory");
        fs::write(path(name), content).expect("file");
    }
    fifo(&path("dir/sub/fifo"));
    symlink("a", path("dir/l")).expect("link");
    files.copy(path("dir"), path("tree"), true).await.expect("tree");
    assert_eq!(fs::read(path("tree/sub/b")).expect("b"), b"2");
    assert!(path("tree/l").symlink_metadata().expect("l").is_symlink());
    assert!(!path("tree/sub/fifo").exists());
    for target in ["dir", "dir/sub/deeper", "dirlink/x", "dir/sub/../y"] {
        let result = files.copy(path("dir"), path(target), true).await;
        failed(result, Fault::Request, "itself or one of its descendants");
    }
    files
        .copy(path("dir"), path("dir2"), true)
        .await
        .expect("a sibling with the same beginning");
}

#[tokio::test]
async fn handles_read_blocks_of_the_file_that_was_opened() {
    let dir = tree();
    let handles = Handles::new(Files::default());
    let file = dir.path().join("file");
    handles.open("h", file.clone(), Access::Read).await.expect("open");
    fs::remove_file(&file).expect("remove");
    fs::write(&file, "other").expect("replace");
    let block = handles.read("h", 0, 4).await.expect("block");
    assert_eq!((block.data.as_slice(), block.is_end), (&b"cont"[..], false));
    let block = handles.read("h", 3, 4).await.expect("exact fit");
    assert_eq!((block.data.as_slice(), block.is_end), (&b"tent"[..], false));
    let block = handles.read("h", 5, MAX_BLOCK as u64).await.expect("short");
    assert_eq!((block.data.as_slice(), block.is_end), (&b"nt"[..], true));
    let block = handles.read("h", 1 << 40, 4).await.expect("beyond");
    assert_eq!((block.data.len(), block.is_end), (0, true));
    for len in [0, MAX_BLOCK as u64 + 1, u64::MAX] {
        failed(handles.read("h", 0, len).await, Fault::Request, "between 1 and 1048576");
    }
    failed(
        handles.open("h", file.clone(), Access::Read).await,
        Fault::Request,
        "already exists",
    );
    failed(
        handles.open(&"x".repeat(33), file.clone(), Access::Read).await,
        Fault::Request,
        "32 bytes",
    );
    handles
        .open(&"x".repeat(32), file.clone(), Access::Read)
        .await
        .expect("32 bytes");
    handles.close("h").await.expect("close");
    handles.close("h").await.expect("again");
    let long = "x".repeat(33);
    failed(handles.close(&long).await, Fault::Request, "32 bytes");
    failed(
        handles.read("h", 0, 1).await,
        Fault::NotFound,
        "unknown file handle `h`",
    );
    let blocked = timeout(PATIENCE, handles.open("f", dir.path().join("fifo"), Access::Read))
        .await
        .expect("does not block");
    failed(blocked, Fault::Request, "is not a file");
    failed(
        handles.open("d", dir.path().join("dir"), Access::Read).await,
        Fault::Request,
        "is not a file",
    );
    failed(
        handles.open("m", dir.path().join("missing"), Access::Read).await,
        Fault::NotFound,
        "(os error 2)",
    );

    for n in 1..MAX_HANDLES {
        handles
            .open(&n.to_string(), file.clone(), Access::Read)
            .await
            .expect("a failed open takes no place");
    }
    failed(
        handles.open("one more", file.clone(), Access::Read).await,
        Fault::Request,
        "at most 128",
    );
    handles.close("7").await.expect("close");
    handles
        .open("one more", file, Access::Read)
        .await
        .expect("a free place");
    // An offset that the system refuses closes the handle.
    failed(handles.read("8", u64::MAX, 1).await, Fault::Request, "(os error 22)");
    failed(handles.read("8", 0, 1).await, Fault::NotFound, "unknown");
}
