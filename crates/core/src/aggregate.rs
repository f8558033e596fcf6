//! The frame that sessions, runs and teams share: events decide their state, and their state
//! decides their pending effects.
//!
//! A new aggregate is its state, an event enum from `events!`, and an [`Aggregate`] implementation.
//! Loading, holding, committing and evicting are written once for all of them.

use std::{
    fmt::{Debug, Display},
    hash::Hash,
    str::FromStr,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{event_codec::StoredEvent, time::Moment};

/// Identifies an effect within its aggregate. An external command runs in a directory with this name,
/// so it cannot run twice.
pub type EffectKey = String;

/// The next time at which an aggregate changes merely because time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// In monotonic milliseconds.
    pub at_ms: u64,
    /// What happens at that time.
    pub purpose: &'static str,
}

/// State that is recorded as a stream of events, and that has pending effects.
pub trait Aggregate:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The kind of the aggregate's streams.
    const KIND: &'static str;

    type Id: Copy + Debug + Display + Ord + Hash + FromStr + Send + Sync + 'static;
    /// The specification with which a caller opens the aggregate.
    type Spec;
    type Event: StoredEvent;
    type Command;
    type Rejection: Debug + Display;
    /// The data that a decision reads in addition to the aggregate itself.
    type DecideContext<'a>;
    /// The data that an automatic step reads in addition to the aggregate itself.
    type AdvanceContext<'a>;
    /// An automatic step: an event, or events together with commands to sessions.
    type Step: Debug;
    type Effect: Clone + Debug + PartialEq + Send + Sync + 'static;

    fn id(&self) -> Self::Id;

    /// Returns the first event of a stream.
    fn opening(spec: Self::Spec) -> Self::Event;

    /// Creates the aggregate from its first event. Returns `None` for any other event.
    fn open(id: Self::Id, at: Moment, event: &Self::Event) -> Option<Self>;

    /// Handles a command: returns the resulting events, or why the command is rejected.
    fn decide(
        &self,
        command: &Self::Command,
        context: &Self::DecideContext<'_>,
    ) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Applies one event. This never fails, because every stored event must remain readable.
    fn evolve(&mut self, at: Moment, event: &Self::Event);

    /// Returns the next automatic step, if any. The caller applies the step and then calls this again.
    fn advance(&self, context: &Self::AdvanceContext<'_>) -> Option<Self::Step>;

    /// Returns all pending effects, which depend only on the current state.
    fn effects(&self) -> Vec<Self::Effect>;

    fn effect_key(effect: &Self::Effect) -> EffectKey;

    fn deadline(&self) -> Option<Deadline>;

    /// Whether nothing is open or pending, so that the aggregate need not be held in memory.
    fn is_closed(&self) -> bool;

    /// Marks an aggregate that was imported from another home. The ledger records this apart from
    /// the events.
    fn set_imported(&mut self, imported: bool);

    /// Returns the next event that closes a copy which was imported from another home, where it
    /// continues. Returns `None` once nothing is pending, running or expected in this home.
    fn closing_event(&self, now: Moment) -> Option<Self::Event>;

    /// Returns the events that close a copy which was imported from another home. They do not judge
    /// the work: what is still open is only cancelled in this copy of the record.
    fn close_imported(&self, now: Moment) -> Vec<Self::Event> {
        let mut events = Vec::new();
        let mut copy = self.clone();
        while let Some(event) = copy.closing_event(now) {
            copy.evolve(now, &event);
            events.push(event);
        }
        events
    }
}

/// Implements the members of [`Aggregate`] that have the same form for every aggregate.
macro_rules! aggregate_members {
    (
        $aggregate:ident $kind:literal, $id:ty,
        $subject:ident($change:ident::$opened:ident($spec:ty)), $effect:ty
    ) => {
        const KIND: &'static str = $kind;

        type Id = $id;
        type Spec = $spec;
        type Event = Event;
        type Effect = $effect;

        fn id(&self) -> $id {
            self.id
        }

        fn opening(spec: $spec) -> Event {
            $opened { spec: Box::new(spec) }.into()
        }

        fn open(id: $id, at: Moment, event: &Event) -> Option<$aggregate> {
            let Event::$subject($change::$opened(opened)) = event else { return None };
            Some($aggregate::open(id, at, opened))
        }

        fn evolve(&mut self, at: Moment, event: &Event) {
            $aggregate::evolve(self, at, event);
        }

        fn effects(&self) -> Vec<$effect> {
            $aggregate::effects(self)
        }

        fn effect_key(effect: &$effect) -> EffectKey {
            effect.key()
        }

        fn is_closed(&self) -> bool {
            $aggregate::is_closed(self)
        }
    };
}
