//! The texts that shells get: one that prints what start-up files left, one that takes it up again.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Before the functions. What start-up files print themselves comes before it.
const BEGIN: &str = "\n__RENDEZVOUS_SNAPSHOT_STATE__\n";
/// Before the environment.
const ENVIRONMENT: &str = "\n__RENDEZVOUS_SNAPSHOT_ENVIRONMENT__\n";
/// At the end.
pub(super) const END: &str = "\n__RENDEZVOUS_SNAPSHOT_END__\n";
/// Variables that carry the state to a later shell, with a number behind.
pub(super) const VARIABLE: &str = "__RENDEZVOUS_SNAPSHOT_";

/// Options of shells that belong to how a shell was started, and cannot or must not be set later.
const FIXED: [&str; 12] = [
    "login_shell",
    "restricted_shell",
    "login",
    "interactive",
    "monitor",
    "zle",
    "privileged",
    "restricted",
    "shinstdin",
    "singlecommand",
    "rcs",
    "onecmd",
];

/// A kind of shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Another POSIX shell, whose functions cannot be listed.
    Sh,
}

impl Kind {
    /// The kind with a name that agents use.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "sh" => Some(Self::Sh),
            _ => None,
        }
    }

    /// What prints the state. A shell of another kind prints nothing that counts.
    pub(super) fn capture(self) -> String {
        let (is_kind, list) = match self {
            Self::Bash => ("[ -n \"$BASH_VERSION\" ]", "declare -f; set +o; shopt -p; alias -p"),
            Self::Zsh => ("[ -n \"$ZSH_VERSION\" ]", "functions; set +o; alias -L"),
            Self::Sh => ("true", "set +o"),
        };
        // Options of the start-up files must not end the listing.
        format!(
            "{is_kind} || exit 1\n\
             command printf '%s' '{BEGIN}'\n\
             {{ {list}; }} 2>/dev/null\n\
             command printf '%s' '{ENVIRONMENT}'\n\
             command cat /proc/self/environ\n\
             command printf '%s' '{END}'\n"
        )
    }

    /// The flags of a shell that reads no start-up files.
    pub(super) fn flags(self) -> &'static str {
        match self {
            // Bash imports functions and reads BASH_ENV unless it is privileged; the text makes it ordinary again.
            Self::Bash => "-pc",
            Self::Zsh => "-fc",
            Self::Sh => "-c",
        }
    }

    /// What takes the state up, in front of a command.
    pub(super) fn restore(self, names: &[String]) -> String {
        let ordinary = match self {
            Self::Bash => "set +o privileged\n",
            Self::Zsh | Self::Sh => "",
        };
        if names.is_empty() {
            return ordinary.to_owned();
        }
        let pieces: String = names.iter().map(|name| format!("${{{name}}}")).collect();
        let names = names.join(" ");
        format!(
            "{ordinary}if ! eval \"unset {names}\n{pieces}\" >/dev/null 2>&1; then \
             printf 'failed to restore shell snapshot\\n' >&2; fi\n"
        )
    }
}

/// What a shell printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) state: Vec<u8>,
}

impl Captured {
    pub(super) fn parse(output: &[u8]) -> Option<Self> {
        let output = output.strip_suffix(END.as_bytes())?;
        let state = after(output, BEGIN)?;
        let environment = after(state, ENVIRONMENT)?;
        let state = &state[..state.len() - environment.len() - ENVIRONMENT.len()];
        let environment: Vec<_> = environment.split(|byte| *byte == 0).filter_map(variable).collect();
        // A shell without an environment has not said the truth: its programs were not found.
        (!environment.is_empty()).then(|| Self {
            environment,
            state: without_fixed(state),
        })
    }
}

/// What follows the first mark.
fn after<'a>(text: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let at = text.windows(mark.len()).position(|window| window == mark.as_bytes())?;
    Some(&text[at + mark.len()..])
}

fn variable(entry: &[u8]) -> Option<(OsString, OsString)> {
    let at = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    let own = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((own(&entry[..at]), own(&entry[at + 1..])))
}

/// Drops the lines that set options which cannot be set.
fn without_fixed(state: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(state.len());
    for line in state.split_inclusive(|byte| *byte == b'\n') {
        let is_fixed = std::str::from_utf8(line).is_ok_and(|line| {
            let mut words = line.split_ascii_whitespace();
            let sets = matches!(words.next(), Some("set" | "shopt" | "setopt" | "unsetopt"));
            sets && words.all(|word| word.starts_with(['-', '+']) || FIXED.contains(&without_no(word)))
        });
        if !is_fixed {
            kept.extend_from_slice(line);
        }
    }
    kept
}

fn without_no(option: &str) -> &str {
    option
        .strip_prefix("no")
        .filter(|rest| FIXED.contains(rest))
        .unwrap_or(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_of_start_up_files_do_not_count() {
        let printed =
            format!("hello{BEGIN}f () {{ true; }}\nset -o noglob\n{ENVIRONMENT}A=1\0B=x=y\0=odd\0none\0{END}");
        let captured = Captured::parse(printed.as_bytes()).unwrap();
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        assert_eq!(captured.environment, [pair("A", "1"), pair("B", "x=y")]);
        assert_eq!(captured.state, b"f () { true; }\nset -o noglob\n");
        for broken in [
            printed.replace(END, ""),
            printed.replace(BEGIN, ""),
            printed.replace(ENVIRONMENT, ""),
            format!("{BEGIN}{ENVIRONMENT}{END}"),
        ] {
            assert_eq!(Captured::parse(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn options_of_the_start_are_left_out() {
        let state = "shopt -s extglob\nshopt -u login_shell\nset +o monitor\nset -o noclobber\nsetopt nozle\nsetopt nomatch\n\
                     f () \n{ \n    shopt -s login_shell extra\n}\n";
        let kept = String::from_utf8(without_fixed(state.as_bytes())).unwrap();
        assert_eq!(
            kept,
            "shopt -s extglob\nset -o noclobber\nsetopt nomatch\nf () \n{ \n    shopt -s login_shell extra\n}\n"
        );
    }
}
