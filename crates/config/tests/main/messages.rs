//! What people read when a configuration is wrong.

use insta::assert_snapshot;
use provost_config::{MAX_PROBLEMS, ProblemKind};

use crate::support::{layers, problems};

#[test]
fn an_unknown_key_names_its_place_and_the_nearest_one() {
    assert_snapshot!(problems("# comment\n\nsesion.settle = \"2s\"\n"), @"");
    assert_snapshot!(problems("[session]\nsetle = \"2s\"\n"), @"");
    assert_snapshot!(problems("[sesion]\nsettle = \"2s\"\ndrain = \"2s\"\n"), @"");
    assert_snapshot!(problems("settle = \"2s\""), @"");
    assert_snapshot!(problems("[hooks]\n\"session.complete\" = \"x\""), @"");
    assert_snapshot!(problems("[hooks]\nsession.faild = \"x\""), @"");
}

#[test]
fn an_unknown_key_without_a_near_one_lists_what_there_is() {
    assert_snapshot!(problems("[quux]\nx = 1\ny = 2"), @"");
    assert_snapshot!(problems("[verify]\nquux = 1"), @"");
}

#[test]
fn a_wrong_type_says_what_was_expected_and_found() {
    assert_snapshot!(problems("session.settle = true"), @"");
    assert_snapshot!(problems("session.settle = 1.5"), @"");
    assert_snapshot!(problems("session.exit0_is_done = \"false\""), @"");
    assert_snapshot!(problems("session.rework = \"3\""), @"");
    assert_snapshot!(problems("session = 3"), @"");
    assert_snapshot!(problems("verify.checks = \"make\""), @"");
    assert_snapshot!(problems("verify.checks = [\"make\", 1, [2]]"), @"");
    assert_snapshot!(problems("session.time_limit = true"), @"");
    assert_snapshot!(problems("hooks.session.failed = 1"), @"");
}

#[test]
fn a_value_out_of_range_says_the_range() {
    assert_snapshot!(problems("session.rework = 1000"), @"");
    assert_snapshot!(problems("session.rework = -1"), @"");
    assert_snapshot!(problems("session.time_limit = 0"), @"");
    assert_snapshot!(problems("session.output_limit = \"1B\""), @"");
    assert_snapshot!(problems("session.settle = 99999999999999999999"), @"");
    assert_snapshot!(problems("session.settle = 9223372036854775807"), @"");
}

#[test]
fn a_text_that_is_no_value_says_why() {
    assert_snapshot!(problems("session.settle = \"2x\""), @"");
    assert_snapshot!(problems("session.settle = \"1h30\""), @"");
    assert_snapshot!(problems("session.settle = -1"), @"");
    assert_snapshot!(problems("session.output_limit = \"64mib\""), @"");
    assert_snapshot!(problems("ui.color = \"alway\""), @"");
    assert_snapshot!(problems("ui.color = \"blue\""), @"");
    assert_snapshot!(problems("verify.keep = [\"../x\", \"/etc\", \".git/hooks\"]"), @"");
    assert_snapshot!(problems("worktree.branch_prefix = \"-x\""), @"");
    assert_snapshot!(problems("environment.allow = [\"A-B\", \"PROVOST_TOKEN\", \"*\"]"), @"");
    assert_snapshot!(problems("worktree.setup = \" \""), @"");
    assert_snapshot!(problems("verify.checks = [[]]"), @"");
}

#[test]
fn invalid_toml_gives_the_position_and_the_parsers_message() {
    assert_snapshot!(problems("[session]\nsettle = \n"), @"");
    assert_snapshot!(problems("[session\n"), @"");
    assert_snapshot!(problems("ui.color = \"auto\"\nui.color = \"never\"\n"), @"");
}

#[test]
fn all_problems_of_all_layers_are_reported_in_order() {
    let stack = layers()
        .user("[verify]\ntime_limit = \"x\"\n[session]\nrework = 1000\n")
        .project("[worktree]\nzzz = 1\n\n[session]\nsettle = true\ndrain = \"2\u{fc}\"\n")
        .environment(&[("PROVOST_UI_COLOR", "blue")])
        .flag("--set", "ui.colour", "never")
        .list_flag("--check", "verify.checks", &[""]);
    assert_snapshot!(stack.problems(), @"");
}

#[test]
fn hooks_and_agents_report_inside_their_tables() {
    assert_snapshot!(problems("[hooks.session.failed]\ncomand = \"x\"\ntime_limit = 0\noutput_limit = true\n"), @"");
    assert_snapshot!(problems("[hooks]\nsession.failed = \"a\"\n\"session.failed\" = \"b\"\n"), @"");
    assert_snapshot!(problems("[agents.codex]\ndriver = \"json\"\n"), @"");
    assert_snapshot!(problems("[agents.codex]\ncommand = []\n"), @"");
    assert_snapshot!(problems("[agents.\"a b\"]\ncommand = [\"x\"]\n"), @"");
    assert_snapshot!(problems("[agents.a]\ncommand = [\"x\"]\nenv = { \"A=B\" = \"x\", PROVOST_TOKEN = \"y\" }\n"), @"");
    assert_snapshot!(problems("[agents]\ncodex = \"x\"\n"), @"");
}

#[test]
fn a_column_counts_characters_from_one() {
    assert_snapshot!(problems("verify.checks = [\"\u{fc}\u{fc}\u{fc}\", 1]"), @"");
}

#[test]
fn a_value_that_may_be_secret_is_never_repeated() {
    let text =
        problems("[agents.a]\ncommand = [\"x\"]\nenv = { A = \"hunter2\\u0000\", B = 31337 }\n");
    assert!(!text.contains("hunter2") && !text.contains("31337"), "{text}");
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn foreign_text_in_a_message_is_escaped_and_short() {
    let text = problems("\"\\u001b[2J\" = 1\n\"\\u202e\" = 1\n");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    let long = problems(&format!("{} = 1", "x".repeat(100_000)));
    assert!(long.len() < 400, "{}", long.len());
}

#[test]
fn a_hostile_file_is_answered_with_a_bounded_report() {
    let lines: String = (0..2000).map(|number| format!("key{number} = 1\n")).collect();
    let error = layers().project(&lines).error();
    assert_eq!(error.problems.len(), MAX_PROBLEMS);
    assert_eq!(error.left_out, 2000 - MAX_PROBLEMS);
    let nested =
        layers().project(&format!("x = {}{}", "[".repeat(50_000), "]".repeat(50_000))).error();
    assert_eq!(nested.problems[0].kind, ProblemKind::Syntax);
}
