use proptest::prelude::*;

use super::*;

fn uri(text: &str) -> PathUri {
    PathUri::parse(text).expect(text)
}

fn refused(text: &str) -> String {
    PathUri::parse(text).expect_err(text).to_string()
}

#[test]
fn normalises() {
    for (text, normal) in [
        ("FILE:/x", "file:///x"),
        ("file:///a/./b/../c", "file:///a/c"),
        ("file:///a/%2e/b/.%2E/c", "file:///a/c"),
        ("file:///../../x", "file:///x"),
        ("file://localhost/x", "file:///x"),
        ("file:///a b", "file:///a%20b"),
        ("file:///c:/x", "file:///C:/x"),
        ("file://server///c:/x", "file:///C:/x"),
        ("file://Server/share/f", "file://server/share/f"),
        ("file:///caf\u{e9}", "file:///caf%C3%A9"),
    ] {
        assert_eq!(uri(text).as_str(), normal);
    }
}

#[test]
fn refuses_with_the_texts_of_the_contract() {
    assert_eq!(refused("/etc"), "invalid URI: relative URL without a base");
    assert_eq!(refused("http://x/"), "unsupported path URI scheme `http`");
    assert_eq!(refused("file:///a?b"), "query parameters are not allowed in path URIs");
    assert_eq!(refused("file:///a#b"), "fragments are not allowed in path URIs");
    assert_eq!(
        refused("file:///a%00b"),
        format!("'file:///a%00b' is invalid on '{}'", OS)
    );
    let foreign = uri("file://server/share/f").to_posix().unwrap_err();
    assert_eq!(
        foreign.to_string(),
        format!("'file://server/share/f' is invalid on '{}'", OS)
    );
    assert!(uri("file:///C:/x").to_posix().is_err());
    assert!(uri("file:///x").to_windows().is_err());
}

#[test]
fn posix_bytes_round_trip() {
    for (native, text) in [
        (&b"/"[..], "file:///"),
        (b"/a b#?%", "file:///a%20b%23%3F%25"),
        (b"/\xff\xfe/x", "file:///%FF%FE/x"),
        (b"/a\\b", "file:///a%5Cb"),
        (b"/x/c:/y", "file:///x/c:/y"),
        (b"/C|/y", "file:///C%7C/y"),
    ] {
        let made = PathUri::from_posix(native).unwrap();
        assert_eq!(made.as_str(), text);
        assert_eq!(made.to_posix().unwrap(), native);
    }
    assert_eq!(uri("file:///a%2Fb").to_posix().unwrap(), b"/a/b");
    for (text, native) in [
        ("file:///a/b/", &b"/a/b"[..]),
        ("file:///a//", b"/a"),
        ("file:///", b"/"),
        ("file:////", b"/"),
    ] {
        assert_eq!(uri(text).to_posix().unwrap(), native, "{text}");
    }
    assert_eq!(PathUri::from_posix(b"//a/./b/../c/").unwrap().as_str(), "file:///a/c");
    assert_eq!(PathUri::from_posix(b"a"), Err(PathUriError::Relative));
    assert_eq!(PathUri::from_posix(b""), Err(PathUriError::Relative));
    assert_eq!(PathUri::from_posix(b"/a\0"), Err(PathUriError::Relative));
}

#[test]
fn a_posix_path_that_looks_like_a_drive_travels_whole() {
    let made = PathUri::from_posix(b"/c:/x").unwrap();
    assert_eq!(made.as_str(), "file:///%00/bad/path/L2M6L3g");
    assert!(made.is_opaque());
    assert_eq!(made.to_posix().unwrap(), b"/c:/x");
    assert_eq!((made.parent(), made.file_name()), (None, None));
    assert!(made.join(b"a").is_err());
    assert_eq!(uri(made.as_str()), made);
    for unneeded in [
        "file:///%00/bad/path/L2V0Yw",
        "file:///%00/bad/path/!!",
        "file:///%00/bad/path/YQ",
        "file:///%00/bad/path/",
    ] {
        assert!(uri(unneeded).to_posix().is_err(), "{unneeded}");
    }
}

#[test]
fn takes_posix_paths_apart_and_together() {
    let path = uri("file:///a/b%20c");
    assert_eq!(path.file_name().as_deref(), Some("b c"));
    assert_eq!(path.parent(), Some(uri("file:///a")));
    assert_eq!(uri("file:///a").parent(), Some(uri("file:///")));
    assert_eq!((uri("file:///").parent(), uri("file:///").file_name()), (None, None));
    assert_eq!(path.join(b"../x y").unwrap(), uri("file:///a/x%20y"));
    assert_eq!(path.join(b"../../../..").unwrap(), uri("file:///"));
    assert_eq!(path.join(b"/etc").unwrap(), uri("file:///etc"));
    assert_eq!(path.join(b"%2e").unwrap().to_posix().unwrap(), b"/a/b c/%2e");
    assert!(matches!(path.join(b"a\0"), Err(PathUriError::Join(_))));
}

#[test]
fn windows_paths() {
    for (native, text) in [
        (r"C:\", "file:///C:/"),
        (r"c:\a b\x", "file:///C:/a%20b/x"),
        (r"\\srv\share\f", "file://srv/share/f"),
    ] {
        let made = PathUri::from_windows(native).unwrap();
        assert_eq!(made.as_str(), text);
        assert_eq!(made.convention(), Convention::Windows);
        assert!(made.to_windows().unwrap().eq_ignore_ascii_case(native));
    }
    for broken in ["C:", "C:x", r"\x", "x", r"\\srv", "C:\\\0", r"\\localhost\share"] {
        assert!(PathUri::from_windows(broken).is_err(), "{broken}");
    }
    assert!(uri("file:///C:/a%5Cb").to_windows().is_err());
    let base = uri("file:///C:/a/b");
    assert_eq!(base.join(br"..\..\..\x").unwrap(), uri("file:///C:/x"));
    assert_eq!(base.join(br"..\..").unwrap(), uri("file:///C:/"));
    assert_eq!(base.join(br"\x").unwrap(), uri("file:///C:/x"));
    assert_eq!(base.join(br"D:\x").unwrap(), uri("file:///D:/x"));
    assert!(base.join(b"C:x").is_err());
    assert_eq!(base.parent(), Some(uri("file:///C:/a")));
    assert_eq!(uri("file:///C:/a").parent(), Some(uri("file:///C:/")));
    assert_eq!(uri("file:///C:/").parent(), None);
    let share = uri("file://srv/share/a");
    assert_eq!(share.join(br"..\..\..\b").unwrap(), uri("file://srv/share/b"));
    assert_eq!(share.parent(), Some(uri("file://srv/share")));
    assert_eq!(uri("file://srv/share").parent(), None);
}

proptest! {
    #[test]
    fn any_posix_path_round_trips(names in proptest::collection::vec(proptest::collection::vec(1_u8..=255, 1..6), 0..5)) {
        let mut native = Vec::new();
        for name in &names {
            let name: Vec<u8> = name.iter().map(|byte| if *byte == b'/' { b':' } else { *byte }).collect();
            if name == b"." || name == b".." {
                continue;
            }
            native.push(b'/');
            native.extend_from_slice(&name);
        }
        if native.is_empty() {
            native.push(b'/');
        }
        let made = PathUri::from_posix(&native).unwrap();
        prop_assert_eq!(made.to_posix().unwrap(), native);
        prop_assert_eq!(PathUri::parse(made.as_str()).unwrap(), made);
    }

    #[test]
    fn any_text_is_refused_or_stable(text in "(file:)?/{0,3}([a-zA-Z%.:|/\\\\?# ]|%2[eE]|%00|\\PC){0,12}") {
        if let Ok(parsed) = PathUri::parse(&text) {
            prop_assert_eq!(&PathUri::parse(parsed.as_str()).unwrap(), &parsed);
            let _ = (parsed.to_posix(), parsed.to_windows(), parsed.file_name());
            if let Some(parent) = parsed.parent() {
                prop_assert!(parent.as_str().len() < parsed.as_str().len());
            }
            let _ = parsed.join(b"../x");
        }
    }
}

#[test]
fn what_is_parsed_parses_to_itself() {
    for (text, normal) in [
        ("file://looca///c:/Users/x", "file:///C:/Users/x"),
        ("file:\re:\r../F/", "file:///E:/F/"),
        ("file:///a/\t../b", "file:///b"),
        ("file:///a/.\n./b", "file:///b"),
    ] {
        let uri = PathUri::parse(text).unwrap();
        assert_eq!(uri.as_str(), normal, "{text:?}");
        assert_eq!(PathUri::parse(uri.as_str()).unwrap(), uri);
    }
}
