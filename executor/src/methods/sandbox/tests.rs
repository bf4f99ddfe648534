use super::*;

fn context(permissions: &Value) -> Value {
    json!({
        "permissions": permissions, "cwd": "file:///w", "workspaceRoots": ["file:///w"], "windowsSandboxLevel": "disabled",
    })
}

fn managed(entries: &Value) -> Value {
    json!({
        "type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": entries},
    })
}

fn special(kind: &str) -> Value {
    json!({"type": "special", "value": {"kind": kind}})
}

fn files(sandbox: &Value) -> Result<bool, i64> {
    for_files(Some(sandbox))
        .map(|policy| policy.is_some())
        .map_err(|error| error.code)
}

fn process(sandbox: &Value) -> Result<Option<Policy>, RpcError> {
    for_process(Some(sandbox), "/cwd".as_ref(), Some("/var/t".into()))
}

#[test]
fn files_are_used_directly_where_the_profile_allows_every_write() {
    assert_eq!(for_files(None), Ok(None));
    let unrestricted = json!({"type": "managed", "network": "restricted", "file_system": {"type": "unrestricted"}});
    for open in [
        json!({"type": "disabled"}),
        json!({"type": "external", "network": "restricted"}),
        unrestricted,
        managed(&json!([{"path": special("root"), "access": "write"}])),
        managed(&json!([{"path": {"type": "path", "path": "file:///"}, "access": "write"}])),
    ] {
        assert_eq!(files(&context(&open)), Ok(false), "{open}");
    }
    let root = special("root");
    for entries in [
        json!([]),
        json!([{"path": root, "access": "read"}]),
        json!([{"path": special("slash_tmp"), "access": "write"}]),
        json!([{"path": root, "access": "write"}, {"path": special("slash_tmp"), "access": "none"}]),
        json!([{"path": root, "access": "write"}, {"path": {"type": "glob_pattern", "pattern": "*"}, "access": "deny"}]),
    ] {
        assert_eq!(files(&context(&managed(&entries))), Ok(true), "{entries}");
    }
}

#[test]
fn calls_on_files_say_what_is_relative_to_what() {
    for path in [
        special("project_roots"),
        special("current_working_directory"),
        json!({"type": "glob_pattern", "pattern": "*.env"}),
    ] {
        let mut homeless = context(&managed(&json!([{"path": path, "access": "deny"}])));
        assert_eq!(files(&homeless), Ok(true));
        homeless["cwd"] = Value::Null;
        assert_eq!(files(&homeless), Err(-32602), "{path}");
        homeless["policyContext"] = json!({"cwd": "file:///w", "workspaceRoots": []});
        assert_eq!(files(&homeless), Ok(true));
    }
}

#[test]
fn a_process_without_a_sandbox_is_native() {
    assert_eq!(for_process(None, "/".as_ref(), None), Ok(None));
    let disabled = context(&json!({"type": "disabled"}));
    assert!(process(&disabled).expect("a policy").expect("a policy").is_open());
}

#[test]
fn both_shapes_say_the_same() {
    let entries = json!([
        {"path": special("root"), "access": "read"},
        {"path": special("project_roots"), "access": "write"},
        {"path": {"type": "special", "value": {"kind": "project_roots", "subpath": ".git"}}, "access": "read", "missing_path_behavior": "skip"},
    ]);
    let older = context(&managed(&entries));
    let mut newer = older.clone();
    newer["policyContext"] = json!({"cwd": "file:///w", "workspaceRoots": ["file:///w"]});
    newer["workspaceRoots"] = json!(["file:///elsewhere"]);
    newer["userHomeDir"] = json!("file:///root");
    newer["windowsSandboxProxySettingsMode"] = json!("reconcile");
    let policy = process(&older).expect("a policy");
    assert!(policy.is_some());
    assert_eq!(policy, process(&newer).expect("a policy"));
    newer["policyContext"]["workspaceRoots"] = json!([]);
    assert_ne!(policy, process(&newer).expect("a policy"), "an empty list stays empty");
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let odd = |entry: Value| context(&managed(&json!([entry])));
    let mut no_level = context(&json!({"type": "disabled"}));
    no_level
        .as_object_mut()
        .expect("an object")
        .remove("windowsSandboxLevel");
    let mut foreign_root = context(&json!({"type": "disabled"}));
    foreign_root["workspaceRoots"] = json!(["file://server/share"]);
    for broken in [
        json!(null),
        no_level,
        foreign_root,
        context(&json!({"type": "other"})),
        context(&json!({"type": "managed"})),
        odd(json!({"path": {"type": "path", "path": "/native"}, "access": "read"})),
        odd(json!({"path": {"type": "path", "path": "file:///C:/x"}, "access": "read"})),
        odd(json!({"path": special("root"), "access": "execute"})),
        odd(json!({"path": special("future"), "access": "read"})),
        odd(json!({"path": special("root"), "access": "read", "missing_path_behavior": "create"})),
        odd(json!({"path": {"type": "special", "value": {"kind": "unknown", "path": ":future"}}, "access": "read"})),
        odd(json!({"path": {"type": "glob_pattern", "pattern": "*"}, "access": "read"})),
    ] {
        let error = process(&broken).expect_err("refused");
        assert_eq!(error.code, -32602, "{broken}");
        assert_eq!(error.data, Some(json!({"kind": "sandboxPreparation"})));
        assert!(files(&broken).is_err(), "{broken}");
    }
}

#[test]
fn calls_on_files_have_no_network_whatever_the_profile_gives() {
    let mut permissions = managed(&json!([{"path": special("root"), "access": "read"}]));
    let restricted = for_files(Some(&context(&permissions))).expect("a policy");
    permissions["network"] = json!("enabled");
    assert_eq!(for_files(Some(&context(&permissions))), Ok(restricted));
}
