//! Shows a team's past: replay, audit, search and telemetry.

use provost_api::{
    AuditReply, CriterionAuditRow, DivergenceRow, HistoryRow, HistorySessionRow, HistoryTeamRow,
    HitRow, MetricsRow, TeamStatsRow, WaitRow,
};

use super::{
    ColumnFit, Paint, Screen, Table, Tone,
    event::format_time,
    format_duration, short_id,
    text::{clip, escape_line},
};
use crate::clock;

/// The column in which a row's description starts, after the number and the time.
const TEXT_AT: usize = 25;

/// The maximum width of a text. It can extend over several lines.
const TEXT_WIDTH: usize = 600;

/// Returns a heading with a team and the sessions that worked for it.
pub(crate) fn history_header(
    paint: Paint,
    screen: Screen,
    task: &HistoryTeamRow,
    sessions: &[HistorySessionRow],
) -> Vec<String> {
    let archived = |archived: bool| if archived { ", archived" } else { "" };
    let name = paint.paint(Tone::Bold, &escape_line(&task.name));
    let state = escape_line(&task.state);
    let mut lines =
        vec![format!("{} {name} · {state}{}", short_id(&task.id), archived(task.archived))];
    for session in sessions {
        let state = session.state.as_deref().unwrap_or("not recorded here").replace('_', " ");
        let branch =
            session.branch.as_deref().map(|branch| format!(" · branch {}", escape_line(branch)));
        lines.push(format!(
            "{} session of {} · {}{}{}",
            short_id(&session.id),
            escape_line(&session.member),
            escape_line(&state),
            archived(session.archived),
            branch.unwrap_or_default()
        ));
    }
    lines.into_iter().flat_map(|line| screen.wrap(&line, 9)).collect()
}

/// Shows the rows of a replay in order.
pub(crate) fn history_lines(paint: Paint, screen: Screen, rows: &[HistoryRow]) -> Vec<String> {
    rows.iter().flat_map(|row| history_line(paint, screen, row)).collect()
}

fn history_line(paint: Paint, screen: Screen, row: &HistoryRow) -> Vec<String> {
    let who = match (&row.member, &row.name) {
        (Some(member), _) => format!("[{}]", escape_line(member)),
        (None, Some(task)) => format!("{} · {}", escape_line(task), escape_line(&row.by)),
        (None, None) => escape_line(&row.by),
    };
    let message = row.message.map(|no| format!("message {no}: ")).unwrap_or_default();
    let what = format!("{message}{}", clip(&escape_line(&row.what), TEXT_WIDTH));
    let tone = if row.refused.is_some() { Tone::Bad } else { Tone::Plain };
    let mut line = format!(
        "{} {}  {}  {}",
        paint.paint(Tone::Dim, &format!("{:>6}", row.seq)),
        paint.paint(Tone::Dim, &format_time(row.at, &clock::local_zone())),
        paint.paint(Tone::Bold, &who),
        paint.paint(tone, &what),
    );
    if let Some(refused) = &row.refused {
        line.push_str(&paint.paint(Tone::Bad, &format!(" ({})", escape_line(refused))));
    }
    if let Some(correlation) = &row.correlation {
        line.push_str(&paint.paint(Tone::Dim, &format!(" #{}", escape_line(correlation))));
    }
    match (&row.text, row.text_bytes) {
        (Some(text), _) => line.push_str(&format!(": {}", clip(&escape_line(text), TEXT_WIDTH))),
        (None, Some(bytes)) => {
            line.push_str(&paint.paint(Tone::Dim, &format!(" … {bytes} bytes")));
        }
        (None, None) => {}
    }
    screen.wrap(&line, TEXT_AT)
}

/// Shows an audit.
pub(crate) fn audit_lines(paint: Paint, screen: Screen, reply: &AuditReply) -> Vec<String> {
    let audited = reply.audited.as_ref().map(|audited| {
        let tree = escape_line(audited.tree.get(..12).unwrap_or(&audited.tree));
        format!("the last audit examined the work of {}, tree {tree}", escape_line(&audited.worker))
    });
    let mut lines: Vec<String> = audited.into_iter().chain([String::new()]).collect();
    lines.extend(reply.actions.iter().flat_map(|row| action_line(paint, screen, row)));
    lines.push(String::new());
    lines.extend(reply.criteria.iter().flat_map(|row| criterion_audit_lines(paint, screen, row)));
    if reply.criteria.is_empty() {
        lines.push("no criteria".to_owned());
    }
    let divergences = reply.divergences.iter();
    lines.extend(divergences.flat_map(|row| divergence_line(paint, screen, row)));
    let refused = reply.actions.iter().filter(|row| row.refused.is_some()).count();
    lines.push(format!(
        "{} actions, {refused} refused, {} divergences",
        reply.actions.len(),
        reply.divergences.len()
    ));
    lines
}

/// Shows an action, and the channel on which Provost received the action.
fn action_line(paint: Paint, screen: Screen, row: &HistoryRow) -> Vec<String> {
    let by = format!("{} by {}", row.by, row.channel);
    history_line(paint, screen, &HistoryRow { by, ..row.clone() })
}

fn criterion_audit_lines(paint: Paint, screen: Screen, row: &CriterionAuditRow) -> Vec<String> {
    let criterion = &row.criterion;
    let receipt = criterion.receipt.as_deref().map(|word| format!(" ({word})"));
    let mut lines = screen.wrap(
        &format!(
            "criterion {} {}{}: {}",
            criterion.no,
            paint.paint(Tone::Bold, &escape_line(&criterion.state)),
            escape_line(&receipt.unwrap_or_default()),
            clip(&escape_line(&criterion.text), TEXT_WIDTH)
        ),
        2,
    );
    for one in &row.judgements {
        let receipt = one.receipt.as_deref().map(|word| format!(", {word}")).unwrap_or_default();
        lines.push(format!("  {} {} by {}{receipt}", one.seq, one.judgement, escape_line(&one.by)));
    }
    for one in &row.receipts {
        let line = format!(
            "  {} `{}`: {} on tree {}",
            one.seq,
            clip(&escape_line(&one.command), TEXT_WIDTH),
            escape_line(&one.end),
            clip(&escape_line(&one.tree), 12)
        );
        lines.extend(screen.wrap(&line, 4));
    }
    lines
}

fn divergence_line(paint: Paint, screen: Screen, row: &DivergenceRow) -> Vec<String> {
    let code = paint.paint(Tone::Warn, &escape_line(&row.code));
    let line = format!(
        "divergence {code}: {} (session {}) {}",
        escape_line(&row.member),
        short_id(&row.session),
        escape_line(&row.text)
    );
    screen.wrap(&line, 2)
}

/// Lists search results, and how each member receives messages. The commands that receive messages are only in the JSON
/// output.
pub(crate) fn hit_lines(paint: Paint, screen: Screen, hits: &[HitRow]) -> Vec<String> {
    let columns = [
        ("IN", ColumnFit::Whole),
        ("ID", ColumnFit::Whole),
        ("NAME", ColumnFit::Start),
        ("WHAT", ColumnFit::Start),
        ("MESSAGES", ColumnFit::Whole),
    ];
    let mut table = Table::new(&columns).with_optional(&["MESSAGES"]);
    for hit in hits {
        let member = hit.member.as_deref().map(|name| format!(" · {name}")).unwrap_or_default();
        let delivery = hit.communication.as_ref().map(|how| match how.receive.as_str() {
            "polls" => "polled",
            "nothing" => "none",
            _ => "pushed",
        });
        let archived = if hit.archived { ", archived" } else { "" };
        table.row([
            (Tone::Dim, escape_line(&hit.within)),
            (Tone::Bold, short_id(&hit.id)),
            (Tone::Plain, clip(&escape_line(&format!("{}{member}", hit.name)), 40)),
            (Tone::Plain, clip(&escape_line(&format!("{}{archived}", describe_hit(hit))), 60)),
            (Tone::Dim, delivery.unwrap_or_default().to_owned()),
        ]);
    }
    table.lines(paint, screen)
}

fn describe_hit(hit: &HitRow) -> String {
    match (hit.seq, &hit.what, &hit.kind, &hit.state) {
        (Some(seq), Some(what), _, _) => format!("event {seq}: {what}"),
        (Some(seq), None, Some(kind), _) => format!("event {seq}: {kind}"),
        (_, _, _, Some(state)) => state.replace('_', " "),
        (_, _, _, None) => String::new(),
    }
}

/// Lists teams with their statistics.
pub(crate) fn team_figure_lines(
    paint: Paint,
    screen: Screen,
    rows: &[TeamStatsRow],
) -> Vec<String> {
    let columns = [
        ("TEAM", ColumnFit::Whole),
        ("NAME", ColumnFit::Start),
        ("STATE", ColumnFit::Whole),
        ("EVENTS", ColumnFit::Whole),
        ("MESSAGES", ColumnFit::Whole),
        ("REFUSALS", ColumnFit::Whole),
        ("ITERATIONS", ColumnFit::Whole),
        ("TOKENS", ColumnFit::Whole),
    ];
    let mut table = Table::new(&columns).with_optional(&["ITERATIONS", "EVENTS"]);
    for row in rows {
        let counts = [row.events, row.messages, row.refusals, row.iterations, row.tokens];
        let names = [
            (Tone::Bold, short_id(&row.id)),
            (Tone::Plain, clip(&escape_line(&row.name), 40)),
            (Tone::Plain, escape_line(&row.state)),
        ];
        let counts = counts.map(|count| (Tone::Plain, count.to_string()));
        table.row(names.into_iter().chain(counts));
    }
    if rows.is_empty() { Vec::new() } else { table.lines(paint, screen) }
}

/// Shows the statistics of all teams combined.
pub(crate) fn metrics_lines(row: &MetricsRow) -> Vec<String> {
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        let parts: Vec<String> =
            counts.iter().map(|(word, count)| format!("{count} {}", escape_line(word))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(" · ") }
    };
    vec![
        format!("messages  {}", counts(&row.messages)),
        format!("stored → accepted  {}", describe_wait(&row.stored_to_accepted_ms)),
        format!("accepted → acknowledged  {}", describe_wait(&row.accepted_to_acknowledged_ms)),
        format!("refusals  {}", counts(&row.refusals)),
        format!("checks  {}", counts(&row.checks)),
        format!("tokens  {}", row.tokens),
    ]
}

fn describe_wait(row: &WaitRow) -> String {
    match (row.p50, row.p95) {
        (Some(p50), Some(p95)) => {
            format!("p50 {}, p95 {}, of {}", format_duration(p50), format_duration(p95), row.count)
        }
        _ => "none".to_owned(),
    }
}
