//! `provost audit`

use std::process::ExitCode;

use clap::Args;
use provost_api::AuditReply;
use serde_json::json;

use super::{input, tasking};
use crate::{
    cli::Outcome,
    context::Context,
    target,
    ui::{self, Screen},
};

/// Audit a task: who did what by which way, what was refused and why, and what each criterion rests on
///
/// Also says where the signals of its sessions do not say the same: a claim against a check, say.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost audit limits\n  provost audit limits --content\n  provost audit limits --json | jq '.deeds[] | select(.refused)'"
)]
pub(crate) struct AuditArgs {
    /// The task: its id, the beginning or end of it, or its name
    #[arg(value_name = "TASK", value_parser = input::parse_name)]
    task: String,
    /// Show what was written, too
    #[arg(long)]
    content: bool,
}

pub(crate) fn run(context: &Context, args: &AuditArgs) -> Outcome {
    let content = args.content.then(|| "1".to_owned());
    let path = target::query(&target::task_action(&args.task, "audit"), &[("content", content)]);
    let reply: AuditReply = tasking::client(context)?.get(&path)?;
    let id = ui::short(&reply.task.id);
    let next = [format!("provost replay {id}"), format!("provost export {id} --to DIRECTORY")];
    if context.ui.json {
        context.ui.result(json!(reply), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::output());
    context.ui.lines(&ui::past_head(paint, screen, &reply.task, &reply.sessions))?;
    context.ui.lines(&ui::audit_lines(paint, screen, &reply))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
