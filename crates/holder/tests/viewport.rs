//! Viewports: their output, their input, and that nothing depends on them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use provost_holder::client::Error;
use provost_holder::client::viewport::{self, ViewportCall, ViewportExit, ViewportIo};
use provost_holder::journal::{InputEnvelope, JournalChannel, TYPED_KEY};
use provost_holder::wire::{HolderFaultCode, HolderNotice, HolderOp, TerminalView, WireBytes};
use provost_holder::{HolderLink, ProcessEnd};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OutputModes, Winsize, tcgetattr, tcsetwinsize};

use crate::kit::{
    Launch, command, in_terminal, proc_value, program, sh, state, until, with_pipe, write,
};

/// Prints its size whenever it changes, and echoes its input.
const SIZES: &str =
    "trap 'stty size' WINCH; echo ready; while :; do read -t 0.05 x && echo got $x; done";

#[test]
fn resize_reaches_command_and_bad_size_is_refused() {
    let launch = Launch::start(in_terminal(command(&["bash", "-c", SIZES])));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    link.request(HolderOp::Resize { columns: 100, rows: 30 }).unwrap();
    launch.wait_for_output("30 100");
    for (columns, rows) in [(0, 0), (0, 30), (100, 0), (u16::MAX, u16::MAX)] {
        assert_bad(link.request(HolderOp::Resize { columns, rows }));
    }
    write(&mut link, "k", b"on\n").unwrap();
    launch.wait_for_output("got on");
}

#[test]
fn view_without_terminal_is_refused() {
    let launch = Launch::start(with_pipe(sh("read x")));
    let mut link = launch.link();
    assert_bad(link.request(HolderOp::View));
    assert_bad(link.request(HolderOp::Resize { columns: 80, rows: 24 }));
    assert_bad(link.request(typing(b"x")));
}

#[test]
fn viewports_see_the_same_and_command_outlives_them() {
    let launch = Launch::start(in_terminal(sh("while read x; do echo got $x; done")));
    let mut follower = launch.link();
    follower.request(HolderOp::Follow).unwrap();
    until("there is nobody", || follower.notice().unwrap() == HolderNotice::Viewers { count: 0 });
    let mut viewports = [launch.link(), launch.link()];
    viewports.iter_mut().for_each(|link| drop(link.request(HolderOp::View).unwrap()));
    until("both are counted", || follower.notice().unwrap() == HolderNotice::Viewers { count: 2 });
    for (at, line) in [(0, "first"), (1, "second")] {
        viewports[at].request(typing(format!("{line}\n").as_bytes())).unwrap();
        for link in &mut viewports {
            see(link, &format!("got {line}"));
        }
    }
    drop(viewports);
    until("both have left", || follower.notice().unwrap() == HolderNotice::Viewers { count: 0 });
    assert!(launch.held().child.is_alive().unwrap());
    write(&mut follower, "k", b"after\n").unwrap();
    launch.wait_for_output("got after");
}

#[test]
fn typed_input_is_journalled_as_typed() {
    let launch = Launch::start(in_terminal(sh("while read x; do echo got $x; done")));
    let mut link = launch.link();
    assert_bad(link.request(typing(b"early\n")));
    link.request(HolderOp::View).unwrap();
    for _ in 0..2 {
        link.request(typing(b"twice\n")).unwrap();
    }
    write(&mut link, "k", b"keyed\n").unwrap();
    let typed =
        || InputEnvelope { key: TYPED_KEY.into(), len: 6, secret: false, kept: true, typed: true };
    let keyed = InputEnvelope { key: "k".into(), typed: false, ..typed() };
    assert_eq!(envelopes(&launch), [typed(), typed(), keyed]);
    launch.wait_for_output("got keyed");
}

#[test]
fn typed_password_is_not_recorded() {
    let script = "stty -echo; echo ready; read x; stty echo; echo ${#x}; read x; echo bye";
    let mut launch = Launch::start(in_terminal(sh(script)));
    launch.wait_for_output("ready");
    let mut link = launch.link();
    link.request(HolderOp::View).unwrap();
    link.request(typing(b"canary-1234\n")).unwrap();
    launch.wait_for_output("11\r\n");
    let masked = HolderOp::Mask { forms: vec![WireBytes(b"canary-5678".to_vec())] };
    link.request(masked).unwrap();
    link.request(typing(b"canary-5678\n")).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    let kept: Vec<(bool, bool)> =
        envelopes(&launch).iter().map(|found| (found.secret, found.kept)).collect();
    assert_eq!(kept, [(true, false), (false, false)]);
    let journal = std::fs::read(launch.dir.join("journal")).unwrap();
    assert!(!String::from_utf8_lossy(&journal).contains("canary"));
}

#[test]
fn slow_viewport_misses_output_and_is_notified() {
    let flood = "head -c 100000000 /dev/zero | tr '\\0' x; echo after";
    let script = format!("stty -opost -echo; read x; {flood}; read x; echo bye");
    let mut launch = Launch::start(in_terminal(sh(&script)));
    let mut deaf = launch.link();
    deaf.request(HolderOp::View).unwrap();
    let mut link = launch.link();
    write(&mut link, "1", b"\n").unwrap();
    let journal = File::open(launch.dir.join("journal")).unwrap();
    until("the flood is over", || {
        let mut last = [0; 6];
        let end = journal.metadata().unwrap().len();
        journal.read_at(&mut last, end.saturating_sub(6)).unwrap();
        last == *b"after\n"
    });
    state(&mut link);
    assert!(proc_value(launch.holder_pid(), "status", "VmHWM") < 16 << 10);
    let (mut seen, mut missed) = (0, 0);
    while missed == 0 {
        match deaf.view().unwrap() {
            TerminalView::Output { data } => seen += data.0.len(),
            TerminalView::Skipped { bytes } => missed = bytes,
        }
    }
    write(&mut link, "2", b"\n").unwrap();
    seen += see(&mut deaf, "bye\n");
    launch.wait();
    assert_eq!(seen as u64 + missed, launch.output(JournalChannel::Stdout).len() as u64);
}

#[test]
fn user_views_types_resizes_and_detaches() {
    let launch = Launch::start(in_terminal(command(&["bash", "-c", SIZES])));
    launch.wait_for_output("ready");
    let mut person = ViewportUser::new(100, 30);
    let before = person.modes();
    let shown = person.view(&launch.dir);
    // First one row less, so that a program redraws its screen.
    person.wait_for("29 100");
    person.wait_for("30 100");
    person.type_in(b"hello\r");
    person.wait_for("got hello");
    person.resize(90, 20);
    person.wait_for("20 90");
    assert_ne!(person.modes(), before);
    person.type_in(b"\x1c");
    assert_eq!(shown.join().unwrap().unwrap(), ViewportExit::Detached);
    assert_eq!(person.modes(), before);
    person.wait_for("\x1b[?1049l");
    assert!(launch.held().child.is_alive().unwrap());
    let again = person.view(&launch.dir);
    person.wait_for("19 90");
    person.call(ViewportCall::Leave);
    assert_eq!(again.join().unwrap().unwrap(), ViewportExit::Detached);
    assert_eq!(person.modes(), before);
}

#[test]
fn command_end_restores_the_terminal() {
    let mut launch = Launch::start(in_terminal(sh("echo ready; read x; echo $x; exit 3")));
    launch.wait_for_output("ready");
    let mut person = ViewportUser::new(80, 24);
    let before = person.modes();
    let shown = person.view(&launch.dir);
    person.type_in(b"bye\r");
    assert_eq!(shown.join().unwrap().unwrap(), ViewportExit::Ended);
    person.wait_for("bye\r\nbye");
    assert_eq!(person.modes(), before);
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 3 });
    let refused = person.view(&launch.dir).join().unwrap();
    assert!(matches!(refused, Err(viewport::Error::Reach(_))), "{refused:?}");
}

#[test]
fn killed_viewport_affects_nothing() {
    let launch = Launch::start(in_terminal(command(&["bash", "-c", SIZES])));
    launch.wait_for_output("ready");
    let mut follower = launch.link();
    follower.request(HolderOp::Follow).unwrap();
    let mut person = ViewportUser::new(100, 30);
    let mut client = Command::new(&program()[0])
        .arg("--view")
        .arg(&launch.dir)
        .stdin(person.seat.try_clone().unwrap())
        .stdout(person.seat.try_clone().unwrap())
        .spawn()
        .unwrap();
    person.wait_for("30 100");
    until("it was there", || follower.notice().unwrap() == HolderNotice::Viewers { count: 1 });
    client.kill().unwrap();
    client.wait().unwrap();
    until("it has left", || follower.notice().unwrap() == HolderNotice::Viewers { count: 0 });
    write(&mut follower, "k", b"alone\n").unwrap();
    launch.wait_for_output("got alone");
}

#[test]
fn unattended_viewport_is_not_counted() {
    let launch = Launch::start(in_terminal(command(&["bash", "-c", SIZES])));
    launch.wait_for_output("ready");
    let mut follower = launch.link();
    follower.request(HolderOp::Follow).unwrap();
    let mut person = ViewportUser::new(100, 30);
    let shown = person.view_as(&launch.dir, false);
    person.wait_for("30 100");
    person.call(ViewportCall::Attended);
    let mut counted = Vec::new();
    let mut visits = |until_people: u32| {
        until("the count", || {
            if let HolderNotice::Viewers { count: people } = follower.notice().unwrap() {
                counted.push(people);
            }
            counted.last() == Some(&until_people)
        });
    };
    visits(0);
    visits(1);
    person.call(ViewportCall::Unattended);
    visits(0);
    person.type_in(b"hello\r");
    person.wait_for("got hello");
    person.call(ViewportCall::Leave);
    assert_eq!(shown.join().unwrap().unwrap(), ViewportExit::Detached);
    assert_eq!(counted, [0, 1, 0], "nobody was counted while it began");
}

#[test]
fn non_terminal_is_refused() {
    let launch = Launch::start(in_terminal(sh("sleep 1000")));
    let (one, _other) = UnixStream::pair().unwrap();
    let place =
        ViewportIo { input: one.as_fd(), output: one.as_fd(), calls: one.as_fd(), attended: true };
    let refused = viewport::view(&launch.dir, place);
    assert!(matches!(refused, Err(viewport::Error::NoTerminal(_))), "{refused:?}");
}

/// A user with their own terminal.
struct ViewportUser {
    screen: File,
    seat: OwnedFd,
    caller: io::PipeWriter,
    calls: io::PipeReader,
    seen: Vec<u8>,
}

impl ViewportUser {
    fn new(columns: u16, rows: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = openpt(flags).unwrap();
        unlockpt(&screen).unwrap();
        let seat = ioctl_tiocgptpeer(&screen, flags).unwrap();
        rustix::io::ioctl_fionbio(&screen, true).unwrap();
        let (calls, caller) = io::pipe().unwrap();
        let person = Self { screen: screen.into(), seat, caller, calls, seen: Vec::new() };
        person.set_size(columns, rows);
        person
    }

    fn view(&self, dir: &Path) -> JoinHandle<Result<ViewportExit, viewport::Error>> {
        self.view_as(dir, true)
    }

    fn view_as(
        &self,
        dir: &Path,
        attended: bool,
    ) -> JoinHandle<Result<ViewportExit, viewport::Error>> {
        let (dir, seat) = (dir.to_owned(), self.seat.try_clone().unwrap());
        let calls = self.calls.try_clone().unwrap();
        std::thread::spawn(move || {
            let (input, output, calls) = (seat.as_fd(), seat.as_fd(), calls.as_fd());
            let place = ViewportIo { input, output, calls, attended };
            viewport::view(&dir, place)
        })
    }

    fn set_size(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.seat, size).unwrap();
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.set_size(columns, rows);
        self.call(ViewportCall::Resized);
    }

    fn call(&mut self, call: ViewportCall) {
        self.caller.write_all(&[call.byte()]).unwrap();
    }

    fn type_in(&mut self, keys: &[u8]) {
        self.screen.write_all(keys).unwrap();
    }

    /// Waits for this text on the screen, after the text awaited before.
    fn wait_for(&mut self, text: &str) {
        until(text, || {
            let mut part = [0; 4096];
            if let Ok(read) = self.screen.read(&mut part) {
                self.seen.extend_from_slice(&part[..read]);
            }
            let found = self.seen.windows(text.len()).position(|found| found == text.as_bytes());
            if let Some(at) = found {
                self.seen.drain(..at + text.len());
            }
            found.is_some()
        });
    }

    fn modes(&self) -> (LocalModes, OutputModes) {
        let modes = tcgetattr(&self.seat).unwrap();
        (modes.local_modes, modes.output_modes)
    }
}

fn typing(bytes: &[u8]) -> HolderOp {
    HolderOp::Type { data: WireBytes(bytes.to_vec()) }
}

/// Waits for this text in a viewport's output. Returns the number of bytes read.
fn see(link: &mut HolderLink, text: &str) -> usize {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        match link.view().unwrap() {
            TerminalView::Output { data } => seen.extend(data.0),
            TerminalView::Skipped { bytes } => panic!("skipped {bytes}"),
        }
    }
    seen.len()
}

fn envelopes(launch: &Launch) -> Vec<InputEnvelope> {
    let input = launch.frames().into_iter().filter(|frame| frame.channel == JournalChannel::Stdin);
    input.map(|frame| InputEnvelope::split(&frame.payload).unwrap().0).collect()
}

fn assert_bad<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let bad =
        matches!(&answer, Err(Error::Fault(fault)) if fault.code == HolderFaultCode::BadRequest);
    assert!(bad, "{answer:?}");
}
