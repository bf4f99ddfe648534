//! This machine.

use std::path::PathBuf;

use rendezvous_host::shell;
use rendezvous_rpc::PathUri;
use rendezvous_rpc::method::environment::{Capabilities, EnvironmentInfo, Shell};

use crate::files::LocalFiles;
use crate::http::LocalHttp;
use crate::process::LocalProcesses;

/// This machine's processes, files and requests.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) processes: LocalProcesses,
    pub(super) files: LocalFiles,
    pub(super) http: LocalHttp,
}

impl Local {
    /// This machine; its requests trust the authorities of a PEM file beside the machine's own.
    pub(super) fn trusting(ca_file: Option<PathBuf>) -> Self {
        Self {
            http: LocalHttp::trusting(ca_file),
            ..Self::default()
        }
    }

    /// Looks at this machine.
    pub(super) fn info(&self) -> EnvironmentInfo {
        let shell = shell::detect();
        let uri = |path: PathBuf| PathUri::from_path(&path).ok();
        let temporary = uri(std::env::temp_dir());
        EnvironmentInfo {
            shell: Shell {
                name: shell.name.to_owned(),
                path: shell.path.to_string_lossy().into_owned(),
            },
            cwd: std::env::current_dir().ok().and_then(uri),
            capabilities: Capabilities {
                file_write_streaming: true,
                http_header_env_vars: true,
                ..Capabilities::default()
            },
            executor_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            user_home_dir: std::env::var_os("HOME")
                .filter(|home| !home.is_empty())
                .map(PathBuf::from)
                .and_then(uri),
            platform_os: Some(std::env::consts::OS.to_owned()),
            prepend_path_dirs: None,
            temporary_directories: temporary.clone().map(|directory| vec![directory]),
            temp_dir: temporary,
        }
    }
}
