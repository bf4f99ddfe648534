//! `capabilityRoots/discoverV1` and `environmentConfig/read`.

use super::script::Step::{Call, Count, Exact, Made, Shape, Shell};
use super::script::{Case, case, raw};

const DISCOVER: &str = "capabilityRoots/discoverV1";
const READ: &str = "environmentConfig/read";

pub(super) const CASES: &[Case] = &[
    raw(
        "before_initialize",
        &[
            Exact(DISCOVER, r#"{"roots":[]}"#),
            Call(READ, r#"{"cwd":"$dir","configPaths":[["a"]],"requirementsPaths":[]}"#),
        ],
    )
    .newer(),
    case(
        "plugins",
        &[
            Shell(
                "mkdir -p p/.codex-plugin p/.claude-plugin p/skills/a/agents p/skills/b p/skills/.c p/n/.claude-plugin q/.cursor-plugin; \
                 printf '{}' > p/.codex-plugin/plugin.json; printf '{\"x\":1}' > p/.claude-plugin/plugin.json; printf mcp > p/.mcp.json; printf app > p/.app.json; \
                 printf A > p/skills/a/SKILL.md; printf M > p/skills/a/agents/openai.yaml; printf B > p/skills/b/SKILL.md; printf n > p/skills/b/skill.md; printf C > p/skills/.c/SKILL.md; \
                 printf '{}' > p/n/.claude-plugin/plugin.json; printf '{\"mcpServers\":{}}' > q/.cursor-plugin/plugin.json; printf mcp > q/.mcp.json",
            ),
            Call(DISCOVER, r#"{"roots":[{"id":"one","path":"$dir/p"}]}"#),
            Call(
                DISCOVER,
                r#"{"roots":[{"id":"b","path":"$dir/q"},{"id":"b","path":"$dir/q"}]}"#,
            ),
        ],
    )
    .newer(),
    case(
        "roots",
        &[
            Shell("mkdir empty; printf x > file; ln -s empty link; ln -s none dangling"),
            Call(DISCOVER, r#"{"roots":[]}"#),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/empty"},{"id":"y","path":"$dir/link"}]}"#),
            Shape(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/none"}]}"#),
            Shape(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/file"}]}"#),
            Shape(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/dangling"}]}"#),
            Call(DISCOVER, "{}"),
            Call(DISCOVER, r#"{"roots":[{"id":"x"}]}"#),
            Call(DISCOVER, r#"{"roots":[{"path":"$dir"}]}"#),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$path"}]}"#),
            Made(|| roots(128)),
            Made(|| roots(129)),
        ],
    ),
    case(
        "depth",
        &[
            Shell("mkdir -p 1/2/3/4/5/6/7; printf six > 1/2/3/4/5/6/SKILL.md; printf seven > 1/2/3/4/5/6/7/SKILL.md"),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir"}]}"#),
        ],
    ),
    case(
        "names_from_above",
        &[
            Shell(
                "mkdir -p p/.codex-plugin p/-s/n/.cursor-plugin p/-s/k p/e p/c/.claude-plugin/plugin.json p/c/s p/l/.codex-plugin p/l/s; \
                 printf P > p/.codex-plugin/plugin.json; printf N > p/-s/n/.cursor-plugin/plugin.json; printf K > p/-s/k/SKILL.md; \
                 ln -s ../../.codex-plugin/plugin.json p/l/.codex-plugin/plugin.json; ln -s p door; ln -s -- -s/k p/skill",
            ),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/-s"},{"id":"y","path":"$dir/p/-s/k"},{"id":"z","path":"$dir/p/-s/n"}]}"#),
            // Also where there is nothing to name, at a manifest that is a link, and past one that is a directory.
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/e"},{"id":"y","path":"$dir/p/l/s"},{"id":"z","path":"$dir/p/c/s"}]}"#),
            // Above is what the path says, not where links lead.
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/door/-s/k"},{"id":"y","path":"$dir/p/skill"}]}"#),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/.codex-plugin"},{"id":"y","path":"$dir/p/none"}]}"#),
        ],
    ),
    case(
        "unreadable_names_from_above",
        &[
            Shell(
                "mkdir -p p/.codex-plugin p/large/.codex-plugin p/large/.claude-plugin p/large/s p/both/.codex-plugin p/both/.cursor-plugin p/both/s; \
                 printf P > p/.codex-plugin/plugin.json; head -c 1048577 /dev/zero > p/large/.codex-plugin/plugin.json; printf '\\377' > p/large/.claude-plugin/plugin.json; \
                 cp p/large/.codex-plugin/plugin.json p/both/.codex-plugin; printf B > p/both/.cursor-plugin/plugin.json; printf x > p/.claude-plugin",
            ),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/large/s"}]}"#),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/large"}]}"#),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/both"}]}"#),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/both/s"}]}"#),
            Count(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p"}]}"#, "/roots/0/namespaceManifests"),
            Shell("rm p/.codex-plugin/plugin.json"),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/p/none-here/.."}]}"#),
        ],
    ),
    case(
        "order_of_names",
        &[
            Shell("for n in a a/c a-b; do mkdir -p $n/.codex-plugin; printf $n > $n/.codex-plugin/plugin.json; printf $n > $n/SKILL.md; done"),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir"}]}"#),
        ],
    ),
    case(
        "unreadable_files",
        &[
            Shell("mkdir -p a b c/.codex-plugin; head -c 1048577 /dev/zero > a/SKILL.md; printf '\\377' > b/SKILL.md; mkdir c/.codex-plugin/plugin.json"),
            Shape(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/a"}]}"#),
            Shape(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/b"}]}"#),
            Shape(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir/c"}]}"#),
        ],
    ),
    case(
        "roots_in_a_sandbox",
        &[
            Shell("printf S > SKILL.md"),
            Call(DISCOVER, r#"{"roots":[{"id":"x","path":"$dir","sandbox":null}]}"#),
            Call(
                DISCOVER,
                r#"{"roots":[{"id":"x","path":"$dir","sandbox":{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}}]}"#,
            ),
            Call(
                DISCOVER,
                r#"{"roots":[{"id":"x","path":"$dir","sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"},"cwd":"$dir","windowsSandboxLevel":"disabled"}}]}"#,
            ),
        ],
    )
    .newer(),
    case(
        "configuration",
        &[
            Exact(READ, r#"{"cwd":"$dir","configPaths":[],"requirementsPaths":[]}"#),
            Exact(READ, r#"{"cwd":"$dir","configPaths":[[]],"requirementsPaths":[]}"#),
            Exact(READ, r#"{"cwd":"$dir","configPaths":[],"requirementsPaths":[[]]}"#),
            Call(READ, "{}"),
            Call(READ, r#"{"configPaths":[["a"]],"requirementsPaths":[]}"#),
            Call(READ, r#"{"cwd":"$dir","configPaths":["a"],"requirementsPaths":[]}"#),
            Call(READ, r#"{"cwd":"$dir","configPaths":[["a"]]}"#),
            Call(READ, r#"{"cwd":"$path","configPaths":[["a"]],"requirementsPaths":[]}"#),
            Call(READ, r#"{"cwd":"file:///C:/x","configPaths":[["a"]],"requirementsPaths":[]}"#),
            Shape(READ, r#"{"cwd":"$dir","configPaths":[["no_such_key"]],"requirementsPaths":[["no_such_key"]]}"#),
            Shape(READ, r#"{"cwd":"$dir","configPaths":[["no_such_key","deeper"]],"requirementsPaths":[]}"#),
            Shape(READ, r#"{"cwd":"$dir","configPaths":[],"requirementsPaths":[["no_such_key"]]}"#),
            Shape(READ, r#"{"cwd":"$dir/none","configPaths":[["no_such_key"]],"requirementsPaths":[]}"#),
        ],
    )
    .newer(),
    case(
        "configuration_of_a_project",
        &[
            Shell("mkdir -p .git .codex inner/.codex; printf '[conformance]\\na = 1\\nb = \"x\"\\n' > .codex/config.toml; printf '[conformance]\\na = 2\\n' > inner/.codex/config.toml"),
            Shape(READ, r#"{"cwd":"$dir/inner","configPaths":[["conformance","a"]],"requirementsPaths":[]}"#),
            Shell("printf 'no toml' > inner/.codex/config.toml"),
            Shape(READ, r#"{"cwd":"$dir/inner","configPaths":[["conformance","a"]],"requirementsPaths":[]}"#),
        ],
    )
    .newer(),
];

/// A call for so many roots.
fn roots(count: usize) -> Vec<u8> {
    let roots: Vec<String> = (0..count)
        .map(|n| format!(r#"{{"id":"{n}","path":"file:///no-such-root-{n}"}}"#))
        .collect();
    let params = format!(r#"{{"roots":[{}]}}"#, roots.join(","));
    format!(r#"{{"id":{count},"method":"{DISCOVER}","params":{params}}}"#).into_bytes()
}
