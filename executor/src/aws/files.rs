//! The files that AWS's tools share, read by AWS's own parser.

use std::io;
use std::path::{Path, PathBuf};

use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_runtime::env_config::section::{EnvConfigSections, Profile};
use aws_runtime::env_config::source;
use aws_types::os_shim_internal::{Env, Fs};
use rendezvous_wire::secret::Secret;
use tokio::io::AsyncReadExt as _;

use super::{AwsError, Keys, variable};

/// Largest file that is read, in bytes.
const MAX_FILE: usize = 1024 * 1024;
const DEFAULT_PROFILE: &str = "default";
/// Properties of a profile whose keys a service gives.
const OF_A_SERVICE: [&str; 6] = [
    "role_arn",
    "credential_source",
    "web_identity_token_file",
    "sso_session",
    "sso_account_id",
    "login_session",
];

/// Where a profile has its keys from.
pub(super) enum Source {
    Keys(Keys),
    /// A command that prints them.
    Process(Secret),
}

/// The profiles of `~/.aws/config` and `~/.aws/credentials`, and which of them is meant.
pub(super) struct Files {
    sections: EnvConfigSections,
    profile: String,
}

impl Files {
    /// Reads both. A file that does not exist is empty.
    pub(super) async fn read(env: &Env, profile: Option<&str>) -> Result<Self, AwsError> {
        let config = content(env, "AWS_CONFIG_FILE", "config").await?;
        let credentials = content(env, "AWS_SHARED_CREDENTIALS_FILE", "credentials").await?;
        let files = EnvConfigFiles::builder()
            .with_contents(EnvConfigFileKind::Config, config)
            .with_contents(EnvConfigFileKind::Credentials, credentials)
            .build();
        let loaded = source::load(&Env::from_slice(&[]), &Fs::from_slice(&[]), &files).await;
        let loaded = loaded.map_err(|error| AwsError::Syntax(error.to_string()))?;
        let sections = EnvConfigSections::parse(loaded).map_err(|error| AwsError::Syntax(error.to_string()))?;
        let profile = profile.map(str::to_owned).or_else(|| variable(env, "AWS_PROFILE"));
        Ok(Self {
            sections,
            profile: profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned()),
        })
    }

    /// The name of the profile that is meant; it need not exist.
    pub(super) fn profile(&self) -> &str {
        &self.profile
    }

    pub(super) fn region(&self) -> Option<String> {
        let region = self.property("region")?;
        Some(region.to_owned())
    }

    pub(super) fn source(&self) -> Result<Source, AwsError> {
        if let Some(property) = OF_A_SERVICE.into_iter().find(|name| self.property(name).is_some()) {
            return Err(AwsError::Unsupported {
                profile: self.profile.clone(),
                property,
            });
        }
        if let Some(command) = self.property("credential_process") {
            return Ok(Source::Process(Secret::new(command)));
        }
        let secret = |name| self.property(name).map(Secret::new);
        match (secret("aws_access_key_id"), secret("aws_secret_access_key")) {
            (Some(access_key_id), Some(secret_access_key)) => Ok(Source::Keys(Keys {
                access_key_id,
                secret_access_key,
                session_token: secret("aws_session_token"),
            })),
            _ => Err(AwsError::NoKeys(self.profile.clone())),
        }
    }

    fn property(&self, name: &str) -> Option<&str> {
        let profile: &Profile = self.sections.get_profile(&self.profile)?;
        profile.get(name).filter(|value| !value.is_empty())
    }
}

/// The content of the file that `variable_name` names, or else of `~/.aws/NAME`.
async fn content(env: &Env, variable_name: &str, name: &str) -> Result<String, AwsError> {
    let home = variable(env, "HOME").map(PathBuf::from);
    let path = match (variable(env, variable_name).map(PathBuf::from), home) {
        (Some(path), home) => match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path,
        },
        (None, Some(home)) => home.join(".aws").join(name),
        (None, None) => return Ok(String::new()),
    };
    match read(&path).await {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(AwsError::File { path, source }),
    }
}

async fn read(path: &Path) -> io::Result<String> {
    let file = tokio::fs::File::open(path).await?;
    let mut text = String::new();
    let mut start = file.take(MAX_FILE as u64 + 1);
    start.read_to_string(&mut text).await?;
    if text.len() > MAX_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}
