//! The head of a request to the HTTP proxy, parsed as its server does.

#![no_main]

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Uri};
use libfuzzer_sys::fuzz_target;
use rendezvous_fuzz::again;
use rendezvous_host::proxy::{MAX_HEADERS, heads};

fuzz_target!(|data: &[u8]| {
    let Some((method, uri, mut headers)) = head(data) else {
        return;
    };
    let asked = heads::http_request(&method, &uri, &headers);
    if let Ok(target) = &asked {
        again(target);
        // What the header names is what is reached, or there is none.
        if method != Method::CONNECT
            && let Some(host) = headers.get(HOST)
        {
            let host = host.to_str().expect("an accepted host is text");
            let host = rendezvous_host::proxy::Target::parse(host, Some(80)).expect("an accepted host");
            assert_eq!(host, *target);
        }
    }

    let before = headers.clone();
    heads::pass_on(&mut headers);
    for name in [CONNECTION, TRANSFER_ENCODING] {
        assert!(!headers.contains_key(name));
    }
    assert_eq!(headers.get(HOST), before.get(HOST));
    // Two lengths are worse than none.
    if before.contains_key(TRANSFER_ENCODING) {
        assert!(!headers.contains_key(CONTENT_LENGTH));
    }
    assert!(
        headers
            .iter()
            .all(|(name, value)| before.get_all(name).iter().any(|old| old == value))
    );
    let once = headers.clone();
    heads::pass_on(&mut headers);
    assert_eq!(headers, once);
});

fn head(data: &[u8]) -> Option<(Method, Uri, HeaderMap)> {
    let mut parsed = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut parsed);
    if !request.parse(data).ok()?.is_complete() {
        return None;
    }
    let method = Method::from_bytes(request.method?.as_bytes()).ok()?;
    let uri = request.path?.parse().ok()?;
    let mut headers = HeaderMap::new();
    for header in request.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some((method, uri, headers))
}
