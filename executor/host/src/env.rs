//! The environment of a child.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::glob;

/// What a child may inherit from the host's own environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// Everything.
    All,
    /// [`CORE`] only.
    Core,
    /// Nothing.
    None,
}

/// How a child's environment is made from the host's. Patterns know `*` and `?` and ignore case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What to start with.
    pub inherit: Inherit,
    /// Keep names that look like secrets: those that match [`DEFAULT_EXCLUDES`].
    pub ignore_default_excludes: bool,
    /// Patterns of names to drop.
    pub exclude: Vec<String>,
    /// Variables to set after that.
    pub set: BTreeMap<String, String>,
    /// If not empty, patterns of the only names to keep.
    pub include_only: Vec<String>,
}

/// Names that [`Inherit::Core`] keeps.
pub const CORE: [&str; 11] = [
    "PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
];

/// Patterns of names that are dropped unless the policy ignores them.
pub const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// Names that no child inherits, whatever the policy: the executor's and harness's own secrets. A caller may set them.
pub const NOT_INHERITED: [&str; 4] = [
    "EXECUTOR_TOKEN",
    "CODEX_API_KEY",
    "EXECUTOR_IDENTITY_PASSPHRASE",
    "HARNESS_IDENTITY_PASSPHRASE",
];

/// Names that no child gets, not even from the caller: credentials of the agents around an executor, as stock executors strip
/// them.
pub const STRIPPED: [&str; 6] = [
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE",
    "NODE_REPL_AUTH_TOKEN",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
];

/// Makes a child's whole environment: nothing but `overlay` without a policy, else what the policy makes of `own`, with
/// `overlay` on top; and [`STRIPPED`] taken out of either.
pub fn compose(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    policy: Option<&Policy>,
    overlay: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let mut variables = policy.map_or_else(BTreeMap::new, |policy| policy.apply(own));
    variables.extend(overlay);
    variables.retain(|name, _| !is_one_of(&STRIPPED, name));
    variables.into_iter().collect()
}

impl Policy {
    fn apply(&self, own: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let mut variables: BTreeMap<_, _> = own.into_iter().filter(|(name, _)| self.inherits(name)).collect();
        variables.retain(|name, _| !is_one_of(&NOT_INHERITED, name));
        variables.extend(self.set.iter().map(|(name, value)| (name.into(), value.into())));
        if !self.include_only.is_empty() {
            variables.retain(|name, _| matches_any(&self.include_only, name));
        }
        variables
    }

    fn inherits(&self, name: &OsStr) -> bool {
        let starts_with = match self.inherit {
            Inherit::All => true,
            Inherit::Core => is_one_of(&CORE, name),
            Inherit::None => false,
        };
        starts_with
            && (self.ignore_default_excludes || !matches_any(&DEFAULT_EXCLUDES, name))
            && !matches_any(&self.exclude, name)
    }
}

/// Whether a variable of the host's environment is none that a caller may learn: [`NOT_INHERITED`] or [`STRIPPED`].
pub(crate) fn is_withheld(name: &OsStr) -> bool {
    is_one_of(&NOT_INHERITED, name) || is_one_of(&STRIPPED, name)
}

fn is_one_of(names: &[&str], name: &OsStr) -> bool {
    names.iter().any(|each| name.eq_ignore_ascii_case(each))
}

fn matches_any(patterns: &[impl AsRef<str>], name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    let name: Vec<char> = name.chars().collect();
    patterns.iter().any(|pattern| {
        let pattern: Vec<char> = pattern.as_ref().to_lowercase().chars().collect();
        glob::matches(&pattern, &name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [(&str, &str); 7] = [
        ("PATH", "/bin"),
        ("Home", "/root"),
        ("EDITOR", "vi"),
        ("AWS_SECRET_ACCESS", "s"),
        ("GITHUB_TOKEN", "t"),
        ("codex_api_KEY", "k"),
        ("EXECUTOR_TOKEN", "e"),
    ];

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn policy() -> Policy {
        Policy {
            inherit: Inherit::All,
            ignore_default_excludes: true,
            exclude: Vec::new(),
            set: BTreeMap::new(),
            include_only: Vec::new(),
        }
    }

    fn names(policy: &Policy) -> Vec<String> {
        compose(pairs(&OWN), Some(policy), [])
            .into_iter()
            .map(|(name, _)| name.into_string().expect("text"))
            .collect()
    }

    #[test]
    fn no_policy_means_the_overlay_alone() {
        let overlay = pairs(&[("A", "1"), ("CODEX_API_KEY", "own")]);
        assert_eq!(compose(pairs(&OWN), None, overlay.clone()), overlay);
        let more = pairs(&[("node_repl_auth_token", "x")]);
        assert_eq!(compose(pairs(&OWN), None, [overlay.clone(), more].concat()), overlay);
    }

    #[test]
    fn inherits_all_core_or_none_but_never_credentials() {
        let all = names(&policy());
        assert_eq!(all, ["AWS_SECRET_ACCESS", "EDITOR", "GITHUB_TOKEN", "Home", "PATH"]);
        let core = Policy {
            inherit: Inherit::Core,
            ..policy()
        };
        assert_eq!(names(&core), ["Home", "PATH"]);
        let none = Policy {
            inherit: Inherit::None,
            ..policy()
        };
        assert!(names(&none).is_empty());
    }

    #[test]
    fn excludes_then_sets_then_keeps_only() {
        let careful = Policy {
            ignore_default_excludes: false,
            ..policy()
        };
        assert_eq!(names(&careful), ["EDITOR", "Home", "PATH"]);
        let policy = Policy {
            exclude: vec!["edit?r".into(), "git*".into()],
            set: BTreeMap::from([
                ("EDITOR".into(), "ed".into()),
                ("NODE_REPL_AUTH_TOKEN".into(), "x".into()),
            ]),
            ..policy()
        };
        assert_eq!(names(&policy), ["AWS_SECRET_ACCESS", "EDITOR", "Home", "PATH"]);
        let only = Policy {
            include_only: vec!["*H*".into()],
            ..policy
        };
        assert_eq!(names(&only), ["Home", "PATH"]);
    }

    #[test]
    fn the_overlay_wins_but_for_agents_credentials() {
        let policy = Policy {
            inherit: Inherit::Core,
            ..policy()
        };
        let result = compose(
            pairs(&OWN),
            Some(&policy),
            pairs(&[
                ("PATH", "/mine"),
                ("EXECUTOR_TOKEN", "mine"),
                ("openai_identity_token_file", "x"),
            ]),
        );
        assert_eq!(
            result,
            pairs(&[("EXECUTOR_TOKEN", "mine"), ("Home", "/root"), ("PATH", "/mine")])
        );
    }

    /// One that drops out of a list is a secret that gets out, or a variable that programs miss.
    #[test]
    fn every_name_that_counts_is_known() {
        let kept = |policy: &Policy, name: &str| {
            let own = pairs(&[(name, "x"), (&name.to_lowercase(), "y")]);
            !compose(own, Some(policy), []).is_empty()
        };
        let core = Policy {
            inherit: Inherit::Core,
            ..policy()
        };
        for name in [
            "PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
        ] {
            assert!(kept(&core, name), "{name}");
        }
        let own = [
            "EXECUTOR_TOKEN",
            "CODEX_API_KEY",
            "EXECUTOR_IDENTITY_PASSPHRASE",
            "HARNESS_IDENTITY_PASSPHRASE",
        ];
        let agents = [
            "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
            "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE",
            "NODE_REPL_AUTH_TOKEN",
            "OPENAI_FEDERATION_RULE_ID",
            "OPENAI_IDENTITY_TOKEN_FILE",
            "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
        ];
        for name in own.iter().chain(&agents) {
            assert!(!kept(&policy(), name), "{name}");
            assert!(is_withheld(name.as_ref()), "{name}");
        }
        for name in agents {
            assert_eq!(compose([], None, pairs(&[(name, "x")])), [], "{name}");
        }
        let careful = Policy {
            ignore_default_excludes: false,
            ..policy()
        };
        for name in ["MY_KEYS", "A_SECRET", "TOKENS"] {
            assert!(!kept(&careful, name), "{name}");
        }
        assert!(!is_withheld("PATH".as_ref()));
    }

    #[test]
    fn patterns_know_star_and_question_mark() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "A", false),
            ("a?c", "ABC", true),
            ("a?c", "AC", false),
            ("*key*", "monKEY", true),
            ("*a*b*c", "xxaYYbZZbc", true),
            ("*a*b*c", "xxaYYcZZ", false),
            ("?*", "", false),
            ("**", "x", true),
            ("[a]", "a", false),
        ] {
            assert_eq!(matches_any(&[pattern], name.as_ref()), expected, "{pattern} on {name}");
        }
        let bomb = "*a".repeat(200) + "b";
        assert!(!matches_any(&[bomb], "a".repeat(4000).as_ref()));
    }
}
