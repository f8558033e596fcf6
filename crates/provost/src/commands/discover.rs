//! `provost discover`

use std::process::ExitCode;

use clap::Args;
use provost_agent::discovery::{DiscoveredAgent, Discovery};
use provost_api::{ApiError, SessionRow, SessionsReply};
use provost_core::lifecycle::Flag;
use serde_json::{Value, json};

use crate::{adapters::adapters, cli::CliResult, context::Context, daemon::connect_only, ui};

/// List agents on this machine that Provost did not start
///
/// Examines processes, conversation files and tmux panes without changing anything. The kind of
/// agent is determined by the environment variable AI_AGENT of the process or, if that variable is
/// not set, by the program and its arguments, but never by text on the screen.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost discover\n  provost discover --all\n  provost discover --json"
)]
pub(crate) struct DiscoverArgs {
    /// Also list the 50 newest conversations that have no running process
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(context: &Context, args: &DiscoverArgs) -> CliResult {
    let variable = |name: &str| context.environment.get(name).map(str::to_owned);
    let discovery = Discovery { adapters: adapters(), variable: &variable };
    let mut agents = discovery.running_agents()?;
    discovery.add_panes(&mut agents)?;
    if args.all {
        agents.extend(discovery.idle_conversations(&agents));
    }
    let sessions = AdoptedSessions::load(context);
    let free = agents.iter().filter(|found| sessions.session_of(found).is_none());
    let next: Vec<String> = free.filter_map(adopt_command).take(1).collect();
    if context.ui.json {
        let agents: Vec<Value> =
            agents.iter().map(|found| row(found, sessions.session_of(found))).collect();
        context.ui.result(json!({"agents": agents}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    if agents.is_empty() {
        context.ui.notice("no external agents found");
        context.ui.next(&["provost discover --all".to_owned()]);
        return Ok(ExitCode::SUCCESS);
    }
    let lines = agents.iter().map(|found| line(found, sessions.session_of(found)));
    context.ui.lines(&lines.collect::<Vec<_>>())?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// The live sessions of adopted agents, as reported by a running daemon. Querying them never starts a daemon.
struct AdoptedSessions(Vec<SessionRow>);

impl AdoptedSessions {
    fn load(context: &Context) -> AdoptedSessions {
        let asked = || -> Result<Vec<SessionRow>, ApiError> {
            let client = connect_only(&context.home()?)?;
            Ok(client.get::<SessionsReply>("/v1/sessions")?.sessions)
        };
        AdoptedSessions(asked().unwrap_or_default())
    }

    /// Returns the session that supervises an agent, matched by process or conversation.
    fn session_of(&self, found: &DiscoveredAgent) -> Option<&str> {
        let pid = found.process.as_ref().and_then(|process| i32::try_from(process.pid).ok());
        let by_pid = |row: &&SessionRow| {
            row.launches.iter().any(|one| one.may_be_running() && one.pid == pid)
        };
        let by_thread = |row: &&SessionRow| row.thread == found.thread;
        let adopted = |row: &&SessionRow| row.has_flag(Flag::Adopted);
        let mut live = self.0.iter().filter(|row| !row.sealed).filter(adopted);
        let its = |row: &&SessionRow| {
            (pid.is_some() && by_pid(row)) || (found.thread.is_some() && by_thread(row))
        };
        live.find(its).map(|row| row.id.as_str())
    }
}

/// Returns the command that adopts an agent.
fn adopt_command(found: &DiscoveredAgent) -> Option<String> {
    match (&found.process, &found.thread) {
        (Some(process), _) => Some(format!("provost adopt --pid {}", process.pid)),
        (None, Some(thread)) => Some(format!("provost adopt --thread {thread}")),
        (None, None) => None,
    }
}

fn line(found: &DiscoveredAgent, session: Option<&str>) -> String {
    let process = found.process.as_ref().map(|process| format!("pid {}", process.pid));
    let pane = found.pane.as_ref().map(|pane| format!("pane {}", pane.id));
    let thread = found.thread.as_ref().map(|thread| format!("thread {thread}"));
    let cwd = found.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let known = Some(format!("(by {})", found.evidence));
    let adopted = session.map(|id| format!("adopted as {}", ui::short_id(id)));
    let parts = [Some(found.agent.clone()), process, pane, thread, cwd, known, adopted];
    ui::escape_line(&parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
}

fn row(found: &DiscoveredAgent, session: Option<&str>) -> Value {
    json!({
        "agent": found.agent,
        "known_by": found.evidence,
        "pid": found.process.as_ref().map(|process| process.pid),
        "argv": found.argv,
        "cwd": found.cwd,
        "rollout": found.rollout,
        "thread": found.thread,
        "conversations": found.conversations.iter().map(|open| &open.file.path).collect::<Vec<_>>(),
        "version": found.version,
        "pane": found.pane.as_ref().map(|pane| json!({"socket": pane.socket, "id": pane.id})),
        "session": session,
        "lacks": found.limitations(),
    })
}
