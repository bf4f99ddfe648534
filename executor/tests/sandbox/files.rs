//! Calls on files in a sandbox, as a client makes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rendezvous_executor::server::{Config, Server};
use rendezvous_host::sandbox::{Sandbox, Tools};
use serde_json::{Value, json};

use self::client::Client;
use crate::support::{self, World, names};

#[path = "../server/support.rs"]
#[expect(dead_code, reason = "shared with the server's tests, which use more of it")]
mod client;

struct Desk {
    world: World,
    client: Client,
}

impl Desk {
    async fn new() -> Self {
        Self::with(support::sandbox()).await
    }

    async fn with(sandbox: Sandbox) -> Self {
        let server = Server::new(Config {
            sandbox,
            ..Config::default()
        });
        let client = Client::new(&server).await;
        Self {
            world: World::new(),
            client,
        }
    }

    fn inside(&self, name: &str) -> String {
        format!("file://{}/{name}", self.world.inside.display())
    }

    fn outside(&self, name: &str) -> String {
        format!("file://{}/{name}", self.world.outside.display())
    }

    fn sandbox(&self, entries: &Value) -> Value {
        let root = format!("file://{}", self.world.inside.display());
        json!({
            "permissions": {
                "type": "managed", "network": "restricted",
                "file_system": {"type": "restricted", "entries": entries},
            },
            "cwd": root, "workspaceRoots": [root], "windowsSandboxLevel": "disabled",
        })
    }

    /// Everything can be read, and the workspace be written.
    fn workspace_write(&self) -> Value {
        self.sandbox(&json!([
            {"path": special("root"), "access": "read"},
            {"path": special("project_roots"), "access": "write"},
            {"path": {"type": "special", "value": {"kind": "project_roots", "subpath": ".git"}}, "access": "read", "missing_path_behavior": "skip"},
            {"path": {"type": "path", "path": self.inside("denied")}, "access": "deny"},
        ]))
    }

    /// The workspace can be read, and nothing else.
    fn workspace_only(&self) -> Value {
        self.sandbox(&json!([{"path": special("project_roots"), "access": "write"}]))
    }

    async fn call(&mut self, method: &str, sandbox: &Value, params: Value) -> Result<Value, i64> {
        let params = client::with(params, json!({"sandbox": sandbox}));
        self.client.call(method, params).await.map_err(|(code, _)| code)
    }
}

fn special(kind: &str) -> Value {
    json!({"type": "special", "value": {"kind": kind}})
}

#[tokio::test]
async fn every_call_works_where_it_is_allowed() {
    let mut desk = Desk::new().await;
    for sandbox in [desk.workspace_write(), desk.workspace_only()] {
        let data = STANDARD.encode(vec![7; 3_000_000]);
        let (a, b, d) = (desk.inside("d/a"), desk.inside("d/b"), desk.inside("d"));
        desk.call("fs/createDirectory", &sandbox, json!({"path": desk.inside("d/e")}))
            .await
            .expect("made");
        desk.call("fs/writeFile", &sandbox, json!({"path": a, "dataBase64": data}))
            .await
            .expect("written");
        desk.call(
            "fs/copy",
            &sandbox,
            json!({"sourcePath": a, "destinationPath": b, "recursive": false}),
        )
        .await
        .expect("copied");
        let read = desk
            .call("fs/readFile", &sandbox, json!({"path": b}))
            .await
            .expect("read");
        assert!(read["dataBase64"] == data);
        let metadata = desk
            .call("fs/getMetadata", &sandbox, json!({"path": b}))
            .await
            .expect("looked at");
        assert_eq!(
            (&metadata["size"], &metadata["isFile"]),
            (&json!(3_000_000), &json!(true))
        );
        let native = desk
            .call("fs/getMetadata", &Value::Null, json!({"path": b}))
            .await
            .expect("looked at");
        assert_eq!(metadata, native);
        let real = desk
            .call("fs/canonicalize", &sandbox, json!({"path": b}))
            .await
            .expect("resolved");
        assert_eq!(real["path"], b);
        let listed = desk
            .call("fs/readDirectory", &sandbox, json!({"path": d}))
            .await
            .expect("listed");
        assert_eq!(listed["entries"].as_array().expect("entries").len(), 3);
        let options = json!({"maxDepth": 4, "maxDirectories": 9, "maxEntries": 9, "followDirectorySymlinks": true});
        let walk = desk
            .call("fs/walk", &sandbox, json!({"path": d, "options": options}))
            .await
            .expect("walked");
        assert_eq!(walk["entries"].as_array().expect("entries").len(), 3);
        desk.call("fs/open", &sandbox, json!({"handleId": "h", "path": b}))
            .await
            .expect("opened");
        let block = json!({"handleId": "h", "offset": 2_999_999, "len": 9});
        let block = desk.call("fs/readBlock", &sandbox, block).await.expect("read");
        assert_eq!(
            (&block["chunk"], &block["eof"]),
            (&json!(STANDARD.encode([7])), &json!(true))
        );
        desk.call("fs/close", &sandbox, json!({"handleId": "h"}))
            .await
            .expect("closed");
        desk.call("fs/remove", &sandbox, json!({"path": d}))
            .await
            .expect("removed");
        assert!(names(&desk.world.inside).is_empty());
    }
}

#[tokio::test]
async fn errors_keep_their_codes() {
    let mut desk = Desk::new().await;
    for sandbox in [Value::Null, desk.workspace_write(), desk.workspace_only()] {
        let missing = json!({"path": desk.inside("missing/x"), "dataBase64": ""});
        for method in [
            "fs/readFile",
            "fs/writeFile",
            "fs/getMetadata",
            "fs/readDirectory",
            "fs/canonicalize",
        ] {
            assert_eq!(
                desk.call(method, &sandbox, missing.clone()).await,
                Err(-32004),
                "{method}"
            );
        }
        let folder = json!({"path": desk.inside("")});
        assert_eq!(desk.call("fs/readFile", &sandbox, folder).await, Err(-32600));
    }
}

/// Lays out what calls try to change, and gives the places, outside of what the sandbox lets be written, where they try.
fn lay_out(desk: &Desk) -> [String; 5] {
    std::fs::write(desk.world.outside.join("victim"), "victim").expect("written");
    std::fs::create_dir_all(desk.world.inside.join(".git/hooks")).expect("made");
    std::os::unix::fs::symlink(&desk.world.outside, desk.world.inside.join("link")).expect("linked");
    std::fs::hard_link(desk.world.outside.join("victim"), desk.world.inside.join("hard")).expect("linked");
    [
        desk.outside("x"),
        desk.inside("link/x"),
        desk.inside("../outside/x"),
        desk.inside(".git/hooks/x"),
        format!("file:///proc/self/root{}/x", desk.world.outside.display()),
    ]
}

/// Every call that makes something at a path.
fn makers(desk: &Desk, path: &str) -> [(&'static str, Value); 4] {
    [
        ("fs/writeFile", json!({"path": path, "dataBase64": ""})),
        ("fs/createDirectory", json!({"path": path})),
        (
            "fs/copy",
            json!({"sourcePath": desk.inside("hard"), "destinationPath": path, "recursive": false}),
        ),
        ("fs/open", json!({"handleId": "h", "path": path, "mode": "replace"})),
    ]
}

#[tokio::test]
async fn nothing_is_changed_where_it_is_not_allowed() {
    let mut desk = Desk::new().await;
    let sandbox = desk.workspace_write();
    let mut places = Vec::from(lay_out(&desk));
    places.push(desk.inside(".agents/x"));
    let calls: Vec<_> = places.iter().flat_map(|path| makers(&desk, path)).collect();
    for (method, params) in calls {
        let refused = desk.call(method, &sandbox, params.clone()).await;
        assert!(
            matches!(refused, Err(-32600 | -32603)),
            "{method} {params}: {refused:?}"
        );
    }
    for path in [
        desk.outside("victim"),
        desk.inside("link/victim"),
        desk.inside(".git/hooks"),
        desk.inside(".git"),
    ] {
        let refused = desk.call("fs/remove", &sandbox, json!({"path": path})).await;
        assert!(matches!(refused, Err(-32600 | -32603)), "{path}: {refused:?}");
    }
    assert_eq!(names(&desk.world.outside), ["victim"]);
    assert_eq!(names(&desk.world.inside), [".git", "hard", "link"]);
    assert!(names(&desk.world.inside.join(".git/hooks")).is_empty());
}

/// Otherwise that they fail in one would prove nothing.
#[tokio::test]
async fn the_same_calls_do_their_work_without_a_sandbox() {
    let mut desk = Desk::new().await;
    for path in lay_out(&desk) {
        for (method, params) in makers(&desk, &path) {
            let done = desk.call(method, &Value::Null, params).await;
            assert!(done.is_ok(), "{method} {path}: {done:?}");
            let closed = desk.call("fs/close", &Value::Null, json!({"handleId": "h"})).await;
            assert!(closed.is_ok(), "{closed:?}");
            let removed = desk
                .call("fs/remove", &Value::Null, json!({"path": path, "force": false}))
                .await;
            assert!(removed.is_ok(), "{method} made nothing at {path}: {removed:?}");
        }
    }
    for path in [
        desk.inside("link/victim"),
        desk.inside(".git/hooks"),
        desk.inside(".git"),
    ] {
        let removed = desk
            .call("fs/remove", &Value::Null, json!({"path": path, "force": false}))
            .await;
        assert!(removed.is_ok(), "{path}: {removed:?}");
    }
    assert!(names(&desk.world.outside).is_empty());
}

#[tokio::test]
async fn nothing_is_read_where_it_is_not_allowed() {
    let mut desk = Desk::new().await;
    std::fs::create_dir(desk.world.inside.join("denied")).expect("made");
    for file in [desk.world.inside.join("denied/x"), desk.world.outside.join("x")] {
        std::fs::write(file, "secret").expect("written");
    }
    std::os::unix::fs::symlink(&desk.world.outside, desk.world.inside.join("link")).expect("linked");
    let (write, only) = (desk.workspace_write(), desk.workspace_only());
    let cases = [
        (&write, desk.inside("denied/x")),
        (&only, desk.outside("x")),
        (&only, desk.inside("link/x")),
        (&only, desk.inside("../outside/x")),
        (
            &only,
            format!("file:///proc/self/root{}/x", desk.world.outside.display()),
        ),
    ];
    for (sandbox, path) in cases {
        for method in ["fs/readFile", "fs/getMetadata"] {
            let refused = desk.call(method, sandbox, json!({"path": path})).await;
            assert!(matches!(refused, Err(-32004 | -32600)), "{method} {path}: {refused:?}");
        }
        let refused = desk
            .call("fs/open", sandbox, json!({"handleId": "h", "path": path}))
            .await;
        assert!(matches!(refused, Err(-32004 | -32600)), "{path}: {refused:?}");
        let read = desk
            .call("fs/readFile", &Value::Null, json!({"path": path}))
            .await
            .expect("read");
        assert_eq!(read["dataBase64"], STANDARD.encode("secret"), "{path}");
    }
}

#[tokio::test]
async fn the_executor_s_own_memory_is_not_shown() {
    let mut desk = Desk::new().await;
    let sandbox = desk.sandbox(&json!([{"path": special("root"), "access": "read"}]));
    std::os::unix::fs::symlink("/proc/self", desk.world.inside.join("me")).expect("linked");
    let own = format!("executor-{}", std::process::id());
    for path in ["file:///proc/self/status".to_owned(), desk.inside("me/status")] {
        let read = desk
            .call("fs/readFile", &sandbox, json!({"path": path}))
            .await
            .expect("read");
        let text = STANDARD
            .decode(read["dataBase64"].as_str().expect("text"))
            .expect("base64");
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("\nPid:\t2\n"), "the helper's own, not {own}: {text}");
    }
}

#[tokio::test]
async fn processes_say_what_confines_them_and_why_they_failed() {
    let mut desk = Desk::new().await;
    let sandbox = desk.workspace_write();
    let script = format!("echo x > {}/x", desk.world.outside.display());
    let params = client::with(client::start("p", &script), json!({"sandbox": sandbox}));
    let started = desk.client.call("process/start", params).await.expect("started");
    assert_eq!(started["sandboxType"], "linuxSeccomp");
    loop {
        let (method, news) = desk.client.news().await;
        match method.as_str() {
            "process/exited" => assert_eq!((&news["exitCode"], &news["sandboxDenied"]), (&json!(2), &json!(true))),
            "process/closed" => break,
            _ => {}
        }
    }
    let read = desk
        .client
        .call("process/read", json!({"processId": "p"}))
        .await
        .expect("read");
    assert_eq!(read["sandboxDenied"], true);
    let open = json!({"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"});
    let params = client::with(client::start("q", "exit 1"), json!({"sandbox": open}));
    let started = desk.client.call("process/start", params).await.expect("started");
    assert_eq!(started["sandboxType"], "none");
}

#[tokio::test]
async fn what_cannot_be_enforced_is_refused() {
    let mut desk = Desk::with(Sandbox::new(Tools {
        bubblewrap: None,
        helper: support::helper(),
    }))
    .await;
    let sandbox = desk.workspace_write();
    let params = client::with(client::start("p", "echo x > ran"), json!({"sandbox": sandbox}));
    assert_eq!(
        desk.client.call("process/start", params).await.expect_err("refused").0,
        -32602
    );
    let write = json!({"path": desk.inside("ran"), "dataBase64": ""});
    assert_eq!(desk.call("fs/writeFile", &sandbox, write).await, Err(-32600));
    assert!(names(&desk.world.inside).is_empty());
    let mut desk = Desk::new().await;
    for more in [json!({"enforceManagedNetwork": true}), json!({"networkProxy": {}})] {
        let params = client::with(client::start("p", "true"), json!({"sandbox": desk.workspace_write()}));
        let refused = desk.client.call("process/start", client::with(params, more)).await;
        assert_eq!(refused.expect_err("refused").0, -32602);
    }
}
