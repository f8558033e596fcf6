//! Parts of a session's row that the lifecycle table does not cover: processes that never ran, the
//! setup, and hooks.

use provost_api::{HookRow, SetupRow};
use provost_core::{
    lifecycle::{Activity, ProcessFact},
    session::{
        HookEnd, HookKey, LaunchPhase, ProcessExit, Session, SessionEffect, SetupState, StoppedBy,
    },
};

/// The directory for checks, hooks and setups, below Provost's home.
pub(crate) const CHECKS_DIR: &str = "checks";

/// Shown for a process that never started. The lifecycle table has no value for this case.
const NOT_STARTED: &str = "not_started";

/// The activity shown for a process that has not run.
const NO_ACTIVITY: &str = "none";

/// Shown for a process that Provost ended with a signal, which the lifecycle table treats as a clean exit.
const STOPPED: &str = "stopped";

/// Returns the name of the process state. It is more precise than the lifecycle table, which treats
/// a process that has not started yet as alive, a failed start as a bad exit, and a stop by Provost
/// as a clean exit.
pub(crate) fn process_name(session: &Session) -> &'static str {
    match session.process() {
        _ if has_not_run(session) => NOT_STARTED,
        ProcessFact::Exit0 if is_stopped(session) => STOPPED,
        found @ (ProcessFact::Alive
        | ProcessFact::Exit0
        | ProcessFact::ExitN
        | ProcessFact::Unknown) => found.as_str(),
    }
}

/// Whether Provost ended the process, and it did not exit with code 0.
pub(crate) fn is_stopped(session: &Session) -> bool {
    let phase = session.current_launch().map(|launch| &launch.phase);
    matches!(phase, Some(LaunchPhase::Ended { end, by: StoppedBy::Provost, .. }) if *end != ProcessExit::Exit(0))
}

/// The activity shown if the agent's turns cannot be observed.
const UNSEEN_ACTIVITY: &str = "unknown";

/// Returns the name of the activity.
pub(crate) fn activity_name(session: &Session) -> &'static str {
    if has_not_run(session) {
        NO_ACTIVITY
    } else if is_unseen(session) {
        UNSEEN_ACTIVITY
    } else {
        session.activity().as_str()
    }
}

/// Whether the lifecycle table treats an agent as idle only because nothing reports its turns.
pub(crate) fn is_unseen(session: &Session) -> bool {
    session.has_unobservable_turns() && session.activity() == Activity::Idle
}

/// Lists the finished hooks in the order in which they finished, followed by the pending and
/// running ones.
pub(crate) fn hook_rows(session: &Session) -> Vec<HookRow> {
    let ended = session.hooks_ended.iter().map(|hook| {
        let output = SessionEffect::RunHook(hook.key).key();
        HookRow {
            result: hook_result(&hook.end).to_owned(),
            detail: Some(hook_detail(&hook.end)),
            output: Some(output_name(session, &output)),
            ..pending_hook_row(session, hook.key)
        }
    });
    ended.chain(session.hooks.iter().map(|hook| pending_hook_row(session, hook.key))).collect()
}

/// Describes the command that prepares the worktree, if there is one.
pub(crate) fn setup_row(session: &Session) -> Option<SetupRow> {
    let command = session.spec.setup.clone()?;
    let (result, detail) = match &session.setup {
        SetupState::NotNeeded => return None,
        SetupState::Pending if session.attempt().is_decided() => ("not_run", None),
        SetupState::Pending => ("pending", None),
        SetupState::Done => ("ok", None),
        SetupState::Failed { reason } => ("failed", Some(reason.clone())),
    };
    let output = output_name(session, &session.setup_effect().key());
    Some(SetupRow { command, result: result.to_owned(), detail, output })
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
        result: "pending".to_owned(),
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

fn hook_result(end: &HookEnd) -> &'static str {
    match end {
        HookEnd::Exit(0) => "ok",
        HookEnd::Exit(_)
        | HookEnd::Signal(_)
        | HookEnd::TimeLimit
        | HookEnd::OutputLimit
        | HookEnd::NotStarted(_) => "failed",
        HookEnd::Uncertain(_) => "uncertain",
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
