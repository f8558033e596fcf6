//! Shows a team's overview for one of its members.

use serde_json::Value;

use super::{Paint, Screen, Tone, detail::DetailView, team::show_message_text, text::escape_line};

/// Shows everything needed to decide on the next step. Parts that are missing from the reply are left out.
pub(crate) fn team_overview(paint: Paint, screen: Screen, cycle: &Value) -> Vec<String> {
    let mut detail = DetailView::new(paint, screen, 0);
    let task = &cycle["team"];
    let audited = if task["being_audited"] == true { ", final checks running" } else { "" };
    let name = paint.paint(Tone::Bold, &clean_text(&task["name"]));
    detail.line(&format!("{name} · {}{audited}", clean_text(&task["state"])));
    detail.text("goal", task["goal"].as_str().unwrap_or_default());
    detail.label(
        "you",
        &format!("{} ({})", clean_text(&cycle["you"]["name"]), clean_text(&cycle["you"]["role"])),
    );
    for one in rows(&cycle["members"]) {
        show_member(&mut detail, paint, one);
    }
    let criteria = &cycle["criteria"];
    if criteria["total"] != 0 {
        let counts = format!("{} open, of {}", criteria["open"], criteria["total"]);
        detail.label("criteria", &counts);
    }
    for one in rows(&criteria["shown"]) {
        detail.text(
            "open",
            &format!(
                "criterion {}, {}: {}",
                one["no"],
                clean_text(&one["state"]),
                clean_text(&one["text"])
            ),
        );
    }
    let looped = &cycle["loop"];
    if looped.is_object() {
        let at = format!(
            "{} {}/{}",
            clean_text(&looped["template"]),
            looped["iteration"],
            looped["max"]
        );
        detail.label("loop", &format!("{at} · {}", clean_text(&looped["recommendation"])));
    }
    show_budget(&mut detail, &cycle["budget"]);
    for one in rows(&cycle["running_checks"]) {
        detail.text(
            "checking",
            &format!("`{}` for {}", clean_text(&one["command"]), clean_text(&one["for"])),
        );
    }
    show_messages(&mut detail, &cycle["messages"]);
    for one in rows(&cycle["blockers"]) {
        detail.text(
            "blocker",
            &format!("{}: {}", clean_text(&one["code"]), clean_text(&one["text"])),
        );
    }
    show_news(&mut detail, &cycle["new"]);
    for one in rows(&cycle["next"]) {
        detail.text("next", &clean_text(one));
    }
    detail.into_lines()
}

fn show_member(detail: &mut DetailView, paint: Paint, row: &Value) {
    let name = paint.paint(Tone::Bold, &clean_text(&row["name"]));
    let cause = row["cause"].as_str().map(|cause| format!(" ({})", escape_line(cause)));
    let state = clean_text(&row["state"]) + &cause.unwrap_or_default();
    let state = state.replace('_', " ");
    let mut parts = vec![format!("{name} ({}) · {state}", clean_text(&row["role"]))];
    let flags: Vec<String> = rows(&row["flags"]).map(clean_text).collect();
    if !flags.is_empty() {
        parts.push(flags.join(", ").replace('_', " "));
    }
    if row["turns"].is_number() {
        parts.push(format!("{} turns, {} tokens", row["turns"], row["tokens"]));
    }
    detail.label("member", &parts.join(" · "));
    for asked in rows(&row["open_requests"]) {
        detail.text("asks", &clean_text(asked));
    }
    if let Some(says) = row["says"].as_str() {
        detail.text("says", says);
    }
}

/// Shows how much of each limited budget is used.
fn show_budget(detail: &mut DetailView, row: &Value) {
    let looped = &row["loop"];
    if looped["tokens"]["limit"].is_number() {
        detail.label("budget", &format!("loop · {}", describe_usage(&looped["tokens"], "tokens")));
    }
    for one in rows(&row["sessions"]) {
        let bound = [("tokens", &one["tokens"]), ("turns", &one["turns"])];
        let bound = bound.into_iter().filter(|(_, of)| of["limit"].is_number());
        let parts: Vec<String> = bound.map(|(word, of)| describe_usage(of, word)).collect();
        if !parts.is_empty() {
            detail
                .label("budget", &format!("{} · {}", clean_text(&one["member"]), parts.join(", ")));
        }
    }
}

fn describe_usage(of: &Value, word: &str) -> String {
    match of["used"].as_u64() {
        Some(used) => format!("{used} of {} {word}", of["limit"]),
        None => format!("at most {} {word}", of["limit"]),
    }
}

/// Shows recent events, and the sequence number to use in the next query.
fn show_news(detail: &mut DetailView, row: &Value) {
    let Some(seq) = row["seq"].as_u64() else { return };
    let since = match row["since"].as_u64() {
        Some(since) => format!("{} events since {since}", row["total"]),
        None => format!("{} events in all", row["total"]),
    };
    detail.label("new", &format!("{since}; continue with --since {seq}"));
    for one in rows(&row["events"]) {
        detail.text(
            "event",
            &format!("{} {}: {}", one["seq"], clean_text(&one["by"]), clean_text(&one["what"])),
        );
    }
}

fn show_messages(detail: &mut DetailView, row: &Value) {
    let (own, operator) = (&row["waiting_for_you"], &row["waiting_for_operator"]);
    detail.label("messages", &format!("{own} wait for you, {operator} for the operator"));
    for one in rows(&row["newest"]) {
        let (from, to) = (clean_text(&one["from"]), clean_text(&one["to"]));
        let text = show_message_text(&from, one["text"].as_str().unwrap_or_default());
        detail.text(
            "message",
            &format!("{} {from} → {to}, {}: {text}", one["no"], clean_text(&one["status"])),
        );
    }
}

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn clean_text(value: &Value) -> String {
    escape_line(value.as_str().unwrap_or_default())
}
