//! Plays a response on a connection, with its pauses, holds and abrupt ends.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::events::{self, PlainResponse, StreamStep, sse};
use super::http;
use super::request::ModelRequest;
use super::scenario::{Response, ResponseEnd, ScriptedUsage};
use super::server::{AnswerOutcome, ServerShared};

/// Answers a request as scripted, and records the outcome. `Err` explains why this Codex cannot receive the answer.
pub(super) fn play(
    stream: &mut TcpStream,
    shared: &ServerShared,
    request: &ModelRequest,
    response: &Response,
    usage: ScriptedUsage,
) -> Result<(), String> {
    let ids = format!("{}_{}", shared.nonce, request.number);
    let steps = events::steps(response, usage, request, &ids)?;
    let mut player = ResponsePlayer { stream, shared, number: request.number };
    if player.play(response, &steps).is_err() {
        shared.record(request.number, AnswerOutcome::Disconnected);
    }
    Ok(())
}

/// Answers without a stream.
pub(super) fn answer(stream: &mut TcpStream, plain: &PlainResponse) -> io::Result<()> {
    let mut headers = plain.headers.clone();
    headers.entry("content-type".to_owned()).or_insert_with(|| "application/json".to_owned());
    headers.insert("content-length".to_owned(), plain.body.len().to_string());
    http::write_head(stream, plain.status, &headers)?;
    stream.write_all(plain.body.as_bytes())?;
    stream.flush()
}

struct ResponsePlayer<'a> {
    stream: &'a mut TcpStream,
    shared: &'a ServerShared,
    number: usize,
}

impl ResponsePlayer<'_> {
    fn play(&mut self, response: &Response, steps: &[StreamStep]) -> io::Result<()> {
        self.pause(Duration::from_millis(response.delay_ms))?;
        if let Some(plain) = events::plain(response) {
            self.answered();
            return answer(self.stream, &plain);
        }
        let mut headers = events::headers(response);
        headers.insert("content-type".to_owned(), "text/event-stream".to_owned());
        headers.insert("cache-control".to_owned(), "no-cache".to_owned());
        http::write_head(self.stream, 200, &headers)?;
        let (last, steps) = steps.split_last().expect("a stream has at least one event");
        for step in steps {
            self.step(step)?;
        }
        if response.end != ResponseEnd::Hang {
            self.answered();
        }
        self.step(last)?;
        self.end(&response.end)
    }

    /// Records the answer before the client can receive its end, so that the record exists when the
    /// client has seen the end.
    fn answered(&self) {
        self.shared.record(self.number, AnswerOutcome::Answered);
    }

    fn step(&mut self, step: &StreamStep) -> io::Result<()> {
        match step {
            StreamStep::Event(event) => self.write(sse(event).as_bytes()),
            StreamStep::Bytes(bytes) => self.write(bytes),
            StreamStep::Pause(pause) => self.pause(*pause),
            StreamStep::Hold(name) => self.shared.hold(self.stream, name),
        }
    }

    fn end(&mut self, end: &ResponseEnd) -> io::Result<()> {
        match end {
            ResponseEnd::Drop => reset(self.stream),
            ResponseEnd::Hang => self.shared.hang(self.stream),
            ResponseEnd::Completed
            | ResponseEnd::Cut
            | ResponseEnd::Failed { .. }
            | ResponseEnd::Incomplete(_)
            | ResponseEnd::Http(_)
            | ResponseEnd::UsageLimit(_) => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    fn pause(&self, pause: Duration) -> io::Result<()> {
        if pause.is_zero() { Ok(()) } else { self.shared.pause(self.stream, pause) }
    }
}

/// Makes the connection end with a reset, like a broken network.
fn reset(stream: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}
