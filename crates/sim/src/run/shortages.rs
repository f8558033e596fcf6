//! Temporary shortages of resources that effects need.

use provost_core::{
    session::SessionEffect,
    shortage::{Resource, Shortage},
};

use super::Sim;
use crate::{engine::SessionEffectKey, rng::Rng};

/// Maximum number of shortages in one simulation.
const MAX_SHORTAGES: u64 = 6;

/// The error of an effect that failed for lack of disk space.
const NO_SPACE: &str = "make its directory: No space left on device (os error 28)";

impl Sim {
    /// Returns the resource that an effect needs in order to start, but that is missing now. An effect in progress
    /// needs no further resources.
    pub(super) fn short_for(
        &self,
        key: &SessionEffectKey,
        effect: &SessionEffect,
    ) -> Option<Shortage> {
        let begun = match effect {
            SessionEffect::PrepareWork { .. } | SessionEffect::TakeSnapshot { .. } => false,
            SessionEffect::RunSetup { .. }
            | SessionEffect::RunCheck { .. }
            | SessionEffect::RunHook(_) => self.world.commands.contains_key(key),
            SessionEffect::StartLaunch(launch) => {
                self.world.holders.contains_key(launch)
                    || self.world.cancelled_launches.contains(launch)
            }
            SessionEffect::Follow(_)
            | SessionEffect::StopLaunch(..)
            | SessionEffect::Deliver { .. }
            | SessionEffect::PressAgain { .. } => true,
        };
        let short = self.world.short_until > self.world.now_ms && !begun;
        short.then(|| Shortage::new(Resource::DiskSpace, NO_SPACE))
    }

    /// Causes a shortage now and then. Uses its own random numbers, so that the rest of the scenario stays the
    /// same.
    pub(super) fn run_short(&mut self) {
        let mut rng = Rng::from_names(self.seed, &[42, self.steps]);
        let chosen = self.faults.calm || Rng::from_names(self.seed, &[41]).percent(20);
        let may = self.faults.shortages && chosen && self.shortages < MAX_SHORTAGES;
        if may && rng.permille(60) {
            self.shortages += 1;
            self.world.short_until = self.world.now_ms + rng.below(60_000);
            self.engine.note(|| "— the disk is full".to_owned());
        }
    }
}
