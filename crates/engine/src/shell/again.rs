//! Idempotency keys: the same change gets the same reply, a different change is refused.
//!
//! Returning the first reply for a different change would hide that nothing was done.

use provost_api::{ApiError, Code};
use provost_core::{
    ids::{SessionId, StandingId},
    session::Spec,
    task::{Command, Event, Role, TaskSpec, Template},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    handle::Ask,
    owner::Owner,
    tasks::{self, By, TaskAsk},
};
use crate::{board::Turn, stream, task_card};

/// Parts of a spec that are computed anew each time, from the daemon's environment or by discovery.
const MADE_ANEW: [&str; 1] = ["warnings"];

impl Owner {
    /// Returns the stored reply if the key was used for the same change.
    pub(super) fn same_change(
        &self,
        turn: &Turn<'_>,
        ask: &Ask,
        reply: String,
    ) -> Result<String, ApiError> {
        if let Ask::Task(TaskAsk::Do { command, by, .. }) = ask {
            return self.same_deed(turn, by, command, &reply);
        }
        let told: Value = serde_json::from_str(&reply).unwrap_or_default();
        let before = told["id"].as_str().or_else(|| told["session"]["id"].as_str());
        if let Ask::Open { id, spec, .. } = ask {
            let opened = before.and_then(|id| id.parse::<SessionId>().ok());
            return match opened.map(|opened| (opened, self.others(turn, opened, *id, spec))) {
                Some((opened, others)) if !others.is_empty() => {
                    let what = format!("{opened}, opened with another {}", others.join(", "));
                    Err(used_before(&what))
                }
                Some(_) | None => Ok(reply),
            };
        }
        if let Ask::Task(TaskAsk::Open { id, .. } | TaskAsk::Pair { id, .. }) = ask {
            let opened = before.and_then(|id| id.parse::<StandingId>().ok());
            let same = opened.is_none_or(|opened| self.opens_the_same(turn, opened, *id, ask));
            return if same {
                Ok(reply)
            } else {
                Err(used_before(&format!("another team, {}", before.unwrap_or_default())))
            };
        }
        match self.subject(ask).transpose()? {
            Some(id) if before != Some(id.to_string().as_str()) => {
                Err(used_before(before.unwrap_or("another session")))
            }
            Some(_) | None => Ok(reply),
        }
    }

    /// Returns the stored reply to a change of a team, with the current rows of what it changed.
    fn same_deed(
        &self,
        turn: &Turn<'_>,
        by: &By,
        command: &Command,
        kept: &str,
    ) -> Result<String, ApiError> {
        let kept: Kept = serde_json::from_str(kept)
            .map_err(|why| ApiError::new(Code::Internal, format!("a stored reply: {why}")))?;
        if kept.digest != digest(command) {
            return Err(used_before("another change of this team"));
        }
        let mut reply = kept.reply;
        let id = reply["task"]["id"].as_str().and_then(|id| id.parse::<StandingId>().ok());
        let Some(task) = id.and_then(|id| turn.task(id)) else { return Ok(reply.to_string()) };
        // The reply to a message has only the head of its team.
        let whole = reply["task"].get("members").is_some();
        reply["task"] = match (whole, tasks::member_of(turn, task.id, by)) {
            (true, Ok(who)) => json!(self.row_in(turn, task.id, &who)?),
            (_, _) => json!(task_card::head(task)),
        };
        let number = |row: &Value| row["no"].as_u64().and_then(|no| u32::try_from(no).ok());
        if let Some(message) = number(&reply["message"]).and_then(|no| task.message(no)) {
            reply["message"] = json!(task_card::message(message));
        }
        if let Some(criterion) = number(&reply["criterion"]).and_then(|no| task.criterion(no)) {
            reply["criterion"] = json!(task_card::criterion(task, criterion));
        }
        Ok(reply.to_string())
    }

    /// Names the parts of a spec that differ from the one a session was opened with. Empty if that
    /// session cannot be read any more: then only its reply is left.
    fn others(
        &self,
        turn: &Turn<'_>,
        opened: SessionId,
        id: SessionId,
        spec: &Spec,
    ) -> Vec<String> {
        let loaded = turn.session(opened).map(|session| session.spec.clone());
        match loaded.or_else(|| self.stored_spec(opened)) {
            Some(before) => differences(&plain(&before, opened), &plain(spec, id)),
            None => Vec::new(),
        }
    }

    /// Whether a team was opened with the same members and terms. True if it cannot be read any
    /// more: then only its reply is left.
    fn opens_the_same(
        &self,
        turn: &Turn<'_>,
        opened: StandingId,
        id: StandingId,
        ask: &Ask,
    ) -> bool {
        use provost_ledger::ReadLedger as _;
        let Ask::Task(ask) = ask else { return true };
        let mut opening = turn.opening_of_task(opened).cloned().peekable();
        if opening.peek().is_some() {
            return Terms::opened(opening).plain(opened) == Terms::asked(ask).plain(id);
        }
        let Ok(records) = self.ledger.read_stream(&stream::task_stream_id(opened), 0) else {
            return true;
        };
        let Some(first) = records.first().map(|record| record.at) else { return true };
        // A team is opened in one commit.
        let own = records.iter().take_while(|record| record.at == first);
        let events = own.filter_map(|one| Event::decode(&one.kind, one.v, &one.data).ok());
        Terms::opened(events).plain(opened) == Terms::asked(ask).plain(id)
    }

    fn stored_spec(&self, id: SessionId) -> Option<Spec> {
        use provost_ledger::ReadLedger as _;
        let stream = stream::stream_id(id);
        let records = self.ledger.read_stream(&stream, 0).ok()?;
        stream::fold(&stream, None, &records).ok().map(|session| session.spec)
    }
}

/// A stored reply to a change of a team, with a digest of the command.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Identifies the command.
    digest: String,
    reply: Value,
}

/// Returns the text to store under the key of a change.
pub(super) fn kept(ask: &Ask, reply: &str) -> String {
    let Ask::Task(TaskAsk::Do { command, .. }) = ask else { return reply.to_owned() };
    let reply = serde_json::from_str(reply).unwrap_or_default();
    json!(Kept { digest: digest(command), reply }).to_string()
}

/// Whether the stored text answers a change. A message that differs is compared by its team, which
/// knows every message sent under the key.
pub(super) fn is_answered_by(ask: &Ask, kept: &str) -> bool {
    let Ask::Task(TaskAsk::Do { command, .. }) = ask else { return true };
    let same = serde_json::from_str::<Kept>(kept).is_ok_and(|kept| kept.digest == digest(command));
    same || command.message_key().is_none()
}

/// Returns a digest that identifies a command.
fn digest(command: &Command) -> String {
    let command = serde_json::to_string(command).unwrap_or_default();
    blake3::hash(command.as_bytes()).to_hex()[..32].to_owned()
}

/// The terms that identify the opening of a team.
#[derive(Debug, Default, Serialize)]
struct Terms {
    spec: Option<TaskSpec>,
    members: Vec<(String, Role)>,
    criteria: Vec<String>,
    template: Option<Template>,
}

impl Terms {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else opens a task")]
    fn opened(events: impl Iterator<Item = Event>) -> Terms {
        let mut terms = Terms::default();
        for event in events {
            match event {
                Event::TaskOpened(e) => terms.spec = Some(*e.spec),
                Event::MemberBound(e) => terms.members.push((e.name, e.role)),
                Event::CriterionProposed(e) => terms.criteria.push(e.text),
                Event::LoopBegun(e) => terms.template = Some(*e.template),
                _ => {}
            }
        }
        terms
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else opens a task")]
    fn asked(ask: &TaskAsk) -> Terms {
        match ask {
            TaskAsk::Open { spec, .. } => {
                Terms { spec: Some((**spec).clone()), ..Terms::default() }
            }
            TaskAsk::Pair { pairing, .. } => Terms {
                spec: Some(pairing.spec.clone()),
                members: pairing.members.iter().map(|one| (one.name.clone(), one.role)).collect(),
                criteria: pairing.criteria.iter().map(|one| one.text.clone()).collect(),
                template: pairing.template.as_deref().cloned(),
            },
            _ => Terms::default(),
        }
    }

    /// Serializes the terms without the name that was derived from the team's own id.
    fn plain(&self, id: StandingId) -> String {
        serde_json::to_string(self).unwrap_or_default().replace(&id.short(), "ID")
    }
}

fn used_before(what: &str) -> ApiError {
    let message = format!("the key was already used for {what}; nothing was done");
    ApiError::new(Code::Refused, message).next("use another --key")
}

/// Serializes a spec without the parts that differ on every request: names derived from the
/// session's id.
fn plain(spec: &Spec, id: SessionId) -> Value {
    let text = serde_json::to_string(spec).unwrap_or_default().replace(&id.short(), "ID");
    let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
    if let Value::Object(parts) = &mut value {
        parts.retain(|name, _| !MADE_ANEW.contains(&name.as_str()));
    }
    // Names with a star were replaced by the daemon's variables of that time.
    if let Some(Value::Object(agent)) = value.get_mut("agent") {
        agent.remove("pass_env");
        agent.remove("own_env");
    }
    value
}

/// Names the parts that differ, in the spec's terms.
fn differences(before: &Value, now: &Value) -> Vec<String> {
    let (Some(before), Some(now)) = (before.as_object(), now.as_object()) else {
        return Vec::new();
    };
    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
    let differs = |name: &&String| before.get(*name) != now.get(*name);
    names.filter(differs).map(|name| word(name).to_owned()).collect()
}

/// Returns the user-facing name of a part of a spec.
fn word(part: &str) -> &str {
    match part {
        "agent" => "command",
        "work" => "worktree",
        "cwd" => "directory",
        "bounds" => "limit",
        other => other,
    }
}
