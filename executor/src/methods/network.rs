//! The proxy that a process is started with.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rendezvous_host::proxy::{Attached, INSIDE, Listeners, Locally, Mode, Proxy, Rules, overlay, variables};
use rendezvous_rpc::RpcError;
use rendezvous_rpc::method::network::{Permission, ProxyConfig, ProxyLaunch, ProxyMode};

use crate::session::Session;
use crate::session::policy::Client;

/// What a proxy is started with.
#[derive(Debug)]
pub(super) struct Launch {
    rules: Rules,
    socks: bool,
    allow_local: bool,
    patience: Option<Duration>,
}

/// Enforcement without anything to enforce. Stock executors start the process, which ends at once.
pub(super) fn no_proxy() -> RpcError {
    RpcError::invalid_params("enforceManagedNetwork with a sandbox needs networkProxy on this executor")
}

/// Enforcement without anything that enforces. Stock executors start the process all the same, with every way open.
pub(super) fn no_sandbox() -> RpcError {
    RpcError::invalid_params("enforceManagedNetwork needs a sandbox on this executor")
}

impl Launch {
    /// Reads what a client asks for.
    pub(super) fn new(launch: &ProxyLaunch) -> Result<Self, RpcError> {
        let proxy = &launch.proxy;
        if proxy.transparent_tcp {
            return Err(RpcError::invalid_params(
                "transparentTcp is not supported on this executor",
            ));
        }
        if !proxy.enabled {
            return Err(unusable(
                "executor-local network proxy launch requires an enabled proxy",
            ));
        }
        if launch.policy_decision_timeout_ms == Some(0) {
            return Err(RpcError::invalid_params(
                "network policy decision callback timeout must be nonzero",
            ));
        }
        Ok(Self {
            rules: rules(proxy)?,
            socks: proxy.enable_socks5,
            allow_local: proxy.allow_local_binding,
            patience: launch.policy_decision_timeout_ms.map(Duration::from_millis),
        })
    }

    /// Makes the proxy of a process and sets the variables by which it is found. `is_managed`: inside of its sandbox.
    pub(super) fn attach(
        self,
        session: &Session,
        process: &str,
        is_managed: bool,
        environment: &mut Vec<(OsString, OsString)>,
    ) -> Result<Attached, RpcError> {
        let client = Client {
            desk: Arc::clone(session.desk()),
            process: process.to_owned(),
            patience: self.patience,
        };
        let proxy = Proxy::new(self.rules, Arc::new(client), session.proxy_slots());
        let locally = match (self.allow_local, is_managed) {
            (false, _) => Locally::Proxied,
            (true, false) => Locally::Direct,
            (true, true) => Locally::OwnLoopback,
        };
        let (attached, mut addresses) = if is_managed {
            let socks = self.socks;
            (Attached::Inside { proxy, socks }, INSIDE)
        } else {
            let listeners = Listeners::bind(self.socks).map_err(not_started)?;
            let addresses = listeners.addresses().map_err(not_started)?;
            let serving = proxy.serve(listeners).map_err(not_started)?;
            (Attached::Serving(Arc::new(serving)), addresses)
        };
        addresses.socks = addresses.socks.filter(|_| self.socks);
        overlay(environment, variables(addresses, locally));
        Ok(attached)
    }
}

fn rules(proxy: &ProxyConfig) -> Result<Rules, RpcError> {
    let mode = match proxy.mode {
        ProxyMode::Limited => Mode::Limited,
        ProxyMode::Full => Mode::Full,
    };
    let mut rules = Rules::new(mode, proxy.allow_local_binding);
    for (pattern, permission) in proxy.domains.iter().flatten() {
        match permission {
            Permission::None => Ok(()),
            Permission::Allow => rules.allow(pattern),
            Permission::Deny => rules.deny(pattern),
        }
        .map_err(unusable)?;
    }
    Ok(rules)
}

fn unusable(error: impl std::fmt::Display) -> RpcError {
    RpcError::invalid_params(format!("invalid network proxy config: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn not_started(error: io::Error) -> RpcError {
    RpcError::internal(format!("network proxy not started: {error}"))
}
