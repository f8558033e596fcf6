//! Requests about teams, and the replies to them.

mod lookup;
mod queries;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use provost_api::{
    ApiError, ChangedRows, ChangedTeamRow, DraftRow, ErrorCode, Hint, InboxItemRow, NextReply,
    OpenTeamReply, TeamChangeReply, TeamRow,
};
use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    session::{Session, SessionCommand, SessionOpened, SessionRejection, SessionSpec},
    team::{
        Event, EvidenceRequirement, LoopTemplate, MemberLabels, MemberRole, MessageEvent,
        MessageOffered, NewMessage, ProvostInvocation, Team, TeamActor, TeamCommand, TeamRejection,
        TeamSpec,
    },
};
use serde::{Deserialize, Serialize};

pub(super) use self::lookup::resolve_actor;
use super::{
    handle::{ChangeResult, EngineReply},
    owner::Owner,
    refusals::refused_change,
    team_refusals::{error_code, no_team, recorded_refusal, refused_with_hint},
};
use crate::{audit_actor, board::BoardTransaction, projection, report::check_name};

/// The caller of a request about a team, as proved by the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeamCaller {
    Operator,
    /// A user who acts on behalf of a member, or the application in which the member runs.
    Member(String),
    /// An agent. It always acts as the member that its session is bound to, regardless of the name
    /// in the request.
    Launch {
        launch: LaunchId,
        named: Option<String>,
    },
}

impl TeamCaller {
    fn name(&self) -> &str {
        match self {
            TeamCaller::Operator => "operator",
            TeamCaller::Member(name) => name,
            TeamCaller::Launch { named, .. } => named.as_deref().unwrap_or("this agent"),
        }
    }
}

/// Refers to the caller's own team: the one that an agent is bound to, or the only open team.
pub const OWN_TEAM: &str = "@";

/// A new team with its members, criteria, loop and first messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TeamStart {
    pub spec: TeamSpec,
    pub members: Vec<NewMember>,
    /// Criteria from the caller, which are accepted and not just proposed.
    #[serde(default)]
    pub criteria: Vec<NewCriterion>,
    #[serde(default)]
    pub template: Option<Box<LoopTemplate>>,
    #[serde(default)]
    pub posts: Vec<NewMessage>,
}

/// A member of a new team.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMember {
    pub name: String,
    pub role: MemberRole,
    #[serde(default)]
    pub labels: MemberLabels,
    /// The member's session. A member without a session polls for its messages.
    #[serde(default)]
    pub session: Option<NewSession>,
}

/// The session of a new member.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewSession {
    /// An existing session, by id or name.
    Existing(String),
    New {
        id: SessionId,
        spec: Box<SessionSpec>,
    },
}

/// A criterion of a new team.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewCriterion {
    pub text: String,
    #[serde(default)]
    pub rationale: Option<String>,
    pub needs: EvidenceRequirement,
}

/// A change of teams that a caller requests.
#[derive(Debug)]
pub enum TeamRequest {
    Open {
        id: TeamId,
        spec: Box<TeamSpec>,
    },
    /// Opens a team with all of its members, or does nothing.
    Pair {
        id: TeamId,
        start: Box<TeamStart>,
    },
    Command {
        task: String,
        by: TeamCaller,
        command: Box<TeamCommand>,
    },
    /// The next message of the caller.
    Next {
        task: String,
        by: TeamCaller,
    },
}

impl TeamRequest {
    fn team_and_caller(&self) -> Option<(&str, &TeamCaller)> {
        match self {
            TeamRequest::Command { task, by, .. } | TeamRequest::Next { task, by } => {
                Some((task, by))
            }
            TeamRequest::Open { .. } | TeamRequest::Pair { .. } => None,
        }
    }
}

/// For each member, how many of its polls since its last message were empty, and when it last
/// polled, as observed by this daemon. The counts are recorded with the next message that the
/// member accepts, and are not stored before that.
#[derive(Debug, Default)]
pub(super) struct PollCounts(Mutex<HashMap<(TeamId, String), PollCount>>);

#[derive(Clone, Copy, Debug, Default)]
struct PollCount {
    empty_polls: u32,
    at: i64,
}

impl PollCounts {
    fn note(&self, task: TeamId, consumer: &str, at: i64, vain: bool) {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let poll = polls.entry((task, consumer.to_owned())).or_default();
        poll.at = at;
        poll.empty_polls = poll.empty_polls.saturating_add(u32::from(vain));
    }

    fn get(&self, task: TeamId, consumer: &str) -> Option<PollCount> {
        let polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polls.get(&(task, consumer.to_owned())).copied()
    }

    fn reset(&self, task: TeamId, consumer: &str) {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(poll) = polls.get_mut(&(task, consumer.to_owned())) {
            poll.empty_polls = 0;
        }
    }
}

impl Owner {
    /// Decides on a change to a team.
    pub(super) fn change_team(
        &self,
        turn: &mut BoardTransaction<'_>,
        ask: &TeamRequest,
        actor: &str,
    ) -> ChangeResult {
        match ask {
            TeamRequest::Open { id, spec } => self.open_team(turn, *id, spec, actor),
            TeamRequest::Pair { id, start } => self.open_pair(turn, *id, start, actor),
            TeamRequest::Command { task, by, command } => {
                let id = self.resolve_team(task, by)?;
                let who = resolve_actor(turn, id, by)?;
                let unknown = command.bound_session().filter(|id| turn.session(*id).is_none());
                if let Some(session) = unknown {
                    return Err(self.not_loaded(session));
                }
                if let TeamCommand::Rename { name } = &**command {
                    check_name(name)?;
                    check_name_free(turn, name, Some(id))?;
                }
                let audited = audit_actor::encode_actor(actor, &who);
                let size = serde_json::to_string(command).map_or(0, |text| text.len());
                count_change(turn, id, by, size, actor, |turn| {
                    self.command_team(turn, id, &who, command, &audited)
                })
            }
            TeamRequest::Next { task, by } => {
                let id = self.resolve_team(task, by)?;
                let who = resolve_actor(turn, id, by)?;
                let audited = audit_actor::encode_actor(actor, &who);
                count_change(turn, id, by, 0, actor, |turn| {
                    self.next_message(turn, id, &who, &audited)
                })
            }
        }
    }

    fn open_team(
        &self,
        turn: &mut BoardTransaction<'_>,
        id: TeamId,
        spec: &TeamSpec,
        actor: &str,
    ) -> ChangeResult {
        check_name_free(turn, &spec.name, None)?;
        turn.open_team(id, spec.clone(), &[], actor).map_err(|why| {
            ApiError::new(error_code(&why), why.to_string()).next(Hint::NewTeamHelp)
        })?;
        self.opened_reply(turn, id)
    }

    fn opened_reply(&self, turn: &BoardTransaction<'_>, id: TeamId) -> ChangeResult {
        let team = self.row_in_transaction(turn, id, &TeamActor::Operator)?;
        let reply = OpenTeamReply { ok: true, id: team.id.clone(), team };
        Ok(EngineReply::TeamOpened(Box::new(reply)))
    }

    /// Builds the row of a team for the caller, as it would be after the decisions so far.
    pub(super) fn row_in_transaction(
        &self,
        turn: &BoardTransaction<'_>,
        id: TeamId,
        who: &TeamActor,
    ) -> Result<TeamRow, ApiError> {
        let task = turn.team(id).ok_or_else(|| no_team(&id.to_string()))?;
        Ok(projection::team::row_for(task, &self.caller, who, |session| turn.session(session)))
    }

    /// Opens a team, its sessions and their bindings in a single commit, or does nothing at all.
    fn open_pair(
        &self,
        turn: &mut BoardTransaction<'_>,
        id: TeamId,
        start: &TeamStart,
        actor: &str,
    ) -> ChangeResult {
        check_name_free(turn, &start.spec.name, None)?;
        let mut commands = Vec::new();
        for member in &start.members {
            let session = match &member.session {
                Some(NewSession::Existing(named)) => Some(self.resolve::<Session>(named)?),
                Some(NewSession::New { id, spec }) => {
                    self.check_adapters(spec.interfaces())?;
                    Some(*id)
                }
                None => None,
            };
            let (name, labels) = (member.name.clone(), member.labels.clone());
            commands.push(TeamCommand::Bind { name, role: member.role, session, labels });
        }
        for criterion in &start.criteria {
            let NewCriterion { text, rationale, needs } = criterion.clone();
            commands.push(TeamCommand::ProposeAccepted { text, rationale, needs });
        }
        let template = start.template.iter().cloned();
        commands.extend(template.map(|template| TeamCommand::BeginLoop { template }));
        let posts = start.posts.iter().cloned();
        commands.extend(posts.map(|post| TeamCommand::Post(Box::new(post))));
        let new = self.new_sessions(start);
        turn.open_team_with_sessions(id, start.spec.clone(), &commands, &new, actor).map_err(
            |why| {
                // The hint cannot show a team yet.
                ApiError::new(error_code(&why), why.to_string()).next(Hint::StartTeamHelp)
            },
        )?;
        for member in &start.members {
            if let Some(NewSession::New { id, spec }) = &member.session {
                turn.open(*id, (**spec).clone(), actor);
            }
        }
        turn.advance_team(id);
        self.opened_reply(turn, id)
    }

    /// Returns the new sessions of a pair in their initial state.
    fn new_sessions(&self, start: &TeamStart) -> Vec<Session> {
        let new = start.members.iter().filter_map(|member| match &member.session {
            Some(NewSession::New { id, spec }) => Some((*id, spec.clone())),
            Some(NewSession::Existing(_)) | None => None,
        });
        new.map(|(id, spec)| Session::open(id, self.clock.now(), &SessionOpened { spec })).collect()
    }

    fn command_team(
        &self,
        turn: &mut BoardTransaction<'_>,
        id: TeamId,
        who: &TeamActor,
        command: &TeamCommand,
        actor: &str,
    ) -> ChangeResult {
        let counted = self.with_poll_count(id, who, command);
        let draft = draft_row(turn.team(id), who, command);
        match turn.command_team(id, who, counted.as_ref().unwrap_or(command), actor) {
            None => Err(no_team(&id.to_string())),
            Some(Err(TeamRejection::NothingNew)) => self.repeated_reply_to(turn, id, who, command),
            Some(Err(why)) => Err(refused_with_hint(&why, id, who, command)),
            Some(Ok((_, events))) => {
                if counted.is_some() {
                    self.polls.reset(id, who.name());
                }
                let until = self.lease_until(turn.team(id), command);
                self.change_reply(turn, id, who, &events, draft, until)
            }
        }
    }

    /// Returns the wall-clock time of a deadline.
    fn wall_time(&self, mono_ms: u64) -> i64 {
        projection::team::wall_time(self.clock.now(), mono_ms)
    }

    /// Returns the deadline for acknowledging an accepted message.
    fn lease_until(&self, task: Option<&Team>, command: &TeamCommand) -> Option<i64> {
        let TeamCommand::Accept { no, .. } = command else { return None };
        let lease = task?.message(*no)?.status.lease()?;
        lease.until_ms.map(|until| self.wall_time(until))
    }

    /// Replies to a repeated change with the result of the first one.
    fn repeated_reply_to(
        &self,
        turn: &BoardTransaction<'_>,
        id: TeamId,
        who: &TeamActor,
        command: &TeamCommand,
    ) -> ChangeResult {
        let task = turn.team(id).ok_or_else(|| no_team(&id.to_string()))?;
        let sent = command.message_key().and_then(|key| task.message_by_key(who, key));
        let mut changed = ChangedRows::default();
        let team = match sent {
            Some(message) => {
                changed.message = Some(projection::team::message_row(message));
                ChangedTeamRow::Head(projection::team::head_row(task))
            }
            None => ChangedTeamRow::Full(Box::new(self.row_in_transaction(turn, id, who)?)),
        };
        if let TeamCommand::Check { what } = command {
            changed.check = task.pending_check(what).map(|pending| pending.no);
        }
        changed.lease_until = self.lease_until(Some(task), command);
        Ok(EngineReply::Team(Box::new(TeamChangeReply { ok: true, team, changed })))
    }

    /// Replies with the changed rows. A refusal is an error even if it was recorded as an event.
    fn change_reply(
        &self,
        turn: &BoardTransaction<'_>,
        id: TeamId,
        who: &TeamActor,
        events: &[Event],
        draft: Option<DraftRow>,
        lease_until: Option<i64>,
    ) -> ChangeResult {
        let task = turn.team(id).ok_or_else(|| no_team(&id.to_string()))?;
        let look = |session| turn.session(session);
        let refused = |event| recorded_refusal(task, who, event, look);
        events.iter().find_map(refused).map_or(Ok(()), Err)?;
        let mut changed = ChangedRows { draft, lease_until, ..ChangedRows::default() };
        for event in events {
            projection::team::add_changed_row(task, event, &mut changed);
        }
        // The sender of a message does not need a row with thousands of members.
        let of_message =
            changed.message.is_some() && events.iter().all(projection::team::is_message_event);
        let team = if of_message {
            ChangedTeamRow::Head(projection::team::head_row(task))
        } else {
            ChangedTeamRow::Full(Box::new(self.row_in_transaction(turn, id, who)?))
        };
        Ok(EngineReply::Team(Box::new(TeamChangeReply { ok: true, team, changed })))
    }

    /// Fills in the number of empty polls, which is counted here and never taken from the caller.
    fn with_poll_count(
        &self,
        id: TeamId,
        who: &TeamActor,
        command: &TeamCommand,
    ) -> Option<TeamCommand> {
        let TeamCommand::Accept { no, lease, .. } = command else { return None };
        let polls = self.polls.get(id, who.name()).map_or(0, |poll| poll.empty_polls);
        Some(TeamCommand::Accept { no: *no, lease: *lease, polls })
    }

    /// Returns the caller's next message. An empty inbox is not an error.
    fn next_message(
        &self,
        turn: &mut BoardTransaction<'_>,
        id: TeamId,
        who: &TeamActor,
        actor: &str,
    ) -> ChangeResult {
        let now = self.clock.now();
        let command = TeamCommand::Next { consumer: who.name().to_owned() };
        let item = match turn.command_team(id, who, &command, actor) {
            None => return Err(no_team(&id.to_string())),
            Some(Err(TeamRejection::NothingNew)) => None,
            Some(Err(why)) => return Err(refused_with_hint(&why, id, who, &command)),
            Some(Ok((task, events))) => {
                let wall_of = |mono_ms| self.wall_time(mono_ms);
                events.iter().find_map(|event| offered_item(task, event, &self.caller, wall_of))
            }
        };
        self.polls.note(id, who.name(), now.wall_ms, item.is_none());
        let reply = NextReply { ok: true, team: id.to_string(), item };
        Ok(EngineReply::NextMessage(Box::new(reply)))
    }
}

fn offered_item(
    task: &Team,
    event: &Event,
    caller: &ProvostInvocation,
    wall_of: impl Fn(u64) -> i64,
) -> Option<InboxItemRow> {
    let Event::Message(MessageEvent::MessageOffered(MessageOffered { no, lease })) = event else {
        return None;
    };
    let message = task.message(*no)?;
    Some(projection::team::item_row(task, message, lease, caller, wall_of))
}

/// Counts a change to a team against the report budget of the launch that requested it, unless
/// nothing changes. If the budget is used up, refuses the change.
fn count_change(
    turn: &mut BoardTransaction<'_>,
    id: TeamId,
    by: &TeamCaller,
    size: usize,
    actor: &str,
    change: impl FnOnce(&mut BoardTransaction<'_>) -> ChangeResult,
) -> ChangeResult {
    let TeamCaller::Launch { launch, .. } = by else { return change(turn) };
    let (session, launch) = (launch.session, *launch);
    let count = SessionCommand::CountTeamCommand { launch, bytes: size as u64 };
    // Deciding does not change the session.
    let decided = turn.session(session).map(|known| known.decide(&count, turn.now()));
    if let Some(Err(why @ SessionRejection::ReportBudget { .. })) = decided {
        drop(turn.command(session, &SessionCommand::ReportRefused { launch }, actor));
        return Err(refused_change(&why, turn.session(session), session));
    }
    let before = turn.added_team_events(id);
    let reply = change(turn);
    if turn.added_team_events(id) > before {
        drop(turn.command(session, &count, actor));
    }
    reply
}

/// Checks that no other open team has this name.
fn check_name_free(
    turn: &BoardTransaction<'_>,
    name: &str,
    own: Option<TeamId>,
) -> Result<(), ApiError> {
    let mut others = turn.teams().filter(|task| !task.phase.is_over() && Some(task.id) != own);
    if others.any(|task| task.spec.name == name) {
        let message = format!("an open team is already named \"{name}\"");
        return Err(ApiError::new(ErrorCode::Refused, message).next(Hint::ListTeams));
    }
    Ok(())
}

/// Returns the criteria drafted by a command, even if none of them is proposed.
fn draft_row(task: Option<&Team>, who: &TeamActor, command: &TeamCommand) -> Option<DraftRow> {
    let TeamCommand::Draft { from, dry_run } = command else { return None };
    let task = task?;
    let draft = task.draft(who, from).ok()?;
    Some(projection::team::draft_row(task, &draft, *dry_run))
}
