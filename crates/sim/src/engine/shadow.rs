//! Sessions, runs and teams as the stored events describe them. Every event is checked against the laws.

use std::{collections::BTreeMap, fmt::Debug};

use provost_core::{
    event_codec::StoredEvent, ids::SessionId, run::Run, session::Session, team::Team, time::Moment,
};
use provost_engine::{
    board::Shelf,
    stored_aggregate::StoredAggregate,
    stream::{self, Subject},
};
use provost_ledger::{RecordedEvent, StreamId};

use crate::{
    run_laws::RunWatch,
    session_laws::{BrokenLaw, SessionWatch},
    team_laws::TeamWatch,
};

/// Looks up the stored state of a session.
pub(super) type SessionLookup<'a> = dyn Fn(SessionId) -> Option<&'a Session> + 'a;

/// An aggregate with laws for its events.
pub(super) trait JudgedAggregate: StoredAggregate {
    /// The part of an aggregate's history that is needed to judge its events.
    type Watch: Debug;

    fn watch(opened: &Self) -> Result<Self::Watch, BrokenLaw>;

    fn judge(
        watch: &mut Self::Watch,
        change: &JudgedChange<'_, Self>,
        sessions: &SessionLookup<'_>,
    ) -> Result<(), BrokenLaw>;
}

/// An event, and the aggregate before and after it.
pub(super) struct JudgedChange<'a, A: StoredAggregate> {
    before: &'a A,
    at: Moment,
    actor: &'a str,
    event: &'a A::Event,
    after: &'a A,
}

/// The stored state of all aggregates of one kind.
#[derive(Debug)]
pub(super) struct Shadows<A: JudgedAggregate>(BTreeMap<A::Id, Shadow<A>>);

#[derive(Debug)]
pub(super) struct Shadow<A: JudgedAggregate> {
    pub(super) state: A,
    pub(super) watch: A::Watch,
    version: u64,
}

impl JudgedAggregate for Session {
    type Watch = SessionWatch;

    fn watch(opened: &Session) -> Result<SessionWatch, BrokenLaw> {
        Ok(SessionWatch::start(opened))
    }

    fn judge(
        watch: &mut SessionWatch,
        change: &JudgedChange<'_, Session>,
        _sessions: &SessionLookup<'_>,
    ) -> Result<(), BrokenLaw> {
        watch.check_event(change.before, change.at, change.event, change.after)
    }
}

impl JudgedAggregate for Run {
    type Watch = RunWatch;

    fn watch(opened: &Run) -> Result<RunWatch, BrokenLaw> {
        RunWatch::start(opened)
    }

    fn judge(
        watch: &mut RunWatch,
        change: &JudgedChange<'_, Run>,
        _sessions: &SessionLookup<'_>,
    ) -> Result<(), BrokenLaw> {
        watch.check_event(change.before, change.event, change.after)
    }
}

impl JudgedAggregate for Team {
    type Watch = TeamWatch;

    fn watch(_opened: &Team) -> Result<TeamWatch, BrokenLaw> {
        Ok(TeamWatch::default())
    }

    fn judge(
        watch: &mut TeamWatch,
        change: &JudgedChange<'_, Team>,
        sessions: &SessionLookup<'_>,
    ) -> Result<(), BrokenLaw> {
        watch.check_before(change.before, change.at, change.actor, change.event, sessions)?;
        watch.check_after(change.event, change.after)
    }
}

impl<A: JudgedAggregate> Default for Shadows<A> {
    fn default() -> Shadows<A> {
        Shadows(BTreeMap::new())
    }
}

impl<A: JudgedAggregate<Id: Into<Subject>>> Shadows<A> {
    pub(super) fn get(&self, id: A::Id) -> Option<&A> {
        self.0.get(&id).map(|shadow| &shadow.state)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &A> {
        self.0.values().map(|shadow| &shadow.state)
    }

    pub(super) fn shadow(&self, id: A::Id) -> Option<&Shadow<A>> {
        self.0.get(&id)
    }

    pub(super) fn shadows(&self) -> impl Iterator<Item = &Shadow<A>> {
        self.0.values()
    }

    pub(super) fn stream_ids(&self) -> impl Iterator<Item = StreamId> {
        self.0.keys().map(|id| stream::stream_id(*id))
    }

    /// Decodes a stored event.
    pub(super) fn decode(record: &RecordedEvent) -> Result<A::Event, BrokenLaw> {
        A::Event::decode(&record.kind, record.v, &record.data).map_err(|why| why.to_string())
    }

    /// Applies a stored event, and judges it.
    pub(super) fn apply(
        &mut self,
        id: A::Id,
        record: &RecordedEvent,
        event: &A::Event,
        sessions: &SessionLookup<'_>,
    ) -> Result<(), BrokenLaw> {
        let at = stream::to_core(record.at);
        if let Some(state) = A::open(id, at, event) {
            let watch = A::watch(&state)?;
            self.0.insert(id, Shadow { state, watch, version: record.version });
            return Ok(());
        }
        let Some(shadow) = self.0.get_mut(&id) else {
            return Err(format!("an event of an unknown {}", A::KIND));
        };
        if record.version != shadow.version + 1 {
            return Err(format!("event {} follows event {}", record.version, shadow.version));
        }
        let before = shadow.state.clone();
        shadow.state.evolve(at, event);
        shadow.version = record.version;
        let (before, after) = (&before, &shadow.state);
        let change = JudgedChange { before, at, actor: &record.actor, event, after };
        A::judge(&mut shadow.watch, &change, sessions)
    }

    /// Checks that these aggregates on the board match the stored ones.
    pub(super) fn check_board(
        &self,
        board: &Shelf<A>,
        ids: impl IntoIterator<Item = A::Id>,
    ) -> Result<(), BrokenLaw> {
        for id in ids {
            if board.get(id).is_some_and(|held| self.get(id) != Some(held)) {
                return Err(format!("the {} on the board differs from the stored one", A::KIND));
            }
        }
        Ok(())
    }

    /// Checks an aggregate that was folded again after a restart.
    pub(super) fn check_fold(&self, board: &Shelf<A>, id: A::Id) -> Result<(), BrokenLaw> {
        if board.get(id) == self.get(id) {
            Ok(())
        } else {
            Err("the fold after a restart differs from the fold before".to_owned())
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = A::Id> {
        self.0.keys().copied()
    }
}
