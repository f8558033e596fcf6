//! `provost team handoff`

use std::process::ExitCode;

use clap::Args;
use provost_api::HandoffReply;
use serde_json::json;

use super::args::TeamTarget;
use crate::{cli::CliResult, commands::input, context::Context, target, ui};

/// Print the prompt that onboards a member of a team
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team handoff limits hand\n  provost team handoff limits --heartbeat\n  provost team handoff limits hand --json | jq -r '.handoffs[0].prompt'"
)]
pub(crate) struct HandoffArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// Member [default: all members]
    #[arg(value_parser = input::parse_name)]
    member: Option<String>,
    /// Print the reminder for members that Provost cannot wake, instead of the prompt
    #[arg(long)]
    heartbeat: bool,
}

/// Requests the handoffs for a team's members.
pub(crate) fn find(
    context: &Context,
    task: &str,
    member: Option<&str>,
) -> Result<HandoffReply, provost_api::ApiError> {
    let meant = TeamTarget::new(task);
    let path = target::with_query(&meant.path("handoff"), &[("member", member.map(str::to_owned))]);
    meant.get(context, &path)
}

pub(crate) fn run(context: &Context, args: &HandoffArgs) -> CliResult {
    let handed = find(context, &args.team, args.member.as_deref())?;
    if context.ui.json {
        let HandoffReply { team: task, handoffs, heartbeat, .. } = handed;
        let reply = json!({"team": task, "handoffs": handoffs, "heartbeat": heartbeat});
        context.ui.result(reply, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.heartbeat {
        match &handed.heartbeat {
            None => context.ui.notice("Provost wakes all members of this team itself"),
            Some(heartbeat) => context.ui.lines(&ui::heartbeat_lines(heartbeat))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    for (at, handoff) in handed.handoffs.iter().enumerate() {
        if at > 0 {
            context.ui.line("")?;
        }
        context.ui.line(&ui::escape_block(&handoff.prompt))?;
    }
    Ok(ExitCode::SUCCESS)
}
