//! The proxy of a process: what a launch must look like, the variables, and what is blocked. Whatever leads to a server needs
//! a network of its own, and is tested there.

use super::script::Step::{Closed, Start};
use super::script::{Case, case};

/// A launch without the members that a case is about.
macro_rules! launch {
    ($domains:literal, $mode:literal, $local:literal, $enabled:literal $(, $more:literal)?) => {
        concat!(
            r#"{"networkProxy":{"proxy":{"enabled":"#,
            $enabled,
            r#","enableSocks5":true,"enableSocks5Udp":false,"allowUpstreamProxy":false,"dangerouslyAllowAllUnixSockets":false,"mode":""#,
            $mode,
            r#"","domains":"#,
            $domains,
            r#","unixSockets":null,"allowLocalBinding":"#,
            $local,
            r#"},"auditMetadata":{}"#,
            $($more,)?
            "}}"
        )
    };
}

const VARIABLES: &str = "env | grep -i -E 'proxy|CODEX_NETWORK' | sed 's/127.0.0.1:[0-9]*/LOOPBACK/' | LC_ALL=C sort";
const BLOCKED: &str = r#"
    ask() { curl -s -m 20 -w '\n%{http_code} %header{x-proxy-error}\n' "$@" | tr ',{}' '\n\n\n' | LC_ALL=C sort; }
    ask http://unknown.test:81/; ask http://denied.test/; ask http://127.0.0.1/; ask http://localhost/; ask http://10.0.0.1/
    ask -d x http://unknown.test/"#;
const TUNNELS: &str = r#"
    curl -s -m 20 -o /dev/null -w '%{http_connect} %{exitcode}\n' https://unknown.test/
    curl -s -m 20 --proxy $ALL_PROXY http://unknown.test/; echo $?; curl -s -m 20 --proxy $ALL_PROXY http://127.0.0.1/; echo $?"#;

pub(super) const CASES: &[Case] = &[
    case(
        "launches",
        &[
            Start("p", "", r#"{"networkProxy":{}}"#),
            Start("p", "", r#"{"networkProxy":{"proxy":{}}}"#),
            Start("p", "", launch!("{}", "full", "false", "false")),
            Start("p", "", launch!("{}", "odd", "false", "true")),
            Start("p", "", launch!(r#"{"":"allow"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"a b":"allow"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"http://a":"allow"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"10.0.0.0/8":"allow"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"**":"allow"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"[ab].test":"allow"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"*":"deny"}"#, "full", "false", "true")),
            Start("p", "", launch!(r#"{"a":"maybe"}"#, "full", "false", "true")),
        ],
    )
    .newer(),
    case(
        "time_for_answers",
        &[
            Start(
                "p",
                "",
                launch!("{}", "full", "false", "true", r#","policyDecisionTimeoutMs":0"#),
            ),
            Start(
                "p",
                "",
                launch!("{}", "full", "false", "true", r#","policyDecisionTimeoutMs":-1"#),
            ),
            Start(
                "p",
                "exit 3",
                launch!("null", "full", "false", "true", r#","policyDecisionTimeoutMs":5000"#),
            ),
            Closed("p"),
        ],
    )
    .newer(),
    case(
        "variables",
        &[
            Start("p", VARIABLES, launch!("{}", "full", "false", "true")),
            Closed("p"),
            Start("q", VARIABLES, launch!("{}", "limited", "true", "true")),
            Closed("q"),
        ],
    )
    .newer(),
    case(
        "blocked",
        &[
            Start(
                "p",
                BLOCKED,
                launch!(r#"{"denied.test":"deny","*.ok.test":"allow"}"#, "full", "false", "true"),
            ),
            Closed("p"),
            Start(
                "q",
                TUNNELS,
                launch!(r#"{"denied.test":"deny"}"#, "full", "false", "true"),
            ),
            Closed("q"),
        ],
    )
    .newer(),
    case(
        "enforced_without_a_sandbox",
        &[Start(
            "p",
            "exit 4",
            r#"{"enforceManagedNetwork":true,"managedNetwork":{"loopbackPorts":[1]}}"#,
        )],
    ),
];
