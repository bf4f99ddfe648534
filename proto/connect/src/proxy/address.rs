//! A proxy's URL.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use rendezvous_wire::secret::Secret;
use url::Url;

use crate::connector::Target;

/// Longest URL that is looked at, in bytes.
pub const MAX_URL: usize = 8 * 1024;

/// Why a URL names no proxy that can be used.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyUrlError {
    /// It is no URL.
    #[error("not a valid URL: {0}")]
    Syntax(url::ParseError),
    /// Longer than [`MAX_URL`].
    #[error("URL is longer than {MAX_URL} bytes")]
    TooLong,
    /// A kind of proxy that is not spoken: SOCKS, for example.
    #[error("only HTTP proxies are supported")]
    Scheme,
    /// There is no host.
    #[error("URL names no host")]
    Host,
    /// User name or password have characters that HTTP cannot carry.
    #[error("its user name or password cannot be sent")]
    UserInfo,
}

/// A proxy that gives tunnels. [`fmt::Display`] shows it without user name and password.
#[derive(Clone)]
pub struct Proxy {
    target: Target,
    variable: &'static str,
    authorization: Option<Secret>,
}

impl Proxy {
    /// Reads `http://[USER:PASSWORD@]HOST[:PORT]`, also with `https`, or without scheme. User name and password may hold
    /// percent escapes; paths are ignored. `variable` is where the URL stands, for errors.
    ///
    /// # Errors
    ///
    /// Says what is wrong.
    pub fn parse(text: &str, variable: &'static str) -> Result<Self, ProxyUrlError> {
        if text.len() > MAX_URL {
            return Err(ProxyUrlError::TooLong);
        }
        let url = if text.contains("://") {
            Url::parse(text)
        } else {
            Url::parse(&format!("http://{text}"))
        };
        let url = url.map_err(ProxyUrlError::Syntax)?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(ProxyUrlError::Scheme),
        };
        let host = match url.host() {
            Some(host) if !host.to_string().is_empty() => host.to_owned(),
            _ => return Err(ProxyUrlError::Host),
        };
        let port = url.port_or_known_default().unwrap_or_default();
        Ok(Self {
            target: Target::new(host, port, tls),
            variable,
            authorization: authorization(&url)?,
        })
    }

    /// Where it is.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The value of `Proxy-Authorization`.
    pub(crate) fn authorization(&self) -> Option<&Secret> {
        self.authorization.as_ref()
    }

    /// The variable that names it.
    pub fn variable(&self) -> &'static str {
        self.variable
    }
}

fn authorization(url: &Url) -> Result<Option<Secret>, ProxyUrlError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let decode = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().ok()?.into_owned();
        (!text.contains(char::is_control)).then_some(text)
    };
    let user = decode(url.username()).filter(|user| !user.contains(':'));
    let user = user.ok_or(ProxyUrlError::UserInfo)?;
    let password = decode(url.password().unwrap_or_default()).ok_or(ProxyUrlError::UserInfo)?;
    let pair = STANDARD.encode(format!("{user}:{password}"));
    Ok(Some(Secret::new(format!("Basic {pair}"))))
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.target.is_tls() { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.target)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Proxy {
        Proxy::parse(text, "HTTPS_PROXY").expect(text)
    }

    fn authorization(text: &str) -> Option<String> {
        let proxy = parse(text);
        let value = proxy.authorization()?.expose();
        let pair = STANDARD.decode(value.strip_prefix("Basic ")?).ok()?;
        String::from_utf8(pair).ok()
    }

    #[test]
    fn urls_have_many_forms() {
        for (text, shown) in [
            ("http://p.example:3128", "http://p.example:3128"),
            ("http://p.example:3128/", "http://p.example:3128"),
            ("http://p.example", "http://p.example:80"),
            ("https://p.example", "https://p.example:443"),
            ("HTTP://P.example:80", "http://p.example:80"),
            ("p.example:3128", "http://p.example:3128"),
            ("p.example:80", "http://p.example:80"),
            ("p.example", "http://p.example:80"),
            ("192.0.2.1:8080", "http://192.0.2.1:8080"),
            ("http://[2001:db8::1]:8080", "http://[2001:db8::1]:8080"),
            ("user:secret@p.example:1", "http://p.example:1"),
        ] {
            assert_eq!(parse(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn user_and_password_are_decoded_and_not_shown() {
        for (text, pair) in [
            ("http://user:secret@p:1", "user:secret"),
            ("http://user@p:1", "user:"),
            ("http://:secret@p:1", ":secret"),
            ("http://us%40er:se%3Acr%2Fet%25@p:1", "us@er:se:cr/et%"),
            ("http://user:gr%C3%BCn@p:1", "user:grün"),
        ] {
            assert_eq!(authorization(text).as_deref(), Some(pair), "{text}");
            let proxy = parse(text);
            let shown = format!("{proxy} {proxy:?}");
            assert!(!shown.contains("user") && !shown.contains("secret"), "{shown}");
        }
        assert!(parse("http://p:1").authorization().is_none());
    }

    #[test]
    fn refuses_what_is_no_http_proxy() {
        for (text, error) in [
            ("socks5://p:1", ProxyUrlError::Scheme),
            ("ftp://p:1", ProxyUrlError::Scheme),
            ("http://", ProxyUrlError::Syntax(url::ParseError::EmptyHost)),
            ("http://p:99999", ProxyUrlError::Syntax(url::ParseError::InvalidPort)),
            ("http://a%3Ab:secret@p:1", ProxyUrlError::UserInfo),
            ("http://user:a%0Ab@p:1", ProxyUrlError::UserInfo),
            ("http://user:%FF@p:1", ProxyUrlError::UserInfo),
        ] {
            assert_eq!(Proxy::parse(text, "HTTPS_PROXY").expect_err(text), error, "{text}");
        }
        let long = format!("http://{}", "p".repeat(MAX_URL));
        assert_eq!(
            Proxy::parse(&long, "HTTPS_PROXY").expect_err("long"),
            ProxyUrlError::TooLong
        );
    }
}
