//! Which proxy leads to an address.
//!
//! The environment says it, in the variables that other tools read too, in lower or upper case; lower case comes first:
//!
//! * `HTTPS_PROXY` for `https` and `wss`, `HTTP_PROXY` for `http` and `ws`, `ALL_PROXY` for what neither names;
//! * `NO_PROXY` for hosts that are reached directly, and never by a proxy: `example.org` with all below it, addresses, nets
//!   (`10.0.0.0/8`), `*`; each may end with `:PORT`.
//!
//! A proxy is `http://[USER:PASSWORD@]HOST[:PORT]`, or `https://…` when it speaks TLS itself. It is asked for a tunnel
//! (`CONNECT`), for clear text too, and gives the host's name to nobody but the proxy's own resolver. Loopback is never
//! reached through a proxy: what may go there in clear text must not go elsewhere.

mod address;
mod exempt;
pub(crate) mod tunnel;

use std::fmt;

use url::Host;

pub use self::address::{MAX_URL, Proxy, ProxyUrlError};
use self::exempt::Exempt;
pub use self::exempt::MAX_ENTRIES;
pub use self::tunnel::{MAX_HEAD, TunnelError};
use crate::connector::Target;

/// Why a proxy that the environment names cannot be used. The text never repeats the URL, which may hold a password.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{variable} names no usable proxy: {error}; expected http://[USER:PASSWORD@]HOST[:PORT]")]
pub struct ProxyVariableError {
    /// The variable, as it is written.
    pub variable: &'static str,
    /// What is wrong.
    pub error: ProxyUrlError,
}

type Choice = Option<Result<Proxy, ProxyVariableError>>;

/// The proxies of this process.
///
/// What is wrong with a variable is told when it is needed: many environments name proxies of kinds that other programs
/// use.
#[derive(Clone, Default)]
pub struct Proxies {
    clear: Choice,
    tls: Choice,
    exempt: Exempt,
}

impl Proxies {
    /// No proxy, whatever the environment says.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the process's environment.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// Reads variables that `lookup` knows; a blank one counts as unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let find = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                let value = lookup(name)?;
                let value = value.trim();
                (!value.is_empty()).then(|| (*name, value.to_owned()))
            })
        };
        let proxy = |names: &[&'static str]| {
            find(names).map(|(variable, url)| {
                Proxy::parse(&url, variable).map_err(|error| ProxyVariableError { variable, error })
            })
        };
        // A web server hands the header `Proxy` of a request to its scripts as `HTTP_PROXY`.
        let is_script = lookup("REQUEST_METHOD").is_some();
        let clear = if is_script {
            ["http_proxy", "all_proxy", "ALL_PROXY"].as_slice()
        } else {
            ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].as_slice()
        };
        Self {
            clear: proxy(clear),
            tls: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            exempt: find(&["no_proxy", "NO_PROXY"]).map_or_else(Exempt::default, |(_, list)| Exempt::parse(&list)),
        }
    }

    /// The proxy that leads to a target; none if it is reached directly.
    ///
    /// # Errors
    ///
    /// The environment names one that cannot be used.
    pub fn of(&self, target: &Target) -> Result<Option<&Proxy>, ProxyVariableError> {
        let choice = if target.is_tls() { &self.tls } else { &self.clear };
        let Some(choice) = choice else {
            return Ok(None);
        };
        if is_loopback(target.host()) || self.exempt.covers(target.host(), target.port()) {
            return Ok(None);
        }
        choice.as_ref().map(Some).map_err(Clone::clone)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("clear", &self.clear)
            .field("tls", &self.tls)
            .field("exempt", &self.exempt)
            .finish()
    }
}

/// Whether the host is this machine by definition: 127.0.0.0/8, `::1` or `localhost`.
fn is_loopback(host: &Host<String>) -> bool {
    match host {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.to_canonical().is_loopback(),
        Host::Domain(name) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(set: &[(&str, &str)]) -> Proxies {
        Proxies::from_lookup(|name| {
            let found = set.iter().find(|(key, _)| *key == name)?;
            Some(found.1.to_owned())
        })
    }

    #[expect(clippy::unwrap_in_result, reason = "the URLs are the tests' own")]
    fn chosen(proxies: &Proxies, url: &str) -> Option<String> {
        let target = Target::of(&url.parse().expect(url)).expect(url);
        proxies.of(&target).expect(url).map(ToString::to_string)
    }

    #[test]
    fn the_scheme_chooses_the_variable() {
        let both = proxies(&[("HTTPS_PROXY", "http://s:1"), ("HTTP_PROXY", "http://c:2")]);
        for (url, proxy) in [
            ("https://a.example", "http://s:1"),
            ("wss://a.example", "http://s:1"),
            ("http://a.example", "http://c:2"),
            ("ws://a.example", "http://c:2"),
        ] {
            assert_eq!(chosen(&both, url).as_deref(), Some(proxy), "{url}");
        }
        let tls = proxies(&[("https_proxy", "http://s:1")]);
        assert_eq!(chosen(&tls, "http://a.example"), None);
        let all = proxies(&[("https_proxy", "http://s:1"), ("all_proxy", "http://x:3")]);
        assert_eq!(chosen(&all, "ws://a.example").as_deref(), Some("http://x:3"));
        assert_eq!(chosen(&all, "wss://a.example").as_deref(), Some("http://s:1"));
        assert_eq!(chosen(&Proxies::none(), "wss://a.example"), None);
    }

    #[test]
    fn lower_case_comes_first_and_blank_is_unset() {
        let both = proxies(&[("https_proxy", "http://low:1"), ("HTTPS_PROXY", "http://up:1")]);
        assert_eq!(chosen(&both, "https://a.example").as_deref(), Some("http://low:1"));
        let blank = proxies(&[("https_proxy", "  "), ("HTTPS_PROXY", "http://up:1")]);
        assert_eq!(chosen(&blank, "https://a.example").as_deref(), Some("http://up:1"));
        let scripts = proxies(&[("HTTP_PROXY", "http://evil:1"), ("REQUEST_METHOD", "GET")]);
        assert_eq!(chosen(&scripts, "http://a.example"), None);
    }

    #[test]
    fn exempt_hosts_and_loopback_are_reached_directly() {
        let some = proxies(&[("ALL_PROXY", "http://p:1"), ("NO_PROXY", "in.example, 10.0.0.0/8")]);
        for direct in [
            "https://in.example",
            "wss://relay.in.example:8443",
            "http://10.1.2.3",
            "http://localhost:8080",
            "ws://127.0.0.1:1",
            "ws://[::1]:1",
        ] {
            assert_eq!(chosen(&some, direct), None, "{direct}");
        }
        for through in ["https://out.example", "https://localhost.example", "http://11.1.2.3"] {
            assert!(chosen(&some, through).is_some(), "{through}");
        }
    }

    #[test]
    fn a_bad_variable_matters_only_when_it_is_needed() {
        let bad = proxies(&[("ALL_PROXY", "socks5://user:secret@p:1"), ("https_proxy", "http://p:1")]);
        assert!(chosen(&bad, "https://a.example").is_some());
        assert_eq!(chosen(&bad, "http://127.0.0.1"), None);
        let target = Target::of(&"http://a.example".parse().expect("URL")).expect("target");
        let error = bad.of(&target).expect_err("unusable").to_string();
        assert!(error.starts_with("ALL_PROXY names no usable proxy: "), "{error}");
        assert!(!format!("{error} {bad:?}").contains("secret"), "{error} {bad:?}");
    }
}
