//! The project's approval rules.

use proptest::prelude::*;
use provost_core::{
    policy::{self, Matcher, Policy, PolicyRule, RuleDecision, Ruling},
    request::{ApprovalSubject, CommandLookup, ProgramLookup},
};

fn policy(rules: &[(RuleDecision, Matcher)]) -> Policy {
    let rules = rules
        .iter()
        .map(|(decision, matches)| PolicyRule { decision: *decision, matches: matches.clone() });
    Policy { rules: rules.collect(), ..Policy::default() }
}

fn command_rule(text: &str) -> Matcher {
    Matcher::Command(text.split(' ').map(str::to_owned).collect())
}

/// A command in the session's worktree whose programs all resolve to files that the agent cannot write.
fn command(line: &str) -> ApprovalSubject {
    let found = |word: String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        ProgramLookup { file: Some(format!("/usr/bin/{name}")), word, refused: None }
    };
    let programs = policy::programs(line).into_iter().map(found).collect();
    let lookup = Some(CommandLookup { in_worktree: true, programs });
    ApprovalSubject { command: Some(line.to_owned()), lookup, ..ApprovalSubject::default() }
}

#[test]
fn allow_matches_plain_words_only() {
    let policy = policy(&[(RuleDecision::Allow, command_rule("git status"))]);
    for line in [
        "git status",
        "git status --short",
        "bash -lc 'git status -s'",
        "/bin/bash -c 'git status'",
    ] {
        assert!(matches!(policy.evaluate(&command(line)), Ruling::Allow(_)), "{line}");
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
        assert_eq!(policy.evaluate(&command(line)), Ruling::Ask, "{line}");
    }
}

#[test]
fn deny_matches_any_part_of_a_command() {
    let policy = policy(&[
        (RuleDecision::Deny, command_rule("rm -rf")),
        (RuleDecision::Allow, command_rule("echo")),
    ]);
    for line in [
        "rm -rf x",
        "echo a; rm -rf x",
        "bash -lc 'cd x && /bin/rm -rf y'",
        "sudo rm -rf x",
        "echo $(rm -rf x)",
        "echo rm -rf",
    ] {
        assert!(matches!(policy.evaluate(&command(line)), Ruling::Deny(_)), "{line}");
    }
    assert!(matches!(policy.evaluate(&command("echo hello")), Ruling::Allow(_)));
}

#[test]
fn deny_beats_ask_beats_allow() {
    let rules = [
        (RuleDecision::Deny, command_rule("git push --force")),
        (RuleDecision::Ask, command_rule("git push")),
        (RuleDecision::Allow, command_rule("git")),
    ];
    let mut backwards = rules.clone();
    backwards.reverse();
    for policy in [policy(&rules), policy(&backwards)] {
        assert!(matches!(policy.evaluate(&command("git log")), Ruling::Allow(_)));
        assert_eq!(policy.evaluate(&command("git push origin")), Ruling::Ask);
        assert!(matches!(policy.evaluate(&command("git push --force")), Ruling::Deny(_)));
    }
}

#[test]
fn path_allow_needs_every_path_inside() {
    let policy = policy(&[(RuleDecision::Allow, Matcher::Path("/srv/docs".to_owned()))]);
    let files = |paths: &[&str]| path_subject(paths, paths);
    assert!(matches!(policy.evaluate(&files(&["/srv/docs/a", "/srv/docs"])), Ruling::Allow(_)));
    for paths in [&["/srv/docs/a", "/etc/passwd"][..], &["/srv/docs2/a"], &["/srv/docs/../x"], &[]]
    {
        assert_eq!(policy.evaluate(&files(paths)), Ruling::Ask, "{paths:?}");
    }
}

/// A subject with these paths and their symlink targets.
fn path_subject(paths: &[&str], real: &[&str]) -> ApprovalSubject {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    ApprovalSubject { paths: owned(paths), real_paths: owned(real), ..ApprovalSubject::default() }
}

#[test]
fn path_allow_needs_name_and_target_deny_either() {
    let rule = |decision| policy(&[(decision, Matcher::Path("/srv/docs".to_owned()))]);
    let (inside, outside) = ("/srv/docs/a", "/etc/passwd");
    for (path, real) in [(inside, outside), (outside, inside)] {
        let subject = path_subject(&[path], &[real]);
        assert_eq!(rule(RuleDecision::Allow).evaluate(&subject), Ruling::Ask, "{path} → {real}");
        assert!(
            matches!(rule(RuleDecision::Deny).evaluate(&subject), Ruling::Deny(_)),
            "{path} → {real}"
        );
    }
    assert_eq!(
        rule(RuleDecision::Allow).evaluate(&path_subject(&[inside], &[])),
        Ruling::Ask,
        "unknown"
    );
    let two = path_subject(&[inside, "/srv/docs/b"], &[inside, outside]);
    assert_eq!(rule(RuleDecision::Allow).evaluate(&two), Ruling::Ask, "one of two leads elsewhere");
}

#[test]
fn host_rule_matches_exactly_or_subdomains() {
    let host = |text: &str| ApprovalSubject {
        network: Some(text.to_owned()),
        ..ApprovalSubject::default()
    };
    let exact = policy(&[(RuleDecision::Allow, Matcher::Network("example.org".to_owned()))]);
    let below = policy(&[(RuleDecision::Allow, Matcher::Network(".example.org".to_owned()))]);
    assert!(matches!(exact.evaluate(&host("example.org")), Ruling::Allow(_)));
    assert_eq!(exact.evaluate(&host("a.example.org")), Ruling::Ask);
    assert!(matches!(below.evaluate(&host("a.example.org")), Ruling::Allow(_)));
    assert_eq!(below.evaluate(&host("badexample.org")), Ruling::Ask);
}

#[test]
fn unknown_policy_version_always_asks() {
    let mut policy = policy(&[(RuleDecision::Allow, command_rule("ls"))]);
    policy.version = 2;
    assert_eq!(policy.evaluate(&command("ls")), Ruling::Ask);
}

#[test]
fn rules_move_to_another_worktree() {
    let path = |text: &str| PolicyRule {
        decision: RuleDecision::Deny,
        matches: Matcher::Path(text.into()),
    };
    let rules = ["/trees/0", "/trees/0/docs", "/trees/01", "/etc"].map(path).to_vec();
    let moved = Policy { rules, ..Policy::default() }.relocated("/trees/0", "/trees/7");
    let expected = ["/trees/7", "/trees/7/docs", "/trees/01", "/etc"].map(path);
    assert_eq!(moved.rules, expected);
}

#[test]
fn program_path_needs_rule_with_same_path() {
    let policy = policy(&[(RuleDecision::Allow, command_rule("/usr/bin/git status"))]);
    for line in ["/usr/bin/git status", "bash -c '/usr/bin/git status'"] {
        assert!(matches!(policy.evaluate(&command(line)), Ruling::Allow(_)), "{line}");
    }
    for line in
        ["git status", "/bin/git status", "/usr/bin/../bin/git status", "./usr/bin/git status"]
    {
        assert_eq!(policy.evaluate(&command(line)), Ruling::Ask, "{line}");
    }
    let relative = self::policy(&[(RuleDecision::Allow, command_rule("scripts/test"))]);
    assert_eq!(relative.evaluate(&command("scripts/test")), Ruling::Ask, "the agent can write it");
}

#[test]
fn command_allow_needs_resolved_programs() {
    let policy = policy(&[(RuleDecision::Allow, command_rule("git"))]);
    let asked = |change: fn(&mut CommandLookup)| {
        let mut subject = command("/bin/sh -c 'git status'");
        change(subject.lookup.as_mut().unwrap());
        policy.evaluate(&subject)
    };
    assert!(matches!(asked(|_| ()), Ruling::Allow(_)));
    assert_eq!(asked(|found| found.in_worktree = false), Ruling::Ask);
    assert_eq!(asked(|found| found.programs[0].file = None), Ruling::Ask, "the shell");
    assert_eq!(asked(|found| found.programs[1].file = None), Ruling::Ask, "the program");
    assert_eq!(asked(|found| found.programs.truncate(1)), Ruling::Ask);
    assert_eq!(asked(|found| found.programs[1].word = "ls".to_owned()), Ruling::Ask);
    let unknown = ApprovalSubject { lookup: None, ..command("git status") };
    assert_eq!(policy.evaluate(&unknown), Ruling::Ask);
}

#[test]
fn deny_sees_through_wrappers_and_options() {
    let policy = policy(&[
        (RuleDecision::Allow, command_rule("git")),
        (RuleDecision::Deny, command_rule("git push")),
        (RuleDecision::Ask, command_rule("git tag --delete")),
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
        assert!(matches!(policy.evaluate(&command(line)), Ruling::Deny(_)), "{line}");
    }
    for line in ["git log push", "git commit -m x push", "git status"] {
        assert!(matches!(policy.evaluate(&command(line)), Ruling::Allow(_)), "{line}");
    }
    for line in ["git tag --delete v1", "git tag v1 --delete", "git -C x tag -v v1 --delete"] {
        assert_eq!(policy.evaluate(&command(line)), Ruling::Ask, "{line}");
    }
}

proptest! {
    #[test]
    fn rule_without_slash_never_allows_a_path(
        rule in "[a-z.]{1,4}( [a-z./-]{1,4}){0,2}",
        line in "[a-z./]{0,3}/[a-z./]{0,4}( [a-z./-]{1,4}){0,3}",
        shell in prop::option::of("(/bin/)?(ba|z|da)?sh"),
    ) {
        let words: Vec<&str> = rule.split(' ').collect();
        prop_assume!(!words[0].contains('/'));
        let policy = policy(&[(RuleDecision::Allow, self::command_rule(&rule))]);
        let line = shell.map_or_else(|| line.clone(), |shell| format!("{shell} -c '{line}'"));
        prop_assert_eq!(policy.evaluate(&command(&line)), Ruling::Ask);
    }
}
