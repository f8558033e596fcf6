//! The event kinds, states, rules and table cells that the seeds have visited.

use std::collections::BTreeSet;

use provost_core::{
    run,
    session::{Event, Session},
    team,
};

/// A cell of the lifecycle table: claim, process, activity, verification.
pub type LifecycleCell = [&'static str; 4];

/// Everything visited so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub kinds: BTreeSet<&'static str>,
    pub states: BTreeSet<&'static str>,
    pub rules: BTreeSet<&'static str>,
    pub cells: BTreeSet<LifecycleCell>,
    pub run_kinds: BTreeSet<&'static str>,
    /// The endings of runs.
    pub endings: BTreeSet<&'static str>,
    pub team_kinds: BTreeSet<&'static str>,
}

impl Coverage {
    pub(crate) fn visit(&mut self, event: &Event, after: &Session) {
        self.kinds.insert(event.kind().0);
        let judged = after.judgement();
        self.states.insert(judged.state.as_str());
        self.rules.insert(judged.rule.as_str());
        if !after.attempt().is_sealed() {
            self.cells.insert(cell_of(after));
        }
    }

    pub(crate) fn visit_run(&mut self, event: &run::Event) {
        self.run_kinds.insert(event.kind().0);
        if let run::Event::Run(run::RunChange::RunSealed(sealed)) = event {
            self.endings.insert(sealed.outcome.ending.as_str());
        }
    }

    pub(crate) fn visit_team(&mut self, event: &team::Event) {
        self.team_kinds.insert(event.kind().0);
    }

    pub fn merge(&mut self, other: &Coverage) {
        self.kinds.extend(&other.kinds);
        self.states.extend(&other.states);
        self.rules.extend(&other.rules);
        self.cells.extend(&other.cells);
        self.run_kinds.extend(&other.run_kinds);
        self.endings.extend(&other.endings);
        self.team_kinds.extend(&other.team_kinds);
    }
}

fn cell_of(session: &Session) -> LifecycleCell {
    [
        session.claim().as_str(),
        session.process().as_str(),
        session.activity().as_str(),
        session.verification().as_str(),
    ]
}
