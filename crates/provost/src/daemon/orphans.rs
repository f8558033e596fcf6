//! Reaps orphaned processes, which become children of the daemon because it is a child subreaper.
//!
//! Each child that the daemon starts has an owner that waits for it, and this module must not collect the exit status
//! of such a child. Owners wait without delay, so a child that is still a zombie after several scans has no owner and
//! is an orphan. [`Holders`] reaps the holders that it tracks.

use std::{collections::BTreeMap, time::Duration};

use provost_engine::shell::{Holders, blocking::blocking_request};
use provost_sys::stat::ProcStat;
use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::time::Instant;

/// The time between two scans after a child has exited.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// How many scans in a row must find a zombie before it is reaped.
const SCANS_BEFORE_REAP: u32 = 4;

/// Zombies that may be orphans. Scans start only after a child has exited.
pub(super) struct Orphans {
    holders: Holders,
    zombies: Zombies,
    due: Option<Instant>,
}

impl Orphans {
    pub(super) fn new(holders: Holders) -> Orphans {
        Orphans { holders, zombies: Zombies::default(), due: None }
    }

    /// Records that a child of the daemon has exited.
    pub(super) fn child_ended(&mut self) {
        self.holders.reap();
        if self.due.is_none() {
            self.due = Some(next_scan());
        }
    }

    /// Waits until the next scan is due.
    pub(super) fn due(&self) -> impl Future<Output = ()> + 'static {
        let due = self.due;
        async move {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Scans the children, and reaps those that have no owner.
    pub(super) async fn reap(&mut self) {
        self.holders.reap();
        let Ok(found) = blocking_request(zombies).await else {
            self.due = Some(next_scan());
            return;
        };
        let before = self.zombies.scan_counts.len();
        let found = found.into_iter().filter(|zombie| !self.holders.has_child(zombie.pid));
        for zombie in self.zombies.count_scan(found.collect()) {
            if let Some(pid) = i32::try_from(zombie.pid).ok().and_then(Pid::from_raw) {
                // If the child is already gone, it had an owner after all.
                waitpid(Some(pid), WaitOptions::NOHANG).ok();
            }
        }
        // A single scan may miss a zombie that the previous scan found.
        let missed = before > 0 && self.zombies.scan_counts.is_empty();
        self.due = (missed || !self.zombies.scan_counts.is_empty()).then(next_scan);
    }
}

fn next_scan() -> Instant {
    Instant::now() + SCAN_INTERVAL
}

/// A child that has exited and that no one has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Zombie {
    pid: u32,
    start_time: u64,
}

/// How many scans in a row have found each zombie.
#[derive(Debug, Default)]
struct Zombies {
    scan_counts: BTreeMap<Zombie, u32>,
}

impl Zombies {
    /// Counts the current zombies, and returns those that should be reaped.
    fn count_scan(&mut self, found: Vec<Zombie>) -> Vec<Zombie> {
        let before = std::mem::take(&mut self.scan_counts);
        let count = |zombie| before.get(&zombie).copied().unwrap_or(0) + 1;
        let counted = found.into_iter().map(|zombie| (zombie, count(zombie)));
        let (orphans, others) =
            counted.partition::<Vec<_>, _>(|(_, looks)| *looks >= SCANS_BEFORE_REAP);
        self.scan_counts = others.into_iter().collect();
        orphans.into_iter().map(|(zombie, _)| zombie).collect()
    }
}

fn zombies() -> std::io::Result<Vec<Zombie>> {
    Ok(ProcStat::children()?
        .into_values()
        .filter(|stat| !stat.is_living())
        .map(|stat| Zombie { pid: stat.pid, start_time: stat.start_time })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombie_without_owner_is_reaped_in_time() {
        let (orphan, waited_for) =
            (Zombie { pid: 1, start_time: 1 }, Zombie { pid: 2, start_time: 1 });
        let mut zombies = Zombies::default();
        assert!(zombies.count_scan(vec![orphan, waited_for]).is_empty());
        assert!(zombies.count_scan(vec![orphan]).is_empty());
        let reused = Zombie { start_time: 2, ..waited_for };
        assert!(zombies.count_scan(vec![orphan, reused]).is_empty());
        assert_eq!(zombies.count_scan(vec![orphan, reused]), [orphan]);
        assert!(zombies.count_scan(vec![reused]).is_empty());
        assert_eq!(zombies.count_scan(vec![reused]), [reused]);
    }
}
