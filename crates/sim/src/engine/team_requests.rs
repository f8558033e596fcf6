//! Teams in the simulated daemon: commands, observations, loading and checks.

use provost_core::{
    ids::{SessionId, TeamId},
    session::EffectKey,
    team::{
        CheckEvent, Event, FinishEvent, LoopEvent, MessageEvent, ProvostInvocation, Team,
        TeamActor, TeamAdvanceContext, TeamCommand, TeamRejection, TeamWaitTarget,
    },
    time::Moment,
};
use provost_engine::{board::BoardTransaction, stored_aggregate::StoredAggregate, stream::Subject};
use provost_ledger::ReadLedger;
use serde::{Deserialize, Serialize};

use super::{SimEngine, shadow::Shadow};
use crate::{session_laws::BrokenLaw, team::SimTeam};

/// A request about a team, with the caller's idempotency key.
#[derive(Clone, Debug)]
pub(crate) struct SimTeamRequest {
    pub(crate) key: String,
    pub(crate) task: TeamId,
    pub(crate) by: TeamActor,
    pub(crate) command: TeamCommand,
}

/// The reply to a request. A successful reply is stored under the request's key, and is returned
/// again for that key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SimTeamReply {
    Refused,
    Done,
    Offered {
        no: u32,
        lease: u32,
    },
    /// The result is not available yet. The caller waits for this check or audit.
    Begun(TeamWaitTarget),
}

impl SimEngine {
    pub(crate) fn teams(&self) -> impl Iterator<Item = &Team> {
        self.teams.iter()
    }

    pub(crate) fn team(&self, id: TeamId) -> Option<&Team> {
        self.teams.get(id)
    }

    /// Counts the handled instructions of members, including instructions that were evicted from the team's state.
    pub(crate) fn handled_instructions(&self, id: TeamId) -> u64 {
        self.teams.shadow(id).map_or(0, |shadow| shadow.watch.handled_instructions())
    }

    /// Opens a team with all its members, whose sessions were opened earlier in the same
    /// transaction.
    pub(super) fn open_team(
        turn: &mut BoardTransaction<'_>,
        pair: &SimTeam,
    ) -> Result<(), BrokenLaw> {
        let members = pair.members.iter().map(|(name, role, session)| TeamCommand::Bind {
            name: name.clone(),
            role: *role,
            session: *session,
            labels: Default::default(),
        });
        let commands: Vec<TeamCommand> = members.collect();
        turn.open_team(pair.id, pair.spec.clone(), &commands, "operator")
            .map_err(|why| format!("cannot open a team: {why}"))?;
        turn.advance_team(pair.id);
        Ok(())
    }

    /// Decides a request about a team, and checks the result before it is committed.
    pub(super) fn decide_team_request(
        &self,
        turn: &mut BoardTransaction<'_>,
        ask: &SimTeamRequest,
    ) -> Result<(String, SimTeamReply), BrokenLaw> {
        let known = self.ledger.stored_reply(&ask.key).ok().flatten();
        if let Some(reply) = known {
            let reply = serde_json::from_str(&reply).map_err(|why| why.to_string())?;
            return Ok((ask.key.clone(), reply));
        }
        let before = turn.team(ask.task).cloned();
        let reply = match turn.command_team(ask.task, &ask.by, &ask.command, ask.by.name()) {
            None => SimTeamReply::Refused,
            // A caller that requests a running check waits for its result.
            Some(Err(TeamRejection::NothingNew))
                if running(before.as_ref(), &ask.command).is_some() =>
            {
                running(before.as_ref(), &ask.command)
                    .map_or(SimTeamReply::Refused, SimTeamReply::Begun)
            }
            Some(Err(_)) => {
                let after = turn.team(ask.task);
                refusal_changes_nothing(before.as_ref(), after)?;
                SimTeamReply::Refused
            }
            Some(Ok((_, events))) => {
                accepted_lease_matches(&ask.command, &events)?;
                refused_continuation_sends_nothing(&ask.command, &events)?;
                let reply = events.iter().find_map(reply_for).unwrap_or(SimTeamReply::Done);
                let text = serde_json::to_string(&reply).map_err(|why| why.to_string())?;
                turn.store_reply(ask.key.clone(), text);
                reply
            }
        };
        Ok((ask.key.clone(), reply))
    }

    /// Loads everything that must be in memory before a team is changed, as the daemon does.
    pub(super) fn load_team(&mut self, id: TeamId, loaded: &mut Vec<Subject>) {
        self.load_subject(Subject::Team(id), loaded);
        for session in self.board.team(id).map(sessions).unwrap_or_default() {
            self.load_subject(Subject::Session(session), loaded);
        }
    }

    /// Loads the teams of a session, because a team may wake its other members.
    pub(super) fn load_teams_of_session(&mut self, id: SessionId, loaded: &mut Vec<Subject>) {
        for task in self.board.teams.bound_to(id) {
            self.load_team(task, loaded);
        }
    }

    /// Whether an awaited result is still possible, according to the events of the team.
    pub(crate) fn is_pending(&self, id: TeamId, awaited: TeamWaitTarget) -> bool {
        let shadow = self.teams.shadow(id);
        shadow.is_some_and(|shadow| shadow.watch.is_pending(awaited))
    }

    /// Returns the first event of a team after this sequence number.
    pub(crate) fn team_event_after(&self, id: TeamId, seq: u64) -> Option<u64> {
        let mut events = self.team_events.iter();
        events.find(|(at, task)| *at > seq && *task == id).map(|(at, _)| *at)
    }

    /// Checks the settled teams that changed or whose members changed.
    pub(super) fn check_settled_teams(
        &self,
        changed: &[Subject],
        now: Moment,
    ) -> Result<(), BrokenLaw> {
        let touched = |task: &Team| {
            let ids = sessions(task);
            changed.iter().any(|subject| match subject {
                Subject::Session(id) => ids.contains(id),
                Subject::Team(id) => *id == task.id,
                Subject::Run(_) => false,
            })
        };
        for shadow in self.teams.shadows().filter(|shadow| touched(&shadow.state)) {
            self.check_team(shadow, now)?;
        }
        Ok(())
    }

    /// Checks all teams, when the simulation is quiet.
    pub(crate) fn check_all_teams(&self, now: Moment) -> Result<(), BrokenLaw> {
        self.teams.shadows().try_for_each(|shadow| self.check_team(shadow, now))
    }

    fn check_team(&self, shadow: &Shadow<Team>, now: Moment) -> Result<(), BrokenLaw> {
        let Shadow { state: task, watch, .. } = shadow;
        let look = |id: SessionId| self.shadow(id);
        let caller = ProvostInvocation::default();
        if let Some(step) =
            task.advance(&TeamAdvanceContext { now, session: &look, caller: &caller })
        {
            return Err(format!("the team is settled, yet it can advance: {step:?}"));
        }
        watch.check_settled(task, now, look)
    }
}

/// Returns the sessions of the bound members.
pub(crate) fn sessions(task: &Team) -> Vec<SessionId> {
    task.bound_sessions()
}

/// Returns the running check for a check request.
fn running(task: Option<&Team>, command: &TeamCommand) -> Option<TeamWaitTarget> {
    let TeamCommand::Check { what } = command else { return None };
    task?.pending_check(what).map(|check| TeamWaitTarget::Check(check.no))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is answered with a number")]
fn reply_for(event: &Event) -> Option<SimTeamReply> {
    match event {
        Event::Check(CheckEvent::CheckRequested(e)) => {
            Some(SimTeamReply::Begun(TeamWaitTarget::Check(e.check.no)))
        }
        Event::Check(CheckEvent::CheckJoined(e)) => {
            Some(SimTeamReply::Begun(TeamWaitTarget::Check(e.no)))
        }
        Event::Finish(FinishEvent::FinishRequested(e)) => {
            Some(SimTeamReply::Begun(TeamWaitTarget::Audit(e.no)))
        }
        Event::Message(MessageEvent::MessageOffered(e)) => {
            Some(SimTeamReply::Offered { no: e.no, lease: e.lease.no })
        }
        _ => None,
    }
}

/// A refusal is recorded but changes nothing else. In particular, it stores no message.
fn refusal_changes_nothing(before: Option<&Team>, after: Option<&Team>) -> Result<(), BrokenLaw> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    let mut kept = before.clone();
    kept.refused.clone_from(&after.refused);
    if kept == *after { Ok(()) } else { Err("a refused command changed the team".to_owned()) }
}

/// A caller that accepts a message holds it under exactly the lease that it specified.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else accepts anything")]
fn accepted_lease_matches(command: &TeamCommand, events: &[Event]) -> Result<(), BrokenLaw> {
    let TeamCommand::Accept { no, lease, .. } = command else { return Ok(()) };
    let accepted = events.iter().find_map(|event| match event {
        Event::Message(MessageEvent::MessageAccepted(e)) if e.no == *no => Some(e.lease.no),
        _ => None,
    });
    if accepted.is_none_or(|held| held == *lease) {
        Ok(())
    } else {
        Err(format!("message {no} was accepted under the expired lease {lease}"))
    }
}

/// An iteration that does not start leaves no message in any inbox.
fn refused_continuation_sends_nothing(
    command: &TeamCommand,
    events: &[Event],
) -> Result<(), BrokenLaw> {
    let asked = matches!(command, TeamCommand::Continue { .. });
    let refused =
        events.iter().any(|event| matches!(event, Event::Loop(LoopEvent::ContinuationRefused(_))));
    let sent =
        events.iter().any(|event| matches!(event, Event::Message(MessageEvent::MessageStored(_))));
    if asked && refused && sent {
        Err("a message of a refused continuation was stored".to_owned())
    } else {
        Ok(())
    }
}

/// A pending effect of a team, by the team and its key.
pub(crate) type TeamEffectKey = (TeamId, EffectKey);
