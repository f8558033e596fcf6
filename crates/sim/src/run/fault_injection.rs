//! Random faults: crashes, a replaced daemon, killed holders and lost power.

use provost_core::ids::LaunchId;

use super::{MAX_CRASHES, Sim};
use crate::{session_laws::BrokenLaw, world::Unobservable};

impl Sim {
    pub(super) fn inject_fault(&mut self) -> Result<(), BrokenLaw> {
        self.run_short();
        if self.faults.crashes
            && self.crashes < MAX_CRASHES
            && self.rng.permille(if self.faults.calm { 15 } else { 4 })
        {
            self.crash()?;
        }
        if self.faults.crashes
            && self.crashes < MAX_CRASHES
            && self.is_landing()
            && self.rng.percent(10)
        {
            self.replace()?;
        }
        if !self.faults.deaths || self.deaths >= 2 {
            return Ok(());
        }
        if self.rng.permille(2) && !self.world.holders.is_empty() {
            self.deaths += 1;
            let launches: Vec<LaunchId> = self.world.holders.keys().copied().collect();
            let launch = self.rng.pick(&launches);
            self.world.kill_holder(launch);
            self.engine.note(|| format!("— the holder of {launch} is killed"));
        }
        if self.rng.permille(2) && !self.world.holders.is_empty() {
            self.deaths += 1;
            let launches: Vec<LaunchId> = self.world.holders.keys().copied().collect();
            let (launch, cause) = (
                self.rng.pick(&launches),
                self.rng.pick(&[Unobservable::Stopped, Unobservable::Vanished]),
            );
            self.world.make_unobservable(launch, cause);
            self.engine.note(|| format!("— {launch} lapses: {cause:?}"));
        }
        if self.rng.permille(1) {
            self.deaths += 1;
            self.leave_landing()?;
            self.forge.outlived = None;
            self.engine.crash();
            self.world.reboot(&mut self.rng);
            self.engine.note(|| "— power is lost".to_owned());
            self.world.now_ms += 10_000;
            self.engine.restore()?;
            self.observe_first()?;
        }
        Ok(())
    }
}
