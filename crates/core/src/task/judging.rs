//! Commands about criteria, checks and the end of the team.

use super::{
    advance::Around,
    command::{Checked, Rejected},
    criterion::{Check, Evidence, Judgement, MAX_CRITERIA, Needs, Source, says_something},
    decide::{Decision, one},
    envelope,
    event::*,
    finish::{Allowance, Blocker, split},
    gate::{Compared, LoopEnd, Proof, Shown},
    looping::required,
    manager::Action,
    member::{Actor, Member, Role},
    message::Address,
    pictures::{Files, Pictures},
    state::{CheckOwed, Phase, Purpose, Task},
};
use crate::{text::named, verdict::Receipt};

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
        if let Needs::Pictures(pictures) = needs {
            self.may_choose(actor, &pictures.files)?;
        }
        needs.command().map_or(Ok(()), |command| self.may_write(actor, command))?;
        let no = self.next_criterion();
        let source = Source::of(self.role_of(actor));
        let text = text.to_owned();
        one(CriterionProposed { no, text, source, rationale, needs: needs.clone() })
    }

    fn next_criterion(&self) -> u32 {
        u32::try_from(self.criteria.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(super) fn demand(
        &self,
        actor: &Actor,
        text: &str,
        rationale: Option<String>,
        needs: &Needs,
    ) -> Decision {
        let mut events = self.propose(actor, text, rationale, needs)?;
        let no = self.next_criterion();
        let (judgement, by) = (Judgement::Accept, actor.clone());
        events.push(CriterionJudged { no, judgement, by }.into());
        Ok(events)
    }

    pub(super) fn judge(&self, actor: &Actor, no: u32, judgement: &Judgement) -> Decision {
        let criterion = self.criterion(no).ok_or(Rejected::NoCriterion(no))?;
        let judgement = &judgement.clone().signed(actor);
        judgement.because().map_or(Ok(()), says_something)?;
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

    /// Returns the worker whose work is checked: the first one with a session.
    pub(super) fn checked_worker(&self) -> Result<&Member, Rejected> {
        let mut workers = self.bound(Role::Worker);
        let with_session = self.bound(Role::Worker).find(|worker| worker.session.is_some());
        with_session.or_else(|| workers.next()).ok_or(Rejected::NoWork)
    }

    pub(super) fn want_check(&self, actor: &Actor, what: &Checked) -> Decision {
        let (check, purpose) = match what {
            Checked::Criterion(no) => {
                let criterion = self.criterion(*no).ok_or(Rejected::NoCriterion(*no))?;
                let check = criterion.needs.check().ok_or(Rejected::NothingToCheck)?;
                (check, Purpose::Criterion(*no))
            }
            Checked::Evidence(name) => self.check_of_evidence(name, None)?,
            Checked::Pictures { evidence, files } => {
                self.may_choose(actor, files)?;
                self.check_of_evidence(evidence, Some(files))?
            }
        };
        if let Some(owed) = self.checks.iter().find(|owed| owed.purpose == purpose) {
            // Every caller receives the result once, no matter who requested it first.
            let asker = self.asker(actor).filter(|name| owed.by.as_ref() != Some(name));
            let asker = asker.filter(|name| !owed.joined.contains(name));
            let by = asker.ok_or(Rejected::Nothing)?;
            return one(CheckJoined { no: owed.no, by });
        }
        self.may_check(&check)?;
        // A worker has its own work checked, not that of another.
        let own = match actor {
            Actor::Member(name) => self.bound(Role::Worker).find(|worker| worker.name == *name),
            Actor::Operator | Actor::Policy | Actor::Provost => None,
        };
        let worker = own.map_or_else(|| self.checked_worker(), Ok)?.name.clone();
        let (no, by) = (self.checks_owed + 1, self.asker(actor));
        let Check { command, pictures } = check;
        let joined = Vec::new();
        one(CheckWanted { check: CheckOwed { no, command, purpose, worker, by, joined, pictures } })
    }

    /// Returns the check for a piece of evidence. The loop names the pictures, or else the caller
    /// does.
    fn check_of_evidence(
        &self,
        name: &str,
        given: Option<&Files>,
    ) -> Result<(Check, Purpose), Rejected> {
        let looped = self.running_loop().ok_or(Rejected::NoLoop)?;
        let check = match (required(looped, name)?, given) {
            (Proof::Verified { check }, None) => Check { command: check.clone(), pictures: None },
            (Proof::Pictures { differing, files }, given) => {
                let files = match (files, given) {
                    (Some(own), Some(given)) if own != given => {
                        return Err(Rejected::OtherPictures);
                    }
                    (Some(files), _) | (None, Some(files)) => files.clone(),
                    (None, None) => return Err(Rejected::NoPictures),
                };
                Check::of(&Pictures { files, differing: *differing })
            }
            (Proof::Verified { .. }, Some(_))
            | (Proof::Asserted | Proof::Adversarial | Proof::Artifact { .. }, _) => {
                return Err(Rejected::NothingToCheck);
            }
        };
        let (iteration, name) = (looped.iteration, name.to_owned());
        Ok((check, Purpose::Evidence { iteration, name }))
    }

    /// Checks that an actor may have these files compared. A worker may not choose the tolerance.
    fn may_choose(&self, actor: &Actor, files: &Files) -> Result<(), Rejected> {
        files.check()?;
        match self.role_of(actor) {
            Some(role @ (Role::Worker | Role::Reviewer)) if files.tolerance > 0 => {
                Err(Rejected::NotForRole { role, action: Action::Judge })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn check_done(
        &self,
        no: u32,
        receipt: &Receipt,
        compared: Option<&Compared>,
        around: &Around<'_>,
    ) -> Decision {
        let owed = self.checks.iter().find(|owed| owed.no == no).ok_or(Rejected::Nothing)?;
        let done = CheckDone {
            no,
            receipt: Box::new(receipt.clone()),
            compared: compared.cloned().map(Box::new),
        };
        let mut events = vec![done.into()];
        let evidence = Evidence::Verified(Box::new(receipt.clone()));
        match &owed.purpose {
            Purpose::Criterion(no) => {
                let judgement = Judgement::Satisfy { evidence };
                // A failed check satisfies nothing, and neither does one for a criterion rejected
                // in the meantime.
                events.extend(self.judge(&Actor::Provost, *no, &judgement).unwrap_or_default());
            }
            Purpose::Evidence { iteration, name } => {
                let pictures = compared.cloned().map(Shown::Pictures);
                let shown = pictures.unwrap_or(Shown::Evidence(evidence));
                let shown = self.show(&Actor::Provost, *iteration, name, &shown);
                events.extend(shown.unwrap_or_default());
            }
            Purpose::Audit(audit) => events.extend(self.audit_done(*audit, owed, receipt, around)),
        }
        events.extend(self.tell_of_check(owed, receipt));
        Ok(events)
    }

    /// Returns the member to notify later of a result.
    pub(super) fn asker(&self, actor: &Actor) -> Option<String> {
        match actor {
            Actor::Member(name) => Some(name.clone()),
            Actor::Operator | Actor::Policy | Actor::Provost => None,
        }
    }

    /// Sends the result of a check once to every member that requested it, and to the managers of a
    /// worker.
    fn tell_of_check(&self, owed: &CheckOwed, receipt: &Receipt) -> Vec<Event> {
        let what = match &owed.purpose {
            Purpose::Criterion(no) => format!("criterion {no}"),
            Purpose::Evidence { iteration, name } => format!("{name} of iteration {iteration}"),
            Purpose::Audit(no) => format!("audit {no}"),
        };
        let text = envelope::checked(owed.no, &what, receipt);
        let key = format!("check-{}", owed.no);
        let askers = owed.by.iter().chain(&owed.joined).filter_map(|name| self.member(name));
        let askers: Vec<&Member> = askers.collect();
        let own = askers.iter().enumerate().map(|(at, asker)| {
            let key = if at == 0 { key.clone() } else { format!("{key}-{}", asker.name) };
            (Address::Member(asker.name.clone()), key, text.clone())
        });
        let worker = askers.iter().find(|asker| asker.role != Role::Manager);
        let managers = worker.map(|_| self.told_of_work()).unwrap_or_default();
        // A manager that requested the check has the result already.
        let asked = |to: &Address| askers.iter().any(|asker| asker.name == to.name());
        let managers = managers.into_iter().filter(|to| !asked(to)).filter_map(|to| {
            let (name, role) = worker.map(|one| (named(&one.name), one.role.word()))?;
            let text = format!("{name} ({role}) had this checked\n{text}");
            let key = format!("{key}-{}", to.name());
            Some((to, key, text))
        });
        let told = own.chain(managers).zip(self.messages_stored + 1..);
        told.map(|((to, key, text), no)| MessageStored::by_rule(no, key, to, text).into()).collect()
    }

    /// Builds a message from Provost itself to a member.
    pub(super) fn provost_tells(&self, to: &str, key: String, text: String) -> Event {
        let to = Address::Member(to.to_owned());
        MessageStored::by_rule(self.messages_stored + 1, key, to, text).into()
    }

    /// Finishes the team if nothing blocks it, after an audit if there are commands that must pass.
    pub(super) fn finish(
        &self,
        actor: &Actor,
        because: &str,
        allow: &[Allowance],
        around: &Around<'_>,
    ) -> Decision {
        if !allow.is_empty() && *actor != Actor::Operator {
            return Err(Rejected::OperatorAllows(allow.to_vec()));
        }
        if self.audit.is_some() {
            return Err(Rejected::BeingAudited);
        }
        let (blockers, allowed) = split(self.blockers_for(actor, around.look), allow);
        if !blockers.is_empty() {
            return one(FinishRefused { blockers });
        }
        let (no, because, by) = (self.audits + 1, because.to_owned(), actor.clone());
        let checks = self.audited();
        if checks.is_empty() {
            let allowed = allowance(allowed, by).into_iter();
            return Ok(allowed.chain(self.end(Phase::Done { because })?).collect());
        }
        checks.iter().try_for_each(|check| self.may_check(check))?;
        let worker = self.checked_worker()?.name.clone();
        let allow = allow.to_vec();
        let mut events = vec![Event::from(FinishAsked { no, because, by, allow })];
        for (Check { command, pictures }, number) in checks.into_iter().zip(self.checks_owed + 1..)
        {
            let (worker, purpose) = (worker.clone(), Purpose::Audit(no));
            let (by, joined) = (None, Vec::new());
            let check = CheckOwed { no: number, command, purpose, worker, by, joined, pictures };
            events.push(CheckWanted { check }.into());
        }
        Ok(events)
    }

    /// Decides on the finish after the last check of the audit.
    pub(super) fn audit_done(
        &self,
        audit: u32,
        done: &CheckOwed,
        receipt: &Receipt,
        around: &Around<'_>,
    ) -> Vec<Event> {
        let Some(asked) = self.audit.as_ref().filter(|asked| asked.no == audit) else {
            return Vec::new();
        };
        let left = self.checks.iter().filter(|owed| owed.purpose == Purpose::Audit(audit));
        if left.filter(|owed| owed.no != done.no).count() > 0 {
            return Vec::new();
        }
        let receipts: Vec<Receipt> = asked.receipts.iter().chain([receipt]).cloned().collect();
        // Blockers that appeared while the checks ran count as well.
        let mut blockers = self.blockers_for(&asked.by, around.look);
        blockers.extend(Task::refuted(&receipts));
        blockers.extend(self.unchanged(&done.worker, &receipts, around.look));
        let (blockers, allowed) = split(blockers, &asked.allow);
        if blockers.is_empty() {
            let because = asked.because.clone();
            let told = self.asker(&asked.by).map(|name| {
                let text = envelope::finished(self);
                FinishTold { name, text }.into()
            });
            let ended = self.end(Phase::Done { because }).unwrap_or_default();
            let allowed = allowance(allowed, asked.by.clone());
            allowed.into_iter().chain(told).chain(ended).collect()
        } else {
            let text = envelope::unfinished(&blockers);
            let asker = self.asker(&asked.by).filter(|name| self.member(name).is_some());
            let told = asker.map(|to| self.provost_tells(&to, format!("audit-{audit}"), text));
            [FinishRefused { blockers }.into()].into_iter().chain(told).collect()
        }
    }

    /// Ends the team and its loop.
    pub(super) fn end(&self, phase: Phase) -> Decision {
        let end = if matches!(phase, Phase::Done { .. }) {
            LoopEnd::Finished
        } else {
            LoopEnd::Stopped { because: format!("the team is {}", phase.word()) }
        };
        let by = Actor::Provost;
        let ended = self.running_loop().map(|_| LoopEnded { end, by }.into());
        Ok(ended.into_iter().chain([PhaseChanged { phase }.into()]).collect())
    }
}

/// Records the waived blockers, if any.
fn allowance(blockers: Vec<Blocker>, by: Actor) -> Option<Event> {
    (!blockers.is_empty()).then(|| FinishAllowed { blockers, by }.into())
}
