use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

/// A folder, and the receiver for one file in it.
struct Place {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file *");
        Self { folder, file }
    }

    fn start(&self, mode: &str, size: usize) -> Child {
        receiver(&beside(self.file.to_str().unwrap()), &self.file, mode, size)
    }

    /// Gives `bytes` to a receiver that expects `size`; the exit code and what it said.
    fn receive(&self, bytes: &[u8], mode: &str, size: usize) -> (i32, String) {
        finish(self.start(mode, size), bytes)
    }

    fn set(&self, content: &str, mode: u32) {
        std::fs::write(&self.file, content).unwrap();
        std::fs::set_permissions(&self.file, Permissions::from_mode(mode)).unwrap();
    }

    fn content(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    fn mode(&self) -> u32 {
        self.file.metadata().unwrap().mode() & 0o7777
    }

    fn count(&self) -> usize {
        self.folder.path().read_dir().unwrap().count()
    }
}

fn receiver(part: &str, file: &Path, mode: &str, size: usize) -> Child {
    command(part, file, mode, size).spawn().unwrap()
}

fn command(part: &str, file: &Path, mode: &str, size: usize) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args([
            "-c",
            RECEIVE,
            "sh",
            part,
            file.to_str().unwrap(),
            mode,
            &size.to_string(),
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn finish(mut child: Child, bytes: &[u8]) -> (i32, String) {
    // One that refuses reads nothing.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

#[test]
fn a_new_file_gets_its_mode_an_old_one_keeps_it() {
    let place = Place::new();
    for mode in [0o600, 0o644, 0o755, 0o640] {
        assert_eq!(place.receive(b"new", &format!("{mode:o}"), 3), (0, String::new()));
        assert_eq!((place.content().as_str(), place.mode()), ("new", mode), "{mode:o}");
        std::fs::remove_file(&place.file).unwrap();
    }
    for (old, kept) in [
        (0o600, 0o600),
        (0o640, 0o640),
        (0o444, 0o444),
        (0o751, 0o751),
        (0o000, 0o000),
        (0o4755, 0o755),
        (0o2644, 0o644),
        (0o7777, 0o777),
        (0o7666, 0o666),
    ] {
        place.set("old", old);
        assert_eq!(place.receive(b"newer", "755", 5), (0, String::new()), "{old:o}");
        assert_eq!(place.mode(), kept, "{old:o}");
        std::fs::set_permissions(&place.file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(place.content(), "newer");
    }
    assert_eq!(place.count(), 1);
}

#[test]
fn nobody_else_reads_a_file_on_its_way() {
    let place = Place::new();
    let mut child = place.start("644", 3);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"ne").unwrap();
    let part = loop {
        if let Some(entry) = place.folder.path().read_dir().unwrap().next() {
            break entry.unwrap();
        }
    };
    assert!(part.file_name().to_str().unwrap().starts_with(TEMPORARY));
    assert_eq!(part.metadata().unwrap().mode() & 0o777, 0o600);
    stdin.write_all(b"w").unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(place.mode(), 0o644);
}

#[test]
fn an_incomplete_file_takes_no_place() {
    let place = Place::new();
    place.set("old", 0o644);
    let (code, said) = place.receive(b"ne", "644", 3);
    assert_eq!((code, said.as_str()), (1, "not all of it has come\n"));
    assert_eq!((place.content().as_str(), place.count()), ("old", 1));
}

#[test]
fn directories_and_links_to_nothing_are_refused() {
    let place = Place::new();
    std::fs::create_dir(&place.file).unwrap();
    assert_eq!(place.receive(b"new", "644", 3), (1, "it is a directory\n".to_owned()));
    assert_eq!(place.file.read_dir().unwrap().count(), 0);
    std::fs::remove_dir(&place.file).unwrap();

    std::os::unix::fs::symlink("nothing", &place.file).unwrap();
    assert_eq!(
        place.receive(b"new", "644", 3),
        (1, "it is a link to nothing\n".to_owned())
    );
    assert_eq!(place.count(), 1);
    std::fs::remove_file(&place.file).unwrap();

    nix::unistd::mkfifo(&place.file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(
        place.receive(b"new", "644", 3),
        (1, "it is no regular file\n".to_owned())
    );
    assert!(place.file.metadata().unwrap().file_type().is_fifo());
    assert_eq!(place.count(), 1);
}

#[test]
fn a_directory_that_comes_meanwhile_is_refused_too() {
    let place = Place::new();
    let mut child = place.start("644", 3);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"ne").unwrap();
    while place.count() == 0 {}
    std::fs::create_dir(&place.file).unwrap();
    stdin.write_all(b"w").unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!((place.file.read_dir().unwrap().count(), place.count()), (0, 1));
}

#[test]
fn a_device_takes_the_bytes_and_stays() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let device = PathBuf::from(ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part");
    let child = receiver(part.to_str().unwrap(), &device, "644", 3);
    assert_eq!(finish(child, b"new"), (0, String::new()));
    let mut got = [0; 3];
    std::fs::File::from(terminal).read_exact(&mut got).unwrap();
    assert_eq!(got, *b"new");
    assert!(!part.exists());
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let place = Place::new();
    for signal in [
        nix::sys::signal::Signal::SIGTERM,
        nix::sys::signal::Signal::SIGINT,
        nix::sys::signal::Signal::SIGHUP,
    ] {
        use std::os::unix::process::CommandExt as _;
        let part = beside(place.file.to_str().unwrap());
        let mut child = command(&part, &place.file, "644", 3).process_group(0).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // What was written is there only once the traps are set.
        stdin.write_all(b"n").unwrap();
        while !Path::new(&part).metadata().is_ok_and(|part| part.len() == 1) {}
        let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::killpg(group, signal).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(place.count(), 0, "{signal}");
    }
}

#[test]
fn a_file_that_cannot_take_its_place_is_removed() {
    let place = Place::new();
    let tools = tempfile::tempdir().unwrap();
    let mv = tools.path().join("mv");
    std::fs::write(&mv, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&mv, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    let part = beside(place.file.to_str().unwrap());
    let child = command(&part, &place.file, "644", 3).env("PATH", path).spawn().unwrap();
    assert_eq!(finish(child, b"new"), (1, String::new()));
    assert_eq!(place.count(), 0);
}

#[test]
fn a_planted_file_is_neither_followed_nor_removed() {
    let place = Place::new();
    let part = place.folder.path().join("part");
    std::fs::write(&part, "planted").unwrap();
    let (code, _) = finish(receiver(part.to_str().unwrap(), &place.file, "644", 3), b"new");
    assert_ne!(code, 0);
    assert_eq!(std::fs::read(&part).unwrap(), b"planted");
    assert!(!place.file.exists());
}

#[test]
fn the_longest_name_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("n".repeat(255));
    let part = beside(file.to_str().unwrap());
    assert_eq!(finish(receiver(&part, &file, "644", 3), b"new"), (0, String::new()));
    assert_eq!(std::fs::read(file).unwrap(), b"new");
}

#[test]
fn temporary_names_stay_in_the_directory_and_differ() {
    let one = beside("/srv/data/name");
    assert!(one.starts_with("/srv/data/.harness-"), "{one}");
    assert_ne!(one, beside("/srv/data/name"));
    assert!(beside("/name").starts_with("/.harness-"));
}
