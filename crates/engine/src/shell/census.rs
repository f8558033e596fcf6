//! Rejects process deaths if too many probes report them at once.
//!
//! A probe can be wrong about every process for the same reason, such as an empty process table or a machine that was
//! restored from a snapshot. Therefore, a launch that looks dead is not considered dead while more than half of all
//! launches look dead. Exits that the kernel reported are always accepted.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::ids::LaunchId;
use tokio::sync::Notify;

use super::supervised_command;

/// If fewer launches than this are running, it is plausible that more than half of them end together.
const MIN_LAUNCHES: usize = 5;

/// Probes that finish within this time belong to the same scan.
const PASS: Duration = Duration::from_millis(500);

/// How long to wait for launches that have not been probed at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of the last probe of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeResult {
    Pending,
    Alive,
    Dead,
}

/// All launches that are being followed, and the last probe of each.
#[derive(Clone, Debug, Default)]
pub struct Census(Arc<CensusState>);

#[derive(Debug, Default)]
struct CensusState {
    probes: Mutex<BTreeMap<LaunchId, ProbeResult>>,
    probed: Notify,
}

/// Counts a launch until this value is dropped.
#[derive(Debug)]
pub(crate) struct CensusEntry {
    census: Census,
    launch: LaunchId,
}

impl Census {
    pub(crate) fn register(&self, launch: LaunchId) -> CensusEntry {
        self.record(launch, ProbeResult::Pending);
        CensusEntry { census: self.clone(), launch }
    }

    pub(crate) fn mark_alive(&self, launch: LaunchId) {
        self.record(launch, ProbeResult::Alive);
    }

    /// Records that a launch looks dead. Waits until all launches have been probed, and fails if so
    /// many deaths are implausible.
    pub(crate) async fn confirm_death(
        &self,
        launch: LaunchId,
    ) -> Result<(), supervised_command::Error> {
        self.record(launch, ProbeResult::Dead);
        supervised_command::sleep(PASS).await;
        tokio::time::timeout(PATIENCE, self.all_probed()).await.ok();
        let looks = self.probes();
        let (live, dead) =
            (looks.len(), looks.values().filter(|one| **one == ProbeResult::Dead).count());
        if is_implausible(live, dead) {
            Err(supervised_command::Error::Implausible { dead, live })
        } else {
            Ok(())
        }
    }

    async fn all_probed(&self) {
        loop {
            let looked = self.0.probed.notified();
            if !self.probes().values().any(|one| *one == ProbeResult::Pending) {
                return;
            }
            looked.await;
        }
    }

    fn record(&self, launch: LaunchId, look: ProbeResult) {
        self.probes().insert(launch, look);
        self.0.probed.notify_waiters();
    }

    fn probes(&self) -> MutexGuard<'_, BTreeMap<LaunchId, ProbeResult>> {
        self.0.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CensusEntry {
    fn drop(&mut self) {
        self.census.probes().remove(&self.launch);
        self.census.0.probed.notify_waiters();
    }
}

/// Whether this many dead launches in a single scan are implausible.
fn is_implausible(live: usize, dead: usize) -> bool {
    live >= MIN_LAUNCHES && dead * 2 > live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majority_of_five_or_more_dead_is_implausible() {
        let implausible: Vec<(usize, usize)> = (0..=8)
            .flat_map(|live| (0..=live).map(move |dead| (live, dead)))
            .filter(|(live, dead)| is_implausible(*live, *dead))
            .collect();
        let expected = [
            (5, 3),
            (5, 4),
            (5, 5),
            (6, 4),
            (6, 5),
            (6, 6),
            (7, 4),
            (7, 5),
            (7, 6),
            (7, 7),
            (8, 5),
            (8, 6),
            (8, 7),
            (8, 8),
        ];
        assert_eq!(implausible, expected);
    }
}
