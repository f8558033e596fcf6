//! Metrics of teams over a time window: message outcomes, latencies, refusals and token usage.

use std::{collections::BTreeMap, ops::ControlFlow};

use provost_api::{
    ApiError, HistoryRow, MetricsRow, TeamRow, TeamStatsRow, TelemetryReply, WaitRow,
};
use provost_core::{
    ids::{SessionId, TeamId},
    team::{CheckEvent, Event, LoopEvent, MemberEvent, MessageEvent, Recipient, Team, TeamChange},
    verdict::CheckEnd,
};
use provost_ledger::{Error, ReadLedger, RecordedEvent, for_each_record_or_damage};

use super::{describe, replay};
use crate::{
    audit_actor,
    shell::read_error,
    stream::{self, TEAM},
};

/// The maximum number of failures to show.
const MAX_FAILURES: usize = 50;

/// The time window to measure, and optionally a single team.
#[derive(Clone, Copy, Debug)]
pub struct TelemetryWindow {
    /// The start and end of the window, in milliseconds since the epoch.
    pub from: i64,
    pub to: i64,
    pub task: Option<TeamId>,
}

/// Counts the events of teams within a window.
pub fn telemetry(
    ledger: &dyn ReadLedger,
    window: TelemetryWindow,
) -> Result<TelemetryReply, ApiError> {
    let mut counted = TelemetryCounts::default();
    match window.task {
        Some(id) => {
            let stream = stream::stream_id(id);
            let records = ledger.read_stream(&stream, 0).map_err(|why| read_error(&why))?;
            let within = records.iter().filter(|one| window.contains(one.at.wall_ms));
            within.for_each(|record| counted.add(record));
            // List the team even if it has no events in the window.
            counted.tasks.entry(id).or_default();
        }
        None => {
            let after = ledger.seq_before(window.from).map_err(|why| read_error(&why))?;
            let is_team = |stream: &str| stream.starts_with("team/");
            let mut damage = None;
            for_each_record_or_damage(ledger, after, &mut |record| match record {
                Ok(record) => {
                    if is_team(record.stream) && window.contains(record.at.wall_ms) {
                        counted.add(&record.to_owned());
                    }
                    ControlFlow::Continue(())
                }
                Err(Error::Unreadable { stream, .. }) if !is_team(stream) => {
                    ControlFlow::Continue(())
                }
                Err(why) => {
                    damage = Some(read_error(why));
                    ControlFlow::Break(())
                }
            })
            .map_err(|why| read_error(&why))?;
            damage.map_or(Ok(()), Err)?;
        }
    }
    counted.reply(ledger, window)
}

/// Returns the member that the actor acted as, or the actor itself.
fn actor_name(actor: &str) -> String {
    let (proved, member) = audit_actor::split_actor(actor);
    member.unwrap_or(proved).to_owned()
}

impl TelemetryWindow {
    fn contains(&self, at: i64) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

#[derive(Default)]
struct TelemetryCounts {
    tasks: BTreeMap<TeamId, TeamFigures>,
    messages: BTreeMap<(TeamId, u32), MessageTimes>,
    refusals: BTreeMap<String, u64>,
    checks: BTreeMap<String, u64>,
    failures: Vec<HistoryRow>,
}

#[derive(Default)]
struct TeamFigures {
    events: u64,
    messages: u64,
    refusals: u64,
    iterations: u64,
}

struct MessageTimes {
    to: Recipient,
    status: &'static str,
    stored: u64,
    accepted: Option<u64>,
    acknowledged: Option<u64>,
}

impl TelemetryCounts {
    fn add(&mut self, record: &RecordedEvent) {
        let Ok(id) = stream::parse_id::<Team>(record.stream.as_str()) else { return };
        let Ok(event) = Event::decode(&record.kind, record.v, &record.data) else { return };
        let figures = self.tasks.entry(id).or_default();
        figures.events += 1;
        figures.messages +=
            u64::from(matches!(event, Event::Message(MessageEvent::MessageStored(_))));
        figures.iterations += u64::from(matches!(event, Event::Loop(LoopEvent::LoopAdvanced(_))));
        self.follow_message(id, record.at.mono_ms, &event);
        if let Event::Check(CheckEvent::CheckDone(e)) = &event {
            *self.checks.entry(check_result_name(&e.receipt.end).to_owned()).or_default() += 1;
        }
        self.add_failure(id, record, &event);
    }

    fn add_failure(&mut self, id: TeamId, record: &RecordedEvent, event: &Event) {
        let description = describe::describe_with_actor(event, &record.actor);
        let failed = matches!(event, Event::Check(CheckEvent::CheckDone(e)) if e.receipt.end != CheckEnd::Exit(0));
        if let Some(code) = &description.refused {
            *self.refusals.entry(code.clone()).or_default() += 1;
            self.tasks.entry(id).or_default().refusals += 1;
        }
        if description.refused.is_none() && !failed {
            return;
        }
        self.failures.push(HistoryRow {
            seq: record.seq,
            at: record.at.wall_ms,
            stream: TEAM.to_owned(),
            id: id.to_string(),
            name: None,
            member: None,
            kind: record.kind.clone(),
            by: description.by.unwrap_or_else(|| actor_name(&record.actor)),
            actor: record.actor.clone(),
            channel: description
                .channel
                .unwrap_or_else(|| replay::actor_channel(&record.actor))
                .to_owned(),
            what: description.summary,
            message: description.message,
            correlation: description.correlation,
            refused: description.refused,
            text: None,
            text_bytes: description.text.map(|text| text.len()),
        });
    }

    /// Returns the messages of a team that are still open.
    fn open_messages(&mut self, id: TeamId) -> impl Iterator<Item = &mut MessageTimes> {
        let all = self.messages.range_mut((id, 0)..=(id, u32::MAX)).map(|(_, message)| message);
        all.filter(|message| matches!(message.status, "stored" | "offered" | "accepted"))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only messages are followed here")]
    fn follow_message(&mut self, id: TeamId, now: u64, event: &Event) {
        let (no, status) = match event {
            Event::Message(MessageEvent::MessageStored(e)) => {
                let (to, status) = (e.to.clone(), "stored");
                let (stored, accepted, acknowledged) = (now, None, None);
                let message = MessageTimes { to, status, stored, accepted, acknowledged };
                self.messages.insert((id, e.no), message);
                return;
            }
            // Open messages are cancelled when the team ends or when the member they were sent to leaves.
            Event::Team(TeamChange::PhaseChanged(e)) if e.phase.is_over() => {
                self.open_messages(id).for_each(|message| message.status = "cancelled");
                return;
            }
            Event::Member(MemberEvent::MemberLeft(e)) => {
                let left = Recipient::Member(e.name.clone());
                for message in self.open_messages(id).filter(|message| message.to == left) {
                    match &e.to {
                        Some(to) => {
                            message.to = Recipient::Member(to.clone());
                            message.status = "stored";
                        }
                        None => message.status = "dead",
                    }
                }
                return;
            }
            Event::Member(MemberEvent::MemberRotated(e)) => {
                let left = Recipient::Member(e.from.clone());
                for message in self.open_messages(id).filter(|message| message.to == left) {
                    message.to = Recipient::Member(e.to.clone());
                    message.status = "stored";
                }
                return;
            }
            Event::Message(MessageEvent::MessageOffered(e)) => (e.no, "offered"),
            Event::Message(MessageEvent::MessageAccepted(e)) => (e.no, "accepted"),
            Event::Message(MessageEvent::MessageAcknowledged(e)) => (e.no, "acknowledged"),
            Event::Message(MessageEvent::MessageReturned(e)) => (e.no, "stored"),
            Event::Message(MessageEvent::MessageExpired(e)) => (e.no, "expired"),
            Event::Message(MessageEvent::MessageCancelled(e)) => (e.no, "cancelled"),
            Event::Message(MessageEvent::MessageDead(e)) => (e.no, "dead"),
            Event::Message(MessageEvent::MessageRequeued(e)) => (e.no, "stored"),
            _ => return,
        };
        // Don't count a message that was stored before the window.
        let Some(message) = self.messages.get_mut(&(id, no)) else { return };
        message.status = status;
        match status {
            "accepted" => message.accepted = Some(now),
            "acknowledged" => message.acknowledged = Some(now),
            _ => {}
        }
    }

    fn reply(
        mut self,
        ledger: &dyn ReadLedger,
        window: TelemetryWindow,
    ) -> Result<TelemetryReply, ApiError> {
        let mut tasks = Vec::new();
        for (id, figures) in &self.tasks {
            tasks.extend(team_figures_row(ledger, *id, figures)?);
        }
        let mut messages: BTreeMap<String, u64> = BTreeMap::new();
        for message in self.messages.values() {
            *messages.entry(message.status.to_owned()).or_default() += 1;
        }
        let accepted =
            self.messages.values().filter_map(|one| Some(one.accepted?.saturating_sub(one.stored)));
        let acknowledged = self
            .messages
            .values()
            .filter_map(|one| Some(one.acknowledged?.saturating_sub(one.accepted?)));
        let metrics = MetricsRow {
            messages,
            stored_to_accepted_ms: wait_row(accepted.collect()),
            accepted_to_acknowledged_ms: wait_row(acknowledged.collect()),
            refusals: self.refusals,
            checks: self.checks,
            tokens: tasks.iter().map(|task: &TeamStatsRow| task.tokens).sum(),
        };
        let old = self.failures.len().saturating_sub(MAX_FAILURES);
        let mut failures = self.failures.split_off(old);
        for row in &mut failures {
            row.name = tasks.iter().find(|task| task.id == row.id).map(|task| task.name.clone());
        }
        let (TelemetryWindow { from, to, .. }, older_failures) = (window, old as u64);
        Ok(TelemetryReply { ok: true, from, to, teams: tasks, failures, older_failures, metrics })
    }
}

fn check_result_name(end: &CheckEnd) -> &'static str {
    match end {
        CheckEnd::Exit(0) => "passed",
        CheckEnd::Exit(_) | CheckEnd::Signal(_) => "failed",
        CheckEnd::TimeLimit | CheckEnd::OutputLimit | CheckEnd::Unfinished(_) => "unfinished",
    }
}

fn team_figures_row(
    ledger: &dyn ReadLedger,
    id: TeamId,
    figures: &TeamFigures,
) -> Result<Option<TeamStatsRow>, ApiError> {
    let state = ledger.stream(&stream::stream_id(id)).map_err(|why| read_error(&why))?;
    let projection = state.and_then(|state| state.projection);
    let Some(row) =
        projection.and_then(|projection| serde_json::from_str::<TeamRow>(&projection).ok())
    else {
        return Ok(None);
    };
    let mut sessions: Vec<&String> =
        row.members.iter().filter_map(|member| member.session.as_ref()).collect();
    sessions.sort();
    sessions.dedup();
    let mut tokens = 0;
    for session in sessions {
        tokens += tokens_used(ledger, session)?;
    }
    Ok(Some(TeamStatsRow {
        id: row.id.clone(),
        name: row.name.clone(),
        state: row.state.to_string(),
        events: figures.events,
        messages: figures.messages,
        refusals: figures.refusals,
        iterations: figures.iterations,
        tokens,
    }))
}

/// Returns the total number of tokens that a session used.
fn tokens_used(ledger: &dyn ReadLedger, session: &str) -> Result<u64, ApiError> {
    #[derive(serde::Deserialize)]
    struct UsageProjection {
        usage: provost_api::UsageRow,
    }
    let Ok(id) = session.parse::<SessionId>() else { return Ok(0) };
    let state = ledger.stream(&stream::stream_id(id)).map_err(|why| read_error(&why))?;
    let projection = state.and_then(|state| state.projection);
    let row =
        projection.and_then(|projection| serde_json::from_str::<UsageProjection>(&projection).ok());
    Ok(row.map_or(0, |row| row.usage.input + row.usage.output))
}

fn wait_row(mut times: Vec<u64>) -> WaitRow {
    times.sort_unstable();
    let share = |percent: usize| {
        let last = times.len().checked_sub(1)?;
        times.get((last * percent).div_ceil(100)).copied()
    };
    WaitRow { count: times.len() as u64, p50: share(50), p95: share(95) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_one_of_the_samples() {
        assert_eq!(wait_row(Vec::new()), WaitRow { count: 0, p50: None, p95: None });
        assert_eq!(wait_row(vec![7]), WaitRow { count: 1, p50: Some(7), p95: Some(7) });
        let many = wait_row((1..=100).rev().collect());
        assert_eq!(many, WaitRow { count: 100, p50: Some(51), p95: Some(96) });
    }
}
