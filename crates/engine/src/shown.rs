//! Pieces of a session's row that tell more than the facts of the table do: what never ran, the setup, and hooks.

use provost_api::{HookRow, SetupRow};
use provost_core::{
    lifecycle::{Activity, Process},
    session::{Effect, End, EndedBy, HookEnd, HookKey, LaunchPhase, Session, SetupState},
};

use crate::shell::Home;

/// How a process is shown that never was, beside the words of the table.
const NOT_STARTED: &str = "not_started";

/// What the stream of such a process shows.
const NO_ACTIVITY: &str = "none";

/// How a process is shown that Provost ended by a signal. The table takes that for a clean exit.
const STOPPED: &str = "stopped";

/// Gives the word for the process. The table takes one that is yet to be started for alive, a start that failed for a bad
/// exit, and a death that Provost brought about for a clean one.
pub(crate) fn process(session: &Session) -> &'static str {
    match session.process() {
        _ if never_ran(session) => NOT_STARTED,
        Process::Exit0 if is_stopped(session) => STOPPED,
        found @ (Process::Alive | Process::Exit0 | Process::ExitN | Process::Unknown) => {
            found.word()
        }
    }
}

/// Whether Provost ended the process, and it did not exit with 0 by then.
pub(crate) fn is_stopped(session: &Session) -> bool {
    let phase = session.current_launch().map(|launch| &launch.phase);
    matches!(phase, Some(LaunchPhase::Ended { end, by: EndedBy::Provost, .. }) if *end != End::Exit(0))
}

/// What a stream shows that nobody reads.
const UNSEEN_ACTIVITY: &str = "unknown";

/// Gives the word for the activity.
pub(crate) fn activity(session: &Session) -> &'static str {
    match never_ran(session) {
        true => NO_ACTIVITY,
        false if is_unseen(session) => UNSEEN_ACTIVITY,
        false => session.activity().word(),
    }
}

/// Says whether the table takes an agent for idle only because nothing tells of its turns.
pub(crate) fn is_unseen(session: &Session) -> bool {
    session.turns_are_unseen() && session.activity() == Activity::Idle
}

/// Shows the hooks that have ended, in the order of their ends, then those that are owed or running.
pub(crate) fn hooks(session: &Session) -> Vec<HookRow> {
    let ended = session.hooks_ended.iter().map(|hook| {
        let output = Effect::RunHook(hook.key).key();
        HookRow {
            result: result(&hook.end).to_owned(),
            detail: Some(detail(&hook.end)),
            output: Some(Home::new("").held_name(session.id, &output).display().to_string()),
            ..owed(session, hook.key)
        }
    });
    ended.chain(session.hooks.iter().map(|hook| owed(session, hook.key))).collect()
}

/// Shows the command that prepares the worktree, if there is one.
pub(crate) fn setup(session: &Session) -> Option<SetupRow> {
    let command = session.spec.setup.clone()?;
    let (result, detail) = match &session.setup {
        SetupState::NotNeeded => return None,
        SetupState::Owed if session.attempt().is_decided() => ("not_run", None),
        SetupState::Owed => ("owed", None),
        SetupState::Done => ("ok", None),
        SetupState::Failed { reason } => ("failed", Some(reason.clone())),
    };
    let output = Home::new("").held_name(session.id, &session.setup_effect().key());
    let output = output.display().to_string();
    Some(SetupRow { command, result: result.to_owned(), detail, output })
}

/// Says whether the current attempt has had no process so far. One whose start is being called off may have one.
fn never_ran(session: &Session) -> bool {
    match session.current_launch() {
        None => true,
        Some(launch) => match launch.phase {
            LaunchPhase::Failed { .. } => true,
            LaunchPhase::Owed => launch.stop.is_none(),
            LaunchPhase::Running { .. }
            | LaunchPhase::Ended { .. }
            | LaunchPhase::Unobserved { .. } => false,
        },
    }
}

fn owed(session: &Session, key: HookKey) -> HookRow {
    let command = session.spec.hooks.get(&key.event).map(|spec| spec.argv.as_slice());
    HookRow {
        event: key.event.to_string(),
        occasion: key.no,
        command: command.map(shell_words).unwrap_or_default(),
        result: "owed".to_owned(),
        detail: None,
        output: None,
    }
}

/// Gives a command as it was written: a line for the shell, or its words.
fn shell_words(argv: &[String]) -> String {
    match argv {
        [shell, option, line] if shell == "sh" && option == "-c" => line.clone(),
        words => words.join(" "),
    }
}

fn result(end: &HookEnd) -> &'static str {
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

fn detail(end: &HookEnd) -> String {
    match end {
        HookEnd::Exit(code) => format!("exit {code}"),
        HookEnd::Signal(signal) => format!("signal {signal}"),
        HookEnd::TimeLimit => "ended at its time limit".to_owned(),
        HookEnd::OutputLimit => "ended at its output limit".to_owned(),
        HookEnd::NotStarted(why) => format!("could not be started: {why}"),
        HookEnd::Uncertain(why) => format!("nobody saw how it ended: {why}"),
    }
}
