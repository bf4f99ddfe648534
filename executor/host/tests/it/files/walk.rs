//! Walks through trees.

use rendezvous_host::files::WalkOptions;

use super::*;

fn options() -> WalkOptions {
    WalkOptions {
        max_depth: 6,
        max_directories: 2000,
        max_entries: 20_000,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    }
}

async fn walk(root: &Path, options: WalkOptions) -> (Vec<String>, bool, usize) {
    let walk = Files::default().walk(root.into(), options).await.expect("walk");
    let entries = walk
        .entries
        .iter()
        .map(|entry| {
            let path = entry.path.strip_prefix(root).expect("below the root").display();
            if entry.is_directory {
                format!("{path}/")
            } else {
                path.to_string()
            }
        })
        .collect();
    (entries, walk.is_truncated, walk.problems.len())
}

#[tokio::test]
async fn walks_breadth_first_within_its_limits() {
    let dir = tree();
    let root = dir.path();
    fs::create_dir_all(root.join("dir/b/c")).expect("directories");
    fs::create_dir(root.join(".hidden")).expect("directory");
    for name in ["dir/a", "dir/b/x", ".hidden/y"] {
        fs::write(root.join(name), "").expect("file");
    }
    symlink("..", root.join("dir/up")).expect("cycle");
    symlink("loop", root.join("loop")).expect("link");
    symlink("file/x", root.join("through-a-file")).expect("link");

    let all = [
        ".hidden/",
        "dir/",
        "file",
        ".hidden/y",
        "dir/a",
        "dir/b/",
        "dir/b/c/",
        "dir/b/x",
    ];
    assert_eq!(walk(root, options()).await, (all.map(String::from).to_vec(), false, 0));

    let pruned = WalkOptions {
        prune_hidden_directories: true,
        ..options()
    };
    let (entries, ..) = walk(root, pruned).await;
    assert!(entries.contains(&".hidden/".into()) && !entries.contains(&".hidden/y".into()));

    let following = WalkOptions {
        follow_directory_symlinks: true,
        ..options()
    };
    let (entries, truncated, problems) = walk(root, following).await;
    assert!(entries.contains(&"dirlink/".into()) && entries.contains(&"dir/up/".into()));
    assert_eq!(
        entries.iter().filter(|entry| entry.ends_with("/x")).count(),
        1,
        "each directory once: {entries:?}"
    );
    assert_eq!(
        (truncated, problems),
        (false, 0),
        "links that lead nowhere are no problem"
    );

    let shallow = WalkOptions {
        max_depth: 0,
        ..options()
    };
    assert_eq!(
        walk(root, shallow).await,
        ([".hidden/", "dir/", "file"].map(String::from).to_vec(), false, 0)
    );
    let one = WalkOptions {
        max_directories: 1,
        ..options()
    };
    let (entries, truncated, _) = walk(root, one).await;
    assert_eq!((entries.len(), truncated), (3, true));
    let few = WalkOptions {
        max_entries: 2,
        ..options()
    };
    let (entries, truncated, _) = walk(root, few).await;
    assert!(truncated && entries.len() <= 2);

    assert_eq!(walk(&root.join("file"), options()).await, (vec![], false, 0));
    assert_eq!(walk(&root.join("dirlink"), options()).await, (vec![], false, 0));
    let (entries, ..) = walk(&root.join("dirlink"), following).await;
    assert!(entries.contains(&"a".into()));
    let files = Files::default();
    failed(
        files.walk(root.join("missing"), options()).await,
        Fault::NotFound,
        "(os error 2)",
    );
    for nowhere in ["loop", "through-a-file"] {
        failed(files.walk(root.join(nowhere), options()).await, Fault::Host, "os error");
    }
    for wrong in [
        WalkOptions {
            max_directories: 0,
            ..options()
        },
        WalkOptions {
            max_entries: 0,
            ..options()
        },
    ] {
        failed(
            files.walk(root.into(), wrong).await,
            Fault::Request,
            "greater than zero",
        );
    }
    for wrong in [
        WalkOptions {
            max_depth: 65,
            ..options()
        },
        WalkOptions {
            max_directories: 10_001,
            ..options()
        },
        WalkOptions {
            max_entries: 50_001,
            ..options()
        },
    ] {
        failed(
            files.walk(root.into(), wrong).await,
            Fault::Request,
            "depth=64, directories=10000, entries=50000",
        );
    }
}

#[tokio::test]
async fn a_walk_has_a_byte_budget() {
    let dir = tempfile::tempdir().expect("directory");
    let name = "n".repeat(200);
    for n in 0..MAX_ENTRIES / 2 {
        fs::write(dir.path().join(format!("{name}{n}")), "").expect("file");
    }
    let wide = WalkOptions {
        max_entries: MAX_ENTRIES,
        ..options()
    };
    let (entries, truncated, _) = walk(dir.path(), wide).await;
    assert!(truncated && entries.len() < MAX_ENTRIES / 2);
    assert!(entries.len() > 4 * 1024 * 1024 / 400);
}
