//! Finds teams, sessions, runs, pairs and events by search terms, through the index alone.

use std::ops::ControlFlow;

use provost_api::{
    ApiError, Code, HitRow, MemberRow, RunRow, SearchReply, SessionRow, StandingTaskRow,
};
use provost_core::{
    ids::SessionId,
    run, session,
    task::{self, Caller},
};
use provost_ledger::{By, CardRef, ReadLedger, RecordedRef, Sought, StreamId};

use super::told;
use crate::{
    shell::unread,
    stream::{RUN, SESSION, TASK},
    words,
};

/// A kind of search result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    Tasks,
    Sessions,
    Runs,
    /// The members of teams.
    Pairs,
    Events,
}

impl Within {
    pub const ALL: [Within; 5] =
        [Within::Tasks, Within::Sessions, Within::Runs, Within::Pairs, Within::Events];

    pub fn word(self) -> &'static str {
        match self {
            Within::Tasks => "tasks",
            Within::Sessions => "sessions",
            Within::Runs => "runs",
            Within::Pairs => "pairs",
            Within::Events => "events",
        }
    }
}

/// Finds everything that has all terms, the newest of each kind first.
pub fn search(
    ledger: &dyn ReadLedger,
    text: &str,
    within: &[Within],
    limit: usize,
    caller: &Caller,
) -> Result<SearchReply, ApiError> {
    let Some(sought) = Sought::new(text) else {
        let message = format!("\"{text}\" has no search terms: expected letters or digits");
        return Err(ApiError::new(Code::BadRequest, message).next("provost search WORDS"));
    };
    let (mut hits, mut more) = (Vec::new(), Vec::new());
    for place in within {
        // One more than the limit shows whether there are more.
        let mut found = match place {
            Within::Tasks => streams(ledger, TASK, By::Words(&sought), limit + 1, task_hit)?,
            Within::Sessions => sessions(ledger, &sought, limit + 1)?,
            Within::Runs => streams(ledger, RUN, By::Words(&sought), limit + 1, run_hit)?,
            Within::Pairs => pairs(ledger, &sought, limit + 1)?,
            Within::Events => events(ledger, &sought, limit + 1)?,
        };
        if found.len() > limit {
            found.truncate(limit);
            more.push(place.word().to_owned());
        }
        hits.extend(found);
    }
    // Projections are written for users who have Provost on their path.
    for hit in hits.iter_mut().filter_map(|hit: &mut HitRow| hit.communication.as_mut()) {
        hit.receive_command = hit.receive_command.as_deref().map(|one| caller.says(one));
    }
    Ok(SearchReply { ok: true, hits, more })
}

fn streams(
    ledger: &dyn ReadLedger,
    kind: &str,
    by: By<'_>,
    limit: usize,
    hit: impl Fn(&CardRef<'_>) -> Option<HitRow>,
) -> Result<Vec<HitRow>, ApiError> {
    let mut hits = Vec::new();
    let found = ledger.find_streams(kind, by, limit, &mut |card| {
        hits.extend(hit(&card));
        ControlFlow::Continue(())
    });
    if found.map_err(|why| unread(&why))? {
        Ok(hits)
    } else {
        let message = "the ledger has no search index yet; a running daemon builds it";
        Err(ApiError::new(Code::Refused, message).next("provost daemon status"))
    }
}

fn read<T: serde::de::DeserializeOwned>(card: &CardRef<'_>) -> Option<T> {
    serde_json::from_str(card.card.as_deref()?).ok()
}

/// Returns a hit with only its identity filled in.
fn hit(within: Within, id: &str, name: &str, state: &str, archived: bool) -> HitRow {
    HitRow {
        within: within.word().to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
        state: Some(state.to_owned()),
        archived,
        member: None,
        role: None,
        communication: None,
        seq: None,
        at: None,
        kind: None,
        what: None,
        next: Vec::new(),
    }
}

fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

fn look_back(id: &str) -> Vec<String> {
    let id = short(id);
    vec![format!("provost replay {id}"), format!("provost audit {id}")]
}

fn task_hit(card: &CardRef<'_>) -> Option<HitRow> {
    let row: StandingTaskRow = read(card)?;
    let next = [format!("provost task show {}", short(&row.id))];
    let next = next.into_iter().chain(look_back(&row.id)).collect();
    Some(HitRow { next, ..hit(Within::Tasks, &row.id, &row.name, &row.state, card.archived) })
}

fn run_hit(card: &CardRef<'_>) -> Option<HitRow> {
    let row: RunRow = read(card)?;
    let id = short(&row.id);
    let next = vec![format!("provost status {id}"), format!("provost events {id}")];
    Some(HitRow { next, ..hit(Within::Runs, &row.id, &row.name, &row.state, card.archived) })
}

fn sessions(
    ledger: &dyn ReadLedger,
    sought: &Sought,
    limit: usize,
) -> Result<Vec<HitRow>, ApiError> {
    let mut found = streams(ledger, SESSION, By::Words(sought), limit, session_hit)?;
    for hit in &mut found {
        let member = member_of(ledger, &hit.id)?;
        hit.member = member.as_ref().map(|member| member.name.clone());
        hit.role = member.as_ref().map(|member| member.role.clone()).or(hit.role.take());
        if let Some(member) = member {
            hit.communication = Some(member.communication);
        }
    }
    Ok(found)
}

fn session_hit(card: &CardRef<'_>) -> Option<HitRow> {
    let row: SessionRow = read(card)?;
    let id = short(&row.id);
    let mut next = vec![format!("provost status {id}"), format!("provost logs {id}")];
    if !row.terminal {
        next.push(format!("provost send {id} TEXT"));
    }
    let found = hit(Within::Sessions, &row.id, &row.name, &row.state, card.archived);
    Some(HitRow { role: row.role, communication: row.communication, next, ..found })
}

/// Returns the member that a session is bound to, in the newest open team.
fn member_of(ledger: &dyn ReadLedger, id: &str) -> Result<Option<MemberRow>, ApiError> {
    let Ok(SessionId(uuid)) = id.parse::<SessionId>() else { return Ok(None) };
    let Some(sought) = Sought::new(&uuid.simple().to_string()) else { return Ok(None) };
    let mut member = None;
    let found = ledger.find_streams(TASK, By::Parts(&sought), 10, &mut |card| {
        // Members of a closed team receive nothing any more.
        let row: Option<StandingTaskRow> =
            read(&card).filter(|row: &StandingTaskRow| !row.terminal);
        let members = row.into_iter().flat_map(|row| row.members);
        member = members
            .filter(|member| !member.left)
            .find(|member| member.session.as_deref() == Some(id));
        match member {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    found.map_err(|why| unread(&why))?;
    Ok(member)
}

fn pairs(ledger: &dyn ReadLedger, sought: &Sought, limit: usize) -> Result<Vec<HitRow>, ApiError> {
    let mut hits: Vec<HitRow> = Vec::new();
    let found = ledger.find_streams(TASK, By::Parts(sought), limit, &mut |card| {
        let row: Option<StandingTaskRow> = read(&card);
        hits.extend(row.into_iter().flat_map(|row| pair_hits(&row, sought, card.archived)));
        if hits.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    found.map_err(|why| unread(&why))?;
    Ok(hits)
}

fn pair_hits(row: &StandingTaskRow, sought: &Sought, archived: bool) -> Vec<HitRow> {
    let fits = |member: &&MemberRow| {
        let session = member.session.as_ref().map(|session| session.replace('-', ""));
        let labels = [member.thread.as_deref(), member.title.as_deref(), session.as_deref()];
        let texts = [Some(member.name.as_str()), Some(member.role.as_str())];
        sought.fits(&words::of_member(&row.name, texts.into_iter().chain(labels)))
    };
    let show = |member: &MemberRow| {
        let next = [format!("provost task show {}", short(&row.id))];
        let takes = !member.left && !row.terminal;
        let communication = takes.then(|| member.communication.clone());
        let receive = communication.as_ref().and_then(|how| how.receive_command.clone());
        HitRow {
            member: Some(member.name.clone()),
            role: Some(member.role.clone()),
            communication,
            next: next.into_iter().chain(receive).collect(),
            ..hit(Within::Pairs, &row.id, &row.name, &row.state, archived)
        }
    };
    row.members.iter().filter(fits).map(show).collect()
}

fn events(ledger: &dyn ReadLedger, sought: &Sought, limit: usize) -> Result<Vec<HitRow>, ApiError> {
    let mut hits = Vec::new();
    for kind in [TASK, SESSION, RUN] {
        ledger
            .find_events(kind, sought, limit, &mut |record| {
                hits.push(event_hit(&record));
                ControlFlow::Continue(())
            })
            .map_err(|why| unread(&why))?;
    }
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.seq));
    hits.truncate(limit);
    for hit in &mut hits {
        name(ledger, hit)?;
    }
    Ok(hits)
}

fn event_hit(record: &RecordedRef<'_>) -> HitRow {
    let (kind, id) = record.stream.split_once('/').unwrap_or_default();
    let what = match kind {
        TASK => task::Event::decode(record.kind, record.v, record.data)
            .ok()
            .map(|event| told::of_task(&event).what),
        SESSION => session::Event::decode(record.kind, record.v, record.data)
            .ok()
            .and_then(|event| Some(told::of_session(&event)?.what)),
        _ => run::Event::decode(record.kind, record.v, record.data)
            .ok()
            .map(|event| event.kind().0.replace(['.', '_'], " ")),
    };
    let short = short(id);
    let next = match kind {
        TASK => vec![
            format!("provost replay {short} --as timeline"),
            format!("provost status {short} --at {}", record.seq),
        ],
        _ => vec![
            format!("provost events {short}"),
            format!("provost status {short} --at {}", record.seq),
        ],
    };
    HitRow {
        state: None,
        seq: Some(record.seq),
        at: Some(record.at.wall_ms),
        kind: Some(record.kind.to_owned()),
        what,
        next,
        // Replaced by the name of the stream's owner in name().
        name: record.stream.to_owned(),
        ..hit(Within::Events, id, "", "", false)
    }
}

/// Replaces the stream in a hit by the name of the session, run or team.
fn name(ledger: &dyn ReadLedger, hit: &mut HitRow) -> Result<(), ApiError> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    let Ok(stream) = StreamId::new(hit.name.clone()) else { return Ok(()) };
    let state = ledger.stream(&stream).map_err(|why| unread(&why))?;
    let card = state.and_then(|state| state.card);
    let named = card.and_then(|card| serde_json::from_str::<Named>(&card).ok());
    hit.name = named.map(|named| named.name).unwrap_or_default();
    Ok(())
}
