use super::*;

fn intent(entries: &[(Place, Access)]) -> Intent {
    let entries = entries.iter().map(|(place, access)| Entry {
        place: place.clone(),
        access: *access,
        skip_missing: false,
    });
    Intent {
        profile: Profile::Managed {
            files: FileAccess::Restricted {
                entries: entries.collect(),
                glob_depth: None,
            },
            network: Network::Restricted,
        },
        cwd: Some("/w/here".into()),
        roots: vec!["/w".into(), "/v".into()],
        temporary: vec!["/var/t".into()],
    }
}

fn path(path: &str) -> Place {
    Place::Path(path.into())
}

fn rules(entries: &[(Place, Access)]) -> Rules {
    let policy = Policy::resolve(&intent(entries)).expect("a policy");
    match policy.files {
        Files::Restricted(rules) => rules,
        Files::Unrestricted => panic!("unrestricted"),
    }
}

fn listed(entries: &[(Place, Access)]) -> Vec<(String, Access)> {
    let rules = rules(entries);
    let listed = rules
        .paths
        .into_iter()
        .map(|(path, rule)| (path.display().to_string(), rule.access));
    listed.collect()
}

use Access::{Deny, Read, Write};

#[test]
fn places_become_paths() {
    let table: [(Place, &[&str]); 8] = [
        (Place::Root, &["/"]),
        (path("/a/./b//"), &["/a/b"]),
        (Place::SlashTmp, &["/tmp"]),
        (Place::TemporaryDirectories, &["/var/t"]),
        (Place::ProjectRoots(None), &["/v", "/w"]),
        (Place::ProjectRoots(Some("a/b".into())), &["/v/a/b", "/w/a/b"]),
        (Place::ProjectRoots(Some("".into())), &["/v", "/w"]),
        (Place::Minimal, &MINIMAL),
    ];
    for (place, expected) in table {
        let found: Vec<_> = listed(&[(place.clone(), Read)])
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(found, expected, "{place:?}");
    }
}

#[test]
fn the_most_specific_entry_wins() {
    let rules = rules(&[
        (Place::Root, Read),
        (path("/w"), Write),
        (path("/w/secret"), Deny),
        (path("/w/secret/open"), Read),
    ]);
    for (path, expected) in [
        ("/", Read),
        ("/wx", Read),
        ("/w", Write),
        ("/w/a/b", Write),
        ("/w/secret/x", Deny),
        ("/w/secret/open/x", Read),
        ("/w/.git/hooks", Read),
        ("/w/a/.git", Write),
    ] {
        assert_eq!(rules.access(Path::new(path)), Some(expected), "{path}");
    }
    assert_eq!(Rules::default().access(Path::new("/a")), None);
}

#[test]
fn on_one_path_deny_beats_write_beats_read() {
    for (entries, expected) in [
        ([Read, Write], Write),
        ([Write, Read], Write),
        ([Deny, Write], Deny),
        ([Write, Deny], Deny),
        ([Read, Deny], Deny),
    ] {
        let rules = rules(&entries.map(|access| (path("/etc"), access)));
        assert_eq!(rules.access(Path::new("/etc")), Some(expected), "{entries:?}");
    }
}

#[test]
fn writable_folders_keep_what_others_act_on() {
    let found = listed(&[
        (Place::ProjectRoots(None), Write),
        (path("/w/.git"), Write),
        (path("/v/.aws"), Deny),
    ]);
    let expect = [
        ("/v", Write),
        ("/v/.agents", Read),
        ("/v/.aws", Deny),
        ("/v/.codex", Read),
        ("/v/.git", Read),
        ("/w", Write),
        ("/w/.agents", Read),
        ("/w/.aws", Read),
        ("/w/.codex", Read),
        ("/w/.git", Write),
    ];
    assert_eq!(found, expect.map(|(path, access)| (path.to_owned(), access)));
    assert_eq!(listed(&[(Place::Root, Write)]), [("/".to_owned(), Write)]);
}

#[test]
fn a_protected_name_must_stay_missing_whatever_the_entry_says() {
    let mut intent = intent(&[(path("/w"), Write), (path("/w/.git"), Read), (path("/w/x"), Read)]);
    let Profile::Managed {
        files: FileAccess::Restricted { entries, .. },
        ..
    } = &mut intent.profile
    else {
        panic!("restricted");
    };
    entries.iter_mut().for_each(|entry| entry.skip_missing = true);
    let Files::Restricted(rules) = Policy::resolve(&intent).expect("a policy").files else {
        panic!("restricted");
    };
    assert_eq!(rules.paths[Path::new("/w/.git")].missing, Missing::PreventInPlace);
    assert_eq!(rules.paths[Path::new("/w/x")].missing, Missing::Skip);
}

#[test]
fn an_empty_list_of_roots_stays_empty() {
    let mut intent = intent(&[(Place::ProjectRoots(None), Write)]);
    intent.roots.clear();
    let policy = Policy::resolve(&intent).expect("a policy");
    assert_eq!(policy.files, Files::Restricted(Rules::default()));
}

#[test]
fn patterns_have_a_base_and_a_depth() {
    for (pattern, base, glob) in [
        ("**/*.env", "/w/here", "/w/here/**/*.env"),
        ("sub/*.key", "/w/here/sub", "/w/here/sub/*.key"),
        ("/etc/ssl/**", "/etc/ssl", "/etc/ssl/**"),
        ("/etc/shadow", "/etc", "/etc/shadow"),
        ("*", "/w/here", "/w/here/*"),
    ] {
        let rules = rules(&[(Place::Pattern(pattern.into()), Deny)]);
        let expected = Pattern {
            base: base.into(),
            glob: glob.into(),
            depth: DEFAULT_GLOB_DEPTH,
        };
        assert_eq!(rules.patterns, [expected], "{pattern}");
    }
}

#[test]
fn a_working_directory_is_no_pattern() {
    let mut intent = intent(&[(Place::Pattern("*.env".into()), Deny)]);
    intent.cwd = Some("/w/[x]*".into());
    let Files::Restricted(rules) = Policy::resolve(&intent).expect("a policy").files else {
        panic!("restricted");
    };
    assert_eq!(rules.patterns[0].glob, "/w/\\[x\\]\\*/*.env");
}

#[test]
fn what_cannot_be_enforced_is_refused() {
    for (place, access) in [
        (Place::Unknown(":future".into()), Read),
        (Place::Pattern("*.env".into()), Read),
        (Place::Pattern("../*.env".into()), Deny),
        (Place::ProjectRoots(Some("../x".into())), Read),
        (Place::ProjectRoots(Some("/x".into())), Read),
        (path("relative"), Read),
        (path("/a/../b"), Read),
    ] {
        let refused = Policy::resolve(&intent(&[(place.clone(), access)]));
        assert!(
            matches!(refused, Err(SandboxError::Invalid(_))),
            "{place:?}: {refused:?}"
        );
    }
    let many = vec![(path("/a"), Read); MAX_ENTRIES + 1];
    assert!(matches!(Policy::resolve(&intent(&many)), Err(SandboxError::Invalid(_))));
    let mut homeless = intent(&[(Place::Pattern("*.env".into()), Deny)]);
    homeless.cwd = None;
    assert!(matches!(Policy::resolve(&homeless), Err(SandboxError::NoCwd)));
}

#[test]
fn a_policy_knows_what_it_leaves_open() {
    let check = |entries: &[(Place, Access)], writes, reads| {
        let policy = Policy::resolve(&intent(entries)).expect("a policy");
        assert_eq!(
            (policy.writes_everything(), policy.reads_everything()),
            (writes, reads),
            "{entries:?}"
        );
        assert!(!policy.is_open(), "the network is restricted");
    };
    check(&[(Place::Root, Write)], true, true);
    check(&[(Place::Root, Write), (path("/tmp"), Write)], false, true);
    check(&[(Place::Root, Write), (path("/x"), Read)], false, true);
    check(&[(Place::Root, Write), (path("/x"), Deny)], false, false);
    check(&[(Place::Root, Read), (path("/x"), Write)], false, true);
    check(&[(Place::Root, Read), (Place::Pattern("*".into()), Deny)], false, false);
    check(&[(path("/x"), Write)], false, false);
    check(&[], false, false);
    let open = |profile| {
        let intent = Intent { profile, ..intent(&[]) };
        Policy::resolve(&intent).expect("a policy").is_open()
    };
    assert!(open(Profile::Disabled));
    assert!(open(Profile::External {
        network: Network::Enabled
    }));
    assert!(!open(Profile::External {
        network: Network::Restricted
    }));
    assert!(open(Profile::Managed {
        files: FileAccess::Unrestricted,
        network: Network::Enabled
    }));
}
