//! Which URLs may be called.
//!
//! Every call carries a secret: a bearer token to the registry, a ticket inside the relay's URL. So clear text goes to
//! loopback only, unless the user says otherwise.

use std::fmt;

use rendezvous_wire::secret::Secret;
use url::{Host, Url};

/// Longest URL that is looked at, in bytes.
pub const MAX_URL: usize = 8 * 1024;

/// Where clear text (`http`, `ws`) may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClearText {
    /// To this machine.
    #[default]
    Loopback,
    /// Anywhere: `--allow-insecure`.
    Anywhere,
}

impl ClearText {
    /// [`Self::Anywhere`] if `allow` is set.
    pub fn allow_insecure(allow: bool) -> Self {
        if allow { Self::Anywhere } else { Self::Loopback }
    }
}

/// Why a URL is not called. The text never repeats the URL, which may hold a secret.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// It is no URL.
    #[error("not a valid URL: {0}")]
    Syntax(url::ParseError),
    /// Longer than [`MAX_URL`].
    #[error("URL is longer than {MAX_URL} bytes")]
    TooLong,
    /// Another scheme.
    #[error("URL must begin with {0}")]
    Scheme(&'static str),
    /// There is no host.
    #[error("URL names no host")]
    Host,
    /// User name or password.
    #[error("URL must not contain a user name or password")]
    UserInfo,
    /// A query.
    #[error("URL must not contain a query (`?`)")]
    Query,
    /// A fragment.
    #[error("URL must not contain a fragment (`#`)")]
    Fragment,
    /// Clear text to another machine.
    #[error("refusing to send a secret unencrypted to another machine; use {0}, or --allow-insecure")]
    ClearText(&'static str),
}

/// The checked base URL of a registry: `http` or `https`, perhaps with a path prefix.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryUrl {
    /// Without a trailing `/`.
    base: String,
    tls: bool,
}

impl RegistryUrl {
    /// Checks a base URL. White space around it and trailing slashes are dropped, a path is kept.
    ///
    /// # Errors
    ///
    /// Says what must change.
    pub fn parse(text: &str, clear_text: ClearText) -> Result<Self, UrlError> {
        let url = parse(text.trim(), ["http", "https"], "http:// or https://")?;
        if url.query().is_some() {
            return Err(UrlError::Query);
        }
        if url.fragment().is_some() {
            return Err(UrlError::Fragment);
        }
        let tls = url.scheme() == "https";
        check_clear_text(&url, tls, clear_text, "https")?;
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            tls,
        })
    }

    /// The URL of `path`, which has no leading `/`.
    pub fn join(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    /// Whether it is `https`.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The text, without a trailing `/`.
    pub fn as_str(&self) -> &str {
        &self.base
    }
}

impl fmt::Display for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

impl fmt::Debug for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.base, f)
    }
}

/// Checks the URL of a relay connection, `ws` or `wss`, which a registry gave.
///
/// # Errors
///
/// Says what is wrong; the registry is at fault, or the user has to allow clear text.
pub fn relay_url(url: &Secret, clear_text: ClearText) -> Result<Url, UrlError> {
    let url = parse(url.expose(), ["ws", "wss"], "ws:// or wss://")?;
    if url.fragment().is_some() {
        return Err(UrlError::Fragment);
    }
    check_clear_text(&url, url.scheme() == "wss", clear_text, "wss")?;
    Ok(url)
}

fn parse(text: &str, schemes: [&str; 2], expected: &'static str) -> Result<Url, UrlError> {
    if text.len() > MAX_URL {
        return Err(UrlError::TooLong);
    }
    let url = Url::parse(text).map_err(UrlError::Syntax)?;
    if !schemes.contains(&url.scheme()) {
        return Err(UrlError::Scheme(expected));
    }
    if !url.has_host() {
        return Err(UrlError::Host);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlError::UserInfo);
    }
    Ok(url)
}

fn check_clear_text(url: &Url, tls: bool, clear_text: ClearText, secure: &'static str) -> Result<(), UrlError> {
    if tls || clear_text == ClearText::Anywhere || is_loopback(url) {
        Ok(())
    } else {
        Err(UrlError::ClearText(secure))
    }
}

/// Whether the host is this machine by definition: 127.0.0.0/8, `::1` or `localhost`.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(text: &str) -> Result<String, UrlError> {
        RegistryUrl::parse(text, ClearText::Loopback).map(|url| url.join("x"))
    }

    #[test]
    fn keeps_the_prefix_and_trims_the_slash() {
        for (text, joined) in [
            ("https://a.example", "https://a.example/x"),
            (" https://a.example/v1/api// ", "https://a.example/v1/api/x"),
            ("https://a.example:8443/v1", "https://a.example:8443/v1/x"),
            ("HTTP://LOCALHOST:1", "http://localhost:1/x"),
            ("http://127.3.2.1", "http://127.3.2.1/x"),
            ("http://[::1]:2/", "http://[::1]:2/x"),
        ] {
            assert_eq!(registry(text).as_deref(), Ok(joined), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_base() {
        for (text, error) in [
            ("", UrlError::Syntax(url::ParseError::RelativeUrlWithoutBase)),
            ("a.example", UrlError::Syntax(url::ParseError::RelativeUrlWithoutBase)),
            ("https://", UrlError::Syntax(url::ParseError::EmptyHost)),
            ("ftp://a.example", UrlError::Scheme("http:// or https://")),
            ("wss://a.example", UrlError::Scheme("http:// or https://")),
            ("unix:/run/x", UrlError::Scheme("http:// or https://")),
            ("https://user@a.example", UrlError::UserInfo),
            ("https://:secret@a.example", UrlError::UserInfo),
            ("https://a.example?x", UrlError::Query),
            ("https://a.example/#x", UrlError::Fragment),
        ] {
            assert_eq!(registry(text), Err(error), "{text}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_URL));
        assert_eq!(registry(&long), Err(UrlError::TooLong));
    }

    #[test]
    fn clear_text_goes_to_loopback_only() {
        for text in [
            "http://a.example",
            "http://10.0.0.1",
            "http://localhost.example",
            "http://127.0.0.1.example",
            "http://[::2]",
            "http://0.0.0.0",
        ] {
            assert_eq!(registry(text), Err(UrlError::ClearText("https")), "{text}");
            RegistryUrl::parse(text, ClearText::Anywhere).expect(text);
        }
        let relay = |text: &str, clear_text| relay_url(&Secret::new(text), clear_text).map(drop);
        let far = "ws://a.example/relay/e?ticket=secret";
        assert_eq!(relay(far, ClearText::Loopback), Err(UrlError::ClearText("wss")));
        assert_eq!(relay(far, ClearText::Anywhere), Ok(()));
        assert_eq!(relay("wss://a.example/r?ticket=x", ClearText::Loopback), Ok(()));
        assert_eq!(relay("ws://127.0.0.1:1/r?ticket=x", ClearText::Loopback), Ok(()));
        assert_eq!(
            relay("https://a.example/r", ClearText::Loopback),
            Err(UrlError::Scheme("ws:// or wss://"))
        );
    }
}
