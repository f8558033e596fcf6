//! A follower of the daemon's event stream.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use provost_api::StreamReply;
use serde_json::Value;

use crate::{daemon::BenchDaemon, timing::now};

/// Time limit for an awaited event.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The daemon's event stream.
pub(crate) struct BenchEventFollower {
    stream: StreamReply,
    since: Instant,
}

/// An event and the time it was received.
pub(crate) struct ReceivedEvent {
    pub(crate) kind: String,
    pub(crate) session: String,
    pub(crate) at: Instant,
}

impl BenchEventFollower {
    /// Follows the event stream from now on. Polling instead would disturb the measurement.
    pub(crate) fn from_now(daemon: &BenchDaemon) -> Result<BenchEventFollower> {
        let last: Value = daemon.client().get("/v1/events?limit=100000")?;
        let last = last["last"].as_u64().context("the reply has no sequence number")?;
        let stream = daemon.client().stream("/v1/events?follow=1", Some(last))?;
        Ok(BenchEventFollower { stream, since: now() })
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Result<ReceivedEvent> {
        let mut kind = String::new();
        loop {
            let line = self.stream.line()?.context("the daemon closed the stream")?;
            // A quiet stream sends keep-alive lines.
            ensure!(self.since.elapsed() < TIMEOUT, "timed out waiting for an event");
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let at = now();
                let data: Value = serde_json::from_str(data)?;
                let session = data["session"].as_str().unwrap_or_default().to_owned();
                return Ok(ReceivedEvent { kind, session, at });
            }
        }
    }

    /// Waits until an event of this kind has occurred `times` times.
    pub(crate) fn wait_for(&mut self, kind: &str, times: usize) -> Result<()> {
        let mut left = times;
        while left > 0 {
            left -= usize::from(self.next()?.kind == kind);
        }
        Ok(())
    }

    /// Waits until an event of this kind has occurred in each of these sessions, in any order.
    pub(crate) fn wait_in_each_session(&mut self, sessions: &[String], kind: &str) -> Result<()> {
        self.since = now();
        let mut left: BTreeSet<&str> = sessions.iter().map(String::as_str).collect();
        while !left.is_empty() {
            let next = self.next()?;
            if next.kind == kind {
                left.remove(next.session.as_str());
            }
        }
        Ok(())
    }

    /// Waits for an event of this kind in a session and returns its time. Restarts the time limit.
    pub(crate) fn wait_in_session(&mut self, session: &str, kind: &str) -> Result<Instant> {
        self.since = now();
        loop {
            let next = self.next()?;
            if next.kind == kind && next.session == session {
                return Ok(next.at);
            }
        }
    }
}
