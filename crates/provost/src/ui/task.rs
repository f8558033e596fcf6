//! Teams: the detail view of one, the list, and the result of a change.

use provost_api::{
    BeatRow, CriterionRow, DraftRow, FailedCheckRow, HeartbeatRow, LoopRow, MemberRow,
    StandingTaskRow, TaskHeadRow, TaskMessageRow,
};
use serde_json::Value;

use super::{
    Fit, Paint, Screen, Table, Tone, age, ago,
    card::Card,
    short,
    text::{clean, clean_block, clip},
};

/// The maximum width of a text on one line.
const LINE_WIDTH: usize = 120;

/// The maximum width of verified evidence, over several lines.
const SEEN_WIDTH: usize = 400;

/// Describes a team's state, and returns the tone for it.
fn state(row: &StandingTaskRow) -> (Tone, String) {
    let tone = match row.state.as_str() {
        "done" => Tone::Good,
        "failed" => Tone::Bad,
        "cancelled" => Tone::Dim,
        "paused" => Tone::Warn,
        _ => Tone::Live,
    };
    let audited = if row.being_audited { ", being audited" } else { "" };
    (tone, format!("{}{audited}", clean(&row.state)))
}

/// Lists teams, the active ones first.
pub(crate) fn task_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    rows: &[StandingTaskRow],
) -> Vec<String> {
    let mut rows: Vec<&StandingTaskRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.terminal, std::cmp::Reverse(row.since)));
    let head = [
        ("TASK", Fit::Whole),
        ("NAME", Fit::Start),
        ("STATE", Fit::Whole),
        ("CRITERIA", Fit::Whole),
        ("LOOP", Fit::Whole),
        ("FOR YOU", Fit::Whole),
        ("SINCE", Fit::Whole),
        ("GOAL", Fit::Start),
    ];
    let mut table = Table::new(&head).sparing(&["LOOP", "CRITERIA", "SINCE", "GOAL", "NAME"]);
    for row in rows {
        let (tone, state) = state(row);
        let held = row.criteria.iter().filter(|one| one.state == "satisfied").count();
        let criteria = match row.criteria.len() {
            0 => "-".to_owned(),
            all => format!("{held}/{all}"),
        };
        let looped = row.looped.as_ref();
        let looped = looped.map_or("-".to_owned(), |one| format!("{}/{}", one.iteration, one.max));
        table.row([
            (Tone::Bold, short(&row.id)),
            (Tone::Plain, clip(&clean(&row.name), LINE_WIDTH)),
            (tone, state),
            (Tone::Plain, criteria),
            (Tone::Plain, looped),
            for_you(row),
            (Tone::Dim, age(now_ms, row.since)),
            (Tone::Plain, clip(&clean(row.summary.as_ref().unwrap_or(&row.goal)), LINE_WIDTH)),
        ]);
    }
    table.lines(paint, screen)
}

/// Returns how many messages wait for the operator.
fn for_you(row: &StandingTaskRow) -> (Tone, String) {
    match row.for_operator {
        0 => (Tone::Plain, "-".to_owned()),
        waiting => (Tone::Warn, waiting.to_string()),
    }
}

/// Lists the teams with messages for the operator, one line each.
pub(crate) fn for_operator_lines(paint: Paint, rows: &[StandingTaskRow]) -> Vec<String> {
    let line = |row: &StandingTaskRow| {
        let (tone, waiting) = for_you(row);
        let wait = if row.for_operator == 1 { "message waits" } else { "messages wait" };
        let name = clip(&clean(&row.name), LINE_WIDTH);
        format!("task {name} {}: {} {wait} for you", short(&row.id), paint.paint(tone, &waiting))
    };
    rows.iter().map(line).collect()
}

/// Shows a team in detail.
pub(crate) fn task_card(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    row: &StandingTaskRow,
) -> Vec<String> {
    let mut card = Card::new(paint, screen, now_ms);
    card.line(&format!("{} · task {}", paint.paint(Tone::Bold, &clean(&row.name)), clean(&row.id)));
    let (tone, state) = state(row);
    let since = paint.paint(Tone::Dim, &format!("since {}", ago(now_ms, row.since)));
    card.label("state", &format!("{} · {since}", paint.paint(tone, &state)));
    if let Some(because) = &row.because {
        card.text("because", because);
    }
    card.text("goal", &row.goal);
    row.checks.iter().for_each(|check| card.text("check", check));
    row.members.iter().for_each(|one| card.label("member", &member(paint, now_ms, one)));
    if let Some(policy) = &row.policy {
        card.label("manager", &format!("policy {}", clean(policy)));
    }
    work(row).iter().for_each(|place| card.label("work", place));
    let counts: Vec<String> =
        row.messages.iter().map(|(standing, count)| format!("{count} {standing}")).collect();
    if !counts.is_empty() {
        card.label("messages", &counts.join(" · "));
    }
    if row.for_operator > 0 {
        card.label("for you", &format!("{} not handled yet", row.for_operator));
    }
    row.criteria.iter().for_each(|one| card.label("criterion", &criterion(paint, one)));
    for command in &row.awaits_consent {
        card.text("would run", &format!("{command} (written by a member; needs your consent)"));
    }
    if !row.awaits_consent.is_empty() {
        card.command(&format!("provost approve {}", short(&row.id)));
    }
    if let Some(looped) = &row.looped {
        card.label("loop", &loop_words(paint, looped));
    }
    if let Some(newest) = row.moves.last() {
        card.text("move", &format!("{}: {} ({})", newest.kind, newest.because, newest.by));
    }
    for blocker in &row.allowed {
        card.text("allowed", &format!("{}: {}", blocker.code, blocker.text));
    }
    for blocker in &row.blockers {
        card.text("open", &format!("{}: {}", blocker.code, blocker.text));
        if let Some(printed) = &blocker.printed {
            card.text("printed", printed);
        }
    }
    card.into_lines()
}

fn member(paint: Paint, now_ms: i64, row: &MemberRow) -> String {
    let session = row.session.as_deref().map(|session| {
        let cause = row.cause.as_deref().map(|cause| format!(" ({cause})")).unwrap_or_default();
        let state = row.state.as_deref().map(|state| format!(", {state}{cause}").replace('_', " "));
        format!("session {}{}", short(session), clean(&state.unwrap_or_default()))
    });
    let asks = match row.polled_at {
        _ if row.communication.can_push => None,
        Some(at) => Some(format!("polls for its messages, last {}", ago(now_ms, at))),
        None => Some("polls for its messages".to_owned()),
    };
    let late = row.communication.note.as_ref().map(|_| "acts by commands".to_owned());
    let session = [session, asks, late].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let left = if row.left { ", left" } else { "" };
    let title = row.title.as_deref().map(|title| format!(" · {}", clean(title)));
    let name = paint.paint(if row.left { Tone::Dim } else { Tone::Bold }, &clean(&row.name));
    format!("{name} ({}{left}) · {session}{}", clean(&row.role), title.unwrap_or_default())
}

/// Describes where the work is: the branch of each worker, and the tree of the last audit.
fn work(row: &StandingTaskRow) -> Vec<String> {
    let workers = row.members.iter().filter(|member| member.role == "worker");
    let branches = workers.filter_map(|member| {
        Some(format!("{} · branch {}", clean(&member.name), clean(member.branch.as_deref()?)))
    });
    let audited = row.audited.as_ref().map(|audited| {
        let tree = clean(audited.tree.get(..12).unwrap_or(&audited.tree));
        format!("{} · tree {tree} was audited", clean(&audited.worker))
    });
    branches.chain(audited).collect()
}

fn criterion(paint: Paint, row: &CriterionRow) -> String {
    let state = paint.paint(criterion_tone(row), &clean(&row.state));
    let text = clip(&clean(&row.text), LINE_WIDTH);
    format!("{} {state} · {text}{}{}", row.no, proof(row), checked(paint, row))
}

/// Describes the latest check of a criterion, unless it satisfied the criterion.
fn checked(paint: Paint, row: &CriterionRow) -> String {
    match (row.being_checked, &row.failed) {
        (true, _) => format!(" · {}", paint.paint(Tone::Live, "being checked")),
        (false, Some(failed)) => format!(" · {}", not_passed(paint, failed)),
        (false, None) => String::new(),
    }
}

/// Describes a check that did not pass, and whose work it ran on.
fn not_passed(paint: Paint, row: &FailedCheckRow) -> String {
    let tree = row.tree.get(..12).map(|tree| format!(", tree {}", clean(tree)));
    let end = clip(&clean(&row.end), LINE_WIDTH);
    let of = format!(" on the work of {}{}", clean(&row.worker), tree.unwrap_or_default());
    format!("{}{of}", paint.paint(Tone::Bad, &format!("did not pass: {end}")))
}

fn criterion_tone(row: &CriterionRow) -> Tone {
    match row.state.as_str() {
        "satisfied" => Tone::Good,
        "accepted" | "proposed" => Tone::Warn,
        _ => Tone::Dim,
    }
}

/// Describes the check that a criterion needs, or its receipt.
fn proof(row: &CriterionRow) -> String {
    match (&row.receipt, &row.check) {
        (Some(receipt), _) => format!(" ({})", clean(receipt)),
        (None, Some(check)) => format!(" (needs `{}`)", clip(&clean(check), LINE_WIDTH)),
        (None, None) => String::new(),
    }
}

/// Shows the criteria proposed from a text.
pub(crate) fn draft_lines(paint: Paint, screen: Screen, row: &DraftRow) -> Vec<String> {
    let mut card = Card::new(paint, screen, 0);
    let word = if row.dry_run { "would be proposed" } else { "proposed" };
    let from = paint.paint(Tone::Dim, &format!("({}, {})", row.source, clean(&row.rationale)));
    card.line(&format!("{} {word} {from}", row.proposed.len()));
    for one in &row.proposed {
        let no = one.no.map_or_else(|| "-".to_owned(), |no| no.to_string());
        card.text(&no, &one.text);
    }
    for one in &row.left_out {
        card.text("left out", &format!("{}: {}", one.why.replace('_', " "), one.text));
    }
    if row.more_left_out > 0 {
        card.text("left out", &format!("{} more", row.more_left_out));
    }
    card.into_lines()
}

/// Lists criteria with their evidence.
pub(crate) fn criterion_lines(paint: Paint, screen: Screen, rows: &[CriterionRow]) -> Vec<String> {
    let head = [
        ("NO", Fit::Whole),
        ("STATE", Fit::Whole),
        ("FROM", Fit::Whole),
        ("CRITERION", Fit::Start),
        ("EVIDENCE", Fit::Start),
    ];
    let mut table = Table::new(&head).sparing(&["FROM"]);
    for row in rows {
        let evidence = match (&row.evidence, &row.check, &row.failed) {
            (Some(evidence), _, failed) => {
                // The newer result comes first, because a long text is cut at its end.
                let now = match (row.being_checked, failed) {
                    (true, _) => "being checked; before: ".to_owned(),
                    (false, Some(failed)) => {
                        format!("{}; before: ", not_passed(Paint::OFF, failed))
                    }
                    (false, None) => String::new(),
                };
                format!("{now}{}: {evidence}", row.receipt.as_deref().unwrap_or(""))
            }
            (None, Some(check), _) if row.being_checked => format!("being checked by `{check}`"),
            (None, Some(check), Some(failed)) => {
                format!("`{check}` {}", not_passed(Paint::OFF, failed))
            }
            (None, Some(check), None) => format!("needs `{check}`"),
            (None, None, _) => "needs an assertion".to_owned(),
        };
        table.row([
            (Tone::Bold, row.no.to_string()),
            (criterion_tone(row), clean(&row.state)),
            (Tone::Plain, clean(&row.source)),
            (Tone::Plain, clip(&clean(&row.text), LINE_WIDTH)),
            (Tone::Dim, clip(&clean(&evidence), LINE_WIDTH)),
        ]);
    }
    table.lines(paint, screen)
}

fn loop_words(paint: Paint, row: &LoopRow) -> String {
    let at = paint.paint(Tone::Bold, &format!("{}/{}", row.iteration, row.max));
    format!("{} {at} · {}", clean(&row.template), clean(&row.recommendation))
}

/// Shows a loop: its limits, evidence, advances and refusals.
pub(crate) fn loop_lines(
    paint: Paint,
    screen: Screen,
    task: &StandingTaskRow,
    row: &LoopRow,
) -> Vec<String> {
    let mut card = Card::new(paint, screen, 0);
    card.line(&format!(
        "{} · {}",
        paint.paint(Tone::Bold, &clean(&task.name)),
        loop_words(paint, row)
    ));
    for name in &row.evidence {
        let shown = !row.missing.contains(name);
        let (tone, word) = if shown { (Tone::Good, "shown") } else { (Tone::Warn, "missing") };
        let checked = match (row.being_checked.contains(name), row.failed.get(name)) {
            (true, _) => format!(" · {}", paint.paint(Tone::Live, "being checked")),
            (false, Some(failed)) => {
                let command = clip(&clean(&failed.command), LINE_WIDTH);
                format!(" · `{command}` {}", not_passed(paint, failed))
            }
            (false, None) => String::new(),
        };
        let verified =
            row.verified.get(name).map(|words| format!(": {}", clip(&clean(words), SEEN_WIDTH)));
        let asserted = row.asserted.get(name).map(|one| {
            let text = clip(&clean(&one.text), LINE_WIDTH);
            format!(": asserted by {}: {text}", clean(&one.by))
        });
        let seen = verified.or(asserted);
        let seen = paint.paint(Tone::Dim, &seen.unwrap_or_default());
        card.label(
            "evidence",
            &format!("{} {}{seen}{checked}", paint.paint(tone, word), clean(name)),
        );
    }
    for advance in &row.advances {
        let (to, message) = (advance.to, advance.message);
        let by = clean(&advance.consumer);
        card.label(
            "advance",
            &format!("iteration {to} started when {by} accepted message {message}"),
        );
    }
    card.label("cleanup", &clean(&row.cleanup));
    card.label("limits", &bounds(row));
    card.label("backlog", &format!("{} stored, not yet accepted", row.backlog));
    let backlog: Vec<String> =
        task.messages.iter().map(|(standing, count)| format!("{count} {standing}")).collect();
    if !backlog.is_empty() {
        card.label("messages", &backlog.join(" · "));
    }
    if let Some(last) = &row.last_refusal {
        card.text("refused", &format!("{} times, last: {last}", row.refusals));
    }
    if let Some(ended) = &row.ended {
        card.label("ended", &clean(ended));
    }
    card.into_lines()
}

/// Describes the limits of a loop, and how much of them is used.
fn bounds(row: &LoopRow) -> String {
    let plateau = match row.plateau {
        Some(most) => format!("stopped after {most} iterations without a change"),
        None => "no plateau limit".to_owned(),
    };
    let used = row.tokens_used.map_or_else(String::new, |used| format!("{used} of "));
    let tokens = match (row.tokens, row.tokens_used) {
        (Some(tokens), _) => format!("{used}{tokens} tokens"),
        (None, Some(used)) => format!("{used} tokens, no limit"),
        (None, None) => "no token limit".to_owned(),
    };
    format!("{} iterations · {plateau} · {tokens}", row.max)
}

/// Lists messages.
pub(crate) fn message_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    rows: &[TaskMessageRow],
) -> Vec<String> {
    let head = [
        ("NO", Fit::Whole),
        ("STATUS", Fit::Whole),
        ("KIND", Fit::Whole),
        ("FROM", Fit::Start),
        ("CHANNEL", Fit::Whole),
        ("TRUST", Fit::Whole),
        ("TO", Fit::Start),
        ("AGE", Fit::Whole),
        ("TEXT", Fit::Start),
    ];
    let mut table = Table::new(&head).sparing(&["AGE", "KIND", "CHANNEL"]);
    for row in rows {
        let tone = match row.standing.as_str() {
            "dead" | "expired" => Tone::Bad,
            "acknowledged" => Tone::Good,
            "cancelled" => Tone::Dim,
            _ => Tone::Live,
        };
        let text = match &row.reason {
            Some(reason) => format!("{}{} · {reason}", terms(now_ms, row), row.text),
            None => format!("{}{}", terms(now_ms, row), row.text),
        };
        table.row([
            (Tone::Bold, row.no.to_string()),
            (tone, clean(&row.standing)),
            (Tone::Plain, clean(&row.kind)),
            (Tone::Plain, clean(&row.from)),
            (Tone::Plain, clean(&row.channel)),
            (Tone::Plain, clean(&row.trust)),
            (Tone::Plain, clean(&row.to)),
            (Tone::Dim, age(now_ms, row.stored_at)),
            (Tone::Plain, clip(&clean(&text), LINE_WIDTH)),
        ]);
    }
    table.lines(paint, screen)
}

/// Describes the unusual properties of a message, as a prefix of its text: the iteration that it
/// starts, its priority, and when it expires.
fn terms(now_ms: i64, row: &TaskMessageRow) -> String {
    let iteration = row.iteration.map(|no| format!("starts iteration {no}"));
    let priority = Some(&row.priority).filter(|word| !matches!(word.as_str(), "" | "normal"));
    let waits = if row.standing == "stored" { row.expires_at } else { None };
    let expires = waits.map(|at| format!("expires in {}", age(at, now_ms)));
    let terms = [iteration, priority.cloned(), expires].into_iter().flatten();
    let terms = terms.collect::<Vec<_>>().join(", ");
    if terms.is_empty() { terms } else { format!("[{terms}] ") }
}

/// Describes the new status of a changed message.
pub(crate) fn message_changed(task: &TaskHeadRow, message: &TaskMessageRow) -> String {
    let (to, standing) = (clean(&message.to), clean(&message.standing));
    format!("message {} for {to} of {} is {standing}", message.no, clean(&task.name))
}

/// Describes the result of a change: the changed row, or the team's status.
pub(crate) fn task_changed(paint: Paint, row: &StandingTaskRow, reply: &Value) -> Vec<String> {
    let (tone, state) = state(row);
    let name = clean(&row.name);
    let task = format!("{} {name} {}", short(&row.id), paint.paint(tone, &state));
    let read = |what: &str| reply.get(what).cloned();
    if let Some(row) =
        read("criterion").and_then(|row| serde_json::from_value::<CriterionRow>(row).ok())
    {
        return vec![format!("criterion {}", criterion(paint, &row))];
    }
    if let Some(order) = reply.get("told") {
        let text = |field: &str| clean(order[field].as_str().unwrap_or_default());
        return vec![format!("asked {} of {name} to {}", text("member"), text("what"))];
    }
    // After a finish, the user wants to know where the work is.
    let places = if row.state == "done" { work(row) } else { Vec::new() };
    [task].into_iter().chain(places.iter().map(|place| format!("  {place}"))).collect()
}

/// Describes the heartbeats for members that Provost cannot wake, and who removes them.
pub(crate) fn heartbeat_lines(row: &HeartbeatRow) -> Vec<String> {
    let teardown = &row.teardown;
    let mut lines = vec![
        format!("every {} minutes, where {}", row.interval_minutes, clean(&row.applies_when)),
        clean(&row.note),
        format!("removed by {}: {}", clean(&teardown.owner), clean(&teardown.rule)),
        format!("  {}", clean(&teardown.finish_command)),
    ];
    let beats = row.manager.iter().chain(&row.worker).chain(&row.others);
    for BeatRow { member, prompt, .. } in beats {
        lines.push(String::new());
        lines.push(format!("for {}:", clean(member)));
        lines.extend(clean_block(prompt).lines().map(|line| format!("  {line}")));
    }
    lines
}
