//! A team's history in only a few rows: one per message, criterion and session, and one per decisive event.

use std::collections::BTreeMap;

use provost_api::HistoryRow;
use provost_core::team::{CriterionEvent, Event, MessageEvent};

use super::replay::TeamHistory;
use crate::stream::TEAM;

/// The latest status of a message.
struct MessageOutcome {
    status: &'static str,
    offers: u32,
    at: u64,
}

pub(super) fn summary_rows(past: &TeamHistory) -> Vec<HistoryRow> {
    let came = message_outcomes(past);
    let own = past.entries.iter().map(|one| &one.row).filter(|row| row.stream == TEAM);
    let mut rows: Vec<HistoryRow> = own
        .filter_map(|row| match row.kind.as_str() {
            "team.message_stored" => {
                let came = row.message.and_then(|no| came.get(&no));
                Some(
                    came.map_or_else(|| row.clone(), |came| with_suffix(row, outcome_suffix(came))),
                )
            }
            "team.criterion_proposed" => Some(with_suffix(row, criterion_suffix(past, row))),
            kind => is_decisive(kind).then(|| row.clone()),
        })
        .collect();
    rows.extend(session_rows(past));
    rows.sort_by_key(|row| row.seq);
    rows
}

fn with_suffix(row: &HistoryRow, more: String) -> HistoryRow {
    HistoryRow { what: format!("{}{more}", row.what), ..row.clone() }
}

fn outcome_suffix(came: &MessageOutcome) -> String {
    let offers =
        if came.offers > 1 { format!(" after {} offers", came.offers) } else { String::new() };
    format!(": {}{offers} (event {})", came.status, came.at)
}

/// Describes the state that a criterion reached.
#[expect(clippy::wildcard_enum_match_arm, reason = "only proposals are looked for")]
fn criterion_suffix(past: &TeamHistory, row: &HistoryRow) -> String {
    let proposed = past.events.iter().find_map(|(record, event)| match event {
        Event::Criterion(CriterionEvent::CriterionProposed(e)) if record.seq == row.seq => {
            Some(e.no)
        }
        _ => None,
    });
    let criterion = proposed.and_then(|no| past.task.criterion(no));
    criterion.map(|criterion| format!(": {}", criterion.state.as_str())).unwrap_or_default()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only messages are followed here")]
fn message_outcomes(past: &TeamHistory) -> BTreeMap<u32, MessageOutcome> {
    let mut all: BTreeMap<u32, MessageOutcome> = BTreeMap::new();
    for (record, event) in &past.events {
        let (no, status, offers) = match event {
            Event::Message(MessageEvent::MessageStored(e)) => (e.no, "stored", None),
            Event::Message(MessageEvent::MessageOffered(e)) => (e.no, "offered", Some(e.lease.no)),
            Event::Message(MessageEvent::MessageAccepted(e)) => (e.no, "accepted", None),
            Event::Message(MessageEvent::MessageAcknowledged(e)) => (e.no, "acknowledged", None),
            Event::Message(MessageEvent::MessageReturned(e)) => (e.no, "stored", None),
            Event::Message(MessageEvent::MessageExpired(e)) => (e.no, "expired", None),
            Event::Message(MessageEvent::MessageCancelled(e)) => (e.no, "cancelled", None),
            Event::Message(MessageEvent::MessageDead(e)) => (e.no, "dead", None),
            Event::Message(MessageEvent::MessageRequeued(e)) => (e.no, "stored", None),
            _ => continue,
        };
        let came = all.entry(no).or_insert(MessageOutcome { status, offers: 0, at: record.seq });
        *came = MessageOutcome { status, offers: offers.unwrap_or(came.offers), at: record.seq };
    }
    all
}

/// Whether an event gets a row of its own.
fn is_decisive(kind: &str) -> bool {
    matches!(
        kind,
        "team.opened"
            | "team.phase_changed"
            | "team.member_bound"
            | "team.member_left"
            | "team.member_rotated"
            | "team.check_done"
            | "team.loop_begun"
            | "team.loop_advanced"
            | "team.loop_ended"
            | "team.continuation_refused"
            | "team.action_refused"
            | "team.finish_requested"
            | "team.finish_allowed"
            | "team.finish_refused"
            | "team.work_challenged"
    )
}

fn session_rows(past: &TeamHistory) -> Vec<HistoryRow> {
    let opened = |first: u64| past.entries.iter().map(|one| &one.row).find(|row| row.seq == first);
    let row = |one: &super::replay::MemberSession| {
        let known = one.known.as_ref()?;
        let (session, opened) = (&known.session, opened(known.first)?);
        let what = format!(
            "session of {}: {}, {} turns, {} tokens",
            one.name,
            session.state().as_str(),
            session.spending.turns,
            session.spending.usage.total()
        );
        Some(HistoryRow { what, ..opened.clone() })
    };
    past.sessions.iter().filter_map(row).collect()
}
