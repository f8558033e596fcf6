//! Loops and policies, which the user names.

use insta::assert_snapshot;
use provost_config::{CleanUp, Switchable};

use crate::support::{layers, problems};

#[test]
fn evidence_is_merged_by_name() {
    let user = "[loops.ship-it.evidence]\nreview = false\nnotes = \"asserted\"\n";
    let project =
        "[loops.ship-it]\nmax = 3\nclean_up = \"compact\"\nevidence.notes = \"challenge\"\n";
    let resolved = layers().user(user).project(project).resolve();
    let ship = &resolved.loops["ship-it"];
    assert_eq!(
        (&ship.max, &ship.clean_up),
        (&Switchable::On(3), &Switchable::On(CleanUp::Compact))
    );
    assert_eq!(ship.plateau, Switchable::Unset);
    let evidence: Vec<_> = ship.evidence.iter().collect();
    assert_eq!(evidence, [("notes", Some("challenge")), ("review", None)]);
}

#[test]
fn policy_has_default_bounds() {
    let resolved = layers().project("[policies.nightly]\nnudge_after = \"10m\"\n").resolve();
    let policy = &resolved.policies["nightly"];
    assert_eq!((policy.actions, policy.rework, policy.nudges), (50, 3, 3));
    assert!(policy.check && policy.finish && policy.continue_loop && !policy.accept);
    assert_eq!(policy.nudge_after.on().map(|time| time.as_secs()), Some(600));
}

#[test]
fn loop_and_policy_errors_have_positions() {
    assert_snapshot!(problems("[loops.mine]\nmax = 0\nevidence.tests = \"a\\nb\"\nevidence.\"a b\" = \"challenge\"\nclean_up = \"wipe\"\n"), @r#"
    value out of range for "loops.mine.max" at provost.toml:2:7; expected 1 to 1000, found 0
    invalid value for "loops.mine.evidence.tests" at provost.toml:3:18; expected 1 to 4000 bytes without line breaks and other control characters
    bad name "loops.mine.evidence.a b" at provost.toml:4:10; evidence's name has 1 to 64 letters, digits, "-" or "_", and no "-" first
    invalid value for "loops.mine.clean_up" at provost.toml:5:12; expected "keep", "compact" or "new_thread", found "wipe"
    "#);
    assert_snapshot!(problems("[policies.x]\nactions = 1\non_claim = true\nrework = 101\n"), @r#"
    value out of range for "policies.x.actions" at provost.toml:2:11; expected 2 to 1000, found 1
    unknown key "policies.x.on_claim" at provost.toml:3:1; expected "actions", "check", "rework", "rework_text", "accept", "nudge_after", "nudges", "nudge_text", "continue_loop" or "finish"
    value out of range for "policies.x.rework" at provost.toml:4:10; expected 0 to 100, found 101
    "#);
}
