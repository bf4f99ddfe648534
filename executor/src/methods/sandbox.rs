//! Which requests ask for a sandbox that this executor cannot give.

use rendezvous_rpc::RpcError;
use serde::Deserialize;
use serde_json::Value;

/// Refuses a process that asks for a sandbox: naming one at all demands a platform sandbox.
pub(super) fn allow_process(sandbox: Option<&Value>) -> Result<(), RpcError> {
    match sandbox {
        None => Ok(()),
        Some(_) => Err(RpcError::invalid_params(
            "sandbox intent cannot be enforced on this executor",
        )),
    }
}

/// Refuses a call on files whose profile needs a platform sandbox. A profile that allows every write needs none.
pub(super) fn allow_files(sandbox: Option<&Value>) -> Result<(), RpcError> {
    let Some(sandbox) = sandbox else { return Ok(()) };
    let context = Context::deserialize(sandbox).map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let is_open = match &context.permissions {
        Profile::Disabled {} | Profile::External {} => true,
        Profile::Managed { file_system } => file_system.allows_everything(),
    };
    if is_open {
        Ok(())
    } else {
        Err(RpcError::invalid_request(
            "sandbox intent cannot be enforced on this executor",
        ))
    }
}

#[derive(Deserialize)]
struct Context {
    permissions: Profile,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Profile {
    Managed { file_system: FileSystem },
    Disabled {},
    External {},
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FileSystem {
    Restricted { entries: Vec<Entry> },
    Unrestricted {},
}

#[derive(Deserialize)]
struct Entry {
    path: Value,
    access: Access,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Access {
    Read,
    Write,
    #[serde(alias = "none")]
    Deny,
}

impl FileSystem {
    fn allows_everything(&self) -> bool {
        match self {
            Self::Unrestricted {} => true,
            Self::Restricted { entries } => {
                entries.iter().all(|entry| entry.access == Access::Write) && entries.iter().any(Entry::is_root)
            }
        }
    }
}

impl Entry {
    fn is_root(&self) -> bool {
        let path = &self.path;
        match path.get("type").and_then(Value::as_str) {
            Some("special") => path.pointer("/value/kind").and_then(Value::as_str) == Some("root"),
            Some("path") => path.get("path").and_then(Value::as_str) == Some("file:///"),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn files(permissions: &Value) -> Result<(), i64> {
        let sandbox = json!({"permissions": permissions, "windowsSandboxLevel": "disabled"});
        allow_files(Some(&sandbox)).map_err(|error| error.code)
    }

    fn restricted(entries: &Value) -> Result<(), i64> {
        files(
            &json!({"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": entries}}),
        )
    }

    #[test]
    fn profiles_without_a_platform_sandbox_are_allowed() {
        assert_eq!(allow_files(None), Ok(()));
        assert_eq!(files(&json!({"type": "disabled"})), Ok(()));
        assert_eq!(files(&json!({"type": "external", "network": "enabled"})), Ok(()));
        let unrestricted = json!({"type": "managed", "network": "enabled", "file_system": {"type": "unrestricted"}});
        assert_eq!(files(&unrestricted), Ok(()));
        let root = json!({"type": "special", "value": {"kind": "root"}});
        let tmp = json!({"type": "path", "path": "file:///tmp"});
        assert_eq!(
            restricted(&json!([{"path": root, "access": "write"}, {"path": tmp, "access": "write"}])),
            Ok(())
        );
        assert_eq!(
            restricted(&json!([{"path": {"type": "path", "path": "file:///"}, "access": "write"}])),
            Ok(())
        );
    }

    #[test]
    fn everything_narrower_is_refused() {
        let root = json!({"type": "special", "value": {"kind": "root"}});
        let tmp = json!({"type": "path", "path": "file:///tmp"});
        for entries in [
            json!([]),
            json!([{"path": root, "access": "read"}]),
            json!([{"path": tmp, "access": "write"}]),
            json!([{"path": root, "access": "write"}, {"path": tmp, "access": "deny"}]),
            json!([{"path": root, "access": "write"}, {"path": tmp, "access": "none"}]),
            json!([{"path": root, "access": "write"}, {"path": {"type": "glob_pattern", "pattern": "*"}, "access": "read"}]),
        ] {
            assert_eq!(restricted(&entries), Err(-32600), "{entries}");
        }
        for broken in [json!(null), json!({"type": "other"}), json!({"type": "managed"})] {
            assert_eq!(files(&broken), Err(-32602), "{broken}");
        }
    }

    #[test]
    fn a_process_with_any_profile_is_refused() {
        assert_eq!(allow_process(None), Ok(()));
        let disabled = json!({"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"});
        assert_eq!(allow_process(Some(&disabled)).expect_err("refused").code, -32602);
    }
}
