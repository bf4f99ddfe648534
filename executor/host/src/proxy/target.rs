//! What the head of an HTTP request asks a proxy for. No IO.

use http::header::HOST;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, Method, Uri, header};

use super::host::Target;

/// Ports of the two schemes.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// A request that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A tunnel.
    Tunnel(Target),
    /// To be made again at a server.
    Forward(Target),
}

/// Reads method, target and `Host` of a request.
///
/// # Errors
///
/// A text for the program, whose fault it is.
pub(super) fn read(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<Request, &'static str> {
    let host = host_header(headers)?;
    if method == Method::CONNECT {
        let authority = uri.authority().ok_or("missing authority")?;
        let target = Target::parse(authority.as_str(), Some(HTTPS_PORT)).map_err(|_| "invalid authority")?;
        return Ok(Request::Tunnel(target));
    }
    match (uri.scheme(), uri.authority()) {
        (Some(scheme), Some(authority)) => {
            if *scheme != Scheme::HTTP {
                return Err("only http URLs can be forwarded; use CONNECT for others");
            }
            let target = Target::parse(authority.as_str(), Some(HTTP_PORT)).map_err(|_| "invalid authority")?;
            if host.is_some_and(|host| host != target) {
                return Err("Host header does not match request target");
            }
            Ok(Request::Forward(target))
        }
        (None, None) if uri.path().starts_with('/') => host.map(Request::Forward).ok_or("missing Host header"),
        _ => Err("invalid request target"),
    }
}

fn host_header(headers: &HeaderMap) -> Result<Option<Target>, &'static str> {
    let mut values = headers.get_all(HOST).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("multiple Host headers");
    }
    let text = value.to_str().map_err(|_| "invalid Host header")?;
    Target::parse(text, Some(HTTP_PORT))
        .map(Some)
        .map_err(|_| "invalid Host header")
}

/// Removes what is between two neighbours only, and not for the server or client behind.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    // The length is not that of the body then, and the encoding that overrules it is taken away below.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named {
        // Whoever names these would have us forward a request without them.
        if name != HOST && name != header::CONTENT_LENGTH {
            headers.remove(name);
        }
    }
    for name in [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::EXPECT,
    ] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, uri: &str, hosts: &[&str]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(
                HOST,
                http::HeaderValue::from_bytes(host.as_bytes()).map_err(|_| "no value")?,
            );
        }
        let uri = uri.parse::<Uri>().map_err(|_| "no URI")?;
        let request = read(&method.parse().map_err(|_| "no method")?, &uri, &headers)?;
        Ok(match request {
            Request::Tunnel(target) => format!("tunnel {}:{}", target.host, target.port),
            Request::Forward(target) => format!("forward {}:{}", target.host, target.port),
        })
    }

    #[test]
    fn every_form_of_a_target() {
        for (method, uri, hosts, expected) in [
            ("CONNECT", "pub.test:443", &["pub.test:443"][..], "tunnel pub.test:443"),
            ("CONNECT", "pub.test:22", &[], "tunnel pub.test:22"),
            ("CONNECT", "pub.test", &[], "tunnel pub.test:443"),
            ("CONNECT", "[::1]:443", &[], "tunnel ::1:443"),
            ("CONNECT", "127.1:443", &["other.test"], "tunnel 127.0.0.1:443"),
            ("GET", "http://PUB.test./x", &["pub.test"], "forward pub.test:80"),
            ("GET", "http://pub.test:81/", &["pub.test:81"], "forward pub.test:81"),
            ("GET", "http://pub.test", &[], "forward pub.test:80"),
            ("GET", "http://[::1]/", &["[::1]"], "forward ::1:80"),
            ("GET", "/x", &["pub.test:81"], "forward pub.test:81"),
        ] {
            assert_eq!(ask(method, uri, hosts).as_deref(), Ok(expected), "{method} {uri}");
        }
    }

    #[test]
    fn refuses_what_two_readers_could_understand_differently() {
        for (method, uri, hosts) in [
            ("GET", "http://pub.test/", &["other.test"][..]),
            ("GET", "http://pub.test/", &["pub.test:81"]),
            ("GET", "http://pub.test/", &["pub.test", "pub.test"]),
            ("GET", "http://pub.test/", &["pub.test@other.test"]),
            ("GET", "http://user@pub.test/", &[]),
            ("GET", "http://user:word@pub.test/", &[]),
            ("GET", "https://pub.test/", &["pub.test"]),
            ("GET", "ftp://pub.test/", &["pub.test"]),
            ("GET", "/x", &[]),
            ("GET", "/x", &["a b"]),
            ("OPTIONS", "*", &["pub.test"]),
            ("GET", "pub.test:80", &["pub.test"]),
            ("CONNECT", "user@pub.test:443", &[]),
            ("CONNECT", "pub.test:0", &[]),
            ("CONNECT", "http://pub.test:443", &["a", "b"]),
            ("CONNECT", "/", &["pub.test:443"]),
        ] {
            assert!(ask(method, uri, hosts).is_err(), "{method} {uri} {hosts:?}");
        }
    }

    #[test]
    fn a_length_does_not_outlive_the_encoding_that_overrules_it() {
        let mut headers = HeaderMap::new();
        headers.insert("transfer-encoding", "chunked".parse().unwrap());
        headers.insert("content-length", "2".parse().unwrap());
        remove_hop_by_hop(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn what_is_for_the_neighbour_stays_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own , host, content-length, b@d"),
            ("x-own", "1"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("keep-alive", "1"),
            ("te", "trailers"),
            ("upgrade", "x"),
            ("expect", "100-continue"),
            ("host", "pub.test"),
            ("content-length", "2"),
            ("x-other", "1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "x-other"]);
    }
}
