//! Input: each key is written once, secrets only as envelopes, and the holder never blocks on it.

use std::fs;

use provost_holder::client::Error;
use provost_holder::journal::{FrameFlags, InputEnvelope, JournalChannel};
use provost_holder::wire::{HolderFaultCode, HolderOp, WireBytes};
use provost_holder::{HoldSpec, ProcessEnd, StdinMode};

use crate::kit::{Launch, command, sh, state, until, with_pipe, write, write_op};

#[test]
fn key_is_written_once_for_all_clients() {
    let mut launch = Launch::start(with_pipe(command(&["cat"])));
    let mut link = launch.link();
    assert!(!write(&mut link, "k1", b"one\n").unwrap().already);
    assert!(write(&mut link, "k1", b"one\n").unwrap().already);
    drop(link);
    let mut link = launch.link();
    assert!(write(&mut link, "k1", b"one\n").unwrap().already);
    assert!(!write(&mut link, "k2", b"two\n").unwrap().already);
    link.request(HolderOp::CloseStdin).unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert_eq!(launch.output(JournalChannel::Stdout), b"one\ntwo\n");
    assert_eq!(envelopes(&launch).len(), 2);
}

#[test]
fn secret_input_is_journalled_as_envelope_only() {
    let mut launch = Launch::start(with_pipe(sh("read secret; echo ${#secret}")));
    let secret = HolderOp::Write {
        key: "s".into(),
        data: WireBytes(b"canary-1234\n".to_vec()),
        secret: true,
    };
    launch.link().request(secret).unwrap();
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"11\n");
    let frame = launch.frames().remove(0);
    assert!(frame.flags.contains(FrameFlags::SECRET));
    let expected =
        InputEnvelope { key: "s".into(), len: 12, secret: true, kept: false, typed: false };
    assert_eq!(InputEnvelope::split(&frame.payload), Some((expected, &b""[..])));
    for entry in fs::read_dir(&launch.dir).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("canary") && !text.contains("Y2FuYXJ5"), "in clear or in base64");
    }
}

#[test]
fn masked_secret_in_pieces_is_in_neither_stream() {
    let script = "read secret; printf 'it is canary-'; read go; printf '1234, yes\\n'; \
                  echo $secret >&2; printf 'canary-12'";
    let mut launch = Launch::start(with_pipe(sh(script)));
    let mut link = launch.link();
    link.request(HolderOp::Mask { forms: vec![WireBytes(b"canary-1234".to_vec())] }).unwrap();
    write(&mut link, "s", b"canary-1234\n").unwrap();
    launch.wait_for_output("it is ");
    write(&mut link, "go", b"go\n").unwrap();
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"it is ***********, yes\n*********");
    assert_eq!(launch.output(JournalChannel::Stderr), b"***********\n");
}

#[test]
fn invalid_mask_form_is_refused_others_masked() {
    let mut launch = Launch::start(with_pipe(sh("read word; echo $word")));
    let mut link = launch.link();
    let forms = [&b"short"[..], b"canary-1234"].map(|form| WireBytes(form.to_vec())).to_vec();
    let Err(Error::Fault(fault)) = link.request(HolderOp::Mask { forms }) else { panic!("taken") };
    assert_eq!(fault.code, HolderFaultCode::BadRequest);
    write(&mut link, "k", b"short canary-1234\n").unwrap();
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"short ***********\n");
}

#[test]
fn spec_text_is_written_then_input_closes() {
    let text: String = (0..300_000).map(|number| format!("{number},")).collect();
    let mut launch =
        Launch::start(HoldSpec { stdin: StdinMode::Text(text.clone()), ..command(&["cat"]) });
    launch.wait();
    assert!(launch.output(JournalChannel::Stdout) == text.as_bytes());
    assert!(kept_input(&launch) == text.as_bytes(), "several frames make one input");
}

#[test]
fn empty_spec_text_closes_input() {
    let mut launch =
        Launch::start(HoldSpec { stdin: StdinMode::Text(String::new()), ..sh("cat; echo end") });
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"end\n");
}

#[test]
fn unread_input_never_blocks_the_holder() {
    let mut launch = Launch::start(with_pipe(sh("sleep 1000")));
    let mut waiting = launch.link();
    let id = waiting.send(write_op("big", &vec![b'x'; 1 << 20])).unwrap();
    let mut link = launch.link();
    let mut tries = 0;
    until("the queue is full", || {
        tries += 1;
        let result = write(&mut link, &format!("more {tries}"), b"x");
        matches!(result, Err(Error::Fault(fault)) if fault.code == HolderFaultCode::Busy)
    });
    state(&mut link);
    link.request(HolderOp::Stop { grace_ms: 5000 }).unwrap();
    let Err(Error::Fault(fault)) = waiting.reply(id) else { panic!("written") };
    assert_eq!(fault.code, HolderFaultCode::StdinClosed);
    launch.wait();
    assert!(
        envelopes(&launch).iter().all(|envelope| envelope.key != "big"),
        "the pipe did not take all of it"
    );
}

#[test]
fn write_to_closed_input_is_refused() {
    let mut launch = Launch::start(with_pipe(sh("exec <&-; echo closed; sleep 1000")));
    launch.wait_for_output("closed");
    let mut link = launch.link();
    for key in ["a", "b", "a"] {
        let Err(Error::Fault(fault)) = write(&mut link, key, b"x") else { panic!("written") };
        assert_eq!(fault.code, HolderFaultCode::StdinClosed);
    }
    link.request(HolderOp::Stop { grace_ms: 5000 }).unwrap();
    launch.wait();
    assert!(envelopes(&launch).is_empty());
}

#[test]
fn write_without_input_is_refused() {
    let launch = Launch::start(sh("sleep 1000"));
    let Err(Error::Fault(fault)) = write(&mut launch.link(), "k", b"x") else { panic!("written") };
    assert_eq!(fault.code, HolderFaultCode::StdinClosed);
}

fn envelopes(launch: &Launch) -> Vec<InputEnvelope> {
    let input = launch.frames().into_iter().filter(|frame| frame.channel == JournalChannel::Stdin);
    input
        .filter_map(|frame| InputEnvelope::split(&frame.payload).map(|(envelope, _)| envelope))
        .collect()
}

/// The kept bytes of the only input.
fn kept_input(launch: &Launch) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in launch.frames().iter().filter(|frame| frame.channel == JournalChannel::Stdin) {
        if frame.flags.contains(FrameFlags::CONTINUED) {
            bytes.extend_from_slice(&frame.payload);
        } else {
            bytes.extend_from_slice(InputEnvelope::split(&frame.payload).unwrap().1);
        }
    }
    bytes
}
