//! Input with an end, for executors that have no call to end it.
//!
//! The protocol of stock executors can write to a pipe but never close it. So the command runs below a POSIX shell script.
//! Its stdin carries frames: a line with a length in decimal, then so many bytes; length 0 is the end. One half of the
//! script copies the bytes of each frame with one `dd` into a pipe, the other half runs the command at the far end of that
//! pipe. When the command ends first, the script does not wait for more frames.
//!
//! Signals reach the whole process group. The script survives an interrupt that its command survives, and passes the
//! command's exit code on (128 + N when signal N ended it), so that nobody notices it.

/// Most bytes that one write should carry: large enough to make the round trip of a write cheap.
pub const CHUNK: usize = 512 * 1024;

/// `$@` is the command. The copying half sends its process id through the pipe first, one line, so that the other half can
/// end it; `read` takes that line byte by byte and nothing beyond it. A signal may cut that `read` short: it is tried again, so
/// that the line never becomes the command's input, and then the command is not begun at all. Descriptor 3 is the script's stdin, 4 its stderr: the
/// command gets it back, the shells' own remarks about ended processes go nowhere.
const SCRIPT: &str = r#"trap : HUP INT QUIT TERM
exec 3<&0 4>&2 2>/dev/null
{
  trap '' INT QUIT
  exec 4>&-
  sh -c 'echo $PPID'
  while IFS= read -r n && [ "$n" -gt 0 ]; do
    dd bs="$n" count=1 iflag=fullblock || break
  done
} <&3 3<&- | {
  early=
  trap 'early=130' INT
  trap 'early=143' HUP QUIT TERM
  exec 3<&-
  IFS= read -r feeder || IFS= read -r feeder || exit "${early:-143}"
  if [ -n "$early" ]; then
    kill "$feeder"
    exit "$early"
  fi
  (exec "$@" 2>&4 4>&-)
  code=$?
  kill "$feeder"
  exit "$code"
}"#;

/// The command line that runs `argv` below the script.
pub(crate) fn wrap(argv: Vec<String>) -> Vec<String> {
    let mut wrapped: Vec<String> = ["/bin/sh", "-c", SCRIPT, "sh"].map(ToOwned::to_owned).to_vec();
    wrapped.extend(argv);
    wrapped
}

/// What goes in front of `len` bytes.
pub(crate) fn header(len: usize) -> Vec<u8> {
    format!("{len}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    fn spawn(argv: &[&str]) -> std::process::Child {
        let argv = wrap(argv.iter().map(|text| (*text).to_owned()).collect());
        Command::new(&argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn bytes_pass_and_end() {
        let sent: Vec<u8> = (0..3_000_000_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut child = spawn(&["cat"]);
        let mut stdin = child.stdin.take().unwrap();
        let input = sent.clone();
        let writer = std::thread::spawn(move || {
            let mut rest = &input[..];
            for len in [1, 2, 65_537, 10, CHUNK].iter().cycle() {
                let (chunk, tail) = rest.split_at((*len).min(rest.len()));
                stdin.write_all(&header(chunk.len())).unwrap();
                stdin.write_all(chunk).unwrap();
                rest = tail;
                if chunk.is_empty() {
                    // Held open: the end of the frames must be enough.
                    return stdin;
                }
            }
            unreachable!("the row of lengths never ends");
        });
        let mut got = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
        assert!(child.wait().unwrap().success());
        drop(writer.join().unwrap());
    }

    #[test]
    fn a_command_may_end_before_its_input() {
        let mut child = spawn(&["sh", "-c", "exit 7"]);
        let _open = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        let mut child = spawn(&["sh", "-c", "kill -9 $$"]);
        let _open = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(137));
        let mut child = spawn(&["head", "-c", "3"]);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"10\n0123456789").unwrap();
        let mut got = String::new();
        child.stdout.take().unwrap().read_to_string(&mut got).unwrap();
        assert_eq!((got.as_str(), child.wait().unwrap().code()), ("012", Some(0)));
    }

    #[test]
    fn arguments_pass_unchanged() {
        let child = spawn(&["printf", "%s|", "a b", "$x", "'", "\"", "*"]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a b|$x|'|\"|*|");
        assert_eq!(output.stderr, b"");
    }

    /// The script with a command that tells an interrupt, reads a line, and says whether its input has ended.
    fn with_trap() -> (std::process::Child, nix::unistd::Pid) {
        use std::os::unix::process::CommandExt as _;
        // An interrupt may or may not cut the first `read` short.
        let script = "trap 'echo int' INT; echo up; read a || read a; echo $a; read b || echo end";
        let argv = wrap(["sh", "-c", script].map(ToOwned::to_owned).to_vec());
        let child = Command::new(&argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        (child, group)
    }

    #[test]
    fn an_interrupt_that_the_command_survives_ends_nothing() {
        let (mut child, group) = with_trap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut up = [0; 3];
        stdout.read_exact(&mut up).unwrap();
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).unwrap();
        let mut told = [0; 4];
        stdout.read_exact(&mut told).unwrap();
        assert_eq!(told, *b"int\n");
        stdin.write_all(b"3\nhi\n0\n").unwrap();
        let mut got = String::new();
        stdout.read_to_string(&mut got).unwrap();
        assert_eq!(got, "hi\nend\n");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn an_interrupt_at_any_moment_of_the_start_ends_cleanly() {
        for delay in (0..200).map(|step| std::time::Duration::from_micros(20 * step)) {
            let (mut child, group) = with_trap();
            let mut stdin = child.stdin.take().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            std::thread::sleep(delay);
            nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGINT).unwrap();
            // The script may be gone already; its input stays open, as an executor's does.
            let _ = stdin.write_all(b"3\nhi\n0\n");
            let mut got = String::new();
            stdout.read_to_string(&mut got).unwrap();
            let status = child.wait().unwrap();
            if status.success() {
                assert!(got.ends_with("hi\nend\n"), "{got} after {delay:?}");
            } else {
                assert!(!got.contains("hi"), "{got} after {delay:?}, {status}");
            }
        }
    }
}
