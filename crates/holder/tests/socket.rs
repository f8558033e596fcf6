//! The socket: access control, and robustness against any input.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use provost_holder::client::Error;
use provost_holder::journal::Channel;
use provost_holder::wire::{FaultCode, Message, Notice, Op};
use provost_holder::{End, Link};

use crate::kit::{Launch, program, sh, state, until, with_pipe, write};

#[test]
fn a_long_path_works() {
    let temp = tempfile::tempdir().unwrap();
    let parent = temp.path().join("d".repeat(200));
    std::fs::create_dir(&parent).unwrap();
    let dir = parent.join("l".repeat(100));
    let mut launch = Launch::start_at(temp, dir, with_pipe(sh("read x; exit 4")));
    write(&mut launch.link(), "k", b"\n").unwrap();
    assert_eq!(launch.wait().0.end, End::Exited { code: 4 });
}

#[test]
fn junk_is_answered_and_the_connection_goes_on() {
    let launch = Launch::start(sh("sleep 1000"));
    let mut stream = BufReader::new(UnixStream::connect(launch.dir.join("io.sock")).unwrap());
    let mut ask = |line: &[u8]| {
        stream.get_mut().write_all(line).unwrap();
        let mut answer = Vec::new();
        stream.read_until(b'\n', &mut answer).unwrap();
        match Message::parse(&answer).unwrap() {
            Message::Reply(reply) => (reply.id, reply.ok, reply.error.map(|fault| fault.code)),
            other @ (Message::Notice(_) | Message::View(_)) => panic!("{other:?}"),
        }
    };
    let bad = Some(FaultCode::BadRequest);
    assert_eq!(ask(b"\n"), (None, false, bad));
    assert_eq!(ask(b"\xff\xfe\x00\n"), (None, false, bad));
    assert_eq!(ask(b"{\"v\":1,\"id\":3,\"op\":\"explode\"}\n"), (Some(3), false, bad));
    assert_eq!(ask(b"{\"v\":2,\"id\":4,\"op\":\"ping\"}\n"), (Some(4), false, bad));
    assert_eq!(ask(b"{\"v\":1,\"id\":5,\"op\":\"ping\"}\n"), (Some(5), true, None));
}

#[test]
fn a_line_without_end_closes_the_connection_and_nothing_else() {
    let launch = Launch::start(sh("sleep 1000"));
    let mut stream = UnixStream::connect(launch.dir.join("io.sock")).unwrap();
    let chunk = vec![b'x'; 1 << 20];
    let refused = (0..6).any(|_| stream.write_all(&chunk).is_err());
    assert!(refused || stream.read(&mut [0]).map_or(true, |read| read == 0));
    assert!(state(&mut launch.link()).limited.is_none());
}

#[test]
fn a_client_that_leaves_in_the_middle_does_no_harm() {
    let mut launch = Launch::start(with_pipe(sh("read x; echo got $x")));
    for part in [&b""[..], b"{\"v\":1,\"id\":1,\"op", b"{\"v\":1,\"id\":1,\"op\":\"follow\"}\n{"] {
        UnixStream::connect(launch.dir.join("io.sock")).unwrap().write_all(part).unwrap();
    }
    write(&mut launch.link(), "k", b"it\n").unwrap();
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"got it\n");
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
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
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
    assert_eq!(launch.output(Channel::Stdout).len(), 1_288_895);
}

#[test]
fn there_are_sixteen_places() {
    let launch = Launch::start(sh("sleep 1000"));
    let mut links: Vec<Link> = (0..16).map(|_| launch.link()).collect();
    links.iter_mut().for_each(|link| drop(state(link)));
    let refused = launch.link().notice();
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    links.pop();
    until("the place is free", || launch.link().request(Op::Ping).is_ok());
}

#[test]
fn a_follower_hears_of_growth_the_exit_and_the_end_in_this_order() {
    let launch = Launch::start(with_pipe(sh("read x; echo hello")));
    let mut link = launch.link();
    link.request(Op::Follow).unwrap();
    assert_eq!(link.notice().unwrap(), Notice::Journal { end: 0 });
    write(&mut link, "k", b"go\n").unwrap();
    let heard: Vec<Notice> = link.notices().map(Result::unwrap).collect();
    let (growth, rest) = heard.split_at(heard.len() - 2);
    let ends: Vec<u64> = growth
        .iter()
        .map(|notice| match notice {
            Notice::Journal { end } => *end,
            Notice::Limit { .. }
            | Notice::Visits { .. }
            | Notice::Suspended { .. }
            | Notice::Exited
            | Notice::Gone => {
                panic!("{heard:?}")
            }
        })
        .collect();
    assert!(ends.is_sorted() && ends.last() == Some(&launch.frames().last().unwrap().after));
    assert_eq!(rest, [Notice::Exited, Notice::Gone]);
    assert!(!launch.dir.join("io.sock").exists());
}

#[test]
fn the_command_itself_may_not_speak_with_its_holder() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    let ping = format!("{} --ping {}", program()[0].display(), dir.display());
    let mut launch = Launch::start_at(
        temp,
        dir,
        sh(&format!("{ping}; echo direct $?; setsid {ping}; echo setsid $?")),
    );
    launch.wait();
    assert_eq!(launch.output(Channel::Stdout), b"direct 1\nsetsid 1\n");
}

#[test]
fn the_directory_and_its_files_are_the_owners_alone() {
    let launch = Launch::start(sh("sleep 1000"));
    let mode =
        |name: &str| std::fs::metadata(launch.dir.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for name in ["io.sock", "journal", "held.json", "holder.json"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}
