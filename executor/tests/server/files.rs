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
            -32004,
            "(os error 2)",
        ),
        (
            "fs/getMetadata",
            with(path("file"), sandbox(restricted)),
            -32004,
            "(os error 2)",
        ),
        (
            "fs/getMetadata",
            with(path("file"), sandbox(json!({"type": "what"}))),
            -32602,
            "",
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
            "fs/readBlock",
            json!({"handleId": "h", "offset": 0, "len": 1}),
            -32004,
            "unknown file handle `h`",
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

#[tokio::test]
async fn files_are_replaced_in_blocks() {
    let dir = tempfile::tempdir().expect("directory");
    std::fs::write(dir.path().join("file"), "old").expect("file");
    let path = |name: &str| json!({"path": format!("file://{}/{name}", dir.path().display())});
    let server = server();
    let mut client = Client::new(&server).await;
    for (id, mode) in [("a", json!("replace")), ("b", json!({"replace": null}))] {
        let open = with(path("file"), json!({"handleId": id, "mode": mode}));
        assert_eq!(client.call("fs/open", open).await, Ok(json!({"handleId": id})));
        for (offset, text) in [(3, "lo"), (0, "hel")] {
            let block = json!({"handleId": id, "offset": offset, "chunk": STANDARD.encode(text)});
            assert_eq!(client.call("fs/writeBlock", block).await, Ok(json!({})));
        }
    }
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name));
    assert_eq!(read("file").expect("file"), "old");
    assert_eq!(client.call("fs/close", json!({"handleId": "a"})).await, Ok(json!({})));
    assert_eq!(read("file").expect("file"), "hello");
    let block = json!({"handleId": "b", "offset": 0, "chunk": STANDARD.encode("lost")});
    client.call("fs/writeBlock", block).await.expect("written");
    drop(client);

    let mut client = Client::new(&server).await;
    let write = |params: Value| with(json!({"handleId": "b", "offset": 0, "chunk": "YQ=="}), params);
    let refusals = [
        (
            "fs/open",
            with(path("file"), json!({"handleId": "b", "mode": "append"})),
            -32602,
            "unknown variant",
        ),
        (
            "fs/open",
            with(path("file"), json!({"handleId": "b", "mode": null})),
            -32602,
            "",
        ),
        (
            "fs/open",
            with(path(""), json!({"handleId": "b", "mode": "replace"})),
            -32603,
            "Is a directory",
        ),
        (
            "fs/open",
            with(path("x/y"), json!({"handleId": "b", "mode": "replace"})),
            -32004,
            "os error 2",
        ),
        ("fs/writeBlock", write(json!({})), -32004, "unknown file handle `b`"),
        (
            "fs/writeBlock",
            write(json!({"chunk": ""})),
            -32600,
            "between 1 and 1048576",
        ),
        ("fs/writeBlock", write(json!({"chunk": "!"})), -32602, "Invalid"),
        ("fs/writeBlock", write(json!({"offset": -1})), -32602, "invalid value"),
    ];
    for (method, params, code, text) in refusals {
        let error = client.call(method, params.clone()).await.expect_err(method);
        assert_eq!(error.0, code, "{method} {params}: {}", error.1);
        assert!(error.1.contains(text), "{method}: {}", error.1);
    }
    assert_eq!(
        read("file").expect("file"),
        "hello",
        "what was not closed has no effect"
    );
}

#[tokio::test]
async fn missing_paths_are_watched_one_set_at_a_time() {
    let dir = tempfile::tempdir().expect("directory");
    let root = dir.path().canonicalize().expect("path");
    let make = |name: &str| std::fs::write(root.join(name), "").expect("file");
    let uri = |name: &str| format!("file://{}/{name}", root.display());
    let mut client = Client::new(&server()).await;
    let watch = |id: u64, names: &[&str]| {
        let missing: Vec<String> = names.iter().map(|name| uri(name)).collect();
        json!({"watchId": id, "missing": missing})
    };
    let told = async |client: &mut Client, params: Value| {
        client.call("fs/watchMissing", params).await.expect("watch")["watching"].clone()
    };
    assert_eq!(told(&mut client, watch(0, &["a"])).await, false, "ids begin at 1");
    assert_eq!(told(&mut client, watch(2, &["a"])).await, true);
    assert_eq!(told(&mut client, watch(2, &["b"])).await, false, "an id is used once");
    assert_eq!(told(&mut client, watch(1, &["b"])).await, false, "ids grow");
    make("a");
    let changed = |id: u64| ("fs/missingChanged".to_owned(), json!({"watchId": id}));
    assert_eq!(client.news().await, changed(2));

    assert_eq!(told(&mut client, watch(3, &["b"])).await, true);
    assert_eq!(
        told(&mut client, watch(u64::MAX - 2, &["c", "d"])).await,
        true,
        "takes the place"
    );
    make("b");
    make("d");
    assert_eq!(client.news().await, changed(u64::MAX - 2));
    assert_eq!(told(&mut client, watch(u64::MAX - 1, &["e"])).await, true);
    assert_eq!(told(&mut client, watch(u64::MAX, &["a"])).await, false, "exists");
    make("e");
    let foreign = json!({"watchId": u64::MAX, "missing": ["file://server/share"]});
    assert_eq!(told(&mut client, foreign).await, false);
    let status = client.call("environment/status", json!(null)).await;
    assert!(
        status.is_ok(),
        "the watch before a failed one is over too: no news came before this"
    );
    for params in [
        json!({"watchId": -1, "missing": []}),
        json!({"watchId": 1}),
        json!({"missing": []}),
    ] {
        assert_eq!(
            client.call("fs/watchMissing", params).await.expect_err("params").0,
            -32602
        );
    }
}

#[tokio::test]
async fn links_are_refused_when_asked() {
    let dir = tempfile::tempdir().expect("directory");
    let root = dir.path().canonicalize().expect("path");
    std::fs::write(root.join("file"), "x").expect("file");
    std::os::unix::fs::symlink(root.join("file"), root.join("link")).expect("link");
    let mut client = Client::new(&server()).await;
    let at = |name: &str| json!({"path": format!("file://{}/{name}", root.display()), "followSymlinks": false});
    let calls = [
        ("fs/readFile", json!({}), -32603),
        ("fs/writeFile", json!({"dataBase64": "YQ=="}), -32603),
        ("fs/open", json!({"handleId": "h"}), -32603),
        ("fs/open", json!({"handleId": "h", "mode": "replace"}), -32603),
        ("fs/getMetadata", json!({}), -32600),
        ("fs/createDirectory", json!({}), -32603),
        ("fs/readDirectory", json!({}), -32603),
        ("fs/remove", json!({}), -32600),
    ];
    for (method, more, code) in calls {
        let refused = client.call(method, with(at("link"), more)).await;
        assert_eq!(refused.expect_err(method).0, code, "{method}");
    }
    assert_eq!(std::fs::read(root.join("file")).expect("file"), b"x");
    assert!(root.join("link").is_symlink());
    let read = client.call("fs/readFile", at("file")).await;
    assert_eq!(read, Ok(json!({"dataBase64": "eA=="})));
    let real = client.call("fs/canonicalize", at("link")).await.expect("real");
    assert_eq!(real["path"], at("file")["path"]);
}
