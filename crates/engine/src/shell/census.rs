//! Doubts deaths that too many probes tell at once.
//!
//! A probe can be wrong about everybody in the same way: a process table that shows nothing, a machine that was
//! restored from a picture of itself. So who looks dead is not believed to be while more than half do. What the kernel
//! told of an end is never asked about here.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::ids::LaunchId;
use tokio::sync::Notify;

use super::held;

/// Among fewer than these it is no wonder that more than half end together.
const AT_LEAST: usize = 5;

/// How long looks that end together are waited for: they are one pass.
const PASS: Duration = Duration::from_millis(500);

/// How long those are waited for that have not looked at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the last look at a launch showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Owed,
    Alive,
    Dead,
}

/// All launches that are followed, and what was seen of them last.
#[derive(Clone, Debug, Default)]
pub struct Census(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    looks: Mutex<BTreeMap<LaunchId, Look>>,
    looked: Notify,
}

/// A launch that counts for as long as this is kept.
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

    /// Takes note that a launch looks dead, and says whether that is believed once all have looked.
    pub(crate) async fn believe(&self, launch: LaunchId) -> Result<(), held::Error> {
        self.note(launch, Look::Dead);
        held::pause(PASS).await;
        tokio::time::timeout(PATIENCE, self.all_looked()).await.ok();
        let looks = self.looks();
        let (live, dead) = (looks.len(), looks.values().filter(|one| **one == Look::Dead).count());
        match is_doubted(live, dead) {
            true => Err(held::Error::Doubted { dead, live }),
            false => Ok(()),
        }
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

/// Says whether a pass of looks that found so many dead was none.
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
