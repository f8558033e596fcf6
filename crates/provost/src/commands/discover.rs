//! `provost discover`

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::found::{self, Found};
use crate::{cli::Outcome, context::Context, ui};

/// List agent sessions on this machine that Provost did not start
///
/// Nothing is changed and nobody is touched: processes, files of conversations and panes of tmux are looked at. Which
/// agent a process is, its environment (AI_AGENT) says, then its program and arguments, never words on a screen.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost discover\n  provost discover --all\n  provost discover --json"
)]
pub(crate) struct DiscoverArgs {
    /// Also conversations that no process goes on with now: the newest 50
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(context: &Context, args: &DiscoverArgs) -> Outcome {
    let mut agents = found::each()?;
    found::in_panes(context, &mut agents)?;
    if args.all {
        agents.extend(found::at_rest(context, &agents)?);
    }
    let next: Vec<String> = agents.iter().filter_map(adopting).take(1).collect();
    if context.ui.json {
        let agents: Vec<Value> = agents.iter().map(row).collect();
        context.ui.result(json!({"agents": agents}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    if agents.is_empty() {
        context.ui.talk("no agents of others are seen here");
        context.ui.next(&["provost discover --all".to_owned()]);
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.lines(&agents.iter().map(line).collect::<Vec<_>>())?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Gives the command that adopts an agent.
fn adopting(found: &Found) -> Option<String> {
    match (&found.process, &found.thread) {
        (Some(process), _) => Some(format!("provost adopt --pid {}", process.pid)),
        (None, Some(thread)) => Some(format!("provost adopt --thread {thread}")),
        (None, None) => None,
    }
}

fn line(found: &Found) -> String {
    let process = found.process.as_ref().map(|process| format!("pid {}", process.pid));
    let pane = found.pane.as_ref().map(|pane| format!("pane {}", pane.id));
    let thread = found.thread.as_ref().map(|thread| format!("thread {thread}"));
    let cwd = found.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let known = Some(format!("(by {})", found.known_by));
    let parts = [Some(found.agent.clone()), process, pane, thread, cwd, known];
    ui::clean(&parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
}

fn row(found: &Found) -> Value {
    json!({
        "agent": found.agent,
        "known_by": found.known_by,
        "pid": found.process.as_ref().map(|process| process.pid),
        "argv": found.argv,
        "cwd": found.cwd,
        "rollout": found.rollout,
        "thread": found.thread,
        "conversations": found.several.iter().map(|open| &open.path).collect::<Vec<_>>(),
        "version": found.version,
        "pane": found.pane.as_ref().map(|pane| json!({"socket": pane.socket, "id": pane.id})),
        "lacks": found.lacks(),
    })
}
