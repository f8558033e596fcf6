//! How each aggregate is stored and held: its row, its search terms, and its place on the board.

use provost_core::{
    aggregate::Aggregate,
    ids::{RunId, SessionId, TeamId},
    lifecycle::State,
    run::{self, Run},
    session::{self, Session},
    team::{self, Team, TeamEffect},
};
use provost_ledger::{SearchTerms, TermSet};
use serde_json::{Value, json};

use crate::{
    board::{Board, CommitChanges, EffectChanges, Shelf},
    projection, search_terms,
    stream::Subject,
};

/// An aggregate with a place on the board and in the ledger.
pub trait StoredAggregate: Aggregate<Id: Into<Subject>> {
    /// Returns the row that the ledger stores next to the events, as JSON.
    fn stored_row(&self) -> String;

    /// Returns the row as a JSON value.
    fn row_value(&self) -> Value;

    fn search_terms(&self) -> SearchTerms;

    fn event_terms(event: &Self::Event) -> TermSet;

    /// Whether an event may change the search terms of the aggregate.
    fn may_change_terms(_event: &Self::Event) -> bool {
        true
    }

    /// Returns the lifecycle state to publish with an event, if the aggregate has one.
    fn lifecycle_state(&self) -> Option<State> {
        None
    }

    /// Returns the sessions that are bound to the aggregate and to which it sends commands.
    fn bound_sessions(&self) -> Vec<SessionId> {
        Vec::new()
    }

    /// Returns the session whose work an effect concerns, apart from the aggregate itself.
    fn session_for(&self, _effect: &Self::Effect) -> Option<SessionId> {
        None
    }

    fn shelf(board: &Board) -> &Shelf<Self>;

    fn shelf_mut(board: &mut Board) -> &mut Shelf<Self>;

    fn changes_mut(changes: &mut CommitChanges) -> &mut EffectChanges<Self>;
}

/// Implements the access to an aggregate's part of the board.
macro_rules! board_place {
    ($aggregate:ty, $field:ident) => {
        fn shelf(board: &Board) -> &Shelf<$aggregate> {
            &board.$field
        }

        fn shelf_mut(board: &mut Board) -> &mut Shelf<$aggregate> {
            &mut board.$field
        }

        fn changes_mut(changes: &mut CommitChanges) -> &mut EffectChanges<$aggregate> {
            &mut changes.$field
        }
    };
}

impl StoredAggregate for Session {
    fn stored_row(&self) -> String {
        projection::session::to_json(self)
    }

    fn row_value(&self) -> Value {
        json!(projection::session::row(self))
    }

    fn search_terms(&self) -> SearchTerms {
        search_terms::session_terms(self)
    }

    fn event_terms(event: &session::Event) -> TermSet {
        search_terms::session_event_terms(event)
    }

    fn lifecycle_state(&self) -> Option<State> {
        Some(self.state())
    }

    board_place!(Session, sessions);
}

impl StoredAggregate for Run {
    fn stored_row(&self) -> String {
        projection::run::to_json(self)
    }

    fn row_value(&self) -> Value {
        json!(projection::run::row(self))
    }

    fn search_terms(&self) -> SearchTerms {
        search_terms::run_terms(self)
    }

    fn event_terms(event: &run::Event) -> TermSet {
        search_terms::run_event_terms(event)
    }

    board_place!(Run, runs);
}

impl StoredAggregate for Team {
    fn stored_row(&self) -> String {
        projection::team::to_json(self)
    }

    fn row_value(&self) -> Value {
        json!(projection::team::row(self))
    }

    fn search_terms(&self) -> SearchTerms {
        search_terms::team_terms(self)
    }

    fn event_terms(event: &team::Event) -> TermSet {
        search_terms::team_event_terms(event)
    }

    /// A search for the text of a message should find the message, not the team.
    fn may_change_terms(event: &team::Event) -> bool {
        !projection::team::is_message_event(event)
    }

    fn bound_sessions(&self) -> Vec<SessionId> {
        let bound = self.members.iter().filter(|member| member.is_bound());
        bound.filter_map(|member| member.session).collect()
    }

    fn session_for(&self, effect: &TeamEffect) -> Option<SessionId> {
        let TeamEffect::RunCheck(check) = effect;
        self.member(&check.worker)?.session
    }

    board_place!(Team, teams);
}

impl From<SessionId> for Subject {
    fn from(id: SessionId) -> Subject {
        Subject::Session(id)
    }
}

impl From<RunId> for Subject {
    fn from(id: RunId) -> Subject {
        Subject::Run(id)
    }
}

impl From<TeamId> for Subject {
    fn from(id: TeamId) -> Subject {
        Subject::Team(id)
    }
}
