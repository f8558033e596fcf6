//! Trees, heads and differences.

use std::fs;

use provost_git::inspect::{FileChangeKind, LineCounts};
use provost_git::{FileChange, GitHead, changed_among, diff_stat, files_at, read_head, tree_of};

use crate::test_env::{GitTestEnv, os, write};

#[test]
fn trees_are_found_by_any_name() {
    let env = GitTestEnv::new();
    let project = env.project();
    let tree = Some(env.rev("HEAD^{tree}"));
    assert_eq!(tree_of(&env.git, &project, "HEAD").unwrap(), tree);
    assert_eq!(tree_of(&env.git, &project, "main").unwrap(), tree);
    assert_eq!(tree_of(&env.git, &project, env.rev("HEAD").as_str()).unwrap(), tree);
    for name in ["nothing", "--all", "-h", &"0".repeat(40), ""] {
        assert_eq!(tree_of(&env.git, &project, name).unwrap(), None, "{name:?}");
    }
}

#[test]
fn diff_keeps_strange_file_names() {
    let env = GitTestEnv::new();
    let before = env.rev("HEAD");
    let names: [&[u8]; 5] = [b"-rf", b":colon", b"new\nline\ttab", b"raw-\xff\xfe", b"red\x1b[31m"];
    for name in names {
        fs::write(env.top().join(os(name)), "x\n").unwrap();
    }
    env.write("a.txt", "two\nthree\n");
    fs::remove_file(env.top().join(".gitignore")).unwrap();
    fs::write(env.top().join("blob"), b"\0\x01").unwrap();
    let after = env.commit_all("second");
    let changes = diff_stat(&env.git, &env.project(), &before, &after).unwrap();
    let paths: Vec<&[u8]> = changes.iter().map(|change| change.path.as_bytes()).collect();
    let mut wanted: Vec<&[u8]> =
        names.into_iter().chain([&b".gitignore"[..], b"a.txt", b"blob"]).collect();
    wanted.sort();
    assert_eq!(paths, wanted);
    let of = |name: &[u8]| -> &FileChange {
        changes.iter().find(|c| c.path.as_bytes() == name).unwrap()
    };
    assert_eq!(of(b"a.txt").kind, FileChangeKind::Modified);
    assert_eq!(of(b"a.txt").lines, Some(LineCounts { added: 2, removed: 1 }));
    assert_eq!(of(b".gitignore").kind, FileChangeKind::Deleted);
    assert_eq!(of(b"new\nline\ttab").lines, Some(LineCounts { added: 1, removed: 0 }));
    assert_eq!(of(b"blob").lines, None);
    assert_eq!(of(b"red\x1b[31m").path.to_string(), "red\\u{1b}[31m");
    assert!(diff_stat(&env.git, &env.project(), &after, &after).unwrap().is_empty());
}

/// One call reads all files, and content that looks like the header of another file stays content.
#[test]
fn files_of_a_commit_are_read_with_their_content() {
    let env = GitTestEnv::new();
    let wanted = [("x/1", &b""[..]), ("x/2", b"\n\n"), ("x/3", b"\0\xff"), ("x/4", b"\n\n")];
    fs::create_dir(env.top().join("x")).unwrap();
    for (name, content) in wanted {
        fs::write(env.top().join(name), content).unwrap();
    }
    let header = format!("{} blob 3\nabc\n", env.rev("HEAD"));
    env.write("x/5", &header);
    let commit = env.commit_all("files");
    let read = |wanted: fn(&str) -> bool| {
        files_at(&env.git, &env.project(), &commit, wanted).unwrap().map(|files| {
            files.into_iter().map(|file| (file.path, file.content)).collect::<Vec<_>>()
        })
    };
    let all = wanted.into_iter().chain([("x/5", header.as_bytes())]);
    let all = all.map(|(name, content)| (name.to_owned(), content.to_vec())).collect();
    assert_eq!(read(|path| path.starts_with("x/")), Some(all));
    assert_eq!(read(|_| false), Some(Vec::new()));
    std::os::unix::fs::symlink("1", env.top().join("x/link")).unwrap();
    let linked = env.commit_all("link");
    let found = files_at(&env.git, &env.project(), &linked, |path| path.starts_with("x/"));
    assert_eq!(found.unwrap(), None, "a link is not a file");
}

#[test]
fn replaced_object_is_ignored() {
    let env = GitTestEnv::new();
    let first = env.rev("HEAD");
    let tree = env.rev("HEAD^{tree}");
    env.write("a.txt", "evil\n");
    let second = env.commit_all("second");
    env.user(&env.top(), &["replace", first.as_str(), second.as_str()]);
    assert_eq!(tree_of(&env.git, &env.project(), first.as_str()).unwrap(), Some(tree));
}

#[test]
fn head_is_read_again_each_time() {
    let env = GitTestEnv::new();
    let project = env.project();
    env.user(&env.top(), &["checkout", "-q", "--detach"]);
    assert_eq!(
        read_head(&env.git, &project).unwrap(),
        GitHead::Detached { commit: env.rev("HEAD") }
    );
}

#[test]
fn changes_match_patterns_from_the_top() {
    let env = GitTestEnv::new();
    let before = env.rev("HEAD^{tree}");
    for file in ["tests/a.rs", "tests/deep/b.rs", "src/lib.rs", "ci.yml"] {
        write(&env.top().join(file), "new\n");
    }
    env.commit_all("second");
    let after = env.rev("HEAD^{tree}");
    let among = |patterns: &[&str]| -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        let found = changed_among(&env.git, &env.project(), &before, &after, &patterns);
        found.unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(among(&["tests"]), ["tests/a.rs", "tests/deep/b.rs"]);
    assert_eq!(among(&["tests/*.rs", "*.yml"]), ["ci.yml", "tests/a.rs"]);
    assert_eq!(among(&["**/b.rs"]), ["tests/deep/b.rs"]);
    assert!(among(&["docs/**", "a.txt"]).is_empty());
}
