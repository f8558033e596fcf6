//! The loaded aggregates of one kind, with their pending effects and deadlines.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    aggregate::{Deadline, EffectKey},
    ids::SessionId,
};

use super::draft::Draft;
use crate::stored_aggregate::StoredAggregate;

/// The sessions, runs or teams of a board.
#[derive(Debug)]
pub struct Shelf<A: StoredAggregate> {
    loaded: BTreeMap<A::Id, LoadedAggregate<A>>,
    deadlines: BTreeSet<(u64, A::Id)>,
    /// The aggregates that each session is bound to.
    bound: BTreeMap<SessionId, BTreeSet<A::Id>>,
}

#[derive(Debug)]
struct LoadedAggregate<A: StoredAggregate> {
    state: A,
    version: u64,
    effects: BTreeMap<EffectKey, A::Effect>,
    deadline: Option<Deadline>,
}

/// The effects of one kind of aggregate that a commit starts and cancels.
#[derive(Debug, PartialEq)]
pub struct EffectChanges<A: StoredAggregate> {
    pub start: Vec<(A::Id, A::Effect)>,
    pub cancel: Vec<(A::Id, EffectKey)>,
}

/// Whether an aggregate stays on the shelf once it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenClosed {
    Keep,
    Evict,
}

impl<A: StoredAggregate> Default for Shelf<A> {
    fn default() -> Shelf<A> {
        Shelf { loaded: BTreeMap::new(), deadlines: BTreeSet::new(), bound: BTreeMap::new() }
    }
}

impl<A: StoredAggregate> Default for EffectChanges<A> {
    fn default() -> EffectChanges<A> {
        EffectChanges { start: Vec::new(), cancel: Vec::new() }
    }
}

impl<A: StoredAggregate> EffectChanges<A> {
    pub(super) fn extend(&mut self, more: EffectChanges<A>) {
        self.start.extend(more.start);
        self.cancel.extend(more.cancel);
    }
}

impl<A: StoredAggregate> Shelf<A> {
    pub fn get(&self, id: A::Id) -> Option<&A> {
        self.loaded.get(&id).map(|loaded| &loaded.state)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &A> {
        self.loaded.values().map(|loaded| &loaded.state)
    }

    pub fn len(&self) -> usize {
        self.loaded.len()
    }

    pub fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    /// Returns the earliest deadline, in monotonic milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns the aggregates whose deadline has passed.
    pub fn due(&self, reached_ms: u64) -> Vec<A::Id> {
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= reached_ms);
        due.map(|(_, id)| *id).collect()
    }

    /// Returns the aggregates that a session is bound to.
    pub fn bound_to(&self, session: SessionId) -> Vec<A::Id> {
        self.bound.get(&session).into_iter().flatten().copied().collect()
    }

    /// Starts a draft of a loaded aggregate.
    pub(super) fn draft(&self, id: A::Id) -> Option<Draft<A>> {
        let loaded = self.loaded.get(&id)?;
        Some(Draft::new(loaded.state.clone(), loaded.version))
    }

    /// Adds an aggregate that was read from the ledger, even if it is closed. The returned changes
    /// contain its pending effects.
    pub(super) fn load(&mut self, state: A, version: u64) -> EffectChanges<A> {
        self.insert(state, version, &BTreeSet::new(), WhenClosed::Keep)
    }

    /// Applies a committed draft.
    pub(super) fn commit(&mut self, draft: Draft<A>) -> EffectChanges<A> {
        let version = draft.version();
        self.insert(draft.state, version, &draft.abandoned, WhenClosed::Evict)
    }

    /// Evicts an aggregate if it is closed.
    pub(super) fn evict(&mut self, id: A::Id) {
        if self.get(id).is_some_and(A::is_closed) {
            self.remove(id);
        }
    }

    /// Replaces an aggregate. If an effect was abandoned because of a shortage but is still pending, the effect is
    /// started again, because nothing is carrying out the effect anymore.
    fn insert(
        &mut self,
        state: A,
        version: u64,
        abandoned: &BTreeSet<EffectKey>,
        when_closed: WhenClosed,
    ) -> EffectChanges<A> {
        let id = state.id();
        let effects: BTreeMap<EffectKey, A::Effect> =
            state.effects().into_iter().map(|effect| (A::effect_key(&effect), effect)).collect();
        let before = self.remove(id).map(|loaded| loaded.effects).unwrap_or_default();
        let in_progress = |key: &EffectKey| before.contains_key(key) && !abandoned.contains(key);
        let started = effects.iter().filter(|(key, _)| !in_progress(key));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        let changes = EffectChanges {
            start: started.map(|(_, effect)| (id, effect.clone())).collect(),
            cancel: ended.map(|key| (id, key.clone())).collect(),
        };
        if when_closed == WhenClosed::Evict && state.is_closed() {
            return changes;
        }
        let deadline = state.deadline();
        self.deadlines.extend(deadline.map(|deadline| (deadline.at_ms, id)));
        for session in state.bound_sessions() {
            self.bound.entry(session).or_default().insert(id);
        }
        self.loaded.insert(id, LoadedAggregate { state, version, effects, deadline });
        changes
    }

    fn remove(&mut self, id: A::Id) -> Option<LoadedAggregate<A>> {
        let removed = self.loaded.remove(&id)?;
        if let Some(deadline) = removed.deadline {
            self.deadlines.remove(&(deadline.at_ms, id));
        }
        for session in removed.state.bound_sessions() {
            if let Some(bound) = self.bound.get_mut(&session) {
                bound.remove(&id);
                if bound.is_empty() {
                    self.bound.remove(&session);
                }
            }
        }
        Some(removed)
    }
}
