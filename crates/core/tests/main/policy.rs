//! The project's approval rules.

use proptest::prelude::*;
use provost_core::{
    policy::{self, Decision, Matcher, Policy, Rule, Ruling},
    request::{CommandLookup, ProgramLookup, Subject},
};

fn policy(rules: &[(Decision, Matcher)]) -> Policy {
    let rules = rules
        .iter()
        .map(|(decision, matches)| Rule { decision: *decision, matches: matches.clone() });
    Policy { rules: rules.collect(), ..Policy::default() }
}

fn words(text: &str) -> Matcher {
    Matcher::Command(text.split(' ').map(str::to_owned).collect())
}

/// A command in the session's worktree whose programs all resolve to files that the agent cannot write.
fn command(line: &str) -> Subject {
    let found = |word: String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        ProgramLookup { file: Some(format!("/usr/bin/{name}")), word, refused: None }
    };
    let programs = policy::programs(line).into_iter().map(found).collect();
    let lookup = Some(CommandLookup { in_worktree: true, programs });
    Subject { command: Some(line.to_owned()), lookup, ..Subject::default() }
}

#[test]
fn a_permission_is_for_plain_words_only() {
    let policy = policy(&[(Decision::Allow, words("git status"))]);
    for line in [
        "git status",
        "git status --short",
        "bash -lc 'git status -s'",
        "/bin/bash -c 'git status'",
    ] {
        assert!(matches!(policy.rule(&command(line)), Ruling::Allow(_)), "{line}");
    }
    for line in [
        "git",
        "git stash",
        "./git status",
        "/usr/bin/git status",
        "bash -c './git status'",
        "./bash -c 'git status'",
        "bin/sh -c 'git status'",
        "git -C . status",
        "mygit status",
        "git status; rm x",
        "git status && rm x",
        "git status | sh",
        "git status $(rm x)",
        "git status > x",
        "git status\nrm x",
        "bash -lc 'git status; rm x'",
        "bash -lc 'git status' 'x'",
        "bash git status",
        "A=1 git status",
        "git \"status",
        "",
    ] {
        assert_eq!(policy.rule(&command(line)), Ruling::Ask, "{line}");
    }
}

#[test]
fn a_refusal_looks_into_every_part() {
    let policy = policy(&[(Decision::Deny, words("rm -rf")), (Decision::Allow, words("echo"))]);
    for line in [
        "rm -rf x",
        "echo a; rm -rf x",
        "bash -lc 'cd x && /bin/rm -rf y'",
        "sudo rm -rf x",
        "echo $(rm -rf x)",
        "echo rm -rf",
    ] {
        assert!(matches!(policy.rule(&command(line)), Ruling::Deny(_)), "{line}");
    }
    assert!(matches!(policy.rule(&command("echo hello")), Ruling::Allow(_)));
}

#[test]
fn a_question_is_stronger_than_a_permission_and_a_refusal_stronger_than_both() {
    let rules = [
        (Decision::Deny, words("git push --force")),
        (Decision::Ask, words("git push")),
        (Decision::Allow, words("git")),
    ];
    let mut backwards = rules.clone();
    backwards.reverse();
    for policy in [policy(&rules), policy(&backwards)] {
        assert!(matches!(policy.rule(&command("git log")), Ruling::Allow(_)));
        assert_eq!(policy.rule(&command("git push origin")), Ruling::Ask);
        assert!(matches!(policy.rule(&command("git push --force")), Ruling::Deny(_)));
    }
}

#[test]
fn a_permission_for_one_file_is_none_for_another() {
    let policy = policy(&[(Decision::Allow, Matcher::Path("/srv/docs".to_owned()))]);
    let files = |paths: &[&str]| leading(paths, paths);
    assert!(matches!(policy.rule(&files(&["/srv/docs/a", "/srv/docs"])), Ruling::Allow(_)));
    for paths in [&["/srv/docs/a", "/etc/passwd"][..], &["/srv/docs2/a"], &["/srv/docs/../x"], &[]]
    {
        assert_eq!(policy.rule(&files(paths)), Ruling::Ask, "{paths:?}");
    }
}

/// A subject with these paths and their symlink targets.
fn leading(paths: &[&str], real: &[&str]) -> Subject {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Subject { paths: owned(paths), real_paths: owned(real), ..Subject::default() }
}

#[test]
fn a_path_is_allowed_by_its_name_and_its_place_and_refused_by_either() {
    let rule = |decision| policy(&[(decision, Matcher::Path("/srv/docs".to_owned()))]);
    let (inside, outside) = ("/srv/docs/a", "/etc/passwd");
    for (path, real) in [(inside, outside), (outside, inside)] {
        let subject = leading(&[path], &[real]);
        assert_eq!(rule(Decision::Allow).rule(&subject), Ruling::Ask, "{path} → {real}");
        assert!(matches!(rule(Decision::Deny).rule(&subject), Ruling::Deny(_)), "{path} → {real}");
    }
    assert_eq!(rule(Decision::Allow).rule(&leading(&[inside], &[])), Ruling::Ask, "unknown");
    let two = leading(&[inside, "/srv/docs/b"], &[inside, outside]);
    assert_eq!(rule(Decision::Allow).rule(&two), Ruling::Ask, "one of two leads elsewhere");
}

#[test]
fn a_host_is_named_alone_or_with_all_below_it() {
    let host = |text: &str| Subject { network: Some(text.to_owned()), ..Subject::default() };
    let exact = policy(&[(Decision::Allow, Matcher::Network("example.org".to_owned()))]);
    let below = policy(&[(Decision::Allow, Matcher::Network(".example.org".to_owned()))]);
    assert!(matches!(exact.rule(&host("example.org")), Ruling::Allow(_)));
    assert_eq!(exact.rule(&host("a.example.org")), Ruling::Ask);
    assert!(matches!(below.rule(&host("a.example.org")), Ruling::Allow(_)));
    assert_eq!(below.rule(&host("badexample.org")), Ruling::Ask);
}

#[test]
fn rules_of_an_unknown_version_settle_nothing() {
    let mut policy = policy(&[(Decision::Allow, words("ls"))]);
    policy.version = 2;
    assert_eq!(policy.rule(&command("ls")), Ruling::Ask);
}

#[test]
fn rules_are_moved_to_another_place_of_work_with_their_paths() {
    let path = |text: &str| Rule { decision: Decision::Deny, matches: Matcher::Path(text.into()) };
    let rules = ["/trees/0", "/trees/0/docs", "/trees/01", "/etc"].map(path).to_vec();
    let moved = Policy { rules, ..Policy::default() }.moved("/trees/0", "/trees/7");
    let expected = ["/trees/7", "/trees/7/docs", "/trees/01", "/etc"].map(path);
    assert_eq!(moved.rules, expected);
}

#[test]
fn a_path_is_allowed_only_by_a_rule_with_the_same_path() {
    let policy = policy(&[(Decision::Allow, words("/usr/bin/git status"))]);
    for line in ["/usr/bin/git status", "bash -c '/usr/bin/git status'"] {
        assert!(matches!(policy.rule(&command(line)), Ruling::Allow(_)), "{line}");
    }
    for line in
        ["git status", "/bin/git status", "/usr/bin/../bin/git status", "./usr/bin/git status"]
    {
        assert_eq!(policy.rule(&command(line)), Ruling::Ask, "{line}");
    }
    let relative = self::policy(&[(Decision::Allow, words("scripts/test"))]);
    assert_eq!(relative.rule(&command("scripts/test")), Ruling::Ask, "the agent can write it");
}

#[test]
fn a_command_is_allowed_only_with_what_was_found_on_disk() {
    let policy = policy(&[(Decision::Allow, words("git"))]);
    let asked = |change: fn(&mut CommandLookup)| {
        let mut subject = command("/bin/sh -c 'git status'");
        change(subject.lookup.as_mut().unwrap());
        policy.rule(&subject)
    };
    assert!(matches!(asked(|_| ()), Ruling::Allow(_)));
    assert_eq!(asked(|found| found.in_worktree = false), Ruling::Ask);
    assert_eq!(asked(|found| found.programs[0].file = None), Ruling::Ask, "the shell");
    assert_eq!(asked(|found| found.programs[1].file = None), Ruling::Ask, "the program");
    assert_eq!(asked(|found| found.programs.truncate(1)), Ruling::Ask);
    assert_eq!(asked(|found| found.programs[1].word = "ls".to_owned()), Ruling::Ask);
    let unknown = Subject { lookup: None, ..command("git status") };
    assert_eq!(policy.rule(&unknown), Ruling::Ask);
}

#[test]
fn a_refusal_is_not_evaded_by_what_stands_around_or_between() {
    let policy = policy(&[
        (Decision::Allow, words("git")),
        (Decision::Deny, words("git push")),
        (Decision::Ask, words("git tag --delete")),
    ]);
    for line in [
        "git push",
        "/usr/bin/git push",
        "./git push",
        "git -C x push",
        "git -C 'a b' push",
        "git -C \"a;b\" push",
        "git --git-dir=x -c a=b --no-pager push origin",
        "env A=b git push",
        "sudo -u me git push",
        "command git push",
        "bash -lc 'git -C \"a b\" push'",
        "true && git -C x push",
        "gi''t pu\\sh",
        "eval \"git push\"",
    ] {
        assert!(matches!(policy.rule(&command(line)), Ruling::Deny(_)), "{line}");
    }
    for line in ["git log push", "git commit -m x push", "git status"] {
        assert!(matches!(policy.rule(&command(line)), Ruling::Allow(_)), "{line}");
    }
    for line in ["git tag --delete v1", "git tag v1 --delete", "git -C x tag -v v1 --delete"] {
        assert_eq!(policy.rule(&command(line)), Ruling::Ask, "{line}");
    }
}

proptest! {
    #[test]
    fn a_rule_without_a_slash_never_allows_a_word_with_one(
        rule in "[a-z.]{1,4}( [a-z./-]{1,4}){0,2}",
        line in "[a-z./]{0,3}/[a-z./]{0,4}( [a-z./-]{1,4}){0,3}",
        shell in prop::option::of("(/bin/)?(ba|z|da)?sh"),
    ) {
        let words: Vec<&str> = rule.split(' ').collect();
        prop_assume!(!words[0].contains('/'));
        let policy = policy(&[(Decision::Allow, self::words(&rule))]);
        let line = shell.map_or_else(|| line.clone(), |shell| format!("{shell} -c '{line}'"));
        prop_assert_eq!(policy.rule(&command(&line)), Ruling::Ask);
    }
}
