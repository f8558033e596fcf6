//! Carries out the effects of sessions in the simulated world.

use provost_core::{
    ids::LaunchId,
    session::{
        HookEnd, LaunchPhase, Session, SessionCommand, SessionEffect, StopStep, enter_retry_key,
    },
    verdict::CheckEnd,
};

use super::{Sim, receipt};
use crate::{
    engine::{EffectTask, EngineInput, ObservationSource, SessionEffectKey},
    rare,
    rng::Rng,
    session_laws::BrokenLaw,
    world::snapshot,
};

impl Sim {
    pub(super) fn follow(&mut self, key: &SessionEffectKey) {
        let blind = self.faults.unobservable && self.rng.percent(6);
        let until = self.world.now_ms + self.rng.below(3_000);
        let Some(EffectTask::Follow(follower)) = self.engine.tasks.get_mut(key) else { return };
        let launch = follower.launch();
        if self.world.must_be_killed(launch) {
            self.world.kill_launch(launch);
        }
        let command = if blind && follower.blind_until.is_none() {
            follower.blind_until = Some(until);
            Some(SessionCommand::ProcessUnknown { launch, why: "permission denied".to_owned() })
        } else {
            follower.next_observation(&self.world)
        };
        if let Some(holder) = self.world.holders.get(&launch) {
            self.engine.heard.insert(launch, holder.last_activity_ms);
        }
        let done = matches!(self.engine.tasks.get(key), Some(EffectTask::Follow(f)) if f.done);
        if done {
            self.engine.tasks.remove(key);
        }
        if let Some(command) = command {
            let input = EngineInput::Observation(launch.session, command);
            self.engine
                .observations
                .entry(ObservationSource::Follower(launch))
                .or_default()
                .push_back(input);
        }
    }

    /// Carries out an effect in the world. The result of the effect is observed later, or never.
    pub(super) fn execute_effect(&mut self, key: &SessionEffectKey) -> Result<(), BrokenLaw> {
        let Some(EffectTask::Other(effect)) = self.engine.tasks.get(key).cloned() else {
            return Ok(());
        };
        let Some(session) = self.engine.board.session(key.0).cloned() else { return Ok(()) };
        if let Some(shortage) = self.short_for(key, &effect) {
            let (effect, tries) = (key.1.clone(), session.tries_of(&key.1));
            self.engine.tasks.remove(key);
            let input = EngineInput::Observation(
                key.0,
                SessionCommand::EffectShortage { effect, tries, shortage },
            );
            self.engine
                .observations
                .entry(ObservationSource::Effect(key.0.into(), key.1.clone()))
                .or_default()
                .push_back(input);
            return Ok(());
        }
        self.find_forged_record(key, &effect);
        let result = match &effect {
            SessionEffect::PrepareWork { .. } => Some(self.prepare(&session)),
            SessionEffect::RunSetup { attempt } => self.set_up(key, *attempt)?,
            SessionEffect::StartLaunch(launch) => Some(self.start(*launch)),
            SessionEffect::StopLaunch(launch, step) => self.stop(&session, *launch, *step)?,
            SessionEffect::Deliver { launch, message } => self.write(*launch, message)?,
            SessionEffect::PressAgain { launch, message } => {
                self.write(*launch, &enter_retry_key(message))?
            }
            SessionEffect::TakeSnapshot { attempt, no } => {
                Some(self.take_snapshot(&session, *attempt, *no))
            }
            SessionEffect::RunCheck { attempt, index, .. } => {
                self.check(key, &session, *attempt, *index)?
            }
            SessionEffect::RunHook(hook) => {
                let pending = session.hook_log.pending.iter().find(|one| one.key == *hook);
                let what =
                    pending.map_or(String::new(), |o| format!("{:?} {}", o.state, o.attempt));
                self.ran(key, &what)?.map(|uncertain| {
                    let end = if uncertain {
                        HookEnd::Uncertain("power".to_owned())
                    } else {
                        HookEnd::Exit(0)
                    };
                    SessionCommand::HookFinished { key: *hook, end }
                })
            }
            SessionEffect::Follow(_) => None,
        };
        if let Some(command) = result {
            self.engine.tasks.remove(key);
            let source = ObservationSource::Effect(key.0.into(), key.1.clone());
            let input = EngineInput::Observation(key.0, command);
            self.engine.observations.entry(source).or_default().push_back(input);
        }
        Ok(())
    }

    /// Simulates a forged record, which exists before the command starts and is moved aside.
    fn find_forged_record(&mut self, key: &SessionEffectKey, effect: &SessionEffect) {
        let runs_command = matches!(
            effect,
            SessionEffect::RunCheck { .. }
                | SessionEffect::RunHook(_)
                | SessionEffect::RunSetup { .. }
        );
        let starts = runs_command && !self.world.commands.contains_key(key);
        if starts && rare::is_forged(self.seed, &key.1, &self.faults) {
            let (effect, moved_to) = (key.1.clone(), "/aside".to_owned());
            let found = SessionCommand::RecordForged { effect, moved_to };
            let source = ObservationSource::Effect(key.0.into(), key.1.clone());
            let input = EngineInput::Observation(key.0, found);
            self.engine.observations.entry(source).or_default().push_back(input);
        }
    }

    /// Writes to an agent. The result appears in its journal.
    fn write(&mut self, launch: LaunchId, key: &str) -> Result<Option<SessionCommand>, BrokenLaw> {
        if self.world.is_adopted(launch) {
            return Err(format!("{key} is sent to {launch}, which Provost did not start"));
        }
        let text = self.text_of(launch.session, key);
        self.world.write(launch, key, &text);
        Ok(None)
    }

    /// Starts a command under its key, or returns its record once it has ended. Returns `None`
    /// while the command runs.
    pub(super) fn ran(
        &mut self,
        key: &SessionEffectKey,
        what: &str,
    ) -> Result<Option<bool>, BrokenLaw> {
        let takes = Rng::from_names(self.seed, &[6, key.1.len() as u64]).below(400);
        let now = self.world.now_ms;
        let ran = self.world.run(key.0, &key.1, what, takes)?;
        Ok((ran.done_ms <= now).then_some(ran.uncertain))
    }

    fn prepare(&self, session: &Session) -> SessionCommand {
        let mut rng = Rng::from_names(self.seed, &[7, self.world.draw_name(session.id)]);
        if rng.percent(4) && !self.world.is_deterministic_plan() && !self.world.obedient {
            SessionCommand::WorkFailed { reason: "no such repository".to_owned() }
        } else {
            SessionCommand::WorkPrepared {
                cwd: "/work".to_owned(),
                base: rng
                    .percent(if session.spec.run.is_some() { 100 } else { 90 })
                    .then(|| snapshot(&self.world.worktrees[&session.id].base)),
            }
        }
    }

    fn set_up(
        &mut self,
        key: &SessionEffectKey,
        attempt: u32,
    ) -> Result<Option<SessionCommand>, BrokenLaw> {
        let no = self.world.draw_name(key.0);
        let fails =
            Rng::from_names(self.seed, &[8, no]).percent(15) && !self.world.is_deterministic_plan();
        Ok(self.ran(key, "setup")?.map(|uncertain| {
            let failure = (fails || uncertain).then(|| "it failed".to_owned());
            SessionCommand::SetupFinished { attempt, failure }
        }))
    }

    fn start(&mut self, launch: LaunchId) -> SessionCommand {
        if self.world.holders.get(&launch).is_some_and(|holder| holder.unobservable.is_some()) {
            self.world.kill_launch(launch);
            let why = "its holder did not answer".to_owned();
            return SessionCommand::ProcessUnobserved { launch, why };
        }
        match self.world.start(launch) {
            Ok(child) if self.world.is_adopted(launch) => {
                SessionCommand::LaunchAdopted { launch, child: Some(child) }
            }
            Ok(child) => SessionCommand::LaunchStarted { launch, holder: child.clone(), child },
            Err(reason) => SessionCommand::LaunchFailed { launch, reason },
        }
    }

    /// Stops a launch. A launch that is not known to be running is either cancelled or found to be
    /// running.
    pub(super) fn stop(
        &mut self,
        session: &Session,
        launch: LaunchId,
        step: StopStep,
    ) -> Result<Option<SessionCommand>, BrokenLaw> {
        let pending = session.launch(launch).is_some_and(|l| l.phase == LaunchPhase::Pending);
        if pending {
            if !self.world.holders.contains_key(&launch) {
                self.world.cancelled_launches.insert(launch);
            }
            return Ok(Some(self.start(launch)));
        }
        self.world.run(session.id, &stop_key(launch, step), "stop", 0)?;
        self.world.stop(launch, step);
        Ok(None)
    }

    pub(super) fn take_snapshot(
        &mut self,
        session: &Session,
        attempt: u32,
        no: u32,
    ) -> SessionCommand {
        let names = [10, crate::world::session_no(session.id), u64::from(no)];
        if !self.faults.calm && Rng::from_names(self.seed, &names).percent(2) {
            SessionCommand::SnapshotFailed { attempt, no, reason: "index.lock".to_owned() }
        } else {
            SessionCommand::SnapshotTaken {
                attempt,
                no,
                snapshot: self.world.take_snapshot(session.id),
                caveats: Default::default(),
            }
        }
    }

    pub(super) fn check(
        &mut self,
        key: &SessionEffectKey,
        session: &Session,
        attempt: u32,
        index: u32,
    ) -> Result<Option<SessionCommand>, BrokenLaw> {
        let command = session.spec.checks[index as usize].clone();
        let Some(snapshot) = session.attempt().verifying.snapshot.clone() else {
            return Err("a check is pending without a tree".to_owned());
        };
        let tree = snapshot.tree.0.clone();
        let Some(uncertain) = self.ran(key, &format!("{command} on {tree}"))? else {
            return Ok(None);
        };
        self.world.check_ended(session.id, &tree);
        let end = match (uncertain, tree.starts_with("good")) {
            (true, _) => CheckEnd::Unfinished("power".to_owned()),
            (false, true) => CheckEnd::Exit(0),
            (false, false) => CheckEnd::Exit(1),
        };
        let receipt = receipt(&command, &snapshot.tree, end);
        let finished = SessionCommand::CheckFinished { attempt, receipt };
        self.receipts.push((session.id, finished.clone()));
        Ok(Some(finished))
    }
}

pub(super) fn stop_key(launch: LaunchId, step: StopStep) -> String {
    format!("stop-{}-{step:?}", launch.no)
}
