//! Runs for people: one as a card, several as a list, and what happens to one as it happens.

use provost_api::{EventRow, FindingRow, RunRow, RunSessionRow};
use serde_json::Value;

use super::{
    Fit, Paint, Screen, Table, Tone, age, ago,
    card::Card,
    short,
    text::{clean, clip},
};

/// The columns that a text may take on one line.
const LINE_WIDTH: usize = 120;

/// The columns that a name may take where no terminal bounds them.
const NAME_WIDTH: usize = 32;

/// What is said of each run, and what of it a narrow terminal may shorten.
const HEAD: [(&str, Fit); 7] = [
    ("RUN", Fit::Whole),
    ("NAME", Fit::Start),
    ("STATE", Fit::Whole),
    ("STAGE", Fit::Whole),
    ("CHECKS", Fit::Whole),
    ("AGE", Fit::Whole),
    ("GOAL", Fit::Start),
];

const SPARE: &[&str] = &["CHECKS", "AGE", "GOAL", "NAME"];

/// Lists runs: those that wait for a person first, then those that go on.
pub(crate) fn run_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    mut rows: Vec<RunRow>,
) -> Vec<String> {
    rows.sort_by_key(|row| (rank(row), std::cmp::Reverse(row.since)));
    let at_most = |width: usize| screen.columns().unwrap_or(width);
    let mut table = Table::new(&HEAD).sparing(SPARE);
    for row in &rows {
        let (tone, state) = run_state(row);
        let passed = row.checks.iter().filter(|check| check.result == "passed").count();
        let checks = match row.checks.len() {
            0 => "-".to_owned(),
            all => format!("{passed}/{all}"),
        };
        table.row([
            (Tone::Bold, short(&row.id)),
            (Tone::Plain, clip(&clean(&row.name), at_most(NAME_WIDTH))),
            (tone, state),
            (Tone::Plain, words(&row.stage)),
            (if row.proved { Tone::Good } else { Tone::Plain }, checks),
            (Tone::Dim, age(now_ms, row.sealed_at.unwrap_or(row.since))),
            (Tone::Plain, clip(&clean(&row.goal), at_most(LINE_WIDTH))),
        ]);
    }
    table.lines(paint, screen)
}

fn rank(row: &RunRow) -> u8 {
    match (row.terminal, row.requests.is_empty(), row.state.as_str()) {
        (false, false, _) => 0,
        (false, true, _) => 1,
        (true, _, "failed") => 2,
        (true, _, _) => 3,
    }
}

/// Gives a run's state in words, with its cause, and the tone that it is said in.
pub(crate) fn run_state(row: &RunRow) -> (Tone, String) {
    let asks = !row.terminal && row.requests.iter().any(|request| request.blocking);
    let tone = match row.state.as_str() {
        _ if asks => Tone::Warn,
        "succeeded" | "completed" => Tone::Good,
        "failed" => Tone::Bad,
        "cancelled" => Tone::Dim,
        _ => Tone::Live,
    };
    let state = if asks { "needs input".to_owned() } else { words(&row.state) };
    let cause = row.cause.as_deref().map(|cause| format!(" ({})", words(cause)));
    (tone, state + &cause.unwrap_or_default())
}

/// Says in one line how a run stands.
pub(crate) fn run_line(paint: Paint, row: &RunRow) -> String {
    let (tone, state) = run_state(row);
    let stage = match row.terminal {
        true => String::new(),
        false => format!(", {}", words(&row.stage)),
    };
    let detail = row.detail.as_deref().filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {}", clip(&clean(detail), LINE_WIDTH)));
    let state = paint.paint(tone, &state);
    format!("{} {} {state}{stage}{}", short(&row.id), clean(&row.name), detail.unwrap_or_default())
}

/// Shows a run as a card. `heard` is when something happened last, if that is known.
pub(crate) fn run_card(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    row: &RunRow,
    heard: Option<i64>,
) -> Vec<String> {
    let mut card = Card::new(paint, screen, now_ms);
    card.line(&format!("{} · run {}", paint.paint(Tone::Bold, &clean(&row.name)), clean(&row.id)));
    let (tone, state) = run_state(row);
    let since = paint.paint(Tone::Dim, &format!("since {}", ago(now_ms, row.since)));
    let sealed = if row.sealed { ", sealed" } else { "" };
    card.label("state", &format!("{}{sealed} · {since}", paint.paint(tone, &state)));
    card.label("stage", &words(&row.stage));
    if let Some(detail) = row.detail.as_deref().filter(|detail| !detail.is_empty()) {
        card.text("reason", detail);
    }
    card.text("asked", &row.goal);
    if let Some(understanding) = &row.understanding {
        card.text("means", understanding);
    }
    row.requests.iter().for_each(|request| card.request(request));
    row.sessions.iter().for_each(|session| card.label("session", &session_words(session)));
    for decision in &row.decisions {
        let answer = decision.answer.as_ref().map_or("a secret".to_owned(), |all| all.join("; "));
        card.text("decided", &format!("{} → {answer}", decision.question));
    }
    row.checks.iter().enumerate().for_each(|(at, check)| card.check(at + 1, check));
    row.findings.iter().for_each(|finding| finding_line(&mut card, finding));
    landing(&mut card, row);
    used(&mut card, row);
    if let Some(heard) = heard.filter(|_| !row.terminal) {
        card.label("heard", &ago(now_ms, heard));
    }
    row.warnings.iter().for_each(|warning| card.text("warning", warning));
    card.into_lines()
}

fn session_words(session: &RunSessionRow) -> String {
    let state = session.state.as_deref().map_or_else(|| "at work".to_owned(), words);
    let cycle = if session.cycle > 1 { format!(" {}", session.cycle) } else { String::new() };
    format!("{} {}{cycle}: {state}", short(&session.id), words(&session.stage))
}

fn finding_line(card: &mut Card, finding: &FindingRow) {
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let fate = if finding.open { "open" } else { "settled" };
    card.text("finding", &format!("{fate}, {}: {}{place}", finding.severity, finding.title));
}

fn landing(card: &mut Card, row: &RunRow) {
    if let Some(commit) = &row.commit {
        let proved = if row.proved { ", every check passed on its tree" } else { "" };
        let commit = commit.get(..12).unwrap_or(commit);
        card.label("commit", &format!("{}{proved}", clean(commit)));
    }
    let target = row.target.as_deref().unwrap_or("no branch");
    let text = match (&row.landing.branch, row.landing.merged) {
        (Some(_), true) => format!("merged into {target}"),
        (Some(branch), false) => format!("on branch {branch}"),
        (None, _) => format!("as {}, from {target}", row.landing.mode),
    };
    card.label(if row.landing.done { "landed" } else { "lands" }, &clean(&text));
    if let Some(pull) = &row.landing.pull_request {
        let checks =
            pull.checks.as_deref().map_or(String::new(), |said| format!(", checks {said}"));
        card.label("pull request", &clean(&format!("{}{checks}", pull.url)));
    }
    for remark in &row.landing.remarks {
        card.label("not taken up", &clean(remark));
    }
}

fn used(card: &mut Card, row: &RunRow) {
    if row.usage.input > 0 || row.usage.output > 0 {
        let of = row.budget.tokens.map(|tokens| format!(", of {tokens}")).unwrap_or_default();
        let text = format!("{} in, {} out{of}", row.usage.input, row.usage.output);
        card.label("tokens", &text);
        if let Some(cost) = &row.cost {
            card.label("cost", &clean(&format!("{} {}", cost.amount, cost.currency)));
        }
    }
}

/// Says what happened to a run; none where there is nothing to say to whoever watches.
pub(crate) fn run_event(paint: Paint, event: &EventRow) -> Option<String> {
    let tone = match event.kind.as_str() {
        "run.stage_entered" => Tone::Bold,
        "run.question_seen" => Tone::Warn,
        "run.stopped" | "run.land_failed" | "run.head_failed" => Tone::Bad,
        "run.session_opened" | "run.session_ended" | "run.hook_finished" => Tone::Dim,
        "run.opened" | "run.card_written" | "run.pull_seen" => return None,
        _ => Tone::Plain,
    };
    let words = run_words(&event.kind, &event.data)?;
    Some(paint.paint(tone, &clip(&clean(&words), LINE_WIDTH * 3)))
}

/// Says what a review found, one line for each finding, if an event tells of one.
pub(crate) fn run_findings(event: &EventRow) -> Vec<String> {
    let found = event.data["end"]["result"]["review"]["findings"].as_array();
    found.into_iter().flatten().map(found_words).collect()
}

fn found_words(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let place = match (text("file"), finding["line"].as_u64()) {
        ("", _) => String::new(),
        (file, Some(line)) => format!(" ({file}:{line})"),
        (file, None) => format!(" ({file})"),
    };
    let mended = if finding["repaired"] == true { ", mended" } else { "" };
    let words = format!("{}{mended}: {}{place}", text("severity"), text("title"));
    format!("  {}", clip(&clean(&words), LINE_WIDTH))
}

/// Puts an event of a run into words, from what was recorded: a daemon may know of more than this program.
pub(crate) fn run_words(kind: &str, data: &Value) -> Option<String> {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let session = || short(text("session"));
    Some(match kind {
        "run.opened" => format!("run opened {}: {}", spec(data, "name"), spec(data, "goal")),
        "run.stage_entered" => format!("stage {}", words(text("stage"))),
        "run.session_opened" => format!("session {} begins {}", session(), words(text("stage"))),
        "run.session_ended" => session_ended(&session(), &data["end"]),
        "run.question_seen" => format!("{} waits for a person", short_request(text("request"))),
        "run.decision_made" => decided(&data["decision"]),
        "run.head_taken" => {
            format!("what session {} left is committed: {}", session(), commit(&data["head"]))
        }
        "run.head_failed" => {
            format!("what session {} left could not be committed: {}", session(), text("reason"))
        }
        "run.land_step_taken" => step(&data["step"]),
        "run.pull_seen" => {
            let seen = |name: &str| words(data["state"][name].as_str().unwrap_or("unknown"));
            format!("the pull request is {}, its checks: {}", seen("standing"), seen("checks"))
        }
        "run.remarks_left" => {
            format!("{} remarks of the pull request are left", length(&data["remarks"]))
        }
        "run.land_over" => "it has not landed, and will not".to_owned(),
        "run.pull_requested" => format!("pull request {}: {}", data["number"], text("url")),
        "run.landed" if data["merged"] == true => format!("landed: merged into {}", text("branch")),
        "run.landed" => format!("landed on branch {}", text("branch")),
        "run.land_failed" => format!("could not be landed: {}", text("reason")),
        "run.cancelled" => format!("cancelled: {}", text("because")),
        "run.stopped" => format!("ended by Provost ({}): {}", text("cause"), text("detail")),
        "run.sealed" => format!("sealed as {}", data["outcome"]["ending"].as_str()?),
        "run.resumed" => format!("resumed in stage {}, leg {}", words(text("stage")), data["leg"]),
        "run.budget_raised" => raised(data),
        "run.hook_finished" => {
            format!("hook {} ended: {}", data["key"]["event"].as_str()?, data["end"])
        }
        "run.card_written" => match data["failure"].as_str() {
            None => "report card written".to_owned(),
            Some(why) => format!("the report card could not be written: {why}"),
        },
        _ => return None,
    })
}

fn step(step: &Value) -> String {
    let conflicts = length(&step["merge"]["conflicts"]);
    match (step["merge"].is_object(), conflicts) {
        (true, 0) => "the branch has moved: merged with it, to be checked again".to_owned(),
        (true, files) => format!("the branch has moved: merged with it, {files} files in conflict"),
        (false, _) => {
            let remarks = length(&step["answer"]["remarks"]);
            format!("{remarks} remarks of the pull request go back to the work")
        }
    }
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn spec<'a>(data: &'a Value, name: &str) -> &'a str {
    data["spec"][name].as_str().unwrap_or_default()
}

fn session_ended(session: &str, end: &Value) -> String {
    let state = words(end["state"].as_str().unwrap_or("ended"));
    let cause = end["cause"].as_str().map(|cause| format!(" ({})", words(cause)));
    let said = end["said"].as_str().map(|said| format!(": {said}"));
    let found = end["result"]["review"]["findings"].as_array();
    let found = found.map(|all| match all.len() {
        0 => ", nothing found".to_owned(),
        1 => ", 1 finding".to_owned(),
        several => format!(", {several} findings"),
    });
    let parts = [cause, found, said].into_iter().flatten().collect::<String>();
    format!("session {session} ended as {state}{parts}")
}

fn decided(decision: &Value) -> String {
    let question = decision["question"].as_str().unwrap_or_default();
    let answers = decision["answer"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "));
    format!("decided: {question} → {}", answers.unwrap_or_else(|| "a secret".to_owned()))
}

fn raised(data: &Value) -> String {
    let part = |name: &str| data[name].as_u64().map(|to| format!("{to} {name}"));
    let parts: Vec<String> = ["tokens", "turns"].into_iter().filter_map(part).collect();
    format!("budget raised to {}", parts.join(", "))
}

fn commit(head: &Value) -> &str {
    let commit = head["commit"].as_str().unwrap_or_default();
    commit.get(..12).unwrap_or(commit)
}

/// Gives a request's name with the short form of its session.
fn short_request(request: &str) -> String {
    let (session, no) = request.split_once('.').unwrap_or((request, ""));
    format!("{}.{no}", short(session))
}

fn words(word: &str) -> String {
    clean(&word.replace('_', " "))
}

#[cfg(test)]
pub(crate) mod tests {
    use provost_api::{
        BudgetRow, CheckRow, CostRow, DecisionRow, LandingRow, RequestRow, UsageRow,
    };
    use serde_json::json;

    use super::*;

    pub(crate) fn run(state: &str) -> RunRow {
        let session = RunSessionRow {
            id: "0199aa11-0000-7000-8000-0000deadbef0".to_owned(),
            stage: "work".to_owned(),
            cycle: 1,
            state: None,
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
            state: state.to_owned(),
            terminal: false,
            sealed: false,
            cause: None,
            detail: None,
            stage: "work".to_owned(),
            leg: 1,
            sessions: vec![session],
            requests: Vec::new(),
            decisions: Vec::new(),
            findings: Vec::new(),
            understanding: None,
            checks: Vec::new(),
            tree: None,
            commit: None,
            proved: false,
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
            warnings: Vec::new(),
            opened_at: 0,
            since: 1_000,
            sealed_at: None,
        }
    }

    fn proved() -> RunRow {
        let check = CheckRow {
            command: "make test".to_owned(),
            result: "passed".to_owned(),
            detail: Some("exit 0".to_owned()),
            tree: Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned()),
            duration_ms: Some(61_000),
            output_digest: None,
            output: None,
            warm: None,
            environment: None,
        };
        let finding = FindingRow {
            stage: "task_review".to_owned(),
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
            proved: true,
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
    fn a_card_says_what_was_asked_proved_and_is_open() {
        let shown = run_card(Paint::OFF, Screen::ENDLESS, 61_000, &proved(), Some(1_000));
        insta::assert_snapshot!(shown.join("\n"), @"
        fixer · run 0199aa11-0000-7000-8000-0000deadbeef
          state     succeeded, sealed · since 1m ago
          stage     land
          asked     Fix␛[2J it.
          session   deadbef0 work: at work
          decided   Which colour? → Blue
          check 1   passed make test exit 0, 1m1s, tree 4b825dc642cb
          finding   open, low: No newline (a.rs:3)
          commit    a836f17cde28, every check passed on its tree
          landed    on branch provost/deadbeef-fix
          tokens    100 in, 10 out
          cost      0.000225 USD
        ");
    }

    #[test]
    fn who_waits_for_a_person_comes_first() {
        let request = RequestRow {
            id: "0199aa11-0000-7000-8000-0000deadbef0.q1".to_owned(),
            revision: 1,
            kind: "question".to_owned(),
            blocking: true,
            title: "Which colour?".to_owned(),
            questions: Vec::new(),
            subject: None,
            asked_at: 1_000,
            commands: Vec::new(),
        };
        let asking = RunRow { requests: vec![request], ..run("running") };
        let rows = vec![proved(), run("running"), asking];
        insta::assert_snapshot!(run_lines(Paint::OFF, Screen::ENDLESS, 61_000, rows).join("\n"), @"
        RUN       NAME   STATE        STAGE  CHECKS  AGE  GOAL
        deadbeef  fixer  needs input  work   -       1m   Fix␛[2J it.
        deadbeef  fixer  running      work   -       1m   Fix␛[2J it.
        deadbeef  fixer  succeeded    land   1/1     1m   Fix␛[2J it.
        ");
    }

    #[test]
    fn what_happens_is_told_in_words() {
        let told = |kind: &str, data: Value| run_words(kind, &data).unwrap_or_default();
        let session = "0199aa11-0000-7000-8000-0000deadbef0";
        let found = json!({"session": session, "end": {"state": "completed", "cause": null, "said": "s",
            "result": {"review": {"findings": [{"title": "t", "severity": "low", "file": null}]}}}});
        assert_eq!(
            told("run.session_ended", found),
            "session deadbef0 ended as completed, 1 finding: s"
        );
        let question = json!({"request": format!("{session}.q2"), "revision": 1});
        assert_eq!(told("run.question_seen", question), "deadbef0.q2 waits for a person");
        let secret = json!({"decision": {"question": "Which token?", "answer": null}});
        assert_eq!(told("run.decision_made", secret), "decided: Which token? → a secret");
        assert_eq!(run_words("run.something_newer", &json!({})), None);
    }
}
