//! Runs on the board. Decisions about a run are made together with those about its sessions.

use provost_core::{
    ids::RunId,
    run::{
        Run, RunAdvanceContext, RunCommand, RunFailureCause, RunRejection, RunSpec, RunStep,
        RunStopped, SessionOrder,
    },
    session::{Event, SessionRejection},
};

use super::{BoardTransaction, MAX_FOLLOW_UPS, draft::Draft};

impl BoardTransaction<'_> {
    /// Opens a run and applies its first follow-up steps.
    pub fn open_run(&mut self, id: RunId, spec: RunSpec, actor: &str) -> Option<&Run> {
        self.runs.insert(Draft::open(id, spec, self.now, actor));
        self.advance_run(id, actor);
        self.run(id)
    }

    /// Decides on a command to a run on the board. Returns the run as it would be afterwards.
    pub fn command_run(
        &mut self,
        id: RunId,
        command: &RunCommand,
        actor: &str,
    ) -> Option<Result<&Run, RunRejection>> {
        let events = match self.run(id)?.decide(command) {
            Ok(events) => events,
            Err(why) => return Some(Err(why)),
        };
        for event in events {
            self.runs.add(id, self.now, event, actor);
        }
        self.advance_run(id, actor);
        self.share_free_slot(id);
        self.run(id).map(Ok)
    }

    /// Counts the agents that are working for all other runs.
    fn agents_of_other_runs(&self, id: RunId) -> usize {
        let others = self.runs.iter().filter(|run| run.id != id);
        others.map(Run::agents_at_work).sum()
    }

    /// Offers the slot freed by a finished agent to other runs, oldest first.
    pub(super) fn share_free_slot(&mut self, id: RunId) {
        let at_work = |run: Option<&Run>| run.map_or(0, Run::agents_at_work);
        if at_work(self.run(id)) >= at_work(self.board.run(id)) {
            return;
        }
        let held = self.board.runs.iter().map(|run| run.id);
        let others: Vec<RunId> = held.filter(|run| *run != id).collect();
        for other in others {
            self.advance_run(other, "provost");
        }
    }

    /// Returns another run with this name that is not sealed yet, as it would be after the
    /// decisions so far.
    pub fn open_run_named(&self, name: &str, own: RunId) -> Option<&Run> {
        let mut runs = self.runs.iter();
        runs.find(|run| run.id != own && !run.is_sealed() && run.spec.name == name)
    }

    /// Applies follow-up steps of a run and its sessions until none remain.
    pub(super) fn advance_run(&mut self, id: RunId, actor: &str) {
        for _ in 0..MAX_FOLLOW_UPS {
            let step = self.run(id).and_then(|run| {
                let look = |session| self.session(session);
                let (now, elsewhere) = (self.reached, self.agents_of_other_runs(id));
                run.advance(&RunAdvanceContext { now, other_agents: elsewhere, session: &look })
            });
            match step {
                None => return,
                Some(RunStep::Event(event)) => self.runs.add(id, self.now, event, actor),
                Some(RunStep::EventAndOrder(event, SessionOrder::Open(session, spec))) => {
                    self.runs.add(id, self.now, event, actor);
                    self.open(session, *spec, actor);
                }
                Some(RunStep::EventAndOrder(event, SessionOrder::Command(session, command))) => {
                    match self.decide(session, &command, actor) {
                        Some(Ok(_)) => self.runs.add(id, self.now, event, actor),
                        refused => {
                            let stopped = stopped_by_refusal(refused).into();
                            self.runs.add(id, self.now, stopped, actor);
                        }
                    }
                }
                Some(RunStep::Command(session, command)) => {
                    // If the session rejects the command now, the command is sent again once the session has changed.
                    let Some(Ok(_)) = self.decide(session, &command, actor) else { return };
                }
            }
        }
        unreachable!("the rules of a run converge: {:?}", self.run(id));
    }
}

/// Stops a run because one of its sessions rejected a command.
fn stopped_by_refusal(refused: Option<Result<Vec<Event>, SessionRejection>>) -> RunStopped {
    let detail = match refused {
        Some(Err(why)) => format!("could not resume its session: {why}"),
        Some(Ok(_)) | None => "could not resume its session".to_owned(),
    };
    RunStopped { cause: RunFailureCause::Work, detail }
}
