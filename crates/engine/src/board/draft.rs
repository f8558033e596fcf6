//! Decisions about the aggregates of one kind that are not committed yet.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{aggregate::EffectKey, lifecycle::State, time::Moment};
use provost_ledger::StreamWrite;

use super::shelf::Shelf;
use crate::{stored_aggregate::StoredAggregate, stream};

/// The sessions, runs or teams of a board as they would be after the decisions so far.
#[derive(Debug)]
pub(super) struct Drafts<'b, A: StoredAggregate> {
    shelf: &'b Shelf<A>,
    drafts: BTreeMap<A::Id, Draft<A>>,
}

/// An aggregate with events that are not committed yet.
#[derive(Debug)]
pub(super) struct Draft<A: StoredAggregate> {
    pub(super) state: A,
    /// The version of the stream before the events.
    pub(super) expected: u64,
    pub(super) events: Vec<DraftedEvent<A>>,
    /// Effects that reported a shortage. They start again if they are pending after the commit.
    pub(super) abandoned: BTreeSet<EffectKey>,
}

/// An event, its actor, and the lifecycle state after it.
#[derive(Debug)]
pub(super) struct DraftedEvent<A: StoredAggregate> {
    pub(super) event: A::Event,
    pub(super) actor: String,
    pub(super) state: Option<State>,
}

impl<'b, A: StoredAggregate> Drafts<'b, A> {
    pub(super) fn new(shelf: &'b Shelf<A>) -> Drafts<'b, A> {
        Drafts { shelf, drafts: BTreeMap::new() }
    }

    pub(super) fn get(&self, id: A::Id) -> Option<&A> {
        self.drafts.get(&id).map(|draft| &draft.state).or_else(|| self.shelf.get(id))
    }

    /// Returns all aggregates, including those opened in this transaction.
    pub(super) fn iter(&self) -> impl Iterator<Item = &A> {
        let held = self.shelf.iter().filter(|held| !self.drafts.contains_key(&held.id()));
        held.chain(self.drafts.values().map(|draft| &draft.state))
    }

    pub(super) fn existing_draft(&self, id: A::Id) -> Option<&Draft<A>> {
        self.drafts.get(&id)
    }

    pub(super) fn existing_draft_mut(&mut self, id: A::Id) -> Option<&mut Draft<A>> {
        self.drafts.get_mut(&id)
    }

    pub(super) fn drafts(&self) -> impl Iterator<Item = &Draft<A>> {
        self.drafts.values()
    }

    /// Returns the draft of an aggregate on the board, and starts it if there is none yet.
    pub(super) fn draft(&mut self, id: A::Id) -> Option<&mut Draft<A>> {
        if !self.drafts.contains_key(&id) {
            self.drafts.insert(id, self.shelf.draft(id)?);
        }
        self.drafts.get_mut(&id)
    }

    /// Adds the draft of an aggregate that was opened in this transaction.
    pub(super) fn insert(&mut self, draft: Draft<A>) -> &A {
        &self.drafts.entry(draft.state.id()).or_insert(draft).state
    }

    /// Adds an event to an aggregate, if the aggregate is on the board.
    pub(super) fn add(&mut self, id: A::Id, at: Moment, event: A::Event, actor: &str) {
        if let Some(draft) = self.draft(id) {
            draft.add(at, event, actor);
        }
    }

    /// Returns the drafts that have events.
    pub(super) fn into_changed(self) -> Vec<Draft<A>> {
        self.drafts.into_values().filter(|draft| !draft.events.is_empty()).collect()
    }
}

impl<A: StoredAggregate> Draft<A> {
    pub(super) fn new(state: A, expected: u64) -> Draft<A> {
        Draft { state, expected, events: Vec::new(), abandoned: BTreeSet::new() }
    }

    /// Starts the draft of a new aggregate with its first event.
    pub(super) fn open(id: A::Id, spec: A::Spec, at: Moment, actor: &str) -> Draft<A> {
        let event = A::opening(spec);
        let state = A::open(id, at, &event).expect("the opening event opens the aggregate");
        let mut draft = Draft::new(state, 0);
        draft.push(event, actor);
        draft
    }

    /// Applies an event, and keeps it for the ledger.
    pub(super) fn add(&mut self, at: Moment, event: A::Event, actor: &str) {
        self.state.evolve(at, &event);
        self.push(event, actor);
    }

    fn push(&mut self, event: A::Event, actor: &str) {
        let state = self.state.lifecycle_state();
        self.events.push(DraftedEvent { event, actor: actor.to_owned(), state });
    }

    /// Returns the version of the stream after the events.
    pub(super) fn version(&self) -> u64 {
        self.expected + self.events.len() as u64
    }

    /// Returns the lifecycle state after each event, with the version of the event.
    pub(super) fn states(&self) -> impl Iterator<Item = (u64, State)> {
        let versions = self.expected + 1..;
        versions.zip(&self.events).filter_map(|(version, one)| Some((version, one.state?)))
    }

    pub(super) fn write(&self) -> StreamWrite {
        let snapshot_due =
            self.expected / stream::SNAPSHOT_EVERY != self.version() / stream::SNAPSHOT_EVERY;
        let may_change_terms = |one: &DraftedEvent<A>| A::may_change_terms(&one.event);
        let terms_due = self.expected == 0 || self.events.iter().any(may_change_terms);
        StreamWrite {
            stream: stream::stream_id(self.state.id()),
            expected: self.expected,
            events: self
                .events
                .iter()
                .map(|one| stream::new_event::<A>(&one.event, &one.actor))
                .collect(),
            open: !self.state.is_closed(),
            pending: stream::pending_items(&self.state),
            projection: Some(self.state.stored_row()),
            search_terms: terms_due.then(|| self.state.search_terms()),
            snapshot: snapshot_due.then(|| stream::snapshot(&self.state)),
        }
    }
}
