//! Idempotency keys: repeating the same change returns the same reply, and a different change under
//! the same key is refused.
//!
//! Returning the first reply for a different change would hide the fact that nothing was done.

use provost_api::{ApiError, ChangedTeamRow, ErrorCode, TeamChangeReply};
use provost_core::{
    ids::{SessionId, TeamId},
    session::{Session, SessionSpec},
    team::{
        CriterionEvent, Event, LoopEvent, LoopTemplate, MemberEvent, MemberRole, TeamChange,
        TeamCommand, TeamSpec,
    },
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

use super::{
    handle::{ChangeResult, EngineReply, EngineRequest},
    owner::Owner,
    team_requests::{self, TeamCaller, TeamRequest},
};
use crate::{board::BoardTransaction, projection, stream};

/// Parts of a spec that are determined again for each request, from the daemon's environment or by
/// discovery.
const VOLATILE_PARTS: [&str; 1] = ["warnings"];

impl Owner {
    /// Returns the stored reply if the key was already used for the same change.
    pub(super) fn repeated_reply(
        &self,
        turn: &BoardTransaction<'_>,
        ask: &EngineRequest,
        stored: &str,
    ) -> ChangeResult {
        if let EngineRequest::Team(TeamRequest::Command { command, by, .. }) = ask {
            let reply = self.repeated_team_reply(turn, by, command, parse_stored(stored)?)?;
            return Ok(EngineReply::Team(Box::new(reply)));
        }
        let reply = decode_reply(ask, stored)?;
        let before = reply.subject_id();
        if let EngineRequest::Open { id, spec, .. } = ask {
            let others = before
                .parse()
                .map(|opened| self.spec_differences(turn, opened, *id, spec))
                .unwrap_or_default();
            return if others.is_empty() {
                Ok(reply)
            } else {
                let what = format!("{before}, opened with another {}", others.join(", "));
                Err(key_conflict(&what))
            };
        }
        if let EngineRequest::Team(TeamRequest::Open { id, .. } | TeamRequest::Pair { id, .. }) =
            ask
        {
            let opened = before.parse::<TeamId>().ok();
            let same = opened.is_none_or(|opened| self.is_same_opening(turn, opened, *id, ask));
            return if same {
                Ok(reply)
            } else {
                Err(key_conflict(&format!("another team, {before}")))
            };
        }
        match self.session_of_request(ask).transpose()? {
            Some(id) if before != id.to_string() => Err(key_conflict(before)),
            Some(_) | None => Ok(reply),
        }
    }

    /// Returns the stored reply to a change of a team, updated with the current rows of the changed items.
    fn repeated_team_reply(
        &self,
        turn: &BoardTransaction<'_>,
        by: &TeamCaller,
        command: &TeamCommand,
        kept: StoredTeamReply<TeamChangeReply>,
    ) -> Result<TeamChangeReply, ApiError> {
        if kept.digest != digest(command) {
            return Err(key_conflict("another change of this team"));
        }
        let mut reply = kept.reply;
        let (id, whole) = match &reply.team {
            ChangedTeamRow::Full(row) => (&row.id, true),
            // The reply to a message contains only the short row of its team.
            ChangedTeamRow::Head(row) => (&row.id, false),
        };
        let id = id.parse::<TeamId>().ok();
        let Some(task) = id.and_then(|id| turn.team(id)) else { return Ok(reply) };
        reply.team = match (whole, team_requests::resolve_actor(turn, task.id, by)) {
            (true, Ok(who)) => {
                ChangedTeamRow::Full(Box::new(self.row_in_transaction(turn, task.id, &who)?))
            }
            (_, _) => ChangedTeamRow::Head(projection::team::head_row(task)),
        };
        if let Some(message) = &mut reply.changed.message
            && let Some(current) = task.message(message.no)
        {
            *message = projection::team::message_row(current);
        }
        if let Some(criterion) = &mut reply.changed.criterion
            && let Some(current) = task.criterion(criterion.no)
        {
            *criterion = projection::team::criterion_row(task, current);
        }
        Ok(reply)
    }

    /// Lists the parts of a spec that differ from the spec of an existing session. Empty if that session can no longer
    /// be read, because only the stored reply is left then.
    fn spec_differences(
        &self,
        turn: &BoardTransaction<'_>,
        opened: SessionId,
        id: SessionId,
        spec: &SessionSpec,
    ) -> Vec<String> {
        let loaded = turn.session(opened).map(|session| session.spec.clone());
        match loaded.or_else(|| self.stored_spec(opened)) {
            Some(before) => {
                differences(&normalized_spec(&before, opened), &normalized_spec(spec, id))
            }
            None => Vec::new(),
        }
    }

    /// Whether a team was opened with the same members and terms. True if the team can no longer be read, because only
    /// the stored reply is left then.
    fn is_same_opening(
        &self,
        turn: &BoardTransaction<'_>,
        opened: TeamId,
        id: TeamId,
        ask: &EngineRequest,
    ) -> bool {
        use provost_ledger::ReadLedger as _;
        let EngineRequest::Team(ask) = ask else { return true };
        let mut opening = turn.opening_events(opened).cloned().peekable();
        if opening.peek().is_some() {
            return TeamTerms::from_events(opening).normalized(opened)
                == TeamTerms::from_request(ask).normalized(id);
        }
        let Ok(records) = self.ledger.read_stream(&stream::stream_id(opened), 0) else {
            return true;
        };
        let Some(first) = records.first().map(|record| record.at) else { return true };
        // A team is opened in a single commit.
        let own = records.iter().take_while(|record| record.at == first);
        let events = own.filter_map(|one| Event::decode(&one.kind, one.v, &one.data).ok());
        TeamTerms::from_events(events).normalized(opened)
            == TeamTerms::from_request(ask).normalized(id)
    }

    fn stored_spec(&self, id: SessionId) -> Option<SessionSpec> {
        use provost_ledger::ReadLedger as _;
        let stream = stream::stream_id(id);
        let records = self.ledger.read_stream(&stream, 0).ok()?;
        stream::fold::<Session>(&stream, None, &records).ok().map(|session| session.spec)
    }
}

/// The stored reply to a change of a team, and a digest of the command.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTeamReply<R> {
    /// Identifies the command.
    digest: String,
    reply: R,
}

impl EngineReply {
    /// Returns the id of the session, run or team that the reply is about.
    fn subject_id(&self) -> &str {
        match self {
            EngineReply::SessionOpened(reply) => &reply.id,
            EngineReply::Session(reply) => &reply.session.id,
            EngineReply::Report(reply) => &reply.id,
            EngineReply::Call(reply) => &reply.id,
            EngineReply::Run(reply) => &reply.id,
            EngineReply::TeamOpened(reply) => &reply.id,
            EngineReply::Team(reply) => match &reply.team {
                ChangedTeamRow::Full(row) => &row.id,
                ChangedTeamRow::Head(row) => &row.id,
            },
            EngineReply::NextMessage(reply) => &reply.team,
        }
    }
}

/// Returns the text to store under the key of a change.
pub(super) fn encode_reply(ask: &EngineRequest, reply: &EngineReply) -> String {
    let text = match ask {
        EngineRequest::Team(TeamRequest::Command { command, .. }) => {
            serde_json::to_string(&StoredTeamReply { digest: digest(command), reply })
        }
        EngineRequest::Open { .. }
        | EngineRequest::SessionCommand { .. }
        | EngineRequest::Report { .. }
        | EngineRequest::ToolCall { .. }
        | EngineRequest::OpenRun { .. }
        | EngineRequest::RunCommand { .. }
        | EngineRequest::Team(_) => serde_json::to_string(reply),
    };
    text.expect("a reply has string keys only")
}

/// Parses the stored reply to a change.
fn decode_reply(ask: &EngineRequest, text: &str) -> ChangeResult {
    Ok(match ask {
        EngineRequest::Open { .. } => EngineReply::SessionOpened(parse_stored(text)?),
        EngineRequest::SessionCommand { .. } => EngineReply::Session(parse_stored(text)?),
        EngineRequest::Report { .. } => EngineReply::Report(parse_stored(text)?),
        EngineRequest::ToolCall { .. } => EngineReply::Call(parse_stored(text)?),
        EngineRequest::OpenRun { .. } | EngineRequest::RunCommand { .. } => {
            EngineReply::Run(parse_stored(text)?)
        }
        EngineRequest::Team(TeamRequest::Open { .. } | TeamRequest::Pair { .. }) => {
            EngineReply::TeamOpened(parse_stored(text)?)
        }
        EngineRequest::Team(TeamRequest::Command { .. }) => {
            let stored: StoredTeamReply<Box<TeamChangeReply>> = parse_stored(text)?;
            EngineReply::Team(stored.reply)
        }
        EngineRequest::Team(TeamRequest::Next { .. }) => {
            EngineReply::NextMessage(parse_stored(text)?)
        }
    })
}

fn parse_stored<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|why| {
        ApiError::new(ErrorCode::Internal, format!("cannot parse a stored reply: {why}"))
    })
}

/// Whether the stored text is the reply to this change. If a message differs, the decision is left
/// to its team, which knows every message sent under the key.
pub(super) fn is_answered_by(ask: &EngineRequest, kept: &str) -> bool {
    let EngineRequest::Team(TeamRequest::Command { command, .. }) = ask else { return true };
    let kept = serde_json::from_str::<StoredTeamReply<IgnoredAny>>(kept);
    kept.is_ok_and(|kept| kept.digest == digest(command)) || command.message_key().is_none()
}

/// Returns a digest that identifies a command.
fn digest(command: &TeamCommand) -> String {
    let command = serde_json::to_string(command).unwrap_or_default();
    blake3::hash(command.as_bytes()).to_hex()[..32].to_owned()
}

/// The terms that a team was opened with.
#[derive(Debug, Default, Serialize)]
struct TeamTerms {
    spec: Option<TeamSpec>,
    members: Vec<(String, MemberRole)>,
    criteria: Vec<String>,
    template: Option<LoopTemplate>,
}

impl TeamTerms {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else opens a task")]
    fn from_events(events: impl Iterator<Item = Event>) -> TeamTerms {
        let mut terms = TeamTerms::default();
        for event in events {
            match event {
                Event::Team(TeamChange::TeamOpened(e)) => terms.spec = Some(*e.spec),
                Event::Member(MemberEvent::MemberBound(e)) => terms.members.push((e.name, e.role)),
                Event::Criterion(CriterionEvent::CriterionProposed(e)) => {
                    terms.criteria.push(e.text)
                }
                Event::Loop(LoopEvent::LoopBegun(e)) => terms.template = Some(*e.template),
                _ => {}
            }
        }
        terms
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else opens a task")]
    fn from_request(ask: &TeamRequest) -> TeamTerms {
        match ask {
            TeamRequest::Open { spec, .. } => {
                TeamTerms { spec: Some((**spec).clone()), ..TeamTerms::default() }
            }
            TeamRequest::Pair { start, .. } => TeamTerms {
                spec: Some(start.spec.clone()),
                members: start.members.iter().map(|one| (one.name.clone(), one.role)).collect(),
                criteria: start.criteria.iter().map(|one| one.text.clone()).collect(),
                template: start.template.as_deref().cloned(),
            },
            _ => TeamTerms::default(),
        }
    }

    /// Serializes the terms, except for names that are derived from the team's own id.
    fn normalized(&self, id: TeamId) -> String {
        serde_json::to_string(self).unwrap_or_default().replace(&id.short(), "ID")
    }
}

fn key_conflict(what: &str) -> ApiError {
    let message = format!("the key was already used for {what}, so nothing was changed");
    ApiError::new(ErrorCode::Refused, message).next("use another --key")
}

/// Serializes a spec, except for the parts that differ on every request, which are names derived
/// from the session's id.
fn normalized_spec(spec: &SessionSpec, id: SessionId) -> Value {
    let text = serde_json::to_string(spec).unwrap_or_default().replace(&id.short(), "ID");
    let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
    if let Value::Object(parts) = &mut value {
        parts.retain(|name, _| !VOLATILE_PARTS.contains(&name.as_str()));
    }
    // Patterns with a star were replaced by the variables that the daemon had at that time.
    if let Some(Value::Object(agent)) = value.get_mut("agent") {
        agent.remove("pass_env");
        agent.remove("own_env");
    }
    value
}

/// Lists the parts that differ, using the names of the spec's fields.
fn differences(before: &Value, now: &Value) -> Vec<String> {
    let (Some(before), Some(now)) = (before.as_object(), now.as_object()) else {
        return Vec::new();
    };
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let differs = |name: &&String| before.get(*name) != now.get(*name);
    names.filter(differs).map(|name| part_name(name).to_owned()).collect()
}

/// Returns the user-facing name of a part of a spec.
fn part_name(part: &str) -> &str {
    match part {
        "agent" => "command",
        "work" => "worktree",
        "cwd" => "directory",
        "bounds" => "limit",
        other => other,
    }
}
