//! Many senders in one thread. Each has one request in flight and sends the next one after the
//! answer. One thread per sender would dominate the measurement.

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
};

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::daemon::BenchDaemon;

/// Persistent connections, like those of a program with many messages.
pub(super) struct MessageSenders {
    each: Vec<MessageSender>,
}

/// One connection.
pub(super) struct MessageSender {
    stream: UnixStream,
    /// The start of the sender's requests, up to the path.
    prefix: String,
    answer: Vec<u8>,
    answered: usize,
}

/// Returns the part of a request that follows its path.
pub(super) fn request(body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        " HTTP/1.1\r\nhost: provost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn request_prefix(task: &str) -> String {
    format!("POST /v1/teams/{task}/do")
}

impl MessageSenders {
    /// Opens a connection for each team.
    pub(super) fn open(daemon: &BenchDaemon, tasks: &[String]) -> Result<MessageSenders> {
        let open = |task: &String| MessageSender::open(daemon, task);
        Ok(MessageSenders { each: tasks.iter().map(open).collect::<Result<_>>()? })
    }

    /// Sends all of these requests from every sender, one after the other.
    pub(super) fn send(&mut self, requests: &[String]) -> Result<()> {
        for sender in &mut self.each {
            sender.answered = 0;
            sender.send_request(&requests[0])?;
        }
        while self.each.iter().any(|sender| sender.answered < requests.len()) {
            for n in self.wait_for_response()? {
                let sender = &mut self.each[n];
                if sender.read_response()?
                    && let Some(next) = requests.get(sender.answered)
                {
                    sender.send_request(next)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until at least one sender has an answer, and returns those senders.
    fn wait_for_response(&self) -> Result<Vec<usize>> {
        let mut all: Vec<PollFd<'_>> =
            self.each.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)).collect();
        poll(&mut all, None)?;
        let ready = all.iter().enumerate().filter(|(_, one)| !one.revents().is_empty());
        Ok(ready.map(|(n, _)| n).collect())
    }
}

impl MessageSender {
    pub(super) fn open(daemon: &BenchDaemon, task: &str) -> Result<MessageSender> {
        let stream = UnixStream::connect(daemon.path().join("daemon.sock"))?;
        stream.set_nonblocking(true)?;
        let begins = request_prefix(task);
        Ok(MessageSender { stream, prefix: begins, answer: Vec::new(), answered: 0 })
    }

    /// Sends a request to any team and waits for the answer.
    pub(super) fn post(&mut self, task: &str, request: &str) -> Result<()> {
        self.prefix = request_prefix(task);
        self.send_request(request)?;
        while !self.read_response()? {
            poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], None)?;
        }
        Ok(())
    }

    fn send_request(&mut self, request: &str) -> Result<()> {
        self.answer.clear();
        let whole = format!("{}{request}", self.prefix);
        self.stream
            .write_all(whole.as_bytes())
            .context("the request does not fit into the socket buffer")
    }

    /// Reads the available bytes. Returns true once they form a complete answer.
    fn read_response(&mut self) -> Result<bool> {
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
        let length: usize = length.context("the answer has no content-length")?.parse()?;
        if body.len() < length {
            return Ok(false);
        }
        ensure!(head.contains(" 200 "), "{}", String::from_utf8_lossy(&self.answer));
        self.answered += 1;
        Ok(true)
    }
}
