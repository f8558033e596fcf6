//! The merge queue. Finished tasks are merged in batches onto the run's newest work, and the branch
//! is fast-forwarded only to proved trees.
//!
//! The links of a batch form a chain of commits, each of which adds one task. If a batch is
//! refuted, the queue bisects it without having to merge anything again.

use serde::{Deserialize, Serialize};

use super::verification::VerificationResult;
use crate::{ids::CommitId, plan::TaskId, rules::rules, verdict::Snapshot};

/// How many times an inconclusive check is repeated before the run gives up.
pub(super) const MAX_INCONCLUSIVE: u32 = 3;

/// One task, merged onto all tasks that precede it in the batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchLink {
    pub task: TaskId,
    pub merge: Snapshot,
}

/// A task whose work conflicts with the newest work of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeConflict {
    pub task: TaskId,
    /// The two commits that were merged.
    pub work: CommitId,
    pub onto: CommitId,
    /// The merge commit, whose files contain conflict markers.
    pub merge: Snapshot,
    pub files: Vec<String>,
}

/// A prefix of a batch that failed its check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefutedPrefix {
    /// Length of the prefix, in links.
    pub len: usize,
    /// The number of the verification that checked the prefix.
    pub by: u32,
}

/// Tasks that were merged together and are not all on the branch yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeBatch {
    pub no: u32,
    /// The newest work of the run, onto which the tasks were merged.
    pub onto: Snapshot,
    pub links: Vec<BatchLink>,
    /// The number of links of the chain that are proved, and the number of the verification that
    /// checked them, if any.
    pub verified: usize,
    pub verified_by: Option<u32>,
    pub refuted: Option<RefutedPrefix>,
    /// The number of links of the chain that are already on the branch.
    pub integrated: usize,
}

/// The finished tasks that are not on the run's branch yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeQueue {
    /// Finished tasks that are not in a batch yet, in merge order.
    pub waiting: Vec<TaskId>,
    pub batch: Option<MergeBatch>,
    /// Conflicts that have not been returned to their tasks yet.
    pub conflicts: Vec<MergeConflict>,
    /// The number of batches so far.
    pub batches: u32,
    /// The number of checks on merged trees so far.
    pub checks: u32,
    /// The number of consecutive inconclusive checks.
    pub inconclusive_checks: u32,
}

/// The next step of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueStep {
    /// The queue is empty.
    Idle,
    /// Merge the waiting tasks.
    Merge,
    /// Check the tree that results from this many links.
    Prove(usize),
    /// Fast-forward the branch to include this many links.
    Integrate(usize),
    /// This link breaks the tree that precedes it, so its task must be reworked.
    Return(usize),
}

impl MergeQueue {
    /// Returns the next step.
    pub fn next(&self) -> QueueStep {
        match &self.batch {
            None if self.waiting.is_empty() => QueueStep::Idle,
            None => QueueStep::Merge,
            Some(batch) => batch.next(),
        }
    }

    /// Returns the last link of the prefix that must be checked next.
    pub(super) fn to_prove(&self) -> Option<&BatchLink> {
        match self.next() {
            QueueStep::Prove(len) => self.batch.as_ref()?.links.get(len.checked_sub(1)?),
            QueueStep::Idle | QueueStep::Merge | QueueStep::Integrate(_) | QueueStep::Return(_) => {
                None
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_none() && self.conflicts.is_empty()
    }

    /// Records a merged batch. Tasks that could not be merged on top of the others move to the
    /// front of the queue.
    pub(super) fn record_merge(
        &mut self,
        onto: Snapshot,
        links: Vec<BatchLink>,
        conflicts: Vec<MergeConflict>,
    ) {
        self.batches += 1;
        let taken = |task: &TaskId| {
            links.iter().any(|link| link.task == *task)
                || conflicts.iter().any(|conflict| conflict.task == *task)
        };
        self.waiting.retain(|task| !taken(task));
        self.conflicts.extend(conflicts);
        let no = self.batches;
        self.batch = (!links.is_empty()).then_some(MergeBatch {
            no,
            onto,
            links,
            verified: 0,
            verified_by: None,
            refuted: None,
            integrated: 0,
        });
    }

    /// Records the result of checking the current prefix.
    pub(super) fn record_check(&mut self, by: u32, found: VerificationResult) {
        let QueueStep::Prove(len) = self.next() else { return };
        let Some(batch) = &mut self.batch else { return };
        match rules().queue_result(found) {
            VerificationResult::Passed => (batch.verified, batch.verified_by) = (len, Some(by)),
            VerificationResult::Failed => batch.refuted = Some(RefutedPrefix { len, by }),
            VerificationResult::Inconclusive => {}
        }
        self.inconclusive_checks = if found == VerificationResult::Inconclusive {
            self.inconclusive_checks + 1
        } else {
            0
        };
    }

    /// Records that a prefix needs no check, because its tree is already proved or no checks are configured.
    pub(super) fn record_check_skipped(&mut self, len: usize) {
        if let Some(batch) = &mut self.batch {
            (batch.verified, batch.verified_by) = (len, None);
        }
    }

    /// Records that the branch now contains the first `len` links of the batch, and returns the links that were added.
    pub(super) fn record_integration(&mut self, len: usize) -> Vec<BatchLink> {
        let Some(batch) = &mut self.batch else { return Vec::new() };
        let from = std::mem::replace(&mut batch.integrated, len);
        let links = batch.links.get(from..len).unwrap_or_default().to_vec();
        // Retry the conflicts with older work, because the new work may have resolved them.
        let met = self.conflicts.drain(..).map(|conflict| conflict.task);
        self.waiting.splice(0..0, met);
        if len == batch.links.len() {
            self.batch = None;
        }
        links
    }

    /// Removes a task that must be reworked or has failed. Tasks that were merged after it must be
    /// merged again.
    pub(super) fn remove_task(&mut self, task: &TaskId) {
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

    /// Restarts all operations that were in progress, because their results are unknown.
    pub(super) fn restart(&mut self) {
        let batch = self.batch.take();
        let links = batch.into_iter().flat_map(|b| b.links.into_iter().skip(b.integrated));
        let back: Vec<TaskId> = links.map(|link| link.task).collect();
        let met = self.conflicts.drain(..).map(|conflict| conflict.task);
        let back: Vec<TaskId> = back.into_iter().chain(met).collect();
        self.waiting.splice(0..0, rules().requeued(back));
        self.inconclusive_checks = 0;
    }
}

impl MergeBatch {
    /// Bisects between the longest proved prefix and the shortest refuted one.
    fn next(&self) -> QueueStep {
        let all = self.links.len();
        let unknown = match &self.refuted {
            None if self.verified == all => None,
            None => Some(all),
            Some(RefutedPrefix { len, .. }) if len - self.verified > 1 => {
                Some(self.verified + (len - self.verified) / 2)
            }
            Some(_) => None,
        };
        match unknown {
            Some(len) => QueueStep::Prove(len),
            None if self.verified > self.integrated => QueueStep::Integrate(self.verified),
            None => QueueStep::Return(self.verified),
        }
    }
}
