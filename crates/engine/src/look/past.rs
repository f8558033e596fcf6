//! The events of a team and of its members' sessions, in order.

use std::collections::BTreeMap;

use provost_api::{ApiError, NewsRow, PastRow, PastSessionRow, PastTaskRow, ReplayReply};
use provost_core::{
    ids::{LaunchId, SessionId, StandingId},
    session,
    task::{self, Actor, Channel, Task, Way},
};
use provost_ledger::{ReadLedger, Recorded, StreamId};

use super::{compact, nobody, told, told::Told, unfoldable, whole};
use crate::{
    acting, card,
    shell::unread,
    stream::{self, TASK},
};

/// Bytes of a text that one row shows. The events have all of it.
const SHOWN_TEXT: usize = 4 << 10;

/// The level of detail of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One row for each message, criterion, iteration and session.
    Compact,
    /// One row for each event.
    Timeline,
    /// Only the messages and their authors.
    Transcript,
}

impl Form {
    pub fn word(self) -> &'static str {
        match self {
            Form::Compact => "compact",
            Form::Timeline => "timeline",
            Form::Transcript => "transcript",
        }
    }
}

/// Replays a team's history.
pub fn replay(
    ledger: &dyn ReadLedger,
    id: StandingId,
    form: Form,
    content: bool,
) -> Result<ReplayReply, ApiError> {
    let past = Past::read(ledger, id)?;
    let mut rows = match form {
        Form::Compact => compact::rows(&past),
        Form::Timeline => past.happened.iter().map(|one| one.row.clone()).collect(),
        Form::Transcript => {
            let said = past.happened.iter().filter(|one| one.said);
            said.map(|one| one.row.clone()).collect()
        }
    };
    if !content {
        rows.iter_mut().for_each(redact);
    }
    let (task, sessions) = (past.task_row(), past.session_rows());
    Ok(ReplayReply { ok: true, task, sessions, form: form.word().to_owned(), content, rows })
}

/// The maximum number of events that one news reply shows.
const NEW_SHOWN: usize = 20;

/// Returns the events of a team after an event of the ledger, without any text that users or agents
/// wrote: the newest, and the total count. Nothing is marked as read.
pub fn news(
    ledger: &dyn ReadLedger,
    id: StandingId,
    since: Option<u64>,
) -> Result<NewsRow, ApiError> {
    let seq = ledger.last_seq().map_err(|why| unread(&why))?;
    let past = Past::of_task(ledger, id)?;
    let mut rows: Vec<PastRow> = past.happened.into_iter().map(|one| one.row).collect();
    rows.retain(|row| since.is_none_or(|since| row.seq > since));
    let in_all = rows.len();
    let mut shown = rows.split_off(in_all.saturating_sub(NEW_SHOWN));
    shown.iter_mut().for_each(redact);
    Ok(NewsRow { since, seq, in_all, shown })
}

/// Returns the streams of a team (its own and those of all members it ever had), and the open ones
/// among them.
pub fn streams_of(
    ledger: &dyn ReadLedger,
    id: StandingId,
) -> Result<(Vec<StreamId>, Vec<StreamId>), ApiError> {
    let past = Past::read(ledger, id)?;
    let sessions = past.sessions.iter().filter(|one| one.known.is_some());
    let own = stream::task_stream_id(id);
    let mut streams = vec![own.clone()];
    streams.extend(sessions.map(|one| stream::stream_id(one.id)));
    let open = past.sessions.iter().filter(|one| one.known.as_ref().is_some_and(|it| it.is_open));
    let mut open: Vec<StreamId> = open.map(|one| stream::stream_id(one.id)).collect();
    if !past.task.is_closed() {
        open.insert(0, own);
    }
    Ok((streams, open))
}

/// Drops the text that a user or agent wrote. Its length stays.
pub(super) fn redact(row: &mut PastRow) {
    row.text = None;
}

/// A team, its events, and those of its members' sessions.
pub(super) struct Past {
    pub(super) task: Task,
    pub(super) archived: bool,
    pub(super) sessions: Vec<Member>,
    pub(super) happened: Vec<Happened>,
    /// The team's own events.
    pub(super) events: Vec<(Recorded, task::Event)>,
}

/// The session of a member.
pub(super) struct Member {
    pub(super) id: SessionId,
    pub(super) name: String,
    /// `None` if the ledger has no events of the session.
    pub(super) known: Option<Known>,
}

pub(super) struct Known {
    pub(super) session: session::Session,
    pub(super) archived: bool,
    pub(super) is_open: bool,
    pub(super) first: u64,
}

impl Known {
    fn branch(&self) -> Option<String> {
        self.session.spec.work.branch().map(str::to_owned)
    }
}

/// One event of the history.
pub(super) struct Happened {
    pub(super) row: PastRow,
    /// Whether the event is a message of a user or agent.
    said: bool,
}

impl Past {
    /// Reads the streams of a team and its sessions, and nothing else.
    pub(super) fn read(ledger: &dyn ReadLedger, id: StandingId) -> Result<Past, ApiError> {
        let mut past = Past::of_task(ledger, id)?;
        let links = past.links();
        past.add_sessions(ledger, &links)?;
        past.happened.sort_by_key(|one| one.row.seq);
        Ok(past)
    }

    /// Reads the stream of a team alone.
    fn of_task(ledger: &dyn ReadLedger, id: StandingId) -> Result<Past, ApiError> {
        let stream = stream::task_stream_id(id);
        let (records, archived) = whole(ledger, &stream)?.ok_or_else(|| nobody(stream.key()))?;
        let task = stream::fold_task(&stream, None, &records).map_err(|why| unfoldable(&why))?;
        let mut past = Past {
            archived,
            sessions: Vec::new(),
            happened: Vec::new(),
            events: decoded(records)?,
            task,
        };
        let links = past.links();
        past.add_task(&links);
        Ok(past)
    }

    pub(super) fn task_row(&self) -> PastTaskRow {
        PastTaskRow {
            id: self.task.id.to_string(),
            name: self.task.spec.name.clone(),
            state: self.task.phase.word().to_owned(),
            archived: self.archived,
        }
    }

    pub(super) fn session_rows(&self) -> Vec<PastSessionRow> {
        let row = |one: &Member| PastSessionRow {
            id: one.id.to_string(),
            member: one.name.clone(),
            state: one.known.as_ref().map(|known| known.session.state().word().to_owned()),
            branch: one.known.as_ref().and_then(Known::branch),
            archived: one.known.as_ref().is_some_and(|known| known.archived),
        };
        self.sessions.iter().map(row).collect()
    }

    /// Maps messages of the team to the keys under which its sessions know them.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only messages are followed here")]
    fn links(&self) -> Links {
        let mut links = Links::default();
        for (_, event) in &self.events {
            match event {
                task::Event::MessageStored(e) => {
                    links.correlations.extend(e.correlation.clone().map(|id| (e.no, id)));
                }
                task::Event::MessageOffered(e) => {
                    if let Way::Push { session, key, .. } = &e.lease.way {
                        links.keys.insert((*session, key.clone()), e.no);
                        // The session uses its own key until the next instruction begins.
                        let sent = format!("task-{}-{}-{}", self.task.id.short(), e.no, e.lease.no);
                        links.keys.insert((*session, sent), e.no);
                    }
                }
                _ => {}
            }
        }
        links
    }

    fn add_task(&mut self, links: &Links) {
        for (record, event) in &self.events {
            let told = told::done_by(event, &record.actor);
            self.happened.push(self.row(record, told, None, links));
        }
    }

    fn add_sessions(&mut self, ledger: &dyn ReadLedger, links: &Links) -> Result<(), ApiError> {
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
            let Some((records, archived)) = whole(ledger, &stream)? else {
                self.sessions.push(Member { id, name, known: None });
                continue;
            };
            let session = stream::fold(&stream, None, &records).map_err(|why| unfoldable(&why))?;
            let is_open = !session.is_closed();
            let first = records.first().map_or(0, |record| record.seq);
            for record in &records {
                let event = session::Event::decode(&record.kind, record.v, &record.data).ok();
                if let Some(told) = event.as_ref().and_then(told::of_session) {
                    let happened = self.row(record, told, Some(&name), links);
                    self.happened.push(happened);
                }
            }
            let known = Some(Known { session, archived, is_open, first });
            self.sessions.push(Member { id, name, known });
        }
        Ok(())
    }

    fn row(&self, record: &Recorded, told: Told, member: Option<&str>, links: &Links) -> Happened {
        let own = record.stream.kind() == TASK;
        let session = record.stream.key().parse::<SessionId>().ok();
        let linked = session.zip(told.key.clone()).and_then(|key| links.keys.get(&key).copied());
        let message = told.message.or(linked);
        let correlation = told.correlation.or_else(|| links.correlations.get(&message?).cloned());
        // A message that a team sends appears once, in the team's stream.
        let said = told.said && (own || linked.is_none());
        let row = PastRow {
            seq: record.seq,
            at: record.at.wall_ms,
            of: record.stream.kind().to_owned(),
            id: record.stream.key().to_owned(),
            name: None,
            member: member.map(str::to_owned),
            kind: record.kind.clone(),
            by: told.by.unwrap_or_else(|| self.who(&record.actor)),
            channel: told.channel.unwrap_or_else(|| channel(&record.actor)).to_owned(),
            actor: record.actor.clone(),
            what: told.what,
            message,
            correlation,
            refused: told.refused,
            text_bytes: told.text.as_ref().map(String::len),
            text: told.text.map(|text| card::clip_to(&text, SHOWN_TEXT)),
        };
        Happened { row, said }
    }

    /// Returns the member's name for the peer that the socket proved.
    fn who(&self, actor: &str) -> String {
        let (proved, member) = acting::parts(actor);
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

/// The keys of messages in sessions, and their correlation ids.
#[derive(Default)]
struct Links {
    keys: BTreeMap<(SessionId, String), u32>,
    correlations: BTreeMap<u32, String>,
}

/// Returns the channel that an actor used.
pub(super) fn channel(actor: &str) -> &'static str {
    let (actor, _) = acting::parts(actor);
    match actor {
        "operator" => Channel::Cli.word(),
        _ if actor == Actor::Provost.name() => Channel::Rule.word(),
        // An agent that connects to the socket typed a command.
        _ if actor.starts_with("launch/") => Channel::Cli.word(),
        _ if actor.starts_with(acting::TOOL) || actor.starts_with("hook/") => Channel::Tool.word(),
        _ => Channel::Rule.word(),
    }
}

fn decoded(records: Vec<Recorded>) -> Result<Vec<(Recorded, task::Event)>, ApiError> {
    let decode = |record: Recorded| {
        let event = task::Event::decode(&record.kind, record.v, &record.data);
        event.map(|event| (record, event))
    };
    let events: Result<Vec<_>, _> = records.into_iter().map(decode).collect();
    events.map_err(|why| {
        ApiError::new(provost_api::Code::Storage, why.to_string()).next("provost ledger verify")
    })
}
