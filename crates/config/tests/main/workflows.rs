//! Verifiers and workflows: named by the user, or built in.

use insta::assert_snapshot;
use provost_config::{CommandSpec, Escalation, Switchable, ValueSource};

use crate::support::{layers, problems};

#[test]
fn verifier_has_own_limits() {
    let text = "[verifiers.built]\ncommand = \"make check KEY={key}\"\n";
    let resolved = layers().project(text).resolve();
    let built = &resolved.verifiers["built"];
    assert_eq!(built.command, Switchable::On(CommandSpec::Shell("make check KEY={key}".into())));
    assert_eq!(built.time_limit.as_secs(), 60);
    assert_eq!((&built.file, &built.equals), (&None, &None));
}

#[test]
fn off_is_plain_text_for_lines() {
    let text = "[verifiers.light]\nfile = \"a.yaml\"\nfield = \"light\"\nequals = \"off\"\n";
    let resolved = layers().project(text).resolve();
    assert_eq!(resolved.verifiers["light"].equals.as_ref().unwrap().as_str(), "off");
}

#[test]
fn a_built_in_workflow_is_changed_key_by_key() {
    let resolved = layers().user("workflows.dev.retries = 9").resolve();
    let dev = &resolved.workflows["dev"];
    assert_eq!((dev.verifier.as_str(), dev.retries), ("bmad-dev", 9));
    assert_eq!(resolved.workflows["retro"].escalate, Escalation::Preference);
    assert_eq!(resolved.provenance["workflows.dev.verifier"], ValueSource::Default);
    assert_eq!(resolved.workflows.len(), 5);
}

#[test]
fn custom_workflow_needs_verifier() {
    assert_snapshot!(problems("workflows.ship.retries = 1"), @r#"missing key "workflows.ship.verifier" at provost.toml:1:16; expected a string (name)"#);
    assert_snapshot!(problems("[workflows.ship]\nverifer = \"x\"\n"), @r#"unknown key "workflows.ship.verifer" at provost.toml:2:1; did you mean "workflows.ship.verifier"?"#);
    assert_snapshot!(problems("[verifiers.x]\nmatch = \"x\"\n[workflows.\"a b\"]\nverifier = \"x\"\n"), @r#"
    unknown key "verifiers.x.match" at provost.toml:2:1; did you mean "verifiers.x.matches"?
    bad name "workflows.a b" at provost.toml:3:12; a workflow's name has 1 to 64 letters, digits, "-" or "_", and no "-" first
    "#);
    assert_snapshot!(problems("[workflows.dev]\nescalate = \"urgent\"\nretries = 101\n"), @r#"
    invalid value for "workflows.dev.escalate" at provost.toml:2:12; expected "critical" or "preference", found "urgent"
    value out of range for "workflows.dev.retries" at provost.toml:3:11; expected 0 to 100, found 101
    "#);
}
