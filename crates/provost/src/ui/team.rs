//! Shows teams: the detail view of a team, the list of teams, and the result of a change.

use provost_api::{
    CriterionRow, CriterionStateName, DraftRow, FailedCheckRow, HeartbeatRow, LoopRow,
    MemberHeartbeatRow, MemberRow, TeamHeadRow, TeamMessageRow, TeamRow, TeamStateName,
};
use provost_core::team::{MessageStatusKind, TeamActor};
use serde_json::Value;

use super::{
    ColumnFit, Paint, Screen, Table, Tone, age, ago,
    detail_view::DetailView,
    for_how_long, short_id,
    text::{clip, escape_block, escape_line, join_lines},
};

/// The maximum width of a text on one line.
const LINE_WIDTH: usize = 120;

/// The maximum width of verified evidence. It can extend over several lines.
const EVIDENCE_WIDTH: usize = 400;

/// Describes a team's state, and returns the matching tone.
fn describe_team_state(row: &TeamRow) -> (Tone, String) {
    let tone = match row.state.known() {
        Some(TeamStateName::Done) => Tone::Good,
        Some(TeamStateName::Failed) => Tone::Bad,
        Some(TeamStateName::Cancelled) => Tone::Dim,
        Some(TeamStateName::Paused) => Tone::Warn,
        Some(TeamStateName::Open | TeamStateName::Active) | None => Tone::Live,
    };
    let audited = if row.being_audited { ", final checks running" } else { "" };
    (tone, format!("{}{audited}", escape_line(&row.state)))
}

/// Lists teams, with active ones first.
pub(crate) fn team_lines(
    paint: Paint,
    screen: Screen,
    now_ms: i64,
    rows: &[TeamRow],
) -> Vec<String> {
    let mut rows: Vec<&TeamRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.terminal, std::cmp::Reverse(row.since)));
    let head = [
        ("TEAM", ColumnFit::Whole),
        ("NAME", ColumnFit::Start),
        ("STATE", ColumnFit::Whole),
        ("CRITERIA", ColumnFit::Whole),
        ("LOOP", ColumnFit::Whole),
        ("FOR YOU", ColumnFit::Whole),
        ("SINCE", ColumnFit::Whole),
        ("GOAL", ColumnFit::Start),
    ];
    let mut table = Table::new(&head).with_optional(&["LOOP", "CRITERIA", "SINCE", "GOAL", "NAME"]);
    for row in rows {
        let (tone, state) = describe_team_state(row);
        let held =
            row.criteria.iter().filter(|one| one.state == CriterionStateName::Satisfied).count();
        let criteria = match row.criteria.len() {
            0 => "-".to_owned(),
            all => format!("{held}/{all}"),
        };
        let looped = row.loop_row.as_ref();
        let looped = looped.map_or("-".to_owned(), |one| format!("{}/{}", one.iteration, one.max));
        table.row([
            (Tone::Bold, short_id(&row.id)),
            (Tone::Plain, clip(&escape_line(&row.name), LINE_WIDTH)),
            (tone, state),
            (Tone::Plain, criteria),
            (Tone::Plain, looped),
            operator_cell(row),
            (Tone::Dim, age(now_ms, row.since)),
            (
                Tone::Plain,
                clip(&escape_line(row.summary.as_ref().unwrap_or(&row.goal)), LINE_WIDTH),
            ),
        ]);
    }
    table.lines(paint, screen)
}

/// Returns how many messages are waiting for the operator.
fn operator_cell(row: &TeamRow) -> (Tone, String) {
    match row.for_operator {
        0 => (Tone::Plain, "-".to_owned()),
        waiting => (Tone::Warn, waiting.to_string()),
    }
}

/// Lists the teams that have messages for the operator, one per line.
pub(crate) fn for_operator_lines(paint: Paint, rows: &[TeamRow]) -> Vec<String> {
    let line = |row: &TeamRow| {
        let (tone, waiting) = operator_cell(row);
        let wait = if row.for_operator == 1 { "message waits" } else { "messages wait" };
        let name = clip(&escape_line(&row.name), LINE_WIDTH);
        format!("team {name} {}: {} {wait} for you", short_id(&row.id), paint.paint(tone, &waiting))
    };
    rows.iter().map(line).collect()
}

/// Shows a team in detail.
pub(crate) fn team_detail(paint: Paint, screen: Screen, now_ms: i64, row: &TeamRow) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, now_ms);
    detail.line(&format!(
        "{} · team {}",
        paint.paint(Tone::Bold, &escape_line(&row.name)),
        escape_line(&row.id)
    ));
    let (tone, state) = describe_team_state(row);
    let since = paint.paint(Tone::Dim, &for_how_long(now_ms, row.since));
    detail.label("state", &format!("{} · {since}", paint.paint(tone, &state)));
    if let Some(because) = &row.because {
        detail.text("because", because);
    }
    detail.text("goal", &row.goal);
    row.checks.iter().for_each(|check| detail.text("check", check));
    row.members.iter().for_each(|one| detail.label("member", &describe_member(paint, now_ms, one)));
    if let Some(policy) = &row.policy {
        detail.label("manager", &format!("policy {}", escape_line(policy)));
    }
    work_locations(row).iter().for_each(|place| detail.label("work", place));
    let counts: Vec<String> =
        row.messages.iter().map(|(status, count)| format!("{count} {status}")).collect();
    if !counts.is_empty() {
        detail.label("messages", &counts.join(" · "));
    }
    if row.for_operator > 0 {
        detail.label("for you", &format!("{} not handled yet", row.for_operator));
    }
    row.criteria.iter().for_each(|one| detail.label("criterion", &describe_criterion(paint, one)));
    for command in &row.awaits_consent {
        detail.text("would run", &format!("{command} (written by a member; needs your consent)"));
    }
    if !row.awaits_consent.is_empty() {
        detail.command(&format!("provost approve {}", short_id(&row.id)));
    }
    if let Some(looped) = &row.loop_row {
        detail.label("loop", &loop_summary(paint, looped));
    }
    if let Some(newest) = row.moves.last() {
        detail.text("move", &format!("{}: {} ({})", newest.kind, newest.because, newest.by));
    }
    for blocker in &row.allowed {
        detail.text("allowed", &format!("{}: {}", blocker.code, blocker.text));
    }
    for blocker in &row.blockers {
        detail.text("open", &format!("{}: {}", blocker.code, blocker.text));
        if let Some(printed) = &blocker.printed {
            detail.text("printed", printed);
        }
    }
    detail.into_lines()
}

fn describe_member(paint: Paint, now_ms: i64, row: &MemberRow) -> String {
    let session = row.session.as_deref().map(|session| {
        let cause = row.cause.as_deref().map(|cause| format!(" ({cause})")).unwrap_or_default();
        let state = row.state.as_deref().map(|state| format!(", {state}{cause}").replace('_', " "));
        format!("session {}{}", short_id(session), escape_line(&state.unwrap_or_default()))
    });
    let asks = match row.polled_at {
        _ if row.communication.can_push => None,
        Some(at) => Some(format!("polls for its messages, last {}", ago(now_ms, at))),
        None => Some("polls for its messages".to_owned()),
    };
    let late = row.communication.note.as_ref().map(|_| "acts by commands".to_owned());
    let session = [session, asks, late].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let left = if row.left { ", left" } else { "" };
    let title = row.title.as_deref().map(|title| format!(" · {}", escape_line(title)));
    let name = paint.paint(if row.left { Tone::Dim } else { Tone::Bold }, &escape_line(&row.name));
    format!("{name} ({}{left}) · {session}{}", escape_line(&row.role), title.unwrap_or_default())
}

/// Describes where the work is: each worker's branch, and the tree of the last audit.
fn work_locations(row: &TeamRow) -> Vec<String> {
    let workers = row.members.iter().filter(|member| member.role == "worker");
    let branches = workers.filter_map(|member| {
        Some(format!(
            "{} · branch {}",
            escape_line(&member.name),
            escape_line(member.branch.as_deref()?)
        ))
    });
    let audited = row.audited.as_ref().map(|audited| {
        let tree = escape_line(audited.tree.get(..12).unwrap_or(&audited.tree));
        format!("{} · tree {tree} was audited", escape_line(&audited.worker))
    });
    branches.chain(audited).collect()
}

fn describe_criterion(paint: Paint, row: &CriterionRow) -> String {
    let state = paint.paint(criterion_tone(row), &escape_line(&row.state));
    let text = clip(&escape_line(&row.text), LINE_WIDTH);
    format!("{} {state} · {text}{}{}", row.no, proof_suffix(row), check_suffix(paint, row))
}

/// Describes the last check of a criterion, unless it satisfied the criterion.
fn check_suffix(paint: Paint, row: &CriterionRow) -> String {
    match (row.being_checked, &row.failed) {
        (true, _) => format!(" · {}", paint.paint(Tone::Live, "being checked")),
        (false, Some(failed)) => format!(" · {}", describe_failed_check(paint, failed)),
        (false, None) => String::new(),
    }
}

/// Describes a check that did not pass, and the worker that it concerns.
fn describe_failed_check(paint: Paint, row: &FailedCheckRow) -> String {
    let tree = row.tree.get(..12).map(|tree| format!(", tree {}", escape_line(tree)));
    let end = clip(&escape_line(&row.end), LINE_WIDTH);
    let of = format!(" on the work of {}{}", escape_line(&row.worker), tree.unwrap_or_default());
    format!("{}{of}", paint.paint(Tone::Bad, &format!("did not pass: {end}")))
}

fn criterion_tone(row: &CriterionRow) -> Tone {
    match row.state.known() {
        Some(CriterionStateName::Satisfied) => Tone::Good,
        Some(CriterionStateName::Accepted | CriterionStateName::Proposed) => Tone::Warn,
        Some(CriterionStateName::Deferred | CriterionStateName::Rejected) | None => Tone::Dim,
    }
}

/// Describes the receipt that a criterion has, or else the check that it needs.
fn proof_suffix(row: &CriterionRow) -> String {
    match (&row.receipt, &row.check) {
        (Some(receipt), _) => format!(" ({})", escape_line(receipt)),
        (None, Some(check)) => format!(" (needs `{}`)", clip(&escape_line(check), LINE_WIDTH)),
        (None, None) => String::new(),
    }
}

/// Shows the criteria that were proposed from a text.
pub(crate) fn draft_lines(paint: Paint, screen: Screen, row: &DraftRow) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, 0);
    let word = if row.dry_run { "would be proposed" } else { "proposed" };
    let from =
        paint.paint(Tone::Dim, &format!("({}, {})", row.source, escape_line(&row.rationale)));
    detail.line(&format!("{} {word} {from}", row.proposed.len()));
    for one in &row.proposed {
        let no = one.no.map_or_else(|| "-".to_owned(), |no| no.to_string());
        detail.text(&no, &one.text);
    }
    for one in &row.left_out {
        detail.text("left out", &format!("{}: {}", one.why.replace('_', " "), one.text));
    }
    if row.more_left_out > 0 {
        detail.text("left out", &format!("{} more", row.more_left_out));
    }
    detail.into_lines()
}

/// Lists criteria with their evidence.
pub(crate) fn criterion_lines(paint: Paint, screen: Screen, rows: &[CriterionRow]) -> Vec<String> {
    let head = [
        ("NO", ColumnFit::Whole),
        ("STATE", ColumnFit::Whole),
        ("FROM", ColumnFit::Whole),
        ("CRITERION", ColumnFit::Start),
        ("EVIDENCE", ColumnFit::Start),
    ];
    let mut table = Table::new(&head).with_optional(&["FROM"]);
    for row in rows {
        let evidence = match (&row.evidence, &row.check, &row.failed) {
            (Some(evidence), _, failed) => {
                // The newer result comes first, because a long text is truncated at the end.
                let now = match (row.being_checked, failed) {
                    (true, _) => "being checked; before: ".to_owned(),
                    (false, Some(failed)) => {
                        format!("{}; before: ", describe_failed_check(Paint::OFF, failed))
                    }
                    (false, None) => String::new(),
                };
                format!("{now}{}: {evidence}", row.receipt.as_deref().unwrap_or(""))
            }
            (None, Some(check), _) if row.being_checked => format!("being checked by `{check}`"),
            (None, Some(check), Some(failed)) => {
                format!("`{check}` {}", describe_failed_check(Paint::OFF, failed))
            }
            (None, Some(check), None) => format!("needs `{check}`"),
            (None, None, _) => "needs an assertion".to_owned(),
        };
        table.row([
            (Tone::Bold, row.no.to_string()),
            (criterion_tone(row), escape_line(&row.state)),
            (Tone::Plain, escape_line(&row.source)),
            (Tone::Plain, clip(&escape_line(&row.text), LINE_WIDTH)),
            (Tone::Dim, clip(&escape_line(&evidence), LINE_WIDTH)),
        ]);
    }
    table.lines(paint, screen)
}

fn loop_summary(paint: Paint, row: &LoopRow) -> String {
    let at = paint.paint(Tone::Bold, &format!("{}/{}", row.iteration, row.max));
    format!("{} {at} · {}", escape_line(&row.template), escape_line(&row.recommendation))
}

/// Shows a loop: its limits, evidence, advances and refusals.
pub(crate) fn loop_lines(
    paint: Paint,
    screen: Screen,
    task: &TeamRow,
    row: &LoopRow,
) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, 0);
    detail.line(&format!(
        "{} · {}",
        paint.paint(Tone::Bold, &escape_line(&task.name)),
        loop_summary(paint, row)
    ));
    for name in &row.evidence {
        let shown = !row.missing.contains(name);
        let (tone, word) = if shown { (Tone::Good, "shown") } else { (Tone::Warn, "missing") };
        let checked = match (row.being_checked.contains(name), row.failed.get(name)) {
            (true, _) => format!(" · {}", paint.paint(Tone::Live, "being checked")),
            (false, Some(failed)) => {
                let command = clip(&escape_line(&failed.command), LINE_WIDTH);
                format!(" · `{command}` {}", describe_failed_check(paint, failed))
            }
            (false, None) => String::new(),
        };
        let verified = row
            .verified
            .get(name)
            .map(|words| format!(": {}", clip(&escape_line(words), EVIDENCE_WIDTH)));
        let asserted = row.asserted.get(name).map(|one| {
            let text = clip(&escape_line(&one.text), LINE_WIDTH);
            format!(": asserted by {}: {text}", escape_line(&one.by))
        });
        let seen = verified.or(asserted);
        let seen = paint.paint(Tone::Dim, &seen.unwrap_or_default());
        detail.label(
            "evidence",
            &format!("{} {}{seen}{checked}", paint.paint(tone, word), escape_line(name)),
        );
    }
    for advance in &row.advances {
        let (to, message) = (advance.to, advance.message);
        let by = escape_line(&advance.consumer);
        detail.label(
            "advance",
            &format!("iteration {to} started when {by} accepted message {message}"),
        );
    }
    detail.label("cleanup", &escape_line(&row.cleanup));
    detail.label("limits", &describe_limits(row));
    detail.label("backlog", &format!("{} stored, not yet accepted", row.backlog));
    let backlog: Vec<String> =
        task.messages.iter().map(|(status, count)| format!("{count} {status}")).collect();
    if !backlog.is_empty() {
        detail.label("messages", &backlog.join(" · "));
    }
    if let Some(last) = &row.last_refusal {
        detail.text("refused", &format!("{}, last: {last}", describe_times(row.refusals)));
    }
    if let Some(ended) = &row.ended {
        detail.label("ended", &escape_line(ended));
    }
    detail.into_lines()
}

fn describe_times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Describes the limits of a loop, and how much of each is used.
fn describe_limits(row: &LoopRow) -> String {
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
    rows: &[TeamMessageRow],
) -> Vec<String> {
    let head = [
        ("NO", ColumnFit::Whole),
        ("STATUS", ColumnFit::Whole),
        ("KIND", ColumnFit::Whole),
        ("FROM", ColumnFit::Start),
        ("CHANNEL", ColumnFit::Whole),
        ("TRUST", ColumnFit::Whole),
        ("TO", ColumnFit::Start),
        ("AGE", ColumnFit::Whole),
        ("TEXT", ColumnFit::Start),
    ];
    let mut table = Table::new(&head).with_optional(&["AGE", "KIND", "CHANNEL"]);
    for row in rows {
        let tone = match row.status.known() {
            Some(MessageStatusKind::Dead | MessageStatusKind::Expired) => Tone::Bad,
            Some(MessageStatusKind::Acknowledged) => Tone::Good,
            Some(MessageStatusKind::Cancelled) => Tone::Dim,
            Some(
                MessageStatusKind::Stored
                | MessageStatusKind::Offered
                | MessageStatusKind::Accepted,
            )
            | None => Tone::Live,
        };
        let text = show_message_text(&row.from, &row.text);
        let reason = row.reason.as_deref().map(|reason| format!(" · {}", escape_line(reason)));
        let text = format!(
            "{}{text}{}",
            escape_line(&message_prefix(now_ms, row)),
            reason.unwrap_or_default()
        );
        table.row([
            (Tone::Bold, row.no.to_string()),
            (tone, escape_line(&row.status)),
            (Tone::Plain, escape_line(&row.kind)),
            (Tone::Plain, escape_line(&row.from)),
            (Tone::Plain, escape_line(&row.channel)),
            (Tone::Plain, escape_line(&row.trust)),
            (Tone::Plain, escape_line(&row.to)),
            (Tone::Dim, age(now_ms, row.stored_at)),
            (Tone::Plain, clip(&text, LINE_WIDTH)),
        ]);
    }
    table.lines(paint, screen)
}

/// Shows the text of a message on a single line. The line breaks of Provost's own messages have no meaning. Such
/// messages quote all text by other authors.
pub(super) fn show_message_text(from: &str, text: &str) -> String {
    if from == TeamActor::Provost.name() { join_lines(text) } else { escape_line(text) }
}

/// Returns a prefix to the text of a message that describes its unusual properties: the iteration that the message
/// starts, its priority and its expiry.
fn message_prefix(now_ms: i64, row: &TeamMessageRow) -> String {
    let iteration = row.iteration.map(|no| format!("starts iteration {no}"));
    let priority = Some(&row.priority).filter(|word| !matches!(word.as_str(), "" | "normal"));
    let waits = if row.status == MessageStatusKind::Stored { row.expires_at } else { None };
    let expires = waits.map(|at| format!("expires in {}", age(at, now_ms)));
    let terms = [iteration, priority.cloned(), expires].into_iter().flatten();
    let terms = terms.collect::<Vec<_>>().join(", ");
    if terms.is_empty() { terms } else { format!("[{terms}] ") }
}

/// Describes the new status of a message after a change.
pub(crate) fn message_change_line(task: &TeamHeadRow, message: &TeamMessageRow) -> String {
    let (to, status) = (escape_line(&message.to), escape_line(&message.status));
    format!("message {} for {to} of {} is {status}", message.no, escape_line(&task.name))
}

/// Describes the result of a change: the row that changed or, if no single row did, the team's status.
pub(crate) fn team_change_lines(paint: Paint, row: &TeamRow, reply: &Value) -> Vec<String> {
    let (tone, state) = describe_team_state(row);
    let name = escape_line(&row.name);
    let task = format!("{} {name} {}", short_id(&row.id), paint.paint(tone, &state));
    let read = |what: &str| reply.get(what).cloned();
    if let Some(row) =
        read("criterion").and_then(|row| serde_json::from_value::<CriterionRow>(row).ok())
    {
        return vec![format!("criterion {}", describe_criterion(paint, &row))];
    }
    if let Some(order) = reply.get("ordered") {
        let text = |field: &str| escape_line(order[field].as_str().unwrap_or_default());
        return vec![format!("asked {} of {name} to {}", text("member"), text("what"))];
    }
    // Once the team is done, show where its work is.
    let places = if row.state == TeamStateName::Done { work_locations(row) } else { Vec::new() };
    [task].into_iter().chain(places.iter().map(|place| format!("  {place}"))).collect()
}

/// Describes the heartbeats for members that Provost cannot wake, and how to remove these heartbeats.
pub(crate) fn heartbeat_lines(row: &HeartbeatRow) -> Vec<String> {
    let teardown = &row.teardown;
    let mut lines = vec![
        format!("every {} minutes, if {}", row.interval_minutes, escape_line(&row.applies_when)),
        escape_line(&row.note),
        format!("removed by {}: {}", escape_line(&teardown.owner), escape_line(&teardown.rule)),
        format!("  {}", escape_line(&teardown.finish_command)),
    ];
    let beats = row.manager.iter().chain(&row.worker).chain(&row.others);
    for MemberHeartbeatRow { member, prompt, .. } in beats {
        lines.push(String::new());
        lines.push(format!("for {}:", escape_line(member)));
        lines.extend(escape_block(prompt).lines().map(|line| format!("  {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_provosts_messages_are_joined() {
        let text = "message 8 was not handled\n  \u{1b}[2J";
        assert_eq!(show_message_text("provost", text), "message 8 was not handled ␛[2J");
        assert_eq!(show_message_text("hand", text), "message 8 was not handled␊  ␛[2J");
    }
}
