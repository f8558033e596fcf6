//! Approval rules.

use insta::assert_snapshot;
use provost_config::ApprovalRule;

use crate::support::{layers, problems};

#[test]
fn without_rules_everything_is_asked() {
    let rules = layers().resolve().approvals;
    assert_eq!(rules.version.get(), 1);
    assert!(rules.allow.is_empty() && rules.ask.is_empty() && rules.deny.is_empty());
}

#[test]
fn a_list_of_rules_replaces_the_one_below_it() {
    let resolved = layers()
        .user("[approvals]\nallow = [\"command: cargo\"]\ndeny = [\"network: .example.org\"]")
        .project("[approvals]\nversion = 1\nallow = [\"command: cargo test\", \"path: docs/\"]")
        .resolve();
    let [ApprovalRule::Command(words), ApprovalRule::Path(path)] = &resolved.approvals.allow[..]
    else {
        panic!("{:?}", resolved.approvals.allow)
    };
    assert_eq!((words.join("+").as_str(), path.as_str()), ("cargo+test", "docs/"));
    assert_eq!(resolved.approvals.deny, [ApprovalRule::Network(".example.org".into())]);
    let entry = resolved.explain().iter().find(|entry| entry.key == "approvals.allow").unwrap();
    assert_eq!(entry.value, serde_json::json!(["command: cargo test", "path: docs/"]));
    assert_eq!(entry.shadowed.len(), 2);
}

#[test]
fn project_cannot_remove_user_denials() {
    let show = |layers: crate::support::TestLayers| {
        let resolved = layers.resolve();
        let denied: Vec<String> = resolved.approvals.deny.iter().map(ToString::to_string).collect();
        let entry = resolved.explain().iter().find(|entry| entry.key == "approvals.deny").unwrap();
        assert_eq!(entry.value, serde_json::json!(denied));
        assert_eq!(resolved.provenance["approvals.deny"], entry.source);
        assert!(entry.shadowed.is_empty(), "nothing of it is hidden");
        let parts = entry.added.iter().map(|part| format!("\n  {} {}", part.source, part.value));
        format!("{} {}{}", entry.source, entry.value, parts.collect::<String>())
    };
    let user = "[approvals]\nallow = []\ndeny = [\"command: rm\", \"path: /etc\"]";
    let deny = |list: &str| format!("[approvals]\ndeny = {list}");
    assert_snapshot!(show(layers()), @"default []");
    assert_snapshot!(show(layers().user(user)), @r#"user (/home/u/provost.toml:3:1) ["command: rm","path: /etc"]"#);
    assert_snapshot!(
        show(layers().user(user).project(&deny("[]"))),
        @r#"user (/home/u/provost.toml:3:1) ["command: rm","path: /etc"]"#
    );
    assert_snapshot!(show(layers().user(user).project(&deny("[\"command: curl\", \"command: rm\"]"))), @r#"
    project (provost.toml:2:1) ["command: rm","path: /etc","command: curl"]
      project (provost.toml:2:1) ["command: curl","command: rm"]
      user (/home/u/provost.toml:3:1) ["command: rm","path: /etc"]
    "#);
    assert_snapshot!(show(layers().project(&deny("[\"path: .git\"]"))), @r#"project (provost.toml:2:1) ["path: .git"]"#);
}

#[test]
fn malformed_rule_errors_have_positions() {
    let text = "[approvals]\nversion = 2\nallow = [\n  \"command: cargo test\",\n  \"cargo test\",\n  \"comand: cargo\",\n  \"command: a | b\",\n  7,\n]\ndeny = [\"path: ../x\", \"network: https://x\", \"command:\"]\nalow = []\n";
    assert_snapshot!(problems(text), @r#"
    invalid value for "approvals.version" at provost.toml:2:11; rules of version 2 are not supported; expected version 1
    invalid value for "approvals.allow" at provost.toml:5:3; "cargo test" is not a rule: expected "command: WORDS", "path: PATH" or "network: HOST"
    invalid value for "approvals.allow" at provost.toml:6:3; unknown subject "comand"; did you mean "command"?
    invalid value for "approvals.allow" at provost.toml:7:3; "a | b" is not just words: a rule contains the first words of a command, without quotes or shell syntax
    wrong type for "approvals.allow" at provost.toml:8:3; expected a string (approval rule), found an integer
    invalid value for "approvals.deny" at provost.toml:10:9; the path contains "..", so it matches nothing
    invalid value for "approvals.deny" at provost.toml:10:23; "https://x" is not a host; expected one such as "crates.io", or ".crates.io" for its subdomains
    invalid value for "approvals.deny" at provost.toml:10:45; nothing follows "command:"
    unknown key "approvals.alow" at provost.toml:11:1; did you mean "approvals.allow"?
    "#);
}
