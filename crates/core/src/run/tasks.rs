//! Executes the tasks of a plan. Each begins as soon as its dependencies are merged and an agent
//! slot is free. Finished work goes through the merge queue.

use super::{
    advance::{Around, Order, Reviewing, Step, ended, enter, stopped},
    event::*,
    graph::{Errand, Graph, MAX_RETURNS, Phase, Return, Task},
    outcome::Cause,
    place::Job,
    queue::{Batch, Conflict, MAX_STUMBLES, QueueStep},
    spec::ReviewMode,
    stage::Stage,
    state::{Run, SessionEnd},
};
use crate::{
    ids::SessionId,
    lifecycle::{self, State},
    plan::{PlanTask, TaskId},
    session::{self, Assignment},
    verdict::{CheckEnd, Receipt},
};

impl Run {
    pub(super) fn go_on_with_tasks(&self, around: &Around<'_>) -> Option<Step> {
        let graph = self.graph.as_ref()?;
        let attended = graph.tasks().find_map(|(plan, task)| self.attend(plan, task, around));
        attended
            .or_else(|| self.attend_queue(graph))
            .or_else(|| self.start_ready(graph, around))
            .or_else(|| self.end_tasks(graph))
    }

    /// Returns the worktree moves in progress.
    pub(super) fn errands(&self) -> impl Iterator<Item = (&PlanTask, &Errand)> {
        let tasks = self.graph.iter().flat_map(Graph::tasks);
        tasks.filter_map(|(plan, task)| match &task.phase {
            Phase::Bringing(errand) => Some((plan, errand)),
            Phase::Waiting
            | Phase::Working { .. }
            | Phase::Queued
            | Phase::Merged
            | Phase::Failed { .. } => None,
        })
    }

    /// Returns the worktree move with a number, while it is in progress.
    pub fn errand(&self, no: u32) -> Option<&Errand> {
        self.errands().map(|(_, errand)| errand).find(|errand| errand.no == no)
    }

    /// Returns the number of agents that work for the run, or are about to.
    pub fn agents_at_work(&self) -> usize {
        let agents = self.live().filter(|one| !self.only_checks(one.stage, one.cycle));
        // Worktree moves of a stopped run will not be followed by an agent.
        let goes_on = self.leg().stopped.is_none() || bug!(StoppedErrandCounted);
        agents.count() + if goes_on { self.errands().count() } else { 0 }
    }

    /// Whether one more agent may work for the run.
    pub(super) fn has_room(&self, around: &Around<'_>) -> bool {
        let (own, planning) = (self.agents_at_work(), &self.spec.planning);
        let within =
            |most: u32, at_work: usize| at_work < usize::try_from(most).unwrap_or(usize::MAX);
        (within(planning.parallel.max(1), own)
            && within(planning.machine_parallel.max(1), own + around.elsewhere))
            || bug!(ParallelIgnored)
    }

    fn attend(&self, plan: &PlanTask, task: &Task, around: &Around<'_>) -> Option<Step> {
        match &task.phase {
            Phase::Bringing(errand) if errand.done => Some(self.assign(plan, task, errand, around)),
            Phase::Working { session, stage, cycle } => {
                let end = self.session(*session)?.end.as_ref()?;
                self.conclude_task(plan, task, *stage, *cycle, end, around)
            }
            Phase::Waiting
            | Phase::Bringing(_)
            | Phase::Queued
            | Phase::Merged
            | Phase::Failed { .. } => None,
        }
    }

    /// Resumes a conversation whose worktree is at the task's starting point.
    fn assign(&self, plan: &PlanTask, task: &Task, errand: &Errand, around: &Around<'_>) -> Step {
        let handed = |reason: String| {
            let (task, from) = (plan.id.clone(), errand.session);
            Step::Event(HandedOver { task, from, reason }.into())
        };
        let Some(session) = (around.look)(errand.session) else {
            return handed("its conversation no longer exists".to_owned());
        };
        // Its budget was set when it was opened, so it may have to be raised.
        if let Some(raise) = self.give_more(session, around) {
            return raise;
        }
        let assign = session::Command::Assign {
            key: format!("task-{}", errand.no),
            text: self.task_instruction(plan, task),
            assignment: Assignment {
                task: plan.id.clone(),
                agent_checks: self.agent_checks(),
                checks: self.checks_of(plan),
                base: errand.to.clone(),
            },
        };
        match session.decide(&assign, around.now) {
            Ok(_) => {
                let (session, task) = (errand.session, Some(plan.id.clone()));
                let owed = SessionOwed { session, stage: Stage::Work, cycle: 1, task };
                Step::With(owed.into(), Order::Tell(session, Box::new(assign)))
            }
            Err(why) => handed(why.to_string()),
        }
    }

    /// Begins the first ready task, if an agent slot is free.
    fn start_ready(&self, graph: &Graph, around: &Around<'_>) -> Option<Step> {
        let mut ready = graph.ready().peekable();
        ready.peek()?;
        if let Some(used) = self.used_up() {
            return Some(stopped(Cause::Budget, used));
        }
        if !self.has_room(around) {
            return None;
        }
        ready.find_map(|(plan, task)| self.start(graph, plan, task, around))
    }

    /// Begins a task, unless its conversation is not available yet. A worktree is not touched while
    /// an agent may work in it: the agent that ended there must be gone, and one that cannot be
    /// killed keeps it.
    fn start(
        &self,
        graph: &Graph,
        plan: &PlanTask,
        task: &Task,
        around: &Around<'_>,
    ) -> Option<Step> {
        let Some((session, to)) = self.conversation_for(graph, plan, task) else {
            return self.open_session(self.task_job(plan, task, Stage::Work, 1));
        };
        let launch = (around.look)(session).and_then(|session| session.launches.last());
        match launch.filter(|launch| !launch.is_gone() && !bug!(WorktreeTakenFromAgent)) {
            Some(launch) if launch.is_given_up() => {
                Some(hand_over(plan, session, "its agent could not be stopped"))
            }
            // An agent is not stopped while a user is attached to its screen, which may take long.
            Some(launch) if launch.is_attended() && launch.stop.is_none() => {
                Some(hand_over(plan, session, "a user is attached to its agent"))
            }
            Some(_) => None,
            None => {
                let (task, no) = (plan.id.clone(), graph.errands + 1);
                Some(Step::Event(ErrandOwed { task, no, session, to }.into()))
            }
        }
    }

    /// Returns the conversation that a task continues, and the target of its worktree. A handover
    /// is not undone: the successor keeps the task.
    fn conversation_for(
        &self,
        graph: &Graph,
        plan: &PlanTask,
        task: &Task,
    ) -> Option<(SessionId, Option<crate::verdict::Snapshot>)> {
        let left = task.handed_over.as_ref().map(|(from, _)| *from);
        let worker = task.worker.filter(|worker| Some(*worker) != left);
        if let (Some(_), Some(worker)) = (&task.again, worker) {
            return Some((worker, None));
        }
        if let (Some(why), Some(worker)) = (&task.returned, worker) {
            return Some((worker, Some(why.merge().clone())));
        }
        if task.worker.is_some() || left.is_some() {
            return None;
        }
        let any = if bug!(ConversationShared) { plan.after.first() } else { None };
        let before = graph.goes_on_with(&plan.id).or(any).and_then(|id| graph.task(id))?;
        Some((before.worker?, Some(self.base().clone())))
    }

    /// Decides how a task continues after its session ended.
    fn conclude_task(
        &self,
        plan: &PlanTask,
        task: &Task,
        stage: Stage,
        cycle: u32,
        end: &SessionEnd,
        around: &Around<'_>,
    ) -> Option<Step> {
        if end.cause == Some(lifecycle::Cause::Budget) {
            return Some(stopped(Cause::Budget, ended(end)));
        }
        let headless = task.headless.as_deref();
        if stage == Stage::TaskReview {
            return match self.reviewed(stage, end, cycle, headless)? {
                // A session that ended well without a result would produce none in a retry either.
                Err(why) if end.is_good() => Some(fail_task(plan, why)),
                Err(why) => Some(self.begin_again(plan, task, stage, end, why)),
                Ok(Reviewing::Done) => Some(queued(plan)),
                Ok(Reviewing::Again) => self.review_task(plan, task, cycle + 1, around),
            };
        }
        let from = task.base.as_ref().unwrap_or(&self.spec.target.base);
        match self.worked(end, headless, from)? {
            Err(why) => Some(self.begin_again(plan, task, stage, end, why)),
            // Work that came back from the queue was reviewed before.
            Ok(()) if self.spec.reviews.task == ReviewMode::Off || task.returned.is_some() => {
                Some(queued(plan))
            }
            Ok(()) => self.review_task(plan, task, 1, around),
        }
    }

    fn review_task(
        &self,
        plan: &PlanTask,
        task: &Task,
        cycle: u32,
        around: &Around<'_>,
    ) -> Option<Step> {
        match self.used_up() {
            Some(used) => Some(stopped(Cause::Budget, used)),
            None if !self.has_room(around) => None,
            None => self.open_session(self.task_job(plan, task, Stage::TaskReview, cycle)),
        }
    }

    /// Retries failed work if allowed, and fails the task otherwise.
    fn begin_again(
        &self,
        plan: &PlanTask,
        task: &Task,
        stage: Stage,
        end: &SessionEnd,
        detail: String,
    ) -> Step {
        match self.retry(task, end) {
            Some(fresh) => {
                let task = plan.id.clone();
                Step::Event(TaskRetried { task, stage, fresh, detail }.into())
            }
            None => fail_task(plan, detail),
        }
    }

    /// Returns whether failed work is retried, and whether by another agent. An agent whose work
    /// was refuted to the last has used its chances. Work that a user stopped or the agent gave up
    /// is not retried.
    fn retry(&self, task: &Task, end: &SessionEnd) -> Option<bool> {
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

    fn attend_queue(&self, graph: &Graph) -> Option<Step> {
        let queue = &graph.queue;
        // Two tasks that resolve the same lines at the same time would conflict again.
        let free = |met: &&Conflict| !graph.is_mended_by_another(&met.task, &met.files);
        if let Some(met) = queue.conflicts.iter().find(free) {
            let why = Return::Conflict(met.clone());
            return Some(self.give_back(graph, &met.task, why));
        }
        // One check at a time. Its end is handled first.
        let checking = self.live().any(|one| one.stage == Stage::Tasks);
        if checking {
            return None;
        }
        let batch = queue.batch.as_ref()?;
        match queue.next() {
            QueueStep::Rest | QueueStep::Merge | QueueStep::Integrate(_) => None,
            QueueStep::Prove(_) if queue.stumbles >= MAX_STUMBLES => {
                let detail = format!("checks were inconclusive {MAX_STUMBLES} times in a row");
                Some(stopped(Cause::Queue, detail))
            }
            QueueStep::Prove(len) if self.needs_no_check(graph, batch, len) => {
                Some(Step::Event(PrefixProved { batch: batch.no, len }.into()))
            }
            QueueStep::Prove(len) => self.check_merged(graph, batch, len),
            QueueStep::Return(at) => {
                let link = batch.links.get(at)?;
                let failed = self.failed_checks(batch);
                let why = Return::Breaks { merge: link.merge.clone(), failed };
                Some(self.give_back(graph, &link.task, why))
            }
        }
    }

    fn give_back(&self, graph: &Graph, id: &TaskId, why: Return) -> Step {
        let often = graph.task(id).is_some_and(|task| task.returns >= MAX_RETURNS);
        let (task, why) = (id.clone(), Box::new(why));
        if often {
            let detail = format!("it came back from the merge queue {MAX_RETURNS} times");
            Step::Event(TaskFailed { task, detail }.into())
        } else {
            Step::Event(TaskReturned { task, why }.into())
        }
    }

    /// Returns the failed checks of the shortest refuted prefix of the batch.
    fn failed_checks(&self, batch: &Batch) -> Vec<Receipt> {
        let by = batch.refuted.as_ref().and_then(|refuted| self.session(refuted.by));
        let end = by.and_then(|session| session.end.as_ref());
        let failed = |receipt: &&Receipt| receipt.end != CheckEnd::Exit(0);
        end.into_iter().flat_map(|end| end.receipts.iter().filter(failed).cloned()).collect()
    }

    /// Whether the tree already passed all of these checks.
    fn needs_no_check(&self, graph: &Graph, batch: &Batch, len: usize) -> bool {
        let wanted = self.checks_of_merged(graph, batch, len);
        let Some(link) = batch.links.get(len.wrapping_sub(1)) else { return false };
        let proof = graph.task(&link.task).and_then(|task| task.proof.as_ref());
        let known = proof.is_some_and(|one| one.is_for(&link.merge) && one.covers(&wanted));
        wanted.is_empty() || known
    }

    /// Returns the checks of the run and of all tasks in a merged tree.
    fn checks_of_merged<'a>(&'a self, graph: &'a Graph, batch: &Batch, len: usize) -> Vec<&'a str> {
        let merged = |id: &TaskId, task: &Task| {
            task.phase == Phase::Merged || batch.links.iter().take(len).any(|one| one.task == *id)
        };
        let of_tasks = graph.tasks().filter(|(plan, task)| merged(&plan.id, task));
        self.checks_with(of_tasks.map(|(plan, _)| plan))
    }

    fn check_merged(&self, graph: &Graph, batch: &Batch, len: usize) -> Option<Step> {
        let link = batch.links.get(len.checked_sub(1)?)?;
        let checks = self.checks_of_merged(graph, batch, len);
        self.open_session(Job {
            stage: Stage::Tasks,
            cycle: graph.queue.checks + 1,
            task: None,
            base: &link.merge.commit,
            checks: checks.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Ends the stage when all tasks are merged, or nothing more can be done for the rest.
    fn end_tasks(&self, graph: &Graph) -> Option<Step> {
        if graph.is_done() {
            return Some(enter(self.following(Stage::Tasks)));
        }
        // An ended session may still lead to something: its work is being committed, or waits for a
        // reviewer.
        let waits = graph.tasks().any(|(_, task)| task.is_under_way());
        if waits || self.is_live() || !graph.queue.is_idle() || graph.ready().next().is_some() {
            return None;
        }
        let failed = graph.tasks().filter_map(|(plan, task)| match &task.phase {
            Phase::Failed { detail } => Some(format!("{}: {detail}", plan.id)),
            Phase::Waiting
            | Phase::Bringing(_)
            | Phase::Working { .. }
            | Phase::Queued
            | Phase::Merged => None,
        });
        let failed: Vec<String> = failed.collect();
        let merged = graph.tasks().filter(|(_, task)| task.phase == Phase::Merged).count();
        let all = graph.plan().tasks().len();
        let detail = format!("{merged} of {all} tasks are merged; {}", failed.join("; "));
        (!failed.is_empty()).then(|| stopped(Cause::Tasks, detail))
    }

    /// Returns the checks for a task: the run's, its own, and those of other tasks that it broke
    /// before.
    pub(super) fn checks_of(&self, plan: &PlanTask) -> Vec<String> {
        let mut checks = self.checks_with([plan]);
        let task = self.graph.as_ref().and_then(|graph| graph.task(&plan.id));
        let broken = match task.and_then(|task| task.returned.as_ref()) {
            Some(Return::Breaks { failed, .. }) => failed.as_slice(),
            Some(Return::Conflict(_)) | None => &[],
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
        // A command without consent never runs, even if the plan passed.
        let of_tasks = tasks.into_iter().flat_map(|plan| &plan.checks);
        let of_tasks = of_tasks.filter(|check| self.may_run(check) && !self.spec.no_checks);
        for check in self.spec.checks.iter().chain(of_tasks) {
            if !checks.contains(&check.as_str()) {
                checks.push(check);
            }
        }
        checks
    }

    /// Returns the job of a session for a task.
    fn task_job<'a>(
        &'a self,
        plan: &'a PlanTask,
        task: &'a Task,
        stage: Stage,
        cycle: u32,
    ) -> Job<'a> {
        let begins = if stage == Stage::TaskReview {
            task.head.as_ref()
        } else {
            task.returned.as_ref().map(Return::merge)
        };
        let base = &begins.unwrap_or(self.base()).commit;
        Job { stage, cycle, task: Some(plan), base, checks: self.checks_of(plan) }
    }
}

fn fail_task(plan: &PlanTask, detail: String) -> Step {
    Step::Event(TaskFailed { task: plan.id.clone(), detail }.into())
}

fn hand_over(plan: &PlanTask, from: SessionId, reason: &str) -> Step {
    let (task, reason) = (plan.id.clone(), reason.to_owned());
    Step::Event(HandedOver { task, from, reason }.into())
}

fn queued(plan: &PlanTask) -> Step {
    Step::Event(TaskQueued { task: plan.id.clone() }.into())
}
