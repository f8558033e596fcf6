use provost_api::{
    ActivityName, CheckRow, ClaimRow, Extensible, LaunchRow, ProcessName, QuestionRow, RequestRow,
    UsageRow,
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
    let long = "the whole long story of what was changed, and why it had to be changed like that";
    let claimed = SessionRow { claim_text: Some(long.to_owned()), ..session("chat", "working") };
    let named = session("a-name-that-somebody-thought-about", "working");
    let rows = vec![failed(), claimed, named];
    let lines = session_lines(Paint::OFF, Screen::with_columns(80), 61_000, rows.clone());
    assert!(lines.iter().all(|line| super::super::text::width(line) <= 80), "{lines:#?}");
    insta::assert_snapshot!(lines.join("\n"), @"
    ID        NAME         STATE                  AGENT    CHECKS  SINCE  NOTE
    deadbeef  fixer        failed (verification)  command  0/1     1m     late clai…
    deadbeef  chat         working                command  -       1m     the whole…
    deadbeef  a-name-tha…  working                command  -       1m
    ");
    let wide = session_lines(Paint::OFF, Screen::with_columns(200), 61_000, rows).join("\n");
    assert!(wide.contains(long), "a wide terminal shows all of it: {wide}");
}

#[test]
fn narrow_list_leaves_out_columns() {
    let long = "the whole long story of what was changed, and why";
    let claimed = SessionRow { claim_text: Some(long.to_owned()), ..session("chat", "working") };
    let rows = vec![failed(), claimed, session("a-name-that-somebody-thought-about", "idle")];
    insta::assert_snapshot!(session_lines(Paint::OFF, Screen::with_columns(60), 61_000, rows.clone()).join("\n"), @"
    ID        NAME       STATE                  SINCE  NOTE
    deadbeef  fixer      failed (verification)  1m     late cla…
    deadbeef  chat       working                1m     the whol…
    deadbeef  a-name-t…  idle                   1m
    ");
    // An id and the longest state with its cause are narrower than the smallest of these widths.
    for columns in 40..=200 {
        let lines = session_lines(Paint::OFF, Screen::with_columns(columns), 61_000, rows.clone());
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
