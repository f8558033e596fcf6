//! `provost monitor`: one blocking wait, its output and its exit code. It reads artifacts and
//! changes nothing.

use std::{
    fs,
    process::{Child, Stdio},
};

use provost_testkit::harness::{ProgramOutput, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::run_env::RunEnv;
use provost_testkit::env::{HANGS, TestEnv, is_running, signal};

/// An agent that reports completion once the file `go` exists.
const COMPLETES_ON_GO: &str = "[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n";

/// An agent that writes a sprint file with this status and reports completion.
fn leaves_sprint(status: &str) -> String {
    let content = format!("development_status:\\n  1-2-login: {status}\\n");
    format!(
        "[[step]]\nwrite = {{ path = \"_bmad-output/implementation-artifacts/sprint-status.yaml\", content = \"{content}\" }}\n[[step]]\nreport = \"completed\"\n"
    )
}

#[track_caller]
fn monitor(stage: &TestEnv, arguments: &[&str]) -> ProgramOutput {
    stage.home.provost(&[&["monitor", "--json"], arguments].concat())
}

/// Monitors one session and returns its result.
#[track_caller]
fn monitor_result(stage: &TestEnv, arguments: &[&str], code: i32) -> Value {
    let reply = monitor(stage, arguments).assert_code(code).json();
    assert_eq!((&reply["ok"], &reply["exit_code"]), (&json!(code == 0), &json!(code)), "{reply}");
    reply["results"][0].clone()
}

#[track_caller]
fn assert_refused(stage: &TestEnv, arguments: &[&str], hint: &str) {
    let error = monitor(stage, arguments).assert_code(2).json();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(hint), "{arguments:?}: {message}");
}

fn start_monitor(stage: &TestEnv, arguments: &[&str]) -> Child {
    let mut command = stage.home.command(&[&["monitor", "--json"], arguments].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn m19_verdict_is_in_json_and_exit_code() {
    let stage = TestEnv::new();
    let samples = [
        ("completed_exit0", "completed", "completed", 0),
        ("exit0_silent", "incomplete", "exited_without_claim", 1),
        ("exit1_silent", "failed", "failed", 1),
        ("working_killed9", "failed", "failed", 1),
        ("needs_input_exit0", "needs_input", "needs_input", 7),
    ];
    for (sample, word, state, code) in samples {
        let id = stage.spawn_sample(sample, &[]);
        let found = monitor_result(&stage, &[&id], code);
        assert_eq!((&found["result"], &found["final_state"]), (&json!(word), &json!(state)));
        assert!(!found["reason"].as_str().unwrap().is_empty(), "{found}");
        assert_eq!((&found["output_verified"], &found["verifier"]), (&json!(false), &Value::Null));
    }
    let asking = stage.spawn_sample("needs_input_exit0", &[]);
    let asked = stage.home.provost(&["monitor", &asking]);
    assert!(asked.assert_code(7).stderr.contains("the session needs input: "), "{asked:#?}");
    let error = monitor(&stage, &[&asking]).assert_code(7).json()["error"].clone();
    assert_eq!(error["code"], "input_needed", "{error}");
    let known = [&asking, "--compat", "story-automator"];
    assert_eq!(monitor(&stage, &known).ok().json()["final_state"], "needs_input");
    let silent = stage.spawn_scenario(HANGS, &[]);
    stage.pid(&silent);
    let found = monitor_result(&stage, &[&silent, "--stale-after", "50ms"], 1);
    assert_eq!(found["result"], "stuck", "{found}");
    let found = monitor_result(&stage, &[&silent, "--timeout", "50ms"], 5);
    assert_eq!(found["result"], "timed_out", "{found}");
    monitor(&stage, &["nobody"]).assert_code(3);
    monitor(&stage, &[]).assert_code(2);
}

#[test]
fn m7_sigstopped_process_is_suspended_not_stuck() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    let pid = stage.pid(&id);
    signal(pid, Signal::STOP);
    let row = stage.wait_state(&id, |row| row["flags"].to_string().contains("suspended"));
    assert_eq!(row["state"], "working", "{row:#}");
    let found = monitor_result(&stage, &[&id, "--stale-after", "50ms", "--timeout", "300ms"], 5);
    assert_eq!(found["result"], "timed_out", "{found}");
    let why = stage.home.provost(&["status", &id, "--why"]).ok().stdout.clone();
    assert!(why.contains("suspended: a signal stopped it"), "{why}");
    assert!(why.contains("a signal stopped its process") && !why.contains("was heard"), "{why}");
    signal(pid, Signal::CONT);
    let found = monitor_result(&stage, &[&id, "--stale-after", "50ms"], 1);
    assert_eq!(found["result"], "stuck", "{found}");
}

#[test]
fn m19_worst_session_decides_the_exit_code() {
    let stage = TestEnv::new();
    let good = stage.spawn_sample("completed_exit0", &[]);
    let bad = stage.spawn_sample("exit1_silent", &[]);
    let hanging = stage.spawn_scenario(HANGS, &[]);
    let results = |arguments: &[&str], code| {
        let reply = monitor(&stage, arguments).assert_code(code).json();
        let results = reply["results"].as_array().unwrap().iter();
        results.map(|one| one["result"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(results(&[&good, &bad, "--all"], 1), ["completed", "failed"]);
    stage.wait_sealed(&good);
    assert_eq!(results(&[&hanging, &good, "--any"], 0), [Value::Null, json!("completed")]);
    assert_eq!(results(&[&good, &hanging, "--timeout", "50ms"], 5), ["completed", "timed_out"]);
    assert_eq!(results(&[&bad, &hanging, "--timeout", "50ms"], 1), ["failed", "timed_out"]);
    assert_eq!(results(&[&good, &good], 0), ["completed"], "who is named twice is watched once");
}

#[test]
fn m19_run_is_monitored_like_a_session() {
    let env = RunEnv::new("while [ ! -e \"$GO\" ]; do sleep 0.05; done; echo a > a");
    let stage = &env.stage;
    let go = stage.file("go");
    let with = format!("[agents.talker.env]\nGO = {go:?}\n");
    let config = stage.home.root().join("user/.config/provost/provost.toml");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &with).unwrap();
    let id = env.open_run(&["--check", "test -e a"]);
    let found = monitor_result(stage, &[&id, "--timeout", "50ms"], 5);
    assert_eq!((&found["kind"], &found["result"]), (&json!("run"), &json!("timed_out")));
    let watching = start_monitor(stage, &[&id]);
    stage.home.daemon().kill();
    fs::write(go, "").unwrap();
    let output = watching.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{reply}");
    let found = &reply["results"][0];
    assert_eq!(
        (&found["result"], &found["final_state"]),
        (&json!("completed"), &json!("succeeded"))
    );
    assert_eq!((&found["verifier"], &found["output_verified"]), (&json!("checks"), &json!(true)));
}

#[test]
fn m8_watch_has_no_default_timeout_and_outlives_daemon() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(COMPLETES_ON_GO, &[]);
    stage.pid(&id);
    assert_eq!(monitor_result(&stage, &[&id, "--timeout", "50ms"], 5)["result"], "timed_out");
    let watching = start_monitor(&stage, &[&id]);
    for _ in 0..2 {
        stage.home.daemon().kill();
        // Any command starts the next daemon.
        assert_eq!(stage.status(&id)["state"], "working");
    }
    fs::write(stage.home.root().join("go"), "").unwrap();
    let output = watching.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{reply}");
    assert_eq!(reply["results"][0]["result"], "completed");
}

#[test]
fn m8_reached_state_ends_the_watch() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(COMPLETES_ON_GO, &[]);
    let found = monitor_result(&stage, &[&id, "--until", "working"], 0);
    assert_eq!((&found["result"], &found["reached"]), (&json!("reached"), &json!(true)));
    let watching = start_monitor(&stage, &[&id, "--until", "needs_input"]);
    fs::write(stage.home.root().join("go"), "").unwrap();
    let output = watching.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "it never came to that: {reply}");
    let found = &reply["results"][0];
    assert_eq!((&found["result"], &found["reached"]), (&json!("completed"), &json!(false)));
    assert_refused(&stage, &[&id, "--until", "stuck"], "stalled");
}

#[test]
fn m8_reached_state_is_the_result() {
    let stage = TestEnv::new();
    let silent = stage.spawn_scenario(HANGS, &[]);
    stage.wait_state(&silent, |row| row["state"] == "working");
    let until = ["--stale-after", "10ms", "--until", "working"];
    let found = monitor_result(&stage, &[&[&silent[..]], &until[..]].concat(), 0);
    assert_eq!((&found["result"], &found["reached"]), (&json!("reached"), &json!(true)));
    let compat = |id: &str, until: &str, word: &str| {
        let known = ["--compat", "story-automator", "--until", until];
        let shown = monitor(&stage, &[&[id], &known[..]].concat()).ok().json();
        assert_eq!(shown["final_state"], word, "{shown}");
    };
    compat(&silent, "working", "reached");
    let unclaimed = stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    let found = monitor_result(&stage, &[&unclaimed, "--until", "exited_without_claim"], 0);
    assert_eq!((&found["result"], &found["reached"]), (&json!("reached"), &json!(true)));
    compat(&unclaimed, "exited_without_claim", "reached");
    let behind = stage.spawn_scenario(&leaves_sprint("review"), &[]);
    let review = ["--workflow", "review", "--item", "1-2", "--until", "completed"];
    let found = monitor_result(&stage, &[&[&behind[..]], &review[..]].concat(), 1);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("reached"), &json!(false)));
    assert_eq!(found["advice"], Value::Null, "nothing is proved");
    let known = ["--compat", "story-automator"];
    let shown = monitor(&stage, &[&[&behind[..]], &known[..], &review[..]].concat());
    assert_eq!(
        shown.assert_code(1).json()["final_state"],
        "incomplete",
        "it does not count as done"
    );
    let proved = stage.spawn_scenario(&leaves_sprint("done"), &[]);
    let found = monitor_result(&stage, &[&[&proved[..]], &review[..]].concat(), 0);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("reached"), &json!(true)));
    compat(&behind, "completed", "completed");
}

#[test]
fn m12_paths_are_paths_or_null() {
    let stage = TestEnv::new();
    let id = stage.spawn_sample("completed_exit0", &[]);
    let compat = ["--compat", "story-automator"];
    let found = monitor(&stage, &[&[&id[..]], &compat[..]].concat()).ok().json();
    let path = found["output_file"].as_str().unwrap();
    assert!(fs::metadata(path).unwrap().is_file(), "{path}");
    let absent = stage.spawn_in(stage.home.root(), &["--", "/no/such/program"]);
    let found = monitor(&stage, &[&[&absent[..]], &compat[..]].concat()).assert_code(1).json();
    let path = &found["output_file"];
    assert!(path.is_null() || fs::metadata(path.as_str().unwrap()).unwrap().is_file(), "{found}");
    assert_eq!(found["final_state"], "crashed");
    assert_refused(&stage, &[&id, &absent, "--compat", "story-automator"], "only one session");
}

#[test]
fn m13_commas_and_quotes_are_escaped() {
    let stage = TestEnv::new();
    let name = "a, \"b\",c;\td";
    let message = "1,2,\"3\"";
    let scenario = format!("[[step]]\nreport = \"failed\"\nmessage = {message:?}\n");
    let id = stage.spawn_scenario(&scenario, &["--name", "a, \"b\",c; d"]);
    let found = monitor_result(&stage, &[&id], 1);
    assert_eq!(found["name"], json!(name.replace('\t', " ")));
    let output = stage.home.provost(&["monitor", &id]).assert_code(1).stdout.clone();
    assert_eq!(output.lines().count(), 1, "{output}");
    let compat = stage.home.provost(&["monitor", &id, "--compat", "story-automator"]);
    assert_eq!(compat.assert_code(1).json_lines().len(), 1, "one object, with or without --json");
}

#[test]
fn m17_exit_0_is_not_verified_work() {
    let stage = TestEnv::new();
    let id =
        stage.spawn_scenario("[[step]]\nsay = \"usage limit reached\"\n[[step]]\nexit = 0\n", &[]);
    let found = monitor_result(&stage, &[&id], 1);
    assert_eq!(found["result"], "incomplete");
    let found = monitor_result(&stage, &[&id, "--workflow", "dev", "--item", "1-2"], 1);
    assert_eq!(
        (&found["result"], &found["output_verified"]),
        (&json!("incomplete"), &json!(false))
    );
}

#[test]
fn m21_progress_comes_from_plan_or_projection() {
    let stage = TestEnv::new();
    let emits = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
emit = { type = "turn_started", turn = "1" }
[[step]]
emit = { type = "progress", done = 2, total = 5 }
[[step]]
hang = true
"#;
    stage.configure_talker(emits, "session.stop_grace = \"100ms\"");
    let compat = |id: &str, code| {
        let arguments = [id, "--compat", "story-automator", "--timeout", "50ms"];
        let found = monitor(&stage, &arguments).assert_code(code).json();
        (found["progress"].clone(), found["progress_source"].clone(), found["todos_total"].clone())
    };
    let planned = stage.spawn_in(stage.home.root(), &["--agent", "talker", "do it"]);
    stage.wait_state(&planned, |row| !row["progress"].is_null());
    assert_eq!(compat(&planned, 5), (json!("2/5"), json!("agent"), json!(5)));
    let silent = stage.spawn_scenario(COMPLETES_ON_GO, &[]);
    stage.pid(&silent);
    assert_eq!(compat(&silent, 5), (json!("0/1"), json!("projection"), json!(1)));
    fs::write(stage.home.root().join("go"), "").unwrap();
    stage.wait_sealed(&silent);
    assert_eq!(compat(&silent, 0), (json!("1/1"), json!("projection"), json!(1)));
    let found = monitor_result(&stage, &[&silent], 0);
    assert_eq!(found["facts"]["progress"], Value::Null, "no source reports it");
}

#[test]
fn m25_monitor_changes_nothing() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(HANGS, &[]);
    stage.pid(&id);
    let before = stage.events(&id);
    let found = monitor_result(&stage, &[&id, "--stale-after", "20ms"], 1);
    assert_eq!(found["result"], "stuck", "{found}");
    monitor_result(&stage, &[&id, "--timeout", "20ms"], 5);
    monitor(&stage, &[&id, "--stale-after", "20ms", "--compat", "story-automator"]).assert_code(1);
    assert_eq!(stage.events(&id), before);
    assert_eq!(stage.status(&id)["state"], "working");
}

#[test]
fn m25_silence_window_names_its_source() {
    let mut stage = TestEnv::new();
    stage.configure("monitor.stale_after = \"40s\"\n");
    let id = stage.spawn_sample("completed_exit0", &[]);
    let window = |stage: &TestEnv, arguments: &[&str]| {
        let reply = monitor(stage, &[&[&id[..]], arguments].concat()).ok().json();
        reply["stale_after"]["ms"].as_u64().unwrap() / 1000
    };
    assert_eq!(window(&stage, &[]), 40);
    stage.home.set_env("CODEX_OUTPUT_STALE_SECONDS", "30");
    assert_eq!(window(&stage, &[]), 30);
    stage.home.set_env("PROVOST_STALE_SECONDS", "20");
    assert_eq!(window(&stage, &[]), 20);
    assert_eq!(window(&stage, &["--stale-after", "10"]), 10);
    assert_refused(&stage, &[&id, "--stale-after", "0"], "--stale-after");
    assert_refused(&stage, &[&id, "--stale-after", "soon"], "--stale-after");
    stage.home.set_env("PROVOST_STALE_SECONDS", "soon");
    assert_refused(&stage, &[&id], "PROVOST_STALE_SECONDS");
    assert_eq!(window(&stage, &["--stale-after", "10"]), 10, "only what counts is looked at");
    stage.home.set_env("PROVOST_STALE_SECONDS", "");
    stage.home.set_env("CODEX_OUTPUT_STALE_SECONDS", "1.5");
    assert_refused(&stage, &[&id], "CODEX_OUTPUT_STALE_SECONDS");
}

#[test]
fn m25_unparsed_output_is_not_silence() {
    let stage = TestEnv::new();
    let talks = "[[step]]\nsay = \"here\"\n[[step]]\nwait_file = \"more\"\n[[step]]\nsay = \"again\"\n[[step]]\nhang = true\n";
    let id = stage.spawn_scenario(talks, &[]);
    let heard =
        stage.wait_state(&id, |row| row["last_activity_at"].is_i64())["last_activity_at"].clone();
    fs::write(stage.home.root().join("more"), "").unwrap();
    let later = |row: &Value| row["last_activity_at"].as_i64() > heard.as_i64();
    stage.wait_state(&id, later);
    let found = monitor_result(&stage, &[&id, "--timeout", "20ms"], 5);
    assert!(found["facts"]["last_activity_at"].as_i64() > heard.as_i64(), "{found}");
}

#[test]
fn workflow_is_checked_against_the_artifacts() {
    let stage = TestEnv::new();
    let of = |key: &'static str| ["--workflow", "review", "--item", key];
    let done = stage.spawn_scenario(&leaves_sprint("done"), &[]);
    let found = monitor_result(&stage, &[&[&done[..]], &of("1.2")[..]].concat(), 0);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("completed"), &json!(true)));
    assert_eq!(found["verifier"], "bmad-review");
    assert_eq!(found["advice"]["what"], "proceed");
    let found = monitor_result(&stage, &[&[&done[..]], &of("1-3")[..]].concat(), 1);
    assert_eq!(
        (&found["result"], &found["final_state"]),
        (&json!("incomplete"), &json!("completed"))
    );
    let open = stage.spawn_scenario(&leaves_sprint("in-progress"), &[]);
    let found = monitor_result(&stage, &[&[&open[..]], &of("1-2-login")[..]].concat(), 1);
    assert_eq!(found["facts"]["refuted"]["word"], "differs");
    assert_eq!(
        found["advice"],
        json!({"what": "retry", "because": "4 of 4 retries are left", "tries_left": 4, "agent": null})
    );
    let compat = [&[&open[..], "--compat", "story-automator"], &of("1-2")[..]].concat();
    let found = monitor(&stage, &compat).assert_code(1).json();
    assert_eq!(
        (&found["final_state"], &found["output_verified"]),
        (&json!("incomplete"), &json!(false))
    );
    assert_eq!(found["verifier"], "bmad-review");
    assert!(found["reason"].as_str().unwrap().contains("in-progress"), "{found}");
}

#[test]
fn missing_required_proof_is_not_success() {
    let stage = TestEnv::new();
    let asks = stage.spawn_sample("needs_input_exit0", &[]);
    let dev = ["--workflow", "dev", "--item", "1-2"];
    let found = monitor_result(&stage, &[&[&asks[..]], &dev[..]].concat(), 1);
    assert_eq!(
        (&found["result"], &found["advice"]["what"]),
        (&json!("needs_input"), &json!("escalate"))
    );
    let failed = stage
        .spawn_scenario(&format!("{}[[step]]\nexit = 3\n", leaves_sprint("done")), &["--no-check"]);
    stage.wait_sealed(&failed);
    let found = monitor_result(&stage, &[&[&failed[..]], &dev[..]].concat(), 1);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("failed"), &json!(true)));
}

#[test]
fn invalid_arguments_are_refused_before_watching() {
    let stage = TestEnv::new();
    stage.configure("[verifiers.both]\ncommand = \"true\"\nfile = \"x\"\n[workflows.both]\nverifier = \"both\"\n[workflows.none]\nverifier = \"nobody\"\n[workflows.else]\nverifier = \"bmad-dev\"\nfallback = [\"nope\"]\n");
    let id = stage.spawn_scenario(HANGS, &[]);
    assert_refused(&stage, &[&id, "--workflow", "dev"], "--item");
    assert_refused(&stage, &[&id, "--item", "1-2"], "--workflow");
    assert_refused(&stage, &[&id, "--workflow", "dve", "--item", "1-2"], "did you mean \"dev\"?");
    assert_refused(&stage, &[&id, "--workflow", "both", "--item", "1-2"], "command and a file");
    assert_refused(&stage, &[&id, "--workflow", "none", "--item", "1-2"], "nobody");
    for key in ["../x", "", "a b", "-x", "a;b"] {
        assert_refused(&stage, &[&id, "--workflow", "dev", &format!("--item={key}")], "1-2-login");
    }
    for (workflow, key) in [("dev", "PAY-7"), ("retro", "x")] {
        assert_refused(&stage, &[&id, "--workflow", workflow, "--item", key], "invalid key");
    }
    assert_refused(
        &stage,
        &[&id, "--workflow", "else", "--item", "1-2"],
        "workflows.else.fallback",
    );
    let previous = ["--workflow", "dev", "--item", "1-2", "--previous"];
    for text in ["{", "{}", "{\"results\":[]}"] {
        assert_refused(&stage, &[&[&id[..]], &previous[..], &[text]].concat(), "--previous");
    }
    assert_refused(&stage, &[&id, "--timeout", "never"], "--timeout");
    assert_refused(&stage, &[&id, "--any", "--all"], "--all");
    assert_refused(&stage, &[&id, "--compat", "other"], "story-automator");
}

/// The configuration that the monitor reads, besides `monitor.stale_after`.
const VERIFIERS: &str = r#"
[verifiers.slow]
command = "echo $$ > slow.pid; sleep 600 & wait"
time_limit = "200ms"
[verifiers.loud]
command = ["head", "-c", "5000", "/dev/zero"]
output_limit = "1KiB"
[verifiers.good]
command = ["test", "-e", "made-{key}"]
[verifiers.line]
file = "made-*"
matches = "status: (done|{key})"
[verifiers.field]
file = "made.yaml"
field = "status.{key}"
equals = "done"
[verifiers.absent]
command = ["/no/such/program"]
[verifiers.says]
command = "echo all is well; echo 3 of 7 are red >&2; exit 1"
[agents.other]
command = ["true"]
[workflows.absent]
verifier = "absent"
[workflows.says]
verifier = "says"
[workflows.slow]
verifier = "slow"
retries = 0
escalate = "preference"
[workflows.loud]
verifier = "loud"
retries = 0
[workflows.good]
verifier = "good"
[workflows.line]
verifier = "line"
fallback = ["other"]
[workflows.field]
verifier = "field"
defer_on_plateau = false
"#;

#[test]
fn e10_verifier_and_workflow_keys_have_an_effect() {
    let stage = TestEnv::new();
    stage.configure(VERIFIERS);
    let makes = "[[step]]\nwrite = { path = \"made-k\", content = \"status: k\\n\" }\n[[step]]\nwrite = { path = \"made.yaml\", content = \"status: {k: open}\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario(makes, &[]);
    let of = |workflow: &str, code| {
        let found = monitor_result(&stage, &[&id, "--workflow", workflow, "--item", "k"], code);
        let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            string(&found["reason"]),
            string(&found["advice"]["what"]),
            string(&found["advice"]["agent"]),
        )
    };
    let (reason, advice, _) = of("slow", 1);
    assert!(reason.contains("too long") && advice == "defer", "{reason}: {advice}");
    let pid = fs::read_to_string(stage.home.root().join("slow.pid")).unwrap();
    let pid = pid.trim().parse().unwrap();
    eventually("the end of the command", || (!is_running(pid)).then_some(()));
    let (reason, advice, _) = of("loud", 1);
    assert!(reason.contains("too much") && advice == "escalate", "{reason}: {advice}");
    let (reason, advice, _) = of("absent", 1);
    assert!(reason.contains("could not be run") && advice == "escalate", "{reason}: {advice}");
    let found = monitor_result(&stage, &[&id, "--workflow", "says", "--item", "k"], 1);
    assert_eq!(found["reason"], "the command ended with exit status 1");
    assert_eq!(found["facts"]["refuted"]["printed"], "3 of 7 are red", "{found:#}");
    of("good", 0);
    of("line", 0);
    fs::write(stage.home.root().join("made-k"), "status: open\n").unwrap();
    let (reason, advice, agent) = of("line", 1);
    assert!(reason.contains("no line"), "{reason}");
    assert_eq!((advice.as_str(), agent.as_str()), ("retry", "other"));
    assert!(of("field", 1).0.contains("\"open\""));
}

#[test]
fn plateau_is_deferred_unless_disabled() {
    let stage = TestEnv::new();
    stage.configure("[workflows.again]\nverifier = \"bmad-review\"\ndefer_on_plateau = false\n");
    let repo = stage.home.repo("work");
    let edits = "[[step]]\nwrite = { path = \"a.txt\", content = \"a\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario_in(repo.path(), edits, &["--worktree", "--check", "true"]);
    let review =
        |workflow: &'static str| ["--workflow", workflow, "--item", "1-2", "--attempt", "2"];
    let first = monitor_result(&stage, &[&[&id[..]], &review("review")[..]].concat(), 1);
    assert_eq!(
        (&first["advice"]["what"], &first["advice"]["tries_left"]),
        (&json!("retry"), &json!(3))
    );
    assert!(first["facts"]["tree"].is_string(), "{first}");
    let previous = first.to_string();
    let with = |workflow| {
        let arguments = [&[&id[..], "--previous", &previous], &review(workflow)[..]].concat();
        monitor_result(&stage, &arguments, 1)["advice"]["what"].clone()
    };
    assert_eq!(with("review"), "defer");
    assert_eq!(with("again"), "retry");
}
