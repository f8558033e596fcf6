//! Requests about teams, and the replies to them.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
};

use provost_api::{
    ApiError, ChangedRows, ChangedTeamRow, DraftRow, ErrorCode, HandoffReply, HandoffRow, Hint,
    InboxItemRow, NextReply, OpenTeamReply, OverviewReply, TeamChangeReply, TeamMessagesReply,
    TeamReply, TeamRow, TeamWaitReply, TeamWaitState,
};
use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    session::{Session, SessionCommand, SessionOpened, SessionRejection, SessionSpec},
    team::{
        Event, EvidenceRequirement, LoopTemplate, MemberLabels, MemberRole, MessageOffered,
        NewMessage, NewsWatermark, ProvostInvocation, Team, TeamActor, TeamCommand, TeamMember,
        TeamRejection, TeamSpec, TeamWaitTarget,
    },
    wait::WaitStatus,
};
use provost_ledger::{Lookup as FoundBy, ReadLedger, TermQuery};
use serde::{Deserialize, Serialize};

use super::{
    handle::{ChangeResult, EngineReply},
    listing::{self, Listing, ListingExtent},
    owner::Owner,
    queries::{BoundSession, ListedRows},
    replies::{ambiguous, read_error, refused_change},
    team_refusals::{error_code, no_team, recorded_refusal, refused, refused_with_hint},
};
use crate::{
    audit_actor, board::BoardTransaction, history::not_found, projection, report::check_name,
    stream,
};

/// Who makes a request about a team, as proved by the socket.
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
    /// The member's session. A member without one polls for its messages.
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
    /// Finds the team that a request concerns.
    pub(super) fn team_of_team_request(&self, ask: &TeamRequest) -> Option<TeamId> {
        ask.team_and_caller().and_then(|(named, by)| self.resolve_team(named, by).ok())
    }

    /// Returns the existing sessions that a request binds to a team.
    pub(super) fn sessions_to_bind(&self, ask: &TeamRequest) -> Vec<SessionId> {
        if let TeamRequest::Command { command, .. } = ask {
            return command.bound_session().into_iter().collect();
        }
        let TeamRequest::Pair { start, .. } = ask else { return Vec::new() };
        let named = start.members.iter().filter_map(|member| match &member.session {
            Some(NewSession::Existing(session)) => self.resolve(session).ok(),
            Some(NewSession::New { .. }) | None => None,
        });
        named.collect()
    }

    /// Finds a team by its id, part of its id, or its name.
    fn resolve_team(&self, text: &str, by: &TeamCaller) -> Result<TeamId, ApiError> {
        if text == OWN_TEAM {
            return self.own_team(by);
        }
        if let Ok(id) = text.parse::<TeamId>() {
            let held = self.board.team(id).is_some();
            let stored =
                || self.ledger.stream(&stream::team_stream_id(id)).map_err(|why| read_error(&why));
            return if held || stored()?.is_some() {
                Ok(id)
            } else {
                Err(not_found(&self.ledger, &[stream::TEAM], text))
            };
        }
        let found = listing::find_by_name(stream::TEAM, &self.ledger, text)
            .map_err(|why| read_error(&why))?;
        match found.as_slice() {
            [(id, _)] => id.parse().map_err(|_| not_found(&self.ledger, &[stream::TEAM], text)),
            [] => Err(not_found(&self.ledger, &[stream::TEAM], text)),
            several => Err(ambiguous(text, &[stream::TEAM], several)),
        }
    }

    /// Returns the team that an agent is bound to or was last bound to. For other callers, returns
    /// the only open team.
    fn own_team(&self, by: &TeamCaller) -> Result<TeamId, ApiError> {
        let (own, none): (Vec<TeamId>, &str) = match by {
            TeamCaller::Launch { launch, .. } => {
                (self.board.teams_of(launch.session), "this agent belongs to no team")
            }
            TeamCaller::Operator | TeamCaller::Member(_) => {
                let open = self.board.teams().filter(|task| !task.phase.is_over());
                (open.map(|task| task.id).take(2).collect(), "no team is open")
            }
        };
        let last = match (by, own.is_empty()) {
            // If a member asks again after the team has ended, it should learn about that.
            (TeamCaller::Launch { launch, .. }, true) => self.last_team(launch.session)?,
            (TeamCaller::Launch { .. } | TeamCaller::Operator | TeamCaller::Member(_), _) => None,
        };
        match (own.as_slice(), last) {
            ([one], _) => Ok(*one),
            ([], Some(last)) => Ok(last),
            ([], None) => Err(ApiError::new(ErrorCode::NotFound, none).next(Hint::ListTeams)),
            ([..], _) => {
                let message = "there are several teams: name one of them";
                Err(ApiError::new(ErrorCode::BadRequest, message).next(Hint::ListTeams))
            }
        }
    }

    /// Uses the index to find the newest team that a session was bound to, because closed teams are
    /// not on the board.
    fn last_team(&self, session: SessionId) -> Result<Option<TeamId>, ApiError> {
        let Some(sought) = TermQuery::new(&session.0.simple().to_string()) else { return Ok(None) };
        let mut newest = None;
        let found = self.ledger.find_streams(
            stream::TEAM,
            FoundBy::Parts(&sought),
            MAX_CANDIDATES,
            &mut |projection| {
                let row = projection.projection.as_deref().map(serde_json::from_str::<TeamRow>);
                // The index may match any text, so compare with the members.
                let own = row.and_then(Result::ok).filter(|row| {
                    let mut sessions = row.members.iter().filter_map(|one| one.session.as_deref());
                    sessions.any(|one| one == session.to_string())
                });
                let id = own.and_then(|row| row.id.parse().ok());
                newest = newest.max(id.map(|id| (projection.created_seq, id)));
                ControlFlow::Continue(())
            },
        );
        found.map_err(|why| read_error(&why))?;
        Ok(newest.map(|(_, id)| id))
    }

    /// Returns a team as the caller sees it.
    pub(super) fn team_reply(
        &mut self,
        named: &str,
        by: &TeamCaller,
    ) -> Result<TeamReply, ApiError> {
        self.with_sessions(named, by, |task, owner| {
            let look = |session| owner.board.session(session);
            let mut row =
                projection::team::row_for(task, &owner.caller, &query_actor(task, by), look);
            for member in &mut row.members {
                member.polled_at = owner.polls.get(task.id, &member.name).map(|poll| poll.at);
            }
            Ok(TeamReply { ok: true, team: row })
        })
    }

    /// Returns the messages of a team.
    pub(super) fn messages_reply(
        &mut self,
        named: &str,
        by: &TeamCaller,
    ) -> Result<TeamMessagesReply, ApiError> {
        self.with_team(named, by, |task, _| {
            let messages = task.messages.iter().map(|one| projection::team::message_row(one));
            let messages = messages.collect();
            Ok(TeamMessagesReply { ok: true, team: task.id.to_string(), messages })
        })
    }

    /// Returns the overview of a team for the caller.
    pub(super) fn overview_reply(
        &mut self,
        named: &str,
        by: &TeamCaller,
    ) -> Result<OverviewReply, ApiError> {
        self.with_sessions(named, by, |task, owner| {
            let me = viewing_member(task, by)?;
            let look = |session| owner.board.session(session);
            let cycle = projection::overview::overview(task, &me, &owner.caller, look);
            Ok(OverviewReply { ok: true, cycle })
        })
    }

    /// Returns whether an awaited event has happened, or can no longer happen.
    pub(super) fn wait_reply(
        &mut self,
        named: &str,
        by: &TeamCaller,
        awaited: TeamWaitTarget,
    ) -> Result<TeamWaitReply, ApiError> {
        self.with_team(named, by, |task, _| {
            let (status, done, reason) = match task.wait_status(awaited) {
                WaitStatus::Pending => (TeamWaitState::Pending, None, None),
                WaitStatus::Done(result) => {
                    (TeamWaitState::Done, serde_json::to_value(result).ok(), None)
                }
                WaitStatus::Impossible(reason) => (TeamWaitState::Impossible, None, Some(reason)),
            };
            Ok(TeamWaitReply { ok: true, status, done, reason })
        })
    }

    /// Returns the handoffs for one or all members.
    pub(super) fn handoff_reply(
        &mut self,
        named: &str,
        by: &TeamCaller,
        member: Option<&str>,
    ) -> Result<HandoffReply, ApiError> {
        self.with_team(named, by, |task, owner| build_handoffs(task, member, &owner.caller))
    }

    /// Lists the open teams, and at most this many others.
    pub(super) fn list_teams(&self, limit: usize) -> Result<ListedRows, ApiError> {
        let listing = Listing { extent: ListingExtent::LiveAnd(limit), ..Listing::default() };
        let mut rows = Vec::new();
        let shown = listing.visit_teams(&self.ledger, |projection| {
            rows.push(projection.to_owned());
            ControlFlow::Continue(())
        });
        Ok(ListedRows { rows, more: shown.map_err(|why| read_error(&why))? })
    }

    /// Returns the sessions that are bound to open teams.
    pub(super) fn bound_sessions(&self) -> Vec<BoundSession> {
        let open = self.board.teams().filter(|task| !task.phase.is_over());
        let bound = open.flat_map(|task| {
            let team = &task.spec.name;
            bound_sessions(task)
                .into_iter()
                .map(move |session| BoundSession { session, team: team.clone() })
        });
        bound.collect()
    }

    /// Shows a team with its members' sessions, including those that were evicted.
    fn with_sessions<T>(
        &mut self,
        named: &str,
        by: &TeamCaller,
        show: impl FnOnce(&Team, &Owner) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let id = self.resolve_team(named, by)?;
        let loaded = self.load_with_members(id);
        let shown = self.board.team(id).ok_or_else(|| self.team_not_loaded(id, named));
        let shown = shown.and_then(|task| show(task, self));
        self.evict(&loaded);
        shown
    }

    /// Describes why a team is not on the board: either it does not exist or it cannot be read.
    fn team_not_loaded(&self, id: TeamId, named: &str) -> ApiError {
        match self.unreadable.get(&stream::team_stream_id(id).to_string()) {
            None => no_team(named),
            Some(why) => ApiError::new(ErrorCode::Storage, why.clone()).next(Hint::VerifyLedger),
        }
    }

    fn with_team<T>(
        &mut self,
        named: &str,
        by: &TeamCaller,
        show: impl FnOnce(&Team, &Owner) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let id = self.resolve_team(named, by)?;
        let loaded = self.board.team(id).is_none();
        if loaded {
            self.load(&stream::team_stream_id(id))
                .map_err(|why| ApiError::new(ErrorCode::Storage, why).next(Hint::VerifyLedger))?;
        }
        let shown = self.board.team(id).map(|task| show(task, self));
        let shown = shown.unwrap_or_else(|| Err(no_team(named)));
        if loaded {
            self.board.evict_team(id);
        }
        shown
    }

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
                Some(NewSession::Existing(named)) => Some(self.resolve(named)?),
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

/// Returns the member that the caller specifies or is, if that member exists. The outer `None`
/// means the operator.
fn named_member<'t>(task: &'t Team, by: &TeamCaller) -> Option<Option<&'t TeamMember>> {
    let mut bound = task.members.iter().filter(|one| one.is_bound());
    match by {
        TeamCaller::Operator => None,
        TeamCaller::Member(name) => Some(bound.find(|one| one.name == *name)),
        TeamCaller::Launch { launch, .. } => {
            Some(bound.find(|one| one.session == Some(launch.session)))
        }
    }
}

/// Returns the actor for a read-only request, which is the operator unless a member is meant.
fn query_actor(task: &Team, by: &TeamCaller) -> TeamActor {
    let member = named_member(task, by).flatten();
    member.map_or(TeamActor::Operator, |member| TeamActor::Member(member.name.clone()))
}

/// Returns the member that the caller views the team as. The operator sees the same as a manager.
fn viewing_member(task: &Team, by: &TeamCaller) -> Result<TeamMember, ApiError> {
    match named_member(task, by) {
        Some(Some(member)) => Ok(member.clone()),
        Some(None) => {
            let who = by.name().to_owned();
            Err(refused(&TeamRejection::NoMember { who }, task.id))
        }
        None => Ok(TeamMember {
            name: TeamActor::Operator.name().to_owned(),
            role: MemberRole::Manager,
            session: None,
            labels: MemberLabels::default(),
            means: None,
            onboarded: false,
            handover: None,
            bound: task.opened,
            left: None,
            acknowledged: Some(task.config.revision),
            reported: NewsWatermark::default(),
            news: Vec::new(),
        }),
    }
}

/// Returns the handoffs for one or all members.
fn build_handoffs(
    task: &Team,
    member: Option<&str>,
    caller: &ProvostInvocation,
) -> Result<HandoffReply, ApiError> {
    let bound = task.members.iter().filter(|one| one.is_bound());
    let named = bound.filter(|one| member.is_none_or(|member| one.name == member));
    let rows: Vec<HandoffRow> =
        named.filter_map(|one| projection::handoff::handoff(task, &one.name, caller)).collect();
    if let (Some(member), true) = (member, rows.is_empty()) {
        return Err(refused(&TeamRejection::NoMember { who: member.to_owned() }, task.id));
    }
    let heartbeat = projection::handoff::heartbeat(task, caller);
    Ok(HandoffReply { ok: true, team: task.id.to_string(), handoffs: rows, heartbeat })
}

fn offered_item(
    task: &Team,
    event: &Event,
    caller: &ProvostInvocation,
    wall_of: impl Fn(u64) -> i64,
) -> Option<InboxItemRow> {
    let Event::MessageOffered(MessageOffered { no, lease }) = event else { return None };
    let message = task.message(*no)?;
    Some(projection::team::item_row(task, message, lease, caller, wall_of))
}

/// Returns the actor that the caller acts as in the team.
pub(super) fn resolve_actor(
    turn: &BoardTransaction<'_>,
    id: TeamId,
    by: &TeamCaller,
) -> Result<TeamActor, ApiError> {
    match by {
        TeamCaller::Operator => Ok(TeamActor::Operator),
        TeamCaller::Member(name) if name == "operator" => Ok(TeamActor::Operator),
        TeamCaller::Member(name) => Ok(TeamActor::Member(name.clone())),
        TeamCaller::Launch { launch, named } => {
            let member = turn.member_of(id, launch.session);
            let name = member.map(|member| member.name.clone()).ok_or_else(|| {
                let message = format!("launch {launch} belongs to no member of this team");
                ApiError::new(ErrorCode::Forbidden, message).next(Hint::ListTeams)
            })?;
            match named {
                Some(named) if *named != name => {
                    let message =
                        format!("you are {name} in this team, and may only act as {name}");
                    Err(ApiError::new(ErrorCode::Forbidden, message).next(Hint::ShowOwnTeam))
                }
                Some(_) | None => Ok(TeamActor::Member(name)),
            }
        }
    }
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

/// The maximum number of candidate teams to examine for a session.
const MAX_CANDIDATES: usize = 100;

/// Returns the sessions that may receive a command when a team changes.
pub(super) fn bound_sessions(task: &Team) -> Vec<SessionId> {
    let bound = task.members.iter().filter(|member| member.is_bound());
    bound.filter_map(|member| member.session).collect()
}
