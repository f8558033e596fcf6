//! Grandchildren.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;

use rustix::process::Signal;

use crate::agent_env::{AgentEnv, ignores_term, pids, session_of, signal, status_of, wait_gone};

/// Plays a scenario that spawns grandchildren and exits at once. Returns their pids.
fn spawned(stage: &AgentEnv, spawn: &str) -> Vec<u32> {
    let output = stage.play(&format!("[[step]]\nspawn = {{ {spawn}, pids = 'pids' }}"));
    assert!(output.status.success(), "{output:?}");
    pids(&stage.read("pids"))
}

#[test]
fn grandchildren_outlive_the_agent() {
    let stage = AgentEnv::new();
    let found = spawned(&stage, "count = 2, kind = 'sleep', seconds = 120");
    assert_eq!(found.len(), 2);
    for pid in found {
        assert!(status_of(pid, "Pid").is_some(), "{pid} lives");
    }
    let [short] = spawned(&AgentEnv::new(), "kind = 'sleep', seconds = 0")[..] else {
        panic!("one by default")
    };
    wait_gone(short);
}

#[test]
fn setsid_leaves_the_session() {
    let stage = AgentEnv::new();
    let [away] = spawned(&stage, "kind = 'setsid'")[..] else { panic!("one by default") };
    assert_eq!(session_of(away), away);
}

#[test]
fn double_fork_is_not_a_child_of_the_agent() {
    let stage = AgentEnv::new();
    let mut playing = stage.start("[[step]]\nspawn = { kind = 'double_fork', pids = 'pids' }\n[[step]]\nsay = 'there'\n[[step]]\nhang = true");
    assert_eq!(playing.line(), "there");
    let [orphan] = pids(&stage.read("pids"))[..] else { panic!("one by default") };
    assert_ne!(status_of(orphan, "PPid").unwrap(), playing.child.id().to_string());
    playing.end();
    assert!(status_of(orphan, "Pid").is_some());
}

#[test]
fn ignore_term_survives_term() {
    let stage = AgentEnv::new();
    let [plain] = spawned(&stage, "kind = 'sleep'")[..] else { panic!("one by default") };
    let stage = AgentEnv::new();
    let [stubborn] = spawned(&stage, "kind = 'ignore_term'")[..] else { panic!("one by default") };
    assert!(ignores_term(stubborn) && !ignores_term(plain));
    signal(stubborn, Signal::TERM);
    signal(plain, Signal::TERM);
    wait_gone(plain);
    assert!(status_of(stubborn, "Pid").is_some());
    signal(stubborn, Signal::KILL);
    wait_gone(stubborn);
}

#[test]
fn hold_stdout_keeps_pipe_open_after_exit() {
    let stage = AgentEnv::new();
    let mut playing = stage
        .start("[[step]]\nspawn = { kind = 'hold_stdout', pids = 'pids' }\n[[step]]\nsay = 'last'");
    assert_eq!((playing.line().as_str(), playing.code()), ("last", Some(0)));
    let [holder] = pids(&stage.read("pids"))[..] else { panic!("one by default") };
    let held = std::fs::read_link(format!("/proc/{holder}/fd/1")).unwrap();
    assert!(held.to_string_lossy().starts_with("pipe:"), "{held:?}");
    signal(holder, Signal::KILL);
    let mut rest = String::new();
    playing.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn sample_ignoring_term_needs_kill() {
    let stage = AgentEnv::new();
    let mut playing =
        stage.start(provost_testkit::scenario::sample("ignores_term_with_grandchildren").unwrap());
    assert_eq!(playing.line(), "in place");
    assert!(ignores_term(playing.child.id()));
    signal(playing.child.id(), Signal::TERM);
    assert!(playing.child.try_wait().unwrap().is_none());
    signal(playing.child.id(), Signal::KILL);
    assert_eq!(playing.child.wait().unwrap().signal(), Some(9));
}
