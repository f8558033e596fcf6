//! The merge queue: finished tasks are merged in batches onto the run's newest work, and the branch goes
//! forward only to trees that are proved.
//!
//! The links of a batch are a chain of commits, each with one task more than the one before, so that a
//! batch that is refuted is searched by halves without merging anything again.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{CommitId, SessionId},
    plan::TaskId,
    verdict::Snapshot,
};

/// How often a check that came to no result is begun again before the run gives up.
pub(super) const MAX_STUMBLES: u32 = 3;

/// One task merged onto all that stands before it in its batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub task: TaskId,
    pub merge: Snapshot,
}

/// A task whose work and the newest of the run have changed the same lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    pub task: TaskId,
    /// The two that were merged.
    pub work: CommitId,
    pub onto: CommitId,
    /// The merge, with both sides in the files.
    pub merge: Snapshot,
    pub files: Vec<String>,
}

/// A part of a batch that a check refuted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refutation {
    /// So many links from the first.
    pub len: usize,
    /// The session that checked it.
    pub by: SessionId,
}

/// Tasks that were merged together and are on their way to the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub no: u32,
    /// What they were merged onto: the newest work of the run then.
    pub onto: Snapshot,
    pub links: Vec<Link>,
    /// So many links from the first are proved, and by which session if one checked them.
    pub proved: usize,
    pub proved_by: Option<SessionId>,
    pub refuted: Option<Refutation>,
    /// So many links from the first are on the branch.
    pub integrated: usize,
}

/// Finished tasks on their way to the run's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Tasks that are done and in no batch yet, in the order in which they are merged.
    pub waiting: Vec<TaskId>,
    pub batch: Option<Batch>,
    /// Conflicts that were met and not gone back to their tasks yet.
    pub conflicts: Vec<Conflict>,
    /// How many batches there were.
    pub batches: u32,
    /// How many checks of merged trees were begun.
    pub checks: u32,
    /// How many of them in a row came to no result.
    pub stumbles: u32,
}

/// What the queue has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// Nothing is waiting.
    Rest,
    /// Merge what waits.
    Merge,
    /// Prove the tree after so many links.
    Prove(usize),
    /// Bring the branch forward over so many links.
    Integrate(usize),
    /// This link breaks what was good before it: its task has to be worked on again.
    Return(usize),
}

impl Queue {
    /// Says what has to be done next.
    pub fn next(&self) -> QueueStep {
        match &self.batch {
            None if self.waiting.is_empty() => QueueStep::Rest,
            None => QueueStep::Merge,
            Some(batch) => batch.next(),
        }
    }

    /// Gives the last link of the part of the batch that has to be proved.
    pub(super) fn to_prove(&self) -> Option<&Link> {
        match self.next() {
            QueueStep::Prove(len) => self.batch.as_ref()?.links.get(len.checked_sub(1)?),
            QueueStep::Rest | QueueStep::Merge | QueueStep::Integrate(_) | QueueStep::Return(_) => {
                None
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_none() && self.conflicts.is_empty()
    }

    /// Takes in what was merged. What could not be merged behind the others stays in the queue, and is first next time.
    pub(super) fn merged(&mut self, onto: Snapshot, links: Vec<Link>, conflicts: Vec<Conflict>) {
        self.batches += 1;
        let taken = |task: &TaskId| {
            links.iter().any(|link| link.task == *task)
                || conflicts.iter().any(|conflict| conflict.task == *task)
        };
        self.waiting.retain(|task| !taken(task));
        self.conflicts.extend(conflicts);
        let no = self.batches;
        self.batch = (!links.is_empty()).then_some(Batch {
            no,
            onto,
            links,
            proved: 0,
            proved_by: None,
            refuted: None,
            integrated: 0,
        });
    }

    /// Takes in what a check found about the part of the batch that had to be proved.
    pub(super) fn checked(&mut self, by: SessionId, found: Found) {
        let QueueStep::Prove(len) = self.next() else { return };
        let Some(batch) = &mut self.batch else { return };
        match found {
            Found::Bad if bug!(RefutedMergeTaken) => {
                (batch.proved, batch.proved_by) = (len, Some(by));
            }
            Found::Good => (batch.proved, batch.proved_by) = (len, Some(by)),
            Found::Bad => batch.refuted = Some(Refutation { len, by }),
            Found::Nothing => {}
        }
        self.stumbles = if found == Found::Nothing { self.stumbles + 1 } else { 0 };
    }

    /// Takes in that a part of the batch needed no check: its tree was proved before, or nothing is to be checked.
    pub(super) fn needless(&mut self, len: usize) {
        if let Some(batch) = &mut self.batch {
            (batch.proved, batch.proved_by) = (len, None);
        }
    }

    /// Takes in that the branch has so many links of the batch, and gives them.
    pub(super) fn integrated(&mut self, len: usize) -> Vec<Link> {
        let Some(batch) = &mut self.batch else { return Vec::new() };
        let from = std::mem::replace(&mut batch.integrated, len);
        let links = batch.links.get(from..len).unwrap_or_default().to_vec();
        // Conflicts that were met with older work are met anew, or not any more.
        let met = self.conflicts.drain(..).map(|conflict| conflict.task);
        self.waiting.splice(0..0, met);
        if len == batch.links.len() {
            self.batch = None;
        }
        links
    }

    /// Takes a task out that has to be worked on again, or has failed. Those that were merged behind it wait to be merged without it.
    pub(super) fn returned(&mut self, task: &TaskId) {
        self.conflicts.retain(|conflict| conflict.task != *task);
        self.waiting.retain(|waiting| waiting != task);
        let culprit = self.batch.as_ref().and_then(|batch| {
            let at = batch.links.iter().position(|link| link.task == *task)?;
            Some(batch.links[at + 1..].iter().map(|link| link.task.clone()).collect::<Vec<_>>())
        });
        if let Some(behind) = culprit {
            self.batch = None;
            self.waiting.splice(0..0, behind);
        }
    }

    /// Begins anew with what was on its way: nobody knows how far it came.
    pub(super) fn restart(&mut self) {
        let batch = self.batch.take();
        let links = batch.into_iter().flat_map(|b| b.links.into_iter().skip(b.integrated));
        let back: Vec<TaskId> = links.map(|link| link.task).collect();
        let met = self.conflicts.drain(..).map(|conflict| conflict.task);
        let back: Vec<TaskId> = back.into_iter().chain(met).collect();
        if !bug!(QueueForgotten) {
            self.waiting.splice(0..0, back);
        }
        self.stumbles = 0;
    }
}

/// What a check found about a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Good,
    Bad,
    /// It was not run to its end.
    Nothing,
}

impl Batch {
    /// Halves what lies between the longest part that is proved and the shortest that is refuted.
    fn next(&self) -> QueueStep {
        let all = self.links.len();
        let unknown = match &self.refuted {
            None if self.proved == all => None,
            None => Some(all),
            Some(Refutation { len, .. }) if len - self.proved > 1 => {
                Some(self.proved + (len - self.proved) / 2)
            }
            Some(_) => None,
        };
        match unknown {
            Some(len) => QueueStep::Prove(len),
            None if self.proved > self.integrated => QueueStep::Integrate(self.proved),
            None => QueueStep::Return(self.proved),
        }
    }
}
