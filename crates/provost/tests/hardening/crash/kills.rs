//! The holder or the agent is killed. The outcome differs from the undisturbed one, but is defined.

use std::fs;
use std::path::{Path, PathBuf};

use provost_holder::{HeldRecord, LaunchState, inspect};
use provost_testkit::env::{count_lines, wait_file};
use provost_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::crash_env::CrashEnv;
use super::scenarios::{CANCEL, COMMAND, QUESTION, REWORK, WORK, is_running};

/// The process to kill.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KillTarget {
    Agent,
    Holder,
}

const KILL_TARGETS: [KillTarget; 2] = [KillTarget::Agent, KillTarget::Holder];

#[test]
fn killed_process_crashes_lost_holder_is_unobserved() {
    for victim in KILL_TARGETS {
        let mut stage = CrashEnv::start(&COMMAND, None);
        let script = format!("touch {}; sleep 600", stage.outside_file("in-place").display());
        let id = stage.spawn(&[], &["--", "sh", "-c", &script]);
        wait_file(&stage.outside_file("in-place"));
        let row = kill_and_settle(&stage, &id, victim, 3);
        assert_crashed_or_unobserved(&stage, &row, victim);
    }
}

#[test]
fn question_is_void_after_observed_exit() {
    for victim in KILL_TARGETS {
        let mut stage = CrashEnv::start(&QUESTION, None);
        let id = stage.spawn(&["--agent", "scripted"], &["Ask me"]);
        stage.home.wait_state(&id, |row| row["state"] == "needs_input");
        match victim {
            KillTarget::Agent => {
                let row = kill_and_settle(&stage, &id, victim, 4);
                assert_crashed_or_unobserved(&stage, &row, victim);
                assert_eq!(stage.events("request.settled").len(), 1, "its question is void, once");
                let refused = stage.send_change(&["answer", &id], &["too late"]);
                assert_eq!(refused.code(), Some(4), "{refused:#?}");
            }
            KillTarget::Holder => {
                // No process observed a crash, so the question stays open, and the answer restarts
                // the agent.
                kill_target(&launch_dir(&stage, &id), victim);
                let row = stage.home.wait_state(&id, |row| row["process"] == "unknown");
                assert_eq!(
                    (&row["state"], &row["sealed"]),
                    (&"needs_input".into(), &false.into()),
                    "{row}"
                );
                let flags = row["flags"].as_array().expect("a list");
                assert!(flags.contains(&"answer_resumes".into()), "{row}");
                stage.send_change(&["cancel", &id], &[]).ok();
                assert_eq!(stage.wait_settled(&id, 4)["state"], "cancelled");
            }
        }
    }
}

#[test]
fn grandchildren_of_killed_agent_are_killed() {
    for victim in KILL_TARGETS {
        let mut stage = CrashEnv::start(&CANCEL, None);
        let agent = provost_testkit::scripted_agent_bin().display().to_string();
        let scenario = stage.outside_file("scripted.toml").display().to_string();
        let root = format!("root={}", stage.home.root().display());
        let id = stage.spawn(&[], &["--", &agent, &scenario, "--vars", &root]);
        wait_file(&stage.outside_file("in-place"));
        let row = kill_and_settle(&stage, &id, victim, 3);
        assert_crashed_or_unobserved(&stage, &row, victim);
        for pid in
            fs::read_to_string(stage.outside_file("pids")).expect("the children are known").lines()
        {
            eventually("the grandchildren are gone", || (!is_running(pid)).then_some(()));
        }
    }
}

#[test]
fn check_reruns_without_holder_and_fails_if_killed() {
    for victim in KILL_TARGETS {
        let mut stage = CrashEnv::start(&WORK, None);
        let runs = stage.outside_file("check1");
        // The first run of the check blocks until it is killed.
        let check = format!(
            "echo run >> {0}; if [ $(wc -l < {0}) = 1 ]; then sleep 600; fi",
            runs.display()
        );
        let id = stage.spawn(&["--agent", "scripted", "--worktree", "--check", &check], &["Do it"]);
        eventually("the check runs", || (count_lines(&runs) == 1).then_some(()));
        let dir = eventually("the check's directory", || check_dir(&stage, &id));
        kill_target(&dir, victim);
        let row = stage.wait_settled(&id, 3);
        match victim {
            KillTarget::Holder => {
                assert_eq!((&row["state"], count_lines(&runs)), (&"succeeded".into(), 2), "{row}");
            }
            KillTarget::Agent => {
                assert_eq!(
                    (&row["state"], &row["cause"]),
                    (&"failed".into(), &"verification".into())
                );
                assert_eq!(count_lines(&runs), 1, "a check that ended is not run again");
            }
        }
        stage.home.assert_ledger_verified();
    }
}

#[test]
fn agent_dying_before_rework_fails_verification() {
    let mut stage = CrashEnv::start(&REWORK, None);
    let go = stage.outside_file("go");
    let check =
        format!("while ! test -e {}; do sleep 0.05; done; grep -q right CHANGE.md", go.display());
    let id = stage.spawn(&["--agent", "scripted", "--worktree", "--check", &check], &["Do it"]);
    stage.home.wait_state(&id, |row| row["state"] == "verifying");
    kill_target(&launch_dir(&stage, &id), KillTarget::Agent);
    eventually("the exit is recorded", || {
        (!stage.events("process_tree.reaped").is_empty()).then_some(())
    });
    fs::write(&go, "").expect("the file can be written");
    let row = stage.wait_settled(&id, 3);
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"verification".into()), "{row}");
    assert_eq!(count_lines(&stage.outside_file("reworks")), 0);
    stage.home.assert_ledger_verified();
}

/// Kills the victim and waits for the outcome.
fn kill_and_settle(stage: &CrashEnv, id: &str, victim: KillTarget, hooks: usize) -> Value {
    stage.home.wait_state(id, |row| row["launches"][0]["phase"] == "running");
    kill_target(&launch_dir(stage, id), victim);
    let row = stage.wait_settled(id, hooks);
    stage.home.assert_ledger_verified();
    row
}

#[track_caller]
fn assert_crashed_or_unobserved(stage: &CrashEnv, row: &Value, victim: KillTarget) {
    let (seen, unseen) = (stage.events("process.ended"), stage.events("process.unobserved"));
    match victim {
        KillTarget::Agent => {
            assert_eq!(
                (&row["state"], &row["cause"]),
                (&"failed".into(), &"crash".into()),
                "{row}"
            );
            assert_eq!(seen[0]["data"]["end"]["signal"], 9);
            assert!(unseen.is_empty(), "the holder observed it");
        }
        KillTarget::Holder => {
            assert_eq!(
                (&row["state"], &row["cause"]),
                (&"exited_without_claim".into(), &Value::Null),
                "{row}"
            );
            assert_eq!((seen.len(), unseen.len()), (0, 1), "its exit code is unknown");
            let flags = row["flags"].as_array().expect("a list");
            assert!(flags.contains(&"exit_code_unobserved".into()), "{row}");
        }
    }
    assert_eq!(stage.events("launch.requested").len(), 1, "it is not started again");
}

fn kill_target(dir: &Path, victim: KillTarget) {
    let held = eventually("the holder lives", || match inspect(dir) {
        Ok(LaunchState::Alive { held }) => Ok(held),
        other => Err(format!("{other:?}")),
    });
    let HeldRecord { holder, child, .. } = held;
    let pid = if victim == KillTarget::Holder { holder.pid } else { child.pid };
    let pid =
        Pid::from_raw(i32::try_from(pid).expect("a pid is small")).expect("a pid is not zero");
    kill_process(pid, Signal::KILL).expect("a process of ours can be killed");
}

fn launch_dir(stage: &CrashEnv, id: &str) -> PathBuf {
    stage.home.path().join("launches").join(format!("{id}.l1"))
}

fn check_dir(stage: &CrashEnv, id: &str) -> Option<PathBuf> {
    let checks = fs::read_dir(stage.home.path().join("checks")).ok()?.flatten();
    let mut found =
        checks.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{id}.c")));
    found.next().map(|entry| entry.path())
}
