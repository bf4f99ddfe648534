//! `fs/*`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Client, server, with};

#[tokio::test]
async fn every_call_on_files() {
    let dir = tempfile::tempdir().expect("directory");
    let root = format!("file://{}", dir.path().canonicalize().expect("path").display());
    let path = |name: &str| json!({"path": format!("{root}/{name}"), "sandbox": null});
    let mut client = Client::new(&server()).await;
    let write = |name: &str, text: &str| with(path(name), json!({"dataBase64": STANDARD.encode(text)}));

    assert_eq!(client.call("fs/createDirectory", path("a/b")).await, Ok(json!({})));
    assert_eq!(
        client.call("fs/writeFile", write("a/odd%20%FF", "content")).await,
        Ok(json!({}))
    );
    let read = client.call("fs/readFile", path("a/odd%20%FF")).await;
    assert_eq!(read, Ok(json!({"dataBase64": STANDARD.encode("content")})));
    let metadata = client
        .call("fs/getMetadata", path("a/odd%20%FF"))
        .await
        .expect("metadata");
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("now")
        .as_millis();
    for member in ["createdAtMs", "modifiedAtMs"] {
        let age = now - u128::from(metadata[member].as_u64().expect(member));
        assert!(age < 600_000, "{member}: {metadata}");
    }
    let rest = with(metadata, json!({"createdAtMs": 0, "modifiedAtMs": 0}));
    assert_eq!(
        rest,
        json!({"isDirectory": false, "isFile": true, "isSymlink": false, "size": 7, "createdAtMs": 0, "modifiedAtMs": 0})
    );
    let real = client.call("fs/canonicalize", path("a/b/%2E%2E")).await;
    assert_eq!(real, Ok(json!({"path": format!("{root}/a")})));
    let list = client.call("fs/readDirectory", path("a")).await.expect("list");
    let mut names: Vec<_> = list["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|e| e["fileName"].clone())
        .collect();
    names.sort_by_key(Value::to_string);
    assert_eq!(names, [json!("b"), json!("odd \u{fffd}")]);
    let options =
        json!({"options": {"maxDepth": 6, "maxDirectories": 10, "maxEntries": 10, "followDirectorySymlinks": true}});
    let walk = client.call("fs/walk", with(path(""), options)).await;
    let entries = json!([
        {"path": format!("{root}/a"), "kind": "directory"},
        {"path": format!("{root}/a/b"), "kind": "directory"},
        {"path": format!("{root}/a/odd%20%FF"), "kind": "file"},
    ]);
    assert_eq!(walk, Ok(json!({"entries": entries, "errors": [], "truncated": false})));
    let copy = json!({"sourcePath": format!("{root}/a"), "destinationPath": format!("{root}/c"), "recursive": true});
    assert_eq!(client.call("fs/copy", copy).await, Ok(json!({})));

    let open = with(path("c/odd%20%FF"), json!({"handleId": "h"}));
    assert_eq!(client.call("fs/open", open).await, Ok(json!({"handleId": "h"})));
    for (offset, len, text, eof) in [(0, 7, "content", false), (4, 100, "ent", true), (7, 1, "", true)] {
        let block = client
            .call("fs/readBlock", json!({"handleId": "h", "offset": offset, "len": len}))
            .await;
        assert_eq!(block, Ok(json!({"chunk": STANDARD.encode(text), "eof": eof})));
    }
    assert_eq!(client.call("fs/close", json!({"handleId": "h"})).await, Ok(json!({})));
    assert_eq!(client.call("fs/close", json!({"handleId": "h"})).await, Ok(json!({})));
    assert_eq!(client.call("fs/remove", path("c")).await, Ok(json!({})));
    assert!(!dir.path().join("c").exists());
}

#[tokio::test]
async fn the_table_of_refusals() {
    let dir = tempfile::tempdir().expect("directory");
    std::fs::write(dir.path().join("file"), "x").expect("file");
    let root = format!("file://{}", dir.path().display());
    let mut client = Client::new(&server()).await;
    let path = |name: &str| json!({"path": format!("{root}/{name}")});
    let sandbox =
        |permissions: Value| json!({"sandbox": {"permissions": permissions, "windowsSandboxLevel": "disabled"}});
    let restricted =
        json!({"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": []}});
    let refusals = [
        (
            "fs/readFile",
            path("missing"),
            -32004,
            "No such file or directory (os error 2)",
        ),
        ("fs/readFile", path(""), -32600, "is not a file"),
        ("fs/readFile", path("file/x"), -32603, "Not a directory (os error 20)"),
        ("fs/readFile", json!({"path": "/etc/passwd"}), -32602, ""),
        ("fs/readFile", json!({"path": "http://x/y"}), -32602, ""),
        ("fs/readFile", json!({"path": "file:///x?q"}), -32602, ""),
        (
            "fs/readFile",
            json!({"path": "file://host/share/f"}),
            -32600,
            "file://host/share/f",
        ),
        (
            "fs/readFile",
            with(path("file"), sandbox(restricted.clone())),
            -32600,
            "sandbox",
        ),
        (
            "fs/getMetadata",
            with(path("file"), sandbox(restricted)),
            -32600,
            "sandbox",
        ),
        (
            "fs/getMetadata",
            with(path("file"), sandbox(json!({"type": "what"}))),
            -32602,
            "",
        ),
        (
            "fs/getMetadata",
            with(path("file"), json!({"followSymlinks": false})),
            -32600,
            "followSymlinks",
        ),
        ("fs/getMetadata", path("missing"), -32004, "(os error 2)"),
        (
            "fs/writeFile",
            with(path("file"), json!({"dataBase64": "!"})),
            -32600,
            "fs/writeFile requires valid base64 dataBase64",
        ),
        (
            "fs/writeFile",
            with(path("no/file"), json!({"dataBase64": ""})),
            -32004,
            "(os error 2)",
        ),
        (
            "fs/open",
            with(path("file"), json!({"handleId": "h".repeat(33)})),
            -32600,
            "32 bytes",
        ),
        (
            "fs/open",
            with(path("file"), json!({"handleId": "h", "mode": "replace"})),
            -32602,
            "mode",
        ),
        (
            "fs/readBlock",
            json!({"handleId": "h", "offset": 0, "len": 1}),
            -32004,
            "unknown file read handle `h`",
        ),
        (
            "fs/readBlock",
            json!({"handleId": "h", "offset": 0, "len": 0}),
            -32600,
            "between 1 and 1048576",
        ),
        (
            "fs/createDirectory",
            with(path("file"), json!({"recursive": false})),
            -32603,
            "(os error 17)",
        ),
        (
            "fs/remove",
            with(path("missing"), json!({"force": false})),
            -32004,
            "(os error 2)",
        ),
        (
            "fs/copy",
            json!({"sourcePath": root, "destinationPath": format!("{root}/x"), "recursive": true}),
            -32600,
            "itself",
        ),
        (
            "fs/copy",
            json!({"sourcePath": root, "destinationPath": format!("{root}/x"), "recursive": false}),
            -32600,
            "recursive: true",
        ),
        ("fs/walk", path(""), -32602, "options"),
    ];
    for (method, params, code, text) in refusals {
        let error = client.call(method, params.clone()).await.expect_err(method);
        assert!(
            error.0 == code && error.1.contains(text),
            "{method} {params}: {error:?}"
        );
    }
    for open in [
        json!({"type": "disabled"}),
        json!({"type": "external", "network": "enabled"}),
    ] {
        client
            .call("fs/getMetadata", with(path("file"), sandbox(open)))
            .await
            .expect("no platform sandbox");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_fits_no_message_is_refused_and_read_in_blocks() {
    let dir = tempfile::tempdir().expect("directory");
    let file = std::fs::File::create(dir.path().join("large")).expect("file");
    file.set_len(50 * 1024 * 1024).expect("sparse");
    let path = json!({"path": format!("file://{}/large", dir.path().display())});
    let mut client = Client::new(&server()).await;
    let error = client.call("fs/readFile", path.clone()).await.expect_err("too large");
    assert!(error.0 == -32600 && error.1.contains("too large"), "{error:?}");
    file.set_len(40 * 1024 * 1024).expect("sparse");
    let whole = client.call("fs/readFile", path.clone()).await.expect("fits");
    assert_eq!(
        whole["dataBase64"].as_str().expect("text").len(),
        (40 * 1024 * 1024_usize).div_ceil(3) * 4
    );
    client
        .call("fs/open", with(path, json!({"handleId": "h"})))
        .await
        .expect("open");
    let block = client
        .call(
            "fs/readBlock",
            json!({"handleId": "h", "offset": 1 << 20, "len": 1 << 20}),
        )
        .await
        .expect("block");
    assert_eq!(block["eof"], json!(false));
}
