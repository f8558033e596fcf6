//! Twenty agents in terminals: the delay of turn ends, questions and exits, and the cost of
//! watching idle and working agents.

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::{Context, Result};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde_json::Value;

use super::{Size, cpu_shares, size};
use crate::{
    codex::{CodexBenchEnv, with_codex},
    daemon::cpu_ms,
    event_follower::BenchEventFollower,
    table::{FigureTable, Goal},
    timing::{Sample, now},
};

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    with_codex(table, in_terminals)
}

fn in_terminals(table: &mut FigureTable, codex: &Path) -> Result<()> {
    let size = size();
    let scene = CodexBenchEnv::new(codex, &scenario(size))?;
    let mut all = TerminalSessions::begin(&scene, size)?;
    all.cost(table, "at their prompts")?;
    all.ends_of_turns(table)?;
    all.approvals(table)?;
    all.work()?;
    all.cost(table, "at work, each with a spinner")?;
    all.exits(table)
}

/// Returns the scenario. Each session has its own conversation: it answers, works behind a gate,
/// asks, then works forever.
fn scenario(size: Size) -> String {
    let mut text = String::new();
    for no in 0..size.sessions {
        let thread = format!(
            r#"
[[thread]]
turn = [
  {{ response = [{{ items = [{{ message = "Ready." }}] }}] }},
  {{ response = [{{ items = [{{ hold = "end-{no}" }}, {{ message = "Done." }}] }}] }},
  {{ response = [
    {{ items = [{{ hold = "ask-{no}" }}, {{ shell = "true", escalate = true, justification = "May I?" }}] }},
    {{ items = [{{ message = "Asked." }}] }},
  ] }},
  {{ response = [{{ items = [{{ hold = "spin-{no}" }}] }}] }},
]
"#
        );
        // Writing to a string cannot fail.
        text.write_str(&thread).ok();
    }
    text
}

/// The sessions, in the order of their conversations.
struct TerminalSessions<'a> {
    scene: &'a CodexBenchEnv<'a>,
    size: Size,
    happenings: BenchEventFollower,
    ids: Vec<String>,
}

impl<'a> TerminalSessions<'a> {
    /// Starts all sessions one by one, until each is idle at its prompt.
    fn begin(scene: &'a CodexBenchEnv<'a>, size: Size) -> Result<TerminalSessions<'a>> {
        let mut happenings = scene.follow_events()?;
        let trust = scene.repository().display().to_string();
        let mut ids = Vec::new();
        for _ in 0..size.sessions {
            let id = scene.spawn_session(&["--tty", "--accept-trust", &trust, "Begin."])?;
            happenings.wait_in_session(&id, "turn.ended")?;
            ids.push(id);
        }
        Ok(TerminalSessions { scene, size, happenings, ids })
    }

    /// Starts a turn of one agent and waits until the model reaches its gate.
    fn send(&self, no: usize, door: &str) -> Result<()> {
        self.scene.run_json(&["send", &self.ids[no], "Continue.", "--json"])?;
        self.scene.model.wait_for_hold(&format!("{door}-{no}"));
        Ok(())
    }

    /// Measures the time from the moment when the model may finish until the resulting event. This
    /// includes the time that Codex needs.
    fn time_until(&mut self, no: usize, door: &str, kind: &str) -> Result<Duration> {
        self.send(no, door)?;
        let released = now();
        self.scene.model.release(&format!("{door}-{no}"));
        let seen = self.happenings.wait_in_session(&self.ids[no], kind)?;
        Ok(seen.saturating_duration_since(released))
    }

    fn ends_of_turns(&mut self, table: &mut FigureTable) -> Result<()> {
        let mut delays = Sample::default();
        for no in 0..self.size.sessions {
            delays.add_ms(self.time_until(no, "end", "turn.ended")?);
        }
        self.row(table, "end of a turn → seen, p95", &delays, 500.0);
        Ok(())
    }

    fn approvals(&mut self, table: &mut FigureTable) -> Result<()> {
        let mut delays = Sample::default();
        for no in 0..self.size.sessions {
            delays.add_ms(self.time_until(no, "ask", "request.opened")?);
            let row = self.scene.run_json(&["status", &self.ids[no], "--json"])?;
            let request = row["requests"][0]["id"].as_str().context("a request")?;
            self.scene.run_json(&["approve", request, "--json"])?;
            self.happenings.wait_in_session(&self.ids[no], "turn.ended")?;
        }
        self.row(table, "an approval → asked for, p95", &delays, 1_000.0);
        Ok(())
    }

    /// Starts work in all sessions at the same time.
    fn work(&mut self) -> Result<()> {
        (0..self.size.sessions).try_for_each(|no| self.send(no, "spin"))
    }

    /// Kills each agent. A bare pidfd watcher measures the real exit time.
    fn exits(&mut self, table: &mut FigureTable) -> Result<()> {
        let mut delays = Sample::default();
        for id in &self.ids {
            let row: Value = self.scene.run_json(&["status", id, "--json"])?;
            let pid = row["launches"][0]["pid"].as_i64().context("a process")?;
            let pid = Pid::from_raw(i32::try_from(pid)?).context("a process")?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
            pidfd_send_signal(&pidfd, Signal::KILL)?;
            poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None)?;
            let ended = now();
            let seen = self.happenings.wait_in_session(id, "process.ended")?;
            delays.add_ms(seen.saturating_duration_since(ended));
        }
        self.row(table, "exit → seen, after a bare pidfd saw it, p95", &delays, 250.0);
        Ok(())
    }

    /// Measures the share of one core that the daemon and the holders use together, without tmux.
    fn cost(&self, table: &mut FigureTable, doing: &str) -> Result<()> {
        let [daemon, holders] = cpu_shares(self.size.measured_for, || self.used())?;
        let (sessions, seconds) = (self.size.sessions, self.size.measured_for.as_secs());
        table.row(
            &format!("{sessions} terminals {doing}: daemon and holders, of one core"),
            daemon + holders,
            " %",
            Goal::AtMost(3.0),
            &format!("daemon {daemon:.2} %, holders {holders:.2} %, {seconds} s"),
        );
        Ok(())
    }

    fn used(&self) -> Result<[f64; 2]> {
        let mut holders = 0.0;
        for pid in self.scene.daemon.holders()? {
            holders += cpu_ms(pid)?;
        }
        Ok([cpu_ms(self.scene.daemon.pid()?)?, holders])
    }

    fn row(&self, table: &mut FigureTable, what: &str, delays: &Sample, most: f64) {
        table.row(
            &format!("{} terminals: {what}", self.size.sessions),
            delays.quantile(0.95),
            " ms",
            Goal::AtMost(most),
            &delays.spread(" ms"),
        );
    }
}
