//! A command in its own terminal: everything that holds for pipes, and terminal features.

use std::fs;
use std::process::Command;

use provost_holder::client::Error;
use provost_holder::journal::{Channel, Note};
use provost_holder::wire::{FaultCode, Limited, Notice, Op};
use provost_holder::{End, EndedBy, HoldSpec, Looked, Tty, look, start};

use crate::kit::{
    Launch, command, in_terminal, notes, program, sh, signal, state, until, wait_limited,
    with_pipe, write,
};

#[test]
fn all_three_streams_and_the_controlling_terminal_are_the_terminal() {
    let script = "test -t 0 && test -t 1 && test -t 2 && read x < /dev/tty && echo got $x";
    let mut launch = Launch::start(in_terminal(sh(script)));
    write(&mut launch.link(), "k", b"it\n").unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    assert_eq!(launch.output(Channel::Stdout), b"it\r\ngot it\r\n", "with the echo");
}

#[test]
fn the_size_is_that_of_the_spec() {
    let mut launch = Launch::start(in_terminal(command(&["stty", "size"])));
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"24 80\r\n");
}

#[test]
fn sizes_that_no_terminal_has_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    for (columns, rows) in [(0, 0), (0, 24), (80, 0), (u16::MAX, 24)] {
        let tty = Some(Tty { columns, rows });
        let spec = HoldSpec { key: "k".into(), tty, ..with_pipe(sh("true")) };
        let refused = start(&program(), &temp.path().join("launch"), &spec);
        let Err(Error::Refused(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains(&format!("{columns}x{rows}")), "{why}");
    }
}

#[test]
fn the_code_and_the_signal_of_the_end_are_recorded() {
    let mut launch = Launch::start(in_terminal(sh("exit 7")));
    assert_eq!(launch.wait().0.end, End::Exited { code: 7 });
    let mut launch = Launch::start(in_terminal(sh("kill -9 $$")));
    assert_eq!(launch.wait().0.end, End::Signalled { signal: 9 });
}

#[test]
fn a_command_that_cannot_be_started_is_recorded() {
    let mut launch = Launch::start(in_terminal(command(&["/no/such/program"])));
    let (exit, gone) = launch.wait();
    assert!(matches!(exit.end, End::NotStarted { .. }), "{exit:?}");
    assert!(gone.verified);
}

#[test]
fn an_interrupt_that_is_typed_reaches_the_foreground_and_nobody_else() {
    let front = "trap 'echo heard; exit 4' INT; echo ready; while :; do sleep 0.01; done";
    let script = format!("set -m; trap 'echo mine' INT; sh -c \"{front}\"; echo $?; exit 9");
    let mut launch = Launch::start(in_terminal(sh(&script)));
    launch.wait_for_output("ready");
    write(&mut launch.link(), "k", b"\x03").unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 9 });
    let output = String::from_utf8(launch.output(Channel::Stdout)).unwrap();
    assert!(output.contains("heard\r\n4\r\n") && !output.contains("mine"), "{output:?}");
}

#[test]
fn a_stop_that_is_typed_suspends_nothing_for_good() {
    let mut launch = Launch::start(in_terminal(sh("echo ready; read x; echo got $x")));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    write(&mut link, "stop", b"\x1a").unwrap();
    write(&mut link, "go", b"on\n").unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    assert!(String::from_utf8_lossy(&launch.output(Channel::Stdout)).contains("got on"));
    assert!(!notes(&launch).contains(&Note::Suspended));
}

#[test]
fn an_interactive_shell_has_the_foreground_from_its_start() {
    let mut launch = Launch::start(in_terminal(command(&["bash", "--norc", "-i"])));
    write(&mut launch.link(), "k", b"jobs; echo \"$((6 * 7))\"; exit 5\n").unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 5 });
    let output = String::from_utf8_lossy(&launch.output(Channel::Stdout)).into_owned();
    assert!(output.contains("42\r\n") && !output.contains("no job control"), "{output:?}");
}

#[test]
fn being_stopped_and_going_on_is_noted_and_told() {
    for spec in [sh("echo ready; sleep 1000"), in_terminal(sh("echo ready; sleep 1000"))] {
        let launch = Launch::start(spec);
        launch.wait_for_output("ready");
        let child = launch.held().child.pid;
        let mut link = launch.link();
        link.request(Op::Follow).unwrap();
        signal(child, rustix::process::Signal::STOP);
        until("it is told", || link.notice().unwrap() == Notice::Suspended { suspended: true });
        assert_eq!(notes(&launch), [Note::Suspended]);
        let mut later = launch.link();
        later.request(Op::Follow).unwrap();
        until("who comes later is told", || {
            later.notice().unwrap() == Notice::Suspended { suspended: true }
        });
        signal(child, rustix::process::Signal::CONT);
        until("it is told", || link.notice().unwrap() == Notice::Suspended { suspended: false });
        assert_eq!(notes(&launch), [Note::Suspended, Note::Continued]);
    }
}

#[test]
fn what_the_leader_wrote_last_is_kept_though_others_have_the_terminal() {
    let script = "sleep 1000 & stty -opost; seq 1 1500; exit 2";
    let mut launch = Launch::start(HoldSpec { settle_ms: 50, ..in_terminal(sh(script)) });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Exited { code: 2 }, EndedBy::Itself));
    assert_eq!((gone.leftovers, gone.verified), (1, true));
    let expected: String = (1..=1500).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&launch.output(Channel::Stdout)), expected);
}

#[test]
fn a_grandchild_may_finish_its_words_in_a_terminal_too() {
    let temp = tempfile::tempdir().unwrap();
    let fifo = temp.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut spec = in_terminal(sh("(read x < \"$FIFO\"; echo late) & echo first"));
    spec.settle_ms = 60_000;
    spec.env.push(("FIFO".into(), fifo.display().to_string()));
    let dir = temp.path().join("launch");
    let mut launch = Launch::start_at(temp, dir, spec);
    until("the leader's end is recorded", || {
        matches!(look(&launch.dir), Ok(Looked::Ended { gone: None, .. }))
    });
    fs::write(&fifo, "\n").unwrap();
    assert_eq!(launch.wait().1.leftovers, 0);
    assert_eq!(launch.output(Channel::Stdout), b"first\r\nlate\r\n");
}

#[test]
fn a_terminal_that_its_command_closes_is_no_end() {
    let script = "exec < /dev/null > /dev/null 2>&1; while :; do sleep 0.01; done";
    let mut launch = Launch::start(in_terminal(sh(script)));
    until("it is noted", || notes(&launch) == [Note::StdoutClosed]);
    assert!(launch.held().child.is_alive().unwrap());
    let mut link = launch.link();
    let refused = write(&mut link, "k", b"anyone?\n");
    assert!(
        matches!(&refused, Err(Error::Fault(fault)) if fault.code == FaultCode::StdinClosed),
        "{refused:?}"
    );
    link.request(Op::Stop { grace_ms: 30_000 }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Signalled { signal: 15 }, EndedBy::Stop));
}

#[test]
fn a_flood_is_blocked_at_the_limit_in_a_terminal_too() {
    let spec = in_terminal(sh("stty -opost; seq 1 100000"));
    let mut launch = Launch::start(HoldSpec { output_limit: 100_000, ..spec });
    let mut link = launch.link();
    wait_limited(&mut link, Limited::OutputLimit);
    assert_eq!(launch.output(Channel::Stdout).len(), 100_000);
    assert!(launch.held().child.is_alive().unwrap());
    link.request(Op::Limit { bytes: 1 << 30 }).unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(launch.output(Channel::Stdout) == expected.as_bytes());
}

#[test]
fn input_arrives_whole_and_in_order_at_a_slow_reader() {
    let script = "stty raw -echo; echo ready; read x < \"$FIFO\"; head -c 300000 > \"$OUT\"";
    let temp = tempfile::tempdir().unwrap();
    let (fifo, out) = (temp.path().join("fifo"), temp.path().join("out"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut spec = in_terminal(sh(script));
    spec.env.push(("FIFO".into(), fifo.display().to_string()));
    spec.env.push(("OUT".into(), out.display().to_string()));
    let dir = temp.path().join("launch");
    let mut launch = Launch::start_at(temp, dir, spec);
    launch.wait_for_output("ready");
    let numbers: String = (0..).map(|number| format!("{number}\n")).take(60_000).collect();
    let (first, second) = numbers.as_bytes()[..300_000].split_at(123_456);
    let mut link = launch.link();
    let ids = [("1", first), ("2", second)]
        .map(|(key, bytes)| link.send(crate::kit::write_op(key, bytes)).unwrap());
    state(&mut launch.link());
    fs::write(&fifo, "\n").unwrap();
    ids.into_iter().for_each(|id| drop(link.reply(id).unwrap()));
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    assert!(fs::read(out).unwrap() == numbers.as_bytes()[..300_000]);
}

#[test]
fn the_whole_tree_is_ended_in_a_terminal_too() {
    let script = "trap '' HUP; setsid sleep 1000 & (setsid sh -c 'sleep 1000' &); echo ready; wait";
    let mut launch = Launch::start(in_terminal(sh(script)));
    launch.wait_for_output("ready");
    launch.link().request(Op::Stop { grace_ms: 5000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Signalled { signal: 15 }, EndedBy::Stop));
    assert!(gone.verified);
    assert_eq!(provost_holder::tree::survivors(&launch.key).unwrap(), []);
}
