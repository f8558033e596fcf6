//! One-shot work with `codex exec`, and many sessions at once.

use std::{fs, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::codex_env::{CodexEnv, TestedCodex};

const ONE_SHOT_SCENARIO: &str = r#"
[[thread]]
turn = [{ response = [
  { items = [{ shell = "echo once > once.txt" }], usage = { input = 100, output = 10 } },
  { items = [{ message = "Written." }], usage = { input = 100, output = 10 } },
] }]
"#;

#[test]
fn once_completes_by_turn_end_and_exit_0() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let Some(stage) = CodexEnv::with_version(which, ONE_SHOT_SCENARIO) else { return };
        let id =
            stage.spawn(&["--once", "--worktree", "--check", "grep -q once once.txt", "Write it."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "succeeded", "{which:?}: {row:#}");
        assert_eq!((&row["turns"], &row["usage"]["input"]), (&json!(1), &json!(200)), "{row:#}");
        assert!(row["thread"].is_string(), "{row:#}");
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn once_failed_turn_fails() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [{ response = [{ http = { status = 400, body = "no such thing" } }] }]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        let id = stage.spawn(&["--once", "Try."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "failed", "{which:?}: {row:#}");
        assert!(
            row["claim_text"].as_str().unwrap_or_default().contains("no such thing"),
            "{row:#}"
        );
    }
}

#[test]
fn once_killed_turn_is_not_completed_and_resumes() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [
              { response = [{ items = [{ hold = "door" }, { message = "never said" }] }] },
              { response = [{ items = [{ message = "Went on." }] }] },
            ]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        let id = stage.spawn(&["--once", "Wait."]);
        stage.model.wait_for_hold("door");
        stage.home.wait_state(&id, |row| row["thread"].is_string() && row["turns"] == 1);
        stage.home.provost(&["stop", &id]).ok();
        let row = stage.home.wait_state(&id, |row| row["process"] != "alive");
        assert_ne!(row["claim"], "completed", "{which:?}: {row:#}");
        let row = stage.wait_sealed(&id);
        assert!(row["state"] != "completed" && row["state"] != "succeeded", "{which:?}: {row:#}");
        stage.home.provost(&["resume", &id, "Go on."]).ok();
        let row = stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        let requests = stage.model.requests();
        assert_eq!(requests[0].request.thread(), requests[1].request.thread(), "{which:?}");
        assert!(requests[1].request.prompt().contains("Go on."));
    }
}

/// Blocks on hold `door` in its first turn. After it was killed and resumed, it finishes.
const DIES_ONCE: &str = r#"
[[thread]]
turn = [
  { response = [{ items = [{ hold = "door" }, { message = "never said" }] }] },
  { response = [{ items = [{ message = "Went on." }] }] },
]
"#;

#[test]
fn once_codex_ended_by_signal_is_not_completed() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            let Some(stage) = CodexEnv::with_version(which, DIES_ONCE) else { return };
            let id = stage.spawn(&["--once", "Wait."]);
            stage.model.wait_for_hold("door");
            stage.wait_state(&id, |row| row["thread"].is_string() && row["turns"] == 1);
            stage.signal_codex(&id, 1, signal);
            let row = stage.wait_sealed(&id);
            // After SIGINT the oldest version exits with 0, as if it had succeeded.
            let expected = match (which, signal) {
                (TestedCodex::Oldest, Signal::INT) => {
                    (json!("exited_without_claim"), json!("exit0"))
                }
                _ => (json!("failed"), json!("exitN")),
            };
            let ended = (row["state"].clone(), row["process"].clone());
            assert_eq!(ended, expected, "{which:?} {signal:?}: {row:#}");
            assert_eq!(row["claim"], "none", "{which:?} {signal:?}: {row:#}");
            assert_eq!(stage.model.requests().len(), 1, "no turn was restarted automatically");
            stage.provost(&["resume", &id, "Go on."]).ok();
            let row = stage.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
            assert_eq!(row["state"], "completed", "{which:?} {signal:?}: {row:#}");
            let requests = stage.model.requests();
            assert_eq!(requests[0].request.thread(), requests[1].request.thread());
            stage.model.assert_all_as_scripted();
        }
    }
}

#[test]
fn once_turn_survives_daemon_kill() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [{ response = [{ items = [{ hold = "door" }, { message = "Done." }] }] }]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        let id = stage.spawn(&["--once", "Wait."]);
        stage.model.wait_for_hold("door");
        stage.daemon().kill();
        stage.model.release("door");
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        assert_eq!(row["launches"].as_array().unwrap().len(), 1, "{which:?}");
        assert_eq!(stage.count_turns_with("Wait."), 1, "{which:?}");
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn once_ctrl_c_on_wait_keeps_work_running() {
    let scenario = r#"
        [[thread]]
        turn = [{ response = [{ items = [{ hold = "door" }, { message = "Done." }] }] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    let mut waiting =
        stage.command(&["spawn", "--json", "--agent", "codex", "--once", "--wait", "Wait."]);
    waiting.current_dir(stage.repo.path()).stdout(Stdio::null());
    let mut waiting = waiting.spawn().unwrap();
    stage.model.wait_for_hold("door");
    let pid = i32::try_from(waiting.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status = waiting.wait().unwrap();
    assert!(!status.success(), "the outcome is not known yet: {status}");
    let id = stage.provost(&["ls", "--json"]).ok().json()["sessions"][0]["id"].clone();
    stage.model.release("door");
    let row = stage.wait_sealed(id.as_str().unwrap());
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
    stage.model.assert_all_as_scripted();
}

/// For an unknown thread, `codex exec resume` starts a new conversation and exits with 0.
#[test]
fn once_resume_into_another_thread_is_refused() {
    let scenario = r#"
        [[thread]]
        repeat = "forever"
        turn = [{ response = [{ items = [{ message = "Who are you?" }] }] }]"#;
    let Some(mut stage) = CodexEnv::new(scenario) else { return };
    stage.replace_codex(
        r#"previous=; for word do shift; [ "$previous" = resume ] && word=nobody; set -- "$@" "$word"; previous=$word; done
exec "$REAL" "$@""#,
    );
    let id = stage.spawn(&["--once", "Begin."]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row:#}");
    stage.provost(&["resume", &id, "Go on."]).ok();
    let row = stage.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_foreign_thread_refused(&stage, &id, &row);
}

/// Asserts that a conversation other than the session's was refused and no claim was made.
#[track_caller]
pub(crate) fn assert_foreign_thread_refused(stage: &CodexEnv, id: &str, row: &Value) {
    let outcome = (&row["state"], &row["cause"], &row["claim"]);
    assert_eq!(outcome, (&json!("failed"), &json!("launch"), &json!("none")), "{row:#}");
    let refused = stage.events_of(id, "stream.refused");
    assert_eq!(refused.len(), 1, "{refused:#?}");
    let thread = row["thread"].as_str().unwrap();
    assert!(refused[0]["data"]["reason"].as_str().unwrap().contains(thread), "{refused:#?}");
    let kept = stage.events_of(id, "stream.ready");
    assert!(kept.iter().all(|ready| ready["data"]["thread"] == thread), "{kept:#?}");
}

#[test]
fn twenty_parallel_sessions_complete() {
    let scenario = r#"
        [[thread]]
        repeat = "forever"
        turn = [{ response = [
          { items = [{ tool = "provost_report", args = { status = "completed", summary = "done" } }] },
          { items = [{ message = "Done." }] },
        ] }]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    let ids: Vec<String> =
        (0..20).map(|no| stage.spawn(&["--keep", &format!("Number {no}.")])).collect();
    for id in &ids {
        stage.home.wait_state(id, |row| row["claim"] == "completed" && row["activity"] == "idle");
    }
    report_usage(&stage, &ids);
    for id in &ids {
        stage.home.provost(&["stop", id]).ok();
    }
    for (no, id) in ids.iter().enumerate() {
        let row = stage.wait_sealed(id);
        assert_eq!(row["state"], "completed", "{row:#}");
        assert_eq!(stage.count_turns_with(&format!("Number {no}.")), 1);
    }
    stage.model.assert_nothing_unexpected();
}

/// Private memory limit of a holder, in KiB.
const HOLDER_MEMORY: u64 = 4 << 10;

/// Prints memory and CPU time of the daemon and the holders.
#[expect(clippy::print_stdout, reason = "the test reports its measurements")]
fn report_usage(stage: &CodexEnv, ids: &[String]) {
    let daemon = stage.home.daemon().pid().unwrap();
    let (memory, time) = resource_usage(daemon);
    let each = u64::try_from(ids.len()).unwrap();
    println!("daemon: {memory} KiB, {time} ms of CPU, {} ms per session", time / each);
    let holders = ids.iter().filter_map(|id| {
        let dir = stage.home.path().join("launches").join(format!("{id}.l1"));
        match provost_holder::inspect(&dir) {
            Ok(provost_holder::LaunchState::Alive { held }) => {
                Some(resource_usage(held.holder.pid))
            }
            _ => None,
        }
    });
    let holders: Vec<(u64, u64)> = holders.collect();
    assert_eq!(holders.len(), ids.len(), "every holder is alive");
    let memory: u64 = holders.iter().map(|(memory, _)| memory).sum();
    let time: u64 = holders.iter().map(|(_, time)| time).sum();
    println!("holders: {} KiB and {} ms of CPU each", memory / each, time / each);
    assert!(memory / each < HOLDER_MEMORY, "a holder is small: {} KiB", memory / each);
}

/// Returns a process's private memory in KiB and its CPU time in ms. Pages of the program are not
/// counted, because all its processes share them and an unoptimized build has many.
fn resource_usage(pid: u32) -> (u64, u64) {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = maps.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    let memory = line.split_whitespace().next().unwrap().parse().unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    (memory, ticks * 10)
}

#[test]
fn f4_3_once_resumes_after_usage_limit() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [
              { response = [{ usage_limit = { resets_in_s = 3 } }] },
              { response = [{ items = [{ message = "Done." }] }] },
            ]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        stage.configure("[session]\nlimit_jitter = \"0s\"\nlimit_spacing = \"0s\"\n");
        let id = stage.spawn(&["--once", "Work."]);
        let exited = |row: &Value| row["limited"].is_object() && row["process"] != "alive";
        let row = stage.wait_state(&id, exited);
        assert_eq!((&row["state"], &row["sealed"]), (&json!("working"), &json!(false)), "{row:#}");
        assert!(row["flags"].as_array().unwrap().contains(&json!("limited")), "{row:#}");
        // Codex reports the reset time in minutes.
        let until = row["limited"]["until"].as_i64().unwrap() - row["opened_at"].as_i64().unwrap();
        assert!(until < 180_000, "{which:?}: {row:#}");
        let why = stage.provost(&["status", &id, "--why"]).ok().stdout.clone();
        assert!(why.contains("usage limit"), "{why}");
        stage.daemon().kill();
        stage.run_a_day_later(&["status", &id]);
        let row = stage.wait_sealed(&id);
        assert_eq!(row["state"], "completed", "{which:?}: {row:#}");
        assert_eq!(row["launches"].as_array().unwrap().len(), 2, "{which:?}: {row:#}");
        let requests = stage.model.requests();
        assert_eq!(requests[0].request.thread(), requests[1].request.thread(), "{which:?}");
        assert!(requests[1].request.prompt().contains("The limit has passed"), "{which:?}");
        stage.model.assert_all_as_scripted();
    }
}
