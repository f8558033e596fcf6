//! Steps that end the agent, or keep it from exiting.

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::Signal;

use crate::agent_env::{AgentEnv, ignores_term, signal};

#[test]
fn scenario_without_steps_exits_0() {
    let output = AgentEnv::new().play("");
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
}

#[test]
fn exit_ends_at_once_inside_repeat() {
    let output = AgentEnv::new()
        .play("[[step]]\nrepeat = { times = 5, steps = [{ say = '{{n}}' }, { exit = 3 }] }");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"1\n"[..]));
}

#[test]
fn die_kills_with_the_signal() {
    for number in [9, 15, 6, 11] {
        let output = AgentEnv::new()
            .play(&format!("[[step]]\nsay = 'last words'\n[[step]]\ndie = {number}"));
        assert_eq!(
            (output.status.signal(), output.stdout.as_slice()),
            (Some(number), &b"last words\n"[..])
        );
    }
}

#[test]
fn hang_and_sleep_last_until_killed() {
    for step in ["hang = true", "sleep_ms = 600000"] {
        let stage = AgentEnv::new();
        let mut playing = stage.start(&format!("[[step]]\nsay = 'there'\n[[step]]\n{step}"));
        assert_eq!(playing.line(), "there");
        assert!(playing.child.try_wait().unwrap().is_none());
        signal(playing.child.id(), Signal::TERM);
        assert_eq!(playing.child.wait().unwrap().signal(), Some(15));
    }
}

#[test]
fn sleep_continues_with_next_step() {
    assert_eq!(
        AgentEnv::new().play("[[step]]\nsleep_ms = 5\n[[step]]\nsay = 'awake'").stdout,
        b"awake\n"
    );
}

#[test]
fn ignore_term_keeps_pid_vars_and_step() {
    let stage = AgentEnv::new();
    let scenario = "[[step]]\nsay = '{{pid}} {{who}}'\n[[step]]\nignore_term = true\n[[step]]\nsay = '{{pid}} {{who}}'\n[[step]]\nread_line = true\n[[step]]\nsay = 'got {{input}}'";
    let file = stage.path("with-vars.toml");
    std::fs::write(&file, scenario).unwrap();
    let mut playing = stage.start_with(&file, &["--vars", "who=me you"]);
    let before = playing.line();
    assert_eq!(before, format!("{} me you", playing.child.id()));
    assert_eq!(playing.line(), before, "the earlier step was repeated");
    signal(playing.child.id(), Signal::TERM);
    assert!(ignores_term(playing.child.id()));
    playing.send("on");
    assert_eq!((playing.line().as_str(), playing.code()), ("got on", Some(0)));
}
