//! Rejects deaths that too many probes report at once.
//!
//! A probe can be wrong about every process in the same way: an empty process table, or a machine
//! restored from a snapshot. So a launch that looks dead is not taken for dead while more than half
//! look dead. Exits that the kernel reported are never questioned here.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::ids::LaunchId;
use tokio::sync::Notify;

use super::held;

/// With fewer launches than this, it is plausible that more than half end together.
const AT_LEAST: usize = 5;

/// Probes that end within this time belong to one pass.
const PASS: Duration = Duration::from_millis(500);

/// The wait for launches that were not probed at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of the last probe of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Owed,
    Alive,
    Dead,
}

/// All launches that are followed, and the last probe of each.
#[derive(Clone, Debug, Default)]
pub struct Census(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    looks: Mutex<BTreeMap<LaunchId, Look>>,
    looked: Notify,
}

/// A launch that counts as long as this value lives.
#[derive(Debug)]
pub(crate) struct Counted {
    census: Census,
    launch: LaunchId,
}

impl Census {
    pub(crate) fn count(&self, launch: LaunchId) -> Counted {
        self.note(launch, Look::Owed);
        Counted { census: self.clone(), launch }
    }

    pub(crate) fn alive(&self, launch: LaunchId) {
        self.note(launch, Look::Alive);
    }

    /// Records that a launch looks dead, and returns once all were probed whether that is
    /// plausible.
    pub(crate) async fn believe(&self, launch: LaunchId) -> Result<(), held::Error> {
        self.note(launch, Look::Dead);
        held::pause(PASS).await;
        tokio::time::timeout(PATIENCE, self.all_looked()).await.ok();
        let looks = self.looks();
        let (live, dead) = (looks.len(), looks.values().filter(|one| **one == Look::Dead).count());
        if is_doubted(live, dead) { Err(held::Error::Doubted { dead, live }) } else { Ok(()) }
    }

    async fn all_looked(&self) {
        loop {
            let looked = self.0.looked.notified();
            if !self.looks().values().any(|one| *one == Look::Owed) {
                return;
            }
            looked.await;
        }
    }

    fn note(&self, launch: LaunchId, look: Look) {
        self.looks().insert(launch, look);
        self.0.looked.notify_waiters();
    }

    fn looks(&self) -> MutexGuard<'_, BTreeMap<LaunchId, Look>> {
        self.0.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.census.looks().remove(&self.launch);
        self.census.0.looked.notify_waiters();
    }
}

/// Whether a pass with this many deaths is implausible.
fn is_doubted(live: usize, dead: usize) -> bool {
    live >= AT_LEAST && dead * 2 > live
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_five_or_more_are_not_believed_to_be_dead() {
        let doubted: Vec<(usize, usize)> = (0..=8)
            .flat_map(|live| (0..=live).map(move |dead| (live, dead)))
            .filter(|(live, dead)| is_doubted(*live, *dead))
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
        assert_eq!(doubted, expected);
    }
}
