//! The list of sessions. Those that need the user come first, followed by those with problems, other
//! live sessions, and finished ones.

use provost_api::{
    CheckResultName, ExitRow, LaunchPhaseName, SessionRow, SetupResultName, ShortageRow,
    VerificationName,
};
use provost_core::{
    ids::SHORT_LEN,
    lifecycle::{Cause, Flag, State},
    session::StopStep,
    shortage::Resource,
};

use super::{
    ColumnFit, Paint, Screen, Table, Tone, age, expand_durations,
    text::{clip, escape_line, join_lines},
};

/// The maximum width of a name if it is not limited by a terminal.
const NAME_WIDTH: usize = 32;

/// The maximum width of a note if it is not limited by a terminal.
const NOTE_WIDTH: usize = 60;

/// The columns of the list, and how each can be shortened in a narrow terminal.
const HEAD: [(&str, ColumnFit); 7] = [
    ("ID", ColumnFit::Whole),
    ("NAME", ColumnFit::Start),
    ("STATE", ColumnFit::Whole),
    ("AGENT", ColumnFit::Start),
    ("CHECKS", ColumnFit::Whole),
    ("SINCE", ColumnFit::Whole),
    ("NOTE", ColumnFit::Start),
];

/// Columns to leave out in a narrow terminal, in this order. The id and the state are never left out.
const OPTIONAL_COLUMNS: &[&str] = &["AGENT", "CHECKS", "SINCE", "NOTE", "NAME"];

/// Returns the short form of an id, which consists of the last digits of the id. The last digits are random, but the
/// first digits contain the time, so they are the same for all recent ids.
pub(crate) fn short_id(id: &str) -> String {
    let digits: Vec<char> = id.chars().collect();
    escape_line(&digits[digits.len().saturating_sub(SHORT_LEN)..].iter().collect::<String>())
}

/// Lists sessions by rank. Within a rank, those whose state changed most recently come first.
pub(crate) fn session_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    mut rows: Vec<SessionRow>,
) -> Vec<String> {
    rows.sort_by_key(order);
    // The terminal already limits the width of the table, so a cell can use the full width.
    let max_width = |width: usize| screen.columns().unwrap_or(width);
    let mut table = Table::new(&HEAD).with_optional(OPTIONAL_COLUMNS);
    for row in &rows {
        let (tone, state) = describe_state(row);
        table.row([
            (Tone::Bold, short_id(&row.id)),
            (Tone::Plain, clip(&escape_line(&row.name), max_width(NAME_WIDTH))),
            (tone, state),
            (Tone::Plain, clip(&escape_line(&row.agent), max_width(NAME_WIDTH))),
            checks_cell(row),
            (Tone::Dim, age(now_ms, row.since)),
            (Tone::Plain, clip(&note(row), max_width(NOTE_WIDTH))),
        ]);
    }
    table.lines(paint, screen)
}

/// Returns the session that a list shows first.
pub(crate) fn first_session(rows: &[SessionRow]) -> Option<&SessionRow> {
    rows.iter().min_by_key(|row| order(row))
}

/// Returns the position of a session in a list.
fn order(row: &SessionRow) -> (u8, std::cmp::Reverse<i64>) {
    (rank(row), std::cmp::Reverse(row.since))
}

/// Describes each resource that the machine is short of on one line.
pub(crate) fn shortage_lines(paint: Paint, shortages: &[ShortageRow]) -> Vec<String> {
    let line = |shortage: &ShortageRow| {
        let waiting = match shortage.waiting {
            0 => String::new(),
            waiting => format!(" ({waiting} waiting)"),
        };
        let detail = escape_line(&shortage.detail);
        if shortage.resource == Resource::Git.as_str() {
            return format!("{}  {detail}{waiting}", paint.paint(Tone::Warn, "waiting for git"));
        }
        let name = escape_line(&shortage.resource.replace('_', " "));
        let label = paint.paint(Tone::Warn, &format!("short of {name}"));
        format!("{label}  {detail}{waiting}")
    };
    shortages.iter().map(line).collect()
}

/// Describes a state and its cause, and returns the matching tone.
pub(crate) fn describe_state(row: &SessionRow) -> (Tone, String) {
    let words = if has_unseen_turns(row) {
        "running, turns not visible".to_owned()
    } else if is_interrupted(row) {
        "interrupted".to_owned()
    } else if is_exit_unrecorded(row) {
        "ended, not recorded yet".to_owned()
    } else if row.state == State::Working && row.has_flag(Flag::Starting) {
        "starting".to_owned()
    } else {
        escape_line(&row.state.replace('_', " "))
    };
    let words = match &row.cause {
        Some(cause) => format!("{words} ({})", escape_line(&cause.replace('_', " "))),
        None => words,
    };
    let stopping = !row.terminal && row.has_flag(Flag::Stopping);
    let tone = if is_interrupted(row) || is_exit_unrecorded(row) {
        Tone::Warn
    } else {
        tone(row.state.known())
    };
    (tone, if stopping { format!("{words}, stopping") } else { words })
}

/// Whether the turns of a running session cannot be observed. According to its facts, the session
/// is idle.
pub(crate) fn has_unseen_turns(row: &SessionRow) -> bool {
    row.state == State::Idle && row.has_flag(Flag::TurnsUnobservable)
}

/// Returns why a session's work is not on its branch, if it could not be committed.
pub(crate) fn uncommitted_work(row: &SessionRow) -> Option<&str> {
    if !row.has_flag(Flag::NotCommitted) || row.resolution.is_some() {
        return None;
    }
    row.warnings.iter().find(|warning| warning.starts_with("not committed")).map(String::as_str)
}

/// Whether a session's process has exited, but this cannot be written to the ledger at the moment.
pub(crate) fn is_exit_unrecorded(row: &SessionRow) -> bool {
    !row.terminal && row.has_flag(Flag::ExitUnrecorded)
}

/// Whether a session is waiting for the user's next message because its turn was interrupted.
pub(crate) fn is_interrupted(row: &SessionRow) -> bool {
    row.state == State::Idle && row.has_flag(Flag::Interrupted)
}

/// Whether a session is waiting for the user.
pub(crate) fn awaits_user(row: &SessionRow) -> bool {
    row.state == State::NeedsInput || is_interrupted(row)
}

/// Returns a process of a finished session that is still running. Processes of external agents don't count.
pub(crate) fn leftover_pid(row: &SessionRow) -> Option<i32> {
    if !row.terminal || row.has_flag(Flag::Adopted) {
        return None;
    }
    let launch = row.launches.last()?;
    if launch.phase == LaunchPhaseName::Running { launch.pid } else { None }
}

/// Describes a session's outcome and how its process ended, in one line.
pub(crate) fn outcome_line(paint: Paint, row: &SessionRow) -> String {
    let (tone, words) = describe_state(row);
    let exit =
        row.exit.as_ref().map(|exit| format!(", {}", describe_exit(exit))).unwrap_or_default();
    format!("{} {} {}{exit}", short_id(&row.id), escape_line(&row.name), paint.paint(tone, &words))
}

/// Describes what a session is currently doing, in one line, for a command that is waiting for it.
pub(crate) fn progress_line(paint: Paint, row: &SessionRow) -> String {
    let (tone, words) = describe_state(row);
    let setup = row
        .setup
        .as_ref()
        .filter(|setup| setup.result == SetupResultName::Pending && !row.terminal);
    let check = row.checks.iter().position(|check| check.result == CheckResultName::Pending);
    let at = match (setup, check) {
        (Some(setup), _) => format!(": setup `{}`", clip(&escape_line(&setup.command), NOTE_WIDTH)),
        (None, Some(at)) if row.state == State::Verifying => {
            let command = clip(&escape_line(&row.checks[at].command), NOTE_WIDTH);
            format!(": check {} of {} `{command}`", at + 1, row.checks.len())
        }
        (None, _) if row.terminal && !row.sealed => ", settling".to_owned(),
        (None, _) => String::new(),
    };
    format!("{} {} {}{at}", short_id(&row.id), escape_line(&row.name), paint.paint(tone, &words))
}

/// Returns the reason for a state. If Provost wrote the reason after a timeout, its milliseconds
/// are replaced with readable durations. Texts of users and agents stay unchanged.
pub(crate) fn reason(row: &SessionRow) -> Option<String> {
    let is_provosts = row.cause == Some(Cause::Timeout.into()) && row.resolution.is_none();
    let show = |text: &str| if is_provosts { expand_durations(text) } else { text.to_owned() };
    row.reason.as_deref().map(show)
}

/// Describes how a process ended, and whether Provost stopped it.
pub(crate) fn describe_exit(exit: &ExitRow) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    if exit.by == "provost" { format!("ended by Provost ({how})") } else { how }
}

/// Returns the tone of a state. An unknown state counts as live.
fn tone(state: Option<State>) -> Tone {
    match state {
        Some(State::Succeeded | State::Completed | State::Accepted) => Tone::Good,
        Some(State::Failed | State::Disputed) => Tone::Bad,
        Some(
            State::NeedsInput
            | State::Stalled
            | State::Lost
            | State::Rework
            | State::ExitedWithoutClaim,
        ) => Tone::Warn,
        Some(State::Cancelled | State::Superseded | State::Stopped) => Tone::Dim,
        Some(State::Working | State::Idle | State::Finishing | State::Verifying) | None => {
            Tone::Live
        }
    }
}

/// Flags that mark a session as having a problem, regardless of its state.
const PROBLEM_FLAGS: [Flag; 4] =
    [Flag::OutputLimit, Flag::DiskFull, Flag::Shortage, Flag::ProcessesMayRemain];

/// Returns the position of a session in the list: 0 if it needs the user, 1 if it has a problem, 2
/// if it is live, and 3 if it has finished.
fn rank(row: &SessionRow) -> u8 {
    let has_problem = PROBLEM_FLAGS.iter().any(|flag| row.has_flag(*flag));
    let went_wrong = matches!(
        row.state.known(),
        Some(
            State::Failed
                | State::Disputed
                | State::ExitedWithoutClaim
                | State::Stalled
                | State::Lost
        )
    );
    if awaits_user(row) {
        0
    } else if went_wrong || has_problem {
        1
    } else if row.terminal {
        3
    } else {
        2
    }
}

/// Describes the pid of a process that Provost failed to stop, if there is one.
fn describe_unstoppable_pid(row: &SessionRow) -> Option<String> {
    let launch = row.launches.last().filter(|launch| launch.may_be_running())?;
    let pid = launch.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    (launch.stop.as_deref() == Some(StopStep::GivenUp.as_str())).then_some(pid)
}

fn checks_cell(row: &SessionRow) -> (Tone, String) {
    if row.checks.is_empty() {
        return (Tone::Dim, "-".to_owned());
    }
    let passed = row.checks.iter().filter(|check| check.result == CheckResultName::Passed).count();
    let tone = match row.verification.known() {
        Some(VerificationName::Passed) => Tone::Good,
        Some(VerificationName::Failed) => Tone::Bad,
        Some(VerificationName::None) | None => Tone::Plain,
    };
    (tone, format!("{passed}/{}", row.checks.len()))
}

/// Returns the most important information about a session.
fn note(row: &SessionRow) -> String {
    if !row.terminal
        && let Some(request) = row.requests.first()
    {
        return escape_line(&format!("{}: {}", request.kind, request.title));
    }
    if let Some(pid) = describe_unstoppable_pid(row) {
        return format!("could not be stopped, still alive: pid {pid}");
    }
    if let Some(limited) = &row.limited {
        return escape_line(&format!("limited: {}", limited.detail));
    }
    if let Some(why) = &row.retrying {
        return escape_line(&format!("retrying: {why}"));
    }
    if let Some(shortage) = &row.shortage {
        return escape_line(&format!("waiting: {}", shortage.detail));
    }
    if row.has_flag(Flag::OutputLimit) {
        return format!("output limit reached: provost limit {} --output SIZE", short_id(&row.id));
    }
    if let Some(warning) = uncommitted_work(row) {
        return join_lines(warning);
    }
    if leftover_pid(row).is_none()
        && row.resolution.is_none()
        && let Some(late) = row.late_claims.last()
    {
        return escape_line(&format!("late claim: {}", late.claim));
    }
    let progress = if row.terminal { None } else { row.progress.as_ref() };
    let progress = progress.map(|progress| format!("{}/{}", progress.done, progress.total));
    let crashed = row.cause == Some(Cause::Crash.into());
    let crash = if crashed { row.exit.as_ref().map(describe_exit) } else { None };
    let claim = || row.claim_text.as_deref().map(escape_line);
    let text = reason(row).or(crash).map(|text| join_lines(&text)).or_else(claim);
    let note = [progress, text].into_iter().flatten().collect::<Vec<_>>().join(" ");
    match leftover_pid(row) {
        Some(pid) if note.is_empty() => format!("process still alive, pid {pid}"),
        Some(pid) => format!("process still alive, pid {pid} · {note}"),
        None => note,
    }
}

#[cfg(test)]
pub(crate) mod tests;
