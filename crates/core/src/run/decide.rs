//! The commands a run accepts, and how it decides on them.

use super::{
    event::*,
    held::{Approval, HeldLanding},
    hook::RunHookKey,
    landing::{
        LandStep, Landing, MAX_MERGES, MAX_REMARKS, MAX_ROUNDS, PullRequest, PullStanding,
        PullState, Remark,
    },
    outcome::Cause,
    queue::{Conflict, Link, QueueStep},
    state::Run,
};
use crate::{
    ids::{CommitId, SessionId},
    plan::TaskId,
    session::{Budget, HookEnd},
    verdict::{Caveats, Snapshot},
};

/// A request to a run, or an observation about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
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
    /// The landing changes files that need the operator's approval. `step` is the number of steps
    /// before it.
    HoldLanding {
        step: usize,
        held: Box<HeldLanding>,
    },
    /// Lets exactly this commit land.
    ApproveLanding {
        commit: CommitId,
    },
    RejectLanding {
        commit: CommitId,
        because: String,
    },
    /// The worktree is at its target commit.
    ErrandDone {
        no: u32,
    },
    /// The worktree could not be moved.
    ErrandFailed {
        no: u32,
        reason: String,
    },
    /// The waiting tasks were merged. `batch` is the number of the requested batch.
    BatchMerged {
        batch: u32,
        onto: Snapshot,
        links: Vec<Link>,
        conflicts: Vec<Conflict>,
    },
    /// The branch contains the first `len` links of the batch.
    Integrated {
        batch: u32,
        len: usize,
    },
    /// One task's work cannot be merged with anything. The others wait for a merge without it.
    TaskUnfit {
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
    HeadTaken {
        session: SessionId,
        head: Snapshot,
        caveats: Caveats,
    },
    HeadFailed {
        session: SessionId,
        reason: String,
    },
    /// The target moved since the work began from it, and the work was merged with it.
    TargetMoved {
        step: usize,
        merge: Box<LandStep>,
    },
    /// The work was pushed, and a pull request exists for it.
    PullRequested {
        number: u64,
        url: String,
        commit: CommitId,
    },
    /// The pull request changed. `look` is the number of the requested query, so that late answers
    /// are recognized.
    PullSeen {
        look: u32,
        state: PullState,
        remarks: Vec<Remark>,
    },
    Landed {
        branch: String,
        commit: CommitId,
        merged: bool,
    },
    LandFailed {
        leg: u32,
        reason: String,
    },
    /// Nothing is landing any more, and it has not landed.
    LandOver {
        leg: u32,
        pull: Option<PullRequest>,
    },
    HookFinished {
        key: RunHookKey,
        end: HookEnd,
    },
    CardWritten {
        leg: u32,
        failure: Option<String>,
        changed: Option<Vec<String>>,
    },
    /// A record of an effect that Provost had not started was moved aside.
    RecordForged {
        effect: String,
        moved_to: String,
    },
}

/// Why a command was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It is a duplicate, or about something that no longer matters.
    #[error("nothing new")]
    Nothing,
    #[error("the run has ended as {0}")]
    Sealed(&'static str),
    #[error("the run is being cancelled")]
    Cancelled,
    #[error(
        "the run was imported from another home, and nothing of it runs here until it is taken over; that lets its agents and checks run again"
    )]
    Imported,
    #[error("the run has no plan that waits for approval")]
    NoPlanToApprove,
    #[error("the run has no pending landing of {}", .0.0)]
    NotHeld(CommitId),
    #[error("the run is still active: there is nothing to resume")]
    GoingOn,
    #[error("the run has succeeded: there is nothing left to do")]
    NothingLeft,
    #[error("the budget is used up: {0}")]
    UsedUp(String),
    #[error("the budget is already {0}; give more")]
    BudgetNotRaised(String),
}

type Decision = Result<Vec<Event>, Rejected>;

fn if_new(new: bool, event: impl Into<Event>) -> Decision {
    if new { Ok(vec![event.into()]) } else { Err(Rejected::Nothing) }
}

impl Run {
    /// Decides on a command.
    pub fn decide(&self, command: &Command) -> Decision {
        if self.is_foreign() && *command != Command::TakeOver {
            return Err(Rejected::Imported);
        }
        let open = !self.is_sealed() && self.leg().stopped.is_none();
        match command.clone() {
            Command::TakeOver if self.is_foreign() => Ok(vec![RunTakenOver {}.into()]),
            Command::TakeOver => Ok(vec![]),
            Command::Cancel { because } => self.cancel(because),
            Command::Resume => self.resume(),
            Command::RaiseBudget { tokens, turns } => self.raise(tokens, turns),
            Command::ApprovePlan => {
                let commands = self.awaited_commands().into_iter().map(str::to_owned).collect();
                self.judge_plan(PlanApproved { commands }.into())
            }
            Command::RejectPlan { because } => {
                let detail = format!("the plan was rejected: {because}");
                self.judge_plan(RunStopped { cause: Cause::Plan, detail }.into())
            }
            Command::HoldLanding { step, held } => {
                let landing = open && self.is_landing() && self.steps.len() == step;
                let newest = self.head.as_ref().is_some_and(|head| head.tree == held.landing.tree);
                let known = self.held.as_ref().is_some_and(|known| known.landing == held.landing);
                if_new(landing && newest && !known, LandingHeld { held })
            }
            Command::ApproveLanding { commit } => {
                self.judge_landing(&commit, LandingApproved { commit: commit.clone() }.into())
            }
            Command::RejectLanding { commit, because } => {
                let files = self.held.as_ref().map(|held| held.files.join(", "));
                let files = files.unwrap_or_default();
                let detail = format!("the operator refused the change of {files}: {because}");
                self.judge_landing(&commit, RunStopped { cause: Cause::Landing, detail }.into())
            }
            Command::ErrandDone { .. }
            | Command::ErrandFailed { .. }
            | Command::BatchMerged { .. }
            | Command::Integrated { .. }
            | Command::TaskUnfit { .. }
            | Command::QueueFailed { .. } => self.decide_tasks(command, open),
            Command::HeadTaken { session, head, caveats } => {
                let wanted = self.headless_sessions().any(|one| one.id == session);
                if_new(open && wanted, HeadTaken { session, head, caveats })
            }
            Command::HeadFailed { session, reason } => {
                let wanted = self.headless_sessions().any(|one| one.id == session);
                if_new(open && wanted, HeadFailed { session, reason })
            }
            Command::TargetMoved { step, merge } => {
                let wanted = open && self.is_landing() && self.steps.len() == step;
                if self.merges() < MAX_MERGES {
                    if_new(wanted, StepTaken { step: merge })
                } else {
                    if_new(wanted, LandFailed { reason: keeps_moving() })
                }
            }
            Command::PullRequested { number, url, commit } => {
                let new = match &self.landing {
                    Landing::Open => true,
                    Landing::Requested(pull) => pull.commit != commit || pull.number != number,
                    Landing::Done(_) => false,
                };
                // A report about an older commit is late.
                let newest = self.head.as_ref().is_some_and(|head| head.commit == commit);
                let new = new && newest && self.is_landing() && !self.is_sealed();
                if_new(new, PullRequested { number, url, commit })
            }
            Command::PullSeen { look, state, remarks }
                if open && (look == self.looks || bug!(LateLookTaken)) =>
            {
                self.see_pull(state, &remarks)
            }
            Command::PullSeen { .. } => Err(Rejected::Nothing),
            Command::Landed { branch, commit, merged } => {
                // A completed landing counts, whatever was decided in the meantime.
                let new = !self.is_sealed() && self.is_landing();
                if_new(new, WorkLanded { branch, commit, merged })
            }
            Command::LandOver { leg, pull } => {
                let current = self.leg().no == leg && !self.leg().landing_over;
                if_new(current && !open && !self.is_sealed(), LandOver { leg, pull })
            }
            Command::LandFailed { leg, reason } => {
                let current = (open || bug!(RunCancelOverwritten)) && self.leg().no == leg;
                if_new(current && self.is_landing(), LandFailed { reason })
            }
            Command::HookFinished { key, end } => {
                let owed = self.hooks.iter().any(|hook| hook.key == key);
                if_new(owed, HookFinished { key, end })
            }
            Command::CardWritten { leg, failure, changed } => {
                let owed = self.legs.iter().any(|l| l.no == leg && l.sealed.is_some() && !l.card);
                if_new(owed, CardWritten { leg, failure, changed })
            }
            Command::RecordForged { effect, moved_to } => {
                if_new(true, RecordForged { effect, moved_to })
            }
        }
    }

    fn judge_plan(&self, judged: Event) -> Decision {
        if self.awaits_approval() { Ok(vec![judged]) } else { Err(Rejected::NoPlanToApprove) }
    }

    fn judge_landing(&self, commit: &CommitId, judged: Event) -> Decision {
        match self.approval() {
            Some(Approval::Landing(held)) if held.landing.commit == *commit => Ok(vec![judged]),
            Some(_) | None => Err(Rejected::NotHeld(commit.clone())),
        }
    }

    /// Records results of worktree moves and of the merge queue, if they match the pending
    /// requests.
    #[expect(clippy::wildcard_enum_match_arm, reason = "decide() is the exhaustive match")]
    fn decide_tasks(&self, command: &Command, open: bool) -> Decision {
        let (true, Some(graph)) = (open, &self.graph) else {
            return Err(Rejected::Nothing);
        };
        let errand = |no: u32| self.errands().find(|(_, errand)| errand.no == no && !errand.done);
        let batch_no = graph.queue.batch.as_ref().map(|batch| batch.no);
        match command.clone() {
            Command::ErrandDone { no } => {
                let (plan, _) = errand(no).ok_or(Rejected::Nothing)?;
                Ok(vec![ErrandDone { task: plan.id.clone(), no }.into()])
            }
            Command::ErrandFailed { no, reason } => {
                let (plan, errand) = errand(no).ok_or(Rejected::Nothing)?;
                let (task, from) = (plan.id.clone(), errand.session);
                Ok(vec![HandedOver { task, from, reason }.into()])
            }
            Command::BatchMerged { batch, onto, links, conflicts } => {
                let owed =
                    graph.queue.next() == QueueStep::Merge && graph.queue.batches + 1 == batch;
                // A batch merged onto an older commit is late.
                let newest = *self.base() == onto;
                if_new(owed && newest, BatchMerged { no: batch, onto, links, conflicts })
            }
            Command::Integrated { batch, len } => {
                let owed = graph.queue.next() == QueueStep::Integrate(len);
                let links = graph.queue.batch.as_ref().map(|batch| &batch.links);
                let head = links.and_then(|links| links.get(len.checked_sub(1)?));
                let head = head.map(|link| link.merge.clone()).ok_or(Rejected::Nothing)?;
                let owed = owed && batch_no == Some(batch);
                if_new(owed || bug!(LateIntegrationTaken), Integrated { batch, len, head })
            }
            Command::TaskUnfit { batch, task, reason } => {
                let owed =
                    graph.queue.next() == QueueStep::Merge && graph.queue.batches + 1 == batch;
                if !owed || !graph.queue.waiting.contains(&task) {
                    return Err(Rejected::Nothing);
                }
                let (onto, links, conflicts) = (self.base().clone(), Vec::new(), Vec::new());
                let without = BatchMerged { no: batch, onto, links, conflicts };
                Ok(vec![TaskFailed { task, detail: reason }.into(), without.into()])
            }
            Command::QueueFailed { batch, reason } => {
                let owed = match graph.queue.next() {
                    QueueStep::Merge => graph.queue.batches + 1 == batch,
                    QueueStep::Integrate(_) => batch_no == Some(batch),
                    QueueStep::Rest | QueueStep::Prove(_) | QueueStep::Return(_) => false,
                };
                if_new(owed, RunStopped { cause: Cause::Queue, detail: reason })
            }
            _ => unreachable!("decide() sends only commands about tasks here"),
        }
    }

    fn is_landing(&self) -> bool {
        self.stage == super::Stage::Land && !matches!(self.landing, Landing::Done(_))
    }

    /// Returns review comments to the agent, up to the limit of rounds.
    fn see_pull(&self, state: PullState, remarks: &[Remark]) -> Decision {
        let Landing::Requested(pull) = &self.landing else { return Err(Rejected::Nothing) };
        let new: Vec<Remark> = self.new_remarks(remarks).into_iter().cloned().collect();
        if new.is_empty() && pull.seen.as_ref() == Some(&state) {
            return Err(Rejected::Nothing);
        }
        // A merged or closed pull request takes no more changes.
        let open = state.standing == PullStanding::Open;
        let mut events = vec![Event::from(PullSeen { state })];
        match (new.is_empty(), open && self.rounds() < MAX_ROUNDS) {
            (true, _) => {}
            (false, true) => {
                let remarks = new.into_iter().take(MAX_REMARKS).collect();
                let step = Box::new(LandStep::Answer { remarks });
                events.push(StepTaken { step }.into());
            }
            (false, false) => events.push(RemarksLeft { remarks: new }.into()),
        }
        Ok(events)
    }

    fn cancel(&self, because: String) -> Decision {
        match (&self.leg().sealed, &self.leg().stopped) {
            (Some(outcome), _) => Err(Rejected::Sealed(outcome.ending.word())),
            (None, Some(super::Stopped::Cancelled { .. })) => Err(Rejected::Cancelled),
            // A failing run can still be cancelled, because its end is not sealed yet.
            (None, Some(super::Stopped::Failed { .. }) | None) => {
                Ok(vec![RunCancelled { because }.into()])
            }
        }
    }

    fn resume(&self) -> Decision {
        let Some(outcome) = &self.leg().sealed else { return Err(Rejected::GoingOn) };
        match outcome.ending {
            super::Ending::Succeeded | super::Ending::Completed => Err(Rejected::NothingLeft),
            super::Ending::Failed | super::Ending::Cancelled => {
                if let Some(used) = self.used_up() {
                    return Err(Rejected::UsedUp(used));
                }
                let leg = self.leg().no + 1;
                Ok(vec![RunResumed { leg, stage: self.stage }.into()])
            }
        }
    }

    /// Returns the part of the budget that ended sessions have used up.
    pub(super) fn used_up(&self) -> Option<String> {
        match self.remaining() {
            Budget { tokens: Some(0), .. } => {
                Some(format!("{} tokens are used", self.usage.total()))
            }
            Budget { turns: Some(0), .. } => Some(format!("{} turns are used", self.turns)),
            Budget { .. } => None,
        }
    }

    fn raise(&self, tokens: Option<u64>, turns: Option<u32>) -> Decision {
        let more = |now: Option<u64>, given: Option<u64>| match (now, given) {
            (Some(now), Some(given)) => given > now,
            // Without a limit, a new one would be lower.
            (None, Some(_)) => false,
            (_, None) => true,
        };
        let wide = |turns: Option<u32>| turns.map(u64::from);
        if more(self.budget.tokens, tokens) && more(wide(self.budget.turns), wide(turns)) {
            Ok(vec![BudgetRaised { tokens, turns }.into()])
        } else {
            Err(Rejected::BudgetNotRaised(told(self.budget)))
        }
    }
}

fn keeps_moving() -> String {
    format!("the branch moved {MAX_MERGES} times while the work was being merged with it")
}

fn told(budget: Budget) -> String {
    let part = |limit: Option<u64>, what: &str| match limit {
        Some(limit) => format!("{limit} {what}"),
        None => format!("unlimited {what}"),
    };
    let (tokens, turns) = (budget.tokens, budget.turns.map(u64::from));
    format!("{}, {}", part(tokens, "tokens"), part(turns, "turns"))
}
