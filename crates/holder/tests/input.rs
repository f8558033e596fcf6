//! Input: each key is written once, secrets only as envelopes, and the holder never blocks on it.

use std::fs;

use provost_holder::client::Error;
use provost_holder::journal::{Channel, Envelope, Flags};
use provost_holder::wire::{Data, FaultCode, Op};
use provost_holder::{End, HoldSpec, StdinMode};

use crate::kit::{Launch, command, sh, state, until, with_pipe, write, write_op};

#[test]
fn a_key_is_written_once_whoever_asks() {
    let mut launch = Launch::start(with_pipe(command(&["cat"])));
    let mut link = launch.link();
    assert!(!write(&mut link, "k1", b"one\n").unwrap().already);
    assert!(write(&mut link, "k1", b"one\n").unwrap().already);
    drop(link);
    let mut link = launch.link();
    assert!(write(&mut link, "k1", b"one\n").unwrap().already);
    assert!(!write(&mut link, "k2", b"two\n").unwrap().already);
    link.request(Op::CloseStdin).unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    assert_eq!(launch.output(Channel::Stdout), b"one\ntwo\n");
    assert_eq!(envelopes(&launch).len(), 2);
}

#[test]
fn secret_input_is_an_envelope_and_nothing_else() {
    let mut launch = Launch::start(with_pipe(sh("read secret; echo ${#secret}")));
    let secret = Op::Write { key: "s".into(), data: Data(b"canary-1234\n".to_vec()), secret: true };
    launch.link().request(secret).unwrap();
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"11\n");
    let frame = launch.frames().remove(0);
    assert!(frame.flags.contains(Flags::SECRET));
    let expected = Envelope { key: "s".into(), len: 12, secret: true, kept: false, typed: false };
    assert_eq!(Envelope::split(&frame.payload), Some((expected, &b""[..])));
    for entry in fs::read_dir(&launch.dir).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("canary") && !text.contains("Y2FuYXJ5"), "in clear or in base64");
    }
}

#[test]
fn what_is_masked_is_in_neither_stream_though_the_command_says_it_in_pieces() {
    let script = "read secret; printf 'it is canary-'; read go; printf '1234, yes\\n'; \
                  echo $secret >&2; printf 'canary-12'";
    let mut launch = Launch::start(with_pipe(sh(script)));
    let mut link = launch.link();
    link.request(Op::Mask { forms: vec![Data(b"canary-1234".to_vec())] }).unwrap();
    write(&mut link, "s", b"canary-1234\n").unwrap();
    launch.wait_for_output("it is ");
    write(&mut link, "go", b"go\n").unwrap();
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"it is ***********, yes\n*********");
    assert_eq!(launch.output(Channel::Stderr), b"***********\n");
}

#[test]
fn a_form_that_cannot_be_masked_is_refused_and_the_others_are_masked() {
    let mut launch = Launch::start(with_pipe(sh("read word; echo $word")));
    let mut link = launch.link();
    let forms = [&b"short"[..], b"canary-1234"].map(|form| Data(form.to_vec())).to_vec();
    let Err(Error::Fault(fault)) = link.request(Op::Mask { forms }) else { panic!("taken") };
    assert_eq!(fault.code, FaultCode::BadRequest);
    write(&mut link, "k", b"short canary-1234\n").unwrap();
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"short ***********\n");
}

#[test]
fn the_text_of_a_spec_is_written_whole_and_then_closed() {
    let text: String = (0..300_000).map(|number| format!("{number},")).collect();
    let mut launch =
        Launch::start(HoldSpec { stdin: StdinMode::Text(text.clone()), ..command(&["cat"]) });
    launch.wait();
    assert!(launch.output(Channel::Stdout) == text.as_bytes());
    assert!(kept_input(&launch) == text.as_bytes(), "several frames make one input");
}

#[test]
fn an_empty_text_is_an_input_that_ends() {
    let mut launch =
        Launch::start(HoldSpec { stdin: StdinMode::Text(String::new()), ..sh("cat; echo end") });
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"end\n");
}

#[test]
fn input_that_nobody_reads_never_blocks_the_holder() {
    let mut launch = Launch::start(with_pipe(sh("sleep 1000")));
    let mut waiting = launch.link();
    let id = waiting.send(write_op("big", &vec![b'x'; 1 << 20])).unwrap();
    let mut link = launch.link();
    let mut tries = 0;
    until("the queue is full", || {
        tries += 1;
        let result = write(&mut link, &format!("more {tries}"), b"x");
        matches!(result, Err(Error::Fault(fault)) if fault.code == FaultCode::Busy)
    });
    state(&mut link);
    link.request(Op::Stop { grace_ms: 5000 }).unwrap();
    let Err(Error::Fault(fault)) = waiting.reply(id) else { panic!("written") };
    assert_eq!(fault.code, FaultCode::StdinClosed);
    launch.wait();
    assert!(
        envelopes(&launch).iter().all(|envelope| envelope.key != "big"),
        "the pipe did not take all of it"
    );
}

#[test]
fn a_command_that_closed_its_input_refuses_writes() {
    let mut launch = Launch::start(with_pipe(sh("exec <&-; echo closed; sleep 1000")));
    launch.wait_for_output("closed");
    let mut link = launch.link();
    for key in ["a", "b", "a"] {
        let Err(Error::Fault(fault)) = write(&mut link, key, b"x") else { panic!("written") };
        assert_eq!(fault.code, FaultCode::StdinClosed);
    }
    link.request(Op::Stop { grace_ms: 5000 }).unwrap();
    launch.wait();
    assert!(envelopes(&launch).is_empty());
}

#[test]
fn a_command_without_input_refuses_writes() {
    let launch = Launch::start(sh("sleep 1000"));
    let Err(Error::Fault(fault)) = write(&mut launch.link(), "k", b"x") else { panic!("written") };
    assert_eq!(fault.code, FaultCode::StdinClosed);
}

fn envelopes(launch: &Launch) -> Vec<Envelope> {
    let input = launch.frames().into_iter().filter(|frame| frame.channel == Channel::Stdin);
    input
        .filter_map(|frame| Envelope::split(&frame.payload).map(|(envelope, _)| envelope))
        .collect()
}

/// The kept bytes of the only input.
fn kept_input(launch: &Launch) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in launch.frames().iter().filter(|frame| frame.channel == Channel::Stdin) {
        if frame.flags.contains(Flags::CONTINUED) {
            bytes.extend_from_slice(&frame.payload);
        } else {
            bytes.extend_from_slice(Envelope::split(&frame.payload).unwrap().1);
        }
    }
    bytes
}
