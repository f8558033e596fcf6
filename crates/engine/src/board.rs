//! The board: every open session, run and team, held in memory by a single owner.
//!
//! A [`BoardTransaction`] collects decisions as drafts. [`BoardTransaction::stage`] returns the
//! batch for the ledger. [`Board::commit`] applies the drafts, which requires the ledger's
//! [`CommittedBatch`], and only then returns effects.

mod draft;
mod runs;
mod sessions;
mod shelf;
#[cfg(test)]
mod team_tests;
mod teams;
#[cfg(test)]
mod tests;
mod tool_calls;

use std::collections::BTreeMap;

use provost_core::{
    ids::{RunId, SessionId, TeamId},
    lifecycle::State,
    run::Run,
    session::Session,
    team::{self, Team},
    time::Moment,
};
use provost_ledger::{CommittedBatch, IdempotentReply, ReadLedger, WriteBatch};

use self::draft::{Draft, Drafts};
pub use self::{
    shelf::{EffectChanges, Shelf},
    tool_calls::CallResult,
};
use crate::{
    stored_aggregate::StoredAggregate,
    stream::{self, Subject, for_subject},
};

/// If one decision causes more follow-up events than this, the rules do not converge.
const MAX_FOLLOW_UPS: usize = 1024;

/// All open sessions, runs and teams.
#[derive(Debug, Default)]
pub struct Board {
    pub sessions: Shelf<Session>,
    pub runs: Shelf<Run>,
    pub teams: Shelf<Team>,
    /// How to invoke Provost in commands that are shown to team members.
    caller: team::ProvostInvocation,
}

/// The effects that a commit starts and cancels.
#[derive(Debug, Default, PartialEq)]
pub struct CommitChanges {
    pub sessions: EffectChanges<Session>,
    pub runs: EffectChanges<Run>,
    pub teams: EffectChanges<Team>,
    pub changed_sessions: Vec<SessionId>,
    /// The state of a session after each of its events, by session version.
    pub states: BTreeMap<(SessionId, u64), State>,
}

/// Decisions in progress. None of them takes effect before the commit.
#[derive(Debug)]
pub struct BoardTransaction<'b> {
    board: &'b Board,
    now: Moment,
    /// Deadlines are applied only up to this time, which is earlier than `now` while missed
    /// observations are still being read.
    reached: Moment,
    sessions: Drafts<'b, Session>,
    runs: Drafts<'b, Run>,
    teams: Drafts<'b, Team>,
    replies: Vec<IdempotentReply>,
    /// How often the rules of teams read a session.
    #[cfg(test)]
    look_ups: std::cell::Cell<usize>,
}

/// Drafts that are waiting to be committed to the ledger.
#[derive(Debug)]
pub struct StagedDrafts {
    sessions: Vec<Draft<Session>>,
    runs: Vec<Draft<Run>>,
    teams: Vec<Draft<Team>>,
}

impl CommitChanges {
    /// Adds the effects that another commit, or loading, starts and cancels.
    pub fn extend(&mut self, more: CommitChanges) {
        self.sessions.extend(more.sessions);
        self.runs.extend(more.runs);
        self.teams.extend(more.teams);
        self.changed_sessions.extend(more.changed_sessions);
        self.states.extend(more.states);
    }
}

impl Board {
    /// Returns an empty board. Commands shown to members invoke Provost through `caller`.
    pub fn with_caller(caller: team::ProvostInvocation) -> Board {
        Board { caller, ..Board::default() }
    }

    /// Returns a loaded session, run or team.
    pub fn get<A: StoredAggregate>(&self, id: A::Id) -> Option<&A> {
        A::shelf(self).get(id)
    }

    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(id)
    }

    pub fn team(&self, id: TeamId) -> Option<&Team> {
        self.teams.get(id)
    }

    /// Whether a session, run or team is loaded.
    pub fn contains(&self, subject: Subject) -> bool {
        for_subject!(subject, |id: A| self.get::<A>(id).is_some())
    }

    /// Loads a session, run or team from the ledger. The returned changes contain its pending
    /// effects.
    pub fn load(
        &mut self,
        ledger: &(impl ReadLedger + ?Sized),
        subject: Subject,
    ) -> Result<CommitChanges, String> {
        let mut changes = CommitChanges::default();
        for_subject!(subject, |id: A| {
            let (state, version) = stream::load::<A>(ledger, id)?;
            A::changes_mut(&mut changes).extend(A::shelf_mut(self).load(state, version));
        });
        Ok(changes)
    }

    /// Evicts a session, run or team if it is closed.
    pub fn evict(&mut self, subject: Subject) {
        for_subject!(subject, |id: A| A::shelf_mut(self).evict(id));
    }

    pub fn begin(&self, now: Moment) -> BoardTransaction<'_> {
        self.begin_observing(now, now)
    }

    /// Begins a transaction that applies deadlines only up to `reached`, so that nothing ends
    /// because a deadline passed while the daemon was down.
    pub fn begin_observing(&self, now: Moment, reached: Moment) -> BoardTransaction<'_> {
        BoardTransaction {
            board: self,
            now,
            reached,
            sessions: Drafts::new(&self.sessions),
            runs: Drafts::new(&self.runs),
            teams: Drafts::new(&self.teams),
            replies: Vec::new(),
            #[cfg(test)]
            look_ups: Default::default(),
        }
    }

    /// Returns the earliest deadline, in monotonic milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines =
            [self.sessions.next_deadline(), self.runs.next_deadline(), self.teams.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Applies committed drafts, and returns the effects to start and cancel.
    pub fn commit(&mut self, staged: StagedDrafts, _durable: &CommittedBatch) -> CommitChanges {
        let mut changes = CommitChanges::default();
        for draft in &staged.sessions {
            let id = draft.state.id;
            changes.states.extend(draft.states().map(|(version, state)| ((id, version), state)));
            changes.changed_sessions.push(id);
        }
        self.commit_drafts(staged.sessions, &mut changes);
        self.commit_drafts(staged.runs, &mut changes);
        self.commit_drafts(staged.teams, &mut changes);
        changes
    }

    fn commit_drafts<A: StoredAggregate>(
        &mut self,
        drafts: Vec<Draft<A>>,
        changes: &mut CommitChanges,
    ) {
        for draft in drafts {
            A::changes_mut(changes).extend(A::shelf_mut(self).commit(draft));
        }
    }
}

impl BoardTransaction<'_> {
    /// Returns the time of the transaction.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Returns the time up to which deadlines are applied.
    pub fn reached(&self) -> Moment {
        self.reached
    }

    /// Returns a session as it would be after the decisions so far.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// Returns a run as it would be after the decisions so far.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(id)
    }

    /// Returns a team as it would be after the decisions so far.
    pub fn team(&self, id: TeamId) -> Option<&Team> {
        self.teams.get(id)
    }

    /// Stores a reply under the idempotency key of its command.
    pub fn store_reply(&mut self, key: String, reply: String) {
        self.replies.push(IdempotentReply { key, reply });
    }

    /// Ends the transaction. Returns the batch for the ledger and the drafts to commit with it, or
    /// `None` if nothing changed.
    pub fn stage(self) -> Option<(WriteBatch, StagedDrafts)> {
        let sessions = self.sessions.into_changed();
        let runs = self.runs.into_changed();
        let teams = self.teams.into_changed();
        let writes: Vec<_> = sessions
            .iter()
            .map(Draft::write)
            .chain(runs.iter().map(Draft::write))
            .chain(teams.iter().map(Draft::write))
            .collect();
        if writes.is_empty() && self.replies.is_empty() {
            return None;
        }
        let at = stream::to_ledger(self.now);
        let batch = WriteBatch { at, writes, idempotency: self.replies };
        Some((batch, StagedDrafts { sessions, runs, teams }))
    }
}
