//! The AWS identity that signs direct registrations and upgrades (SigV4).
//!
//! Nothing is asked over the network: the identity comes from the environment, from the files that AWS's own tools share, or
//! from a program that these name (`credential_process`). It is looked up for each signature, because short-lived ones
//! are replaced behind our back.

mod files;
mod keys;
mod process;
mod signature;

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use aws_types::os_shim_internal::Env;

use files::{Files, Source};
pub use keys::{KEY_VARIABLES, Keys};
pub use process::{MAX_ANSWER, TIME_LIMIT};
pub use signature::SigV4;

/// The service that is signed for unless another is named.
pub const DEFAULT_SERVICE: &str = "execute-api";
/// Variables that name the region; the first that is set counts.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];

/// Whose identity to take, and what to sign for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Take the keys of this profile, also when the environment has some.
    pub profile: Option<String>,
    /// The region; without one that of the environment or of the profile.
    pub region: Option<String>,
    /// The service.
    pub service: String,
    /// The keys from the environment.
    pub keys: Option<Keys>,
}

/// Why nothing can be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwsError {
    /// Nobody names the region.
    #[error("no AWS region: use --aws-region, AWS_REGION, or `region` in the profile `{0}`")]
    NoRegion(String),
    /// There are no keys anywhere.
    #[error("no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the profile `{0}` some")]
    NoKeys(String),
    /// A profile wants to get its keys from a service.
    #[error(
        "the AWS profile `{profile}` has `{property}`, which is not supported: let `credential_process` get the keys, \
         for example with `aws configure export-credentials --profile {profile}`"
    )]
    Unsupported {
        /// The profile.
        profile: String,
        /// What it has.
        property: &'static str,
    },
    /// A file exists and cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The files are no AWS configuration.
    #[error("the AWS configuration is malformed: {0}")]
    Syntax(String),
    /// The program that should give the keys could not be run.
    #[error("cannot run the profile's credential_process")]
    Process(#[source] io::Error),
    /// It failed.
    #[error("the profile's credential_process ended with {0}")]
    ProcessFailed(ExitStatus),
    /// It took more than [`TIME_LIMIT`].
    #[error("the profile's credential_process gave no answer within {} s", TIME_LIMIT.as_secs())]
    ProcessTimeout,
    /// Its answer is not what it should be.
    #[error("the answer of the profile's credential_process is malformed: {0}")]
    ProcessAnswer(&'static str),
}

/// Finds the identity that signs.
#[derive(Clone, Debug)]
pub struct Aws {
    env: Env,
    options: Options,
    region: String,
}

impl Aws {
    /// Settles the region. Nothing else is looked up yet.
    ///
    /// # Errors
    ///
    /// When there is no region, or a file cannot be used.
    pub async fn new(options: Options) -> Result<Self, AwsError> {
        Self::in_environment(options, Env::real()).await
    }

    async fn in_environment(options: Options, env: Env) -> Result<Self, AwsError> {
        let named = options.region.clone().filter(|region| !region.trim().is_empty());
        let named = named.or_else(|| REGION_VARIABLES.iter().find_map(|name| variable(&env, name)));
        let region = match named {
            Some(region) => region,
            None => {
                let files = Files::read(&env, options.profile.as_deref()).await?;
                let region = files.region();
                region.ok_or_else(|| AwsError::NoRegion(files.profile().to_owned()))?
            }
        };
        Ok(Self { env, options, region })
    }

    /// The identity of this moment.
    ///
    /// # Errors
    ///
    /// When there is none. What is wrong with files or programs may be mended meanwhile.
    pub async fn signer(&self) -> Result<SigV4, AwsError> {
        let keys = self.keys().await?;
        Ok(SigV4::new(&keys, self.region.clone(), self.options.service.clone()))
    }

    /// A profile that was asked for counts more than the environment, which counts more than the default profile.
    async fn keys(&self) -> Result<Keys, AwsError> {
        if self.options.profile.is_none()
            && let Some(keys) = &self.options.keys
        {
            return Ok(keys.clone());
        }
        let files = Files::read(&self.env, self.options.profile.as_deref()).await?;
        match files.source()? {
            Source::Keys(keys) => Ok(keys),
            Source::Process(command) => process::ask(&command).await,
        }
    }
}

/// The value of a variable; a blank one counts as unset.
fn variable(env: &Env, name: &str) -> Option<String> {
    env.get(name).ok().filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests;
