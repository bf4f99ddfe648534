use super::*;

fn parse_at(text: &str, folder: &str) -> Result<Configured, EnvironmentError> {
    parse(text, &Path::new(folder).join("environments.toml"), ClearText::Loopback)
}

fn accept(text: &str) -> Configured {
    parse_at(text, "/home/me/.codex").unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn refuse(text: &str) -> EnvironmentError {
    parse_at(text, "/home/me/.codex").expect_err(text)
}

/// One environment with this id and these further lines.
fn entry(id: &str, lines: &str) -> String {
    format!("[[environments]]\nid = {id:?}\n{lines}\n")
}

const URL: &str = r#"url = "ws://127.0.0.1:1""#;

fn listener(text: &str) -> Listener {
    match accept(text).environments.into_values().next() {
        Some(Endpoint::Listener(listener)) => *listener,
        other => panic!("{other:?}"),
    }
}

fn program(text: &str) -> Program {
    match accept(text).environments.into_values().next() {
        Some(Endpoint::Program(program)) => *program,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_empty_file_leaves_this_machine() {
    let configured = accept("");
    assert!(configured.include_local && configured.environments.is_empty());
    assert_eq!(configured.default, Choice::Unsaid);
}

#[test]
fn a_listener_has_its_limits_and_its_token() {
    let plain = listener(&entry("a", r#"url = " wss://far.example:7000/x?y=1 ""#));
    assert_eq!(plain.url.expose(), "wss://far.example:7000/x?y=1");
    assert!(plain.bearer.is_none());
    assert_eq!(plain.connect_timeout, RELAY_CONNECT_TIMEOUT);
    assert_eq!(plain.initialize_timeout, INITIALIZE_TIMEOUT);
    let lines =
        format!("{URL}\nauth_bearer_token = \"secret\"\nconnect_timeout_sec = 2\ninitialize_timeout_sec = 0.25");
    let full = listener(&entry("a", &lines));
    assert_eq!(full.bearer.as_ref().unwrap().expose(), "secret");
    assert_eq!(full.connect_timeout, Duration::from_secs(2));
    assert_eq!(full.initialize_timeout, Duration::from_millis(250));
    assert!(!format!("{full:?}").contains("secret"));
    let blank = listener(&entry("a", &format!("{URL}\nauth_bearer_token = \"\"")));
    assert!(blank.bearer.is_none());
}

#[test]
fn a_program_starts_where_the_file_lies_when_its_folder_is_relative() {
    let lines = |cwd: &str| {
        format!(
            "program = \" ssh \"\nargs = [\"box\", \"x y\"]\nenv = {{ A = \"1\" }}\ncwd = {cwd:?}\ninitialize_timeout_sec = 30"
        )
    };
    let there = program(&entry("a", &lines("work")));
    assert_eq!(
        (there.program.as_str(), there.args.as_slice()),
        ("ssh", &["box".to_owned(), "x y".to_owned()][..])
    );
    assert_eq!(there.env["A"], "1");
    assert_eq!(there.cwd.as_deref(), Some(Path::new("/home/me/.codex/work")));
    assert_eq!(there.initialize_timeout, Duration::from_secs(30));
    assert_eq!(
        program(&entry("a", &lines("/srv"))).cwd.as_deref(),
        Some(Path::new("/srv"))
    );
    assert_eq!(program(&entry("a", "program = \"x\"")).cwd, None);
}

#[test]
fn defaults_name_what_is_there() {
    let with = |default: &str, rest: &str| format!("default = {default:?}\n{rest}{}", entry("a", URL));
    assert_eq!(accept(&with(" a ", "")).default, Choice::Named("a".to_owned()));
    assert_eq!(accept(&with("local", "")).default, Choice::Named("local".to_owned()));
    for none in ["none", "NONE"] {
        assert_eq!(accept(&with(none, "")).default, Choice::Nothing);
    }
    for text in [
        with("b", ""),
        with("", ""),
        with("LOCAL", ""),
        with("local", "include_local = false\n"),
    ] {
        assert!(matches!(refuse(&text), EnvironmentError::UnknownDefault(_)), "{text}");
    }
}

#[test]
fn ids_are_short_words_of_which_two_are_taken() {
    let longest = "a".repeat(64);
    for id in ["a", "A-b_9", "LOCAL", "remote", &longest] {
        accept(&entry(id, URL));
    }
    for id in ["", " a", "a.b", "ä", "local", "none", "None", &"a".repeat(65)] {
        assert!(matches!(refuse(&entry(id, URL)), EnvironmentError::Id { .. }), "{id}");
    }
    let twice = entry("a", URL) + &entry("a", "program = \"x\"");
    assert!(matches!(refuse(&twice), EnvironmentError::Duplicate(id) if id == "a"));
    accept(&(entry("a", URL) + &entry("A", URL)));
}

#[test]
fn an_entry_is_either_a_url_or_a_program() {
    for lines in [
        "",
        &format!("{URL}\nprogram = \"x\""),
        &format!("{URL}\nargs = []"),
        &format!("{URL}\nenv = {{}}"),
        &format!("{URL}\ncwd = \"/\""),
        "program = \" \"",
        "program = \"x\"\nconnect_timeout_sec = 1",
        "program = \"x\"\nauth_bearer_token = \"x\"",
        &format!("{URL}\nauth_bearer_token = \"x\\ny\""),
    ] {
        assert!(
            matches!(refuse(&entry("a", lines)), EnvironmentError::Entry { .. }),
            "{lines}"
        );
    }
}

#[test]
fn urls_are_looked_at() {
    for url in [
        "",
        "http://127.0.0.1:1",
        "WS://127.0.0.1:1",
        "ws://",
        "ws://exa mple/",
        "127.0.0.1:1",
    ] {
        let error = refuse(&entry("a", &format!("url = {url:?}")));
        assert!(matches!(error, EnvironmentError::Url { .. }), "{url}: {error}");
    }
    // What the dial will refuse is no fault of the file.
    for url in ["ws://far.example", "ws://u:p@127.0.0.1", "ws://127.0.0.1/#x"] {
        accept(&entry("a", &format!("url = {url:?}")));
    }
}

#[test]
fn a_token_goes_to_other_machines_encrypted_only() {
    let with = |url: &str| entry("a", &format!("url = {url:?}\nauth_bearer_token = \"t\""));
    for url in [
        "wss://far.example",
        "ws://localhost:1",
        "ws://[::1]:1",
        "ws://127.9.9.9",
    ] {
        accept(&with(url));
    }
    let error = refuse(&with("ws://far.example"));
    assert!(
        matches!(
            error,
            EnvironmentError::Url {
                error: UrlError::ClearText(_),
                ..
            }
        ),
        "{error}"
    );
    let path = Path::new("environments.toml");
    parse(&with("ws://far.example"), path, ClearText::Anywhere).unwrap();
}

#[test]
fn nothing_else_may_stand_in_the_file() {
    for text in [
        "foo = 1".to_owned(),
        "default = ".to_owned(),
        entry("a", &format!("{URL}\nfoo = 1")),
        format!("[[environments]]\n{URL}"),
        entry("a", "url = 1"),
        entry("a", "program = \"x\"\nenv = { A = 1 }"),
        entry("a", &format!("{URL}\nconnect_timeout_sec = -1")),
        entry("a", &format!("{URL}\nconnect_timeout_sec = nan")),
        entry("a", &format!("{URL}\nconnect_timeout_sec = 1e30")),
        entry("a", &format!("{URL}\nconnect_timeout_sec = \"1\"")),
        entry("a", &format!("{URL}\nskills = {{ foo = 1 }}")),
        entry("a", &format!("{URL}\nskills = {{ required = true }}")),
    ] {
        assert!(matches!(refuse(&text), EnvironmentError::Syntax { .. }), "{text}");
    }
    accept(&entry("a", &format!("{URL}\nskills = {{ required = [] }}")));
    let error = refuse(&entry("a", &format!("{URL}\nfoo = 1"))).to_string();
    assert!(error.contains("line 4: unknown field `foo`"), "{error}");
}

#[test]
fn environments_and_bytes_are_bounded() {
    let many = |count: usize| (0..count).map(|n| entry(&format!("e{n}"), URL)).collect::<String>();
    assert_eq!(accept(&many(MAX_ENVIRONMENTS)).environments.len(), MAX_ENVIRONMENTS);
    assert!(matches!(refuse(&many(MAX_ENVIRONMENTS + 1)), EnvironmentError::TooMany));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("environments.toml");
    let read = || read(&path, ClearText::Loopback);
    assert!(read().unwrap().is_none());
    std::os::unix::fs::symlink(folder.path().join("nothing"), &path).unwrap();
    assert!(read().unwrap().is_none(), "a link to nothing");
    std::fs::remove_file(&path).unwrap();
    let size = usize::try_from(MAX_FILE).unwrap();
    std::fs::write(&path, "#".repeat(size)).unwrap();
    assert!(read().unwrap().is_some());
    std::fs::write(&path, "#".repeat(size + 1)).unwrap();
    assert!(matches!(read(), Err(EnvironmentError::TooLarge(_))));
    std::fs::write(&path, b"default = \"\xff\"").unwrap();
    assert!(matches!(read(), Err(EnvironmentError::Read { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(read(), Err(EnvironmentError::Read { .. })), "a folder");
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    assert_eq!(
        accept("\u{feff}default = \"local\"").default,
        Choice::Named("local".to_owned())
    );
}
