//! Parts of a session's row that the lifecycle table does not cover: processes that never ran, the
//! setup, and hooks.

use provost_api::{ActivityName, HookResultName, HookRow, ProcessName, SetupResultName, SetupRow};
use provost_core::{
    lifecycle::{Activity, ProcessFact},
    session::{
        HookEnd, HookKey, LaunchPhase, ProcessExit, Session, SessionEffect, SetupState, StoppedBy,
    },
};

/// The directory for checks, hooks and setups, below Provost's home.
pub(crate) const CHECKS_DIR: &str = "checks";

/// Returns the state of the process. It is more precise than the lifecycle table, which treats
/// a process that has not started yet as alive, a failed start as a bad exit, and a stop by Provost
/// as a clean exit.
pub(crate) fn process_name(session: &Session) -> ProcessName {
    match session.process() {
        _ if has_not_run(session) => ProcessName::NotStarted,
        ProcessFact::Exit0 if is_stopped(session) => ProcessName::Stopped,
        ProcessFact::Alive => ProcessName::Alive,
        ProcessFact::Exit0 => ProcessName::Exit0,
        ProcessFact::ExitN => ProcessName::ExitN,
        ProcessFact::Unknown => ProcessName::Unknown,
    }
}

/// Whether Provost ended the process, and it did not exit with code 0.
pub(crate) fn is_stopped(session: &Session) -> bool {
    let phase = session.current_launch().map(|launch| &launch.phase);
    matches!(phase, Some(LaunchPhase::Ended { end, by: StoppedBy::Provost, .. }) if *end != ProcessExit::Exit(0))
}

/// Returns the activity of the agent.
pub(crate) fn activity_name(session: &Session) -> ActivityName {
    match session.activity() {
        _ if has_not_run(session) => ActivityName::None,
        _ if is_unseen(session) => ActivityName::Unknown,
        Activity::Active => ActivityName::Active,
        Activity::Idle => ActivityName::Idle,
        Activity::Stale => ActivityName::Stale,
        Activity::Exited => ActivityName::Exited,
    }
}

/// Whether the lifecycle table treats an agent as idle only because nothing reports its turns.
pub(crate) fn is_unseen(session: &Session) -> bool {
    session.has_unobservable_turns() && session.activity() == Activity::Idle
}

/// Lists the finished hooks in the order in which they finished, followed by the pending and
/// running ones.
pub(crate) fn hook_rows(session: &Session) -> Vec<HookRow> {
    let ended = session.hook_log.ended.iter().map(|hook| {
        let output = SessionEffect::RunHook(hook.key).key();
        HookRow {
            result: hook_result(&hook.end).into(),
            detail: Some(hook_detail(&hook.end)),
            output: Some(output_name(session, &output)),
            ..pending_hook_row(session, hook.key)
        }
    });
    ended
        .chain(session.hook_log.pending.iter().map(|hook| pending_hook_row(session, hook.key)))
        .collect()
}

/// Describes the command that prepares the worktree, if there is one.
pub(crate) fn setup_row(session: &Session) -> Option<SetupRow> {
    let command = session.spec.setup.clone()?;
    let (result, detail) = match &session.worktree.setup {
        SetupState::NotNeeded => return None,
        SetupState::Pending if session.attempt().is_decided() => (SetupResultName::NotRun, None),
        SetupState::Pending => (SetupResultName::Pending, None),
        SetupState::Done => (SetupResultName::Ok, None),
        SetupState::Failed { reason } => (SetupResultName::Failed, Some(reason.clone())),
    };
    let output = output_name(session, &session.setup_effect().key());
    Some(SetupRow { command, result: result.into(), detail, output })
}

/// Returns the name of the directory with the output of a check, hook or setup, relative to
/// Provost's home. The actual name has a random suffix.
fn output_name(session: &Session, effect: &str) -> String {
    format!("{CHECKS_DIR}/{}.{effect}", session.id)
}

/// Whether no process has run in the current attempt so far. A launch whose start is being
/// cancelled may have one.
fn has_not_run(session: &Session) -> bool {
    match session.current_launch() {
        None => true,
        Some(launch) => match launch.phase {
            LaunchPhase::Failed { .. } => true,
            LaunchPhase::Pending => launch.stop.is_none(),
            LaunchPhase::Running { .. }
            | LaunchPhase::Ended { .. }
            | LaunchPhase::Unobserved { .. } => false,
        },
    }
}

fn pending_hook_row(session: &Session, key: HookKey) -> HookRow {
    let command = session.spec.hooks.get(&key.event).map(|spec| spec.argv.as_slice());
    HookRow {
        event: key.event.to_string(),
        occasion: key.no,
        command: command.map(command_line).unwrap_or_default(),
        result: HookResultName::Pending.into(),
        detail: None,
        output: None,
    }
}

/// Formats a command as the user wrote it, either as a shell line or as separate words.
fn command_line(argv: &[String]) -> String {
    match argv {
        [shell, option, line] if shell == "sh" && option == "-c" => line.clone(),
        words => words.join(" "),
    }
}

fn hook_result(end: &HookEnd) -> HookResultName {
    match end {
        HookEnd::Exit(0) => HookResultName::Ok,
        HookEnd::Exit(_)
        | HookEnd::Signal(_)
        | HookEnd::TimeLimit
        | HookEnd::OutputLimit
        | HookEnd::NotStarted(_) => HookResultName::Failed,
        HookEnd::Uncertain(_) => HookResultName::Uncertain,
    }
}

fn hook_detail(end: &HookEnd) -> String {
    match end {
        HookEnd::Exit(code) => format!("exit {code}"),
        HookEnd::Signal(signal) => format!("signal {signal}"),
        HookEnd::TimeLimit => "ended at its time limit".to_owned(),
        HookEnd::OutputLimit => "ended at its output limit".to_owned(),
        HookEnd::NotStarted(why) => format!("could not be started: {why}"),
        HookEnd::Uncertain(why) => format!("result unknown: {why}"),
    }
}
