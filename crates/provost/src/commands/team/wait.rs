//! Waits for a result that a team gets later: a check that Provost runs, or the audit before the team finishes.

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, ErrorCode, TeamReply, TeamWaitReply, TeamWaitState};
use provost_core::{
    team::{self, CheckSubject, FinishBlocker, TeamCommand, TeamWaitResult, TeamWaitTarget},
    verdict::{CheckEnd, Receipt},
    wait::WaitStatus,
};
use provost_holder::spec::MARK;
use serde_json::{Value, json};

use super::args::TeamTarget;
use crate::{
    cli::CliResult,
    commands::mutation::KeyArgs,
    context::Context,
    error::usage,
    follow::{self, EventFilter},
    target,
    ui::{Tone, escape_block, escape_line},
};

/// The maximum number of commands to suggest after a refusal.
const MAX_HINTS: usize = 3;

/// Whether to wait for the result
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Wait for the result
    #[arg(long)]
    wait: bool,
}

/// Requests that the team finish, and waits for the final checks. Succeeds if the team is done
/// afterwards. An agent does not wait, because it is notified of the result.
pub(crate) fn finish(
    context: &Context,
    meant: TeamTarget<'_>,
    command: &TeamCommand,
    key: &KeyArgs,
    no_wait: bool,
) -> CliResult {
    if no_wait || context.environment.get(MARK).is_some() {
        return meant.change(context, command, key);
    }
    let asked = SentTeamCommand::send(context, meant, command, key)?;
    // Without an audit, the result is known immediately.
    if let Some(no) = number(&asked.reply, "audit") {
        context.ui.notice("the final checks are running");
        match asked.wait(context, meant, TeamWaitTarget::Audit(no)) {
            Ok(TeamWaitResult::Refused { blockers }) => {
                return Err(asked.refusal(context, meant, &blockers)?.into());
            }
            // All other results are visible in the row.
            Ok(TeamWaitResult::Finished | TeamWaitResult::Checked { .. }) => {}
            Err(error) if error.code == ErrorCode::Failed => {}
            Err(error) => return Err(error.into()),
        }
    }
    let reply: Value = meant.get(context, &target::team_path(&asked.id))?;
    let done = reply["team"]["state"] == "done";
    meant.show(context, reply)?;
    Ok(ExitCode::from(u8::from(!done)))
}

/// Requests a check. With `--wait`, succeeds if the check passed.
pub(crate) fn check(
    context: &Context,
    meant: TeamTarget<'_>,
    what: CheckSubject,
    key: &KeyArgs,
    args: &WaitArgs,
) -> CliResult {
    let command = TeamCommand::Check { what };
    if !args.wait {
        return meant.change(context, &command, key);
    }
    let asked = SentTeamCommand::send(context, meant, &command, key)?;
    let no = number(&asked.reply, "check").ok_or_else(|| {
        ApiError::new(ErrorCode::Internal, "the reply does not contain the check's number")
            .next(meant.show_command(&asked.id))
    })?;
    match asked.wait(context, meant, TeamWaitTarget::Check(no))? {
        TeamWaitResult::Checked { receipt } => {
            show_receipt(context, &receipt, &meant.show_command(&asked.id))
        }
        TeamWaitResult::Finished | TeamWaitResult::Refused { .. } => {
            Err(ApiError::new(ErrorCode::Internal, "the reply to a check reports a finish").into())
        }
    }
}

/// A request sent to a team, and the reply to it.
struct SentTeamCommand {
    id: String,
    reply: Value,
}

impl SentTeamCommand {
    fn send(
        context: &Context,
        meant: TeamTarget<'_>,
        command: &TeamCommand,
        key: &KeyArgs,
    ) -> Result<Self, ApiError> {
        if context.environment.get(MARK).is_some() {
            // Waiting may start a daemon, which an agent must not do.
            let message = "an agent cannot wait for a result, but is notified of it: omit --wait";
            return Err(usage(message.to_owned()));
        }
        let id = meant.find(context)?.id;
        let reply = meant.send(context, command, &key.get(context))?;
        Ok(SentTeamCommand { id, reply })
    }

    /// Returns the error for a refused request to finish, with the commands that remove the blockers.
    fn refusal(
        &self,
        context: &Context,
        meant: TeamTarget<'_>,
        blockers: &[FinishBlocker],
    ) -> Result<ApiError, ApiError> {
        let reply: TeamReply = meant.get(context, &target::team_path(&self.id))?;
        let found = |code: &str| blockers.iter().any(|one| one.code() == code);
        let rows = reply.team.blockers.into_iter().filter(|row| found(&row.code));
        let hints = rows.filter_map(|row| row.hint).take(MAX_HINTS);
        let error = ApiError::new(ErrorCode::Refused, team::describe_not_finished(blockers));
        Ok(hints.fold(error, ApiError::next).next(meant.show_command(&self.id)))
    }

    /// Waits for the result, regardless of which request caused it. Fails if there can be no result any more.
    fn wait(
        &self,
        context: &Context,
        meant: TeamTarget<'_>,
        awaited: TeamWaitTarget,
    ) -> Result<TeamWaitResult, ApiError> {
        let (name, no) = match awaited {
            TeamWaitTarget::Check(no) => ("check", no),
            TeamWaitTarget::Audit(no) => ("audit", no),
        };
        let path = target::team_action_path(&self.id, "wait");
        let path = target::with_query(&path, &[(name, Some(no.to_string()))]);
        let ended = follow::wait_until(context, EventFilter::Task(self.id.clone()), || {
            meant.get::<TeamWaitReply>(context, &path).and_then(wait_status)
        })?;
        ended.map_err(|why| {
            ApiError::new(ErrorCode::Failed, format!("{name} {no} has no result: {why}"))
                .next(meant.show_command(&self.id))
        })
    }
}

fn wait_status(reply: TeamWaitReply) -> Result<WaitStatus<TeamWaitResult>, ApiError> {
    Ok(match reply.status {
        TeamWaitState::Pending => WaitStatus::Pending,
        TeamWaitState::Done => {
            let done = serde_json::from_value(reply.done.unwrap_or_default());
            WaitStatus::Done(done.map_err(|why| {
                ApiError::new(ErrorCode::Internal, format!("cannot parse the result: {why}"))
            })?)
        }
        TeamWaitState::Impossible => WaitStatus::Impossible(reply.reason.unwrap_or_default()),
    })
}

fn number(reply: &Value, name: &str) -> Option<u32> {
    reply[name].as_u64().and_then(|no| u32::try_from(no).ok())
}

fn show_receipt(context: &Context, receipt: &Receipt, next: &str) -> CliResult {
    let passed = receipt.end == CheckEnd::Exit(0);
    let next = [next.to_owned()];
    if context.ui.json {
        let mut reply = json!({"ok": passed, "receipt": receipt});
        if !passed {
            let message = format!("check `{}` failed: {}", receipt.command, receipt.end.summary());
            reply["error"] =
                json!(ApiError::new(ErrorCode::Failed, escape_line(&message)).next(&next[0]));
        }
        context.ui.result(reply, &next)?;
    } else {
        let how = if passed { (Tone::Good, "passed") } else { (Tone::Bad, "failed") };
        let word = context.ui.paint.paint(how.0, how.1);
        let command = escape_line(&receipt.command);
        context.ui.line(&format!(
            "{word} `{command}` {} on tree {}",
            escape_line(&receipt.end.to_string()),
            receipt.tree.0
        ))?;
        context
            .ui
            .lines(&escape_block(&receipt.tail).lines().map(str::to_owned).collect::<Vec<_>>())?;
        context.ui.next(&next);
    }
    Ok(ExitCode::from(u8::from(!passed)))
}
