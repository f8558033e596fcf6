//! `provost team wait`

use std::process::ExitCode;

use clap::Args;
use provost_api::{
    ApiError, ErrorCode, Extensible, MemberRow, TeamMessageRow, TeamMessagesReply, TeamReply,
    TeamRow, TeamStateName,
};
use provost_core::{lifecycle::State, wait::WaitStatus};
use provost_holder::spec::MARK;
use serde_json::json;

use super::args::{NamedTeamArgs, next_commands};
use crate::{
    cli::CliResult,
    commands::spawn::wait::input_lines,
    context::Context,
    error::usage,
    follow::{self, EventFilter},
    target, ui,
};

/// Wait until the workers are idle, one needs you, or the team ends
///
/// A worker is idle once its turn is over and no message is waiting for it. Exits with 0 if all workers
/// are idle or the team is done, with 7 if a worker needs input, and with 1 if a worker or the team
/// failed or was cancelled.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team wait limits\n  provost team wait --json")]
pub(super) struct TeamWaitArgs {
    #[command(flatten)]
    team: NamedTeamArgs,
}

/// The result of waiting for a team.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TeamWaitEnd {
    /// All workers are idle.
    Idle,
    /// A worker needs input.
    NeedsInput { worker: String, session: Option<String> },
    /// A worker's session ended without a result.
    WorkerFailed { worker: String, state: String },
    /// The team has ended.
    Closed,
}

impl TeamWaitEnd {
    fn as_str(&self) -> &'static str {
        match self {
            TeamWaitEnd::Idle => "idle",
            TeamWaitEnd::NeedsInput { .. } => "needs_input",
            TeamWaitEnd::WorkerFailed { .. } => "worker_failed",
            TeamWaitEnd::Closed => "closed",
        }
    }
}

pub(super) fn run(context: &Context, args: &TeamWaitArgs) -> CliResult {
    if context.environment.get(MARK).is_some() {
        // Waiting may start a daemon, which an agent must not do.
        return Err(usage(
            "an agent cannot use `team wait`: end your turn, and Provost sends you a message",
        )
        .into());
    }
    let meant = args.team.target(context);
    let id = meant.find(context)?.id;
    let (row_path, messages_path) =
        (target::team_path(&id), target::team_action_path(&id, "messages"));
    // The members' sessions have streams of their own, so all events are followed.
    let ended = follow::wait_until(context, EventFilter::All, || {
        // The messages are read first: a message that a worker accepts between the two reads then appears in the
        // worker's state. In the other order, such a message would appear in neither of them.
        let messages: TeamMessagesReply = meant.get(context, &messages_path)?;
        let reply: TeamReply = meant.get(context, &row_path)?;
        Ok(match judge(&reply.team, &messages.messages) {
            WaitStatus::Done(end) => WaitStatus::Done((end, reply.team)),
            WaitStatus::Impossible(reason) => WaitStatus::Impossible(reason),
            WaitStatus::Pending => WaitStatus::Pending,
        })
    })?;
    let (end, row) = ended.map_err(|reason| {
        ApiError::new(ErrorCode::Refused, reason).next(meant.show_command(&id))
    })?;
    show(context, &end, &row, &next_commands(&row, meant.by().as_deref()))
}

/// Decides whether the wait is over.
fn judge(row: &TeamRow, messages: &[TeamMessageRow]) -> WaitStatus<TeamWaitEnd> {
    if row.terminal {
        return WaitStatus::Done(TeamWaitEnd::Closed);
    }
    let workers: Vec<&MemberRow> =
        row.members.iter().filter(|member| member.role == "worker" && !member.left).collect();
    if workers.is_empty() {
        return WaitStatus::Impossible(format!("team {:?} has no worker to wait for", row.name));
    }
    if row.state == TeamStateName::Paused {
        return WaitStatus::Impossible(format!(
            "team {:?} is paused: its workers receive nothing until it resumes",
            row.name
        ));
    }
    for worker in &workers {
        let state = worker.state.as_ref();
        match state.and_then(Extensible::known) {
            Some(State::NeedsInput) => {
                let (worker, session) = (worker.name.clone(), worker.session.clone());
                return WaitStatus::Done(TeamWaitEnd::NeedsInput { worker, session });
            }
            Some(
                state @ (State::Failed
                | State::Disputed
                | State::ExitedWithoutClaim
                | State::Stopped
                | State::Cancelled
                | State::Superseded),
            ) => {
                let (worker, state) = (worker.name.clone(), state.as_str().to_owned());
                return WaitStatus::Done(TeamWaitEnd::WorkerFailed { worker, state });
            }
            Some(_) | None => {}
        }
    }
    if workers.iter().all(|worker| is_idle(worker, messages)) {
        WaitStatus::Done(TeamWaitEnd::Idle)
    } else {
        WaitStatus::Pending
    }
}

/// Whether a worker is not working and has no message to handle.
fn is_idle(worker: &MemberRow, messages: &[TeamMessageRow]) -> bool {
    // A message that was pushed to a session is accepted until a turn begins with it.
    let has_message = messages.iter().any(|message| {
        message.to == worker.name && message.status.known().is_some_and(|status| !status.is_over())
    });
    let rests = |state: &Extensible<State>| {
        matches!(
            state.known(),
            Some(State::Idle | State::Succeeded | State::Completed | State::Accepted)
        )
    };
    let works = worker.state.as_ref().map_or(worker.session.is_some(), |state| !rests(state));
    !has_message && !works
}

fn show(context: &Context, end: &TeamWaitEnd, row: &TeamRow, next: &[String]) -> CliResult {
    let (code, message) = match end {
        TeamWaitEnd::Idle => (None, "all workers are idle".to_owned()),
        TeamWaitEnd::Closed if row.state == TeamStateName::Done => {
            (None, "the team is done".to_owned())
        }
        TeamWaitEnd::Closed => (Some(ErrorCode::Failed), format!("the team is {}", row.state)),
        TeamWaitEnd::NeedsInput { worker, .. } => {
            (Some(ErrorCode::InputNeeded), format!("worker {worker:?} needs input"))
        }
        TeamWaitEnd::WorkerFailed { worker, state } => {
            (Some(ErrorCode::Failed), format!("worker {worker:?} is {state}"))
        }
    };
    let exit = ExitCode::from(code.map_or(0, ErrorCode::exit_code));
    if context.ui.json {
        let mut value = json!({"ok": code.is_none(), "ended": end.as_str(), "team": row});
        if let Some(code) = code {
            value["error"] = json!(ApiError::new(code, message).next_all(next));
        }
        context.ui.result(value, next)?;
        return Ok(exit);
    }
    context.ui.line(&format!(
        "{} {}: {}",
        ui::short_id(&row.id),
        ui::escape_line(&row.name),
        ui::escape_line(&message)
    ))?;
    if let TeamWaitEnd::NeedsInput { session: Some(session), .. } = end {
        let session = target::find_session(&context.daemon()?, session)?;
        input_lines(context, &session).iter().for_each(|line| context.ui.notice(line));
    }
    context.ui.next(next);
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use provost_api::CommunicationRow;

    use super::*;

    fn worker(name: &str, state: Option<&str>) -> MemberRow {
        MemberRow {
            name: name.to_owned(),
            role: "worker".to_owned(),
            session: state.map(|_| "s".to_owned()),
            thread: None,
            title: None,
            left: false,
            acknowledged_revision: None,
            polled_at: None,
            state: state.map(Extensible::from_name),
            cause: None,
            branch: None,
            communication: CommunicationRow {
                kind: "pull".to_owned(),
                receive: "asks".to_owned(),
                can_push: false,
                needs_wake: false,
                receive_command: None,
                acts: None,
                note: None,
            },
        }
    }

    fn message(to: &str, status: &str) -> TeamMessageRow {
        serde_json::from_value(json!({
            "no": 1, "key": "k", "correlation": null, "from": "operator", "to": to, "kind": "instruction",
            "status": status, "reason": null, "consumer": null, "offers": 0, "stored_at": 0, "text": "t",
        }))
        .unwrap()
    }

    fn team(state: &str, members: Vec<MemberRow>) -> TeamRow {
        let terminal = matches!(state, "done" | "failed" | "cancelled");
        let row: TeamRow = serde_json::from_value(json!({
            "id": "t", "name": "limits", "goal": "g", "summary": null, "project": null, "cwd": "/",
            "state": state, "terminal": terminal, "because": null, "since": 0, "opened_at": 0,
            "members": [], "messages": {}, "criteria": [], "loop": null, "mode": "light", "revision": 0,
            "blockers": [], "being_audited": false,
        }))
        .unwrap();
        TeamRow { members, ..row }
    }

    #[test]
    fn wait_ends_when_every_worker_is_idle() {
        let one = worker("one", Some("completed"));
        let busy = team("active", vec![one.clone(), worker("two", Some("working"))]);
        assert_eq!(judge(&busy, &[]), WaitStatus::Pending);
        let idle = team("active", vec![one, worker("two", Some("idle"))]);
        assert_eq!(judge(&idle, &[]), WaitStatus::Done(TeamWaitEnd::Idle));
    }

    #[test]
    fn undelivered_message_keeps_wait_pending() {
        let row = team("active", vec![worker("one", Some("idle"))]);
        for status in ["stored", "offered", "accepted"] {
            assert_eq!(judge(&row, &[message("one", status)]), WaitStatus::Pending, "{status}");
        }
        for other in [message("boss", "stored"), message("one", "acknowledged")] {
            assert_eq!(judge(&row, &[other]), WaitStatus::Done(TeamWaitEnd::Idle));
        }
    }

    #[test]
    fn accepted_message_keeps_external_worker_busy() {
        let row = team("active", vec![worker("one", None)]);
        assert_eq!(judge(&row, &[message("one", "accepted")]), WaitStatus::Pending);
        assert_eq!(judge(&row, &[]), WaitStatus::Done(TeamWaitEnd::Idle));
    }

    #[test]
    fn question_or_failure_ends_wait_while_others_work() {
        let busy = worker("busy", Some("working"));
        let asks = team("active", vec![busy.clone(), worker("one", Some("needs_input"))]);
        assert!(matches!(
            judge(&asks, &[]),
            WaitStatus::Done(TeamWaitEnd::NeedsInput { worker, .. }) if worker == "one"
        ));
        let failed = team("active", vec![busy, worker("one", Some("failed"))]);
        assert!(matches!(judge(&failed, &[]), WaitStatus::Done(TeamWaitEnd::WorkerFailed { .. })));
    }

    #[test]
    fn closed_paused_or_empty_team_ends_wait() {
        let over = team("cancelled", vec![worker("one", Some("working"))]);
        assert_eq!(judge(&over, &[]), WaitStatus::Done(TeamWaitEnd::Closed));
        let paused = team("paused", vec![worker("one", Some("idle"))]);
        assert!(matches!(judge(&paused, &[]), WaitStatus::Impossible(_)));
        assert!(matches!(judge(&team("open", Vec::new()), &[]), WaitStatus::Impossible(_)));
    }
}
