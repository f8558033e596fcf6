//! Every accepted key and flag has an observable effect, or is rejected.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use provost_testkit::env::TestEnv;

/// A configuration in which every key has a non-default value.
const NON_DEFAULT_CONFIG: &str = r#"
[session]
settle = "61ms"
stale_after = "62s"
drain = "63ms"
stop_grace = "64ms"
time_limit = "65m"
output_limit = "66MiB"
limit_jitter = "60ms"
limit_spacing = "70ms"
rework = 7
exit_zero_completes = true
allow_empty_diff = true
[verify]
checks = ["true"]
time_limit = "67s"
output_limit = "68KiB"
keep = ["cache"]
protected = ["ci"]
[run]
pull_every = "5s"
pull_checks = "7s"
comments_from = "everyone"
land = "merge"
triage = false
plan = "always"
approve_plan = true
parallel = 3
machine_parallel = 5
batch = 6
retries = 4
questions = false
[review]
plan = "report"
task = "repair"
final = "report"
cycles = 5
[prices]
currency = "EUR"
input = 1.25
output = 10
[prompts]
triage = "T {{task}}"
plan = "L {{task}}"
plan_review = "V {{task}}"
plan_faults = "F {{task}}"
next = "N {{task}}"
broken = "B {{task}}"
work = "W {{task}}"
review = "R {{task}}"
repair = "M {{task}}"
resume = "G {{task}}"
merge = "C {{task}}"
review_comments = "P {{task}}"
[terminal]
tmux = true
[worktree]
enabled = true
branch_prefix = "agents"
copy = [".env"]
setup = "true"
[budget]
tokens = "71k"
turns = 72
[approvals]
version = 1
allow = ["command: make test"]
ask = ["path: /srv"]
deny = ["network: .example.org"]
expire_after = "73m"
[skills]
roots = ["skills"]
[hooks]
time_limit = "69s"
output_limit = "70KiB"
[agents.helper]
adapter = "jsonl"
command = ["true", "one"]
pass_env = ["LENT_BY_AGENT"]
[agents.helper.env]
COLOUR = "blue"
[agents.codex]
path = "../../../fake-codex"
model = "m1"
effort = "high"
sandbox = "read-only"
network = true
approvals = "untrusted"
questions = false
multi_agent = true
home = "~/codex"
pass_env = ["LENT_TO_CODEX"]
[agents.codex.env]
COLOUR = "green"
[reactions.mine]
on = "context"
after = "77s"
at = 70
do = "hand_over"
text = "You are the second."
agent = "helper"
times = 2
total = 3
[monitor]
stale_after = "74s"
[verifiers.mine]
command = "true"
time_limit = "75s"
output_limit = "76KiB"
file = "made.yaml"
matches = "x"
field = "status"
equals = "done"
[workflows.mine]
verifier = "mine"
retries = 7
escalate = "preference"
defer_on_plateau = false
fallback = ["helper"]
[git]
filters = ["lfs"]
[environment]
allow = ["LENT_TO_ALL"]
[ui]
color = "always"
[presets.mine]
run = { land = "pr", triage = true, plan = "never", approve_plan = false, questions = true }
review = { plan = "off", task = "off", final = "off", cycles = 3 }
verify = { checks = ["make"], protected = ["Makefile"] }
skills.roots = ["more"]
budget = { tokens = "1M", turns = 9 }
session.time_limit = "9m"
agents.codex = { model = "m2", effort = "low" }
prompts = { triage = "t {{task}}", work = "w {{task}}", review = "r {{task}}", repair = "m {{task}}", resume = "g {{task}}" }
"#;

/// Returns the path of a key's value in the session's spec, and the expected value.
fn session_effect(key: &str) -> Option<(&'static str, Value)> {
    Some(match key {
        "session.settle" => ("/bounds/settle_ms", json!(61)),
        "session.stale_after" => ("/bounds/stale_ms", json!(62_000)),
        "session.drain" => ("/bounds/drain_ms", json!(63)),
        "session.stop_grace" => ("/bounds/stop_grace_ms", json!(64)),
        "session.time_limit" => ("/bounds/time_limit_ms", json!(65 * 60_000)),
        "session.output_limit" => ("/bounds/output_limit", json!(66 << 20)),
        "session.limit_jitter" => ("/bounds/limit_jitter_ms", json!(60)),
        "session.limit_spacing" => ("/bounds/limit_spacing_ms", json!(70)),
        "session.rework" => ("/bounds/rework", json!(7)),
        "session.exit_zero_completes" => ("/exit_zero", json!("completes")),
        "session.allow_empty_diff" => ("/empty_diff", json!("accepted")),
        "verify.checks" => ("/checks", json!(["true"])),
        "verify.time_limit" => ("/bounds/check_time_ms", json!(67_000)),
        "verify.output_limit" => ("/bounds/check_output", json!(68 << 10)),
        "verify.keep" => ("/keep", json!(["cache"])),
        "verify.protected" => ("/protected", json!(["ci"])),
        "worktree.enabled" => ("/work/worktree/copy/0", json!(".env")),
        "worktree.copy" => ("/work/worktree/copy", json!([".env"])),
        "worktree.setup" => ("/setup", json!("true")),
        "budget.tokens" => ("/budget/tokens", json!(71_000)),
        "budget.turns" => ("/budget/turns", json!(72)),
        "approvals.version" => ("/policy/version", json!(1)),
        "approvals.allow" => {
            ("/policy/rules/0", rule("allow", json!({"command": ["make", "test"]})))
        }
        "approvals.ask" => ("/policy/rules/1", rule("ask", json!({"path": "/srv"}))),
        "approvals.deny" => ("/policy/rules/2", rule("deny", json!({"network": ".example.org"}))),
        "approvals.expire_after" => ("/bounds/approval_ms", json!(73 * 60_000)),
        "hooks.time_limit" => ("/hooks/session.opened/time_limit_ms", json!(69_000)),
        "hooks.output_limit" => ("/hooks/session.opened/output_limit", json!(70 << 10)),
        "reactions.*.on" | "reactions.*.at" => {
            ("/reactions/0/on", json!({"context": {"percent": 70}}))
        }
        "reactions.*.after" => ("/reactions/0/after_ms", json!(77_000)),
        "reactions.*.do" | "reactions.*.agent" => {
            ("/reactions/0/act/hand_over/agent/name", json!("helper"))
        }
        "reactions.*.text" => ("/reactions/0/act/hand_over/text", json!("You are the second.")),
        "reactions.*.times" => ("/reactions/0/times", json!(2)),
        "reactions.*.total" => ("/reactions/0/total", json!(3)),
        "agents.*.adapter" => ("/agent/adapter", json!("jsonl")),
        "agents.*.command" => ("/agent/argv", json!(["true", "one"])),
        "agents.*.env.*" => ("/agent/env/COLOUR", json!("blue")),
        "agents.*.pass_env" => ("/agent/pass_env/0", json!("LENT_BY_AGENT")),
        "environment.allow" => ("/agent/pass_env/1", json!("LENT_TO_ALL")),
        _ => return None,
    })
}

fn rule(decision: &str, matches: Value) -> Value {
    json!({"decision": decision, "matches": matches})
}

/// Returns the path of a key's value in the spec of a Codex session, and the expected value.
fn codex_effect(key: &str) -> Option<(&'static str, Value)> {
    Some(match key {
        "agents.codex.model" => ("/agent/settings/model", json!("m1")),
        "agents.codex.effort" => ("/agent/settings/effort", json!("high")),
        "agents.codex.sandbox" => ("/agent/settings/sandbox", json!("read-only")),
        "agents.codex.network" => ("/agent/settings/network", json!(true)),
        "agents.codex.approvals" => ("/agent/settings/approvals", json!("untrusted")),
        "agents.codex.multi_agent" => ("/agent/settings/multi_agent/on", json!(true)),
        "agents.codex.questions" => ("/agent/settings/questions", json!(false)),
        "agents.codex.env.*" => ("/agent/env/COLOUR", json!("green")),
        "agents.codex.pass_env" => ("/agent/pass_env/1", json!("LENT_TO_CODEX")),
        _ => return None,
    })
}

/// Returns the path of a key's value in the run's spec, and the expected value.
fn run_effect(key: &str) -> Option<(&'static str, Value)> {
    Some(match key {
        "run.land" => ("/land", json!("merge")),
        "run.triage" => ("/triage", json!(false)),
        "run.plan" => ("/planning/mode", json!("always")),
        "run.approve_plan" => ("/planning/approve", json!(true)),
        "run.parallel" => ("/planning/parallel", json!(3)),
        "run.machine_parallel" => ("/planning/machine_parallel", json!(5)),
        "run.batch" => ("/planning/batch", json!(6)),
        "run.retries" => ("/planning/retries", json!(4)),
        "run.questions" => ("/questions", json!(false)),
        "review.plan" => ("/reviews/plan", json!("report")),
        "review.task" => ("/reviews/task", json!("repair")),
        "review.final" => ("/reviews/final", json!("report")),
        "review.cycles" => ("/reviews/cycles", json!(5)),
        "prices.currency" => ("/prices/currency", json!("EUR")),
        "prices.input" => ("/prices/input", json!(1_250_000)),
        "prices.output" => ("/prices/output", json!(10_000_000)),
        "prompts.triage" => ("/templates/triage", json!("T {{task}}")),
        "prompts.plan" => ("/templates/plan", json!("L {{task}}")),
        "prompts.plan_review" => ("/templates/plan_review", json!("V {{task}}")),
        "prompts.plan_faults" => ("/templates/plan_faults", json!("F {{task}}")),
        "prompts.next" => ("/templates/next", json!("N {{task}}")),
        "prompts.broken" => ("/templates/broken", json!("B {{task}}")),
        "prompts.work" => ("/templates/work", json!("W {{task}}")),
        "prompts.review" => ("/templates/review", json!("R {{task}}")),
        "prompts.repair" => ("/templates/repair", json!("M {{task}}")),
        "prompts.resume" => ("/templates/resume", json!("G {{task}}")),
        "prompts.merge" => ("/templates/merge", json!("C {{task}}")),
        "prompts.review_comments" => ("/templates/review_comments", json!("P {{task}}")),
        "run.pull_every" => ("/pull_every_ms", json!(5_000)),
        "run.pull_checks" => ("/pull_checks_ms", json!(7_000)),
        "run.comments_from" => ("/comments_from", json!("everyone")),
        _ => return None,
    })
}

/// Opens a run in the repository and returns its id and spec.
fn open_run(stage: &TestEnv, repo: &provost_testkit::harness::TestRepo) -> (String, Value) {
    let opened =
        run_without_settle(stage.home.command(&["run", "--detach", "--json", "do it"]), repo);
    let id = opened.ok().json()["id"].as_str().unwrap().to_owned();
    let events = stage.home.provost(&["events", &id, "--json"]).ok().json();
    let events = events["events"].as_array().unwrap();
    let opened = events.iter().find(|event| event["kind"] == "run.opened").unwrap();
    (id, opened["data"]["spec"].clone())
}

/// Writes a program that prints a version as Codex does and supports nothing else.
pub(crate) fn fake_codex(stage: &TestEnv) {
    let path = stage.home.root().join("fake-codex");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'codex-cli 0.166.0' || exit 1\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(stage.home.root().join("user/codex")).unwrap();
}

/// A loop and a policy in which every key has a non-default value.
const NON_DEFAULT_LOOP_AND_POLICY: &str = r#"
[loops.mine]
from = "build"
max = 7
clean_up = "compact"
plateau = 6
tokens = "5M"
tools = ["ruler"]
evidence.notes = "asserted"
[policies.mine]
actions = 9
check = false
rework = 8
rework_text = "once more"
accept = true
nudge_after = "7s"
nudges = 6
nudge_text = "go on"
continue_loop = false
finish = false
"#;

#[test]
fn e10_loop_and_policy_keys_are_in_the_opened_team() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure(NON_DEFAULT_LOOP_AND_POLICY);
    let words = [
        "team",
        "start",
        "do it well",
        "--name",
        "steered",
        "--pull",
        "--worker",
        "hand",
        "--manager",
        "policy:mine",
        "--loop",
        "mine",
        "--check",
        "true",
        "--json",
    ];
    run_without_settle(stage.home.command(&words), &repo).ok();
    let events = stage.home.provost(&["events", "--json", "--limit", "1000"]).ok().json();
    let data = |kind: &str| {
        let mut events = events["events"].as_array().unwrap().iter();
        events.find(|event| event["kind"] == kind).unwrap()["data"].clone()
    };
    let (opened, begun) = (data("team.opened"), data("team.loop_begun"));
    let (policy, template) = (&opened["spec"]["policy"], &begun["template"]);
    let expected = json!({
        "name": "mine", "actions": 9, "check": false, "rework": 8, "rework_text": "once more", "accept": true,
        "nudge_after_ms": 7000, "nudges": 6, "nudge_text": "go on", "continue_loop": false, "finish": false,
    });
    assert_eq!(policy, &expected);
    let names: Vec<&str> = template["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["checks", "report", "notes"],
        "those of the loop that it begins from, and its own"
    );
    let values = ["max", "clean_up", "plateau", "tokens", "tools"].map(|key| template[key].clone());
    assert_eq!(values, [json!(7), json!("compact"), json!(6), json!(5_000_000), json!(["ruler"])]);
}

#[test]
fn e10_config_keys_are_shown_and_have_an_effect() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let hooks = config_keys().filter_map(|key| key.strip_prefix("hooks.").map(str::to_owned));
    let hooks: String = hooks
        .filter(|event| event.contains('.'))
        .map(|event| format!("{event} = \"true\"\n"))
        .collect();
    stage.configure(
        &NON_DEFAULT_CONFIG.replace("[agents.helper]", &format!("{hooks}[agents.helper]")),
    );
    let shown = stage.home.command(&["config", "show", "--json"]);
    let shown = run_without_settle(shown, &repo).json();
    let id =
        run_without_settle(stage.home.command(&["spawn", "--agent", "helper", "--json"]), &repo);
    let id = id.ok().json()["id"].as_str().unwrap().to_owned();
    let spec = stage.spec(&id);
    fake_codex(&stage);
    let codex = run_without_settle(
        stage.home.command(&["spawn", "--agent", "codex", "--json", "do it"]),
        &repo,
    );
    let codex = codex.ok().json()["id"].as_str().unwrap().to_owned();
    let codex_spec = stage.spec(&codex);
    let (run, run_spec) = open_run(&stage, &repo);
    // Presets, loops and policies have their own tests.
    let elsewhere = ["presets.", "loops.", "policies."];
    let here = |key: &String| !elsewhere.iter().any(|prefix| key.starts_with(prefix));
    for key in config_keys().filter(here) {
        assert_shown(&shown, &key);
        if let Some(event) = key.strip_prefix("hooks.").filter(|event| event.contains('.')) {
            let owner = if event.starts_with("run.") { &run_spec } else { &spec };
            assert_eq!(owner["hooks"][event]["argv"], json!(["sh", "-c", "true"]), "{key}");
        } else if let Some((pointer, expected)) = run_effect(&key) {
            let found = run_spec.pointer(pointer);
            assert_eq!(found, Some(&expected), "{key} at {pointer} in {run_spec:#}");
        } else if let Some((pointer, expected)) = session_effect(&key) {
            assert_eq!(spec.pointer(pointer), Some(&expected), "{key} at {pointer} in {spec:#}");
        } else if let Some((pointer, expected)) = codex_effect(&key) {
            let found = codex_spec.pointer(pointer);
            assert_eq!(found, Some(&expected), "{key} at {pointer} in {codex_spec:#}");
        } else {
            assert_special_effect(&stage, &key, &spec, &codex_spec["agent"]);
        }
    }
    // The session may have ended already. In that case the cancel is refused.
    drop(stage.home.provost(&["cancel", &codex]));
    stage.wait_sealed(&codex);
    stage.wait_sealed(&id);
    stage.home.wait_state(&run, |row| row["sealed"] == true);
}

#[test]
fn e10_preset_keys_set_their_keys() {
    let stage = TestEnv::new();
    stage.configure(NON_DEFAULT_CONFIG);
    let shown = stage.home.provost(&["presets", "mine", "--json"]).ok().json();
    let entries = shown["presets"]["mine"].as_array().unwrap();
    let named = config_keys().filter_map(|key| key.strip_prefix("presets.*.").map(str::to_owned));
    for key in named.collect::<Vec<_>>() {
        let entry = entries.iter().find(|entry| entry["key"] == key.as_str());
        let entry = entry.unwrap_or_else(|| panic!("{key} is not shown"));
        assert_eq!(entry["source"]["layer"], "preset", "{entry}");
    }
}

/// Keys that are tested elsewhere. Only `provost monitor` reads most of them, and it has its own
/// tests. Git filters are tested in the boundary suite.
const TESTED_ELSEWHERE: [&str; 4] = ["monitor.", "verifiers.*.", "workflows.*.", "git."];

/// Checks keys whose effect is not a single value of the session.
fn assert_special_effect(stage: &TestEnv, key: &str, spec: &Value, codex: &Value) {
    match key {
        "agents.codex.path" => {
            let argv = codex["argv"].as_array().unwrap();
            assert!(
                argv.len() == 1 && argv[0].as_str().unwrap().ends_with("fake-codex"),
                "{codex:#}"
            );
            assert_eq!(codex["version"], "0.166.0");
        }
        "agents.codex.home" => {
            assert_eq!(codex["profile"]["agent_home"], json!(stage.file("user/codex")));
        }
        "skills.roots" => {
            let root = stage.file("user/.config/provost/skills");
            assert_eq!(codex["profile"]["skills"], json!([root]));
        }
        "worktree.branch_prefix" => {
            let branch = spec["work"]["worktree"]["branch"].as_str().unwrap();
            assert!(branch.starts_with("agents/"), "{branch}");
        }
        "terminal.tmux" => {
            // The command that opens the session also opens the window, and writes the tmux
            // settings first.
            let flags = ["--tty", "--no-worktree", "--no-check", "--json", "--", "true"];
            let spawned = stage.home.provost(&[&["spawn"], flags.as_slice()].concat());
            stage.wait_sealed(spawned.ok().json()["id"].as_str().unwrap());
            assert!(stage.home.path().join("tmux.conf").exists());
        }
        "ui.color" => {
            let listed = stage.home.provost(&["config", "show"]);
            assert!(listed.ok().stdout.contains('\u{1b}'), "colours were asked for");
        }
        key if TESTED_ELSEWHERE.iter().any(|section| key.starts_with(section)) => {}
        _ => panic!(
            "the key {key} has no effect that a test knows: an accepted key that does nothing is a lie"
        ),
    }
}

#[track_caller]
fn assert_shown(shown: &Value, key: &str) {
    let name = key
        .replace("agents.*", "agents.helper")
        .replace("env.*", "env.COLOUR")
        .replace('*', "mine");
    let entry =
        shown["entries"].as_array().unwrap().iter().find(|entry| entry["key"] == name.as_str());
    let entry = entry.unwrap_or_else(|| panic!("{name} is not shown"));
    assert!(entry["source"].to_string().contains("user"), "{entry}");
}

fn config_keys() -> impl Iterator<Item = String> {
    provost_config::keys().map(|key| key.name().to_owned())
}

/// Runs a command in the repository without the variable that shortens the settle window in all other tests.
fn run_without_settle(
    mut command: std::process::Command,
    repo: &provost_testkit::harness::TestRepo,
) -> provost_testkit::harness::ProgramOutput {
    command.env_remove("PROVOST_SESSION_SETTLE").current_dir(repo.path());
    provost_testkit::env::output_of(command)
}

#[test]
fn e10_unknown_keys_are_rejected_with_a_suggestion() {
    let stage = TestEnv::new();
    let wrong = [
        ("[session]\nsetle = \"1s\"", "settle"),
        ("[sesion]\nsettle = \"1s\"", "session"),
        ("[hooks]\nsession.complete = \"true\"", "session.completed"),
        ("[session]\nsettle = \"soon\"", "settle"),
        ("[ui]\ncolor = \"alwais\"", "always"),
    ];
    for (toml, hint) in wrong {
        stage.configure(toml);
        let error = stage.home.provost(&["spawn", "--json", "--", "true"]).assert_code(2).json();
        assert!(error["error"]["message"].as_str().unwrap().contains(hint), "{toml}: {error}");
        stage.home.provost(&["config", "show", "--json"]).assert_code(2);
    }
    assert!(!stage.home.path().join("ledger").exists(), "nothing was recorded");
}
