//! `capabilityRoots/discoverV1`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Client, server};

struct Tree {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Tree {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let root = dir.path().canonicalize().expect("path");
        Self { _dir: dir, root }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
        std::fs::write(path, text).expect("file");
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.root.display())
    }

    fn file(&self, name: &str, text: &str) -> Value {
        json!({"path": self.uri(name), "contents": text})
    }

    async fn discover(&self, client: &mut Client, name: &str) -> Value {
        let params = json!({"roots": [{"id": "x", "path": self.uri(name)}]});
        let mut result = client
            .call("capabilityRoots/discoverV1", params)
            .await
            .expect("discovered");
        assert_eq!(result["roots"][0]["id"], "x");
        result["roots"][0].take()
    }
}

#[tokio::test]
async fn a_whole_plugin_is_found_in_one_call() {
    let tree = Tree::new();
    tree.write("p/.codex-plugin/plugin.json", "{}");
    tree.write("p/.claude-plugin/plugin.json", "{\"other\":1}");
    tree.write("p/.mcp.json", "mcp");
    tree.write("p/.app.json", "apps");
    tree.write("p/skills/a/SKILL.md", "a");
    tree.write("p/skills/a/agents/openai.yaml", "meta");
    tree.write("p/.hidden/SKILL.md", "hidden");
    tree.write("p/nested/.cursor-plugin/plugin.json", "nested");
    tree.write("p/1/2/3/4/5/6/SKILL.md", "deep");
    tree.write("p/1/2/3/4/5/6/7/SKILL.md", "too deep");
    tree.write("p/skills/b/skill.md", "not the name");
    std::os::unix::fs::symlink(tree.root.join("p/skills"), tree.root.join("p/linked")).expect("link");
    let mut client = Client::new(&server()).await;
    let found = tree.discover(&mut client, "p").await;
    let expected = json!({
        "id": "x", "path": tree.uri("p"), "error": null, "warnings": [],
        "plugin": {
            "manifest": tree.file("p/.codex-plugin/plugin.json", "{}"),
            "mcpConfig": tree.file("p/.mcp.json", "mcp"),
            "appsConfig": tree.file("p/.app.json", "apps"),
        },
        "skills": [
            {"instructions": tree.file("p/.hidden/SKILL.md", "hidden"), "metadata": null},
            {"instructions": tree.file("p/1/2/3/4/5/6/SKILL.md", "deep"), "metadata": null},
            {
                "instructions": tree.file("p/linked/a/SKILL.md", "a"),
                "metadata": tree.file("p/linked/a/agents/openai.yaml", "meta"),
            },
        ],
        "namespaceManifests": [
            tree.file("p/.codex-plugin/plugin.json", "{}"),
            tree.file("p/nested/.cursor-plugin/plugin.json", "nested"),
        ],
    });
    assert_eq!(
        found, expected,
        "each directory counts once, under the first of its names"
    );
}

#[tokio::test]
async fn a_root_in_a_plugin_has_its_name() {
    let tree = Tree::new();
    let large = vec![b'x'; 1024 * 1024 + 1];
    tree.write("p/.codex-plugin/plugin.json", "p");
    tree.write("p/-s/n/.cursor-plugin/plugin.json", "n");
    tree.write("p/-s/n/.codex-plugin/none", "");
    tree.write("p/unreadable/.codex-plugin/plugin.json", &large);
    tree.write("p/unreadable/.claude-plugin/plugin.json", b"\xff");
    tree.write("p/unreadable/s/SKILL.md", "s");
    tree.write("p/second/.codex-plugin/plugin.json", &large);
    tree.write("p/second/.cursor-plugin/plugin.json", "second");
    tree.write("p/second/s/SKILL.md", "s");
    let mut client = Client::new(&server()).await;
    let own = ("p/.codex-plugin/plugin.json", "p");
    let second = ("p/second/.cursor-plugin/plugin.json", "second");
    for (root, plugin, manifests, warnings) in [
        ("p/-s", None, &[own, ("p/-s/n/.cursor-plugin/plugin.json", "n")][..], 0),
        (
            "p/-s/n",
            Some("p/-s/n/.cursor-plugin/plugin.json"),
            &[("p/-s/n/.cursor-plugin/plugin.json", "n")],
            0,
        ),
        // The nearest that can be read counts, of the first name that can.
        ("p/unreadable/s", None, &[own], 2),
        ("p/second/s", None, &[second], 1),
        ("p/second", Some("p/second/.cursor-plugin/plugin.json"), &[second], 1),
    ] {
        let found = tree.discover(&mut client, root).await;
        assert_eq!(
            found["plugin"]["manifest"]["path"].as_str(),
            plugin.map(|name| tree.uri(name)).as_deref()
        );
        let expected: Vec<Value> = manifests.iter().map(|(name, text)| tree.file(name, text)).collect();
        assert_eq!(found["namespaceManifests"], json!(expected), "{root}");
        assert_eq!(
            found["warnings"].as_array().expect("warnings").len(),
            warnings,
            "{root}: {found}"
        );
    }
    // What names a root counts before its skills.
    tree.write("full/.codex-plugin/plugin.json", vec![b'y'; 1024 * 1024]);
    for number in 0..16 {
        tree.write(&format!("full/s/{number:02}/SKILL.md"), vec![b'y'; 1024 * 1024]);
    }
    for root in ["full", "full/s"] {
        let found = tree.discover(&mut client, root).await;
        let manifest = &found["namespaceManifests"][0]["path"];
        assert_eq!(*manifest, json!(tree.uri("full/.codex-plugin/plugin.json")), "{root}");
        assert_eq!(found["skills"].as_array().expect("skills").len(), 15, "{root}");
    }
}

#[tokio::test]
async fn manifests_name_their_files_or_hold_them() {
    let tree = Tree::new();
    let mut client = Client::new(&server()).await;
    for (number, (manifest, mcp, warning)) in [
        (r#"{"mcpServers":"./own.json"}"#, Some("own.json"), None),
        (r#"{"mcpServers":"./none.json"}"#, None, None),
        (r#"{"mcpServers":{"a":{}}}"#, None, None),
        (r#"{"mcpServers":"own.json"}"#, None, Some("path must start with `./`")),
        (r#"{"mcpServers":"./../x"}"#, None, Some("must stay inside")),
        ("no JSON", Some(".mcp.json"), None),
    ]
    .into_iter()
    .enumerate()
    {
        let plugin = number.to_string();
        tree.write(&format!("{plugin}/.claude-plugin/plugin.json"), manifest);
        tree.write(&format!("{plugin}/own.json"), "own");
        tree.write(&format!("{plugin}/.mcp.json"), "default");
        let found = tree.discover(&mut client, &plugin).await;
        let named = mcp.map(|name| json!(tree.uri(&format!("{plugin}/{name}"))));
        assert_eq!(found["plugin"]["mcpConfig"].get("path"), named.as_ref(), "{manifest}");
        assert_eq!(found["plugin"]["appsConfig"], Value::Null);
        let warnings = found["warnings"].as_array().expect("warnings");
        match warning {
            None => assert!(warnings.is_empty(), "{manifest}: {warnings:?}"),
            Some(text) => assert!(warnings[0].as_str().expect("text").contains(text), "{warnings:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_root_is_told_there() {
    let tree = Tree::new();
    tree.write("large/SKILL.md", vec![b'x'; 1024 * 1024 + 1]);
    tree.write("fits/SKILL.md", vec![b'x'; 1024 * 1024]);
    tree.write("bytes/SKILL.md", b"\xff");
    tree.write("file", "");
    for number in 0..17 {
        tree.write(&format!("many/{number:02}/SKILL.md"), vec![b'y'; 1024 * 1024]);
    }
    let mut client = Client::new(&server()).await;
    for (name, skills, warning, error) in [
        ("fits", 1, None, None),
        ("large", 0, Some("exceeds the 1048576-byte limit"), None),
        ("bytes", 0, Some("is not UTF-8"), None),
        (
            "many",
            16,
            Some("capability root bundle exceeds the 16777216-byte limit"),
            None,
        ),
        ("file", 0, None, Some("is not a directory")),
        ("missing", 0, None, Some("failed to inspect capability root")),
    ] {
        let found = tree.discover(&mut client, name).await;
        assert_eq!(found["skills"].as_array().expect("skills").len(), skills, "{name}");
        assert_eq!(found["plugin"], Value::Null);
        let has = |value: &Value, text: Option<&str>| match text {
            None => value.is_null(),
            Some(text) => value.as_str().is_some_and(|value| value.contains(text)),
        };
        assert!(has(&found["warnings"][0], warning), "{name}: {}", found["warnings"]);
        assert!(has(&found["error"], error), "{name}: {}", found["error"]);
    }
    // Three roots of 16 MiB each are more than a call may give.
    let root = json!({"id": "", "path": tree.uri("many")});
    let result = client
        .call("capabilityRoots/discoverV1", json!({"roots": [root, root, root]}))
        .await
        .expect("discovered");
    assert_eq!(result["roots"][1]["skills"].as_array().expect("skills").len(), 16);
    assert_eq!(result["roots"][2]["skills"], json!([]));
    let warning = result["roots"][2]["warnings"][0].as_str().expect("warning");
    assert!(warning.contains("of one call exceed"), "{warning}");
}

#[tokio::test]
async fn roots_are_bounded_and_may_ask_for_no_sandbox() {
    let tree = Tree::new();
    tree.write("r/SKILL.md", "s");
    let mut client = Client::new(&server()).await;
    let roots = |count| json!({"roots": vec![json!({"id": "", "path": tree.uri("r")}); count]});
    let result = client
        .call("capabilityRoots/discoverV1", roots(128))
        .await
        .expect("128");
    assert_eq!(result["roots"].as_array().expect("roots").len(), 128);
    let error = client
        .call("capabilityRoots/discoverV1", roots(129))
        .await
        .expect_err("129");
    assert_eq!(
        error,
        (-32600, "capability root discovery accepts at most 128 roots".into())
    );
    let foreign = json!({"roots": [{"id": "f", "path": "file://server/share"}]});
    let result = client
        .call("capabilityRoots/discoverV1", foreign)
        .await
        .expect("told inside");
    assert!(result["roots"][0]["error"].is_string());
    let profile =
        json!({"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": []}});
    let sandbox = json!({"permissions": profile, "windowsSandboxLevel": "disabled"});
    let params = json!({"roots": [{"id": "s", "path": tree.uri("r"), "sandbox": sandbox}]});
    let result = client
        .call("capabilityRoots/discoverV1", params)
        .await
        .expect("told inside");
    assert!(result["roots"][0]["error"].is_string(), "{result}");
    assert_eq!(result["roots"][0]["skills"], json!([]));
}
