//! Commands that begin with what a shell's start-up files left.

use std::ffi::{OsStr, OsString};

use rendezvous_host::process::Spec;
use rendezvous_host::snapshot::Kind;
use rendezvous_rpc::RpcError;
use rendezvous_rpc::method::process::{ShellSnapshot, StartParams};

use crate::session::Session;

/// Longest name of a scope.
const MAX_SCOPE: usize = 256;

/// Which kind of shell a request is about.
pub(super) fn check(snapshot: &ShellSnapshot) -> Result<Kind, RpcError> {
    if snapshot.scope_id.is_empty() || snapshot.scope_id.len() > MAX_SCOPE {
        return Err(RpcError::invalid_params(format!(
            "shell snapshot scope must be non-empty and at most {MAX_SCOPE} bytes"
        )));
    }
    let name = &snapshot.shell.name;
    Kind::named(name)
        .ok_or_else(|| RpcError::invalid_params(format!("shell snapshots are unsupported for shell `{name}`")))
}

/// What snapshots depend on: their scope and shell, and all that start-up files see but the variables of one command.
#[derive(Debug)]
pub(super) struct Request {
    key: String,
    kind: Kind,
    shell: OsString,
    /// Names of the variables of this command.
    overlay: Vec<OsString>,
}

impl Request {
    /// What a start asks for; nothing if its command would not run start-up files.
    pub(super) fn new(params: &StartParams) -> Result<Option<Self>, RpcError> {
        let Some(snapshot) = &params.shell_snapshot else {
            return Ok(None);
        };
        let kind = check(snapshot)?;
        let shell = &snapshot.shell.path;
        let is_login = matches!(&params.argv[..], [program, flags, _, ..] if program == shell && flags == "-lc");
        if !is_login {
            return Ok(None);
        }
        let key = (
            snapshot,
            &params.cwd,
            &params.env_policy,
            &params.sandbox,
            params.enforce_managed_network,
        );
        Ok(Some(Self {
            key: serde_json::to_string(&key).map_err(super::unwritable)?,
            kind,
            shell: shell.into(),
            overlay: params.env.keys().map(OsString::from).collect(),
        }))
    }

    /// Changes the command if there is a snapshot; `base` is its environment without the variables of this command.
    pub(super) async fn apply(self, session: &Session, base: &Spec, spec: &mut Spec) {
        let shell: &OsStr = &self.shell;
        let kept = session.snapshots().get(self.key, self.kind, shell, base).await;
        if let Some(snapshot) = kept.get() {
            snapshot.apply(spec, &self.overlay);
        }
    }
}
