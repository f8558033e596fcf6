//! Replies to queries about teams.

use std::ops::ControlFlow;

use provost_api::{
    ApiError, ErrorCode, HandoffReply, HandoffRow, Hint, OverviewReply, TeamMessagesReply,
    TeamReply, TeamWaitReply, TeamWaitState,
};
use provost_core::{
    ids::TeamId,
    team::{
        MemberLabels, MemberRole, NewsWatermark, ProvostInvocation, Team, TeamActor, TeamMember,
        TeamRejection, TeamWaitTarget,
    },
    wait::WaitStatus,
};

use super::{
    super::{
        listing::{Listing, ListingExtent},
        owner::Owner,
        queries::{BoundSession, ListedRows},
        refusals::read_error,
        team_refusals::{no_team, refused},
    },
    TeamCaller,
    lookup::named_member,
};
use crate::{projection, stored_aggregate::StoredAggregate, stream};

impl Owner {
    /// Returns a team as the caller sees it.
    pub(in crate::shell) fn team_reply(
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
    pub(in crate::shell) fn messages_reply(
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
    pub(in crate::shell) fn overview_reply(
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
    pub(in crate::shell) fn wait_reply(
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
    pub(in crate::shell) fn handoff_reply(
        &mut self,
        named: &str,
        by: &TeamCaller,
        member: Option<&str>,
    ) -> Result<HandoffReply, ApiError> {
        self.with_team(named, by, |task, owner| build_handoffs(task, member, &owner.caller))
    }

    /// Lists the open teams, and at most this many others.
    pub(in crate::shell) fn list_teams(&self, limit: usize) -> Result<ListedRows, ApiError> {
        let listing = Listing { extent: ListingExtent::LiveAnd(limit), ..Listing::default() };
        let mut rows = Vec::new();
        let shown = listing.visit_teams(&self.ledger, |projection| {
            rows.push(projection.to_owned());
            ControlFlow::Continue(())
        });
        Ok(ListedRows { rows, more: shown.map_err(|why| read_error(&why))? })
    }

    /// Returns the sessions that are bound to open teams.
    pub(in crate::shell) fn bound_sessions(&self) -> Vec<BoundSession> {
        let open = self.board.teams.iter().filter(|task| !task.phase.is_over());
        let bound = open.flat_map(|task| {
            let team = &task.spec.name;
            task.bound_sessions()
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
        match self.unreadable.get(&stream::stream_id(id).to_string()) {
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
        self.with_loaded(id.into(), |owner| match owner.board.team(id) {
            Some(team) => show(team, owner),
            None => Err(no_team(named)),
        })
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
