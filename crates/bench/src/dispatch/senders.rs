//! Many senders in one thread: each has a request under way, and sends the next when it is answered. Threads of their own
//! would be most of what is measured.

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
};

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::daemon::Daemon;

/// Connections that are kept, as a program has that sends much.
pub(super) struct Senders {
    each: Vec<Sender>,
}

/// One of them.
pub(super) struct Sender {
    stream: UnixStream,
    /// What its requests begin with.
    begins: String,
    answer: Vec<u8>,
    answered: usize,
}

/// Gives what follows the path of a request.
pub(super) fn request(body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        " HTTP/1.1\r\nhost: provost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn begins(task: &str) -> String {
    format!("POST /v1/tasks/{task}/do")
}

impl Senders {
    /// Opens a connection for each task.
    pub(super) fn open(daemon: &Daemon, tasks: &[String]) -> Result<Senders> {
        let open = |task: &String| Sender::open(daemon, task);
        Ok(Senders { each: tasks.iter().map(open).collect::<Result<_>>()? })
    }

    /// Lets every sender send all of these, one after the other.
    pub(super) fn send(&mut self, requests: &[String]) -> Result<()> {
        for sender in &mut self.each {
            sender.answered = 0;
            sender.ask(&requests[0])?;
        }
        while self.each.iter().any(|sender| sender.answered < requests.len()) {
            for n in self.ready()? {
                let sender = &mut self.each[n];
                if sender.hear()?
                    && let Some(next) = requests.get(sender.answered)
                {
                    sender.ask(next)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until somebody is answered, and gives who.
    fn ready(&self) -> Result<Vec<usize>> {
        let mut all: Vec<PollFd<'_>> =
            self.each.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)).collect();
        poll(&mut all, None)?;
        let ready = all.iter().enumerate().filter(|(_, one)| !one.revents().is_empty());
        Ok(ready.map(|(n, _)| n).collect())
    }
}

impl Sender {
    pub(super) fn open(daemon: &Daemon, task: &str) -> Result<Sender> {
        let stream = UnixStream::connect(daemon.path().join("daemon.sock"))?;
        stream.set_nonblocking(true)?;
        let begins = begins(task);
        Ok(Sender { stream, begins, answer: Vec::new(), answered: 0 })
    }

    /// Sends something to any task, and waits for the answer.
    pub(super) fn post(&mut self, task: &str, request: &str) -> Result<()> {
        self.begins = begins(task);
        self.ask(request)?;
        while !self.hear()? {
            poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], None)?;
        }
        Ok(())
    }

    fn ask(&mut self, request: &str) -> Result<()> {
        self.answer.clear();
        let whole = format!("{}{request}", self.begins);
        self.stream.write_all(whole.as_bytes()).context("a request does not fit the socket")
    }

    /// Takes what came, and says whether that is a whole answer.
    fn hear(&mut self) -> Result<bool> {
        let mut some = [0; 16 << 10];
        match self.stream.read(&mut some) {
            Ok(0) => anyhow::bail!("the daemon closed a connection"),
            Ok(count) => self.answer.extend_from_slice(&some[..count]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(why) => return Err(why.into()),
        }
        let Some(head) = memmem::find(&self.answer, b"\r\n\r\n") else { return Ok(false) };
        let (head, body) = self.answer.split_at(head + 4);
        let head = std::str::from_utf8(head)?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.context("an answer has a length")?.parse()?;
        if body.len() < length {
            return Ok(false);
        }
        ensure!(head.contains(" 200 "), "{}", String::from_utf8_lossy(&self.answer));
        self.answered += 1;
        Ok(true)
    }
}
