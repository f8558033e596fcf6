//! Output: in order, bounded, blocked rather than dropped.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use provost_holder::journal::{
    JournalChannel, JournalCursor, JournalLine, JournalNote, LineAssembler,
};
use provost_holder::wire::{HolderNotice, HolderOp, OutputPause};
use provost_holder::{
    EndCause, HoldSpec, LaunchState, OnLimit, ProcessEnd, ProcessInstance, inspect,
};

use crate::kit::{Launch, proc_value, sh, state, until, wait_limited, with_pipe, write};

#[test]
fn channels_and_input_keep_their_order() {
    let mut launch = Launch::start(with_pipe(sh("echo a; read x; echo b >&2; read x; echo c")));
    let mut link = launch.link();
    launch.wait_for_output("a\n");
    write(&mut link, "1", b"x\n").unwrap();
    until("the error output is there", || launch.output(JournalChannel::Stderr) == b"b\n");
    write(&mut link, "2", b"y\n").unwrap();
    let (exit, gone) = launch.wait();
    let spoken = launch.frames().into_iter().filter(|frame| frame.channel != JournalChannel::Note);
    let seen: Vec<_> = spoken.map(|frame| (frame.channel, frame.payload)).collect();
    let input = |key: &str, byte: &str| {
        let text =
            format!("{{\"key\":\"{key}\",\"len\":2,\"secret\":false,\"kept\":true}}\n{byte}\n");
        (JournalChannel::Stdin, text.into_bytes())
    };
    let expected = [
        (JournalChannel::Stdout, b"a\n".to_vec()),
        input("1", "x"),
        (JournalChannel::Stderr, b"b\n".to_vec()),
        input("2", "y"),
        (JournalChannel::Stdout, b"c\n".to_vec()),
    ];
    assert_eq!(seen, expected);
    assert_eq!(exit.journal_end, fs::metadata(launch.dir.join("journal")).unwrap().len());
    assert_eq!(gone.journal_end, exit.journal_end);
}

#[test]
fn line_of_100_mb_takes_no_memory() {
    let script = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo after; read line";
    let mut launch = Launch::start(with_pipe(sh(script)));
    let mut link = launch.link();
    let journal = File::open(launch.dir.join("journal")).unwrap();
    until("the line is written", || {
        let mut last = [0; 6];
        let end = journal.metadata().unwrap().len();
        journal.read_at(&mut last, end.saturating_sub(6)).unwrap();
        last == *b"after\n"
    });
    assert!(proc_value(launch.holder_pid(), "status", "VmHWM") < 16 << 10);
    write(&mut link, "k", b"\n").unwrap();
    launch.wait();
    let mut lines = LineAssembler::resume(JournalChannel::Stdout, JournalCursor::default());
    let found: Vec<JournalLine> = launch
        .frames()
        .iter()
        .flat_map(|frame| lines.feed(frame))
        .map(|delivered| delivered.line)
        .collect();
    assert_eq!(
        found,
        [JournalLine::Oversized { len: 100_000_000 }, JournalLine::Whole(b"after".to_vec())]
    );
}

#[test]
fn flood_blocks_at_limit_and_raise_loses_nothing() {
    let mut launch = Launch::start(HoldSpec { output_limit: 100_000, ..sh("seq 1 100000") });
    let mut link = launch.link();
    link.request(HolderOp::Follow).unwrap();
    until("the limit is reported", || {
        link.notice().unwrap() == HolderNotice::Limit { limited: OutputPause::OutputLimit }
    });
    assert_eq!(state(&mut link).limited, Some(OutputPause::OutputLimit));
    assert_eq!(launch.output(JournalChannel::Stdout).len(), 100_000);
    assert!(launch.held().child.is_alive().unwrap());
    assert_eq!(
        link.request(HolderOp::Limit { bytes: 200_000 }).unwrap().state.unwrap().limited,
        None
    );
    wait_limited(&mut link, OutputPause::OutputLimit);
    assert_eq!(launch.output(JournalChannel::Stdout).len(), 200_000);
    link.request(HolderOp::Limit { bytes: 1 << 30 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(launch.output(JournalChannel::Stdout) == expected.as_bytes());
    let notes: Vec<JournalNote> = launch.frames().iter().filter_map(note).collect();
    let reached = |limit| JournalNote::OutputLimit { limit };
    let raised = |limit| JournalNote::LimitRaised { limit };
    let limits = [reached(100_000), raised(200_000), reached(200_000), raised(1 << 30)];
    assert_eq!(notes[..4], limits);
    assert!(
        notes[4..].contains(&JournalNote::StdoutClosed)
            && notes[4..].contains(&JournalNote::StderrClosed)
    );
}

#[test]
fn flood_is_ended_at_limit_if_configured() {
    let spec = HoldSpec { output_limit: 70_000, on_limit: OnLimit::End, ..sh("yes") };
    let mut launch = Launch::start(spec);
    let (exit, gone) = launch.wait();
    assert_eq!(
        (exit.end, exit.ended_by),
        (ProcessEnd::Signalled { signal: 15 }, EndCause::OutputLimit)
    );
    assert!(gone.verified);
    assert_eq!(launch.output(JournalChannel::Stdout).len(), 70_000);
}

#[test]
fn output_of_exactly_the_limit_passes() {
    let spec = HoldSpec { output_limit: 5, on_limit: OnLimit::End, ..sh("echo 1234") };
    let mut launch = Launch::start(spec);
    assert_eq!(launch.wait().0.ended_by, EndCause::Itself);
    assert_eq!(launch.output(JournalChannel::Stdout), b"1234\n");
}

#[test]
fn pipe_content_beyond_limit_is_kept_at_exit() {
    let mut launch = Launch::start(HoldSpec { output_limit: 10, ..sh("seq 1 1000; exit 6") });
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 6 }, EndCause::Itself));
    assert_eq!(launch.output(JournalChannel::Stdout).len(), 3893);
}

#[test]
fn grandchild_output_within_settle_time_is_kept() {
    let script = "(read x < \"$FIFO\"; echo late) & echo first";
    let mut spec = HoldSpec { settle_ms: 60_000, ..sh(script) };
    let temp = tempfile::tempdir().unwrap();
    let fifo = temp.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    spec.env.push(("FIFO".into(), fifo.display().to_string()));
    let dir = temp.path().join("launch");
    let mut launch = Launch::start_at(temp, dir, spec);
    until("the leader's end is recorded", || {
        matches!(inspect(&launch.dir), Ok(LaunchState::Ended { gone: None, .. }))
    });
    let LaunchState::Ended { held: Some(held), exit, .. } = inspect(&launch.dir).unwrap() else {
        panic!()
    };
    let leader = ProcessInstance::of_pid(held.child.pid).unwrap();
    assert_eq!(
        leader.as_ref(),
        Some(&held.child),
        "it is not reaped while its group may be signalled"
    );
    assert!(!held.child.is_alive().unwrap(), "a zombie is dead");
    assert_eq!(exit.journal_end, launch.frames()[0].after, "all that the leader wrote");
    fs::write(&fifo, "\n").unwrap();
    let (_, gone) = launch.wait();
    assert_eq!((gone.leftovers, gone.verified), (0, true));
    assert_eq!(launch.output(JournalChannel::Stdout), b"first\nlate\n");
    assert!(gone.journal_end > exit.journal_end);
}

#[test]
fn grandchild_holding_the_pipe_does_not_delay_end() {
    let mut launch =
        Launch::start(HoldSpec { settle_ms: 50, ..sh("sleep 1000 & echo said; exit 2") });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 2 }, EndCause::Itself));
    assert_eq!((gone.leftovers, gone.verified), (1, true));
    assert_eq!(launch.output(JournalChannel::Stdout), b"said\n");
}

fn note(frame: &provost_holder::journal::JournalFrame) -> Option<JournalNote> {
    (frame.channel == JournalChannel::Note).then(|| serde_json::from_slice(&frame.payload).unwrap())
}
