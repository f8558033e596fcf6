//! Output: in order, bounded, blocked rather than dropped.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use provost_holder::journal::{Channel, Cursor, Line, Lines, Note};
use provost_holder::wire::{Limited, Notice, Op};
use provost_holder::{End, EndedBy, HoldSpec, Identity, Looked, OnLimit, look};

use crate::kit::{Launch, proc_value, sh, state, until, wait_limited, with_pipe, write};

#[test]
fn both_channels_and_the_input_are_in_order() {
    let mut launch = Launch::start(with_pipe(sh("echo a; read x; echo b >&2; read x; echo c")));
    let mut link = launch.link();
    launch.wait_for_output("a\n");
    write(&mut link, "1", b"x\n").unwrap();
    until("the error output is there", || launch.output(Channel::Stderr) == b"b\n");
    write(&mut link, "2", b"y\n").unwrap();
    let (exit, gone) = launch.wait();
    let spoken = launch.frames().into_iter().filter(|frame| frame.channel != Channel::Note);
    let seen: Vec<_> = spoken.map(|frame| (frame.channel, frame.payload)).collect();
    let input = |key: &str, byte: &str| {
        let text =
            format!("{{\"key\":\"{key}\",\"len\":2,\"secret\":false,\"kept\":true}}\n{byte}\n");
        (Channel::Stdin, text.into_bytes())
    };
    let expected = [
        (Channel::Stdout, b"a\n".to_vec()),
        input("1", "x"),
        (Channel::Stderr, b"b\n".to_vec()),
        input("2", "y"),
        (Channel::Stdout, b"c\n".to_vec()),
    ];
    assert_eq!(seen, expected);
    assert_eq!(exit.journal_end, fs::metadata(launch.dir.join("journal")).unwrap().len());
    assert_eq!(gone.journal_end, exit.journal_end);
}

#[test]
fn a_line_of_100_mb_takes_no_memory() {
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
    let mut lines = Lines::resume(Channel::Stdout, Cursor::default());
    let found: Vec<Line> = launch
        .frames()
        .iter()
        .flat_map(|frame| lines.feed(frame))
        .map(|delivered| delivered.line)
        .collect();
    assert_eq!(found, [Line::Oversized { len: 100_000_000 }, Line::Whole(b"after".to_vec())]);
}

#[test]
fn a_flood_is_blocked_at_the_limit_and_nothing_is_lost_when_it_is_raised() {
    let mut launch = Launch::start(HoldSpec { output_limit: 100_000, ..sh("seq 1 100000") });
    let mut link = launch.link();
    link.request(Op::Follow).unwrap();
    until("the limit is told", || {
        link.notice().unwrap() == Notice::Limit { limited: Limited::OutputLimit }
    });
    assert_eq!(state(&mut link).limited, Some(Limited::OutputLimit));
    assert_eq!(launch.output(Channel::Stdout).len(), 100_000);
    assert!(launch.held().child.is_alive().unwrap());
    assert_eq!(link.request(Op::Limit { bytes: 200_000 }).unwrap().state.unwrap().limited, None);
    wait_limited(&mut link, Limited::OutputLimit);
    assert_eq!(launch.output(Channel::Stdout).len(), 200_000);
    link.request(Op::Limit { bytes: 1 << 30 }).unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(launch.output(Channel::Stdout) == expected.as_bytes());
    let notes: Vec<Note> = launch.frames().iter().filter_map(note).collect();
    let reached = |limit| Note::OutputLimit { limit };
    let raised = |limit| Note::LimitRaised { limit };
    let limits = [reached(100_000), raised(200_000), reached(200_000), raised(1 << 30)];
    assert_eq!(notes[..4], limits);
    assert!(notes[4..].contains(&Note::StdoutClosed) && notes[4..].contains(&Note::StderrClosed));
}

#[test]
fn a_flood_is_ended_at_the_limit_if_the_spec_says_so() {
    let spec = HoldSpec { output_limit: 70_000, on_limit: OnLimit::End, ..sh("yes") };
    let mut launch = Launch::start(spec);
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Signalled { signal: 15 }, EndedBy::OutputLimit));
    assert!(gone.verified);
    assert_eq!(launch.output(Channel::Stdout).len(), 70_000);
}

#[test]
fn output_of_exactly_the_limit_is_within_it() {
    let spec = HoldSpec { output_limit: 5, on_limit: OnLimit::End, ..sh("echo 1234") };
    let mut launch = Launch::start(spec);
    assert_eq!(launch.wait().0.ended_by, EndedBy::Itself);
    assert_eq!(launch.output(Channel::Stdout), b"1234\n");
}

#[test]
fn what_a_command_left_in_its_pipe_beyond_the_limit_is_kept() {
    let mut launch = Launch::start(HoldSpec { output_limit: 10, ..sh("seq 1 1000; exit 6") });
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Exited { code: 6 }, EndedBy::Itself));
    assert_eq!(launch.output(Channel::Stdout).len(), 3893);
}

#[test]
fn a_grandchild_may_finish_its_words_within_the_settle_time() {
    let script = "(read x < \"$FIFO\"; echo late) & echo first";
    let mut spec = HoldSpec { settle_ms: 60_000, ..sh(script) };
    let temp = tempfile::tempdir().unwrap();
    let fifo = temp.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    spec.env.push(("FIFO".into(), fifo.display().to_string()));
    let dir = temp.path().join("launch");
    let mut launch = Launch::start_at(temp, dir, spec);
    until("the leader's end is recorded", || {
        matches!(look(&launch.dir), Ok(Looked::Ended { gone: None, .. }))
    });
    let Looked::Ended { held: Some(held), exit, .. } = look(&launch.dir).unwrap() else { panic!() };
    let leader = Identity::of(held.child.pid).unwrap();
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
    assert_eq!(launch.output(Channel::Stdout), b"first\nlate\n");
    assert!(gone.journal_end > exit.journal_end);
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_the_end() {
    let mut launch =
        Launch::start(HoldSpec { settle_ms: 50, ..sh("sleep 1000 & echo said; exit 2") });
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (End::Exited { code: 2 }, EndedBy::Itself));
    assert_eq!((gone.leftovers, gone.verified), (1, true));
    assert_eq!(launch.output(Channel::Stdout), b"said\n");
}

fn note(frame: &provost_holder::journal::Frame) -> Option<Note> {
    (frame.channel == Channel::Note).then(|| serde_json::from_slice(&frame.payload).unwrap())
}
