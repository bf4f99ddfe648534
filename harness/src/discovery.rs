//! Plugins, skills and configuration on the executor's machine.

use rendezvous_rpc::PathUri;
use rendezvous_rpc::method::capability::{CapabilityRoot, Discover, DiscoverParams};
pub use rendezvous_rpc::method::capability::{DiscoveredRoot, Plugin, Skill, TextFile};
pub use rendezvous_rpc::method::config::ReadConfigResult as Configuration;
pub use rendezvous_rpc::method::config::{ConfigLayer, ConfigLayers};
use rendezvous_rpc::method::config::{ReadConfig, ReadConfigParams};

use crate::client::Harness;
use crate::error::HarnessError;
use crate::session::Class;

impl Harness {
    /// Looks for plugins and skills below up to 128 directories. What goes wrong with one is told in its result, which
    /// stands in the place of its directory.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn discover(&self, directories: &[PathUri]) -> Result<Vec<DiscoveredRoot>, HarnessError> {
        let root = |(number, path): (usize, &PathUri)| CapabilityRoot {
            id: number.to_string(),
            path: path.clone(),
            sandbox: None,
        };
        let params = DiscoverParams {
            roots: directories.iter().enumerate().map(root).collect(),
        };
        Ok(self.call_as::<Discover>(&params, Class::Repeatable).await?.roots)
    }

    /// Reads chosen keys of the machine's configuration files and requirements, for an agent that works in `cwd`. A key
    /// is a path of TOML keys, such as `["mcp_servers"]`. Needs the capability `environmentConfigRead`.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn configuration(
        &self,
        cwd: &PathUri,
        config: Vec<Vec<String>>,
        requirements: Vec<Vec<String>>,
    ) -> Result<Configuration, HarnessError> {
        let params = ReadConfigParams {
            cwd: cwd.clone(),
            config_paths: config,
            requirements_paths: requirements,
        };
        self.call_as::<ReadConfig>(&params, Class::Repeatable).await
    }
}
