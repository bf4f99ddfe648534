//! Calls on files, done inside a sandbox by a helper process.
//!
//! One process does one call. The call and its answer travel over a pair of sockets; an opened file travels itself, so that
//! content never passes through the helper.

mod codec;

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, PROC_SUPER_MAGIC, fstatfs, memfd_create};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, send, sendmsg, shutdown, socketpair,
};

use super::launch::{Inner, Jail};
use crate::files::{Answer, Call, FileError, Stop};
use crate::process::sys;

/// Longest answer. The longest lists 50 000 names of 255 bytes.
const MAX_ANSWER: usize = 32 * 1024 * 1024;
/// Longest call: two paths.
const MAX_CALL: usize = 64 * 1024;
/// How often it is looked whether somebody still waits for the answer.
const LOOK: Duration = Duration::from_millis(100);

/// Does a call inside a sandbox. Blocks until it is done, or `stop` says that nobody waits.
pub(crate) fn ask(jail: &Jail, call: &Call, stop: &Stop) -> Result<Answer, FileError> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(io::Error::from)?;
    let question = codec::encode_call(call);
    if question.len() > MAX_CALL {
        return Err(io::Error::from(Errno::NAMETOOLONG).into());
    }
    let confined = jail.confine(&Inner::Files)?;
    let mut command = confined.command;
    command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::piped());
    sys::install(&mut command, confined.stage.setup(false));
    let mut helper = Helper(command.spawn()?);
    // The command holds the other end of the sockets, whose closing must be seen.
    drop(command);
    let held = match confined.stage.wait() {
        Ok(held) => held,
        Err(failure) => {
            let _gone = helper.0.kill();
            let words = helper.last_words();
            return Err(match failure.with_output(&words) {
                Ok(error) => error.into(),
                Err(error) => io::Error::other(format!("failed to prepare file system sandbox: {error}")).into(),
            });
        }
    };
    let answer = converse(&ours, &question, stop);
    if answer.is_err() {
        let _gone = helper.0.kill();
    }
    drop(helper);
    held.release();
    let (answer, file) = answer?;
    codec::decode_answer(&answer, file)
}

/// The command, which is waited for in any case.
struct Helper(Child);

impl Helper {
    fn last_words(&mut self) -> Vec<u8> {
        let mut words = vec![0; 2048];
        let len = self.0.stderr.take().map_or(0, |stderr| {
            let quick = rustix::io::ioctl_fionbio(&stderr, true);
            quick.and_then(|()| rustix::io::read(&stderr, &mut words)).unwrap_or(0)
        });
        words.truncate(len);
        words
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _reaped = self.0.wait();
    }
}

fn converse(socket: &OwnedFd, question: &[u8], stop: &Stop) -> Result<(Vec<u8>, Option<File>), FileError> {
    send_all(socket.as_fd(), question, None)?;
    shutdown(socket, Shutdown::Write).map_err(io::Error::from)?;
    let mut answer = Vec::new();
    let mut file = None;
    loop {
        stop.check()?;
        let wait = Timespec::try_from(LOOK).map_err(io::Error::other)?;
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait)));
        if ready.map_err(io::Error::from)? == 0 {
            continue;
        }
        if receive(socket.as_fd(), &mut answer, &mut file)? == 0 {
            return Ok((answer, file));
        }
        if answer.len() > MAX_ANSWER {
            return Err(io::Error::other("the sandbox gives too long an answer").into());
        }
    }
}

/// Answers the one call that comes over standard input.
pub(super) fn serve() -> io::Result<()> {
    let socket = rustix::stdio::stdin();
    let mut question = Vec::new();
    while receive(socket, &mut question, &mut None)? > 0 && question.len() <= MAX_CALL {}
    let call = codec::decode_call(&question)?;
    let answer = call.perform(&Stop::default()).and_then(|answer| match answer {
        Answer::File(file) if matches!(call, Call::Open(_)) => Ok(Answer::File(lasting(file)?)),
        other => Ok(other),
    });
    let (answer, file) = codec::encode_answer(answer);
    send_all(socket, &answer, file.as_ref())
}

/// Most of a file of /proc that is read.
const MAX_PROC_FILE: u64 = 4 * 1024 * 1024;

/// A file that can be read when this process is gone. Those of /proc that are about it cannot.
fn lasting(file: File) -> io::Result<File> {
    if fstatfs(&file)?.f_type != PROC_SUPER_MAGIC {
        return Ok(file);
    }
    let mut copy = File::from(memfd_create("file", MemfdFlags::CLOEXEC)?);
    io::copy(&mut file.take(MAX_PROC_FILE), &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

fn send_all(socket: BorrowedFd<'_>, mut content: &[u8], file: Option<&File>) -> io::Result<()> {
    if let Some(file) = file {
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let slices = [IoSlice::new(content)];
        let sent = retry_on_intr(|| sendmsg(socket, &slices, &mut control, SendFlags::NOSIGNAL))?;
        content = content.get(sent..).unwrap_or_default();
    }
    while !content.is_empty() {
        let sent = retry_on_intr(|| send(socket, content, SendFlags::NOSIGNAL))?;
        content = content.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Receives some bytes, none at the end, and perhaps a file.
fn receive(socket: BorrowedFd<'_>, content: &mut Vec<u8>, file: &mut Option<File>) -> io::Result<usize> {
    let mut buffer = [0; 16 * 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let received = retry_on_intr(|| recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            *file = fds.next().map(File::from);
        }
    }
    content.extend_from_slice(&buffer[..received.bytes]);
    Ok(received.bytes)
}
