//! The views of a team's past: replay, audit, search and telemetry.

use provost_api::{
    AuditReply, AuditedRow, DivergenceRow, HitRow, MetricsRow, PastRow, PastSessionRow,
    PastTaskRow, TaskFiguresRow, WaitRow,
};

use super::{
    Fit, Paint, Screen, Table, Tone,
    event::moment,
    short, span,
    text::{clean, clip},
};

/// The width before a row's description: number and time.
const WORDS_AT: usize = 26;

/// The maximum width of a text, over several lines.
const TEXT_WIDTH: usize = 600;

/// Names a team and the sessions that worked for it.
pub(crate) fn past_head(
    paint: Paint,
    screen: Screen,
    task: &PastTaskRow,
    sessions: &[PastSessionRow],
) -> Vec<String> {
    let archived = |archived: bool| if archived { ", archived" } else { "" };
    let name = paint.paint(Tone::Bold, &clean(&task.name));
    let state = clean(&task.state);
    let mut lines =
        vec![format!("{} {name} · {state}{}", short(&task.id), archived(task.archived))];
    for session in sessions {
        let state = session.state.as_deref().unwrap_or("not recorded here").replace('_', " ");
        let branch = session.branch.as_deref().map(|branch| format!(" · branch {}", clean(branch)));
        lines.push(format!(
            "{} session of {} · {}{}{}",
            short(&session.id),
            clean(&session.member),
            clean(&state),
            archived(session.archived),
            branch.unwrap_or_default()
        ));
    }
    lines.into_iter().flat_map(|line| screen.wrap(&line, 9)).collect()
}

/// Shows the rows of a replay in order.
pub(crate) fn past_lines(paint: Paint, screen: Screen, rows: &[PastRow]) -> Vec<String> {
    rows.iter().flat_map(|row| past_line(paint, screen, row)).collect()
}

fn past_line(paint: Paint, screen: Screen, row: &PastRow) -> Vec<String> {
    let who = match (&row.member, &row.name) {
        (Some(member), _) => format!("[{}]", clean(member)),
        (None, Some(task)) => format!("{} · {}", clean(task), clean(&row.by)),
        (None, None) => clean(&row.by),
    };
    let message = row.message.map(|no| format!("message {no}: ")).unwrap_or_default();
    let what = format!("{message}{}", clip(&clean(&row.what), TEXT_WIDTH));
    let tone = if row.refused.is_some() { Tone::Bad } else { Tone::Plain };
    let mut line = format!(
        "{} {}  {}  {}",
        paint.paint(Tone::Dim, &format!("{:>6}", row.seq)),
        paint.paint(Tone::Dim, &moment(row.at)),
        paint.paint(Tone::Bold, &who),
        paint.paint(tone, &what),
    );
    if let Some(refused) = &row.refused {
        line.push_str(&paint.paint(Tone::Bad, &format!(" ({})", clean(refused))));
    }
    if let Some(correlation) = &row.correlation {
        line.push_str(&paint.paint(Tone::Dim, &format!(" #{}", clean(correlation))));
    }
    match (&row.text, row.text_bytes) {
        (Some(text), _) => line.push_str(&format!(": {}", clip(&clean(text), TEXT_WIDTH))),
        (None, Some(bytes)) => {
            line.push_str(&paint.paint(Tone::Dim, &format!(" … {bytes} bytes")));
        }
        (None, None) => {}
    }
    screen.wrap(&line, WORDS_AT)
}

/// Shows an audit.
pub(crate) fn audit_lines(paint: Paint, screen: Screen, reply: &AuditReply) -> Vec<String> {
    let audited = reply.audited.as_ref().map(|audited| {
        let tree = clean(audited.tree.get(..12).unwrap_or(&audited.tree));
        format!("the last audit was of the work of {}, tree {tree}", clean(&audited.worker))
    });
    let mut lines: Vec<String> = audited.into_iter().chain([String::new()]).collect();
    lines.extend(reply.deeds.iter().flat_map(|row| deed_line(paint, screen, row)));
    lines.push(String::new());
    lines.extend(reply.criteria.iter().flat_map(|row| audited_lines(paint, screen, row)));
    if reply.criteria.is_empty() {
        lines.push("no criteria".to_owned());
    }
    let divergences = reply.divergences.iter();
    lines.extend(divergences.flat_map(|row| divergence_line(paint, screen, row)));
    let refused = reply.deeds.iter().filter(|row| row.refused.is_some()).count();
    lines.push(format!(
        "{} actions, {refused} refused, {} divergences",
        reply.deeds.len(),
        reply.divergences.len()
    ));
    lines
}

/// Shows an action with the channel it came through.
fn deed_line(paint: Paint, screen: Screen, row: &PastRow) -> Vec<String> {
    let by = format!("{} by {}", row.by, row.channel);
    past_line(paint, screen, &PastRow { by, ..row.clone() })
}

fn audited_lines(paint: Paint, screen: Screen, row: &AuditedRow) -> Vec<String> {
    let criterion = &row.criterion;
    let receipt = criterion.receipt.as_deref().map(|word| format!(" ({word})"));
    let mut lines = screen.wrap(
        &format!(
            "criterion {} {}{}: {}",
            criterion.no,
            paint.paint(Tone::Bold, &clean(&criterion.state)),
            clean(&receipt.unwrap_or_default()),
            clip(&clean(&criterion.text), TEXT_WIDTH)
        ),
        2,
    );
    for one in &row.judgements {
        let receipt = one.receipt.as_deref().map(|word| format!(", {word}")).unwrap_or_default();
        lines.push(format!("  {} {} by {}{receipt}", one.seq, one.judgement, clean(&one.by)));
    }
    for one in &row.receipts {
        let line = format!(
            "  {} `{}`: {} on tree {}",
            one.seq,
            clip(&clean(&one.command), TEXT_WIDTH),
            clean(&one.end),
            clip(&clean(&one.tree), 12)
        );
        lines.extend(screen.wrap(&line, 4));
    }
    lines
}

fn divergence_line(paint: Paint, screen: Screen, row: &DivergenceRow) -> Vec<String> {
    let code = paint.paint(Tone::Warn, &clean(&row.code));
    let line = format!(
        "divergence {code}: {} (session {}) {}",
        clean(&row.member),
        short(&row.session),
        clean(&row.text)
    );
    screen.wrap(&line, 2)
}

/// Lists search results, and how each member receives messages. The commands for that are only in
/// the JSON output.
pub(crate) fn hit_lines(paint: Paint, screen: Screen, hits: &[HitRow]) -> Vec<String> {
    let columns = [
        ("IN", Fit::Whole),
        ("ID", Fit::Whole),
        ("NAME", Fit::Start),
        ("WHAT", Fit::Start),
        ("MESSAGES", Fit::Whole),
    ];
    let mut table = Table::new(&columns).sparing(&["MESSAGES"]);
    for hit in hits {
        let member = hit.member.as_deref().map(|name| format!(" · {name}")).unwrap_or_default();
        let way = hit.communication.as_ref().map(|how| match how.receive.as_str() {
            "asks" => "polled",
            "nothing" => "none",
            _ => "pushed",
        });
        let archived = if hit.archived { ", archived" } else { "" };
        table.row([
            (Tone::Dim, clean(&hit.within)),
            (Tone::Bold, short(&hit.id)),
            (Tone::Plain, clip(&clean(&format!("{}{member}", hit.name)), 40)),
            (Tone::Plain, clip(&clean(&format!("{}{archived}", what(hit))), 60)),
            (Tone::Dim, way.unwrap_or_default().to_owned()),
        ]);
    }
    table.lines(paint, screen)
}

fn what(hit: &HitRow) -> String {
    match (hit.seq, &hit.what, &hit.kind, &hit.state) {
        (Some(seq), Some(what), _, _) => format!("event {seq}: {what}"),
        (Some(seq), None, Some(kind), _) => format!("event {seq}: {kind}"),
        (_, _, _, Some(state)) => state.replace('_', " "),
        (_, _, _, None) => String::new(),
    }
}

/// Lists teams with their figures.
pub(crate) fn task_figures(paint: Paint, screen: Screen, rows: &[TaskFiguresRow]) -> Vec<String> {
    let columns = [
        ("TASK", Fit::Whole),
        ("NAME", Fit::Start),
        ("STATE", Fit::Whole),
        ("EVENTS", Fit::Whole),
        ("MESSAGES", Fit::Whole),
        ("REFUSALS", Fit::Whole),
        ("ITERATIONS", Fit::Whole),
        ("TOKENS", Fit::Whole),
    ];
    let mut table = Table::new(&columns).sparing(&["ITERATIONS", "EVENTS"]);
    for row in rows {
        let counts = [row.events, row.messages, row.refusals, row.iterations, row.tokens];
        let names = [
            (Tone::Bold, short(&row.id)),
            (Tone::Plain, clip(&clean(&row.name), 40)),
            (Tone::Plain, clean(&row.state)),
        ];
        let counts = counts.map(|count| (Tone::Plain, count.to_string()));
        table.row(names.into_iter().chain(counts));
    }
    if rows.is_empty() { Vec::new() } else { table.lines(paint, screen) }
}

/// Shows the figures of all teams together.
pub(crate) fn metrics(row: &MetricsRow) -> Vec<String> {
    let counts = |counts: &std::collections::BTreeMap<String, u64>| {
        let parts: Vec<String> =
            counts.iter().map(|(word, count)| format!("{count} {}", clean(word))).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(" · ") }
    };
    vec![
        format!("messages  {}", counts(&row.messages)),
        format!("stored → accepted  {}", wait(&row.stored_to_accepted_ms)),
        format!("accepted → acknowledged  {}", wait(&row.accepted_to_acknowledged_ms)),
        format!("refusals  {}", counts(&row.refusals)),
        format!("checks  {}", counts(&row.checks)),
        format!("tokens  {}", row.tokens),
    ]
}

fn wait(row: &WaitRow) -> String {
    match (row.p50, row.p95) {
        (Some(p50), Some(p95)) => {
            format!("p50 {}, p95 {}, of {}", span(p50), span(p95), row.count)
        }
        _ => "none".to_owned(),
    }
}
