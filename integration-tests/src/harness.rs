//! Our harness as a process.

use std::path::PathBuf;

use anyhow::Result;

use crate::netns::Namespace;
use crate::{Command, Context, binaries};

/// How our harness finds its executor.
#[derive(Clone, Debug)]
pub struct Access {
    /// Base URL of the registry.
    pub registry: String,
    /// The environment.
    pub environment: String,
    /// The credential.
    pub token: String,
    /// The authority of the registry's and the relay's certificates.
    pub ca_file: Option<PathBuf>,
    /// The network that it runs in.
    pub namespace: Option<Namespace>,
}

impl Access {
    /// The harness with `arguments`: `run -- COMMAND…`, `cp`, `info`.
    ///
    /// # Errors
    ///
    /// The binary is missing.
    pub fn command<I: IntoIterator<Item: Into<std::ffi::OsString>>>(
        &self,
        cx: &Context,
        arguments: I,
    ) -> Result<Command> {
        let mut command = Command::new(binaries::ours("harness")?)
            .args(arguments)
            .folder(cx.folder())
            .env("HOME", cx.folder())
            .env("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", &self.registry)
            .env("CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID", &self.environment)
            .env("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", &self.token);
        if let Some(file) = &self.ca_file {
            command = command.env("HARNESS_CA_FILE", file);
        }
        if let Some(namespace) = &self.namespace {
            command = namespace.enter(command);
        }
        Ok(command)
    }

    /// `harness run -- sh -c SCRIPT`.
    ///
    /// # Errors
    ///
    /// The binary is missing.
    pub fn shell(&self, cx: &Context, script: &str) -> Result<Command> {
        self.command(cx, ["run", "--", "sh", "-c", script])
    }
}
