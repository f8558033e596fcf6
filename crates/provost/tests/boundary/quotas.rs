//! A launch that forks to get around per-process limits, and clients that never read.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
};

use provost_testkit::{TestHome, eventually, eventually_within};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::stalls::{COMMAND_TIMEOUT, fill_rows, post, run_in_time, spawn};

/// Forks, opens connections in every child, and sends a request on each. Reads no response until
/// `stop` exists.
const FORKING_CLIENT: &str = r#"
use Socket;
my ($path, $children, $each, $request) = @ARGV;
# A shell's command substitution would strip the last newline.
$request =~ s/\\r\\n/\r\n/g;
$SIG{PIPE} = 'IGNORE';
for my $no (1..$children) {
    next if fork;
    my @open;
    for (1..$each) {
        socket(my $one, AF_UNIX, SOCK_STREAM, 0) or last;
        connect($one, pack_sockaddr_un($path)) or last;
        syswrite($one, $request) if length $request;
        push @open, $one;
    }
    open(my $up, '>', "up-$no"); close $up;
    select(undef, undef, undef, 0.05) while !-e 'stop';
    exit 0;
}
1 while wait != -1;
"#;

/// A launch that keeps connections open from many processes.
struct ConnectionFlood<'a> {
    home: &'a TestHome,
    id: String,
}

impl<'a> ConnectionFlood<'a> {
    fn start(
        home: &'a TestHome,
        children: usize,
        each: usize,
        request: &str,
    ) -> ConnectionFlood<'a> {
        fs::write(home.root().join("flood.pl"), FORKING_CLIENT).unwrap();
        let socket = home.path().join("daemon.sock");
        let script =
            format!("exec perl flood.pl {} {children} {each} '{request}'", socket.display());
        let id = spawn(home, &script);
        let up = |no: &usize| home.root().join(format!("up-{no}")).exists();
        eventually_within(COMMAND_TIMEOUT, "all processes are connected", || {
            (1..=children).all(|no| up(&no)).then_some(())
        });
        ConnectionFlood { home, id }
    }
}

impl Drop for ConnectionFlood<'_> {
    fn drop(&mut self) {
        fs::write(self.home.root().join("stop"), "").ok();
        if !std::thread::panicking() {
            self.home.wait_state(&self.id, |row| row["sealed"] == true);
        }
    }
}

#[test]
fn f2_15_forking_launch_does_not_starve_reads() {
    let home = TestHome::with_short_windows();
    fill_rows(&home, 20);
    let listing = "GET /v1/sessions?all=1 HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n";
    let flood = ConnectionFlood::start(&home, 40, 2, listing);
    for _ in 0..3 {
        let all = run_in_time(&home, &["ls", "--all", "--json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        assert_eq!(all["sessions"].as_array().unwrap().len(), 21);
        run_in_time(&home, &["events", "--limit", "10"]);
        run_in_time(&home, &["search", "artifact"]);
    }
    drop(flood);
}

#[test]
fn f2_15_forking_launch_leaves_connections_free() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    let flood = ConnectionFlood::start(&home, 25, 200, "");
    for _ in 0..3 {
        run_in_time(&home, &["ls", "--json"]);
        run_in_time(&home, &["daemon", "status", "--json"]);
    }
    run_in_time(&home, &["rename", &flood.id, "renamed"]);
    drop(flood);
}

#[test]
fn f2_15_launch_over_request_limit_is_refused() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    let follow = "GET /v1/events?follow=1 HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n";
    let script = format!(
        "perl flood.pl {} 16 1 '{follow}' & \
         while \"$PROVOST_BIN\" ls --json > said; do :; done; echo > asked; wait",
        home.path().join("daemon.sock").display()
    );
    fs::write(home.root().join("flood.pl"), FORKING_CLIENT).unwrap();
    let id = spawn(&home, &script);
    // A request waits up to 10 s for a free slot.
    eventually_within(2 * COMMAND_TIMEOUT, "a request is refused", || {
        home.root().join("asked").exists().then_some(())
    });
    let reply: Value =
        serde_json::from_str(&fs::read_to_string(home.root().join("said")).unwrap()).unwrap();
    let message = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("16 requests of this launch"), "{reply}");
    fs::write(home.root().join("stop"), "").unwrap();
    home.wait_state(&id, |row| row["sealed"] == true);
}

fn send_get(home: &TestHome, path: &str, header: &str) -> UnixStream {
    let mut stream = UnixStream::connect(home.path().join("daemon.sock")).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{header}\r\n").as_bytes()).unwrap();
    stream
}

fn get_json(home: &TestHome, path: &str) -> Value {
    let mut reply = String::new();
    send_get(home, path, "connection: close\r\n").read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).unwrap()
}

/// Returns the sequence numbers of the events that arrived complete.
fn event_numbers(text: &str) -> Vec<u64> {
    let whole = &text[..text.rfind("\n\n").unwrap_or(0)];
    let ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.map(|id| id.trim().parse().unwrap()).collect()
}

fn is_closed(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    fds[0].revents().contains(PollFlags::HUP)
}

#[test]
fn f2_15_stuck_follower_is_disconnected_and_resumes() {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_UNREAD_MS", "500");
    home.provost(&["ls"]).ok();
    let mut unread = send_get(&home, "/v1/events?follow=1", "");
    fill_rows(&home, 20);
    eventually("the follower is cut off", || is_closed(&unread).then_some(()));
    let mut bytes = Vec::new();
    unread.read_to_end(&mut bytes).ok();
    let first = event_numbers(&String::from_utf8_lossy(&bytes));
    let all = get_json(&home, "/v1/events?limit=100000");
    let newest = all["last"].as_u64().unwrap();
    let last = *first.last().unwrap();
    assert!(last < newest, "all {newest} events were sent to a reader that does not read");
    let mut resumed = send_get(&home, "/v1/events?follow=1", &format!("last-event-id: {last}\r\n"));
    let (mut text, mut buffer) = (Vec::new(), [0; 64 << 10]);
    let rest = loop {
        let count = resumed.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "the stream ended");
        text.extend_from_slice(&buffer[..count]);
        let rest = event_numbers(&String::from_utf8_lossy(&text));
        if rest.last() == Some(&newest) {
            break rest;
        }
    };
    let seen: Vec<u64> = first.into_iter().chain(rest).collect();
    let recorded: Vec<u64> =
        all["events"].as_array().unwrap().iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert_eq!(seen, recorded, "none missed, none repeated");
}

#[test]
fn f2_15_event_response_has_byte_limit() {
    let home = TestHome::with_short_windows();
    let id = spawn(&home, "true");
    home.wait_state(&id, |row| row["sealed"] == true);
    let value = "v".repeat(400_000);
    for _ in 0..45 {
        let body = json!({"session": id, "fact": "artifact", "value": value});
        post(&home, "/v1/reports", &body.to_string());
    }
    let (mut facts, mut since, mut answers) = (0, 0, 0);
    loop {
        let page = get_json(&home, &format!("/v1/events?limit=100000&since={since}"));
        let rows = page["events"].as_array().unwrap();
        facts += rows.iter().filter(|row| row["kind"] == "fact.reported").count();
        since = page["last"].as_u64().unwrap();
        answers += 1;
        if page["more"] == false {
            break;
        }
    }
    assert_eq!((facts, answers), (45, 2));
}

#[test]
fn f2_15_posted_bytes_per_launch_are_limited() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    // The bodies are meaningless; bytes are counted before they are parsed.
    let post = r#"
use Socket;
my $body = ' ' x (8 << 20);
for (1..9) {
    socket(my $one, AF_UNIX, SOCK_STREAM, 0) or die;
    connect($one, pack_sockaddr_un($ARGV[0])) or die;
    $SIG{PIPE} = 'IGNORE';
    my $head = "POST /v1/teams/none/do HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    syswrite($one, $head . "content-length: " . length($body) . "\r\nconnection: close\r\n\r\n");
    my $sent = 0;
    while ($sent < length $body) {
        my $more = syswrite($one, $body, 65536, $sent) or last;
        $sent += $more;
    }
    local $/;
    my $reply = <$one>;
    open(my $said, '>>', 'said'); print $said "$reply\n"; close $said;
}
open(my $done, '>', 'posted'); close $done;
"#;
    fs::write(home.root().join("post.pl"), post).unwrap();
    let id = spawn(&home, &format!("perl post.pl {}", home.path().join("daemon.sock").display()));
    eventually_within(COMMAND_TIMEOUT, "everything is posted", || {
        home.root().join("posted").exists().then_some(())
    });
    let replies = fs::read_to_string(home.root().join("said")).unwrap();
    assert_eq!(replies.matches("64 MiB of requests per daemon run").count(), 1, "{replies}");
    home.wait_state(&id, |row| row["sealed"] == true);
}
