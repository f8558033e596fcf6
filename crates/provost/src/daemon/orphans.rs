//! Reaps orphans that fell to the daemon, which is a child subreaper.
//!
//! Children that the daemon started itself have an owner that waits for them: their exit status must not be taken away.
//! An owner waits at once, so a child that stays a zombie over several looks has none, and is an orphan. Holders are
//! reaped by [`Holders`], for as long as that knows them.

use std::{collections::BTreeMap, time::Duration};

use provost_engine::shell::{Holders, blocking::blocking_request};
use provost_sys::process::ProcStat;
use rustix::process::{Pid, WaitOptions, waitpid};
use tokio::time::Instant;

/// The time between two looks at the children, after one of them ended.
const LOOK: Duration = Duration::from_secs(2);

/// How many looks in a row must find a zombie before it is reaped.
const LOOKS: u32 = 4;

/// The zombies that may be orphans. It costs nothing while no child ends.
pub(super) struct Orphans {
    holders: Holders,
    zombies: Zombies,
    due: Option<Instant>,
}

impl Orphans {
    pub(super) fn new(holders: Holders) -> Orphans {
        Orphans { holders, zombies: Zombies::default(), due: None }
    }

    /// Notes that a child of the daemon ended.
    pub(super) fn child_ended(&mut self) {
        self.holders.reap();
        if self.due.is_none() {
            self.due = Some(soon());
        }
    }

    /// Waits until it is time to look.
    pub(super) fn due(&self) -> impl Future<Output = ()> + 'static {
        let due = self.due;
        async move {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Looks at the children, and reaps those that have no owner.
    pub(super) async fn reap(&mut self) {
        self.holders.reap();
        let Ok(found) = blocking_request(zombies).await else {
            self.due = Some(soon());
            return;
        };
        let before = self.zombies.seen.len();
        let found = found.into_iter().filter(|zombie| !self.holders.has_child(zombie.pid));
        for zombie in self.zombies.look(found.collect()) {
            if let Some(pid) = i32::try_from(zombie.pid).ok().and_then(Pid::from_raw) {
                // One that is gone by now had an owner after all.
                waitpid(Some(pid), WaitOptions::NOHANG).ok();
            }
        }
        // One look may miss a zombie that the last one found.
        let missed = before > 0 && self.zombies.seen.is_empty();
        self.due = (missed || !self.zombies.seen.is_empty()).then(soon);
    }
}

fn soon() -> Instant {
    Instant::now() + LOOK
}

/// A child that ended and was not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Zombie {
    pid: u32,
    start_time: u64,
}

/// How often each zombie was found.
#[derive(Debug, Default)]
struct Zombies {
    seen: BTreeMap<Zombie, u32>,
}

impl Zombies {
    /// Counts those that are there now, and returns those that are to be reaped.
    fn look(&mut self, found: Vec<Zombie>) -> Vec<Zombie> {
        let before = std::mem::take(&mut self.seen);
        let count = |zombie| before.get(&zombie).copied().unwrap_or(0) + 1;
        let counted = found.into_iter().map(|zombie| (zombie, count(zombie)));
        let (orphans, others) = counted.partition::<Vec<_>, _>(|(_, looks)| *looks >= LOOKS);
        self.seen = others.into_iter().collect();
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
    fn zombie_is_an_orphan_when_nobody_waited_for_it_in_time() {
        let (orphan, waited_for) =
            (Zombie { pid: 1, start_time: 1 }, Zombie { pid: 2, start_time: 1 });
        let mut zombies = Zombies::default();
        assert!(zombies.look(vec![orphan, waited_for]).is_empty());
        assert!(zombies.look(vec![orphan]).is_empty());
        let reused = Zombie { start_time: 2, ..waited_for };
        assert!(zombies.look(vec![orphan, reused]).is_empty());
        assert_eq!(zombies.look(vec![orphan, reused]), [orphan]);
        assert!(zombies.look(vec![reused]).is_empty());
        assert_eq!(zombies.look(vec![reused]), [reused]);
    }
}
