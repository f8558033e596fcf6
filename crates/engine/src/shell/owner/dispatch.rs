//! Passes the results of commits on: effects to the executor, and events to subscribers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use provost_api::EventRow;
use provost_core::{
    aggregate::{Aggregate, EffectKey},
    ids::SessionId,
    lifecycle::State,
    run::Run,
    session::Session,
    team::Team,
};
use provost_ledger::CommittedBatch;

use super::{
    super::{
        executor::{EffectOrder, EffectStart, ExecutableAggregate},
        handle::event_row,
    },
    Owner,
};
use crate::{
    board::CommitChanges,
    stored_aggregate::StoredAggregate,
    stream::{self, Subject, for_subject},
};

impl Owner {
    pub(super) async fn dispatch(&self, changes: CommitChanges) {
        let CommitChanges { sessions, runs, teams, .. } = changes;
        self.cancel_effects::<Session>(sessions.cancel).await;
        self.cancel_effects::<Run>(runs.cancel).await;
        self.cancel_effects::<Team>(teams.cancel).await;
        self.start_effects::<Run>(runs.start).await;
        self.start_effects::<Team>(teams.start).await;
        self.start_effects::<Session>(sessions.start).await;
    }

    async fn cancel_effects<A: StoredAggregate>(&self, effects: Vec<(A::Id, EffectKey)>) {
        for (id, key) in effects {
            self.order(EffectOrder::Cancel(id.into(), key)).await;
        }
    }

    async fn start_effects<A: ExecutableAggregate>(&self, effects: Vec<(A::Id, A::Effect)>) {
        let mut shared: HashMap<A::Id, Arc<A>> = HashMap::new();
        for (id, effect) in effects {
            let Some(held) = self.board.get::<A>(id) else { continue };
            let aggregate = shared.entry(id).or_insert_with(|| Arc::new(held.clone())).clone();
            self.start_effect(aggregate, effect).await;
        }
    }

    async fn start_effect<A: ExecutableAggregate>(&self, aggregate: Arc<A>, effect: A::Effect) {
        let session = aggregate.session_for(&effect).and_then(|id| self.session_or_stored(id));
        self.order(A::order(EffectStart { aggregate, effect, session })).await;
    }

    /// Restarts an effect that is still pending but that no task is carrying out anymore.
    pub(super) async fn redispatch(&self, subject: Subject, key: &str) {
        for_subject!(subject, |id: A| {
            let Some(held) = self.board.get::<A>(id) else { return };
            let pending = held.effects().into_iter().find(|effect| A::effect_key(effect) == key);
            if let Some(effect) = pending {
                self.start_effect(Arc::new(held.clone()), effect).await;
            }
        });
    }

    /// Returns a session, even if it was evicted.
    fn session_or_stored(&self, id: SessionId) -> Option<Arc<Session>> {
        let held = self.board.session(id).cloned();
        let stored = || stream::load::<Session>(&self.ledger, id).ok().map(|(session, _)| session);
        held.or_else(stored).map(Arc::new)
    }

    async fn order(&self, order: EffectOrder) {
        // The executor stops only together with the daemon. Effects that are pending then will be
        // pending again after the next start.
        drop(self.orders.send(order).await);
    }

    pub(super) fn publish(
        &self,
        committed: CommittedBatch,
        states: &BTreeMap<(SessionId, u64), State>,
    ) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let mut rows: Vec<EventRow> = committed.into_records().iter().map(event_row).collect();
        for row in &mut rows {
            let id = row.session.parse().ok();
            let state = id.and_then(|id| states.get(&(id, row.version)));
            row.state = state.map(|state| (*state).into());
        }
        // Sending fails without subscribers, which is fine.
        drop(self.events.send(Arc::new(rows)));
    }
}
