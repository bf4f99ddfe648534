//! Whether a sandbox was likely what made a program fail.

use nix::libc;

/// What programs say when a sandbox stops them, as stock executors look for it.
const WORDS: [&[u8]; 7] = [
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"seccomp",
    b"sandbox",
    b"landlock",
    b"failed to write file",
];

/// Judges by the exit code and by what each stream of the program brought.
pub(crate) fn is_denial<'a>(code: i32, streams: impl IntoIterator<Item = &'a [u8]>) -> bool {
    if code == 0 {
        return false;
    }
    code == 128 + libc::SIGSYS || streams.into_iter().any(tells_of_denial)
}

fn tells_of_denial(output: &[u8]) -> bool {
    let output = output.to_ascii_lowercase();
    WORDS.iter().any(|word| memchr::memmem::find(&output, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_a_failure_and_a_word_or_the_signal() {
        for (code, output, expected) in [
            (1, "touch: /x: Read-only file system\n", true),
            (1, "OPERATION NOT PERMITTED", true),
            (126, "sh: x: Permission denied", true),
            (1, "sandbox: no", true),
            (0, "Permission denied", false),
            (1, "No such file", false),
            (1, "", false),
            (159, "", true),
            (137, "", false),
        ] {
            assert_eq!(is_denial(code, [output.as_bytes()]), expected, "{code} {output}");
        }
        assert!(
            !is_denial(1, [b"permission ".as_slice(), b"denied"]),
            "streams are apart"
        );
    }
}
