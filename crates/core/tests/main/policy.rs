//! The project's rules about approvals.

use provost_core::{
    policy::{Decision, Matcher, Policy, Rule, Ruling},
    request::Subject,
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

fn command(line: &str) -> Subject {
    Subject { command: Some(line.to_owned()), ..Subject::default() }
}

#[test]
fn a_permission_is_for_plain_words_only() {
    let policy = policy(&[(Decision::Allow, words("git status"))]);
    for line in
        ["git status", "git status --short", "/usr/bin/git status", "bash -lc 'git status -s'"]
    {
        assert!(matches!(policy.rule(&command(line)), Ruling::Allow(_)), "{line}");
    }
    for line in [
        "git",
        "git stash",
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

/// Files by their names and by where these lead.
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
