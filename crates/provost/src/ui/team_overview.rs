//! Shows a team's overview for one of its members.

use serde_json::Value;

use super::{Paint, Screen, Tone, detail::DetailView, text::escape_line};

/// Shows everything needed to decide on the next step. Parts that are missing from the reply are left out.
pub(crate) fn team_overview(paint: Paint, screen: Screen, cycle: &Value) -> Vec<String> {
    let mut card = DetailView::new(paint, screen, 0);
    let task = &cycle["team"];
    let audited = if task["being_audited"] == true { ", final checks running" } else { "" };
    let name = paint.paint(Tone::Bold, &clean_text(&task["name"]));
    card.line(&format!("{name} · {}{audited}", clean_text(&task["state"])));
    card.text("goal", task["goal"].as_str().unwrap_or_default());
    card.label(
        "you",
        &format!("{} ({})", clean_text(&cycle["you"]["name"]), clean_text(&cycle["you"]["role"])),
    );
    for one in rows(&cycle["members"]) {
        show_member(&mut card, paint, one);
    }
    let criteria = &cycle["criteria"];
    if criteria["total"] != 0 {
        let counts = format!("{} open, of {}", criteria["open"], criteria["total"]);
        card.label("criteria", &counts);
    }
    for one in rows(&criteria["shown"]) {
        card.text(
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
        card.label("loop", &format!("{at} · {}", clean_text(&looped["recommendation"])));
    }
    show_budget(&mut card, &cycle["budget"]);
    for one in rows(&cycle["running_checks"]) {
        card.text(
            "checking",
            &format!("`{}` for {}", clean_text(&one["command"]), clean_text(&one["for"])),
        );
    }
    show_messages(&mut card, &cycle["messages"]);
    for one in rows(&cycle["blockers"]) {
        card.text(
            "blocker",
            &format!("{}: {}", clean_text(&one["code"]), clean_text(&one["text"])),
        );
    }
    show_news(&mut card, &cycle["new"]);
    for one in rows(&cycle["next"]) {
        card.text("next", &clean_text(one));
    }
    card.into_lines()
}

fn show_member(card: &mut DetailView, paint: Paint, row: &Value) {
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
    card.label("member", &parts.join(" · "));
    for asked in rows(&row["open_requests"]) {
        card.text("asks", &clean_text(asked));
    }
    if let Some(says) = row["says"].as_str() {
        card.text("says", says);
    }
}

/// Shows how much of each limited budget is used.
fn show_budget(card: &mut DetailView, row: &Value) {
    let looped = &row["loop"];
    if looped["tokens"]["limit"].is_number() {
        card.label("budget", &format!("loop · {}", describe_usage(&looped["tokens"], "tokens")));
    }
    for one in rows(&row["sessions"]) {
        let bound = [("tokens", &one["tokens"]), ("turns", &one["turns"])];
        let bound = bound.into_iter().filter(|(_, of)| of["limit"].is_number());
        let parts: Vec<String> = bound.map(|(word, of)| describe_usage(of, word)).collect();
        if !parts.is_empty() {
            card.label("budget", &format!("{} · {}", clean_text(&one["member"]), parts.join(", ")));
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
fn show_news(card: &mut DetailView, row: &Value) {
    let Some(seq) = row["seq"].as_u64() else { return };
    let since = match row["since"].as_u64() {
        Some(since) => format!("{} events since {since}", row["total"]),
        None => format!("{} events in all", row["total"]),
    };
    card.label("new", &format!("{since}; continue with --since {seq}"));
    for one in rows(&row["events"]) {
        card.text(
            "event",
            &format!("{} {}: {}", one["seq"], clean_text(&one["by"]), clean_text(&one["what"])),
        );
    }
}

fn show_messages(card: &mut DetailView, row: &Value) {
    let (own, operator) = (&row["waiting_for_you"], &row["waiting_for_operator"]);
    card.label("messages", &format!("{own} wait for you, {operator} for the operator"));
    for one in rows(&row["newest"]) {
        let (from, to) = (clean_text(&one["from"]), clean_text(&one["to"]));
        let said = clean_text(&one["text"]);
        card.text(
            "message",
            &format!("{} {from} → {to}, {}: {said}", one["no"], clean_text(&one["status"])),
        );
    }
}

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn clean_text(value: &Value) -> String {
    escape_line(value.as_str().unwrap_or_default())
}
