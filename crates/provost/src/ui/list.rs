//! The list of sessions. Those that need the user come first, followed by those with problems, other
//! live sessions, and finished ones.

use provost_api::{
    CheckResultName, ExitRow, LaunchPhaseName, SessionRow, SetupResultName, ShortageRow,
    VerificationName,
};
use provost_core::{
    ids::SHORT_LEN,
    lifecycle::{Cause, Flag, State},
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
    let tone =
        if is_interrupted(row) || is_exit_unrecorded(row) { Tone::Warn } else { tone(&row.state) };
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

fn tone(state: &str) -> Tone {
    match state {
        "succeeded" | "completed" | "accepted" => Tone::Good,
        "failed" | "disputed" => Tone::Bad,
        "needs_input" | "stalled" | "lost" | "rework" | "exited_without_claim" => Tone::Warn,
        "cancelled" | "superseded" | "stopped" => Tone::Dim,
        _ => Tone::Live,
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
    (launch.stop.as_deref() == Some("given_up")).then_some(pid)
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
pub(crate) mod tests {
    use provost_api::{
        ActivityName, CheckRow, ClaimRow, Extensible, LaunchRow, ProcessName, QuestionRow,
        RequestRow, UsageRow,
    };

    use provost_core::{lifecycle::ClaimKind, session::AgentMode};

    use super::*;

    pub(crate) fn session(name: &str, state: &str) -> SessionRow {
        SessionRow {
            id: "0199aa11-0000-7000-8000-0000deadbeef".to_owned(),
            name: name.to_owned(),
            role: None,
            run: None,
            project: Some("/src/app".to_owned()),
            cwd: "/src/app".to_owned(),
            agent: "command".to_owned(),
            adapter: "command".to_owned(),
            mode: AgentMode::Headless.into(),
            has_conversation: false,
            can_resume: false,
            can_attach: false,
            argv: vec!["make".to_owned(), "all".to_owned()],
            version: None,
            state: Extensible::from_name(state),
            terminal: false,
            sealed: false,
            cause: None,
            flags: Vec::new(),
            rule: "L10".to_owned(),
            claim: ClaimKind::None.into(),
            claimed_at: None,
            claim_source: None,
            claim_text: None,
            process: ProcessName::Alive.into(),
            exit: None,
            activity: ActivityName::Active.into(),
            verification: VerificationName::None.into(),
            checks: Vec::new(),
            tree: None,
            commit: None,
            requests: Vec::new(),
            communication: None,
            thread: None,
            late_claims: Vec::new(),
            progress: None,
            usage: UsageRow::default(),
            context: None,
            turns: 0,
            budget: Default::default(),
            limited: None,
            retrying: None,
            shortage: None,
            screen: None,
            attempt: 1,
            instruction: None,
            setup: None,
            launches: vec![LaunchRow {
                id: "0199aa11-0000-7000-8000-0000deadbeef.l1".to_owned(),
                phase: Extensible::from_name("running"),
                pid: Some(42),
                attempt: 1,
                stop: None,
                leftovers: None,
            }],
            messages: Vec::new(),
            facts: Vec::new(),
            hooks: Vec::new(),
            warnings: Vec::new(),
            resolution: None,
            reason: None,
            worktree: None,
            opened_at: 0,
            since: 1_000,
            last_activity_at: None,
            sealed_at: None,
        }
    }

    pub(crate) fn asking() -> SessionRow {
        let question = QuestionRow {
            id: "q".to_owned(),
            header: "Colour".to_owned(),
            question: "Which\u{1b}[31m colour?".to_owned(),
            options: vec!["red".to_owned(), "blue".to_owned()],
            descriptions: Vec::new(),
            only_options: false,
            secret: false,
        };
        let request = RequestRow {
            id: "0199aa11-0000-7000-8000-0000deadbeef.q1".to_owned(),
            revision: 2,
            kind: Extensible::from_name("question"),
            blocking: true,
            title: "a colour".to_owned(),
            questions: vec![question],
            subject: None,
            asked_at: 1_000,
            commands: Vec::new(),
        };
        SessionRow { requests: vec![request], ..session("painter", "needs_input") }
    }

    /// Returns a finished session whose process has exited.
    fn ended(name: &str, state: &str) -> SessionRow {
        let mut row = SessionRow { terminal: true, ..session(name, state) };
        row.launches[0].phase = Extensible::from_name("ended");
        row
    }

    pub(crate) fn failed() -> SessionRow {
        let check = CheckRow {
            by: None,
            command: "cargo test".to_owned(),
            result: Extensible::from_name("failed"),
            detail: Some("exit 101".to_owned()),
            tree: Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned()),
            duration_ms: Some(61_000),
            output_digest: Some("d1".to_owned()),
            output: Some("checks/k".to_owned()),
            warm: Some(true),
            environment: None,
            base_files: Vec::new(),
            checked_tree: None,
        };
        let late = ClaimRow {
            claim: ClaimKind::Completed.into(),
            source: "agent".to_owned(),
            text: Some("but I did it".to_owned()),
            at: 9_000,
        };
        SessionRow {
            terminal: true,
            sealed: true,
            cause: Some(Extensible::from_name("verification")),
            flags: vec![Extensible::from_name("checks_failed")],
            rule: "X2".to_owned(),
            claim: ClaimKind::Completed.into(),
            claimed_at: Some(2_000),
            claim_source: Some("agent".to_owned()),
            claim_text: Some("all\ndone".to_owned()),
            process: Extensible::from_name("exit0"),
            exit: Some(ExitRow { code: Some(0), signal: None, by: "itself".to_owned() }),
            activity: ActivityName::Exited.into(),
            verification: Extensible::from_name("failed"),
            checks: vec![check],
            late_claims: vec![late],
            sealed_at: Some(5_000),
            ..ended("fixer", "failed")
        }
    }

    #[test]
    fn list_puts_problems_first_and_escapes_text() {
        let hostile = session("evil\u{1b}]0;x\u{7}\u{202e}", "working");
        let done = ended("done", "completed");
        let rows = vec![done, hostile, failed(), asking()];
        insta::assert_snapshot!(session_lines(Paint::OFF, Screen::UNLIMITED, 61_000, rows).join("\n"), @"
        ID        NAME                STATE                  AGENT    CHECKS  SINCE  NOTE
        deadbeef  painter             needs input            command  -       1m     question: a colour
        deadbeef  fixer               failed (verification)  command  0/1     1m     late claim: completed
        deadbeef  evil␛]0;x␇<U+202E>  working                command  -       1m
        deadbeef  done                completed              command  -       1m
        ");
    }

    #[test]
    fn note_joins_lines_of_reasons_but_not_of_claims() {
        let text = Some("error: a\n\tb\u{1b}[2J".to_owned());
        let because = SessionRow { reason: text.clone(), ..session("a", "failed") };
        assert_eq!(note(&because), "error: a b␛[2J");
        let claimed = SessionRow { claim_text: text, ..session("a", "working") };
        assert_eq!(note(&claimed), "error: a␊␉b␛[2J");
        let warnings = vec!["not committed: error: a\nb".to_owned()];
        let uncommitted = SessionRow { warnings, ..ended("a", "completed") };
        let uncommitted = SessionRow { flags: vec![Flag::NotCommitted.into()], ..uncommitted };
        assert_eq!(note(&uncommitted), "not committed: error: a b");
    }

    #[test]
    fn list_fits_the_terminal() {
        let long =
            "the whole long story of what was changed, and why it had to be changed like that";
        let claimed =
            SessionRow { claim_text: Some(long.to_owned()), ..session("told", "working") };
        let named = session("a-name-that-somebody-thought-about", "working");
        let rows = vec![failed(), claimed, named];
        let lines = session_lines(Paint::OFF, Screen::with_columns(80), 61_000, rows.clone());
        assert!(lines.iter().all(|line| super::super::text::width(line) <= 80), "{lines:#?}");
        insta::assert_snapshot!(lines.join("\n"), @"
        ID        NAME         STATE                  AGENT    CHECKS  SINCE  NOTE
        deadbeef  fixer        failed (verification)  command  0/1     1m     late clai…
        deadbeef  told         working                command  -       1m     the whole…
        deadbeef  a-name-tha…  working                command  -       1m
        ");
        let wide = session_lines(Paint::OFF, Screen::with_columns(200), 61_000, rows).join("\n");
        assert!(wide.contains(long), "a wide terminal shows all of it: {wide}");
    }

    #[test]
    fn narrow_list_leaves_out_columns() {
        let long = "the whole long story of what was changed, and why";
        let claimed =
            SessionRow { claim_text: Some(long.to_owned()), ..session("told", "working") };
        let rows = vec![failed(), claimed, session("a-name-that-somebody-thought-about", "idle")];
        insta::assert_snapshot!(session_lines(Paint::OFF, Screen::with_columns(60), 61_000, rows.clone()).join("\n"), @"
        ID        NAME       STATE                  SINCE  NOTE
        deadbeef  fixer      failed (verification)  1m     late cla…
        deadbeef  told       working                1m     the whol…
        deadbeef  a-name-t…  idle                   1m
        ");
        // An id and the longest state with its cause are narrower than the smallest of these widths.
        for columns in 40..=200 {
            let lines =
                session_lines(Paint::OFF, Screen::with_columns(columns), 61_000, rows.clone());
            let fits = lines.iter().all(|line| super::super::text::width(line) <= columns);
            assert!(fits, "{columns}: {lines:#?}");
            assert!(lines[1].contains("deadbeef") && lines[1].contains("failed (verification)"));
        }
    }

    #[test]
    fn unstoppable_process_is_noted_while_it_may_run() {
        let mut row = SessionRow { terminal: true, sealed: true, ..session("x", "cancelled") };
        row.flags = vec![Extensible::from_name("processes_may_remain")];
        row.launches[0].stop = Some("given_up".to_owned());
        assert_eq!(note(&row), "could not be stopped, still alive: pid 42");
        assert_eq!(rank(&row), 1, "the user must see it");
        row.launches[0].phase = Extensible::from_name("ended");
        assert_eq!(note(&row), "");
    }

    #[test]
    fn full_disk_does_not_suggest_a_limit() {
        let full = "the disk of /h is full: free some space and it resumes by itself";
        let row = SessionRow {
            flags: vec![Extensible::from_name("disk_full")],
            reason: Some(full.to_owned()),
            ..session("x", "working")
        };
        assert_eq!((note(&row), rank(&row)), (full.to_owned(), 1));
    }

    #[test]
    fn crash_note_shows_the_exit() {
        let exit = ExitRow { code: Some(3), signal: None, by: "itself".to_owned() };
        let crashed = SessionRow {
            cause: Some(Extensible::from_name("crash")),
            exit: Some(exit),
            claim_text: Some("going well".to_owned()),
            ..session("x", "failed")
        };
        assert_eq!(note(&crashed), "exit 3");
    }

    #[test]
    fn wait_shows_progress_and_outcome() {
        let exit = ExitRow { code: Some(4), signal: None, by: "itself".to_owned() };
        let crashed = SessionRow {
            cause: Some(Extensible::from_name("crash")),
            exit: Some(exit),
            terminal: true,
            ..session("vis2", "failed")
        };
        assert_eq!(outcome_line(Paint::OFF, &crashed), "deadbeef vis2 failed (crash), exit 4");
        assert_eq!(progress_line(Paint::OFF, &crashed), "deadbeef vis2 failed (crash), settling");
        let mut verifying = SessionRow { terminal: false, ..failed() };
        (verifying.state, verifying.cause) = (State::Verifying.into(), None);
        let pending =
            CheckRow { result: Extensible::from_name("pending"), ..verifying.checks[0].clone() };
        verifying.checks.push(pending);
        let words = "deadbeef fixer verifying: check 2 of 2 `cargo test`";
        assert_eq!(progress_line(Paint::OFF, &verifying), words);
        let setup = provost_api::SetupRow {
            command: "make\tdeps".to_owned(),
            result: Extensible::from_name("pending"),
            detail: None,
            output: "checks/x".to_owned(),
        };
        let starting = SessionRow { setup: Some(setup), ..session("x", "starting") };
        assert_eq!(progress_line(Paint::OFF, &starting), "deadbeef x starting: setup `make␉deps`");
    }

    #[test]
    fn only_time_limit_reasons_are_expanded() {
        let text = "the time limit of 600000 ms was reached";
        let timed = SessionRow {
            cause: Some(Extensible::from_name("timeout")),
            reason: Some(text.to_owned()),
            ..session("slow", "failed")
        };
        assert_eq!(reason(&timed).unwrap(), "the time limit of 10 min was reached");
        let reported = SessionRow { cause: None, ..timed };
        assert_eq!(reason(&reported).unwrap(), text);
    }
}
