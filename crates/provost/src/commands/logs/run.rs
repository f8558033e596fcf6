//! The output of a run, which is the output of its sessions in order.

use provost_api::{ApiError, Client, ErrorCode, RunRow, RunSessionRow, SessionRow};

use super::{Logs, LogsArgs};
use crate::{
    commands::run::next_commands,
    error::Error,
    follow::{self as events, EventFilter, EventFollower},
    target, ui,
};

/// Shows the output of a run's sessions. A check is looked up in the newest result of the run. If the run has no
/// result, or for a setup command, the most recent session that has such output is used.
pub(super) fn show(
    logs: &mut Logs<'_>,
    args: &LogsArgs,
    client: &Client,
    row: &RunRow,
) -> Result<(), Error> {
    if args.hook.is_some() || args.launch.is_some() {
        return Err(only_sessions(row).into());
    }
    if let Some(no) = args.verification {
        return show_verification(logs, args, row, no);
    }
    if let Some(no) = args.check
        && no.checked_sub(1).and_then(|at| row.checks.get(at)?.output.as_deref()).is_some()
    {
        let id = ui::short_id(&row.id);
        let owner = format!("run {id}");
        logs.check_of(&owner, &id, &row.checks, no)?;
        return Ok(logs.check_nothing_missing(&owner, &id)?);
    }
    if args.check.is_some() || args.setup {
        let has = |session: &SessionRow| {
            if args.setup { session.setup.is_some() } else { !session.checks.is_empty() }
        };
        return logs.of_session(args, &newest(client, row, has)?);
    }
    if args.follow { follow(logs, args, row) } else { show_all(logs, args, client, row) }
}

/// Shows the output of a merge check: of the requested check, or of the last that ran.
fn show_verification(
    logs: &mut Logs<'_>,
    args: &LogsArgs,
    row: &RunRow,
    no: u32,
) -> Result<(), Error> {
    let id = ui::short_id(&row.id);
    let found = row.verifications.iter().find(|one| one.no == no).ok_or_else(|| {
        let message = match (row.verifications.first(), row.verifications.last()) {
            (Some(first), Some(last)) => format!(
                "run {id} has no output of merge check {no}, only of merge checks {} to {}",
                first.no, last.no
            ),
            _ => format!("run {id} has no merge checks"),
        };
        ApiError::new(ErrorCode::NotFound, message).next(format!("provost events {id}"))
    })?;
    let ran = found.checks.iter().rposition(|check| check.output.is_some()).unwrap_or(0);
    let check = args.check.unwrap_or(ran + 1);
    let owner = format!("merge check {no} of run {id}");
    logs.check_of(&owner, &id, &found.checks, check)?;
    Ok(logs.check_nothing_missing(&owner, &id)?)
}

fn show_all(
    logs: &mut Logs<'_>,
    args: &LogsArgs,
    client: &Client,
    row: &RunRow,
) -> Result<(), Error> {
    for session in &row.sessions {
        print_heading(logs, session);
        logs.of_session(args, &target::find_session(client, &session.id)?)?;
    }
    if row.sessions.is_empty() {
        logs.context.ui.notice("no session has started yet");
    }
    Ok(())
}

/// Shows each session, and waits for the next one as long as the run may have another.
fn follow(logs: &mut Logs<'_>, args: &LogsArgs, row: &RunRow) -> Result<(), Error> {
    let context = logs.context;
    let newest = events::newest(context)?;
    let mut events = EventFollower::new(context, EventFilter::Run(row.id.clone()), Some(newest));
    // The row is read after the newest event was determined, so it includes all changes up to that
    // event.
    let (mut row, mut at) = (target::find_run(&context.daemon()?, &row.id)?, 0);
    loop {
        while let Some(session) = row.sessions.get(at) {
            print_heading(logs, session);
            logs.of_session(args, &target::find_session(&context.daemon()?, &session.id)?)?;
            at += 1;
        }
        if row.sealed {
            if !context.ui.json {
                context.ui.notice(&ui::run_line(context.ui.notice_paint, &row));
                context.ui.next(&next_commands(&row));
            }
            return Ok(());
        }
        events.next()?;
        row = target::find_run(&context.daemon()?, &row.id)?;
    }
}

/// Prints a heading above a session's output. JSON lines contain a launch field instead.
fn print_heading(logs: &Logs<'_>, session: &RunSessionRow) {
    let ui = &logs.context.ui;
    if !ui.json {
        let stage = ui::escape_line(&session.stage.replace('_', " "));
        ui.notice(&format!("── {stage}, session {}", ui::short_id(&session.id)));
    }
}

fn newest(
    client: &Client,
    row: &RunRow,
    has: impl Fn(&SessionRow) -> bool,
) -> Result<SessionRow, ApiError> {
    for session in row.sessions.iter().rev() {
        let session = target::find_session(client, &session.id)?;
        if has(&session) {
            return Ok(session);
        }
    }
    let short = ui::short_id(&row.id);
    let message = format!("no session of run {short} has such output");
    Err(ApiError::new(ErrorCode::NotFound, message).next(format!("provost status {short}")))
}

fn only_sessions(row: &RunRow) -> ApiError {
    let short = ui::short_id(&row.id);
    let message = format!("{short} is a run; pass the ID of one of its sessions instead");
    ApiError::new(ErrorCode::BadRequest, message).next(format!("provost status {short}"))
}
