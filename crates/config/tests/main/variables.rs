//! Environment variables as a layer.

use std::collections::BTreeSet;
use std::time::Duration;

use insta::assert_snapshot;
use provost_config::{CommandSpec, Event, RESERVED_VARIABLES, ValueSource, keys};

use crate::support::{layers, register};

#[test]
fn scalar_keys_have_unique_variables() {
    register();
    let variables: Vec<String> = keys().filter_map(|key| key.variable()).collect();
    let distinct: BTreeSet<&str> = variables.iter().map(String::as_str).collect();
    assert_eq!(distinct.len(), variables.len());
    assert!(
        distinct.contains("PROVOST_SESSION_SETTLE")
            && distinct.contains("PROVOST_HOOKS_SESSION_FAILED")
    );
    assert!(RESERVED_VARIABLES.iter().all(|name| !distinct.contains(name)));
    let without: Vec<&str> =
        keys().filter(|key| key.variable().is_none()).map(|key| key.name()).collect();
    let without: Vec<&str> =
        without.into_iter().filter(|name| !name.starts_with("presets.")).collect();
    assert_eq!(
        without,
        [
            "verify.checks",
            "verify.keep",
            "verify.protected",
            "worktree.copy",
            "git.filters",
            "approvals.allow",
            "approvals.ask",
            "approvals.deny",
            "skills.roots",
            "reactions.*.on",
            "reactions.*.after",
            "reactions.*.at",
            "reactions.*.do",
            "reactions.*.text",
            "reactions.*.agent",
            "reactions.*.times",
            "reactions.*.total",
            "agents.*.adapter",
            "agents.*.command",
            "agents.*.env.*",
            "agents.*.pass_env",
            "agents.chat.env.*",
            "agents.chat.pass_env",
            "verifiers.*.command",
            "verifiers.*.time_limit",
            "verifiers.*.output_limit",
            "verifiers.*.file",
            "verifiers.*.matches",
            "verifiers.*.field",
            "verifiers.*.equals",
            "workflows.*.verifier",
            "workflows.*.retries",
            "workflows.*.escalate",
            "workflows.*.defer_on_plateau",
            "workflows.*.fallback",
            "loops.*.from",
            "loops.*.max",
            "loops.*.clean_up",
            "loops.*.plateau",
            "loops.*.tokens",
            "loops.*.tools",
            "loops.*.evidence.*",
            "policies.*.actions",
            "policies.*.check",
            "policies.*.rework",
            "policies.*.rework_text",
            "policies.*.accept",
            "policies.*.nudge_after",
            "policies.*.nudges",
            "policies.*.nudge_text",
            "policies.*.continue_loop",
            "policies.*.finish",
            "environment.allow"
        ]
    );
}

#[test]
fn variables_set_every_kind_of_scalar() {
    register();
    let resolved = layers()
        .environment(&[
            ("PROVOST_SESSION_SETTLE", "50ms"),
            ("PROVOST_SESSION_REWORK", "7"),
            ("PROVOST_SESSION_OUTPUT_LIMIT", "2MiB"),
            ("PROVOST_SESSION_EXIT_ZERO_COMPLETES", "on"),
            ("PROVOST_WORKTREE_BRANCH_PREFIX", "bot/x"),
            ("PROVOST_HOOKS_SESSION_FAILED", "ring --loud"),
            ("OTHER", "ignored"),
        ])
        .resolve();
    assert_eq!(resolved.session.settle, Duration::from_millis(50));
    assert_eq!(resolved.session.rework, 7);
    assert_eq!(resolved.session.output_limit.get(), 2 << 20);
    assert!(resolved.session.exit_zero_completes);
    assert_eq!(resolved.worktree.branch_prefix.as_str(), "bot/x");
    assert_eq!(
        resolved.hooks[&Event::SessionFailed].command,
        CommandSpec::Shell("ring --loud".into())
    );
    assert!(resolved.warnings.is_empty());
}

#[test]
fn an_empty_variable_is_unset() {
    register();
    let resolved = layers().environment(&[("PROVOST_SESSION_SETTLE", "")]).resolve();
    assert_eq!(resolved.provenance["session.settle"], ValueSource::Default);
}

#[test]
fn the_alias_of_stale_after_takes_whole_seconds() {
    register();
    let resolved = layers().environment(&[("PROVOST_STALE_SECONDS", "5")]).resolve();
    assert_eq!(resolved.session.stale_after, Duration::from_secs(5));
    let source = ValueSource::Environment { variable: "PROVOST_STALE_SECONDS".into() };
    assert_eq!(resolved.provenance["session.stale_after"], source);
    let wrong = layers().environment(&[("PROVOST_STALE_SECONDS", "5m")]);
    assert_snapshot!(wrong.problems(), @r#"invalid value for "session.stale_after" in PROVOST_STALE_SECONDS; expected whole seconds, found "5m""#);
}

#[test]
fn the_keys_own_variable_beats_its_alias() {
    register();
    let both = [("PROVOST_STALE_SECONDS", "5"), ("PROVOST_SESSION_STALE_AFTER", "6s")];
    let resolved = layers().environment(&both).resolve();
    assert_eq!(resolved.session.stale_after, Duration::from_secs(6));
    assert_snapshot!(resolved.warnings[0].to_string(), @"the variable PROVOST_STALE_SECONDS is ignored; PROVOST_SESSION_STALE_AFTER is set too");
}

#[test]
fn unknown_variables_only_warn() {
    register();
    let reserved: Vec<(&str, &str)> = RESERVED_VARIABLES.iter().map(|name| (*name, "x")).collect();
    assert!(layers().environment(&reserved).resolve().warnings.is_empty());
    let resolved = layers()
        .environment(&[
            ("PROVOST_SESSION_SETLE", "secret"),
            ("PROVOST_VERIFY_CHECKS", "make"),
            ("PROVOST_ZZZ\u{1b}[2J", "x"),
        ])
        .resolve();
    let warnings: Vec<String> = resolved.warnings.iter().map(ToString::to_string).collect();
    assert_snapshot!(warnings.join("\n"), @r#"
    the variable PROVOST_SESSION_SETLE sets no key; did you mean PROVOST_SESSION_SETTLE?
    the variable PROVOST_VERIFY_CHECKS is ignored; verify.checks can only be set in a file or by a flag
    the variable PROVOST_ZZZ\u{1b}[2J sets no key
    "#);
}

#[test]
fn a_wrong_variable_is_named() {
    register();
    let wrong = layers().environment(&[
        ("PROVOST_SESSION_SETTLE", "soon"),
        ("PROVOST_SESSION_ALLOW_EMPTY_DIFF", "yes"),
    ]);
    assert_snapshot!(wrong.problems(), @r#"
    invalid value for "session.allow_empty_diff" in PROVOST_SESSION_ALLOW_EMPTY_DIFF; expected true or false, found "yes"
    invalid value for "session.settle" in PROVOST_SESSION_SETTLE; "soon" is not a duration: expected digits before "soon"
    "#);
}
