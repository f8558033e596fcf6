//! The holder or the agent is killed: the outcome differs from the undisturbed one, but is defined.

use std::fs;
use std::path::{Path, PathBuf};

use provost_holder::{Held, Looked, look};
use provost_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::scenarios::{CANCEL, COMMAND, QUESTION, REWORK, WORK, is_running};
use super::stage::Stage;
use crate::kit::{appears, lines_of, verified};

/// The process to kill.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Agent,
    Holder,
}

const VICTIMS: [Victim; 2] = [Victim::Agent, Victim::Holder];

#[test]
fn a_command_whose_process_is_killed_has_crashed_and_one_without_holder_was_not_seen_to_end() {
    for victim in VICTIMS {
        let mut stage = Stage::set(&COMMAND, None);
        let script = format!("touch {}; sleep 600", stage.outside("in-place").display());
        let id = stage.spawn(&[], &["--", "sh", "-c", &script]);
        appears(&stage.outside("in-place"));
        let row = killed(&stage, &id, victim, 3);
        crashed_or_unseen(&stage, &row, victim);
    }
}

#[test]
fn a_question_is_void_once_its_asker_was_seen_to_die() {
    for victim in VICTIMS {
        let mut stage = Stage::set(&QUESTION, None);
        let id = stage.spawn(&["--agent", "scripted"], &["Ask me"]);
        stage.home.wait_state(&id, |row| row["state"] == "needs_input");
        match victim {
            Victim::Agent => {
                let row = killed(&stage, &id, victim, 4);
                crashed_or_unseen(&stage, &row, victim);
                assert_eq!(stage.events("request.settled").len(), 1, "its question is void, once");
                let refused = stage.change(&["answer", &id], &["too late"]);
                assert_eq!(refused.code(), Some(4), "{refused:#?}");
            }
            Victim::Holder => {
                // No one observed a crash, so the question stays open, and the answer starts the agent again.
                kill(&launch_dir(&stage, &id), victim);
                let row = stage.home.wait_state(&id, |row| row["process"] == "unknown");
                assert_eq!(
                    (&row["state"], &row["sealed"]),
                    (&"needs_input".into(), &false.into()),
                    "{row}"
                );
                let flags = row["flags"].as_array().expect("a list");
                assert!(flags.contains(&"answer_resumes".into()), "{row}");
                stage.change(&["cancel", &id], &[]).ok();
                assert_eq!(stage.settled(&id, 4)["state"], "cancelled");
            }
        }
    }
}

#[test]
fn grandchildren_of_a_killed_agent_or_holder_are_ended() {
    for victim in VICTIMS {
        let mut stage = Stage::set(&CANCEL, None);
        let agent = provost_testkit::scripted_agent_bin().display().to_string();
        let scenario = stage.outside("agent.toml").display().to_string();
        let root = format!("root={}", stage.home.root().display());
        let id = stage.spawn(&[], &["--", &agent, &scenario, "--vars", &root]);
        appears(&stage.outside("in-place"));
        let row = killed(&stage, &id, victim, 3);
        crashed_or_unseen(&stage, &row, victim);
        for pid in
            fs::read_to_string(stage.outside("pids")).expect("the children are known").lines()
        {
            eventually("the grandchildren are gone", || (!is_running(pid)).then_some(()));
        }
    }
}

#[test]
fn a_check_whose_holder_is_killed_runs_again_and_one_that_is_killed_has_failed() {
    for victim in VICTIMS {
        let mut stage = Stage::set(&WORK, None);
        let runs = stage.outside("check1");
        // The first run of the check waits to be killed.
        let check = format!(
            "echo run >> {0}; if [ $(wc -l < {0}) = 1 ]; then sleep 600; fi",
            runs.display()
        );
        let id = stage.spawn(&["--agent", "scripted", "--worktree", "--check", &check], &["Do it"]);
        eventually("the check runs", || (lines_of(&runs) == 1).then_some(()));
        let dir = eventually("the check's directory", || check_dir(&stage, &id));
        kill(&dir, victim);
        let row = stage.settled(&id, 3);
        match victim {
            Victim::Holder => {
                assert_eq!((&row["state"], lines_of(&runs)), (&"succeeded".into(), 2), "{row}");
            }
            Victim::Agent => {
                assert_eq!(
                    (&row["state"], &row["cause"]),
                    (&"failed".into(), &"verification".into())
                );
                assert_eq!(lines_of(&runs), 1, "a check that ended is not run again");
            }
        }
        verified(&stage.home);
    }
}

#[test]
fn an_agent_that_dies_before_its_rework_has_failed_its_checks() {
    let mut stage = Stage::set(&REWORK, None);
    let go = stage.outside("go");
    let check =
        format!("while ! test -e {}; do sleep 0.01; done; grep -q right CHANGE.md", go.display());
    let id = stage.spawn(&["--agent", "scripted", "--worktree", "--check", &check], &["Do it"]);
    stage.home.wait_state(&id, |row| row["state"] == "verifying");
    kill(&launch_dir(&stage, &id), Victim::Agent);
    eventually("the exit is recorded", || (!stage.events("tree.gone").is_empty()).then_some(()));
    fs::write(&go, "").expect("the file can be written");
    let row = stage.settled(&id, 3);
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"verification".into()), "{row}");
    assert_eq!(lines_of(&stage.outside("reworks")), 0);
    verified(&stage.home);
}

/// Kills the victim and waits for the outcome.
fn killed(stage: &Stage, id: &str, victim: Victim, hooks: usize) -> Value {
    stage.home.wait_state(id, |row| row["launches"][0]["phase"] == "running");
    kill(&launch_dir(stage, id), victim);
    let row = stage.settled(id, hooks);
    verified(&stage.home);
    row
}

#[track_caller]
fn crashed_or_unseen(stage: &Stage, row: &Value, victim: Victim) {
    let (seen, unseen) = (stage.events("process.ended"), stage.events("process.unobserved"));
    match victim {
        Victim::Agent => {
            assert_eq!(
                (&row["state"], &row["cause"]),
                (&"failed".into(), &"crash".into()),
                "{row}"
            );
            assert_eq!(seen[0]["data"]["end"]["signal"], 9);
            assert!(unseen.is_empty(), "the holder observed it");
        }
        Victim::Holder => {
            assert_eq!(
                (&row["state"], &row["cause"]),
                (&"ended_unclaimed".into(), &Value::Null),
                "{row}"
            );
            assert_eq!((seen.len(), unseen.len()), (0, 1), "its exit code is unknown");
            let flags = row["flags"].as_array().expect("a list");
            assert!(flags.contains(&"exit_code_unobserved".into()), "{row}");
        }
    }
    assert_eq!(stage.events("launch.owed").len(), 1, "it is not started again");
}

fn kill(dir: &Path, victim: Victim) {
    let held = eventually("the holder lives", || match look(dir) {
        Ok(Looked::Alive { held }) => Ok(held),
        other => Err(format!("{other:?}")),
    });
    let Held { holder, child, .. } = held;
    let pid = if victim == Victim::Holder { holder.pid } else { child.pid };
    let pid =
        Pid::from_raw(i32::try_from(pid).expect("a pid is small")).expect("a pid is not zero");
    kill_process(pid, Signal::KILL).expect("a process of ours can be killed");
}

fn launch_dir(stage: &Stage, id: &str) -> PathBuf {
    stage.home.path().join("launches").join(format!("{id}.l1"))
}

fn check_dir(stage: &Stage, id: &str) -> Option<PathBuf> {
    let checks = fs::read_dir(stage.home.path().join("checks")).ok()?.flatten();
    let mut found =
        checks.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{id}.c")));
    found.next().map(|entry| entry.path())
}
