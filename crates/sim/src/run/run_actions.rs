//! Carries out the pending effects of runs in the simulated world, and users' actions on runs.

use provost_core::{
    ids::{CommitId, RunId, SessionId},
    request::RequestReply,
    run::{
        self, LandMode, LandingState, PendingRunApproval, Run, RunEffect, RunEnding, RunStage,
        TaskGraph,
    },
    session::{HookEnd, Session, SessionCommand},
    verdict::CheckEnd,
};

use super::{Sim, graph_effects};
use crate::{
    engine::{EngineInput, ObservationSource, RunEffectKey, RunEffectTask},
    forge::OutlivedGit,
    goal::RunAction,
    rare,
    rng::Rng,
    session_laws::BrokenLaw,
    world::session_no,
};

/// The probability, in percent, that a landing completes before the daemon that started it ends.
const LANDS_FIRST: u64 = 30;

/// The probability, in percent, that a replaced daemon does not wait for a landing in progress.
const IMPATIENT: u64 = 40;

impl Sim {
    /// Whether an effect of a run can continue. Some effects wait for a condition.
    pub(super) fn can_run_effect_continue(&self, key: &RunEffectKey, task: &RunEffectTask) -> bool {
        match &task.effect {
            RunEffect::RunHook(_) => {
                let ran = self.world.commands.get(&as_session(key));
                ran.is_none_or(|ran| ran.done_ms <= self.world.now_ms)
            }
            RunEffect::Verify { no } => {
                let keys = graph_effects::verification_keys(key, &task.run, *no);
                let mut ran = keys.iter().filter_map(|key| self.world.commands.get(key)).peekable();
                // A verification that has not begun waits for the resource that is short.
                let may_begin = ran.peek().is_some() || self.world.short_until <= self.world.now_ms;
                may_begin && ran.all(|ran| ran.done_ms <= self.world.now_ms)
            }
            RunEffect::CheckLanded { .. } => {
                self.may_begin(&task.effect) && !self.engine.run_tasks.values().any(|t| t.lands)
            }
            RunEffect::Land { .. }
            | RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::MergeBatch { .. }
            | RunEffect::Integrate { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::WriteReport { .. } => self.may_begin(&task.effect),
        }
    }

    /// Whether the effect may begin, because it need not wait for a git process that outlived its daemon.
    fn may_begin(&self, effect: &RunEffect) -> bool {
        self.forge.outlived.is_none() || !effect.waits_for_git()
    }

    /// No effect uses a branch or a checkout while a git process that outlived its daemon may be moving that branch.
    fn no_git_lives_on(&self, effect: &RunEffect) -> Result<(), BrokenLaw> {
        let uses_git = match effect {
            RunEffect::Land { .. }
            | RunEffect::CheckLanded { .. }
            | RunEffect::CommitLeftovers(_)
            | RunEffect::MoveWorktree { .. }
            | RunEffect::Integrate { .. } => true,
            RunEffect::MergeBatch { .. }
            | RunEffect::Verify { .. }
            | RunEffect::WatchPullRequest { .. }
            | RunEffect::RunHook(_)
            | RunEffect::WriteReport { .. } => false,
        };
        if uses_git && self.forge.outlived.is_some() {
            return Err(format!(
                "{} runs beside a git process that outlived its daemon",
                effect.key()
            ));
        }
        Ok(())
    }

    pub(super) fn execute_run_effect(&mut self, key: &RunEffectKey) -> Result<(), BrokenLaw> {
        let Some(task) = self.engine.run_tasks.get(key).cloned() else { return Ok(()) };
        self.no_git_lives_on(&task.effect)?;
        self.find_forged_run_record(key, &task.effect);
        let result = match &task.effect {
            RunEffect::CommitLeftovers(session) => Some(self.take_head(*session)),
            RunEffect::MoveWorktree { no } => Some(self.move_worktree(&task.run, *no)),
            RunEffect::MergeBatch { batch, .. } => Some(self.merge(&task.run, *batch)),
            RunEffect::Integrate { batch, len, .. } => {
                Some(self.integrate(&task.run, *batch, *len)?)
            }
            RunEffect::Verify { no } => self.verify(key, &task.run, *no)?,
            RunEffect::Land { attempt, .. } => self.land(key, &task, *attempt)?,
            RunEffect::WatchPullRequest { .. } => self.forge.poll_pull_request(&task.run),
            RunEffect::CheckLanded { attempt } => {
                Some(self.forge.poll_landing(&task.run, *attempt))
            }
            RunEffect::RunHook(hook) => {
                let pending = task.run.hooks.iter().find(|one| one.key == *hook);
                let what =
                    pending.map_or(String::new(), |o| format!("{:?} {}", o.stage, o.attempt));
                self.ran(&as_session(key), &what)?.map(|uncertain| run::RunCommand::HookFinished {
                    key: *hook,
                    end: if uncertain {
                        HookEnd::Uncertain("power".to_owned())
                    } else {
                        HookEnd::Exit(0)
                    },
                })
            }
            RunEffect::WriteReport { attempt } => Some(run::RunCommand::ReportWritten {
                attempt: *attempt,
                failure: None,
                changed: None,
            }),
        };
        if let Some(command) = result {
            self.engine.run_tasks.remove(key);
            let input = EngineInput::RunObservation(key.0, command);
            self.past_observations.push(input.clone());
            self.engine
                .observations
                .entry(ObservationSource::Effect(key.0.into(), key.1.clone()))
                .or_default()
                .push_back(input);
        }
        Ok(())
    }

    /// Simulates a forged record, as for sessions: it exists before the hook or the check starts.
    fn find_forged_run_record(&mut self, key: &RunEffectKey, effect: &RunEffect) {
        let starts = matches!(effect, RunEffect::RunHook(_) | RunEffect::Verify { .. })
            && !self.world.commands.contains_key(&as_session(key));
        if starts && rare::is_forged(self.seed, &key.1, &self.faults) {
            let (effect, moved_to) = (key.1.clone(), "/aside".to_owned());
            let found = run::RunCommand::RecordForged { effect, moved_to };
            let source = ObservationSource::Effect(key.0.into(), key.1.clone());
            let input = EngineInput::RunObservation(key.0, found);
            self.engine.observations.entry(source).or_default().push_back(input);
        }
    }

    fn take_head(&mut self, session: SessionId) -> run::RunCommand {
        let names = [24, session_no(session)];
        if !self.faults.calm && Rng::from_names(self.seed, &names).percent(3) {
            run::RunCommand::CommitFailed { session, reason: "index.lock".to_owned() }
        } else {
            let (head, caveats) = (self.world.take_snapshot(session), Default::default());
            run::RunCommand::CommitRecorded { session, head, caveats }
        }
    }

    /// Starts a landing or, if it has already started, completes it. A landing in progress cannot be cancelled.
    fn land(
        &mut self,
        key: &RunEffectKey,
        task: &RunEffectTask,
        attempt: u32,
    ) -> Result<Option<run::RunCommand>, BrokenLaw> {
        if !task.lands {
            if let Some(task) = self.engine.run_tasks.get_mut(key) {
                task.lands = true;
            }
            if self.faults.users && self.rng.percent(10) {
                self.ask_run(key.0, run::RunCommand::Cancel { because: "at the last".to_owned() });
            }
            return Ok(None);
        }
        self.may_land(key.0, attempt)?;
        Ok(Some(self.forge.land(&task.run)))
    }

    /// Nothing lands once the run attempt that requested the landing is sealed.
    fn may_land(&self, id: RunId, attempt: u32) -> Result<(), BrokenLaw> {
        let attempts = self.engine.run(id).map_or(&[][..], |run| &run.attempts);
        match attempts.iter().find(|one| one.no == attempt).and_then(|one| one.sealed.as_ref()) {
            Some(outcome) => {
                Err(format!("work lands after its run was {}", outcome.ending.as_str()))
            }
            None => Ok(()),
        }
    }

    /// Determines the result of a landing in progress before a crash: the landing has completed, has failed, or
    /// continues in a process that outlives the daemon.
    pub(super) fn leave_landing(&mut self) -> Result<(), BrokenLaw> {
        // Observations that a daemon received are lost when the daemon ends.
        self.past_observations.clear();
        let landing: Vec<Run> =
            self.engine.run_tasks.values().filter(|t| t.lands).map(|t| t.run.clone()).collect();
        for run in landing {
            if self.rng.percent(LANDS_FIRST) {
                self.may_land(run.id, run.attempt().no)?;
                drop(self.forge.land(&run));
            } else if self.forge.outlived.is_none() {
                // Only one landing runs at a time.
                let ends_ms = self.world.now_ms + self.rng.pick(&[0, 200, 6_000]);
                self.forge.outlived = Some(OutlivedGit { run: Box::new(run), ends_ms });
            }
        }
        Ok(())
    }

    pub(super) fn is_landing(&self) -> bool {
        let mut tasks = self.engine.run_tasks.values();
        tasks.any(|task| task.lands && task.run.spec.land != LandMode::Pr)
    }

    /// Replaces the daemon: the old one waits for a landing in progress, but not indefinitely.
    pub(super) fn replace(&mut self) -> Result<(), BrokenLaw> {
        let patient = !self.rng.percent(IMPATIENT);
        self.engine.note(|| format!("— the daemon is replaced, patiently: {patient}"));
        if patient {
            let tasks = self.engine.run_tasks.iter();
            let awaited = tasks.filter(|(_, t)| t.lands && t.effect.delays_shutdown(&t.run));
            let awaited: Vec<RunEffectKey> = awaited.map(|(key, _)| key.clone()).collect();
            for key in awaited {
                self.execute_run_effect(&key)?;
            }
            if self.is_landing() {
                return Err("a daemon left in the middle of a landing".to_owned());
            }
            if self.rng.percent(50) && !self.engine.observations.is_empty() {
                self.commit_pending()?;
            }
        }
        self.crash()
    }

    pub(super) fn end_outlived_git(&mut self) -> Result<(), BrokenLaw> {
        let Some(OutlivedGit { run, .. }) = self.forge.outlived.take() else { return Ok(()) };
        self.may_land(run.id, run.attempt().no)?;
        drop(self.forge.land(&run));
        Ok(())
    }

    /// Sometimes cancels a run while a worktree is being moved or a merge is being checked for it.
    /// Uses its own random numbers, so that all other scenarios stay the same.
    fn cancel_on_the_way(&mut self, run: RunId) {
        let cancelled = Rng::from_names(self.seed, &[26, self.steps]).percent(8);
        if self.faults.users && cancelled {
            self.ask_run(run, run::RunCommand::Cancel { because: "on the way".to_owned() });
        }
    }

    /// Repeats an observation of a pull request after newer ones. This method has its own random source, so that all
    /// other scenarios stay the same.
    pub(super) fn late_look(&self) -> Option<EngineInput> {
        let is_look = |input: &&EngineInput| {
            matches!(
                input,
                EngineInput::RunObservation(_, run::RunCommand::PullRequestObserved { .. })
            )
        };
        let looks: Vec<&EngineInput> = self.past_observations.iter().filter(is_look).collect();
        let mut rng = Rng::from_names(self.seed, &[25, self.steps]);
        let late = self.faults.repeats && looks.len() > 1 && rng.percent(50);
        late.then(|| rng.pick(&looks).clone())
    }

    /// Checks that an event of a run agrees with the state of the simulated world.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event describes the world")]
    pub(super) fn check_run_event(
        &mut self,
        id: RunId,
        event: &run::Event,
    ) -> Result<(), BrokenLaw> {
        match event {
            run::Event::Landing(run::LandingEvent::PullRequestObserved(seen)) => {
                self.polls += 1;
                if self.forge.may_show(self.polls - 1, &seen.state) {
                    Ok(())
                } else {
                    Err("a pull request was observed in the state of another poll".to_owned())
                }
            }
            run::Event::Stage(run::StageEvent::StageEntered(entered))
                if matches!(entered.stage, RunStage::FinalReview | RunStage::Land) =>
            {
                self.engine.run(id).map_or(Ok(()), |run| self.all_work_is_merged(run))
            }
            run::Event::Task(run::TaskEvent::WorktreeMoveRequested(requested)) => {
                self.worktree_is_free(requested.session)?;
                self.cancel_on_the_way(id);
                Ok(())
            }
            run::Event::Verification(run::VerificationEvent::VerificationRequested(_)) => {
                self.cancel_on_the_way(id);
                Ok(())
            }
            run::Event::Run(run::RunChange::RunSealed(sealed))
                if sealed.outcome.ending == RunEnding::Succeeded =>
            {
                self.engine.run(id).map_or(Ok(()), |run| self.success_of_run_is_true(run))
            }
            _ => Ok(()),
        }
    }

    fn success_of_run_is_true(&self, run: &Run) -> Result<(), BrokenLaw> {
        let LandingState::Done(landed) = &run.landing else {
            return Err("a run succeeded but has not landed".to_owned());
        };
        let head = run.head.as_ref().map(|head| head.tree.0.as_str());
        let tree = self.forge.tree_of(&landed.commit);
        if tree.is_none() || tree != head {
            return Err(format!("a run succeeded on {head:?}, but {tree:?} landed"));
        }
        let sessions: Vec<&Session> =
            run.sessions.iter().filter_map(|one| self.engine.shadow(one.id)).collect();
        let receipts = sessions.iter().flat_map(|session| &session.attempts);
        let receipts = receipts.flat_map(|attempt| &attempt.verifying.receipts);
        let merged = run.verifications.iter().flat_map(|one| one.receipts.iter().flatten());
        let receipts: Vec<_> = receipts.chain(merged).collect();
        let tasks = run.graph.iter().flat_map(TaskGraph::tasks).flat_map(|(plan, _)| &plan.checks);
        let mut checks = run.spec.checks.iter().chain(tasks).peekable();
        let checked = checks.peek().is_some();
        let unproved = checks.find(|check| {
            let green = receipts.iter().any(|receipt| {
                receipt.command == **check
                    && Some(receipt.tree.0.as_str()) == tree
                    && receipt.end == CheckEnd::Exit(0)
            });
            !green
        });
        if unproved.is_none() && checked {
            Ok(())
        } else {
            Err(format!("a run succeeded on {tree:?}, which {unproved:?} did not prove"))
        }
    }

    pub(super) fn do_run_action(&mut self, action: RunAction) {
        let runs: Vec<RunId> = self.engine.runs().map(|run| run.id).collect();
        let id = if runs.len() > 1 { self.rng.pick(&runs) } else { runs[0] };
        let Some(run) = self.engine.run(id) else { return };
        let command = match action {
            RunAction::Cancel => run::RunCommand::Cancel { because: "enough".to_owned() },
            RunAction::Resume => run::RunCommand::Resume,
            RunAction::RaiseBudget => {
                let tokens = run.budget.tokens.map(|tokens| tokens + 40);
                let turns = run.budget.turns.map(|turns| turns + 3);
                run::RunCommand::RaiseBudget { tokens, turns }
            }
            RunAction::Answer => return self.answer_for_run(id),
            RunAction::Approve => match held_commit(run) {
                Some(commit) => run::RunCommand::ApproveLanding { commit },
                None => run::RunCommand::ApprovePlan,
            },
            RunAction::Reject => {
                let because = "not so".to_owned();
                match held_commit(run) {
                    Some(commit) => run::RunCommand::RejectLanding { commit, because },
                    None => run::RunCommand::RejectPlan { because },
                }
            }
            RunAction::OnSession(action) => {
                // A user's message to a session that the run no longer needs does not concern the run.
                let live: Vec<SessionId> = run.live().map(|live| live.id).collect();
                if live.is_empty() {
                    return;
                }
                let id = self.rng.pick(&live);
                return self.do_session_action(id, *action);
            }
        };
        self.ask_run(id, command);
    }

    fn answer_for_run(&mut self, id: RunId) {
        let asking = self.engine.run(id).into_iter().flat_map(Run::live).find_map(|live| {
            let request = self.engine.shadow(live.id)?.open_requests().next()?;
            let plain = request.asked.questions.is_empty();
            Some((live.id, request.id, request.revision, plain))
        });
        let Some((id, request, revision, plain)) = asking else { return };
        if plain {
            self.do_session_action(id, crate::script::UserAction::AnswerOpen)
        } else {
            let reply = RequestReply::Text("so it is".to_owned());
            self.ask(id, SessionCommand::Answer { request, revision, reply });
        }
    }

    pub(super) fn ask_run(&mut self, run: RunId, command: run::RunCommand) {
        self.request_count += 1;
        self.requests.push_back(EngineInput::RunRequest {
            key: format!("ask-{}", self.request_count),
            run,
            command,
        });
    }
}

/// Returns the commit that waits for the operator's approval to land.
fn held_commit(run: &Run) -> Option<CommitId> {
    match run.approval()? {
        PendingRunApproval::Landing(held) => Some(held.landing.commit.clone()),
        PendingRunApproval::Plan(_) => None,
    }
}

/// Hooks of a run are recorded with those of sessions, under the run's own id.
fn as_session((run, key): &RunEffectKey) -> (SessionId, String) {
    (SessionId(run.0), key.clone())
}
