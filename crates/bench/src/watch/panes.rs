//! Twenty external agents in tmux panes: the cost of watching them, including the additional load on tmux itself.

use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use provost_agent_codex::rollout::{CodexHomes, NextLine, RolloutEvent, RolloutFold, RolloutTail};
use serde_json::Value;

use super::{Size, cpu_shares, size};
use crate::{
    codex::{CodexBenchEnv, with_codex},
    daemon::{TICK_MS, cpu_ms},
    table::{FigureTable, Goal},
    timing::now,
};

/// Time limit for an agent to reach its prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(120);
/// Delay between typing a text at a prompt and pressing Enter, as when a user types.
const ENTER_DELAY: Duration = Duration::from_millis(500);

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    with_codex(table, in_panes)
}

fn in_panes(table: &mut FigureTable, codex: &Path) -> Result<()> {
    let size = size();
    let scene = CodexBenchEnv::new(codex, &scenario(size))?;
    let people = ExternalPanes::begin(&scene, size)?;
    // The processor time that tmux needs to display the panes, before Provost watches them.
    let [at_prompts] = people.measure_unwatched()?;
    people.work()?;
    let [at_work] = people.measure_unwatched()?;
    let mut happenings = scene.follow_events()?;
    let ids = people.adopt()?;
    happenings.wait_in_each_session(&ids, "pane.seen")?;
    people.measure_watched(table, "at work, each with a spinner", at_work)?;
    (0..size.sessions).for_each(|no| scene.model.release(&format!("work-{no}")));
    happenings.wait_in_each_session(&ids, "turn.ended")?;
    people.measure_watched(table, "at their prompts", at_prompts)
}

/// Returns the scenario. Each agent has its own conversation: it answers, then works behind a gate.
fn scenario(size: Size) -> String {
    let mut text = String::new();
    for no in 0..size.sessions {
        let thread = format!(
            r#"
[[thread]]
turn = [
  {{ response = [{{ items = [{{ message = "Ready." }}] }}] }},
  {{ response = [{{ items = [{{ hold = "work-{no}" }}, {{ message = "Done." }}] }}] }},
]
"#
        );
        // Writing to a string cannot fail.
        text.write_str(&thread).ok();
    }
    text
}

/// A tmux server with one agent per session. Dropping it kills the server.
struct ExternalPanes<'a> {
    scene: &'a CodexBenchEnv<'a>,
    size: Size,
    home: PathBuf,
    socket: PathBuf,
}

impl<'a> ExternalPanes<'a> {
    /// Starts all agents one by one, until each is idle at its prompt.
    fn begin(scene: &'a CodexBenchEnv<'a>, size: Size) -> Result<ExternalPanes<'a>> {
        let home = scene.fresh_home("people")?;
        let trust = format!(
            "\n[projects.{:?}]\ntrust_level = \"trusted\"\n",
            scene.repository().display().to_string()
        );
        let mut config = OpenOptions::new().append(true).open(home.join("config.toml"))?;
        config.write_all(trust.as_bytes())?;
        let socket = home.join("tmux.sock");
        let people = ExternalPanes { scene, size, home, socket };
        for no in 0..size.sessions {
            let line = format!(
                "cd {} && CODEX_HOME={} exec {} 'Begin.'",
                scene.repository().display(),
                people.home.display(),
                scene.codex.display()
            );
            let new = ["new-session", "-d", "-x", "120", "-y", "40", "-s", &format!("agent-{no}")];
            people.tmux(&[&new[..], &["sh", "-c", &line]].concat())?;
            people.wait_for_turns(no + 1)?;
        }
        Ok(people)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX").env_remove("TMUX_PANE").env("LC_ALL", "C.UTF-8");
        tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(arguments);
        let ran = tmux.output().context("cannot run tmux")?;
        ensure!(
            ran.status.success(),
            "tmux {arguments:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    /// Waits until `turns` turns have ended, according to the agents' rollouts.
    #[expect(clippy::disallowed_methods, reason = "external files are polled")]
    fn wait_for_turns(&self, turns: usize) -> Result<()> {
        let since = now();
        while count_ended_turns(&self.home)? < turns {
            ensure!(since.elapsed() < PROMPT_TIMEOUT, "timed out waiting for {turns} turns to end");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Starts work in all panes at the same time, by typing as a user does.
    #[expect(clippy::disallowed_methods, reason = "a user does not type and press Enter at once")]
    fn work(&self) -> Result<()> {
        for no in 0..self.size.sessions {
            let pane = format!("=agent-{no}:");
            self.tmux(&["send-keys", "-t", &pane, "-l", "Continue."])?;
            thread::sleep(ENTER_DELAY);
            self.tmux(&["send-keys", "-t", &pane, "Enter"])?;
            self.scene.model.wait_for_hold(&format!("work-{no}"));
        }
        Ok(())
    }

    /// Adopts all agents by process id. Provost detects their panes by itself.
    fn adopt(&self) -> Result<Vec<String>> {
        let seen = self.scene.run_json(&["discover", "--json"])?;
        let agents = seen["agents"].as_array().context("the reply has no agents")?;
        let cwd = fs::canonicalize(self.scene.repository())?;
        let ours = |one: &&Value| one["cwd"].as_str() == cwd.to_str() && one["pane"].is_object();
        let pids: Vec<String> = agents.iter().filter(ours).map(|a| a["pid"].to_string()).collect();
        ensure!(pids.len() == self.size.sessions, "{} agents were discovered in panes", pids.len());
        let adopt = |pid: &String| {
            let reply = self.scene.run_json(&["adopt", "--pid", pid, "--json"])?;
            reply["id"].as_str().map(str::to_owned).context("the reply has no session id")
        };
        pids.iter().map(adopt).collect()
    }

    fn server(&self) -> Result<u32> {
        Ok(self.tmux(&["display-message", "-p", "#{pid}"])?.trim().parse()?)
    }

    /// Measures the share of one core that tmux uses without Provost.
    fn measure_unwatched(&self) -> Result<[f64; 1]> {
        let server = self.server()?;
        cpu_shares(self.size.measured_for, || Ok([cpu_ms(server)?]))
    }

    /// Measures the daemon's usage and the additional usage of tmux. Each query runs a tmux client
    /// as a child of the daemon.
    fn measure_watched(&self, table: &mut FigureTable, doing: &str, alone: f64) -> Result<()> {
        let (daemon, server) = (self.scene.daemon.pid()?, self.server()?);
        let used = || Ok([cpu_ms(daemon)?, client_cpu_ms(daemon)?, cpu_ms(server)?]);
        let [daemon, clients, tmux] = cpu_shares(self.size.measured_for, used)?;
        let growth = (tmux - alone).max(0.0);
        let (sessions, seconds) = (self.size.sessions, self.size.measured_for.as_secs());
        table.row(
            &format!("{sessions} external agents in panes {doing}: daemon and tmux's growth, of one core"),
            daemon + clients + growth,
            " %",
            Goal::AtMost(3.0),
            &format!(
                "daemon {daemon:.2} %, its clients {clients:.2} %, tmux {alone:.2} % alone and {tmux:.2} % watched, {seconds} s"
            ),
        );
        Ok(())
    }
}

impl Drop for ExternalPanes<'_> {
    fn drop(&mut self) {
        // A failed measurement may have no server.
        self.tmux(&["kill-server"]).ok();
    }
}

/// Returns the processor time of the tmux clients that the daemon has run. The daemon has no other children here.
fn client_cpu_ms(daemon: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{daemon}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("malformed stat line")?;
    // In the fields after the name, the state is field 3, and the times of reaped children are
    // fields 16 and 17.
    let ticks = rest.split_whitespace().skip(13).take(2);
    Ok(ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * TICK_MS)
}

/// Counts the ended turns in all conversations of a home.
fn count_ended_turns(home: &Path) -> Result<usize> {
    let mut turns = 0;
    for rollout in CodexHomes::new(vec![home.to_owned()]).newest(100).rollouts {
        let (mut tail, mut fold) = (RolloutTail::open(&rollout.path, 0)?, RolloutFold::new());
        while let NextLine::Line(line) = tail.next_line()? {
            fold.line(&line, |event| {
                turns += usize::from(matches!(event, RolloutEvent::TurnEnded { .. }))
            });
        }
    }
    Ok(turns)
}
