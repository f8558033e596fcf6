//! What effects lack for a while.

use provost_core::{
    session::Effect,
    shortage::{Resource, Shortage},
};

use super::Sim;
use crate::{engine::Key, rng::Rng};

/// The machine runs out of something at most so often in one simulation.
const MAX_SHORTAGES: u64 = 6;

/// What an effect says that was not done for lack of room.
const NO_SPACE: &str = "make its directory: No space left on device (os error 28)";

impl Sim {
    /// The resource that keeps an effect from being begun now. What was begun needs nothing more.
    pub(super) fn short_for(&self, key: &Key, effect: &Effect) -> Option<Shortage> {
        let begun = match effect {
            Effect::PrepareWork { .. } | Effect::TakeSnapshot { .. } => false,
            Effect::RunSetup { .. } | Effect::RunCheck { .. } | Effect::RunHook(_) => {
                self.world.ran.contains_key(key)
            }
            Effect::StartLaunch(launch) => {
                self.world.holders.contains_key(launch) || self.world.barred.contains(launch)
            }
            Effect::Follow(_)
            | Effect::StopLaunch(..)
            | Effect::Deliver { .. }
            | Effect::PressAgain { .. } => true,
        };
        let short = self.world.short_until > self.world.now_ms && !begun;
        short.then(|| Shortage::new(Resource::DiskSpace, NO_SPACE))
    }

    /// Runs out of something now and then. Drawn apart, so that all else in the story is as it was.
    pub(super) fn run_short(&mut self) {
        let mut rng = Rng::named(self.seed, &[42, self.steps]);
        let told = self.faults.calm || Rng::named(self.seed, &[41]).percent(20);
        let may = self.faults.shortages && told && self.shortages < MAX_SHORTAGES;
        if may && rng.permille(60) {
            self.shortages += 1;
            self.world.short_until = self.world.now_ms + rng.below(60_000);
            self.engine.note(|| "— the disk is full".to_owned());
        }
    }
}
