//! Finds teams, sessions, runs, members and events by search terms, using only the index.

use std::ops::ControlFlow;

use provost_api::{
    ApiError, ErrorCode, Hint, HitRow, MemberRow, RunRow, SearchReply, SessionRow, TeamAction,
    TeamHint, TeamRow,
};
use provost_core::{
    ids::{SHORT_LEN, SessionId},
    run, session,
    team::{self, ProvostInvocation},
};
use provost_ledger::{Lookup, ProjectionRef, ReadLedger, RecordedEventRef, StreamId, TermQuery};

use super::describe;
use crate::{
    search_terms,
    shell::read_error,
    stream::{RUN, SESSION, TEAM},
};

/// A kind of search result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchScope {
    Teams,
    Sessions,
    Runs,
    /// The members of teams.
    Members,
    Events,
}

impl SearchScope {
    pub const ALL: [SearchScope; 5] = [
        SearchScope::Teams,
        SearchScope::Sessions,
        SearchScope::Runs,
        SearchScope::Members,
        SearchScope::Events,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            SearchScope::Teams => "teams",
            SearchScope::Sessions => "sessions",
            SearchScope::Runs => "runs",
            SearchScope::Members => "members",
            SearchScope::Events => "events",
        }
    }
}

/// Finds everything that matches all terms. Within each kind, the newest results come first.
pub fn search(
    ledger: &dyn ReadLedger,
    text: &str,
    within: &[SearchScope],
    limit: usize,
    caller: &ProvostInvocation,
) -> Result<SearchReply, ApiError> {
    let Some(sought) = TermQuery::new(text) else {
        let message = format!("\"{text}\" has no search terms: expected letters or digits");
        return Err(ApiError::new(ErrorCode::BadRequest, message).next(Hint::Search));
    };
    let (mut hits, mut more) = (Vec::new(), Vec::new());
    for place in within {
        // Read one result more than the limit, to find out whether there are more.
        let mut found = match place {
            SearchScope::Teams => {
                find_streams_of_kind(ledger, TEAM, Lookup::Words(&sought), limit + 1, task_hit)?
            }
            SearchScope::Sessions => find_sessions(ledger, &sought, limit + 1)?,
            SearchScope::Runs => {
                find_streams_of_kind(ledger, RUN, Lookup::Words(&sought), limit + 1, run_hit)?
            }
            SearchScope::Members => find_pairs(ledger, &sought, limit + 1)?,
            SearchScope::Events => find_events(ledger, &sought, limit + 1)?,
        };
        if found.len() > limit {
            found.truncate(limit);
            more.push(place.as_str().to_owned());
        }
        hits.extend(found);
    }
    // Projections are written for users who have Provost on their PATH, so adapt the commands to
    // this caller.
    for hit in hits.iter_mut().filter_map(|hit: &mut HitRow| hit.communication.as_mut()) {
        hit.receive_command = hit.receive_command.as_deref().map(|one| caller.rewrite_command(one));
    }
    Ok(SearchReply { ok: true, hits, more })
}

fn find_streams_of_kind(
    ledger: &dyn ReadLedger,
    kind: &str,
    by: Lookup<'_>,
    limit: usize,
    hit: impl Fn(&ProjectionRef<'_>) -> Option<HitRow>,
) -> Result<Vec<HitRow>, ApiError> {
    let mut hits = Vec::new();
    let found = ledger.find_streams(kind, by, limit, &mut |projection| {
        hits.extend(hit(&projection));
        ControlFlow::Continue(())
    });
    if found.map_err(|why| read_error(&why))? {
        Ok(hits)
    } else {
        let message = "the ledger has no search index yet; a running daemon builds it";
        Err(ApiError::new(ErrorCode::Refused, message).next(Hint::DaemonStatus))
    }
}

fn parse_projection<T: serde::de::DeserializeOwned>(projection: &ProjectionRef<'_>) -> Option<T> {
    serde_json::from_str(projection.projection.as_deref()?).ok()
}

/// Returns a hit in which only the identity is filled in.
fn base_hit(within: SearchScope, id: &str, name: &str, state: &str, archived: bool) -> HitRow {
    HitRow {
        within: within.as_str().to_owned(),
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
    id.get(id.len().saturating_sub(SHORT_LEN)..).unwrap_or(id)
}

fn show_team(id: &str) -> String {
    let team = short(id).to_owned();
    Hint::Team(TeamHint { team, by: None, action: TeamAction::Show }).into()
}

fn history_commands(id: &str) -> Vec<String> {
    let id = short(id);
    [Hint::Replay(id.to_owned()), Hint::Audit(id.to_owned())].map(String::from).to_vec()
}

fn task_hit(projection: &ProjectionRef<'_>) -> Option<HitRow> {
    let row: TeamRow = parse_projection(projection)?;
    let next = [show_team(&row.id)];
    let next = next.into_iter().chain(history_commands(&row.id)).collect();
    Some(HitRow {
        next,
        ..base_hit(SearchScope::Teams, &row.id, &row.name, &row.state, projection.archived)
    })
}

fn run_hit(projection: &ProjectionRef<'_>) -> Option<HitRow> {
    let row: RunRow = parse_projection(projection)?;
    let id = short(&row.id).to_owned();
    let next = [Hint::Status(id.clone()), Hint::Events(id)].map(String::from).to_vec();
    Some(HitRow {
        next,
        ..base_hit(SearchScope::Runs, &row.id, &row.name, &row.state, projection.archived)
    })
}

fn find_sessions(
    ledger: &dyn ReadLedger,
    sought: &TermQuery,
    limit: usize,
) -> Result<Vec<HitRow>, ApiError> {
    let mut found =
        find_streams_of_kind(ledger, SESSION, Lookup::Words(sought), limit, session_hit)?;
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

fn session_hit(projection: &ProjectionRef<'_>) -> Option<HitRow> {
    let row: SessionRow = parse_projection(projection)?;
    let id = short(&row.id).to_owned();
    let mut next = [Hint::Status(id.clone()), Hint::Logs(id.clone())].map(String::from).to_vec();
    if !row.terminal {
        next.push(Hint::Send(id).into());
    }
    let found =
        base_hit(SearchScope::Sessions, &row.id, &row.name, &row.state, projection.archived);
    Some(HitRow { role: row.role, communication: row.communication, next, ..found })
}

/// Returns the member that a session is bound to in the newest open team.
fn member_of(ledger: &dyn ReadLedger, id: &str) -> Result<Option<MemberRow>, ApiError> {
    let Ok(SessionId(uuid)) = id.parse::<SessionId>() else { return Ok(None) };
    let Some(sought) = TermQuery::new(&uuid.simple().to_string()) else { return Ok(None) };
    let mut member = None;
    let found = ledger.find_streams(TEAM, Lookup::Parts(&sought), 10, &mut |projection| {
        // Members of a closed team no longer receive messages.
        let row: Option<TeamRow> =
            parse_projection(&projection).filter(|row: &TeamRow| !row.terminal);
        let members = row.into_iter().flat_map(|row| row.members);
        member = members
            .filter(|member| !member.left)
            .find(|member| member.session.as_deref() == Some(id));
        match member {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    found.map_err(|why| read_error(&why))?;
    Ok(member)
}

fn find_pairs(
    ledger: &dyn ReadLedger,
    sought: &TermQuery,
    limit: usize,
) -> Result<Vec<HitRow>, ApiError> {
    let mut hits: Vec<HitRow> = Vec::new();
    let found = ledger.find_streams(TEAM, Lookup::Parts(sought), limit, &mut |projection| {
        let row: Option<TeamRow> = parse_projection(&projection);
        hits.extend(row.into_iter().flat_map(|row| pair_hits(&row, sought, projection.archived)));
        if hits.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    found.map_err(|why| read_error(&why))?;
    Ok(hits)
}

fn pair_hits(row: &TeamRow, sought: &TermQuery, archived: bool) -> Vec<HitRow> {
    let fits = |member: &&MemberRow| {
        let session = member.session.as_ref().map(|session| session.replace('-', ""));
        let labels = [member.thread.as_deref(), member.title.as_deref(), session.as_deref()];
        let texts = [Some(member.name.as_str()), Some(member.role.as_str())];
        sought.matches(&search_terms::member_terms(&row.name, texts.into_iter().chain(labels)))
    };
    let show = |member: &MemberRow| {
        let next = [show_team(&row.id)];
        let takes = !member.left && !row.terminal;
        let communication = takes.then(|| member.communication.clone());
        let receive = communication.as_ref().and_then(|how| how.receive_command.clone());
        HitRow {
            member: Some(member.name.clone()),
            role: Some(member.role.clone()),
            communication,
            next: next.into_iter().chain(receive).collect(),
            ..base_hit(SearchScope::Members, &row.id, &row.name, &row.state, archived)
        }
    };
    row.members.iter().filter(fits).map(show).collect()
}

fn find_events(
    ledger: &dyn ReadLedger,
    sought: &TermQuery,
    limit: usize,
) -> Result<Vec<HitRow>, ApiError> {
    let mut hits = Vec::new();
    for kind in [TEAM, SESSION, RUN] {
        ledger
            .find_events(kind, sought, limit, &mut |record| {
                hits.push(event_hit(&record));
                ControlFlow::Continue(())
            })
            .map_err(|why| read_error(&why))?;
    }
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.seq));
    hits.truncate(limit);
    for hit in &mut hits {
        fill_name(ledger, hit)?;
    }
    Ok(hits)
}

fn event_hit(record: &RecordedEventRef<'_>) -> HitRow {
    let (kind, id) = record.stream.split_once('/').unwrap_or_default();
    let what = match kind {
        TEAM => team::Event::decode(record.kind, record.v, record.data)
            .ok()
            .map(|event| describe::describe_team_event(&event).summary),
        SESSION => session::Event::decode(record.kind, record.v, record.data)
            .ok()
            .and_then(|event| Some(describe::describe_session_event(&event)?.summary)),
        _ => run::Event::decode(record.kind, record.v, record.data)
            .ok()
            .map(|event| event.kind().0.replace(['.', '_'], " ")),
    };
    let short = short(id).to_owned();
    let past = Hint::StatusAt { id: short.clone(), seq: record.seq };
    let events = if kind == TEAM { Hint::ReplayTimeline(short) } else { Hint::Events(short) };
    let next = [events, past].map(String::from).to_vec();
    HitRow {
        state: None,
        seq: Some(record.seq),
        at: Some(record.at.wall_ms),
        kind: Some(record.kind.to_owned()),
        what,
        next,
        // `fill_name` replaces this with the name of the session, run or team.
        name: record.stream.to_owned(),
        ..base_hit(SearchScope::Events, id, "", "", false)
    }
}

/// Replaces the stream id in a hit with the name of the session, run or team.
fn fill_name(ledger: &dyn ReadLedger, hit: &mut HitRow) -> Result<(), ApiError> {
    #[derive(serde::Deserialize)]
    struct NamedProjection {
        name: String,
    }
    let Ok(stream) = StreamId::new(hit.name.clone()) else { return Ok(()) };
    let state = ledger.stream(&stream).map_err(|why| read_error(&why))?;
    let projection = state.and_then(|state| state.projection);
    let named =
        projection.and_then(|projection| serde_json::from_str::<NamedProjection>(&projection).ok());
    hit.name = named.map(|named| named.name).unwrap_or_default();
    Ok(())
}
