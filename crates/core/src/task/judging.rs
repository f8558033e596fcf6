//! What comes of commands about criteria, checks and the end of the task.

use super::{
    command::{Checked, Rejected},
    criterion::{Evidence, Judgement, MAX_CRITERIA, Needs, Source, says_something},
    decide::{Decision, one},
    event::*,
    gate::{LoopEnd, Proof, Shown},
    looping::required,
    member::{Actor, Member, Role},
    state::{CheckOwed, Phase, Purpose, Task},
};
use crate::verdict::Receipt;

impl Task {
    pub(super) fn propose(
        &self,
        actor: &Actor,
        text: &str,
        rationale: Option<String>,
        needs: &Needs,
    ) -> Decision {
        if self.criteria.len() >= MAX_CRITERIA {
            return Err(Rejected::TooManyCriteria(MAX_CRITERIA));
        }
        says_something(text)?;
        let no = u32::try_from(self.criteria.len()).unwrap_or(u32::MAX).saturating_add(1);
        let source = Source::of(self.role_of(actor));
        let text = text.to_owned();
        one(CriterionProposed { no, text, source, rationale, needs: needs.clone() })
    }

    pub(super) fn judge(&self, actor: &Actor, no: u32, judgement: &Judgement) -> Decision {
        let criterion = self.criterion(no).ok_or(Rejected::NoCriterion(no))?;
        if let Judgement::Satisfy { evidence } = judgement {
            // Only Provost has receipts of commands that it ran.
            if matches!(evidence, Evidence::Verified(_)) && *actor != Actor::Provost {
                return Err(Rejected::NothingToCheck);
            }
            criterion.needs.met_by(evidence)?;
        }
        match criterion.state.after(judgement) {
            Some(_) => {
                let (judgement, by) = (judgement.clone(), actor.clone());
                one(CriterionJudged { no, judgement, by })
            }
            None => Err(Rejected::IllegalJudgement {
                state: criterion.state.word(),
                judgement: judgement.word(),
            }),
        }
    }

    /// Gives the worker whose work is checked: the first one that has a session.
    pub(super) fn checked_worker(&self) -> Result<&Member, Rejected> {
        let mut workers = self.bound(Role::Worker);
        let with_session = self.bound(Role::Worker).find(|worker| worker.session.is_some());
        with_session.or_else(|| workers.next()).ok_or(Rejected::NoWork)
    }

    pub(super) fn want_check(&self, what: &Checked) -> Decision {
        let (command, purpose) = match what {
            Checked::Criterion(no) => {
                let criterion = self.criterion(*no).ok_or(Rejected::NoCriterion(*no))?;
                match &criterion.needs {
                    Needs::Verified { check } => (check.clone(), Purpose::Criterion(*no)),
                    Needs::Asserted => return Err(Rejected::NothingToCheck),
                }
            }
            Checked::Evidence(name) => {
                let looped = self.running_loop().ok_or(Rejected::NoLoop)?;
                let (iteration, name) = (looped.iteration, name.clone());
                match required(looped, &name)? {
                    Proof::Verified { check } => {
                        (check.clone(), Purpose::Evidence { iteration, name })
                    }
                    Proof::Asserted
                    | Proof::Adversarial
                    | Proof::Artifact { .. }
                    | Proof::Pictures { .. } => return Err(Rejected::NothingToCheck),
                }
            }
        };
        if self.checks.iter().any(|owed| owed.purpose == purpose) {
            return Err(Rejected::Nothing);
        }
        let worker = self.checked_worker()?.name.clone();
        let no = self.checks_owed + 1;
        one(CheckWanted { check: CheckOwed { no, command, purpose, worker } })
    }

    pub(super) fn check_done(&self, no: u32, receipt: &Receipt) -> Decision {
        let owed = self.checks.iter().find(|owed| owed.no == no).ok_or(Rejected::Nothing)?;
        let mut events = vec![CheckDone { no, receipt: Box::new(receipt.clone()) }.into()];
        let evidence = Evidence::Verified(Box::new(receipt.clone()));
        match &owed.purpose {
            Purpose::Criterion(no) => {
                let judgement = Judgement::Satisfy { evidence };
                // A check that fails satisfies nothing, and neither does one of what is rejected meanwhile.
                events.extend(self.judge(&Actor::Provost, *no, &judgement).unwrap_or_default());
            }
            Purpose::Evidence { iteration, name } => {
                let shown = Shown::Evidence(evidence);
                let shown = self.show(&Actor::Provost, *iteration, name, &shown);
                events.extend(shown.unwrap_or_default());
            }
            Purpose::Audit(audit) => events.extend(self.audit_done(*audit, no, receipt)),
        }
        Ok(events)
    }

    /// Finishes the task if nothing is open, after its audit if there are commands that have to pass.
    pub(super) fn finish(&self, actor: &Actor, because: &str) -> Decision {
        if self.audit.is_some() {
            return Err(Rejected::BeingAudited);
        }
        let blockers = self.blockers();
        if !blockers.is_empty() {
            return one(FinishRefused { blockers });
        }
        let (no, because, by) = (self.audits + 1, because.to_owned(), actor.clone());
        let commands = self.audited();
        if commands.is_empty() {
            return self.end(Phase::Done { because });
        }
        let worker = self.checked_worker()?.name.clone();
        let mut events = vec![Event::from(FinishAsked { no, because, by })];
        for (command, number) in commands.into_iter().zip(self.checks_owed + 1..) {
            let worker = worker.clone();
            let check = CheckOwed { no: number, command, purpose: Purpose::Audit(no), worker };
            events.push(CheckWanted { check }.into());
        }
        Ok(events)
    }

    /// The last check of the audit says whether the task is done.
    pub(super) fn audit_done(&self, audit: u32, no: u32, receipt: &Receipt) -> Vec<Event> {
        let Some(asked) = self.audit.as_ref().filter(|asked| asked.no == audit) else {
            return Vec::new();
        };
        let left = self.checks.iter().filter(|owed| owed.purpose == Purpose::Audit(audit));
        if left.filter(|owed| owed.no != no).count() > 0 {
            return Vec::new();
        }
        let receipts: Vec<Receipt> = asked.receipts.iter().chain([receipt]).cloned().collect();
        // What became open while the checks ran counts as well.
        let mut blockers = self.blockers();
        blockers.extend(Task::refuted(&receipts));
        match blockers.is_empty() {
            true => {
                let because = asked.because.clone();
                self.end(Phase::Done { because }).unwrap_or_default()
            }
            false => vec![FinishRefused { blockers }.into()],
        }
    }

    /// Ends the task, and its loop with it.
    pub(super) fn end(&self, phase: Phase) -> Decision {
        let end = match matches!(phase, Phase::Done { .. }) {
            true => LoopEnd::Finished,
            false => LoopEnd::Stopped { because: format!("the task is {}", phase.word()) },
        };
        let ended = self.running_loop().map(|_| LoopEnded { end }.into());
        Ok(ended.into_iter().chain([PhaseChanged { phase }.into()]).collect())
    }
}
