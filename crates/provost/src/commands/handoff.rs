//! `provost handoff`

use std::process::ExitCode;

use clap::Args;
use provost_api::{HandoffRow, HeartbeatRow};
use serde::Deserialize;
use serde_json::json;

use super::{input, tasking::Meant};
use crate::{cli::Outcome, context::Context, target, ui};

/// Print what a member of a task has to be told, to be pasted where the member is opened
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost handoff limits hand\n  provost handoff limits --heartbeat\n  provost handoff limits hand --json | jq -r '.handoffs[0].prompt'"
)]
pub(crate) struct HandoffArgs {
    /// The task: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    task: String,
    /// The member; all of them if none is named
    #[arg(value_parser = input::parse_name)]
    member: Option<String>,
    /// Print what wakes the members whom Provost cannot wake, instead
    #[arg(long)]
    heartbeat: bool,
}

/// What the daemon answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Handed {
    pub(crate) task: String,
    pub(crate) handoffs: Vec<HandoffRow>,
    pub(crate) heartbeat: Option<HeartbeatRow>,
}

/// Asks for what members are handed.
pub(crate) fn find(
    context: &Context,
    task: &str,
    member: Option<&str>,
) -> Result<Handed, provost_api::ApiError> {
    let meant = Meant::named(task);
    let path = target::query(&meant.path("handoff"), &[("member", member.map(str::to_owned))]);
    meant.get(context, &path)
}

pub(crate) fn run(context: &Context, args: &HandoffArgs) -> Outcome {
    let handed = find(context, &args.task, args.member.as_deref())?;
    if context.ui.json {
        let Handed { task, handoffs, heartbeat } = handed;
        let told = json!({"task": task, "handoffs": handoffs, "heartbeat": heartbeat});
        context.ui.result(told, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.heartbeat {
        match &handed.heartbeat {
            None => context.ui.talk("Provost wakes all members of this task itself"),
            Some(heartbeat) => context.ui.lines(&ui::heartbeat_lines(heartbeat))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    for (at, handoff) in handed.handoffs.iter().enumerate() {
        if at > 0 {
            context.ui.line("")?;
        }
        context.ui.line(&ui::clean_block(&handoff.prompt))?;
    }
    Ok(ExitCode::SUCCESS)
}
