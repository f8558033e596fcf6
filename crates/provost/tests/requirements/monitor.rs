//! `provost monitor`: one blocking wait, its output and its exit code. It inspects artifacts and changes nothing.

use std::{
    fs,
    process::{Child, Stdio},
};

use provost_testkit::harness::{Output, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    kit::{HANGS, Stage, lives, signal},
    run_site::Site,
};

/// An agent that reports completion once the file `go` exists.
const LET_GO: &str = "[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n";

/// An agent that leaves a sprint with this status and reports completion.
fn leaves(status: &str) -> String {
    let content = format!("development_status:\\n  1-2-login: {status}\\n");
    format!(
        "[[step]]\nwrite = {{ path = \"_bmad-output/implementation-artifacts/sprint-status.yaml\", content = \"{content}\" }}\n[[step]]\nreport = \"completed\"\n"
    )
}

#[track_caller]
fn monitor(stage: &Stage, arguments: &[&str]) -> Output {
    stage.home.provost(&[&["monitor", "--json"], arguments].concat())
}

/// Monitors one session and returns its result.
#[track_caller]
fn result(stage: &Stage, arguments: &[&str], code: i32) -> Value {
    let reply = monitor(stage, arguments).exits(code).json();
    assert_eq!((&reply["ok"], &reply["exit_code"]), (&json!(code == 0), &json!(code)), "{reply}");
    reply["results"][0].clone()
}

#[track_caller]
fn refused(stage: &Stage, arguments: &[&str], hint: &str) {
    let error = monitor(stage, arguments).exits(2).json();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(hint), "{arguments:?}: {message}");
}

fn begin(stage: &Stage, arguments: &[&str]) -> Child {
    let mut command = stage.home.command(&[&["monitor", "--json"], arguments].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn m19_the_verdict_is_in_json_and_in_the_exit_code() {
    let stage = Stage::new();
    let samples = [
        ("completed_exit0", "completed", "completed", 0),
        ("exit0_silent", "incomplete", "ended_unclaimed", 1),
        ("exit1_silent", "failed", "failed", 1),
        ("working_killed9", "failed", "failed", 1),
        ("needs_input_exit0", "needs_input", "needs_input", 7),
    ];
    for (sample, word, state, code) in samples {
        let id = stage.play_sample(sample, &[]);
        let found = result(&stage, &[&id], code);
        assert_eq!((&found["result"], &found["final_state"]), (&json!(word), &json!(state)));
        assert!(!found["reason"].as_str().unwrap().is_empty(), "{found}");
        assert_eq!((&found["output_verified"], &found["verifier"]), (&json!(false), &Value::Null));
    }
    let asking = stage.play_sample("needs_input_exit0", &[]);
    let asked = stage.home.provost(&["monitor", &asking]);
    assert!(asked.exits(7).stderr.contains("it needs input: "), "{asked:#?}");
    let error = monitor(&stage, &[&asking]).exits(7).json()["error"].clone();
    assert_eq!(error["code"], "input_needed", "{error}");
    let known = [&asking, "--compat", "story-automator"];
    assert_eq!(monitor(&stage, &known).ok().json()["final_state"], "needs_input");
    let silent = stage.play(HANGS, &[]);
    stage.pid(&silent);
    let found = result(&stage, &[&silent, "--stale-after", "50ms"], 1);
    assert_eq!(found["result"], "stuck", "{found}");
    let found = result(&stage, &[&silent, "--timeout", "50ms"], 5);
    assert_eq!(found["result"], "timed_out", "{found}");
    monitor(&stage, &["nobody"]).exits(3);
    monitor(&stage, &[]).exits(2);
}

#[test]
fn m7_a_process_that_a_signal_stopped_is_suspended_and_not_stuck() {
    let stage = Stage::new();
    let id = stage.play(HANGS, &[]);
    let pid = stage.pid(&id);
    signal(pid, Signal::STOP);
    let row = stage.wait_state(&id, |row| row["flags"].to_string().contains("suspended"));
    assert_eq!(row["state"], "working", "{row:#}");
    let found = result(&stage, &[&id, "--stale-after", "50ms", "--timeout", "300ms"], 5);
    assert_eq!(found["result"], "timed_out", "{found}");
    let why = stage.home.provost(&["status", &id, "--why"]).ok().stdout.clone();
    assert!(why.contains("suspended: a signal stopped it"), "{why}");
    assert!(why.contains("a signal stopped its process") && !why.contains("was heard"), "{why}");
    signal(pid, Signal::CONT);
    let found = result(&stage, &[&id, "--stale-after", "50ms"], 1);
    assert_eq!(found["result"], "stuck", "{found}");
}

#[test]
fn m19_the_worst_of_many_decides() {
    let stage = Stage::new();
    let good = stage.play_sample("completed_exit0", &[]);
    let bad = stage.play_sample("exit1_silent", &[]);
    let hanging = stage.play(HANGS, &[]);
    let results = |arguments: &[&str], code| {
        let reply = monitor(&stage, arguments).exits(code).json();
        let results = reply["results"].as_array().unwrap().iter();
        results.map(|one| one["result"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(results(&[&good, &bad, "--all"], 1), ["completed", "failed"]);
    stage.sealed(&good);
    assert_eq!(results(&[&hanging, &good, "--any"], 0), [Value::Null, json!("completed")]);
    assert_eq!(results(&[&good, &hanging, "--timeout", "50ms"], 5), ["completed", "timed_out"]);
    assert_eq!(results(&[&bad, &hanging, "--timeout", "50ms"], 1), ["failed", "timed_out"]);
    assert_eq!(results(&[&good, &good], 0), ["completed"], "who is named twice is watched once");
}

#[test]
fn m19_a_run_is_watched_like_a_session() {
    let site = Site::new("while [ ! -e \"$GO\" ]; do sleep 0.01; done; echo a > a");
    let stage = &site.stage;
    let go = stage.file("go");
    let with = format!("[agents.talker.env]\nGO = {go:?}\n");
    let config = stage.home.root().join("user/.config/provost/provost.toml");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &with).unwrap();
    let id = site.opened(&["--check", "test -e a"]);
    let found = result(stage, &[&id, "--timeout", "50ms"], 5);
    assert_eq!((&found["kind"], &found["result"]), (&json!("run"), &json!("timed_out")));
    let watching = begin(stage, &[&id]);
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
fn m8_a_watch_ends_by_time_only_if_it_is_asked_to_and_outlives_the_daemon() {
    let stage = Stage::new();
    let id = stage.play(LET_GO, &[]);
    stage.pid(&id);
    assert_eq!(result(&stage, &[&id, "--timeout", "50ms"], 5)["result"], "timed_out");
    let watching = begin(&stage, &[&id]);
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
fn m8_a_state_that_is_waited_for_ends_the_watch() {
    let stage = Stage::new();
    let id = stage.play(LET_GO, &[]);
    let found = result(&stage, &[&id, "--until", "working"], 0);
    assert_eq!((&found["result"], &found["reached"]), (&json!("reached"), &json!(true)));
    let watching = begin(&stage, &[&id, "--until", "needs_input"]);
    fs::write(stage.home.root().join("go"), "").unwrap();
    let output = watching.wait_with_output().unwrap();
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "it never came to that: {reply}");
    let found = &reply["results"][0];
    assert_eq!((&found["result"], &found["reached"]), (&json!("completed"), &json!(false)));
    refused(&stage, &[&id, "--until", "stuck"], "stalled");
}

#[test]
fn m8_a_state_that_is_reached_is_the_result_whatever_else_is_true() {
    let stage = Stage::new();
    let silent = stage.play(HANGS, &[]);
    stage.wait_state(&silent, |row| row["state"] == "working");
    let until = ["--stale-after", "10ms", "--until", "working"];
    let found = result(&stage, &[&[&silent[..]], &until[..]].concat(), 0);
    assert_eq!((&found["result"], &found["reached"]), (&json!("reached"), &json!(true)));
    let compat = |id: &str, until: &str, word: &str| {
        let known = ["--compat", "story-automator", "--until", until];
        let shown = monitor(&stage, &[&[id], &known[..]].concat()).ok().json();
        assert_eq!(shown["final_state"], word, "{shown}");
    };
    compat(&silent, "working", "reached");
    let unclaimed = stage.play("[[step]]\nexit = 0\n", &[]);
    let found = result(&stage, &[&unclaimed, "--until", "ended_unclaimed"], 0);
    assert_eq!((&found["result"], &found["reached"]), (&json!("reached"), &json!(true)));
    compat(&unclaimed, "ended_unclaimed", "reached");
    let behind = stage.play(&leaves("review"), &[]);
    let review = ["--workflow", "review", "--key", "1-2", "--until", "completed"];
    let found = result(&stage, &[&[&behind[..]], &review[..]].concat(), 1);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("reached"), &json!(false)));
    assert_eq!(found["advice"], Value::Null, "nothing is proved");
    let known = ["--compat", "story-automator"];
    let shown = monitor(&stage, &[&[&behind[..]], &known[..], &review[..]].concat());
    assert_eq!(shown.exits(1).json()["final_state"], "incomplete", "it does not count as done");
    let proved = stage.play(&leaves("done"), &[]);
    let found = result(&stage, &[&[&proved[..]], &review[..]].concat(), 0);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("reached"), &json!(true)));
    compat(&behind, "completed", "completed");
}

#[test]
fn m12_a_path_is_a_path_or_null() {
    let stage = Stage::new();
    let id = stage.play_sample("completed_exit0", &[]);
    let compat = ["--compat", "story-automator"];
    let found = monitor(&stage, &[&[&id[..]], &compat[..]].concat()).ok().json();
    let path = found["output_file"].as_str().unwrap();
    assert!(fs::metadata(path).unwrap().is_file(), "{path}");
    let absent = stage.spawn_in(stage.home.root(), &["--", "/no/such/program"]);
    let found = monitor(&stage, &[&[&absent[..]], &compat[..]].concat()).exits(1).json();
    let path = &found["output_file"];
    assert!(path.is_null() || fs::metadata(path.as_str().unwrap()).unwrap().is_file(), "{found}");
    assert_eq!(found["final_state"], "crashed");
    refused(&stage, &[&id, &absent, "--compat", "story-automator"], "one object");
}

#[test]
fn m13_commas_and_quotes_break_nothing() {
    let stage = Stage::new();
    let name = "a, \"b\",c;\td";
    let message = "1,2,\"3\"";
    let scenario = format!("[[step]]\nreport = \"failed\"\nmessage = {message:?}\n");
    let id = stage.play(&scenario, &["--name", "a, \"b\",c; d"]);
    let found = result(&stage, &[&id], 1);
    assert_eq!(found["name"], json!(name.replace('\t', " ")));
    let output = stage.home.provost(&["monitor", &id]).exits(1).stdout.clone();
    assert_eq!(output.lines().count(), 1, "{output}");
    let compat = stage.home.provost(&["monitor", &id, "--compat", "story-automator"]);
    assert_eq!(compat.exits(1).json_lines().len(), 1, "one object, with or without --json");
}

#[test]
fn m17_exit_0_is_not_verified_work() {
    let stage = Stage::new();
    let id = stage.play("[[step]]\nsay = \"usage limit reached\"\n[[step]]\nexit = 0\n", &[]);
    let found = result(&stage, &[&id], 1);
    assert_eq!(found["result"], "incomplete");
    let found = result(&stage, &[&id, "--workflow", "dev", "--key", "1-2"], 1);
    assert_eq!(
        (&found["result"], &found["output_verified"]),
        (&json!("incomplete"), &json!(false))
    );
}

#[test]
fn m21_progress_is_what_a_plan_tells_else_the_documented_projection() {
    let stage = Stage::new();
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
        let found = monitor(&stage, &arguments).exits(code).json();
        (found["progress"].clone(), found["progress_source"].clone(), found["todos_total"].clone())
    };
    let planned = stage.spawn_in(stage.home.root(), &["--agent", "talker", "do it"]);
    stage.wait_state(&planned, |row| !row["progress"].is_null());
    assert_eq!(compat(&planned, 5), (json!("2/5"), json!("agent"), json!(5)));
    let silent = stage.play(LET_GO, &[]);
    stage.pid(&silent);
    assert_eq!(compat(&silent, 5), (json!("0/1"), json!("projection"), json!(1)));
    fs::write(stage.home.root().join("go"), "").unwrap();
    stage.sealed(&silent);
    assert_eq!(compat(&silent, 0), (json!("1/1"), json!("projection"), json!(1)));
    let found = result(&stage, &[&silent], 0);
    assert_eq!(found["facts"]["progress"], Value::Null, "no source reports it");
}

#[test]
fn m25_the_monitor_changes_nothing() {
    let stage = Stage::new();
    let id = stage.play(HANGS, &[]);
    stage.pid(&id);
    let before = stage.events(&id);
    let found = result(&stage, &[&id, "--stale-after", "20ms"], 1);
    assert_eq!(found["result"], "stuck", "{found}");
    result(&stage, &[&id, "--timeout", "20ms"], 5);
    monitor(&stage, &[&id, "--stale-after", "20ms", "--compat", "story-automator"]).exits(1);
    assert_eq!(stage.events(&id), before);
    assert_eq!(stage.status(&id)["state"], "working");
}

#[test]
fn m25_the_silence_window_says_who_asked_for_it() {
    let mut stage = Stage::new();
    stage.configure("monitor.stale_after = \"40s\"\n");
    let id = stage.play_sample("completed_exit0", &[]);
    let window = |stage: &Stage, arguments: &[&str]| {
        let reply = monitor(stage, &[&[&id[..]], arguments].concat()).ok().json();
        reply["stale_after"]["ms"].as_u64().unwrap() / 1000
    };
    assert_eq!(window(&stage, &[]), 40);
    stage.home.set_env("CODEX_OUTPUT_STALE_SECONDS", "30");
    assert_eq!(window(&stage, &[]), 30);
    stage.home.set_env("PROVOST_STALE_SECONDS", "20");
    assert_eq!(window(&stage, &[]), 20);
    assert_eq!(window(&stage, &["--stale-after", "10"]), 10);
    refused(&stage, &[&id, "--stale-after", "0"], "--stale-after");
    refused(&stage, &[&id, "--stale-after", "soon"], "--stale-after");
    stage.home.set_env("PROVOST_STALE_SECONDS", "soon");
    refused(&stage, &[&id], "PROVOST_STALE_SECONDS");
    assert_eq!(window(&stage, &["--stale-after", "10"]), 10, "only what counts is looked at");
    stage.home.set_env("PROVOST_STALE_SECONDS", "");
    stage.home.set_env("CODEX_OUTPUT_STALE_SECONDS", "1.5");
    refused(&stage, &[&id], "CODEX_OUTPUT_STALE_SECONDS");
}

#[test]
fn m25_output_that_nobody_understands_is_no_silence() {
    let stage = Stage::new();
    let talks = "[[step]]\nsay = \"here\"\n[[step]]\nwait_file = \"more\"\n[[step]]\nsay = \"again\"\n[[step]]\nhang = true\n";
    let id = stage.play(talks, &[]);
    let heard = stage.wait_state(&id, |row| row["heard_at"].is_i64())["heard_at"].clone();
    fs::write(stage.home.root().join("more"), "").unwrap();
    let later = |row: &Value| row["heard_at"].as_i64() > heard.as_i64();
    stage.wait_state(&id, later);
    let found = result(&stage, &[&id, "--timeout", "20ms"], 5);
    assert!(found["facts"]["heard_at"].as_i64() > heard.as_i64(), "{found}");
}

#[test]
fn a_workflow_is_held_against_what_was_left_behind() {
    let stage = Stage::new();
    let of = |key: &'static str| ["--workflow", "review", "--story-key", key];
    let done = stage.play(&leaves("done"), &[]);
    let found = result(&stage, &[&[&done[..]], &of("1.2")[..]].concat(), 0);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("completed"), &json!(true)));
    assert_eq!(found["verifier"], "bmad-review");
    assert_eq!(found["advice"]["what"], "proceed");
    let found = result(&stage, &[&[&done[..]], &of("1-3")[..]].concat(), 1);
    assert_eq!(
        (&found["result"], &found["final_state"]),
        (&json!("incomplete"), &json!("completed"))
    );
    let open = stage.play(&leaves("in-progress"), &[]);
    let found = result(&stage, &[&[&open[..]], &of("1-2-login")[..]].concat(), 1);
    assert_eq!(found["facts"]["refuted"]["word"], "differs");
    assert_eq!(
        found["advice"],
        json!({"what": "retry", "because": "4 of 4 retries are left", "tries_left": 4, "agent": null})
    );
    let compat = [&[&open[..], "--compat", "story-automator"], &of("1-2")[..]].concat();
    let found = monitor(&stage, &compat).exits(1).json();
    assert_eq!(
        (&found["final_state"], &found["output_verified"]),
        (&json!("incomplete"), &json!(false))
    );
    assert_eq!(found["verifier"], "bmad-review");
    assert!(found["reason"].as_str().unwrap().contains("in-progress"), "{found}");
}

#[test]
fn proof_that_was_asked_for_and_is_not_there_is_no_success() {
    let stage = Stage::new();
    let asks = stage.play_sample("needs_input_exit0", &[]);
    let dev = ["--workflow", "dev", "--key", "1-2"];
    let found = result(&stage, &[&[&asks[..]], &dev[..]].concat(), 1);
    assert_eq!(
        (&found["result"], &found["advice"]["what"]),
        (&json!("needs_input"), &json!("escalate"))
    );
    let failed = stage.play(&format!("{}[[step]]\nexit = 3\n", leaves("done")), &["--no-check"]);
    stage.sealed(&failed);
    let found = result(&stage, &[&[&failed[..]], &dev[..]].concat(), 1);
    assert_eq!((&found["result"], &found["output_verified"]), (&json!("failed"), &json!(true)));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_watched() {
    let stage = Stage::new();
    stage.configure("[verifiers.both]\ncommand = \"true\"\nfile = \"x\"\n[workflows.both]\nverifier = \"both\"\n[workflows.none]\nverifier = \"nobody\"\n[workflows.else]\nverifier = \"bmad-dev\"\nfallback = [\"nope\"]\n");
    let id = stage.play(HANGS, &[]);
    refused(&stage, &[&id, "--workflow", "dev"], "--key");
    refused(&stage, &[&id, "--key", "1-2"], "--workflow");
    refused(&stage, &[&id, "--workflow", "dve", "--key", "1-2"], "did you mean \"dev\"?");
    refused(&stage, &[&id, "--workflow", "both", "--key", "1-2"], "command and a file");
    refused(&stage, &[&id, "--workflow", "none", "--key", "1-2"], "nobody");
    for key in ["../x", "", "a b", "-x", "a;b"] {
        refused(&stage, &[&id, "--workflow", "dev", &format!("--key={key}")], "1-2-login");
    }
    for (workflow, key) in [("dev", "PAY-7"), ("retro", "x")] {
        refused(&stage, &[&id, "--workflow", workflow, "--key", key], "invalid key");
    }
    refused(&stage, &[&id, "--workflow", "else", "--key", "1-2"], "workflows.else.fallback");
    let previous = ["--workflow", "dev", "--key", "1-2", "--previous"];
    for text in ["{", "{}", "{\"results\":[]}"] {
        refused(&stage, &[&[&id[..]], &previous[..], &[text]].concat(), "--previous");
    }
    refused(&stage, &[&id, "--timeout", "never"], "--timeout");
    refused(&stage, &[&id, "--any", "--all"], "--all");
    refused(&stage, &[&id, "--compat", "other"], "story-automator");
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
fn e10_every_key_of_a_verifier_and_a_workflow_has_an_effect() {
    let stage = Stage::new();
    stage.configure(VERIFIERS);
    let makes = "[[step]]\nwrite = { path = \"made-k\", content = \"status: k\\n\" }\n[[step]]\nwrite = { path = \"made.yaml\", content = \"status: {k: open}\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.play(makes, &[]);
    let of = |workflow: &str, code| {
        let found = result(&stage, &[&id, "--workflow", workflow, "--key", "k"], code);
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
    eventually("the end of the command", || (!lives(pid)).then_some(()));
    let (reason, advice, _) = of("loud", 1);
    assert!(reason.contains("too much") && advice == "escalate", "{reason}: {advice}");
    let (reason, advice, _) = of("absent", 1);
    assert!(reason.contains("could not be run") && advice == "escalate", "{reason}: {advice}");
    let found = result(&stage, &[&id, "--workflow", "says", "--key", "k"], 1);
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
fn a_plateau_is_put_aside_unless_that_is_switched_off() {
    let stage = Stage::new();
    stage.configure("[workflows.again]\nverifier = \"bmad-review\"\ndefer_on_plateau = false\n");
    let repo = stage.home.repo("work");
    let edits = "[[step]]\nwrite = { path = \"a.txt\", content = \"a\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.play_in(repo.path(), edits, &["--worktree", "--check", "true"]);
    let review =
        |workflow: &'static str| ["--workflow", workflow, "--key", "1-2", "--attempt", "2"];
    let first = result(&stage, &[&[&id[..]], &review("review")[..]].concat(), 1);
    assert_eq!(
        (&first["advice"]["what"], &first["advice"]["tries_left"]),
        (&json!("retry"), &json!(3))
    );
    assert!(first["facts"]["tree"].is_string(), "{first}");
    let previous = first.to_string();
    let with = |workflow| {
        let arguments = [&[&id[..], "--previous", &previous], &review(workflow)[..]].concat();
        result(&stage, &arguments, 1)["advice"]["what"].clone()
    };
    assert_eq!(with("review"), "defer");
    assert_eq!(with("again"), "retry");
}
