//! The conditions that must hold when the simulation is quiet and at its very end.

use provost_core::{
    ids::SessionId,
    lifecycle::State,
    run::{self, Run},
    session::{OnFinish, Session, SessionCommand, StopStep},
};

use super::Sim;
use crate::{
    engine::would_change, launch_follower::LaunchFollower, session_laws::BrokenLaw,
    world::HolderLife,
};

impl Sim {
    /// When the simulation is quiet, every unfinished session waits for a user or for a silent agent.
    pub(super) fn everyone_waits_for_someone(&self) -> Result<(), BrokenLaw> {
        self.engine.verify()?;
        self.messages_were_taken()?;
        let all: usize = self.engine.runs().map(Run::agents_at_work).sum();
        let waits = |run: &&Run| {
            // The sessions of other runs may occupy all slots while they wait for a user.
            let full = all >= run.spec.planning.machine_parallel as usize;
            run.is_sealed() || run.is_live() || run.awaits_approval() || full
        };
        let mut open = self.engine.runs().filter(|run| !waits(run));
        if let Some(run) = open.next() {
            return Err(format!("the run stays in {} forever", run.stage.as_str()));
        }
        for session in self.engine.shadows() {
            let state = session.judgement().state;
            let limited = session.current_launch().is_some_and(|launch| launch.at_limit);
            let visited = session.current_launch().is_some_and(|launch| launch.viewers > 0);
            let is_member = session.spec.agent.settings.member.is_some();
            let waits = match state {
                // A member whose team has ended needs an answer only if it waits at its screen.
                State::NeedsInput => session.dismissed.is_none() || visited,
                State::Stalled | State::Lost => true,
                // The user at the agent's screen decides how to continue.
                State::Idle if visited => true,
                // The user who interrupted the turn decides how to continue.
                State::Idle if session.awaits_user() => true,
                // A member waits for the next message of its team, until the team ends.
                State::Idle if is_member && session.dismissed.is_none() => true,
                // An agent at its prompt waits for the user of the terminal.
                State::Idle if session.spec.agent.interface.has_terminal() => true,
                // A session may wait for a silent agent if it has no time limit.
                State::Working | State::Finishing => limited || self.is_silent(session),
                State::Idle
                | State::Rework
                | State::Verifying
                | State::Succeeded
                | State::Completed
                | State::Accepted
                | State::Failed
                | State::ExitedWithoutClaim
                | State::Stopped
                | State::Disputed
                | State::Cancelled
                | State::Superseded => session.attempt().is_sealed(),
            };
            if !waits {
                return Err(format!("{} stays {} forever", session.spec.name, state.as_str()));
            }
        }
        Ok(())
    }

    fn is_silent(&self, session: &Session) -> bool {
        let Some(launch) = session.current_launch() else { return false };
        let silent = launch.stream.silent || session.deadline().is_none();
        let follower = LaunchFollower::new(launch);
        silent && launch.may_be_running() && !follower.has_observation(&self.world)
    }

    pub(super) fn cancel_the_rest(&mut self) {
        let now = self.now();
        let cancel = SessionCommand::Cancel { because: "the story ends".to_owned() };
        let open: Vec<SessionId> = self
            .engine
            .shadows()
            .filter(|session| !session.attempt().is_sealed())
            .filter(|session| would_change(session, &cancel, now))
            // When a run is cancelled, its sessions are cancelled as well.
            .filter(|session| session.spec.run.is_none())
            .map(|session| session.id)
            .collect();
        if !self.faults.calm {
            open.into_iter().for_each(|id| self.ask(id, cancel.clone()));
            let open = self.engine.runs().filter(|run| !run.is_sealed()).map(|run| run.id);
            let because = "the story ends".to_owned();
            let cancel = run::RunCommand::Cancel { because };
            Vec::from_iter(open).into_iter().for_each(|id| self.ask_run(id, cancel.clone()));
            self.cancel_tasks();
        }
    }

    pub(super) fn everything_has_ended(&self) -> Result<(), BrokenLaw> {
        self.engine.verify()?;
        self.tasks_have_ended()?;
        for session in self.engine.shadows().filter(|session| session.attempt().is_sealed()) {
            self.processes_are_known(session)?;
            self.hooks_ran(session)?;
        }
        for run in self.engine.runs().filter(|run| run.is_sealed()) {
            self.hooks_of_run_ran(run)?;
        }
        if let Some(run) = self.engine.runs().find(|run| !run.is_sealed() && !self.faults.calm) {
            return Err(format!(
                "the run was cancelled in {} and is not sealed",
                run.stage.as_str()
            ));
        }
        let open = self.engine.shadows().find(|session| !session.attempt().is_sealed());
        match open {
            Some(session) if !self.faults.calm => {
                Err(format!("{} was cancelled and is not sealed", session.spec.name))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Every running process is recorded. A process that Provost stopped has exited, or is recorded as still running.
    fn processes_are_known(&self, session: &Session) -> Result<(), BrokenLaw> {
        let ours = self.world.holders.values().filter(|h| h.launch.session == session.id);
        for holder in ours.filter(|holder| holder.life == HolderLife::Reachable && !holder.gone) {
            let Some(launch) = session.launch(holder.launch) else {
                return Err(format!("{} runs, but is not recorded", holder.launch));
            };
            let parked = session.spec.on_finish == OnFinish::Park
                && !session.attempt().is_decided()
                && launch.stop.is_none();
            let given_up = launch.stop.is_some_and(|stop| stop.step == StopStep::GivenUp);
            // A user at the agent's screen decides how it continues.
            let visited = launch.viewers > 0 && !session.attempt().is_decided();
            // External agents may keep running.
            if launch.adopted {
                continue;
            }
            if !launch.may_be_running() || !(parked || given_up || visited) {
                return Err(format!("{} runs, but nothing stops it", holder.launch));
            }
        }
        Ok(())
    }

    /// Every hook of a run ran, and the report of each run attempt was written.
    fn hooks_of_run_ran(&self, run: &Run) -> Result<(), BrokenLaw> {
        if !run.is_closed() {
            return Err(format!("a run has ended with pending effects {:?}", run.effects()));
        }
        self.all_ran(
            SessionId(run.id.0),
            run.hooks_fired.iter().map(|(e, no)| (e.to_string(), *no)),
        )
    }

    /// Every pending hook ran, once under its key.
    fn hooks_ran(&self, session: &Session) -> Result<(), BrokenLaw> {
        if let Some(hook) = session.hook_log.pending.first() {
            return Err(format!("the hook {} is still pending", hook.key.event));
        }
        let fired = session.hook_log.fired.iter().map(|(event, no)| (event.to_string(), *no));
        self.all_ran(session.id, fired)
    }

    fn all_ran(
        &self,
        id: SessionId,
        fired: impl Iterator<Item = (String, u32)>,
    ) -> Result<(), BrokenLaw> {
        for (event, count) in fired {
            let key = |no| format!("h{no}-{event}");
            let missing = (1..=count).find(|no| !self.world.commands.contains_key(&(id, key(*no))));
            if let Some(no) = missing {
                return Err(format!("the hook {event} never ran for occasion {no}"));
            }
        }
        Ok(())
    }
}
