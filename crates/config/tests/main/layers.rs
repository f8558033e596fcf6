//! Precedence, and the three values of every option.

use std::time::Duration;

use provost_config::{Color, CommandSpec, Resolved, Switchable, ValueSource, keys};
use serde_json::{Value as Json, json};

use crate::support::{TestLayers, layers};

/// An option, how a file sets it on and off, and how these are shown.
struct TriStateOption {
    key: &'static str,
    on: &'static str,
    off: &'static str,
    unset: Json,
    shown_on: Json,
    shown_off: Json,
}

fn options() -> Vec<TriStateOption> {
    vec![
        switch("session.exit_zero_completes", json!(false)),
        switch("session.allow_empty_diff", json!(false)),
        switch("worktree.enabled", Json::Null),
        value("session.time_limit", r#""1h""#, r#""off""#, json!("1h")),
        value("session.time_limit", r#""1h""#, "false", json!("1h")),
        value("worktree.setup", r#""make""#, "false", json!("make")),
        value("hooks.session.failed", r#""ring""#, "false", json!("ring")),
        value("hooks.session.lost", r#"["ring"]"#, r#""off""#, json!(["ring"])),
        list("verify.checks", json!([])),
        list("verify.keep", json!(["target", "node_modules"])),
        list("verify.protected", json!([])),
        list("worktree.copy", json!([])),
        list("environment.allow", json!([])),
    ]
}

fn switch(key: &'static str, unset: Json) -> TriStateOption {
    TriStateOption {
        key,
        on: "true",
        off: "false",
        unset,
        shown_on: json!(true),
        shown_off: json!(false),
    }
}

fn value(key: &'static str, on: &'static str, off: &'static str, shown_on: Json) -> TriStateOption {
    TriStateOption { key, on, off, unset: Json::Null, shown_on, shown_off: json!(false) }
}

fn list(key: &'static str, unset: Json) -> TriStateOption {
    TriStateOption {
        key,
        on: r#"["A"]"#,
        off: "[]",
        unset,
        shown_on: json!(["A"]),
        shown_off: json!([]),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TriState {
    Unset,
    Off,
    On,
}

const THREE: [TriState; 3] = [TriState::Unset, TriState::Off, TriState::On];

fn text(option: &TriStateOption, value: TriState) -> String {
    match value {
        TriState::Unset => String::new(),
        TriState::Off => format!("{} = {}", option.key, option.off),
        TriState::On => format!("{} = {}", option.key, option.on),
    }
}

fn shown(option: &TriStateOption, value: TriState) -> Json {
    match value {
        TriState::Unset => option.unset.clone(),
        TriState::Off => option.shown_off.clone(),
        TriState::On => option.shown_on.clone(),
    }
}

fn value_of(resolved: &Resolved, key: &str) -> Json {
    let entry =
        resolved.explain().iter().find(|entry| entry.key == key).expect("the key is explained");
    entry.value.clone()
}

#[test]
fn project_value_overrides_user_value() {
    for option in options() {
        for user in THREE {
            for project in THREE {
                let resolved =
                    layers().user(&text(&option, user)).project(&text(&option, project)).resolve();
                let winner = if project == TriState::Unset { user } else { project };
                let case = format!("{} user {user:?} project {project:?}", option.key);
                assert_eq!(value_of(&resolved, option.key), shown(&option, winner), "{case}");
                assert_eq!(
                    layer(&resolved.provenance[option.key]),
                    expected_layer(user, project),
                    "{case}"
                );
            }
        }
    }
}

fn expected_layer(user: TriState, project: TriState) -> &'static str {
    match (user, project) {
        (TriState::Unset, TriState::Unset) => "default",
        (TriState::Off | TriState::On, TriState::Unset) => "user",
        (_, TriState::Off | TriState::On) => "project",
    }
}

fn layer(source: &ValueSource) -> &'static str {
    match source {
        ValueSource::Default => "default",
        ValueSource::User(_) => "user",
        ValueSource::Project(_) => "project",
        ValueSource::Environment { .. } => "environment",
        ValueSource::Preset { .. } => "preset",
        ValueSource::Flag { .. } => "flag",
    }
}

/// All 81 combinations of unset, off and on of a switch in four layers.
#[test]
fn highest_set_layer_wins() {
    for user in THREE {
        for project in THREE {
            for environment in THREE {
                for flag in THREE {
                    let stack = [user, project, environment, flag];
                    let winner = stack.into_iter().rev().find(|value| *value != TriState::Unset);
                    let expected = winner.map(|value| value == TriState::On);
                    assert_eq!(stacked(stack).worktree.enabled, expected, "{stack:?}");
                }
            }
        }
    }
}

fn stacked([user, project, environment, flag]: [TriState; 4]) -> Resolved {
    let file = |value| match value {
        TriState::Unset => "",
        TriState::Off => "worktree.enabled = false",
        TriState::On => "worktree.enabled = true",
    };
    let word = |value| if value == TriState::On { "true" } else { "off" };
    let mut stack = layers().user(file(user)).project(file(project));
    if environment != TriState::Unset {
        stack = stack.environment(&[("PROVOST_WORKTREE_ENABLED", word(environment))]);
    }
    if flag != TriState::Unset {
        stack = stack.flag("--worktree", "worktree.enabled", word(flag));
    }
    stack.resolve()
}

#[test]
fn each_layer_beats_the_one_below() {
    let user = |stack: TestLayers| stack.user("session.settle = 1");
    let project = |stack: TestLayers| user(stack).project("session.settle = 2");
    let environment =
        |stack: TestLayers| project(stack).environment(&[("PROVOST_SESSION_SETTLE", "3s")]);
    let flag = |stack: TestLayers| environment(stack).flag("--settle", "session.settle", "4");
    let settle = |stack: TestLayers| stack.resolve().session.settle;
    assert_eq!(settle(user(layers())), Duration::from_secs(1));
    assert_eq!(settle(project(layers())), Duration::from_secs(2));
    assert_eq!(settle(environment(layers())), Duration::from_secs(3));
    assert_eq!(settle(flag(layers())), Duration::from_secs(4));
}

#[test]
fn a_later_flag_beats_an_earlier_one() {
    let resolved =
        layers().flag("--a", "ui.color", "never").flag("--b", "ui.color", "always").resolve();
    assert_eq!(resolved.ui.color, Color::Always);
    assert_eq!(resolved.provenance["ui.color"], ValueSource::Flag { flag: "--b".into() });
}

#[test]
fn flags_set_lists_and_switch_them_off() {
    let project = r#"verify.checks = ["from file"]"#;
    let set =
        layers().project(project).list_flag("--check", "verify.checks", &["a b", "c"]).resolve();
    assert_eq!(
        set.verify.checks,
        [CommandSpec::Shell("a b".into()), CommandSpec::Shell("c".into())]
    );
    let off = layers().project(project).list_flag("--no-check", "verify.checks", &[]).resolve();
    assert_eq!(off.verify.checks, []);
}

#[test]
fn without_any_layer_the_defaults_hold() {
    let resolved = layers().resolve();
    let session = resolved.session;
    assert_eq!(session.settle, Duration::from_secs(2));
    assert_eq!(session.stale_after, Duration::from_secs(300));
    assert_eq!(session.drain, Duration::from_secs(2));
    assert_eq!(session.stop_grace, Duration::from_secs(10));
    assert_eq!(session.time_limit, Switchable::Unset);
    assert_eq!(session.output_limit.get(), 1 << 30);
    assert_eq!(session.rework, 3);
    assert_eq!((session.exit_zero_completes, session.allow_empty_diff), (false, false));
    assert_eq!(resolved.verify.time_limit, Duration::from_secs(1800));
    assert_eq!(resolved.verify.output_limit.get(), 64 << 20);
    assert_eq!(resolved.worktree.enabled, None);
    assert_eq!(resolved.worktree.branch_prefix.as_str(), "provost");
    assert_eq!(resolved.hook_defaults.time_limit, Duration::from_secs(30));
    assert_eq!(resolved.hook_defaults.output_limit.get(), 1 << 20);
    assert!(
        resolved.hooks.is_empty() && resolved.agents.is_empty() && resolved.warnings.is_empty()
    );
}

#[test]
fn an_option_can_be_unset_off_or_on() {
    let limit = |text: &str| layers().project(text).resolve().session.time_limit;
    assert_eq!(limit(""), Switchable::Unset);
    assert_eq!(limit(r#"session.time_limit = "off""#), Switchable::Off);
    assert_eq!(limit("session.time_limit = false"), Switchable::Off);
    assert_eq!(limit("session.time_limit = 60"), Switchable::On(Duration::from_secs(60)));
}

#[test]
fn every_key_has_a_provenance_and_a_description() {
    let agents = r#"agents = { a = { command = ["x"], env.K = "v" }, chat.env.K = "v" }"#;
    let named = "[verifiers.K]\ncommand = \"x\"\nfile = \"x\"\nmatches = \"x\"\nfield = \"x\"\nequals = \"x\"\n[workflows.K]\nverifier = \"K\"\n[reactions.K]\non = \"context\"\nafter = \"1s\"\nat = 50\ndo = \"nudge\"\ntext = \"x\"\nagent = \"x\"\n[loops.K]\nfrom = \"build\"\nmax = 1\nclean_up = \"keep\"\nplateau = 1\ntokens = 1\nevidence.K = \"challenge\"\n[policies.K]\nrework_text = \"x\"\nnudge_after = \"1s\"\nnudge_text = \"x\"\n";
    let resolved = layers().project(&format!("{agents}\n{named}")).resolve();
    // The keys of presets have no defaults: a preset sets only what it needs.
    for key in keys().filter(|key| !key.name().starts_with("presets.")) {
        let name = key.name().replace("agents.*", "agents.a").replace('*', "K");
        assert!(resolved.provenance.contains_key(&name), "{name}");
        assert!(key.description().ends_with('.'), "{name}");
    }
}

#[test]
fn limits_hold_at_their_ends_and_not_beyond() {
    let rework = |number: &str| layers().flag("--rework", "session.rework", number);
    assert_eq!(rework("0").resolve().session.rework, 0);
    assert_eq!(rework("100").resolve().session.rework, 100);
    rework("101").error();
    rework("-1").error();
    let settle = |text: &str| layers().flag("--settle", "session.settle", text);
    assert_eq!(settle("0s").resolve().session.settle, Duration::ZERO);
    assert_eq!(settle("1h").resolve().session.settle, Duration::from_secs(3600));
    settle("1h1ms").error();
    let output = |text: &str| layers().flag("--output", "session.output_limit", text);
    assert_eq!(output("1KiB").resolve().session.output_limit.get(), 1024);
    output("1023B").error();
}

#[test]
fn git_filters_are_user_only() {
    let user = layers().user("git.filters = [\"lfs\"]").resolve();
    assert_eq!(user.git.filters.len(), 1);
    let refused = layers().project("git.filters = [\"lfs\"]").problems();
    assert!(refused.contains("git.filters") && refused.contains("your own"), "{refused}");
}

#[test]
fn untrusted_project_keys_are_shown_not_used() {
    let text =
        "[worktree]\nsetup = \"./x\"\n[agents.demo]\ncommand = [\"x\"]\n[session]\nrework = 7\n";
    let resolved = layers().untrusted_project(text).resolve();
    assert_eq!(resolved.worktree.setup, Switchable::Unset);
    assert!(resolved.agents.is_empty());
    assert_eq!(resolved.session.rework, 7, "a harmless key counts");
    let untrusted: Vec<&str> = resolved
        .explain()
        .iter()
        .filter(|entry| !entry.untrusted.is_empty())
        .map(|entry| entry.key.as_str())
        .collect();
    assert_eq!(untrusted, ["worktree.setup", "agents.demo.command"]);
    let preset = "[presets.mine]\nverify.checks = [\"x\"]\n";
    let resolved = layers().untrusted_project(preset).resolve();
    assert!(!resolved.presets().contains("mine"));
}
