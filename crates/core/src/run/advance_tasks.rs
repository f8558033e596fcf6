//! Executes the tasks of a plan. A task begins as soon as its dependencies are merged and an agent
//! slot is free. Finished work goes through the merge queue.

use super::{
    advance::{
        ReviewProgress, RunAdvanceContext, RunStep, SessionOrder, describe_end, enter_stage,
        stop_run,
    },
    event::*,
    graph::{MAX_RETURNS, TaskGraph, TaskPhase, TaskReturn, TaskState, WorktreeMove},
    outcome::RunFailureCause,
    queue::{MAX_INCONCLUSIVE, MergeBatch, MergeConflict, QueueStep},
    session_spec::SessionJob,
    spec::ReviewMode,
    stage::RunStage,
    state::{Run, SessionEnd},
};
use crate::{
    ids::SessionId,
    lifecycle::{self, State},
    plan::{PlanTask, TaskId},
    rules::rules,
    session::{self, Assignment},
    verdict::{CheckEnd, Receipt},
};

impl Run {
    pub(super) fn advance_tasks(&self, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        let graph = self.graph.as_ref()?;
        let attended =
            graph.tasks().find_map(|(plan, task)| self.advance_task(plan, task, context));
        attended
            .or_else(|| self.advance_queue(graph))
            .or_else(|| self.start_ready(graph, context))
            .or_else(|| self.end_tasks(graph))
    }

    /// Returns the worktree moves that are in progress.
    pub(super) fn worktree_moves(&self) -> impl Iterator<Item = (&PlanTask, &WorktreeMove)> {
        let tasks = self.graph.iter().flat_map(TaskGraph::tasks);
        tasks.filter_map(|(plan, task)| match &task.phase {
            TaskPhase::PreparingWorktree(worktree_move) => Some((plan, worktree_move)),
            TaskPhase::Waiting
            | TaskPhase::Working { .. }
            | TaskPhase::Queued
            | TaskPhase::Merged
            | TaskPhase::Failed { .. } => None,
        })
    }

    /// Returns the worktree move with this number, if it is still in progress.
    pub fn worktree_move(&self, no: u32) -> Option<&WorktreeMove> {
        self.worktree_moves()
            .map(|(_, worktree_move)| worktree_move)
            .find(|worktree_move| worktree_move.no == no)
    }

    /// Returns the number of agents that are working for the run or are about to start.
    pub fn agents_at_work(&self) -> usize {
        // In a stopped run, no agent starts after a worktree move.
        let continues = rules().counts_moves(self.attempt().stopped.is_some());
        self.live().count() + if continues { self.worktree_moves().count() } else { 0 }
    }

    /// Whether the run may start one more agent.
    pub(super) fn has_free_slot(&self, context: &RunAdvanceContext<'_>) -> bool {
        let (own, planning) = (self.agents_at_work(), &self.spec.planning);
        rules().has_room(planning.parallel.max(1), own)
            && rules().has_room(planning.machine_parallel.max(1), own + context.other_agents)
    }

    fn advance_task(
        &self,
        plan: &PlanTask,
        task: &TaskState,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        match &task.phase {
            TaskPhase::PreparingWorktree(worktree_move) if worktree_move.done => {
                Some(self.resume_conversation(plan, task, worktree_move, context))
            }
            TaskPhase::Working { session, stage, cycle } => {
                let end = self.session(*session)?.end.as_ref()?;
                self.conclude_task(plan, task, *stage, *cycle, end, context)
            }
            TaskPhase::Waiting
            | TaskPhase::PreparingWorktree(_)
            | TaskPhase::Queued
            | TaskPhase::Merged
            | TaskPhase::Failed { .. } => None,
        }
    }

    /// Resumes a conversation after its worktree was moved to the task's starting point.
    fn resume_conversation(
        &self,
        plan: &PlanTask,
        task: &TaskState,
        worktree_move: &WorktreeMove,
        context: &RunAdvanceContext<'_>,
    ) -> RunStep {
        let handed = |reason: String| {
            let (task, from) = (plan.id.clone(), worktree_move.session);
            RunStep::Event(HandedOver { task, from, reason }.into())
        };
        let Some(session) = (context.session)(worktree_move.session) else {
            return handed("its conversation no longer exists".to_owned());
        };
        // The session's budget was set when the session was opened, so it may be too low now.
        if let Some(raise) = self.raise_budget(session, context) {
            return raise;
        }
        let assign = session::SessionCommand::Assign {
            key: format!("task-{}", worktree_move.no),
            text: self.task_instruction(plan, task),
            assignment: Assignment {
                task: plan.id.clone(),
                agent_checks: self.agent_checks(),
                checks: self.task_checks(plan),
                base: worktree_move.to.clone(),
            },
        };
        match session.decide(&assign, context.now) {
            Ok(_) => {
                let (session, task) = (worktree_move.session, Some(plan.id.clone()));
                let opened = RunSessionOpened { session, stage: RunStage::Work, cycle: 1, task };
                RunStep::EventAndOrder(
                    opened.into(),
                    SessionOrder::Command(session, Box::new(assign)),
                )
            }
            Err(why) => handed(why.to_string()),
        }
    }

    /// Begins the first ready task, if an agent slot is free.
    fn start_ready(&self, graph: &TaskGraph, context: &RunAdvanceContext<'_>) -> Option<RunStep> {
        let mut ready = graph.ready().peekable();
        ready.peek()?;
        if let Some(used) = self.used_up() {
            return Some(stop_run(RunFailureCause::Budget, used));
        }
        if !self.has_free_slot(context) {
            return None;
        }
        ready.find_map(|(plan, task)| self.start(graph, plan, task, context))
    }

    /// Begins a task, unless the conversation that it continues is not available yet. A worktree is
    /// not moved while an agent may still be running in it, so the agent's process must be gone
    /// first. If the process cannot be killed, another session takes over the task.
    fn start(
        &self,
        graph: &TaskGraph,
        plan: &PlanTask,
        task: &TaskState,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        let Some((session, to)) = self.conversation_for(graph, plan, task) else {
            return self.open_session(self.task_job(plan, task, RunStage::Work, 1));
        };
        let launch = (context.session)(session).and_then(|session| session.launches.last());
        match launch.filter(|launch| rules().keeps_worktree(launch)) {
            Some(launch) if launch.is_stop_abandoned() => {
                Some(hand_over(plan, session, "its agent could not be stopped"))
            }
            // Don't stop an agent while a user is attached to its screen.
            Some(launch) if launch.is_attended() && launch.stop.is_none() => {
                Some(hand_over(plan, session, "a user is attached to its agent"))
            }
            Some(_) => None,
            None => {
                let (task, no) = (plan.id.clone(), graph.worktree_moves + 1);
                Some(RunStep::Event(WorktreeMoveRequested { task, no, session, to }.into()))
            }
        }
    }

    /// Returns the conversation that a task continues, and the commit to which the worktree of the conversation is
    /// moved. A handover is permanent: the task stays with the session that took it over.
    fn conversation_for(
        &self,
        graph: &TaskGraph,
        plan: &PlanTask,
        task: &TaskState,
    ) -> Option<(SessionId, Option<crate::verdict::Snapshot>)> {
        let left = task.handed_over.as_ref().map(|(from, _)| *from);
        let worker = task.worker.filter(|worker| Some(*worker) != left);
        if let (Some(_), Some(worker)) = (&task.interrupted, worker) {
            return Some((worker, None));
        }
        if let (Some(why), Some(worker)) = (&task.returned, worker) {
            return Some((worker, Some(why.merge_commit().clone())));
        }
        if task.worker.is_some() || left.is_some() {
            return None;
        }
        let before = rules().continued_task(graph, plan).and_then(|id| graph.task(id))?;
        Some((before.worker?, Some(self.base().clone())))
    }

    /// Decides how a task continues after its session ended.
    fn conclude_task(
        &self,
        plan: &PlanTask,
        task: &TaskState,
        stage: RunStage,
        cycle: u32,
        end: &SessionEnd,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        if end.cause == Some(lifecycle::Cause::Budget) {
            return Some(stop_run(RunFailureCause::Budget, describe_end(end)));
        }
        let headless = task.commit_failure.as_deref();
        if stage == RunStage::TaskReview {
            return match self.review_result(stage, end, cycle, headless)? {
                // A retry would not help, because the session ended well but produced no result.
                Err(why) if end.is_good() => Some(fail_task(plan, why)),
                Err(why) => Some(self.retry_or_fail(plan, task, stage, end, why)),
                Ok(ReviewProgress::Done) => Some(queue_task(plan)),
                Ok(ReviewProgress::Repeat) => self.review_task(plan, task, cycle + 1, context),
            };
        }
        let from = task.base.as_ref().unwrap_or(&self.spec.target.base);
        match self.work_result(end, headless, from)? {
            Err(why) => Some(self.retry_or_fail(plan, task, stage, end, why)),
            // Work that the queue returned has already been reviewed.
            Ok(()) if self.spec.reviews.task == ReviewMode::Off || task.returned.is_some() => {
                Some(queue_task(plan))
            }
            Ok(()) => self.review_task(plan, task, 1, context),
        }
    }

    fn review_task(
        &self,
        plan: &PlanTask,
        task: &TaskState,
        cycle: u32,
        context: &RunAdvanceContext<'_>,
    ) -> Option<RunStep> {
        match self.used_up() {
            Some(used) => Some(stop_run(RunFailureCause::Budget, used)),
            None if !self.has_free_slot(context) => None,
            None => self.open_session(self.task_job(plan, task, RunStage::TaskReview, cycle)),
        }
    }

    /// Retries failed work if that is allowed; otherwise fails the task.
    fn retry_or_fail(
        &self,
        plan: &PlanTask,
        task: &TaskState,
        stage: RunStage,
        end: &SessionEnd,
        detail: String,
    ) -> RunStep {
        match self.retry_mode(task, end) {
            Some(fresh) => {
                let task = plan.id.clone();
                RunStep::Event(TaskRetried { task, stage, fresh, detail }.into())
            }
            None => fail_task(plan, detail),
        }
    }

    /// Returns None if failed work is not retried, and otherwise whether a new agent retries it. An agent that has used
    /// up its rework attempts does not get a further attempt. Work that the user stopped, or that the agent gave up on,
    /// is not retried.
    fn retry_mode(&self, task: &TaskState, end: &SessionEnd) -> Option<bool> {
        let fresh = match end.cause {
            Some(
                lifecycle::Cause::Crash
                | lifecycle::Cause::Launch
                | lifecycle::Cause::AgentError
                | lifecycle::Cause::ChecksNotRun
                | lifecycle::Cause::Timeout,
            )
            | None => false,
            Some(lifecycle::Cause::Verification) => true,
            Some(lifecycle::Cause::SelfReported | lifecycle::Cause::Budget) => return None,
        };
        let ended = end.state == State::Cancelled || end.gave_up;
        let again = task.retries < self.spec.planning.retries && !ended;
        again.then_some(fresh)
    }

    fn advance_queue(&self, graph: &TaskGraph) -> Option<RunStep> {
        let queue = &graph.queue;
        // Only one task at a time resolves conflicts in the same files, because two such tasks would conflict again.
        let free = |met: &&MergeConflict| !graph.is_resolved_by_another(&met.task, &met.files);
        if let Some(met) = queue.conflicts.iter().find(free) {
            let why = TaskReturn::Conflict(met.clone());
            return Some(self.return_task(graph, &met.task, why));
        }
        // Only one verification runs at a time, and its result is handled before the next one.
        if self.pending_verification().is_some() {
            return None;
        }
        let batch = queue.batch.as_ref()?;
        match queue.next() {
            QueueStep::Idle | QueueStep::Merge | QueueStep::Integrate(_) => None,
            QueueStep::Prove(_) if queue.inconclusive_checks >= MAX_INCONCLUSIVE => {
                let detail = format!("checks were inconclusive {MAX_INCONCLUSIVE} times in a row");
                Some(stop_run(RunFailureCause::Queue, detail))
            }
            QueueStep::Prove(len) if self.needs_no_check(graph, batch, len) => {
                Some(RunStep::Event(BatchVerified { batch: batch.no, len }.into()))
            }
            QueueStep::Prove(len) => {
                let checks = self.checks_of_merged(graph, batch, len);
                self.verify_batch(batch, len, checks.into_iter().map(str::to_owned).collect())
            }
            QueueStep::Return(at) => {
                let link = batch.links.get(at)?;
                let failed = self.failed_checks(batch);
                let why = TaskReturn::Breaks { merge: link.merge.clone(), failed };
                Some(self.return_task(graph, &link.task, why))
            }
        }
    }

    fn return_task(&self, graph: &TaskGraph, id: &TaskId, why: TaskReturn) -> RunStep {
        let often = graph.task(id).is_some_and(|task| task.returns >= MAX_RETURNS);
        let (task, why) = (id.clone(), Box::new(why));
        if often {
            let detail = format!("it came back from the merge queue {MAX_RETURNS} times");
            RunStep::Event(TaskFailed { task, detail }.into())
        } else {
            RunStep::Event(TaskReturned { task, why }.into())
        }
    }

    /// Returns the failed checks of the shortest refuted prefix of the batch.
    fn failed_checks(&self, batch: &MergeBatch) -> Vec<Receipt> {
        let by = batch.refuted.as_ref();
        let by = by.and_then(|refuted| self.requested_verification(refuted.by));
        let failed = |receipt: &&Receipt| receipt.end != CheckEnd::Exit(0);
        by.iter().flat_map(|by| by.receipts.iter().flatten()).filter(failed).cloned().collect()
    }

    /// Whether the merged tree has already passed all of its checks.
    fn needs_no_check(&self, graph: &TaskGraph, batch: &MergeBatch, len: usize) -> bool {
        let wanted = self.checks_of_merged(graph, batch, len);
        let Some(link) = batch.links.get(len.wrapping_sub(1)) else { return false };
        let proof = graph.task(&link.task).and_then(|task| task.proof.as_ref());
        let known = proof.is_some_and(|one| one.is_for(&link.merge) && one.covers(&wanted));
        wanted.is_empty() || known
    }

    /// Returns the checks of the run and of all tasks that are part of a merged tree.
    fn checks_of_merged<'a>(
        &'a self,
        graph: &'a TaskGraph,
        batch: &MergeBatch,
        len: usize,
    ) -> Vec<&'a str> {
        let merged = |id: &TaskId, task: &TaskState| {
            task.phase == TaskPhase::Merged
                || batch.links.iter().take(len).any(|one| one.task == *id)
        };
        let of_tasks = graph.tasks().filter(|(plan, task)| merged(&plan.id, task));
        self.checks_with(of_tasks.map(|(plan, _)| plan))
    }

    /// Ends the stage once all tasks are merged, or once none of the remaining tasks can make progress.
    fn end_tasks(&self, graph: &TaskGraph) -> Option<RunStep> {
        if graph.is_done() {
            return Some(enter_stage(self.next_stage(RunStage::Tasks)));
        }
        // Even if a session has ended, its work may still have to be committed or reviewed.
        let waits = graph.tasks().any(|(_, task)| task.is_active());
        if waits || self.is_live() || !graph.queue.is_idle() || graph.ready().next().is_some() {
            return None;
        }
        let failed = graph.tasks().filter_map(|(plan, task)| match &task.phase {
            TaskPhase::Failed { detail } => Some(format!("{}: {detail}", plan.id)),
            TaskPhase::Waiting
            | TaskPhase::PreparingWorktree(_)
            | TaskPhase::Working { .. }
            | TaskPhase::Queued
            | TaskPhase::Merged => None,
        });
        let failed: Vec<String> = failed.collect();
        let merged = graph.tasks().filter(|(_, task)| task.phase == TaskPhase::Merged).count();
        let all = graph.plan().tasks().len();
        let detail = format!("{merged} of {all} tasks are merged; {}", failed.join("; "));
        (!failed.is_empty()).then(|| stop_run(RunFailureCause::Tasks, detail))
    }

    /// Returns the checks for a task: the run's checks, the task's own, and checks of other tasks
    /// that the task's work broke earlier.
    pub(super) fn task_checks(&self, plan: &PlanTask) -> Vec<String> {
        let mut checks = self.checks_with([plan]);
        let task = self.graph.as_ref().and_then(|graph| graph.task(&plan.id));
        let broken = match task.and_then(|task| task.returned.as_ref()) {
            Some(TaskReturn::Breaks { failed, .. }) => failed.as_slice(),
            Some(TaskReturn::Conflict(_)) | None => &[],
        };
        for receipt in broken {
            if !checks.contains(&receipt.command.as_str()) {
                checks.push(&receipt.command);
            }
        }
        checks.into_iter().map(str::to_owned).collect()
    }

    /// Returns the checks of the run and of these tasks, without duplicates.
    pub(super) fn checks_with<'a>(
        &'a self,
        tasks: impl IntoIterator<Item = &'a PlanTask>,
    ) -> Vec<&'a str> {
        let mut checks: Vec<&str> = Vec::new();
        // A check without the operator's consent never runs, even if the plan was accepted.
        let of_tasks = tasks.into_iter().flat_map(|plan| &plan.checks);
        let of_tasks = of_tasks.filter(|check| self.may_run(check) && !self.spec.no_checks);
        for check in self.spec.checks.iter().chain(of_tasks) {
            if !checks.contains(&check.as_str()) {
                checks.push(check);
            }
        }
        checks
    }

    /// Describes the job of a session that works on a task.
    fn task_job<'a>(
        &'a self,
        plan: &'a PlanTask,
        task: &'a TaskState,
        stage: RunStage,
        cycle: u32,
    ) -> SessionJob<'a> {
        let begins = if stage == RunStage::TaskReview {
            task.head.as_ref()
        } else {
            task.returned.as_ref().map(TaskReturn::merge_commit)
        };
        let base = &begins.unwrap_or(self.base()).commit;
        SessionJob { stage, cycle, task: Some(plan), base, checks: self.task_checks(plan) }
    }
}

fn fail_task(plan: &PlanTask, detail: String) -> RunStep {
    RunStep::Event(TaskFailed { task: plan.id.clone(), detail }.into())
}

fn hand_over(plan: &PlanTask, from: SessionId, reason: &str) -> RunStep {
    let (task, reason) = (plan.id.clone(), reason.to_owned());
    RunStep::Event(HandedOver { task, from, reason }.into())
}

fn queue_task(plan: &PlanTask) -> RunStep {
    RunStep::Event(TaskQueued { task: plan.id.clone() }.into())
}
