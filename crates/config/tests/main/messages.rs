//! Error messages for an invalid configuration.

use insta::assert_snapshot;
use provost_config::{MAX_PROBLEMS, ProblemKind};

use crate::support::{layers, problems};

#[test]
fn unknown_key_suggests_nearest() {
    assert_snapshot!(problems("# comment\n\nsesion.settle = \"2s\"\n"), @r#"unknown key "sesion.settle" at provost.toml:3:1; did you mean "session.settle"?"#);
    assert_snapshot!(problems("[session]\nsetle = \"2s\"\n"), @r#"unknown key "session.setle" at provost.toml:2:1; did you mean "session.settle"?"#);
    assert_snapshot!(problems("[sesion]\nsettle = \"2s\"\ndrain = \"2s\"\n"), @r#"unknown key "sesion" at provost.toml:1:2; did you mean "session"?"#);
    assert_snapshot!(problems("settle = \"2s\""), @r#"unknown key "settle" at provost.toml:1:1; did you mean "session.settle"?"#);
    assert_snapshot!(problems("[hooks]\n\"session.complete\" = \"x\""), @r#"unknown key "hooks.session.complete" at provost.toml:2:1; did you mean "hooks.session.completed"?"#);
    assert_snapshot!(problems("[hooks]\nsession.faild = \"x\""), @r#"unknown key "hooks.session.faild" at provost.toml:2:9; did you mean "hooks.session.failed"?"#);
}

#[test]
fn unknown_key_lists_alternatives() {
    assert_snapshot!(problems("[quux]\nx = 1\ny = 2"), @r#"unknown key "quux" at provost.toml:1:2; expected "session", "verify", "run", "review", "prices", "prompts", "worktree", "git", "terminal", "budget", "approvals", "skills", "hooks", "reactions", "agents", "monitor", "verifiers", "workflows", "loops", "policies", "environment", "ui" or "presets""#);
    assert_snapshot!(problems("[verify]\nquux = 1"), @r#"unknown key "verify.quux" at provost.toml:2:1; expected "checks", "time_limit", "output_limit", "keep" or "protected""#);
}

#[test]
fn other_version_is_the_only_problem() {
    let text = |version: &str| format!("version = {version}\nno_such_key = 1\n");
    assert_snapshot!(problems(&text("2")), @r#"invalid value for "version" at provost.toml:1:11; this provost reads only version 1 of the configuration"#);
    assert_snapshot!(problems(&text("\"1\"")), @r#"wrong type for "version" at provost.toml:1:11; expected a whole number, found a string"#);
    let resolved = layers().user("version = 1\n[session]\nrework = 2").resolve();
    assert_eq!(resolved.session.rework, 2);
}

#[test]
fn wrong_type_shows_expected_and_found() {
    assert_snapshot!(problems("session.settle = true"), @r#"wrong type for "session.settle" at provost.toml:1:18; expected a duration such as "250ms", "2s" or "1h30m", or whole seconds, found a boolean"#);
    assert_snapshot!(problems("session.settle = 1.5"), @r#"wrong type for "session.settle" at provost.toml:1:18; expected a duration such as "250ms", "2s" or "1h30m", or whole seconds, found a float"#);
    assert_snapshot!(problems("session.exit_zero_completes = \"false\""), @r#"wrong type for "session.exit_zero_completes" at provost.toml:1:31; expected true or false, found a string"#);
    assert_snapshot!(problems("session.rework = \"3\""), @r#"wrong type for "session.rework" at provost.toml:1:18; expected a whole number, found a string"#);
    assert_snapshot!(problems("session = 3"), @r#"wrong type for "session" at provost.toml:1:11; expected a table, found an integer"#);
    assert_snapshot!(problems("verify.checks = \"make\""), @r#"wrong type for "verify.checks" at provost.toml:1:17; expected an array of commands, found a string"#);
    assert_snapshot!(problems("verify.checks = [\"make\", 1, [2]]"), @r#"
    wrong type for "verify.checks" at provost.toml:1:26; expected a command: a string for the shell or an array of strings, found an integer
    wrong type for "verify.checks" at provost.toml:1:30; expected an array of strings: the program and its arguments, found an integer
    "#);
    assert_snapshot!(problems("session.time_limit = true"), @r#"wrong type for "session.time_limit" at provost.toml:1:22; expected a duration such as "250ms", "2s" or "1h30m", or whole seconds, or "off", found a boolean"#);
    assert_snapshot!(problems("hooks.session.failed = 1"), @r#"wrong type for "hooks.session.failed" at provost.toml:1:24; expected a command, or a table with command, time_limit and output_limit, or "off", found an integer"#);
}

#[test]
fn out_of_range_value_shows_range() {
    assert_snapshot!(problems("session.rework = 1000"), @r#"value out of range for "session.rework" at provost.toml:1:18; expected 0 to 100, found 1000"#);
    assert_snapshot!(problems("session.rework = -1"), @r#"invalid value for "session.rework" at provost.toml:1:18; it is negative, too large or not a number"#);
    assert_snapshot!(problems("session.time_limit = 0"), @r#"value out of range for "session.time_limit" at provost.toml:1:22; expected 10ms to 365d, found 0s"#);
    assert_snapshot!(problems("session.output_limit = \"1B\""), @r#"value out of range for "session.output_limit" at provost.toml:1:24; expected 1KiB to 1TiB, found 1B"#);
    assert_snapshot!(problems("session.settle = 99999999999999999999"), @r#"wrong type for "session.settle" at provost.toml:1:18; expected a duration such as "250ms", "2s" or "1h30m", or whole seconds, found an integer of more than 64 bits"#);
    assert_snapshot!(problems("session.settle = 9223372036854775807"), @r#"invalid value for "session.settle" at provost.toml:1:18; it is too long"#);
}

#[test]
fn invalid_text_explains_why() {
    assert_snapshot!(problems("session.settle = \"2x\""), @r#"invalid value for "session.settle" at provost.toml:1:18; "2x" is not a duration: unknown unit "x", expected d, h, m, s or ms"#);
    assert_snapshot!(problems("session.settle = \"1h30\""), @r#"invalid value for "session.settle" at provost.toml:1:18; "1h30" is not a duration: the last unit is missing"#);
    assert_snapshot!(problems("session.settle = -1"), @r#"invalid value for "session.settle" at provost.toml:1:18; a duration cannot be negative"#);
    assert_snapshot!(problems("session.output_limit = \"64mib\""), @r#"invalid value for "session.output_limit" at provost.toml:1:24; "64mib" is not a size: unknown unit "mib", did you mean "MiB"?"#);
    assert_snapshot!(problems("ui.color = \"alway\""), @r#"invalid value for "ui.color" at provost.toml:1:12; expected "auto", "always" or "never", found "alway"; did you mean "always"?"#);
    assert_snapshot!(problems("ui.color = \"blue\""), @r#"invalid value for "ui.color" at provost.toml:1:12; expected "auto", "always" or "never", found "blue""#);
    assert_snapshot!(problems("worktree.copy = [\"../x\", \"/etc\", \".git/hooks\"]"), @r#"
    invalid value for "worktree.copy" at provost.toml:1:18; the path leaves the worktree through ".."
    invalid value for "worktree.copy" at provost.toml:1:26; expected a path relative to the worktree, without "~", "!" or "\"
    invalid value for "worktree.copy" at provost.toml:1:34; the path is inside ".git"
    "#);
    assert_snapshot!(problems("verify.keep = [\"*\"]"), @r#"invalid value for "verify.keep" at provost.toml:1:16; expected the name of a directory, such as "target": up to 100 letters, digits, "-", "_" or ".", without "/" and "*""#);
    assert_snapshot!(problems("worktree.branch_prefix = \"-x\""), @r#"invalid value for "worktree.branch_prefix" at provost.toml:1:26; a branch prefix has parts of letters, digits, "-", "_" or ".", separated by "/""#);
    assert_snapshot!(problems("environment.allow = [\"A-B\", \"PROVOST_TOKEN\", \"*\"]"), @r#"
    invalid value for "environment.allow" at provost.toml:1:22; "A-B" is not a variable name: use letters, digits and "_", and no digit first
    invalid value for "environment.allow" at provost.toml:1:29; variables that begin with PROVOST_ are set by Provost itself
    invalid value for "environment.allow" at provost.toml:1:46; expected a variable name, or the beginning of one followed by "*"
    "#);
    assert_snapshot!(problems("worktree.setup = \" \""), @r#"invalid value for "worktree.setup" at provost.toml:1:18; the command is empty"#);
    assert_snapshot!(problems("verify.checks = [[]]"), @r#"invalid value for "verify.checks" at provost.toml:1:18; it does not specify a program"#);
}

#[test]
fn invalid_toml_shows_position() {
    assert_snapshot!(problems("[session]\nsettle = \n"), @"invalid TOML at provost.toml:2:10; string values must be quoted, expected literal string");
    assert_snapshot!(problems("[session\n"), @"invalid TOML at provost.toml:1:9; unclosed table, expected `]`");
    assert_snapshot!(problems("ui.color = \"auto\"\nui.color = \"never\"\n"), @"invalid TOML at provost.toml:2:4; duplicate key");
}

#[test]
fn all_problems_are_reported_in_order() {
    let stack = layers()
        .user("[verify]\ntime_limit = \"x\"\n[session]\nrework = 1000\n")
        .project("[worktree]\nzzz = 1\n\n[session]\nsettle = true\ndrain = \"2\u{fc}\"\n")
        .environment(&[("PROVOST_UI_COLOR", "blue")])
        .flag("--set", "ui.colour", "never")
        .list_flag("--check", "verify.checks", &[""]);
    assert_snapshot!(stack.problems(), @r#"
    invalid value for "verify.time_limit" at /home/u/provost.toml:2:14; "x" is not a duration: expected digits before "x"
    value out of range for "session.rework" at /home/u/provost.toml:4:10; expected 0 to 100, found 1000
    unknown key "worktree.zzz" at provost.toml:2:1; expected "enabled", "branch_prefix", "copy" or "setup"
    wrong type for "session.settle" at provost.toml:5:10; expected a duration such as "250ms", "2s" or "1h30m", or whole seconds, found a boolean
    invalid value for "session.drain" at provost.toml:6:9; "2ü" is not a duration: unknown unit "ü", expected d, h, m, s or ms
    invalid value for "ui.color" in PROVOST_UI_COLOR; expected "auto", "always" or "never", found "blue"
    unknown key "ui.colour" in --set; did you mean "ui.color"?
    invalid value for --check; the command is empty
    "#);
}

#[test]
fn hooks_and_agents_report_inside_their_tables() {
    assert_snapshot!(problems("[hooks.session.failed]\ncomand = \"x\"\ntime_limit = 0\noutput_limit = true\n"), @r#"
    missing key "hooks.session.failed.command" at provost.toml:1:1; a hook needs a command
    unknown key "hooks.session.failed.comand" at provost.toml:2:1; did you mean "command"?
    value out of range for "hooks.session.failed.time_limit" at provost.toml:3:14; expected 10ms to 365d, found 0s
    wrong type for "hooks.session.failed.output_limit" at provost.toml:4:16; expected a size such as "64MiB" or "1GB", or whole bytes, found a boolean
    "#);
    assert_snapshot!(problems("[hooks]\nsession.failed = \"a\"\n\"session.failed\" = \"b\"\n"), @r#"repeated key "hooks.session.failed" at provost.toml:3:1; it was already set in another notation"#);
    assert_snapshot!(problems("[agents.mine]\nadapter = \"json\"\n"), @r#"invalid value for "agents.mine.adapter" at provost.toml:2:11; expected "command" or "jsonl", found "json"; did you mean "jsonl"?"#);
    assert_snapshot!(problems("[agents.mine]\ncommand = []\n"), @r#"invalid value for "agents.mine.command" at provost.toml:2:11; it does not specify a program"#);
    assert_snapshot!(problems("[agents.\"a b\"]\ncommand = [\"x\"]\n"), @r#"bad name "agents.a b" at provost.toml:1:9; an agent's name has 1 to 64 letters, digits, "-" or "_", and no "-" first"#);
    assert_snapshot!(problems("[agents.a]\ncommand = [\"x\"]\nenv = { \"A=B\" = \"x\", PROVOST_TOKEN = \"y\" }\n"), @r#"
    bad name "agents.a.env.A=B" at provost.toml:3:9; "A=B" is not a variable name: use letters, digits and "_", and no digit first
    bad name "agents.a.env.PROVOST_TOKEN" at provost.toml:3:22; variables that begin with PROVOST_ are set by Provost itself
    "#);
    assert_snapshot!(problems("[agents]\nmine = \"x\"\n"), @r#"wrong type for "agents.mine" at provost.toml:2:8; expected a table, found a string"#);
}

#[test]
fn a_column_counts_characters_from_one() {
    assert_snapshot!(problems("verify.checks = [\"\u{fc}\u{fc}\u{fc}\", 1]"), @r#"wrong type for "verify.checks" at provost.toml:1:25; expected a command: a string for the shell or an array of strings, found an integer"#);
}

#[test]
fn secret_values_are_never_quoted() {
    let text =
        problems("[agents.a]\ncommand = [\"x\"]\nenv = { A = \"hunter2\\u0000\", B = 31337 }\n");
    assert!(!text.contains("hunter2") && !text.contains("31337"), "{text}");
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn quoted_text_is_escaped_and_short() {
    let text = problems("\"\\u001b[2J\" = 1\n\"\\u202e\" = 1\n");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    let long = problems(&format!("{} = 1", "x".repeat(100_000)));
    assert!(long.len() < 400, "{}", long.len());
}

#[test]
fn hostile_file_report_is_bounded() {
    let lines: String = (0..2000).map(|number| format!("key{number} = 1\n")).collect();
    let error = layers().project(&lines).error();
    assert_eq!(error.problems.len(), MAX_PROBLEMS);
    assert_eq!(error.left_out, 2000 - MAX_PROBLEMS);
    let agents: String =
        (0..3000).map(|number| format!("agents.a{number}.command = [\"x\"]\n")).collect();
    assert_eq!(layers().project(&agents).resolve().agents.len(), 3000);
    let nested =
        layers().project(&format!("x = {}{}", "[".repeat(50_000), "]".repeat(50_000))).error();
    assert_eq!(nested.problems[0].kind, ProblemKind::Syntax);
}
