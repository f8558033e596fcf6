//! Every flag of `provost run` has an observable effect.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::{options::fake_codex, spawn_flags::documented_flags};
use provost_testkit::env::TestEnv;

/// A plan that awaits approval: no work starts, so that a flag's effect can be inspected.
const AWAITS_PLAN_APPROVAL: [&str; 3] = ["--plan", "../../plan.toml", "--approve-plan"];

/// A flag, arguments that use it, and the value in the run's spec that shows its effect.
struct RunFlag {
    name: &'static str,
    arguments: &'static [&'static str],
    pointer: &'static str,
    expected: Value,
}

fn run_flags() -> Vec<RunFlag> {
    let flag =
        |name, arguments, pointer, seen| RunFlag { name, arguments, pointer, expected: seen };
    vec![
        flag("--plan", &["--plan=../../plan.toml"], "/planning/given/tasks/0/id", json!("one")),
        flag("--plan-mode", &["--plan-mode=always"], "/planning/mode", json!("always")),
        flag("--no-plan", &["--no-plan"], "/planning/mode", json!("never")),
        flag("--approve-plan", &["--approve-plan"], "/planning/approve", json!(true)),
        flag("--parallel", &["--parallel=7"], "/planning/parallel", json!(7)),
        flag("--batch", &["--batch=9"], "/planning/batch", json!(9)),
        flag("--review-plan", &["--review-plan=off"], "/reviews/plan", json!("off")),
        flag("--review-task", &["--review-task=repair"], "/reviews/task", json!("repair")),
        flag("--review-final", &["--review-final=report"], "/reviews/final", json!("report")),
        flag("--cycles", &["--cycles=4"], "/reviews/cycles", json!(4)),
        flag("--allow-empty-diff", &["--allow-empty-diff"], "/empty_diff", json!("accepted")),
        flag("--land", &["--land=merge"], "/land", json!("merge")),
        flag("--spec", &["--spec=../../spec.md"], "/spec", json!("more\n")),
        flag("--name", &["--name=mine"], "/name", json!("mine")),
        flag("--agent", &["--agent=talks", "--review-task=off"], "/agent/name", json!("talks")),
        flag("--check", &["--check=a", "--check=b"], "/checks", json!(["a", "b"])),
        flag("--no-check", &["--no-check"], "/checks", json!([])),
        flag("--preset", &["--preset=careful"], "/preset", json!("careful")),
        flag("--triage", &["--no-triage", "--triage"], "/triage", json!(true)),
        flag("--no-triage", &["--no-triage"], "/triage", json!(false)),
        flag("--no-questions", &["--no-questions"], "/questions", json!(false)),
        flag("--answers", &["--answers=../../answers.json"], "/answers/q", json!(["yes"])),
        flag("--budget", &["--budget=5k"], "/budget/tokens", json!(5_000)),
        flag("--turns", &["--turns=6"], "/budget/turns", json!(6)),
        flag("--time-limit", &["--time-limit=9s"], "/bounds/time_limit_ms", json!(9_000)),
        flag("--env", &["--env=A=b"], "/agent/env/A", json!("b")),
        flag("--pass-env", &["--pass-env=LANG"], "/agent/pass_env/0", json!("LANG")),
        flag(
            "--codex-path",
            &["--codex-path=../../fake-codex"],
            "/agent/version",
            json!("0.166.0"),
        ),
        flag("--model", &["--model=m"], "/agent/settings/model", json!("m")),
        flag("--effort", &["--effort=low"], "/agent/settings/effort", json!("low")),
        flag(
            "--sandbox",
            &["--sandbox=full-access"],
            "/agent/settings/sandbox",
            json!("full-access"),
        ),
        flag("--network", &["--network"], "/agent/settings/network", json!(true)),
        flag(
            "--approvals",
            &["--approvals=untrusted"],
            "/agent/settings/approvals",
            json!("untrusted"),
        ),
    ]
}

/// Flags whose effect is not a single value of the run; each has its own test.
const FLAGS_TESTED_ELSEWHERE: [&str; 6] =
    ["--cwd", "--detach", "--ignore-project-config", "--key", "--json", "--help"];

#[test]
fn e10_run_flags_have_an_effect() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    fake_codex(&stage);
    let file = |name: &str, text: &str| fs::write(stage.file(name), text).unwrap();
    file("plan.toml", "[[task]]\nid = \"one\"\ntitle = \"One\"\ninstruction = \"Do it.\"\n");
    file("spec.md", "more\n");
    file("answers.json", "{\"answers\": {\"q\": {\"answers\": [\"yes\"]}}}");
    stage.configure(
        "verify.checks = [\"true\"]\n[agents.talks]\nadapter = \"jsonl\"\ncommand = [\"true\"]\n[agents.codex]\npath = \"../../../fake-codex\"\nmulti_agent = false\n",
    );
    let mut known: BTreeSet<String> =
        FLAGS_TESTED_ELSEWHERE.iter().map(|name| (*name).to_owned()).collect();
    for flag in run_flags() {
        known.insert(flag.name.to_owned());
        let plain: Vec<&str> =
            AWAITS_PLAN_APPROVAL.into_iter().filter(|word| is_compatible(&flag, word)).collect();
        let all = [&["run", "--detach", "--json"], &plain[..], flag.arguments, &["go"]].concat();
        let id = stage.provost_in(repo.path(), &all).ok().json()["id"].as_str().unwrap().to_owned();
        let spec = stage.events_of(&id, "run.opened")[0]["data"]["spec"].clone();
        let found = spec.pointer(flag.pointer);
        assert_eq!(found, Some(&flag.expected), "{} at {} in {spec:#}", flag.name, flag.pointer);
        stage.provost(&["cancel", &id]);
        stage.wait_sealed(&id);
    }
    let documented = documented_flags(&stage, "run");
    assert_eq!(
        documented, known,
        "every documented flag is tried, and every tried flag documented"
    );
}

/// Whether a default argument is compatible with the flag and is not set by it.
fn is_compatible(flag: &RunFlag, word: &str) -> bool {
    let planless = ["--plan-mode", "--no-plan", "--plan"].contains(&flag.name);
    match word {
        "--plan" | "../../plan.toml" => !planless,
        "--approve-plan" => flag.name != "--approve-plan",
        _ => true,
    }
}
