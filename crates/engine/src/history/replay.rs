//! The events of a team and of its members' sessions, in order.

use std::collections::BTreeMap;

use provost_api::{ApiError, Hint, HistoryRow, HistorySessionRow, HistoryTeamRow, ReplayReply};
use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    session,
    team::{self, DeliveryMode, MessageChannel, Team, TeamActor},
};
use provost_ledger::{ReadLedger, RecordedEvent, StreamId};

use super::{
    ALL_KINDS, describe, describe::EventDescription, fold_error, not_found, read_whole_stream,
    replay_summary,
};
use crate::{
    audit_actor, projection,
    stream::{self, TEAM},
};

/// The number of bytes of a text to show in one row. The events contain the full text.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// The level of detail of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayForm {
    /// One row for each message, criterion, iteration and session.
    Compact,
    /// One row for each event.
    Timeline,
    /// Only the messages and their authors.
    Transcript,
}

impl ReplayForm {
    pub const ALL: [ReplayForm; 3] =
        [ReplayForm::Compact, ReplayForm::Timeline, ReplayForm::Transcript];

    pub fn as_str(self) -> &'static str {
        match self {
            ReplayForm::Compact => "compact",
            ReplayForm::Timeline => "timeline",
            ReplayForm::Transcript => "transcript",
        }
    }
}

/// Replays the history of a team.
pub fn replay(
    ledger: &dyn ReadLedger,
    id: TeamId,
    form: ReplayForm,
    content: bool,
) -> Result<ReplayReply, ApiError> {
    let past = TeamHistory::read(ledger, id)?;
    let mut rows = match form {
        ReplayForm::Compact => replay_summary::summary_rows(&past),
        ReplayForm::Timeline => past.entries.iter().map(|one| one.row.clone()).collect(),
        ReplayForm::Transcript => {
            let messages = past.entries.iter().filter(|one| one.is_message);
            messages.map(|one| one.row.clone()).collect()
        }
    };
    if !content {
        rows.iter_mut().for_each(redact);
    }
    let (task, sessions) = (past.task_row(), past.session_rows());
    Ok(ReplayReply {
        ok: true,
        team: task,
        sessions,
        form: form.as_str().to_owned(),
        content,
        rows,
    })
}

/// Returns the team's own stream and the streams of all members that the team ever had, and which of these streams are
/// open.
pub fn streams_of(
    ledger: &dyn ReadLedger,
    id: TeamId,
) -> Result<(Vec<StreamId>, Vec<StreamId>), ApiError> {
    let past = TeamHistory::read(ledger, id)?;
    let sessions = past.sessions.iter().filter(|one| one.known.is_some());
    let own = stream::stream_id(id);
    let mut streams = vec![own.clone()];
    streams.extend(sessions.map(|one| stream::stream_id(one.id)));
    let open = past.sessions.iter().filter(|one| one.known.as_ref().is_some_and(|it| it.is_open));
    let mut open: Vec<StreamId> = open.map(|one| stream::stream_id(one.id)).collect();
    if !past.task.is_closed() {
        open.insert(0, own);
    }
    Ok((streams, open))
}

/// Removes the text that a user or agent wrote, but keeps its length.
pub(super) fn redact(row: &mut HistoryRow) {
    row.text = None;
}

/// A team, its events, and those of its members' sessions.
pub(super) struct TeamHistory {
    pub(super) task: Team,
    pub(super) archived: bool,
    pub(super) sessions: Vec<MemberSession>,
    pub(super) entries: Vec<HistoryEntry>,
    /// The team's own events.
    pub(super) events: Vec<(RecordedEvent, team::Event)>,
}

/// The session of a member.
pub(super) struct MemberSession {
    pub(super) id: SessionId,
    pub(super) name: String,
    /// `None` if the ledger contains no events of the session.
    pub(super) known: Option<SessionHistory>,
}

pub(super) struct SessionHistory {
    pub(super) session: session::Session,
    pub(super) archived: bool,
    pub(super) is_open: bool,
    pub(super) first: u64,
}

impl SessionHistory {
    fn branch(&self) -> Option<String> {
        self.session.spec.work.branch().map(str::to_owned)
    }
}

/// One event of the history.
pub(super) struct HistoryEntry {
    pub(super) row: HistoryRow,
    /// Whether the event is a message from a user or agent.
    is_message: bool,
}

impl TeamHistory {
    /// Reads only the streams of a team and its sessions.
    pub(super) fn read(ledger: &dyn ReadLedger, id: TeamId) -> Result<TeamHistory, ApiError> {
        let mut past = TeamHistory::read_team_only(ledger, id)?;
        let links = past.links();
        past.add_session_events(ledger, &links)?;
        past.entries.sort_by_key(|one| one.row.seq);
        Ok(past)
    }

    /// Reads only the stream of the team itself.
    fn read_team_only(ledger: &dyn ReadLedger, id: TeamId) -> Result<TeamHistory, ApiError> {
        let stream = stream::stream_id(id);
        let (records, archived) = read_whole_stream(ledger, &stream)?
            .ok_or_else(|| not_found(ledger, &ALL_KINDS, stream.key()))?;
        let task = stream::fold::<Team>(&stream, None, &records).map_err(|why| fold_error(&why))?;
        let mut past = TeamHistory {
            archived,
            sessions: Vec::new(),
            entries: Vec::new(),
            events: decode_events(records)?,
            task,
        };
        let links = past.links();
        past.add_team_events(&links);
        Ok(past)
    }

    pub(super) fn task_row(&self) -> HistoryTeamRow {
        HistoryTeamRow {
            id: self.task.id.to_string(),
            name: self.task.spec.name.clone(),
            state: self.task.phase.as_str().to_owned(),
            archived: self.archived,
        }
    }

    pub(super) fn session_rows(&self) -> Vec<HistorySessionRow> {
        let row = |one: &MemberSession| HistorySessionRow {
            id: one.id.to_string(),
            member: one.name.clone(),
            state: one.known.as_ref().map(|known| known.session.state().as_str().to_owned()),
            branch: one.known.as_ref().and_then(SessionHistory::branch),
            archived: one.known.as_ref().is_some_and(|known| known.archived),
        };
        self.sessions.iter().map(row).collect()
    }

    /// Maps messages of the team to the keys that its sessions use for them.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only messages are followed here")]
    fn links(&self) -> MessageLinks {
        let mut links = MessageLinks::default();
        for (_, event) in &self.events {
            match event {
                team::Event::Message(team::MessageEvent::MessageStored(e)) => {
                    links.correlations.extend(e.correlation.clone().map(|id| (e.no, id)));
                }
                team::Event::Message(team::MessageEvent::MessageOffered(e)) => {
                    if let DeliveryMode::Push { session, key, .. } = &e.lease.delivery {
                        links.keys.insert((*session, key.clone()), e.no);
                        // The session uses its own key for the message until the next instruction begins.
                        let sent = format!("team-{}-{}-{}", self.task.id.short(), e.no, e.lease.no);
                        links.keys.insert((*session, sent), e.no);
                    }
                }
                _ => {}
            }
        }
        links
    }

    /// Describes some events of a team, given its current state, without reading any others.
    pub(super) fn describe_events(
        task: Team,
        records: Vec<RecordedEvent>,
    ) -> Result<Vec<HistoryRow>, ApiError> {
        let kept = task.messages.iter();
        let correlations: BTreeMap<u32, String> =
            kept.filter_map(|one| Some((one.no, one.correlation.clone()?))).collect();
        let (sessions, entries) = (Vec::new(), Vec::new());
        let events = decode_events(records)?;
        let mut past = TeamHistory { task, archived: false, sessions, entries, events };
        let mut links = past.links();
        links.correlations.extend(correlations);
        past.add_team_events(&links);
        Ok(past.entries.into_iter().map(|one| one.row).collect())
    }

    fn add_team_events(&mut self, links: &MessageLinks) {
        for (record, event) in &self.events {
            let description = describe::describe_with_actor(event, &record.actor);
            self.entries.push(self.entry(record, description, None, links));
        }
    }

    fn add_session_events(
        &mut self,
        ledger: &dyn ReadLedger,
        links: &MessageLinks,
    ) -> Result<(), ApiError> {
        let members: Vec<(SessionId, String)> = self
            .task
            .members
            .iter()
            .filter_map(|member| Some((member.session?, member.name.clone())))
            .collect();
        for (id, name) in members {
            if self.sessions.iter().any(|known| known.id == id) {
                continue;
            }
            let stream = stream::stream_id(id);
            let Some((records, archived)) = read_whole_stream(ledger, &stream)? else {
                self.sessions.push(MemberSession { id, name, known: None });
                continue;
            };
            let session = stream::fold::<session::Session>(&stream, None, &records)
                .map_err(|why| fold_error(&why))?;
            let is_open = !session.is_closed();
            let first = records.first().map_or(0, |record| record.seq);
            for record in &records {
                let event = session::Event::decode(&record.kind, record.v, &record.data).ok();
                if let Some(description) = event.as_ref().and_then(describe::describe_session_event)
                {
                    let happened = self.entry(record, description, Some(&name), links);
                    self.entries.push(happened);
                }
            }
            let known = Some(SessionHistory { session, archived, is_open, first });
            self.sessions.push(MemberSession { id, name, known });
        }
        Ok(())
    }

    fn entry(
        &self,
        record: &RecordedEvent,
        description: EventDescription,
        member: Option<&str>,
        links: &MessageLinks,
    ) -> HistoryEntry {
        let own = record.stream.kind() == TEAM;
        let session = record.stream.key().parse::<SessionId>().ok();
        let linked =
            session.zip(description.key.clone()).and_then(|key| links.keys.get(&key).copied());
        let message = description.message.or(linked);
        let correlation =
            description.correlation.or_else(|| links.correlations.get(&message?).cloned());
        // A message sent by a team is shown only once, as part of the team's stream.
        let is_message = description.is_message && (own || linked.is_none());
        let row = HistoryRow {
            seq: record.seq,
            at: record.at.wall_ms,
            stream: record.stream.kind().to_owned(),
            id: record.stream.key().to_owned(),
            name: None,
            member: member.map(str::to_owned),
            kind: record.kind.clone(),
            by: description.by.unwrap_or_else(|| self.actor_name(&record.actor)),
            channel: description.channel.unwrap_or_else(|| actor_channel(&record.actor)).to_owned(),
            actor: record.actor.clone(),
            what: description.summary,
            message,
            correlation,
            refused: description.refused,
            text_bytes: description.text.as_ref().map(String::len),
            text: description.text.map(|text| projection::session::clip_to(&text, MAX_TEXT_BYTES)),
        };
        HistoryEntry { row, is_message }
    }

    /// Returns the name of the member for a peer whose identity the socket proved.
    fn actor_name(&self, actor: &str) -> String {
        let (proved, member) = audit_actor::split_actor(actor);
        if let Some(member) = member {
            return member.to_owned();
        }
        let launch = proved.strip_prefix("launch/").and_then(|id| id.parse::<LaunchId>().ok());
        let member = launch.and_then(|launch| {
            let mut members = self.task.members.iter().rev();
            members.find(|member| member.session == Some(launch.session))
        });
        member.map_or_else(|| actor.to_owned(), |member| member.name.clone())
    }
}

/// The keys that sessions use for messages, and the messages' correlation ids.
#[derive(Default)]
struct MessageLinks {
    keys: BTreeMap<(SessionId, String), u32>,
    correlations: BTreeMap<u32, String>,
}

/// Returns the channel that an actor used.
pub(super) fn actor_channel(actor: &str) -> &'static str {
    let (actor, _) = audit_actor::split_actor(actor);
    match actor {
        "operator" => MessageChannel::Cli.as_str(),
        _ if actor == TeamActor::Provost.name() => MessageChannel::Rule.as_str(),
        // If an agent connects to the socket, it typed a command.
        _ if actor.starts_with("launch/") => MessageChannel::Cli.as_str(),
        _ if actor.starts_with(audit_actor::TOOL_PREFIX) || actor.starts_with("hook/") => {
            MessageChannel::Tool.as_str()
        }
        _ => MessageChannel::Rule.as_str(),
    }
}

fn decode_events(
    records: Vec<RecordedEvent>,
) -> Result<Vec<(RecordedEvent, team::Event)>, ApiError> {
    let decode = |record: RecordedEvent| {
        let event = team::Event::decode(&record.kind, record.v, &record.data);
        event.map(|event| (record, event))
    };
    let events: Result<Vec<_>, _> = records.into_iter().map(decode).collect();
    events.map_err(|why| {
        ApiError::new(provost_api::ErrorCode::Storage, why.to_string()).next(Hint::VerifyLedger)
    })
}
