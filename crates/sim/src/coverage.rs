//! The event kinds, states, rules and table cells that the seeds have visited.

use std::collections::BTreeSet;

use provost_core::{
    run,
    session::{Event, Session},
    task,
};

/// A cell of the lifecycle table: claim, process, activity, verification.
pub type Cell = [&'static str; 4];

/// Everything visited so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub kinds: BTreeSet<&'static str>,
    pub states: BTreeSet<&'static str>,
    pub rules: BTreeSet<&'static str>,
    pub cells: BTreeSet<Cell>,
    pub run_kinds: BTreeSet<&'static str>,
    /// The endings of runs.
    pub endings: BTreeSet<&'static str>,
    pub task_kinds: BTreeSet<&'static str>,
}

impl Coverage {
    pub(crate) fn visit(&mut self, event: &Event, after: &Session) {
        self.kinds.insert(event.kind().0);
        let judged = after.judgement();
        self.states.insert(judged.state.word());
        self.rules.insert(judged.rule.word());
        if !after.attempt().is_sealed() {
            self.cells.insert(cell_of(after));
        }
    }

    pub(crate) fn visit_run(&mut self, event: &run::Event) {
        self.run_kinds.insert(event.kind().0);
        if let run::Event::RunSealed(sealed) = event {
            self.endings.insert(sealed.outcome.ending.word());
        }
    }

    pub(crate) fn visit_task(&mut self, event: &task::Event) {
        self.task_kinds.insert(event.kind().0);
    }

    pub fn merge(&mut self, other: &Coverage) {
        self.kinds.extend(&other.kinds);
        self.states.extend(&other.states);
        self.rules.extend(&other.rules);
        self.cells.extend(&other.cells);
        self.run_kinds.extend(&other.run_kinds);
        self.endings.extend(&other.endings);
        self.task_kinds.extend(&other.task_kinds);
    }
}

fn cell_of(session: &Session) -> Cell {
    [
        session.claim().word(),
        session.process().word(),
        session.activity().word(),
        session.verification().word(),
    ]
}
