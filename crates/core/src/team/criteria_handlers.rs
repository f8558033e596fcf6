//! Handlers for commands about criteria, checks and the end of the team.

use super::{
    advance::TeamAdvanceContext,
    command::{CheckSubject, TeamRejection},
    criterion::{
        CriterionEvidence, CriterionJudgement, CriterionSource, EvidenceRequirement, MAX_CRITERIA,
        ProvostCheck, check_meaningful,
    },
    decide::{TeamCommandResult, single_event},
    envelope,
    event::*,
    finish::{BlockerWaiver, FinishBlocker, split_waived},
    loop_evidence::{PictureComparison, ShownEvidence},
    loop_handlers::required_proof,
    loop_state::{LoopEnd, LoopProof},
    manager::TeamAction,
    member::{MemberRole, TeamActor, TeamMember},
    message::Recipient,
    pictures::{PictureCheck, PictureFiles},
    state::{CheckPurpose, PendingCheck, Team, TeamPhase},
};
use crate::{text::quote_name, verdict::Receipt};

impl Team {
    pub(super) fn propose(
        &self,
        actor: &TeamActor,
        text: &str,
        rationale: Option<String>,
        needs: &EvidenceRequirement,
    ) -> TeamCommandResult {
        if self.criteria.len() >= MAX_CRITERIA {
            return Err(TeamRejection::TooManyCriteria(MAX_CRITERIA));
        }
        check_meaningful(text)?;
        if let EvidenceRequirement::Pictures(pictures) = needs {
            self.check_may_choose_files(actor, &pictures.files)?;
        }
        needs.command().map_or(Ok(()), |command| self.check_command_rules(actor, command))?;
        let no = self.next_criterion();
        let source = CriterionSource::from_role(self.role_of(actor));
        let text = text.to_owned();
        single_event(CriterionProposed { no, text, source, rationale, needs: needs.clone() })
    }

    fn next_criterion(&self) -> u32 {
        u32::try_from(self.criteria.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(super) fn propose_accepted(
        &self,
        actor: &TeamActor,
        text: &str,
        rationale: Option<String>,
        needs: &EvidenceRequirement,
    ) -> TeamCommandResult {
        let mut events = self.propose(actor, text, rationale, needs)?;
        let no = self.next_criterion();
        let (judgement, by) = (CriterionJudgement::Accept, actor.clone());
        events.push(CriterionJudged { no, judgement, by }.into());
        Ok(events)
    }

    pub(super) fn judge(
        &self,
        actor: &TeamActor,
        no: u32,
        judgement: &CriterionJudgement,
    ) -> TeamCommandResult {
        let criterion = self.criterion(no).ok_or(TeamRejection::NoCriterion(no))?;
        let judgement = &judgement.clone().sign(actor);
        judgement.reason().map_or(Ok(()), check_meaningful)?;
        if let CriterionJudgement::Satisfy { evidence } = judgement {
            // Only Provost can submit receipts, because Provost runs the commands itself.
            if matches!(evidence, CriterionEvidence::Verified(_)) && *actor != TeamActor::Provost {
                return Err(TeamRejection::NothingToCheck);
            }
            criterion.needs.check_evidence(evidence)?;
        }
        match criterion.state.after(judgement) {
            Some(_) => {
                let (judgement, by) = (judgement.clone(), actor.clone());
                single_event(CriterionJudged { no, judgement, by })
            }
            None => Err(TeamRejection::IllegalJudgement {
                state: criterion.state.as_str(),
                judgement: judgement.as_str(),
            }),
        }
    }

    /// Returns the worker whose work is checked, which is the first one that has a session.
    pub(super) fn checked_worker(&self) -> Result<&TeamMember, TeamRejection> {
        let mut workers = self.bound(MemberRole::Worker);
        let with_session = self.bound(MemberRole::Worker).find(|worker| worker.session.is_some());
        with_session.or_else(|| workers.next()).ok_or(TeamRejection::NoWorkToCheck)
    }

    pub(super) fn request_check(
        &self,
        actor: &TeamActor,
        what: &CheckSubject,
    ) -> TeamCommandResult {
        let (check, purpose) = match what {
            CheckSubject::Criterion(no) => {
                let criterion = self.criterion(*no).ok_or(TeamRejection::NoCriterion(*no))?;
                let check = criterion.needs.check().ok_or(TeamRejection::NothingToCheck)?;
                (check, CheckPurpose::Criterion(*no))
            }
            CheckSubject::Evidence(name) => self.evidence_check(name, None)?,
            CheckSubject::Pictures { evidence, files } => {
                self.check_may_choose_files(actor, files)?;
                self.evidence_check(evidence, Some(files))?
            }
        };
        if let Some(check) = self.checks.iter().find(|check| check.purpose == purpose) {
            // Every member that requested the check receives the result once.
            let asker = self.member_to_notify(actor).filter(|name| check.by.as_ref() != Some(name));
            let asker = asker.filter(|name| !check.joined.contains(name));
            let by = asker.ok_or(TeamRejection::NothingNew)?;
            return single_event(CheckJoined { no: check.no, by });
        }
        self.check_consent(&check)?;
        // A worker can request checks only for its own work.
        let own = match actor {
            TeamActor::Member(name) => {
                self.bound(MemberRole::Worker).find(|worker| worker.name == *name)
            }
            TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => None,
        };
        let worker = own.map_or_else(|| self.checked_worker(), Ok)?.name.clone();
        let (no, by) = (self.checks_requested + 1, self.member_to_notify(actor));
        let ProvostCheck { command, pictures } = check;
        let joined = Vec::new();
        single_event(CheckRequested {
            check: PendingCheck { no, command, purpose, worker, by, joined, pictures },
        })
    }

    /// Returns the check for a piece of evidence. Either the loop or the caller specifies the pictures.
    fn evidence_check(
        &self,
        name: &str,
        given: Option<&PictureFiles>,
    ) -> Result<(ProvostCheck, CheckPurpose), TeamRejection> {
        let looped = self.running_loop().ok_or(TeamRejection::NoLoop)?;
        let check = match (required_proof(looped, name)?, given) {
            (LoopProof::Verified { check }, None) => {
                ProvostCheck { command: check.clone(), pictures: None }
            }
            (LoopProof::Pictures { differing, files }, given) => {
                let files = match (files, given) {
                    (Some(own), Some(given)) if own != given => {
                        return Err(TeamRejection::OtherPictures);
                    }
                    (Some(files), _) | (None, Some(files)) => files.clone(),
                    (None, None) => return Err(TeamRejection::NoPictures),
                };
                ProvostCheck::from_pictures(&PictureCheck { files, differing: *differing })
            }
            (LoopProof::Verified { .. }, Some(_))
            | (LoopProof::Asserted | LoopProof::Adversarial | LoopProof::Artifact { .. }, _) => {
                return Err(TeamRejection::NothingToCheck);
            }
        };
        let (iteration, name) = (looped.iteration, name.to_owned());
        Ok((check, CheckPurpose::Evidence { iteration, name }))
    }

    /// Checks that an actor may request a comparison of these files. A worker must not choose the
    /// tolerance.
    fn check_may_choose_files(
        &self,
        actor: &TeamActor,
        files: &PictureFiles,
    ) -> Result<(), TeamRejection> {
        files.validate()?;
        match self.role_of(actor) {
            Some(role @ (MemberRole::Worker | MemberRole::Reviewer)) if files.tolerance > 0 => {
                Err(TeamRejection::NotForRole { role, action: TeamAction::Judge })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn check_done(
        &self,
        no: u32,
        receipt: &Receipt,
        compared: Option<&PictureComparison>,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        let check =
            self.checks.iter().find(|check| check.no == no).ok_or(TeamRejection::NothingNew)?;
        let done = CheckDone {
            no,
            receipt: Box::new(receipt.clone()),
            compared: compared.cloned().map(Box::new),
        };
        let mut events = vec![done.into()];
        let evidence = CriterionEvidence::Verified(Box::new(receipt.clone()));
        match &check.purpose {
            CheckPurpose::Criterion(no) => {
                let judgement = CriterionJudgement::Satisfy { evidence };
                // A failed check does not satisfy a criterion, and a criterion that was rejected in
                // the meantime stays rejected.
                events.extend(self.judge(&TeamActor::Provost, *no, &judgement).unwrap_or_default());
            }
            CheckPurpose::Evidence { iteration, name } => {
                let pictures = compared.cloned().map(ShownEvidence::Pictures);
                let shown = pictures.unwrap_or(ShownEvidence::Evidence(evidence));
                let shown = self.show_evidence(&TeamActor::Provost, *iteration, name, &shown);
                events.extend(shown.unwrap_or_default());
            }
            CheckPurpose::Audit(audit) => {
                events.extend(self.audit_done(*audit, check, receipt, context))
            }
        }
        events.extend(self.report_check(check, receipt));
        Ok(events)
    }

    /// Returns the member to notify once a result is available.
    pub(super) fn member_to_notify(&self, actor: &TeamActor) -> Option<String> {
        match actor {
            TeamActor::Member(name) => Some(name.clone()),
            TeamActor::Operator | TeamActor::Policy | TeamActor::Provost => None,
        }
    }

    /// Sends the result of a check, once, to every member that requested the check. If a member
    /// other than a manager requested the check, the managers receive the result as well.
    fn report_check(&self, check: &PendingCheck, receipt: &Receipt) -> Vec<Event> {
        let what = match &check.purpose {
            CheckPurpose::Criterion(no) => format!("criterion {no}"),
            CheckPurpose::Evidence { iteration, name } => {
                format!("{name} of iteration {iteration}")
            }
            CheckPurpose::Audit(no) => format!("audit {no}"),
        };
        let text = envelope::format_check_result(check.no, &what, receipt);
        let key = format!("check-{}", check.no);
        let askers = check.by.iter().chain(&check.joined).filter_map(|name| self.member(name));
        let askers: Vec<&TeamMember> = askers.collect();
        let own = askers.iter().enumerate().map(|(at, asker)| {
            let key = if at == 0 { key.clone() } else { format!("{key}-{}", asker.name) };
            (Recipient::Member(asker.name.clone()), key, text.clone())
        });
        let worker = askers.iter().find(|asker| asker.role != MemberRole::Manager);
        let managers = worker.map(|_| self.news_recipients()).unwrap_or_default();
        // A manager that requested the check already receives the result.
        let asked = |to: &Recipient| askers.iter().any(|asker| asker.name == to.name());
        let managers = managers.into_iter().filter(|to| !asked(to)).filter_map(|to| {
            let (name, role) = worker.map(|one| (quote_name(&one.name), one.role.as_str()))?;
            let text = format!("{name} ({role}) requested this check\n{text}");
            let key = format!("{key}-{}", to.name());
            Some((to, key, text))
        });
        let results = own.chain(managers).zip(self.messages_stored + 1..);
        results
            .map(|((to, key, text), no)| MessageStored::by_rule(no, key, to, text).into())
            .collect()
    }

    /// Builds a message from Provost itself to a member.
    pub(super) fn provost_message(&self, to: &str, key: String, text: String) -> Event {
        let to = Recipient::Member(to.to_owned());
        MessageStored::by_rule(self.messages_stored + 1, key, to, text).into()
    }

    /// Finishes the team if nothing blocks the finish. If there are commands that must pass, an
    /// audit runs them first.
    pub(super) fn finish(
        &self,
        actor: &TeamActor,
        because: &str,
        allow: &[BlockerWaiver],
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        if !allow.is_empty() && *actor != TeamActor::Operator {
            return Err(TeamRejection::OperatorAllows(allow.to_vec()));
        }
        if self.audit.is_some() {
            return Err(TeamRejection::BeingAudited);
        }
        let (blockers, allowed) = split_waived(self.blockers_for(actor, context.session), allow);
        if !blockers.is_empty() {
            return single_event(FinishRefused { blockers });
        }
        let (no, because, by) = (self.audits + 1, because.to_owned(), actor.clone());
        let checks = self.audit_checks();
        if checks.is_empty() {
            let allowed = waiver_event(allowed, by).into_iter();
            return Ok(allowed.chain(self.end_team(TeamPhase::Done { because })?).collect());
        }
        checks.iter().try_for_each(|check| self.check_consent(check))?;
        let worker = self.checked_worker()?.name.clone();
        let allow = allow.to_vec();
        let mut events = vec![Event::from(FinishRequested { no, because, by, allow })];
        for (ProvostCheck { command, pictures }, number) in
            checks.into_iter().zip(self.checks_requested + 1..)
        {
            let (worker, purpose) = (worker.clone(), CheckPurpose::Audit(no));
            let (by, joined) = (None, Vec::new());
            let check = PendingCheck { no: number, command, purpose, worker, by, joined, pictures };
            events.push(CheckRequested { check }.into());
        }
        Ok(events)
    }

    /// Decides whether the team finishes, after the last check of the audit.
    pub(super) fn audit_done(
        &self,
        audit: u32,
        done: &PendingCheck,
        receipt: &Receipt,
        context: &TeamAdvanceContext<'_>,
    ) -> Vec<Event> {
        let Some(asked) = self.audit.as_ref().filter(|asked| asked.no == audit) else {
            return Vec::new();
        };
        let left = self.checks.iter().filter(|check| check.purpose == CheckPurpose::Audit(audit));
        if left.filter(|check| check.no != done.no).count() > 0 {
            return Vec::new();
        }
        let receipts: Vec<Receipt> = asked.receipts.iter().chain([receipt]).cloned().collect();
        // Blockers that appeared while the checks were running count as well.
        let mut blockers = self.blockers_for(&asked.by, context.session);
        blockers.extend(Team::audit_blockers(&receipts));
        blockers.extend(self.unchanged_work(&done.worker, &receipts, context.session));
        let (blockers, allowed) = split_waived(blockers, &asked.allow);
        if blockers.is_empty() {
            let because = asked.because.clone();
            let granted = self.member_to_notify(&asked.by).map(|name| {
                let text = envelope::format_finish_granted(self);
                FinishReported { name, text }.into()
            });
            let ended = self.end_team(TeamPhase::Done { because }).unwrap_or_default();
            let allowed = waiver_event(allowed, asked.by.clone());
            allowed.into_iter().chain(granted).chain(ended).collect()
        } else {
            let text = envelope::format_finish_refused(&blockers);
            let asker = self.member_to_notify(&asked.by).filter(|name| self.member(name).is_some());
            let reply = asker.map(|to| self.provost_message(&to, format!("audit-{audit}"), text));
            [FinishRefused { blockers }.into()].into_iter().chain(reply).collect()
        }
    }

    /// Ends the team and its loop.
    pub(super) fn end_team(&self, phase: TeamPhase) -> TeamCommandResult {
        let end = if matches!(phase, TeamPhase::Done { .. }) {
            LoopEnd::Finished
        } else {
            LoopEnd::Stopped { because: format!("the team is {}", phase.as_str()) }
        };
        let by = TeamActor::Provost;
        let ended = self.running_loop().map(|_| LoopEnded { end, by }.into());
        Ok(ended.into_iter().chain([PhaseChanged { phase }.into()]).collect())
    }
}

/// Returns the event that records the waived blockers, if there are any.
fn waiver_event(blockers: Vec<FinishBlocker>, by: TeamActor) -> Option<Event> {
    (!blockers.is_empty()).then(|| FinishAllowed { blockers, by }.into())
}
