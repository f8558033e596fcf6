//! Rejected scenarios and arguments, with their error messages.

use std::process::{Command, Output};

use crate::agent_env::{AGENT, AgentEnv};

#[track_caller]
fn refused(output: &Output, why: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(why), "no {why:?} in: {stderr}");
    assert!(output.stdout.is_empty(), "a rejected scenario was played");
}

#[test]
fn misspelt_and_misplaced_keys_are_named() {
    let cases = [
        ("nme = 'x'", "unknown field `nme`"),
        ("[[step]]\nsay = 'a'\n[[step]]\nsya = 'x'", "step 2: no action among its keys (`sya`)"),
        (
            "[[step]]\nsay = 'a'\nerr = 'b'",
            "step 1: a step has one action, but this one has `err`, `say`",
        ),
        ("[[step]]\nsay = 'a'\ncolour = 'red'", "step 1: `colour` does not belong to `say`"),
        ("[[step]]\nreport = 'completed'\non_eof = 1", "unknown field `on_eof`"),
        ("[[step]]\nspawn = { kind = 'sleep', secs = 1 }", "unknown field `secs`"),
        (
            "[[step]]\nrepeat = { times = 2, steps = [{ say = 'a' }, { sya = 'b' }] }",
            "step 1.2: no action",
        ),
        ("[[step]]", "no action"),
    ];
    for (scenario, why) in cases {
        refused(&AgentEnv::new().play(scenario), why);
    }
}

#[test]
fn wrong_values_are_explained() {
    let cases = [
        ("[[step]]\nsay = 1", "say: invalid type"),
        ("[[step]]\nexit = 256", "exit: invalid value"),
        ("[[step]]\nhang = false", "only `true` is allowed here"),
        ("[[step]]\nraw = '\\xzz'", "needs two hexadecimal digits"),
        ("[[step]]\nraw = 'base64:!'", "raw: "),
        ("[[step]]\nspawn = { kind = 'flying' }", "unknown variant `flying`"),
        ("[[step]]\nread_line = true\non_eof = 'stop'", "expected an exit code or \"continue\""),
        ("[[step]]\nsay = '{{who}}'", "set it with --vars who="),
        (
            "[[step]]\nread_line = true\n[[step]]\nignore_term = true",
            "step 2: `ignore_term` must come before",
        ),
        (
            "[[step]]\nrepeat = { times = 1, steps = [{ ignore_term = true }] }",
            "is not allowed inside `repeat`",
        ),
        ("[[step", "not a scenario"),
    ];
    for (scenario, why) in cases {
        refused(&AgentEnv::new().play(scenario), why);
    }
}

#[test]
fn bad_arguments_are_refused_with_the_usage() {
    let cases: [(&[&str], &str); 5] = [
        (&[], "a scenario is missing"),
        (&["--help-me"], "usage: scripted-agent"),
        (&["/nonexistent/x.toml"], "read the scenario /nonexistent/x.toml"),
        (&["sample:nothing"], "the samples are exit0_silent"),
        (&["sample:exit0_silent", "stray"], "unexpected argument `stray`"),
    ];
    for (args, why) in cases {
        refused(&Command::new(AGENT).args(args).output().unwrap(), why);
    }
}
