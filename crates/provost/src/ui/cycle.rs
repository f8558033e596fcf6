//! The overview of a team for one of its members.

use serde_json::Value;

use super::{Paint, Screen, Tone, card::Card, text::clean};

/// Shows everything needed to decide the next step. Missing parts are left out.
pub(crate) fn cycle_card(paint: Paint, screen: Screen, cycle: &Value) -> Vec<String> {
    let mut card = Card::new(paint, screen, 0);
    let task = &cycle["task"];
    let audited = if task["being_audited"] == true { ", being audited" } else { "" };
    let name = paint.paint(Tone::Bold, &text(&task["name"]));
    card.line(&format!("{name} · {}{audited}", text(&task["state"])));
    card.text("goal", task["goal"].as_str().unwrap_or_default());
    card.label(
        "you",
        &format!("{} ({})", text(&cycle["you"]["name"]), text(&cycle["you"]["role"])),
    );
    for one in rows(&cycle["members"]) {
        member(&mut card, paint, one);
    }
    let criteria = &cycle["criteria"];
    if criteria["in_all"] != 0 {
        let counts = format!("{} open, of {}", criteria["open"], criteria["in_all"]);
        card.label("criteria", &counts);
    }
    for one in rows(&criteria["shown"]) {
        card.text(
            "open",
            &format!("criterion {}, {}: {}", one["no"], text(&one["state"]), text(&one["text"])),
        );
    }
    let looped = &cycle["loop"];
    if looped.is_object() {
        let at = format!("{} {}/{}", text(&looped["template"]), looped["iteration"], looped["max"]);
        card.label("loop", &format!("{at} · {}", text(&looped["recommendation"])));
    }
    budget(&mut card, &cycle["budget"]);
    for one in rows(&cycle["checks_that_run"]) {
        card.text("checking", &format!("`{}` for {}", text(&one["command"]), text(&one["for"])));
    }
    messages(&mut card, &cycle["messages"]);
    for one in rows(&cycle["blockers"]) {
        card.text("blocker", &format!("{}: {}", text(&one["code"]), text(&one["text"])));
    }
    news(&mut card, &cycle["new"]);
    for one in rows(&cycle["next"]) {
        card.text("next", &text(one));
    }
    card.into_lines()
}

fn member(card: &mut Card, paint: Paint, row: &Value) {
    let name = paint.paint(Tone::Bold, &text(&row["name"]));
    let cause = row["cause"].as_str().map(|cause| format!(" ({})", clean(cause)));
    let state = text(&row["state"]) + &cause.unwrap_or_default();
    let state = state.replace('_', " ");
    let mut parts = vec![format!("{name} ({}) · {state}", text(&row["role"]))];
    let flags: Vec<String> = rows(&row["flags"]).map(text).collect();
    if !flags.is_empty() {
        parts.push(flags.join(", ").replace('_', " "));
    }
    if row["turns"].is_number() {
        parts.push(format!("{} turns, {} tokens", row["turns"], row["tokens"]));
    }
    card.label("member", &parts.join(" · "));
    for asked in rows(&row["asks_a_person"]) {
        card.text("asks", &text(asked));
    }
    if let Some(says) = row["says"].as_str() {
        card.text("says", says);
    }
}

/// Shows the used part of each budget that has a limit.
fn budget(card: &mut Card, row: &Value) {
    let looped = &row["loop"];
    if looped["tokens"]["limit"].is_number() {
        card.label("budget", &format!("loop · {}", used(&looped["tokens"], "tokens")));
    }
    for one in rows(&row["sessions"]) {
        let bound = [("tokens", &one["tokens"]), ("turns", &one["turns"])];
        let bound = bound.into_iter().filter(|(_, of)| of["limit"].is_number());
        let parts: Vec<String> = bound.map(|(word, of)| used(of, word)).collect();
        if !parts.is_empty() {
            card.label("budget", &format!("{} · {}", text(&one["member"]), parts.join(", ")));
        }
    }
}

fn used(of: &Value, word: &str) -> String {
    match of["used"].as_u64() {
        Some(used) => format!("{used} of {} {word}", of["limit"]),
        None => format!("at most {} {word}", of["limit"]),
    }
}

/// Shows recent events, and where the next query continues.
fn news(card: &mut Card, row: &Value) {
    let Some(seq) = row["seq"].as_u64() else { return };
    let since = match row["since"].as_u64() {
        Some(since) => format!("{} events since {since}", row["in_all"]),
        None => format!("{} events in all", row["in_all"]),
    };
    card.label("new", &format!("{since}; continue with --since {seq}"));
    for one in rows(&row["shown"]) {
        card.text("event", &format!("{} {}: {}", one["seq"], text(&one["by"]), text(&one["what"])));
    }
}

fn messages(card: &mut Card, row: &Value) {
    let (own, operator) = (&row["wait_for_you"], &row["wait_for_the_operator"]);
    card.label("messages", &format!("{own} wait for you, {operator} for the operator"));
    for one in rows(&row["newest"]) {
        let (from, to) = (text(&one["from"]), text(&one["to"]));
        let said = text(&one["text"]);
        card.text(
            "message",
            &format!("{} {from} → {to}, {}: {said}", one["no"], text(&one["standing"])),
        );
    }
}

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    clean(value.as_str().unwrap_or_default())
}
