//! The commands a run accepts, and how it decides on them.

use super::{
    consent::{GuardedLanding, PendingRunApproval},
    event::*,
    graph::{TaskGraph, WorktreeMove},
    hook::RunHookKey,
    landing::{
        LandStep, LandingState, MAX_COMMENTS, MAX_MERGES, MAX_ROUNDS, PullRequest,
        PullRequestState, PullRequestStatus, ReviewComment,
    },
    outcome::RunFailureCause,
    queue::{BatchLink, MergeConflict, QueueStep},
    state::Run,
};
use crate::{
    ids::{CommitId, SessionId},
    plan::{PlanTask, TaskId},
    rules::rules,
    session::{Budget, HookEnd},
    verdict::{Caveats, Receipt, Snapshot},
};

/// A request to a run, or an observation about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunCommand {
    Cancel {
        because: String,
    },
    Resume,
    /// Lets a run that was imported from another home continue here.
    TakeOver,
    ApprovePlan,
    RejectPlan {
        because: String,
    },
    /// The landing changes files that need the operator's approval. `step` is the number of landing
    /// steps so far.
    HoldLanding {
        step: usize,
        held: Box<GuardedLanding>,
    },
    /// Allows this commit, and no other, to land.
    ApproveLanding {
        commit: CommitId,
    },
    RejectLanding {
        commit: CommitId,
        because: String,
    },
    /// The worktree was moved to its target commit.
    WorktreeMoved {
        no: u32,
    },
    /// The worktree could not be moved.
    WorktreeMoveFailed {
        no: u32,
        reason: String,
    },
    /// The waiting tasks were merged. `batch` is the number of the requested batch.
    BatchMerged {
        batch: u32,
        onto: Snapshot,
        links: Vec<BatchLink>,
        conflicts: Vec<MergeConflict>,
    },
    /// The checks of a requested verification have ended.
    Verified {
        no: u32,
        receipts: Vec<Receipt>,
    },
    /// The branch contains the first `len` links of the batch.
    Integrated {
        batch: u32,
        len: usize,
    },
    /// The work of this task cannot be merged at all. The other tasks are merged without it later.
    TaskUnmergeable {
        batch: u32,
        task: TaskId,
        reason: String,
    },
    /// The waiting tasks could not be merged, or the branch could not be fast-forwarded.
    QueueFailed {
        batch: u32,
        reason: String,
    },
    RaiseBudget {
        tokens: Option<u64>,
        turns: Option<u32>,
    },
    CommitRecorded {
        session: SessionId,
        head: Snapshot,
        caveats: Caveats,
    },
    CommitFailed {
        session: SessionId,
        reason: String,
    },
    /// The target branch moved after the work began, so the work was merged with its new commit.
    TargetMoved {
        step: usize,
        merge: Box<LandStep>,
    },
    /// The work was pushed and a pull request was opened.
    PullRequestOpened {
        number: u64,
        url: String,
        commit: CommitId,
    },
    /// The pull request changed. `look` is the number of the query, by which late replies can be recognized.
    PullRequestObserved {
        look: u32,
        state: PullRequestState,
        comments: Vec<ReviewComment>,
    },
    Landed {
        branch: String,
        commit: CommitId,
        merged: bool,
    },
    LandingFailed {
        attempt: u32,
        reason: String,
    },
    /// The work did not land, and no landing is in progress.
    LandingAborted {
        attempt: u32,
        pull: Option<PullRequest>,
    },
    HookFinished {
        key: RunHookKey,
        end: HookEnd,
    },
    ReportWritten {
        attempt: u32,
        failure: Option<String>,
        changed: Option<Vec<String>>,
    },
    /// Provost found a record of an effect that it never started, and moved the record aside.
    RecordForged {
        effect: String,
        moved_to: String,
    },
}

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunRejection {
    /// The command is a duplicate, or refers to something that is already settled.
    #[error("nothing new")]
    NothingNew,
    #[error("the run has ended as {0}")]
    Sealed(&'static str),
    #[error(
        "the run was imported from another home, and its agents and checks do not run here until you take it over"
    )]
    Imported,
    #[error("the run has no plan to approve")]
    NoPlanToApprove,
    #[error("the run does not wait for approval to land commit {}", .0.0)]
    NoPendingLanding(CommitId),
    #[error("the run is still active, so there is nothing to resume")]
    StillActive,
    #[error("the run has succeeded, so there is nothing to resume")]
    NothingToResume,
    #[error("the budget is used up: {0}")]
    BudgetUsedUp(String),
    #[error("the run's budget is {0}, and a limit can only be raised")]
    BudgetNotRaised(String),
}

type RunCommandResult = Result<Vec<Event>, RunRejection>;

fn event_if_new(new: bool, event: impl Into<Event>) -> RunCommandResult {
    if new { Ok(vec![event.into()]) } else { Err(RunRejection::NothingNew) }
}

impl TaskGraph {
    /// Whether this batch is the one that has to be merged next.
    fn is_merging(&self, batch: u32) -> bool {
        self.queue.next() == QueueStep::Merge && self.queue.batches + 1 == batch
    }
}

impl Run {
    /// Decides on a command.
    pub fn decide(&self, command: &RunCommand) -> RunCommandResult {
        if self.is_imported() && *command != RunCommand::TakeOver {
            return Err(RunRejection::Imported);
        }
        let open = !self.is_sealed() && self.attempt().stopped.is_none();
        match command.clone() {
            RunCommand::TakeOver if self.is_imported() => Ok(vec![RunTakenOver {}.into()]),
            RunCommand::TakeOver => Ok(vec![]),
            RunCommand::Cancel { because } => self.cancel(because),
            RunCommand::Resume => self.resume(),
            RunCommand::RaiseBudget { tokens, turns } => self.raise_budget_limit(tokens, turns),
            RunCommand::ApprovePlan => {
                let commands =
                    self.commands_awaiting_consent().into_iter().map(str::to_owned).collect();
                self.judge_plan(PlanApproved { commands }.into())
            }
            RunCommand::RejectPlan { because } => {
                let detail = format!("the plan was rejected: {because}");
                self.judge_plan(RunStopped { cause: RunFailureCause::Plan, detail }.into())
            }
            RunCommand::HoldLanding { step, held } => self.hold_landing(step, held, open),
            RunCommand::ApproveLanding { commit } => {
                self.judge_landing(&commit, LandingApproved { commit: commit.clone() }.into())
            }
            RunCommand::RejectLanding { commit, because } => self.reject_landing(&commit, &because),
            RunCommand::WorktreeMoved { no } => self.worktree_moved(no, open),
            RunCommand::WorktreeMoveFailed { no, reason } => {
                self.worktree_move_failed(no, reason, open)
            }
            RunCommand::BatchMerged { batch, onto, links, conflicts } => {
                // A batch that was merged onto an older commit came too late.
                let taken = self.open_graph(open)?.is_merging(batch) && *self.base() == onto;
                event_if_new(taken, BatchMerged { no: batch, onto, links, conflicts })
            }
            RunCommand::Integrated { batch, len } => self.integrated(batch, len, open),
            RunCommand::TaskUnmergeable { batch, task, reason } => {
                self.task_unmergeable(batch, task, reason, open)
            }
            RunCommand::QueueFailed { batch, reason } => self.queue_failed(batch, reason, open),
            RunCommand::Verified { no, receipts } => {
                let pending = self.pending_verification().is_some_and(|one| one.no == no);
                let taken = rules().takes_verification(open && pending);
                event_if_new(taken, VerificationDone { no, receipts })
            }
            RunCommand::CommitRecorded { session, head, caveats } => {
                let wanted = self.uncommitted_sessions().any(|one| one.id == session);
                event_if_new(open && wanted, CommitRecorded { session, head, caveats })
            }
            RunCommand::CommitFailed { session, reason } => {
                let wanted = self.uncommitted_sessions().any(|one| one.id == session);
                event_if_new(open && wanted, CommitFailed { session, reason })
            }
            RunCommand::TargetMoved { step, merge } => self.target_moved(step, merge, open),
            RunCommand::PullRequestOpened { number, url, commit } => {
                self.pull_request_opened(number, url, commit)
            }
            RunCommand::PullRequestObserved { look, state, comments }
                if open && rules().is_newest_query(look, self.pull_request_changes) =>
            {
                self.observe_pull_request(state, &comments)
            }
            RunCommand::PullRequestObserved { .. } => Err(RunRejection::NothingNew),
            RunCommand::Landed { branch, commit, merged } => {
                // Record a completed landing even if the run was stopped in the meantime.
                let new = !self.is_sealed() && self.is_landing();
                event_if_new(new, WorkLanded { branch, commit, merged })
            }
            RunCommand::LandingAborted { attempt, pull } => {
                let current = self.attempt().no == attempt && !self.attempt().landing_aborted;
                event_if_new(
                    current && !open && !self.is_sealed(),
                    LandingAborted { attempt, pull },
                )
            }
            RunCommand::LandingFailed { attempt, reason } => {
                let current = rules().landing_may_fail(open) && self.attempt().no == attempt;
                event_if_new(current && self.is_landing(), LandingFailed { reason })
            }
            RunCommand::HookFinished { key, end } => {
                let pending = self.hooks.iter().any(|hook| hook.key == key);
                event_if_new(pending, HookFinished { key, end })
            }
            RunCommand::ReportWritten { attempt, failure, changed } => {
                let pending = self
                    .attempts
                    .iter()
                    .any(|l| l.no == attempt && l.sealed.is_some() && !l.report_written);
                event_if_new(pending, RunReportWritten { attempt, failure, changed })
            }
            RunCommand::RecordForged { effect, moved_to } => {
                event_if_new(true, RecordForged { effect, moved_to })
            }
        }
    }

    fn hold_landing(&self, step: usize, held: Box<GuardedLanding>, open: bool) -> RunCommandResult {
        let landing = open && self.is_landing() && self.steps.len() == step;
        let newest = self.head.as_ref().is_some_and(|head| head.tree == held.landing.tree);
        let known = self.held.as_ref().is_some_and(|known| known.landing == held.landing);
        event_if_new(landing && newest && !known, LandingHeld { held })
    }

    fn reject_landing(&self, commit: &CommitId, because: &str) -> RunCommandResult {
        let files = self.held.as_ref().map(|held| held.files.join(", ")).unwrap_or_default();
        let detail = format!("the operator refused the changes to {files}: {because}");
        self.judge_landing(commit, RunStopped { cause: RunFailureCause::Landing, detail }.into())
    }

    fn target_moved(&self, step: usize, merge: Box<LandStep>, open: bool) -> RunCommandResult {
        let wanted = open && self.is_landing() && self.steps.len() == step;
        if self.target_merges() < MAX_MERGES {
            event_if_new(wanted, LandStepAdded { step: merge })
        } else {
            event_if_new(wanted, LandingFailed { reason: moving_target_error() })
        }
    }

    fn pull_request_opened(&self, number: u64, url: String, commit: CommitId) -> RunCommandResult {
        let new = match &self.landing {
            LandingState::Open => true,
            LandingState::Requested(pull) => pull.commit != commit || pull.number != number,
            LandingState::Done(_) => false,
        };
        // Ignore a report about an older commit.
        let newest = self.head.as_ref().is_some_and(|head| head.commit == commit);
        let new = new && newest && self.is_landing() && !self.is_sealed();
        event_if_new(new, PullRequestOpened { number, url, commit })
    }

    fn judge_plan(&self, judged: Event) -> RunCommandResult {
        if self.awaits_approval() { Ok(vec![judged]) } else { Err(RunRejection::NoPlanToApprove) }
    }

    fn judge_landing(&self, commit: &CommitId, judged: Event) -> RunCommandResult {
        match self.approval() {
            Some(PendingRunApproval::Landing(held)) if held.landing.commit == *commit => {
                Ok(vec![judged])
            }
            Some(_) | None => Err(RunRejection::NoPendingLanding(commit.clone())),
        }
    }

    /// Returns the task graph of an open run. Results that match no pending request are rejected.
    fn open_graph(&self, open: bool) -> Result<&TaskGraph, RunRejection> {
        let graph = if open { self.graph.as_ref() } else { None };
        graph.ok_or(RunRejection::NothingNew)
    }

    fn pending_move(&self, no: u32) -> Result<(&PlanTask, &WorktreeMove), RunRejection> {
        let pending = |moved: &WorktreeMove| moved.no == no && !moved.done;
        let found = self.worktree_moves().find(|(_, moved)| pending(moved));
        found.ok_or(RunRejection::NothingNew)
    }

    fn worktree_moved(&self, no: u32, open: bool) -> RunCommandResult {
        self.open_graph(open)?;
        let (plan, _) = self.pending_move(no)?;
        Ok(vec![WorktreeMoved { task: plan.id.clone(), no }.into()])
    }

    fn worktree_move_failed(&self, no: u32, reason: String, open: bool) -> RunCommandResult {
        self.open_graph(open)?;
        let (plan, worktree_move) = self.pending_move(no)?;
        let (task, from) = (plan.id.clone(), worktree_move.session);
        Ok(vec![HandedOver { task, from, reason }.into()])
    }

    fn integrated(&self, batch: u32, len: usize, open: bool) -> RunCommandResult {
        let queue = &self.open_graph(open)?.queue;
        let current = queue.batch.as_ref();
        let head = current.and_then(|current| current.links.get(len.checked_sub(1)?));
        let head = head.map(|link| link.merge.clone()).ok_or(RunRejection::NothingNew)?;
        let pending = queue.next() == QueueStep::Integrate(len)
            && current.is_some_and(|current| current.no == batch);
        event_if_new(rules().takes_integration(pending), Integrated { batch, len, head })
    }

    fn task_unmergeable(
        &self,
        batch: u32,
        task: TaskId,
        reason: String,
        open: bool,
    ) -> RunCommandResult {
        let graph = self.open_graph(open)?;
        if !graph.is_merging(batch) || !graph.queue.waiting.contains(&task) {
            return Err(RunRejection::NothingNew);
        }
        let (onto, links, conflicts) = (self.base().clone(), Vec::new(), Vec::new());
        let without = BatchMerged { no: batch, onto, links, conflicts };
        Ok(vec![TaskFailed { task, detail: reason }.into(), without.into()])
    }

    fn queue_failed(&self, batch: u32, reason: String, open: bool) -> RunCommandResult {
        let graph = self.open_graph(open)?;
        let pending = match graph.queue.next() {
            QueueStep::Merge => graph.is_merging(batch),
            QueueStep::Integrate(_) => {
                graph.queue.batch.as_ref().is_some_and(|current| current.no == batch)
            }
            QueueStep::Idle | QueueStep::Prove(_) | QueueStep::Return(_) => false,
        };
        event_if_new(pending, RunStopped { cause: RunFailureCause::Queue, detail: reason })
    }

    fn is_landing(&self) -> bool {
        self.stage == super::RunStage::Land && !matches!(self.landing, LandingState::Done(_))
    }

    /// Records the state of the pull request, and returns new review comments to the agent until
    /// the maximum number of rounds is reached.
    fn observe_pull_request(
        &self,
        state: PullRequestState,
        comments: &[ReviewComment],
    ) -> RunCommandResult {
        let LandingState::Requested(pull) = &self.landing else {
            return Err(RunRejection::NothingNew);
        };
        let new: Vec<ReviewComment> = self.new_comments(comments).into_iter().cloned().collect();
        if new.is_empty() && pull.seen.as_ref() == Some(&state) {
            return Err(RunRejection::NothingNew);
        }
        // A pull request that is merged or closed accepts no more changes.
        let open = state.status == PullRequestStatus::Open;
        let mut events = vec![Event::from(PullRequestObserved { state })];
        match (new.is_empty(), open && self.comment_rounds() < MAX_ROUNDS) {
            (true, _) => {}
            (false, true) => {
                let comments = new.into_iter().take(MAX_COMMENTS).collect();
                let step = Box::new(LandStep::Answer { comments });
                events.push(LandStepAdded { step }.into());
            }
            (false, false) => events.push(ReviewCommentsDropped { comments: new }.into()),
        }
        Ok(events)
    }

    fn cancel(&self, because: String) -> RunCommandResult {
        match (&self.attempt().sealed, &self.attempt().stopped) {
            // The run is already cancelled.
            (Some(outcome), _) if outcome.ending == super::RunEnding::Cancelled => Ok(Vec::new()),
            (Some(outcome), _) => Err(RunRejection::Sealed(outcome.ending.as_str())),
            (None, Some(super::RunStop::Cancelled { .. })) => Ok(Vec::new()),
            // A failing run can still be cancelled, because its outcome is not sealed yet.
            (None, Some(super::RunStop::Failed { .. }) | None) => {
                Ok(vec![RunCancelled { because }.into()])
            }
        }
    }

    fn resume(&self) -> RunCommandResult {
        let Some(outcome) = &self.attempt().sealed else { return Err(RunRejection::StillActive) };
        match outcome.ending {
            super::RunEnding::Succeeded | super::RunEnding::Completed => {
                Err(RunRejection::NothingToResume)
            }
            super::RunEnding::Failed | super::RunEnding::Cancelled => {
                if let Some(used) = self.used_up() {
                    return Err(RunRejection::BudgetUsedUp(used));
                }
                let attempt = self.attempt().no + 1;
                Ok(vec![RunResumed { attempt, stage: self.stage }.into()])
            }
        }
    }

    /// Describes which part of the budget has been used up by sessions that have ended, if any.
    pub(super) fn used_up(&self) -> Option<String> {
        match self.remaining() {
            Budget { tokens: Some(0), .. } => {
                Some(format!("{} tokens are used", self.usage.total()))
            }
            Budget { turns: Some(0), .. } => Some(format!("{} turns are used", self.turns)),
            Budget { .. } => None,
        }
    }

    fn raise_budget_limit(&self, tokens: Option<u64>, turns: Option<u32>) -> RunCommandResult {
        let more = |now: Option<u64>, given: Option<u64>| match (now, given) {
            (Some(now), Some(given)) => given > now,
            // The run is currently unlimited, so any limit would be lower.
            (None, Some(_)) => false,
            (_, None) => true,
        };
        let wide = |turns: Option<u32>| turns.map(u64::from);
        if more(self.budget.tokens, tokens) && more(wide(self.budget.turns), wide(turns)) {
            Ok(vec![BudgetRaised { tokens, turns }.into()])
        } else {
            Err(RunRejection::BudgetNotRaised(describe_budget(self.budget)))
        }
    }
}

fn moving_target_error() -> String {
    format!("the branch moved {MAX_MERGES} times while the work was being merged with it")
}

fn describe_budget(budget: Budget) -> String {
    let part = |limit: Option<u64>, what: &str| match limit {
        Some(limit) => format!("{limit} {what}"),
        None => format!("no limit on {what}"),
    };
    let (tokens, turns) = (budget.tokens, budget.turns.map(u64::from));
    format!("{}, {}", part(tokens, "tokens"), part(turns, "turns"))
}
