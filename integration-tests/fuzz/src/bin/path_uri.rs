//! Path URIs: what is accepted is normal, and the way to a native path and back changes nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rendezvous_rpc::PathUri;

fuzz_target!(|data: &[u8]| {
    if let Ok(native) = PathUri::from_posix(data) {
        let path = native.to_posix().expect("made from a POSIX path");
        assert!(path.starts_with(b"/") && !path.contains(&0));
        assert_eq!(PathUri::from_posix(&path).expect("the same path"), native);
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (text, relative) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(uri) = PathUri::parse(text) else {
        return;
    };
    assert_eq!(
        PathUri::parse(uri.as_str()).expect("normal text parses"),
        uri,
        "normal is a fixed point"
    );
    if let Ok(path) = uri.to_posix() {
        assert!(path.starts_with(b"/") && !path.contains(&0), "{path:?}");
    }
    let _ = uri.to_windows();
    let _ = uri.file_name();
    if let Some(parent) = uri.parent() {
        assert!(parent.as_str().len() <= uri.as_str().len());
    }
    if let Ok(joined) = uri.join(relative.as_bytes()) {
        assert_eq!(joined.convention(), uri.convention(), "a join stays on its system");
    }
});
