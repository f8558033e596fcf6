//! A team's history in few rows: one per message, criterion and session, and one per decisive
//! event.

use std::collections::BTreeMap;

use provost_api::PastRow;
use provost_core::task::Event;

use super::past::Past;
use crate::stream::TASK;

/// The latest status of a message.
struct Came {
    standing: &'static str,
    offers: u32,
    at: u64,
}

pub(super) fn rows(past: &Past) -> Vec<PastRow> {
    let came = messages(past);
    let own = past.happened.iter().map(|one| &one.row).filter(|row| row.of == TASK);
    let mut rows: Vec<PastRow> = own
        .filter_map(|row| match row.kind.as_str() {
            "task.message_stored" => {
                let came = row.message.and_then(|no| came.get(&no));
                Some(came.map_or_else(|| row.clone(), |came| with(row, told(came))))
            }
            "task.criterion_proposed" => Some(with(row, standing(past, row))),
            kind => decides(kind).then(|| row.clone()),
        })
        .collect();
    rows.extend(sessions(past));
    rows.sort_by_key(|row| row.seq);
    rows
}

fn with(row: &PastRow, more: String) -> PastRow {
    PastRow { what: format!("{}{more}", row.what), ..row.clone() }
}

fn told(came: &Came) -> String {
    let offers =
        if came.offers > 1 { format!(" after {} offers", came.offers) } else { String::new() };
    format!(": {}{offers} (event {})", came.standing, came.at)
}

/// Describes the state that a criterion reached.
#[expect(clippy::wildcard_enum_match_arm, reason = "only proposals are looked for")]
fn standing(past: &Past, row: &PastRow) -> String {
    let proposed = past.events.iter().find_map(|(record, event)| match event {
        Event::CriterionProposed(e) if record.seq == row.seq => Some(e.no),
        _ => None,
    });
    let criterion = proposed.and_then(|no| past.task.criterion(no));
    criterion.map(|criterion| format!(": {}", criterion.state.word())).unwrap_or_default()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only messages are followed here")]
fn messages(past: &Past) -> BTreeMap<u32, Came> {
    let mut all: BTreeMap<u32, Came> = BTreeMap::new();
    for (record, event) in &past.events {
        let (no, standing, offers) = match event {
            Event::MessageStored(e) => (e.no, "stored", None),
            Event::MessageOffered(e) => (e.no, "offered", Some(e.lease.no)),
            Event::MessageAccepted(e) => (e.no, "accepted", None),
            Event::MessageAcknowledged(e) => (e.no, "acknowledged", None),
            Event::MessageReturned(e) => (e.no, "stored", None),
            Event::MessageExpired(e) => (e.no, "expired", None),
            Event::MessageCancelled(e) => (e.no, "cancelled", None),
            Event::MessageDead(e) => (e.no, "dead", None),
            Event::MessageRequeued(e) => (e.no, "stored", None),
            _ => continue,
        };
        let came = all.entry(no).or_insert(Came { standing, offers: 0, at: record.seq });
        *came = Came { standing, offers: offers.unwrap_or(came.offers), at: record.seq };
    }
    all
}

/// Whether an event has a row of its own.
fn decides(kind: &str) -> bool {
    matches!(
        kind,
        "task.opened"
            | "task.phase_changed"
            | "task.member_bound"
            | "task.member_left"
            | "task.member_rotated"
            | "task.check_done"
            | "task.loop_begun"
            | "task.loop_advanced"
            | "task.loop_ended"
            | "task.continuation_refused"
            | "task.action_refused"
            | "task.finish_asked"
            | "task.finish_allowed"
            | "task.finish_refused"
            | "task.work_attacked"
    )
}

fn sessions(past: &Past) -> Vec<PastRow> {
    let opened = |first: u64| past.happened.iter().map(|one| &one.row).find(|row| row.seq == first);
    let row = |one: &super::past::Member| {
        let known = one.known.as_ref()?;
        let (session, opened) = (&known.session, opened(known.first)?);
        let what = format!(
            "session of {}: {}, {} turns, {} tokens",
            one.name,
            session.state().word(),
            session.turns,
            session.usage.total()
        );
        Some(PastRow { what, ..opened.clone() })
    };
    past.sessions.iter().filter_map(row).collect()
}
