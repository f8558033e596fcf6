//! Shows runs in a list, and in one sentence.

use provost_api::{CheckResultName, RunRow, RunStateName};

use super::{
    ColumnFit, Paint, Screen, Table, Tone, age,
    run_graph::merged_fraction,
    short_id,
    text::{clip, escape_line, join_lines},
};

/// The maximum width of a text on one line.
pub(super) const LINE_WIDTH: usize = 120;

/// The maximum width of a name if it is not limited by a terminal.
const NAME_WIDTH: usize = 32;

/// The columns of the list, and how each can be shortened in a narrow terminal.
const HEAD: [(&str, ColumnFit); 7] = [
    ("RUN", ColumnFit::Whole),
    ("NAME", ColumnFit::Start),
    ("STATE", ColumnFit::Whole),
    ("STAGE", ColumnFit::Whole),
    ("CHECKS", ColumnFit::Whole),
    ("SINCE", ColumnFit::Whole),
    ("GOAL", ColumnFit::Start),
];

/// The indentation of a plan in the detail view, in columns.
pub(super) const INDENT: usize = 2;

const OPTIONAL_COLUMNS: &[&str] = &["CHECKS", "SINCE", "GOAL", "NAME"];

/// Lists runs. Those that need the user come first, followed by active ones.
pub(crate) fn run_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    mut rows: Vec<RunRow>,
) -> Vec<String> {
    rows.sort_by_key(order);
    let at_most = |width: usize| screen.columns().unwrap_or(width);
    let mut table = Table::new(&HEAD).with_optional(OPTIONAL_COLUMNS);
    for row in &rows {
        let (tone, state) = describe_run_state(row);
        let passed =
            row.checks.iter().filter(|check| check.result == CheckResultName::Passed).count();
        let checks = match row.checks.len() {
            0 => "-".to_owned(),
            all => format!("{passed}/{all}"),
        };
        table.row([
            (Tone::Bold, short_id(&row.id)),
            (Tone::Plain, clip(&escape_line(&row.name), at_most(NAME_WIDTH))),
            (tone, state),
            (Tone::Plain, stage(row)),
            (if row.verified { Tone::Good } else { Tone::Plain }, checks),
            (Tone::Dim, age(now_ms, row.since)),
            (Tone::Plain, clip(&escape_line(&row.goal), at_most(LINE_WIDTH))),
        ]);
    }
    table.lines(paint, screen)
}

/// Returns the run that a list shows first.
pub(crate) fn first_run(rows: &[RunRow]) -> Option<&RunRow> {
    rows.iter().min_by_key(|row| order(row))
}

/// Returns the position of a run in a list.
fn order(row: &RunRow) -> (u8, std::cmp::Reverse<i64>) {
    (rank(row), std::cmp::Reverse(row.since))
}

fn rank(row: &RunRow) -> u8 {
    let asks = !row.requests.is_empty() || row.awaits_approval || is_interrupted(row);
    match (row.terminal, asks) {
        (false, true) => 0,
        (false, false) => 1,
        (true, _) if row.state == RunStateName::Failed => 2,
        (true, _) => 3,
    }
}

/// Whether one of the run's agents is waiting for the user after its turn was interrupted.
pub(crate) fn is_interrupted(row: &RunRow) -> bool {
    row.sessions.iter().any(|session| session.interrupted)
}

/// Describes a run's state and its cause, and returns the matching tone.
pub(crate) fn describe_run_state(row: &RunRow) -> (Tone, String) {
    let asks =
        !row.terminal && (row.requests.iter().any(|one| one.blocking) || is_interrupted(row));
    let tone = match row.state.known() {
        _ if asks || row.awaits_approval => Tone::Warn,
        Some(RunStateName::Succeeded | RunStateName::Completed) => Tone::Good,
        Some(RunStateName::Failed) => Tone::Bad,
        Some(RunStateName::Cancelled) => Tone::Dim,
        Some(RunStateName::Running | RunStateName::Stopping) | None => Tone::Live,
    };
    let state = match (asks, row.awaits_approval) {
        (true, _) => "needs input".to_owned(),
        (false, true) => "needs approval".to_owned(),
        (false, false) => spaced(&row.state),
    };
    let cause = row.cause.as_deref().map(|cause| format!(" ({})", spaced(cause)));
    (tone, state + &cause.unwrap_or_default())
}

/// Returns the stage. While tasks are being done, this includes how many are merged.
fn stage(row: &RunRow) -> String {
    let counts = if row.stage == "tasks" { row.tasks.as_ref() } else { None };
    let counts = counts.map(|counts| format!(" {}", merged_fraction(counts)));
    spaced(&row.stage) + &counts.unwrap_or_default()
}

/// Describes the status of a run in one line.
pub(crate) fn run_line(paint: Paint, row: &RunRow) -> String {
    let (tone, state) = describe_run_state(row);
    let stage = if row.terminal { String::new() } else { format!(", {}", stage(row)) };
    let detail = row.detail.as_deref().filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {}", clip(&join_lines(detail), LINE_WIDTH)));
    let state = paint.paint(tone, &state);
    format!(
        "{} {} {state}{stage}{}",
        short_id(&row.id),
        escape_line(&row.name),
        detail.unwrap_or_default()
    )
}

/// Explains a run's state in one sentence.
pub(crate) fn why_run_lines(paint: Paint, screen: Screen, row: &RunRow) -> Vec<String> {
    let (tone, state) = describe_run_state(row);
    let session = row.why_session.as_deref().map(|id| format!(" (session {})", short_id(id)));
    let why = format!("{}{}", join_lines(&row.why), session.unwrap_or_default());
    let verb = if state.starts_with("needs ") { "" } else { state_verb(row.state.known()) };
    let name = escape_line(&row.name);
    screen.wrap(&format!("{name} {verb}{}: {why}.", paint.paint(tone, &state)), 2)
}

/// Returns the verb that connects a name and a state in a sentence.
fn state_verb(state: Option<RunStateName>) -> &'static str {
    match state {
        Some(RunStateName::Succeeded | RunStateName::Completed | RunStateName::Failed) => "",
        Some(RunStateName::Cancelled) => "was ",
        Some(RunStateName::Running | RunStateName::Stopping) | None => "is ",
    }
}

/// Replaces underscores with spaces.
pub(super) fn spaced(word: &str) -> String {
    escape_line(&word.replace('_', " "))
}

#[cfg(test)]
pub(crate) mod tests {
    use provost_api::Extensible;

    use super::{
        super::run_detail::{RunExtras, describe_verification, run_detail, verifications_to_show},
        *,
    };
    use provost_api::{
        BudgetRow, CheckRow, CostRow, DecisionRow, FindingRow, LandingRow, MergeCheckKindName,
        MergeCheckStateName, QueueRow, RequestRow, RunGraphRow, RunSessionRow, RunVerificationRow,
        TaskCounts, TaskRow, UsageRow,
    };

    pub(crate) fn run(state: &str) -> RunRow {
        let session = RunSessionRow {
            id: "0199aa11-0000-7000-8000-0000deadbef0".to_owned(),
            stage: "work".to_owned(),
            task: None,
            cycle: 1,
            state: None,
            interrupted: false,
        };
        RunRow {
            id: "0199aa11-0000-7000-8000-0000deadbeef".to_owned(),
            name: "fixer".to_owned(),
            goal: "Fix\u{1b}[2J it.".to_owned(),
            project: "/src/my app".to_owned(),
            agent: "codex".to_owned(),
            preset: None,
            target: Some("main".to_owned()),
            base: "c0ffee".to_owned(),
            state: Extensible::from_name(state),
            why: String::new(),
            why_session: None,
            terminal: false,
            sealed: false,
            cause: None,
            detail: None,
            shortage: None,
            stage: "work".to_owned(),
            attempt: 1,
            sessions: vec![session],
            verifications: Vec::new(),
            requests: Vec::new(),
            decisions: Vec::new(),
            findings: Vec::new(),
            understanding: None,
            tasks: None,
            awaits_approval: false,
            approval: None,
            checks: Vec::new(),
            tree: None,
            commit: None,
            verified: false,
            landing: LandingRow {
                mode: "branch".to_owned(),
                done: false,
                branch: None,
                ..LandingRow::default()
            },
            usage: UsageRow::default(),
            cost: None,
            turns: 0,
            budget: BudgetRow::default(),
            origin: None,
            warnings: Vec::new(),
            opened_at: 0,
            since: 1_000,
            sealed_at: None,
        }
    }

    #[test]
    fn newest_and_failed_merge_checks_are_shown() {
        let one = |no: u32, state: MergeCheckStateName| {
            let check = CheckRow {
                result: Extensible::from_name("failed"),
                detail: Some("exit 1".to_owned()),
                ..proved().checks[0].clone()
            };
            RunVerificationRow {
                no,
                kind: MergeCheckKindName::Batch.into(),
                batch: Some(no + 1),
                step: None,
                state: state.into(),
                commit: String::new(),
                tree: String::new(),
                checks: if state == MergeCheckStateName::Passed { Vec::new() } else { vec![check] },
            }
        };
        let states = [MergeCheckStateName::Passed, MergeCheckStateName::Failed];
        let rows = (1..).zip(states.into_iter().cycle().take(5));
        let row = RunRow {
            verifications: rows.map(|(no, state)| one(no, state)).collect(),
            ..run("running")
        };
        let shown: Vec<String> =
            verifications_to_show(&row).map(|one| describe_verification(one).1).collect();
        let expected = [
            "2 of batch 3: failed, make test: exit 1",
            "4 of batch 5: failed, make test: exit 1",
            "5 of batch 6: passed",
        ];
        assert_eq!(shown, expected);
    }

    fn proved() -> RunRow {
        let check = CheckRow {
            by: None,
            command: "make test".to_owned(),
            result: Extensible::from_name("passed"),
            detail: Some("exit 0".to_owned()),
            tree: Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned()),
            duration_ms: Some(61_000),
            output_digest: None,
            output: None,
            warm: None,
            environment: None,
            base_files: Vec::new(),
            checked_tree: None,
        };
        let finding = FindingRow {
            stage: "task_review".to_owned(),
            task: None,
            cycle: 1,
            title: "No newline".to_owned(),
            detail: String::new(),
            severity: "low".to_owned(),
            file: Some("a.rs".to_owned()),
            line: Some(3),
            open: true,
        };
        let decision = DecisionRow {
            id: "colour".to_owned(),
            question: "Which colour?".to_owned(),
            answer: Some(vec!["Blue".to_owned()]),
        };
        RunRow {
            terminal: true,
            sealed: true,
            stage: "land".to_owned(),
            decisions: vec![decision],
            findings: vec![finding],
            checks: vec![check],
            commit: Some("a836f17cde28ba966e4aab541970509cc792444e".to_owned()),
            verified: true,
            landing: LandingRow {
                mode: "branch".to_owned(),
                done: true,
                branch: Some("provost/deadbeef-fix".to_owned()),
                ..LandingRow::default()
            },
            usage: UsageRow { input: 100, output: 10 },
            cost: Some(CostRow { currency: "USD".to_owned(), amount: "0.000225".to_owned() }),
            ..run("succeeded")
        }
    }

    #[test]
    fn detail_shows_goal_proof_and_open_findings() {
        let heard = RunExtras { heard: Some(1_000), graph: None };
        let shown = run_detail(Paint::OFF, Screen::UNLIMITED, 61_000, &proved(), heard);
        insta::assert_snapshot!(shown.join("\n"), @"
        fixer · run 0199aa11-0000-7000-8000-0000deadbeef
          state     succeeded, sealed · for 1m
          stage     land
          goal      Fix␛[2J it.
          session   deadbef0 work: working
          decided   Which colour? → Blue
          check 1   passed `make test` (exit 0, 1m1s, tree 4b825dc642cb)
          finding   open, low: No newline (a.rs:3)
          commit    a836f17cde28, every check passed on its tree
          landed    on branch provost/deadbeef-fix
          tokens    100 in, 10 out
          cost      less than 0.01 USD
        ");
    }

    #[test]
    fn runs_with_requests_come_first() {
        let request = RequestRow {
            id: "0199aa11-0000-7000-8000-0000deadbef0.q1".to_owned(),
            revision: 1,
            kind: Extensible::from_name("question"),
            blocking: true,
            title: "Which colour?".to_owned(),
            questions: Vec::new(),
            subject: None,
            asked_at: 1_000,
            commands: Vec::new(),
        };
        let asking = RunRow { requests: vec![request], ..run("running") };
        let rows = vec![proved(), run("running"), asking];
        insta::assert_snapshot!(run_lines(Paint::OFF, Screen::UNLIMITED, 61_000, rows).join("\n"), @"
        RUN       NAME   STATE        STAGE  CHECKS  SINCE  GOAL
        deadbeef  fixer  needs input  work   -       1m     Fix␛[2J it.
        deadbeef  fixer  running      work   -       1m     Fix␛[2J it.
        deadbeef  fixer  succeeded    land   1/1     1m     Fix␛[2J it.
        ");
    }

    fn task(id: &str, after: &[&str], state: &str) -> TaskRow {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        TaskRow {
            id: id.to_owned(),
            title: format!("Make {id}\u{1b}[2J"),
            instruction: String::new(),
            after: list(after),
            criteria: Vec::new(),
            checks: Vec::new(),
            scope: Vec::new(),
            state: state.to_owned(),
            detail: None,
            session: None,
            usage: UsageRow::default(),
            returns: 0,
            retries: 0,
            commit: None,
        }
    }

    fn planned() -> (RunRow, RunGraphRow) {
        let counts = TaskCounts { all: 4, waiting: 1, working: 1, queued: 1, merged: 1, failed: 0 };
        let left = TaskRow {
            session: Some("0199aa11-0000-7000-8000-0000deadbef1".to_owned()),
            usage: UsageRow { input: 100, output: 20 },
            returns: 2,
            detail: Some("fixes a conflict in a.txt".to_owned()),
            ..task("left", &["top"], "working")
        };
        let queue = QueueRow {
            batch: vec!["right".to_owned()],
            waiting: Vec::new(),
            batches: 2,
            checks: 1,
        };
        let graph = RunGraphRow {
            run: "0199aa11-0000-7000-8000-0000deadbeef".to_owned(),
            name: "fixer".to_owned(),
            state: Extensible::from_name("running"),
            tasks: vec![
                task("top", &[], "merged"),
                left,
                task("right", &["top"], "queued"),
                task("bottom", &["left", "right"], "waiting"),
            ],
            queue,
        };
        let row = RunRow { stage: "tasks".to_owned(), tasks: Some(counts), ..run("running") };
        (row, graph)
    }

    #[test]
    fn detail_shows_graph_and_queue() {
        let (row, graph) = planned();
        let beside = RunExtras { graph: Some(&graph), heard: None };
        let shown = run_detail(Paint::OFF, Screen::with_columns(80), 61_000, &row, beside);
        insta::assert_snapshot!(shown.join("\n"), @"
        fixer · run 0199aa11-0000-7000-8000-0000deadbeef
          state     running · for 1m
          stage     tasks
          goal      Fix␛[2J it.
          tasks     1 of 4 merged, 1 in progress, 1 queued, 1 waiting
               TASK    STATE    TITLE            NOTE
          ╭✓   top     merged   Make top␛[2J
          ├─┬● left    working  Make left␛[2J    deadbef1, fixes a conflict in a.txt, 1…
          ├●│  right   queued   Make right␛[2J
          ╰○╯  bottom  waiting  Make bottom␛[2J
          queue     checking right · 2 batches and 1 check so far
          session   deadbef0 work: working
          lands     as branch, from main
        ");
        assert_eq!(run_line(Paint::OFF, &row), "deadbeef fixer running, tasks 1/4");
    }

    #[test]
    fn message_of_git_keeps_its_lines() {
        let message =
            "cannot merge: error: would be overwritten:\n\ta.txt\n\tb\u{1b}[2J\nAborting\n";
        let row = RunRow {
            state: Extensible::from_name("failed"),
            terminal: true,
            detail: Some(message.to_owned()),
            ..proved()
        };
        let line = run_line(Paint::OFF, &row);
        assert!(line.ends_with("would be overwritten: a.txt b␛[2J Aborting"), "{line}");
        let shown =
            run_detail(Paint::OFF, Screen::with_columns(80), 61_000, &row, RunExtras::default());
        let reason = shown.iter().position(|line| line.contains("reason")).unwrap();
        insta::assert_snapshot!(shown[reason..reason + 4].join("\n"), @"
          reason    cannot merge: error: would be overwritten:
                      a.txt
                      b␛[2J
                    Aborting
        ");
    }

    #[test]
    fn pending_plan_approval_shows_its_commands() {
        let (row, _) = planned();
        let row = RunRow { stage: "plan_review".to_owned(), awaits_approval: true, ..row };
        let shown =
            run_detail(Paint::OFF, Screen::with_columns(80), 61_000, &row, RunExtras::default());
        insta::assert_snapshot!(shown.join("\n"), @"
        fixer · run 0199aa11-0000-7000-8000-0000deadbeef
          state     needs approval · for 1m
          stage     plan review
          goal      Fix␛[2J it.
          request   approval: start work on this plan
                    provost graph deadbeef
                    provost approve deadbeef
                    provost deny deadbeef --because TEXT
          session   deadbef0 work: working
          lands     as branch, from main
        ");
    }
}
