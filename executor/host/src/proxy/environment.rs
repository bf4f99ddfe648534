//! Variables by which programs find a proxy.

use std::ffi::OsString;
use std::net::SocketAddr;

/// Names that get the URL of the HTTP proxy, as stock executors set them.
const HTTP: [&str; 20] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "WS_PROXY",
    "WSS_PROXY",
    "ws_proxy",
    "wss_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "NPM_CONFIG_HTTP_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "npm_config_http_proxy",
    "npm_config_https_proxy",
    "npm_config_proxy",
    "BUNDLE_HTTP_PROXY",
    "BUNDLE_HTTPS_PROXY",
    "PIP_PROXY",
    "DOCKER_HTTP_PROXY",
];
/// One more.
const DOCKER_HTTPS: &str = "DOCKER_HTTPS_PROXY";
/// Names that get the URL of the SOCKS5 proxy if there is one.
const OTHER: [&str; 4] = ["ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"];
/// Names that get the list of what no proxy is asked for.
const EXCEPTIONS: [&str; 5] = [
    "NO_PROXY",
    "no_proxy",
    "npm_config_noproxy",
    "NPM_CONFIG_NOPROXY",
    "BUNDLE_NO_PROXY",
];
/// What no proxy is asked for when local addresses may be reached.
const LOCAL: &str = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";

/// The same for a program with a network of its own.
const LOOPBACK: &str = "localhost,127.0.0.1,::1";

/// Where the proxies of one program listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The HTTP proxy.
    pub http: SocketAddr,
    /// The SOCKS5 proxy.
    pub socks: Option<SocketAddr>,
}

/// How a program's own connections to local addresses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locally {
    /// Through the proxy, which lets none pass.
    Proxied,
    /// Directly.
    Direct,
    /// Directly to its own loopback, which is all that it reaches itself; to others through the proxy, which lets them pass.
    OwnLoopback,
}

/// The variables for a program; they replace its own.
pub fn variables(addresses: Addresses, locally: Locally) -> Vec<(OsString, OsString)> {
    let http = format!("http://{}", addresses.http);
    let other = addresses
        .socks
        .map_or_else(|| http.clone(), |socks| format!("socks5h://{socks}"));
    let exceptions = match locally {
        Locally::Proxied => "",
        Locally::Direct => LOCAL,
        Locally::OwnLoopback => LOOPBACK,
    };
    let flag = if locally == Locally::Proxied { "0" } else { "1" };
    let flags = [
        ("ELECTRON_GET_USE_PROXY", "true"),
        ("NODE_USE_ENV_PROXY", "1"),
        ("CODEX_NETWORK_PROXY_ACTIVE", "1"),
        ("CODEX_NETWORK_ALLOW_LOCAL_BINDING", flag),
    ];
    HTTP.iter()
        .chain([&DOCKER_HTTPS])
        .map(|name| (*name, http.as_str()))
        .chain(OTHER.map(|name| (name, other.as_str())))
        .chain(EXCEPTIONS.map(|name| (name, exceptions)))
        .chain(flags)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Lays variables over an environment.
pub fn overlay(environment: &mut Vec<(OsString, OsString)>, variables: Vec<(OsString, OsString)>) {
    environment.retain(|(name, _)| !variables.iter().any(|(other, _)| other == name));
    environment.extend(variables);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(variables: &[(OsString, OsString)], name: &str) -> String {
        let mut found = variables.iter().filter(|(own, _)| own == name);
        let value = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(found.next().is_none(), "{name} twice");
        value.1.clone().into_string().unwrap()
    }

    #[test]
    fn every_program_finds_its_proxy() {
        let http = "127.0.0.1:3128".parse().unwrap();
        let socks = Some("127.0.0.1:1080".parse().unwrap());
        let all = variables(Addresses { http, socks }, Locally::Proxied);
        assert_eq!(all.len(), 34);
        for name in ["HTTP_PROXY", "https_proxy", "npm_config_proxy", "DOCKER_HTTPS_PROXY"] {
            assert_eq!(value(&all, name), "http://127.0.0.1:3128");
        }
        assert_eq!(value(&all, "ALL_PROXY"), "socks5h://127.0.0.1:1080");
        assert_eq!(value(&all, "NO_PROXY"), "");
        assert_eq!(value(&all, "CODEX_NETWORK_ALLOW_LOCAL_BINDING"), "0");
        let local = variables(Addresses { http, socks: None }, Locally::Direct);
        assert_eq!(value(&local, "ftp_proxy"), "http://127.0.0.1:3128");
        assert!(value(&local, "no_proxy").contains("10.0.0.0/8"));
        assert_eq!(value(&local, "CODEX_NETWORK_ALLOW_LOCAL_BINDING"), "1");
        let inside = variables(Addresses { http, socks: None }, Locally::OwnLoopback);
        assert_eq!(value(&inside, "no_proxy"), LOOPBACK);
    }

    #[test]
    fn they_replace_the_programs_own() {
        let mut environment = vec![("HTTP_PROXY".into(), "mine".into()), ("A".into(), "1".into())];
        let http = "127.0.0.1:1".parse().unwrap();
        overlay(
            &mut environment,
            variables(Addresses { http, socks: None }, Locally::Proxied),
        );
        assert_eq!(value(&environment, "HTTP_PROXY"), "http://127.0.0.1:1");
        assert_eq!(value(&environment, "A"), "1");
    }
}
