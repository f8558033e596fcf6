//! Shows a team's overview for one of its members.

use provost_api::{
    LimitUseRow, OverviewBudgetRow, OverviewMemberRow, OverviewMessagesRow, OverviewRow,
    RecentEventsRow,
};

use super::{
    Paint, Screen, Tone, detail_view::DetailView, team::show_message_text, text::escape_line,
};

/// Shows everything needed to decide on the next step.
pub(crate) fn team_overview(paint: Paint, screen: Screen, cycle: &OverviewRow) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, 0);
    let (team, you) = (&cycle.team, &cycle.you);
    let audited = if team.being_audited { ", final checks running" } else { "" };
    let name = paint.paint(Tone::Bold, &escape_line(&team.name));
    detail.line(&format!("{name} · {}{audited}", escape_line(&team.state)));
    detail.text("goal", &team.goal);
    detail.label("you", &format!("{} ({})", escape_line(&you.name), escape_line(&you.role)));
    for one in &cycle.members {
        show_member(&mut detail, paint, one);
    }
    let criteria = &cycle.criteria;
    if criteria.total != 0 {
        detail.label("criteria", &format!("{} open, of {}", criteria.open, criteria.total));
    }
    for one in &criteria.shown {
        let (state, text) = (escape_line(&one.state), escape_line(&one.text));
        detail.text("open", &format!("criterion {}, {state}: {text}", one.no));
    }
    if let Some(looped) = &cycle.loop_row {
        let at = format!("{} {}/{}", escape_line(&looped.template), looped.iteration, looped.max);
        detail.label("loop", &format!("{at} · {}", escape_line(&looped.recommendation)));
    }
    show_budget(&mut detail, &cycle.budget);
    for one in &cycle.running_checks {
        let (command, purpose) = (escape_line(&one.command), escape_line(&one.purpose));
        detail.text("checking", &format!("`{command}` for {purpose}"));
    }
    show_messages(&mut detail, &cycle.messages);
    for one in &cycle.blockers {
        let (code, text) = (escape_line(&one.code), escape_line(&one.text));
        detail.text("blocker", &format!("{code}: {text}"));
    }
    if let Some(news) = &cycle.new {
        show_news(&mut detail, news);
    }
    for one in &cycle.next {
        detail.text("next", &escape_line(one));
    }
    detail.into_lines()
}

fn show_member(detail: &mut DetailView, paint: Paint, row: &OverviewMemberRow) {
    let name = paint.paint(Tone::Bold, &escape_line(&row.name));
    let cause = row.cause.as_deref().map(|cause| format!(" ({})", escape_line(cause)));
    let state = escape_line(&row.state) + &cause.unwrap_or_default();
    let state = state.replace('_', " ");
    let mut parts = vec![format!("{name} ({}) · {state}", escape_line(&row.role))];
    let flags: Vec<String> = row.flags.iter().map(|flag| escape_line(flag)).collect();
    if !flags.is_empty() {
        parts.push(flags.join(", ").replace('_', " "));
    }
    if let Some(turns) = row.turns {
        parts.push(format!("{turns} turns, {} tokens", row.tokens.unwrap_or_default()));
    }
    detail.label("member", &parts.join(" · "));
    for asked in &row.open_requests {
        detail.text("asks", &escape_line(asked));
    }
    if let Some(says) = &row.says {
        detail.text("says", says);
    }
}

/// Shows how much of each limited budget is used.
fn show_budget(detail: &mut DetailView, row: &OverviewBudgetRow) {
    let looped = row.loop_use.as_ref();
    if let Some(used) = looped.and_then(|looped| describe_usage(looped.tokens, "tokens")) {
        detail.label("budget", &format!("loop · {used}"));
    }
    for one in &row.sessions {
        let used = [describe_usage(one.tokens, "tokens"), describe_usage(one.turns, "turns")];
        let parts: Vec<String> = used.into_iter().flatten().collect();
        if !parts.is_empty() {
            detail.label("budget", &format!("{} · {}", escape_line(&one.member), parts.join(", ")));
        }
    }
}

/// Describes how much of a limit is used. `None` if there is no limit.
fn describe_usage(of: LimitUseRow, word: &str) -> Option<String> {
    let limit = of.limit?;
    Some(match of.used {
        Some(used) => format!("{used} of {limit} {word}"),
        None => format!("at most {limit} {word}"),
    })
}

/// Shows recent events, and the sequence number to use in the next query.
fn show_news(detail: &mut DetailView, news: &RecentEventsRow) {
    let since = match news.since {
        Some(since) => format!("{} events since {since}", news.total),
        None => format!("{} events in all", news.total),
    };
    detail.label("new", &format!("{since}; continue with --since {}", news.seq));
    for one in &news.events {
        let (by, what) = (escape_line(&one.by), escape_line(&one.what));
        detail.text("event", &format!("{} {by}: {what}", one.seq));
    }
}

fn show_messages(detail: &mut DetailView, row: &OverviewMessagesRow) {
    let (own, operator) = (row.waiting_for_you, row.waiting_for_operator);
    detail.label("messages", &format!("{own} wait for you, {operator} for the operator"));
    for one in &row.newest {
        let (from, to) = (escape_line(&one.from), escape_line(&one.to));
        let (status, text) = (escape_line(&one.status), show_message_text(&from, &one.text));
        detail.text("message", &format!("{} {from} → {to}, {status}: {text}", one.no));
    }
}
