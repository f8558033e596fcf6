//! The socket: access control, and robustness against any input.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use provost_holder::client::Error;
use provost_holder::journal::JournalChannel;
use provost_holder::wire::{HolderFaultCode, HolderMessage, HolderNotice, HolderOp};
use provost_holder::{HolderLink, ProcessEnd};

use crate::kit::{Launch, program, sh, state, until, with_pipe, write};

#[test]
fn a_long_path_works() {
    let temp = tempfile::tempdir().unwrap();
    let parent = temp.path().join("d".repeat(200));
    std::fs::create_dir(&parent).unwrap();
    let dir = parent.join("l".repeat(100));
    let mut launch = Launch::start_at(temp, dir, with_pipe(sh("read x; exit 4")));
    write(&mut launch.link(), "k", b"\n").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 4 });
}

#[test]
fn junk_is_answered_and_connection_continues() {
    let launch = Launch::start(sh("sleep 1000"));
    let mut stream = BufReader::new(UnixStream::connect(launch.dir.join("io.sock")).unwrap());
    let mut ask = |line: &[u8]| {
        stream.get_mut().write_all(line).unwrap();
        let mut answer = Vec::new();
        stream.read_until(b'\n', &mut answer).unwrap();
        match HolderMessage::parse(&answer).unwrap() {
            HolderMessage::Reply(reply) => {
                (reply.id, reply.ok, reply.error.map(|fault| fault.code))
            }
            other @ (HolderMessage::Notice(_) | HolderMessage::View(_)) => panic!("{other:?}"),
        }
    };
    let bad = Some(HolderFaultCode::BadRequest);
    assert_eq!(ask(b"\n"), (None, false, bad));
    assert_eq!(ask(b"\xff\xfe\x00\n"), (None, false, bad));
    assert_eq!(ask(b"{\"v\":1,\"id\":3,\"op\":\"explode\"}\n"), (Some(3), false, bad));
    assert_eq!(ask(b"{\"v\":2,\"id\":4,\"op\":\"ping\"}\n"), (Some(4), false, bad));
    assert_eq!(ask(b"{\"v\":1,\"id\":5,\"op\":\"ping\"}\n"), (Some(5), true, None));
}

#[test]
fn endless_line_closes_only_its_connection() {
    let launch = Launch::start(sh("sleep 1000"));
    let mut stream = UnixStream::connect(launch.dir.join("io.sock")).unwrap();
    let chunk = vec![b'x'; 1 << 20];
    let refused = (0..6).any(|_| stream.write_all(&chunk).is_err());
    assert!(refused || stream.read(&mut [0]).map_or(true, |read| read == 0));
    assert!(state(&mut launch.link()).limited.is_none());
}

#[test]
fn client_leaving_midway_does_no_harm() {
    let mut launch = Launch::start(with_pipe(sh("read x; echo got $x")));
    for part in [&b""[..], b"{\"v\":1,\"id\":1,\"op", b"{\"v\":1,\"id\":1,\"op\":\"follow\"}\n{"] {
        UnixStream::connect(launch.dir.join("io.sock")).unwrap().write_all(part).unwrap();
    }
    write(&mut launch.link(), "k", b"it\n").unwrap();
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"got it\n");
}

#[test]
fn client_that_does_not_read_blocks_no_one() {
    let mut launch = Launch::start(with_pipe(sh("read x; seq 1 200000")));
    let mut deaf = UnixStream::connect(launch.dir.join("io.sock")).unwrap();
    deaf.write_all(b"{\"v\":1,\"id\":1,\"op\":\"follow\"}\n").unwrap();
    deaf.set_nonblocking(true).unwrap();
    // Sends pings until neither the socket nor the holder takes more.
    let pings = b"{\"v\":1,\"id\":1,\"op\":\"ping\"}\n".repeat(1000);
    let mut link = launch.link();
    until("its requests are no longer read", || {
        let full = matches!(deaf.write(&pings), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        state(&mut link);
        full
    });
    write(&mut link, "k", b"go\n").unwrap();
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    assert_eq!(launch.output(JournalChannel::Stdout).len(), 1_288_895);
}

#[test]
fn connections_are_limited_to_sixteen() {
    let launch = Launch::start(sh("sleep 1000"));
    let mut links: Vec<HolderLink> = (0..16).map(|_| launch.link()).collect();
    links.iter_mut().for_each(|link| drop(state(link)));
    let refused = launch.link().notice();
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    links.pop();
    until("the place is free", || launch.link().request(HolderOp::Ping).is_ok());
}

#[test]
fn follower_gets_growth_exit_and_end_in_order() {
    let launch = Launch::start(with_pipe(sh("read x; echo hello")));
    let mut link = launch.link();
    link.request(HolderOp::Follow).unwrap();
    assert_eq!(link.notice().unwrap(), HolderNotice::Journal { end: 0 });
    write(&mut link, "k", b"go\n").unwrap();
    let heard: Vec<HolderNotice> = link.notices().map(Result::unwrap).collect();
    let (growth, rest) = heard.split_at(heard.len() - 2);
    let ends: Vec<u64> = growth
        .iter()
        .map(|notice| match notice {
            HolderNotice::Journal { end } => *end,
            HolderNotice::Limit { .. }
            | HolderNotice::Viewers { .. }
            | HolderNotice::Suspended { .. }
            | HolderNotice::Exited
            | HolderNotice::Gone => {
                panic!("{heard:?}")
            }
        })
        .collect();
    assert!(ends.is_sorted() && ends.last() == Some(&launch.frames().last().unwrap().after));
    assert_eq!(rest, [HolderNotice::Exited, HolderNotice::Gone]);
    assert!(!launch.dir.join("io.sock").exists());
}

#[test]
fn command_may_not_connect_to_its_holder() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    let ping = format!("{} --ping {}", program()[0].display(), dir.display());
    let mut launch = Launch::start_at(
        temp,
        dir,
        sh(&format!("{ping}; echo direct $?; setsid {ping}; echo setsid $?")),
    );
    launch.wait();
    assert_eq!(launch.output(JournalChannel::Stdout), b"direct 1\nsetsid 1\n");
}

#[test]
fn directory_and_files_are_private() {
    let launch = Launch::start(sh("sleep 1000"));
    let mode =
        |name: &str| std::fs::metadata(launch.dir.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for name in ["io.sock", "journal", "held.json", "holder.json"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}
