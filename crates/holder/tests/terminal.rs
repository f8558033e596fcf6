//! A command in its own terminal: everything that holds for pipes, and terminal features.

use std::fs;
use std::process::Command;

use provost_holder::client::Error;
use provost_holder::journal::{JournalChannel, JournalNote};
use provost_holder::wire::{HolderFaultCode, HolderNotice, HolderOp, OutputPause};
use provost_holder::{EndCause, HoldSpec, LaunchState, ProcessEnd, Tty, inspect, start};

use crate::kit::{
    Launch, command, in_terminal, notes, program, sh, signal, state, until, wait_limited,
    with_pipe, write,
};

#[test]
fn streams_and_controlling_terminal_are_the_tty() {
    let script = "test -t 0 && test -t 1 && test -t 2 && read x < /dev/tty && echo got $x";
    let mut launch = Launch::start(in_terminal(sh(script)));
    write(&mut launch.link(), "k", b"it\n").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert_eq!(launch.output(JournalChannel::Stdout), b"it\r\ngot it\r\n", "with the echo");
}

#[test]
fn size_follows_the_spec() {
    let mut launch = Launch::start(in_terminal(command(&["stty", "size"])));
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"24 80\r\n");
}

#[test]
fn invalid_sizes_are_refused() {
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
fn exit_code_and_signal_are_recorded() {
    let mut launch = Launch::start(in_terminal(sh("exit 7")));
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 7 });
    let mut launch = Launch::start(in_terminal(sh("kill -9 $$")));
    assert_eq!(launch.wait().0.end, ProcessEnd::Signalled { signal: 9 });
}

#[test]
fn failed_start_is_recorded() {
    let mut launch = Launch::start(in_terminal(command(&["/no/such/program"])));
    let (exit, gone) = launch.wait();
    assert!(matches!(exit.end, ProcessEnd::NotStarted { .. }), "{exit:?}");
    assert!(gone.verified);
}

#[test]
fn typed_interrupt_reaches_only_the_foreground() {
    let front = "trap 'echo heard; exit 4' INT; echo ready; while :; do sleep 0.05; done";
    let script = format!("set -m; trap 'echo mine' INT; sh -c \"{front}\"; echo $?; exit 9");
    let mut launch = Launch::start(in_terminal(sh(&script)));
    launch.wait_for_output("ready");
    write(&mut launch.link(), "k", b"\x03").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 9 });
    let output = String::from_utf8(launch.output(JournalChannel::Stdout)).unwrap();
    assert!(output.contains("heard\r\n4\r\n") && !output.contains("mine"), "{output:?}");
}

#[test]
fn typed_stop_does_not_suspend_for_good() {
    let mut launch = Launch::start(in_terminal(sh("echo ready; read x; echo got $x")));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    write(&mut link, "stop", b"\x1a").unwrap();
    write(&mut link, "go", b"on\n").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert!(String::from_utf8_lossy(&launch.output(JournalChannel::Stdout)).contains("got on"));
    assert!(!notes(&launch).contains(&JournalNote::Suspended));
}

#[test]
fn interactive_shell_starts_in_foreground() {
    let mut launch = Launch::start(in_terminal(command(&["bash", "--norc", "-i"])));
    write(&mut launch.link(), "k", b"jobs; echo \"$((6 * 7))\"; exit 5\n").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 5 });
    let output = String::from_utf8_lossy(&launch.output(JournalChannel::Stdout)).into_owned();
    assert!(output.contains("42\r\n") && !output.contains("no job control"), "{output:?}");
}

#[test]
fn stop_and_continue_are_noted_and_reported() {
    for spec in [sh("echo ready; sleep 1000"), in_terminal(sh("echo ready; sleep 1000"))] {
        let launch = Launch::start(spec);
        launch.wait_for_output("ready");
        let child = launch.held().child.pid;
        let mut link = launch.link();
        link.request(HolderOp::Follow).unwrap();
        signal(child, rustix::process::Signal::STOP);
        until("the client is notified", || {
            link.notice().unwrap() == HolderNotice::Suspended { suspended: true }
        });
        assert_eq!(notes(&launch), [JournalNote::Suspended]);
        let mut later = launch.link();
        later.request(HolderOp::Follow).unwrap();
        until("a later client is notified", || {
            later.notice().unwrap() == HolderNotice::Suspended { suspended: true }
        });
        signal(child, rustix::process::Signal::CONT);
        until("the client is notified", || {
            link.notice().unwrap() == HolderNotice::Suspended { suspended: false }
        });
        assert_eq!(notes(&launch), [JournalNote::Suspended, JournalNote::Continued]);
    }
}

#[test]
fn last_leader_output_is_kept_with_open_terminal() {
    let script = "sleep 1000 & stty -opost; seq 1 1500; exit 2";
    let mut launch = Launch::start(HoldSpec { settle_ms: 50, ..in_terminal(sh(script)) });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 2 }, EndCause::Itself));
    assert_eq!((gone.leftovers, gone.verified), (1, true));
    let expected: String = (1..=1500).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&launch.output(JournalChannel::Stdout)), expected);
}

#[test]
fn grandchild_output_in_terminal_is_kept() {
    let temp = tempfile::tempdir().unwrap();
    let fifo = temp.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut spec = in_terminal(sh("(read x < \"$FIFO\"; echo late) & echo first"));
    spec.settle_ms = 60_000;
    spec.env.push(("FIFO".into(), fifo.display().to_string()));
    let dir = temp.path().join("launch");
    let mut launch = Launch::start_at(temp, dir, spec);
    until("the leader's end is recorded", || {
        matches!(inspect(&launch.dir), Ok(LaunchState::Ended { gone: None, .. }))
    });
    fs::write(&fifo, "\n").unwrap();
    assert_eq!(launch.wait().1.leftovers, 0);
    assert_eq!(launch.output(JournalChannel::Stdout), b"first\r\nlate\r\n");
}

#[test]
fn closed_terminal_does_not_end_the_command() {
    let script = "exec < /dev/null > /dev/null 2>&1; while :; do sleep 0.05; done";
    let mut launch = Launch::start(in_terminal(sh(script)));
    until("it is noted", || notes(&launch) == [JournalNote::StdoutClosed]);
    assert!(launch.held().child.is_alive().unwrap());
    let mut link = launch.link();
    let refused = write(&mut link, "k", b"anyone?\n");
    assert!(
        matches!(&refused, Err(Error::Fault(fault)) if fault.code == HolderFaultCode::StdinClosed),
        "{refused:?}"
    );
    link.request(HolderOp::Stop { grace_ms: 30_000 }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Signalled { signal: 15 }, EndCause::Stop));
}

#[test]
fn terminal_flood_is_blocked_at_the_limit() {
    let spec = in_terminal(sh("stty -opost; seq 1 100000"));
    let mut launch = Launch::start(HoldSpec { output_limit: 100_000, ..spec });
    let mut link = launch.link();
    wait_limited(&mut link, OutputPause::OutputLimit);
    assert_eq!(launch.output(JournalChannel::Stdout).len(), 100_000);
    assert!(launch.held().child.is_alive().unwrap());
    link.request(HolderOp::Limit { bytes: 1 << 30 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(launch.output(JournalChannel::Stdout) == expected.as_bytes());
}

#[test]
fn slow_reader_gets_input_complete_and_in_order() {
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
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert!(fs::read(out).unwrap() == numbers.as_bytes()[..300_000]);
}

#[test]
fn terminal_tree_is_ended_completely() {
    let script = "trap '' HUP; setsid sleep 1000 & (setsid sh -c 'sleep 1000' &); echo ready; wait";
    let mut launch = Launch::start(in_terminal(sh(script)));
    launch.wait_for_output("ready");
    launch.link().request(HolderOp::Stop { grace_ms: 5000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Signalled { signal: 15 }, EndCause::Stop));
    assert!(gone.verified);
    assert_eq!(provost_holder::tree::survivors(&launch.key).unwrap(), []);
}
