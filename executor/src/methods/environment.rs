//! What this machine is.

use std::path::{Path, PathBuf};

use rendezvous_host::shell;
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::environment::{
    Capabilities, EnvironmentInfo, Info, Readiness, Shell, Status, StatusResult,
};
use rendezvous_rpc::{PathUri, RpcError};

use super::{Family, Reply, params, reply};
use crate::server::{Connection, Sink};

pub(super) fn info<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    params::<Info>(request)?;
    connection.require(Family::EnvironmentInfo)?;
    reply::<Info>(request, &connection.server.info)
}

pub(super) fn status<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    params::<Status>(request)?;
    connection.require(Family::EnvironmentStatus)?;
    let status = Readiness::Ready;
    reply::<Status>(request, &StatusResult { status })
}

/// Looks at this machine.
pub(crate) fn describe() -> EnvironmentInfo {
    let shell = shell::detect();
    let uri = |path: PathBuf| PathUri::from_path(&path).ok();
    let temporary = uri(std::env::temp_dir());
    EnvironmentInfo {
        shell: Shell {
            name: shell.name.to_owned(),
            path: shell.path.to_string_lossy().into_owned(),
        },
        cwd: std::env::current_dir().ok().and_then(uri),
        capabilities: capabilities(),
        executor_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        user_home_dir: std::env::var_os("HOME")
            .map(PathBuf::from)
            .filter(|home| home != Path::new(""))
            .and_then(uri),
        platform_os: Some(std::env::consts::OS.to_owned()),
        prepend_path_dirs: None,
        temporary_directories: temporary.clone().map(|directory| vec![directory]),
        temp_dir: temporary,
    }
}

/// What is there beyond the oldest contract; nothing else may be named.
fn capabilities() -> Capabilities {
    Capabilities {
        network_proxy_launch: true,
        file_write_streaming: true,
        capability_discovery_sandbox: true,
        environment_config_read: true,
        fs_watch_missing: true,
        sandboxed_file_streaming: true,
        http_header_env_vars: true,
        shell_snapshot_v2: true,
    }
}
