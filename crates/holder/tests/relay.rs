//! Listening commands: one connection, one line per message, everything else as with pipes.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use provost_holder::journal::{
    InputEnvelope, JournalChannel, JournalCursor, JournalLine, JournalNote, LineAssembler,
    RelayNote,
};
use provost_holder::wire::{HolderFaultCode, HolderOp, OutputPause, WireBytes};
use provost_holder::{
    EndCause, HoldSpec, LaunchState, OnLimit, ProcessEnd, Relay, RelayListener, StdinMode, inspect,
};
use provost_sys::origin::Boundary;

use crate::kit::{
    pause, proc_value, sh, state, switches_when_idle, until, voluntary_switches, wait_limited,
    write, write_op,
};
use crate::relay_env::{
    RelayEnv, envelopes, fault, lines_with, notes, relayed, serve, text, wait_for_errors,
};

/// The peak memory of a holder while a large message passes through it.
const MAX_PEAK_KB: u64 = 16 << 10;
/// Private memory of an idle holder.
const MAX_PRIVATE_KB: u64 = 2048;

#[test]
fn messages_are_stdout_and_real_streams_stderr() {
    let steps = "say:out complain:err listen accept say:more text:one text: text:three";
    let mut launch = serve(steps);
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 0 }, EndCause::Itself));
    assert!(gone.verified);
    assert_eq!(text(&launch, JournalChannel::Stdout), "one\n\nthree\n");
    assert_eq!(text(&launch, JournalChannel::Stderr), "out\nerr\nmore\n");
    assert_eq!(exit.journal_end, launch.frames().last().unwrap().after);
    let (notes, relay) = notes(&launch);
    assert!(
        notes.contains(&JournalNote::StdoutClosed) && notes.contains(&JournalNote::StderrClosed)
    );
    let closed = RelayNote::RelayClosed { why: "the server ended the connection".into() };
    assert_eq!(relay, [RelayNote::RelayOpen, closed]);
}

#[test]
fn late_server_is_found_without_polling() {
    let stage = RelayEnv::new();
    let fifo = stage.fifo();
    let mut launch = stage.start(&format!("await:{fifo} listen accept echo:2"));
    let mut early = launch.link();
    let first = early.send(write_op("1", b"first\n")).unwrap();
    let second = early.send(write_op("2", b"second\n")).unwrap();
    state(&mut launch.link());
    let before = switches_when_idle(launch.holder_pid());
    pause(Duration::from_secs(1));
    assert_eq!(voluntary_switches(launch.holder_pid()), before);
    assert_eq!(launch.frames(), []);
    fs::write(&fifo, "").unwrap();
    assert!(early.reply(first).unwrap().ok && early.reply(second).unwrap().ok);
    launch.wait();
    assert_eq!(text(&launch, JournalChannel::Stdout), "got first\ngot second\n");
}

#[test]
fn stale_socket_is_retried_until_server_listens() {
    let stage = RelayEnv::new();
    let fifo = stage.fifo();
    drop(UnixListener::bind(stage.socket()).unwrap());
    let mut launch = stage.start(&format!("await:{fifo} listen accept text:here"));
    state(&mut launch.link());
    fs::remove_file(launch.path("s.sock")).unwrap();
    fs::write(&fifo, "").unwrap();
    launch.wait();
    assert_eq!(text(&launch, JournalChannel::Stdout), "here\n");
}

#[test]
fn socket_may_have_long_path_and_be_a_link() {
    let stage = RelayEnv::new();
    let deep = stage.temp.path().join("d".repeat(200));
    fs::create_dir(&deep).unwrap();
    let server = stage.socket();
    let link = deep.join("link.sock");
    let script = "\"$SERVER\" \"$SOCKET\" listen accept text:reached & \
        until test -S \"$SOCKET\"; do sleep 0.05; done; ln -s \"$SOCKET\" \"$LINK\"; wait";
    let mut spec = relayed(sh(script), &link);
    let program = env!("CARGO_BIN_EXE_websocket-for-tests");
    let given =
        [("SERVER", program.into()), ("SOCKET", server), ("LINK", link.display().to_string())];
    spec.env.extend(given.map(|(name, value)| (name.to_owned(), value)));
    let mut launch = stage.hold(spec);
    launch.wait();
    assert_eq!(text(&launch, JournalChannel::Stdout), "reached\n");
}

#[test]
fn fragments_are_joined_and_pings_answered() {
    let steps = "listen accept part:one, ping:there? pong:there? middle:two, last:three \
        ping: pong: text:end";
    let mut launch = serve(steps);
    assert_eq!(
        launch.wait().0.end,
        ProcessEnd::Exited { code: 0 },
        "{}",
        text(&launch, JournalChannel::Stderr)
    );
    assert_eq!(text(&launch, JournalChannel::Stdout), "one,two,three\nend\n");
}

#[test]
fn line_feed_in_message_does_not_end_line() {
    let stage = RelayEnv::new();
    let spec = stage.spec(&["listen", "accept", "text:{\n\"a\":\n1}", "text:next"]);
    let mut launch = stage.hold(spec);
    launch.wait();
    assert_eq!(text(&launch, JournalChannel::Stdout), "{ \"a\": 1}\nnext\n");
}

#[test]
fn binary_messages_are_skipped_and_first_noted() {
    let mut launch = serve("listen accept binary:12345 text:one binary:67 text:two close closed");
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert_eq!(text(&launch, JournalChannel::Stdout), "one\ntwo\n");
    assert_eq!(notes(&launch).1[1], RelayNote::RelayBinary { len: 5 });
}

#[test]
fn message_of_20_mb_takes_no_memory() {
    let stage = RelayEnv::new();
    let fifo = stage.fifo();
    let steps = format!("listen accept big:20000000 big:16777216 text:after await:{fifo}");
    let mut launch = stage.start(&steps);
    launch.wait_for_output("after");
    let peak = proc_value(launch.holder_pid(), "status", "VmHWM");
    println!("peak: {peak} kB");
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    fs::write(&fifo, "").unwrap();
    launch.wait();
    let mut lines = LineAssembler::resume(JournalChannel::Stdout, JournalCursor::default());
    let delivered = launch.frames().into_iter().flat_map(|frame| lines.feed(&frame));
    let found: Vec<JournalLine> = delivered.map(|delivered| delivered.line).collect();
    let expected = [
        JournalLine::Oversized { len: 20_000_000 },
        JournalLine::Whole(vec![b'x'; 16_777_216]),
        JournalLine::Whole(b"after".to_vec()),
    ];
    assert!(found == expected);
}

#[test]
fn messages_in_one_read_are_separate_lines() {
    let mut launch = serve("listen accept batch:50000");
    launch.wait();
    let expected: String = (0..50_000).map(|at| format!("message {at}\n")).collect();
    assert!(text(&launch, JournalChannel::Stdout) == expected);
    let out = launch.frames().into_iter().filter(|frame| frame.channel == JournalChannel::Stdout);
    assert!(out.count() < 1000, "messages that come together are written together");
}

#[test]
fn closed_connection_closes_output_of_live_server() {
    let launch = serve("listen accept text:one close:done closed hangup complain:lives park");
    wait_for_errors(&launch, "lives");
    let mut link = launch.link();
    for key in ["a", "b", "a"] {
        assert_eq!(fault(write(&mut link, key, b"x\n")), HolderFaultCode::StdinClosed);
    }
    assert!(launch.held().child.is_alive().unwrap());
    let (notes, relay) = notes(&launch);
    assert_eq!(notes, [JournalNote::StdoutClosed]);
    let why = "the server closed the connection: 1000 done".into();
    assert_eq!(relay, [RelayNote::RelayOpen, RelayNote::RelayClosed { why }]);
    assert_eq!(text(&launch, JournalChannel::Stdout), "one\n");
}

#[test]
fn broken_connection_keeps_partial_message() {
    let launch = serve("listen accept part:half hangup complain:lives park");
    wait_for_errors(&launch, "lives");
    until("the end is noted", || notes(&launch).0 == [JournalNote::StdoutClosed]);
    assert_eq!(text(&launch, JournalChannel::Stdout), "half");
    assert_eq!(fault(write(&mut launch.link(), "k", b"x\n")), HolderFaultCode::StdinClosed);
}

#[test]
fn server_death_ends_launch_and_keeps_output() {
    let mut launch = serve("listen accept flood:5000 text:last park");
    launch.wait_for_output("last");
    let child = launch.held().child;
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Signalled { signal: 9 }, EndCause::Itself));
    assert!(gone.verified);
    assert_eq!(
        notes(&launch).0.iter().filter(|note| **note == JournalNote::StdoutClosed).count(),
        1
    );
    let expected: String = (0..5000).map(|at| format!("message {at}\n")).collect();
    assert!(text(&launch, JournalChannel::Stdout) == format!("{expected}last\n"));
}

#[test]
fn output_of_short_lived_server_is_kept() {
    for _ in 0..20 {
        let mut launch = serve("listen accept text:brief");
        launch.wait();
        assert_eq!(text(&launch, JournalChannel::Stdout), "brief\n");
    }
}

#[test]
fn refusing_or_absent_server_closes_output() {
    let refusing = serve("listen refuse complain:lives park");
    wait_for_errors(&refusing, "lives");
    until("the refusal is noted", || notes(&refusing).0 == [JournalNote::StdoutClosed]);
    let why = "the server rejected the upgrade: the response is \"HTTP/1.1 403 Forbidden\"".into();
    assert_eq!(notes(&refusing).1, [RelayNote::RelayFailed { why }]);
    let stage = RelayEnv::new();
    let fifo = stage.fifo();
    let mut absent = stage.start(&format!("await:{fifo}"));
    let mut link = absent.link();
    let waiting = link.send(write_op("k", b"x\n")).unwrap();
    // Answered after the write was accepted.
    state(&mut link);
    fs::write(&fifo, "").unwrap();
    assert_eq!(fault(link.reply(waiting)), HolderFaultCode::StdinClosed);
    assert_eq!(absent.wait().0.end, ProcessEnd::Exited { code: 0 });
    let why = "the command ended before the holder connected to it".into();
    assert_eq!(notes(&absent).1, [RelayNote::RelayClosed { why }]);
    assert!(notes(&absent).0.contains(&JournalNote::StdoutClosed));
    assert_eq!(envelopes(&absent), []);
}

#[test]
fn key_is_sent_once_for_all_clients() {
    let stage = RelayEnv::new();
    let fifo = stage.fifo();
    let mut launch = stage.start(&format!("await:{fifo} listen accept echo:3"));
    // Queued by a client that disconnects before the connection is established.
    let mut gone = launch.link();
    gone.send(write_op("k1", b"one\n")).unwrap();
    state(&mut gone);
    drop(gone);
    let mut link = launch.link();
    let same = link.send(write_op("k1", b"one\n")).unwrap();
    // Both are waiting before the connection is established.
    state(&mut link);
    fs::write(&fifo, "").unwrap();
    assert!(!link.reply(same).unwrap().already);
    launch.wait_for_output("got one\n");
    drop(link);
    let mut link = launch.link();
    assert!(write(&mut link, "k1", b"one\n").unwrap().already);
    assert!(!write(&mut link, "k2", "zwölf\n".as_bytes()).unwrap().already);
    assert_eq!(fault(write(&mut link, "k2", b"other\n")), HolderFaultCode::Conflict);
    assert!(!write(&mut link, "k3", b"without an end").unwrap().already);
    launch.wait();
    assert_eq!(text(&launch, JournalChannel::Stdout), "got one\ngot zwölf\ngot without an end\n");
    let kept: Vec<_> =
        envelopes(&launch).into_iter().map(|(sent, kept)| (sent.key, kept)).collect();
    let expected = [("k1", "one\n"), ("k2", "zwölf\n"), ("k3", "without an end")];
    assert_eq!(kept, expected.map(|(key, kept)| (key.to_owned(), kept.to_owned())));
}

#[test]
fn long_unread_message_blocks_no_one() {
    let stage = RelayEnv::new();
    let fifo = stage.fifo();
    let mut launch =
        stage.start(&format!("listen accept text:up await:{fifo} ping:p echo:1 pong:p"));
    launch.wait_for_output("up");
    let long = vec![b'y'; 1 << 20];
    let mut waiting = launch.link();
    let id = waiting.send(write_op("long", &long)).unwrap();
    state(&mut waiting);
    assert_eq!(fault(write(&mut launch.link(), "more", b"x")), HolderFaultCode::Busy);
    assert_eq!(envelopes(&launch), []);
    fs::write(&fifo, "").unwrap();
    assert!(waiting.reply(id).unwrap().ok);
    assert_eq!(
        launch.wait().0.end,
        ProcessEnd::Exited { code: 0 },
        "{}",
        text(&launch, JournalChannel::Stderr)
    );
    let expected = [b"up\ngot ", long.as_slice(), b"\n"].concat();
    assert!(launch.output(JournalChannel::Stdout) == expected);
}

#[test]
fn message_must_be_text() {
    let launch = serve("listen accept text:up park");
    launch.wait_for_output("up");
    assert_eq!(fault(write(&mut launch.link(), "k", b"\xff\n")), HolderFaultCode::BadRequest);
}

#[test]
fn secret_message_is_journalled_as_envelope_only() {
    let mut launch = serve("listen accept hear:canary-1234 text:heard");
    let data = WireBytes(b"canary-1234\n".to_vec());
    launch.link().request(HolderOp::Write { key: "s".into(), data, secret: true }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert_eq!(text(&launch, JournalChannel::Stdout), "heard\n");
    let expected =
        InputEnvelope { key: "s".into(), len: 12, secret: true, kept: false, typed: false };
    assert_eq!(envelopes(&launch), [(expected, String::new())]);
    for entry in fs::read_dir(&launch.dir).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        // The command line of the test's server contains it.
        let text = String::from_utf8_lossy(&bytes).replace("hear:canary-1234", "");
        assert!(!text.contains("canary"), "{path:?}");
    }
}

#[test]
fn connection_is_not_read_at_limit_without_loss() {
    let stage = RelayEnv::new();
    let spec =
        HoldSpec { output_limit: 100_000, ..stage.spec(&["listen", "accept", "flood:100000"]) };
    let mut launch = stage.hold(spec);
    let mut link = launch.link();
    wait_limited(&mut link, OutputPause::OutputLimit);
    // The end of a message may be the one byte beyond.
    assert!((100_000..=100_001).contains(&launch.output(JournalChannel::Stdout).len()));
    assert!(launch.held().child.is_alive().unwrap(), "it waits for its messages to be read");
    link.request(HolderOp::Limit { bytes: 200_000 }).unwrap();
    wait_limited(&mut link, OutputPause::OutputLimit);
    assert!((200_000..=200_001).contains(&launch.output(JournalChannel::Stdout).len()));
    link.request(HolderOp::Limit { bytes: 1 << 30 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    let expected: String = (0..100_000).map(|at| format!("message {at}\n")).collect();
    assert!(text(&launch, JournalChannel::Stdout) == expected);
}

#[test]
fn server_is_ended_at_limit_if_configured() {
    let stage = RelayEnv::new();
    let spec = stage.spec(&["listen", "accept", "flood:1000000"]);
    let mut launch = stage.hold(HoldSpec { output_limit: 5000, on_limit: OnLimit::End, ..spec });
    let (exit, _) = launch.wait();
    assert_eq!(
        (exit.end, exit.ended_by),
        (ProcessEnd::Signalled { signal: 15 }, EndCause::OutputLimit)
    );
    assert!((5000..=5001).contains(&launch.output(JournalChannel::Stdout).len()));
}

#[test]
fn stop_sends_term_twice_then_kills() {
    let counting = "trap 'count=x$count; echo $count; test $count = xx && exit 8' TERM; \
        echo ready; while :; do sleep 0.05; done";
    let mut launch = RelayEnv::new().hold_relayed(sh(counting));
    wait_for_errors(&launch, "ready");
    launch.link().request(HolderOp::Stop { grace_ms: 3_600_000 }).unwrap();
    let (exit, _) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Exited { code: 8 }, EndCause::Stop));
    assert_eq!(lines_with(&launch, "x"), 2);
    let deaf = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done";
    let mut launch = RelayEnv::new().hold_relayed(sh(deaf));
    wait_for_errors(&launch, "ready");
    launch.link().request(HolderOp::Stop { grace_ms: 1500 }).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Signalled { signal: 9 });
    assert_eq!(lines_with(&launch, "heard"), 2);
}

#[test]
fn server_ending_at_first_term_is_not_awaited() {
    let mut launch = serve("listen accept text:up park");
    launch.wait_for_output("up");
    launch.link().request(HolderOp::Stop { grace_ms: 3_600_000 }).unwrap();
    let (exit, gone) = launch.wait();
    assert_eq!((exit.end, exit.ended_by), (ProcessEnd::Signalled { signal: 15 }, EndCause::Stop));
    assert_eq!((gone.leftovers, gone.verified), (0, true));
}

#[test]
fn standard_input_follows_the_spec() {
    let stage = RelayEnv::new();
    let spec = stage.spec(&["listen", "accept", "stdin", "echo:1"]);
    let mut launch = stage.hold(HoldSpec { stdin: StdinMode::Text("given".into()), ..spec });
    launch.wait_for_output("given\n");
    write(&mut launch.link(), "k", b"said\n").unwrap();
    launch.wait();
    assert_eq!(text(&launch, JournalChannel::Stdout), "given\ngot said\n");
    let stage = RelayEnv::new();
    let spec = stage.spec(&["listen", "accept", "text:up", "stdin", "park"]);
    let launch = stage.hold(HoldSpec { stdin: StdinMode::Pipe, ..spec });
    launch.wait_for_output("up\n");
    let mut link = launch.link();
    link.request(HolderOp::CloseStdin).unwrap();
    launch.wait_for_output("up\n\n");
    assert_eq!(fault(write(&mut link, "k", b"x\n")), HolderFaultCode::StdinClosed);
    assert_eq!(notes(&launch).0, [], "the connection stays");
}

#[test]
fn missing_socket_directory_fails_before_start() {
    let stage = RelayEnv::new();
    let spec = relayed(sh("touch started"), &stage.temp.path().join("none/s.sock"));
    let mut launch = stage.hold(spec);
    assert!(launch.wait_for_holder().success());
    let LaunchState::Ended { held: None, exit, .. } = inspect(&launch.dir).unwrap() else {
        panic!()
    };
    let ProcessEnd::NotStarted { error } = exit.end else { panic!("{:?}", exit.end) };
    assert!(error.contains("none/s.sock\": No such file"), "{error}");
}

#[test]
fn idle_connection_needs_no_wakeups_little_memory() {
    let launch = serve("listen accept big:300000 batch:50000 echo:1 text:up park");
    write(&mut launch.link(), "k", &[&[b'z'; 500_000][..], b"\n"].concat()).unwrap();
    launch.wait_for_output("up\n");
    let mut link = launch.link();
    link.request(HolderOp::Follow).unwrap();
    state(&mut link);
    let before = switches_when_idle(launch.holder_pid());
    pause(Duration::from_secs(2));
    let after = voluntary_switches(launch.holder_pid());
    println!("wake-ups in 2 s: {}", after - before);
    assert_eq!(after, before);
    let dirty = proc_value(launch.holder_pid(), "status", "RssAnon");
    println!("private: {dirty} kB dirty");
    assert!(dirty <= MAX_PRIVATE_KB, "{dirty} kB");
}

#[test]
fn server_is_unreachable_after_connecting() {
    let launch = serve("listen accept text:up park");
    launch.wait_for_output("up\n");
    assert!(!launch.path("s.sock").exists(), "its name was taken away");
}

#[test]
fn server_with_second_name_is_rejected() {
    let stage = RelayEnv::new();
    let (socket, fifo) = (stage.socket(), stage.fifo());
    let spec = stage.spec(&["listen", &format!("await:{fifo}"), "park"]);
    // Bound elsewhere first, so that the second name exists before the holder finds the first.
    let other = format!("{socket}.other");
    let mut spec = HoldSpec { relay: None, ..spec };
    spec.argv[1] = other.clone();
    let mut launch = stage.hold_relayed(spec);
    until("it listens", || Path::new(&other).exists());
    fs::hard_link(&other, &socket).unwrap();
    until("it is given up", || {
        let (_, relay) = notes(&launch);
        relay.iter().any(|note| {
            matches!(note, RelayNote::RelayFailed { why } if why.contains("has another name"))
        })
    });
    launch.link().request(HolderOp::Stop { grace_ms: 0 }).unwrap();
    launch.wait();
}

#[test]
fn operator_passes_listener_and_agent_does_not() {
    let stage = RelayEnv::new();
    let door = stage.temp.path().join("a.sock");
    let held = stage.temp.path().to_owned();
    let spec = stage.spec(&["listen", "accept", "text:up", "accept", "park"]);
    let relay = spec
        .relay
        .clone()
        .map(|relay| Relay { listener: Some(RelayListener { socket: door.clone() }), ..relay });
    fs::create_dir(held.join("some-check")).unwrap();
    // This test is the operator until it takes the lock; then it is the daemon.
    let boundary = Some(Boundary {
        holder_dirs: vec![held.clone()],
        lock: held.join("lock"),
        register: held.join("register"),
        pinning: Default::default(),
    });
    let mut launch = stage.hold(HoldSpec { relay, boundary, ..spec });
    launch.wait_for_output("up\n");
    until("the door is open", || door.exists());

    let tries = |mark: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_websocket-for-tests"));
        command.arg(&door).arg("visit").env("PROVOST_LAUNCH", mark);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(tries("some-check"), "HTTP/1.1 403 Forbidden\n");
    assert!(tries("of-another-home").starts_with("HTTP/1.1 101"));
    let refused = launch.link().request(HolderOp::Stop { grace_ms: 0 });
    assert!(
        refused.unwrap_err().to_string().contains("rejected the request"),
        "the operator is not the daemon"
    );
    let lock = fs::File::create(held.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    launch.link().request(HolderOp::Stop { grace_ms: 0 }).unwrap();
    launch.wait();
    assert!(!door.exists(), "the door goes with the holder");
}

#[test]
fn f2_20_socket_of_another_process_is_kept() {
    let stage = RelayEnv::new();
    let foreign = stage.temp.path().join("foreign.sock");
    let _listener = UnixListener::bind(&foreign).unwrap();
    let link = stage.temp.path().join("link.sock");
    let rejected = stage.temp.path().join("rejected");
    let script = "ln -s \"$FOREIGN\" \"$LINK\"; until [ -e \"$REJECTED\" ]; do sleep 0.05; done";
    let mut spec = relayed(sh(script), &link);
    let given = [("FOREIGN", &foreign), ("LINK", &link), ("REJECTED", &rejected)];
    spec.env.extend(given.map(|(name, path)| (name.to_owned(), path.display().to_string())));
    let mut launch = stage.hold(spec);
    until("the holder rejects the socket", || {
        let failed = |note: &RelayNote| matches!(note, RelayNote::RelayFailed { .. });
        notes(&launch).1.iter().any(failed)
    });
    fs::write(&rejected, "").unwrap();
    launch.wait();
    assert!(foreign.exists(), "the holder removed a socket that the agent did not make");
}

#[test]
fn f4_1_socket_path_stays_until_upgrade_answer() {
    let mut launch = serve("listen request chmod answer text:up");
    let (exit, _) = launch.wait();
    assert_eq!(
        exit.end,
        ProcessEnd::Exited { code: 0 },
        "{}",
        text(&launch, JournalChannel::Stderr)
    );
    assert_eq!(text(&launch, JournalChannel::Stdout), "up\n");
    assert!(!launch.path("s.sock").exists(), "its name is taken away after the answer");
}
