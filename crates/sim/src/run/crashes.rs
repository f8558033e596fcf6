//! Crashes of the engine, and its restart.

use provost_core::session::SessionCommand;

use super::{MAX_CRASHES, Sim};
use crate::{
    engine::{CrashPoint, EffectTask, EngineInput, SessionEffectKey},
    session_laws::BrokenLaw,
};

impl Sim {
    pub(super) fn crash_point(&mut self) -> CrashPoint {
        if let Some((_, point)) = self.crash_at.filter(|(commit, _)| *commit == self.commits) {
            return point;
        }
        let may = self.faults.crashes && self.crashes < MAX_CRASHES;
        // A calm scenario is short, so crashes are more frequent in it.
        let often = if self.faults.calm { 100 } else { 25 };
        if !may || !self.rng.permille(often) {
            return CrashPoint::Nowhere;
        }
        match self.rng.below(4) {
            0 => CrashPoint::BeforeAppend,
            1 => CrashPoint::AfterAppend,
            _ => CrashPoint::InDispatch(self.rng.index(3)),
        }
    }

    /// Crashes the engine, lets time pass, and restarts the engine. Agents and users continue to act in the meantime.
    pub(super) fn crash(&mut self) -> Result<(), BrokenLaw> {
        self.crashes += 1;
        self.leave_landing()?;
        self.engine.crash();
        let downtime = self.rng.pick(&[0, 3, 100, 5_000]);
        self.live_without_engine(self.world.now_ms + downtime);
        self.engine.restore()?;
        self.observe_first()
    }

    fn live_without_engine(&mut self, until: u64) {
        loop {
            while let Some(launch) = self.world.ready().first().copied() {
                self.world.act(launch);
            }
            match self.world.next_wake().filter(|wake| *wake <= until) {
                Some(wake) => self.world.now_ms = wake,
                None => break,
            }
        }
        self.world.now_ms = until;
    }

    /// After a restart, reads everything that happened in the meantime, before any deadline is
    /// judged.
    pub(super) fn observe_first(&mut self) -> Result<(), BrokenLaw> {
        let follows: Vec<SessionEffectKey> =
            self.engine.tasks.iter().filter_map(followed_key).collect();
        let mut seen = Vec::new();
        for key in follows {
            if let Some(EffectTask::Follow(follower)) = self.engine.tasks.get(&key) {
                let launch = follower.launch();
                let input = EngineInput::Observation(
                    launch.session,
                    SessionCommand::LaunchFollowed { launch },
                );
                self.observe(&mut seen, Some(input))?;
            }
            while let Some(EffectTask::Follow(follower)) = self.engine.tasks.get_mut(&key) {
                let launch = follower.launch();
                let command = follower.next_observation(&self.world);
                if follower.done {
                    self.engine.tasks.remove(&key);
                }
                let Some(command) = command else { break };
                self.observe(&mut seen, Some(EngineInput::Observation(launch.session, command)))?;
            }
        }
        self.observe(&mut seen, None)?;
        self.recheck_teams()?;
        self.apply_committed()
    }

    /// Records observations one by one or, in large scenarios, many observations together.
    fn observe(
        &mut self,
        seen: &mut Vec<EngineInput>,
        more: Option<EngineInput>,
    ) -> Result<(), BrokenLaw> {
        let last = more.is_none();
        seen.extend(more);
        if seen.len() >= self.at_once || last {
            self.engine.commit_inputs(self.now(), &std::mem::take(seen), CrashPoint::Nowhere)?;
        }
        Ok(())
    }
}

fn followed_key((key, task): (&SessionEffectKey, &EffectTask)) -> Option<SessionEffectKey> {
    match task {
        EffectTask::Follow(_) => Some(key.clone()),
        EffectTask::Other(_) => None,
    }
}
